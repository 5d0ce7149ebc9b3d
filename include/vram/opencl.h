/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/opencl.h: a program's own OpenCL context, adopted by libvram.
 *
 * A program that has a cl_context can only use memory of that context in its commands. If it is
 * adopted, its device is the only one of the backend `opencl`, and libvram makes everything in the
 * program's context: memory consists of its buffers or pointers (vram_native gives the cl_mem of a
 * block), and queues that the program made in it can be adopted (vram_queue_adopt). Without an
 * adoption every opened device has a context of its own.
 *
 * No header of OpenCL is needed: handles are passed as void pointers, which they are.
 */
#ifndef VRAM_OPENCL_H
#define VRAM_OPENCL_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What vram_context_options.opencl points to. It is copied. The context must come from the loader
 * that libvram uses (libOpenCL.so.1, or the option opencl_library). libvram retains it while one of
 * its devices is open, and the program keeps it at least until vram_context_create has returned.
 * The context may have several devices, but drivers may move its memory between them.
 */
typedef struct vram_opencl_adoption {
    size_t size;   /* sizeof(vram_opencl_adoption) */
    void *context; /* cl_context */
    void *device;  /* cl_device_id, one of the context's, of OpenCL 1.2 or later */
} vram_opencl_adoption;

#ifdef __cplusplus
}
#endif

#endif
