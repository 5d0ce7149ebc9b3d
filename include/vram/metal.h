/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/metal.h: a program's own Metal device, given to libvram.
 *
 * A program that draws or computes with Metal has an MTLDevice already, and makes its pipelines and textures from
 * that very object. Adopted, it is the only device of the backend `metal`: memory of libvram is then
 * MTLBuffers of the program's own device (vram_native gives buffer and offset), and MTLCommandQueues that
 * the program made can be adopted (vram_queue_adopt), so that its command buffers and libvram's work stay in
 * one order. Without an adoption libvram uses the devices that Metal lists, whose queues can be adopted too.
 *
 * No header of Metal and no Objective-C is needed here: objects are passed as void pointers, which a
 * (__bridge void *) makes of them.
 */
#ifndef VRAM_METAL_H
#define VRAM_METAL_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What vram_context_options.metal points to. It is copied, and the device is retained until the context ends.
 * VRAM_ERR_INVALID, from vram_context_create, for NULL and for an object that is no MTLDevice.
 */
typedef struct vram_metal_adoption {
    size_t size;  /* sizeof(vram_metal_adoption) */
    void *device; /* id<MTLDevice> */
} vram_metal_adoption;

#ifdef __cplusplus
}
#endif

#endif
