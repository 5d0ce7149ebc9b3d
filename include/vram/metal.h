/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/metal.h: a program's own Metal device, adopted by libvram.
 *
 * A program that draws or computes with Metal has an MTLDevice already, and makes its pipelines and
 * textures from that object. If it is adopted, it is the only device of the backend `metal`. Memory
 * of libvram then consists of MTLBuffers of the program's device (vram_native gives buffer and
 * offset). The program's MTLCommandQueues can be adopted too (vram_queue_adopt), so that its
 * command buffers and libvram's work stay in one order. Without an adoption libvram uses the
 * devices that Metal lists, whose queues can be adopted as well.
 *
 * No header of Metal and no Objective-C is needed: objects are passed as void pointers, by a
 * (__bridge void *).
 */
#ifndef VRAM_METAL_H
#define VRAM_METAL_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What vram_context_options.metal points to. It is copied, and the device is retained until the
 * context ends. vram_context_create returns VRAM_ERR_INVALID for NULL and for an object that is not
 * an MTLDevice.
 */
typedef struct vram_metal_adoption {
    size_t size;  /* sizeof(vram_metal_adoption) */
    void *device; /* id<MTLDevice> */
} vram_metal_adoption;

#ifdef __cplusplus
}
#endif

#endif
