/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_calls.h: public calls on contexts, devices, queues, points and kernels for the library's
 * own code, which calls no public functions. Each does what the public call of the same name does:
 * it takes handles, enters and leaves by itself, and fails with the same statuses and texts. The
 * public functions are thin entries to these.
 */
#ifndef VR_DEVICE_CALLS_H
#define VR_DEVICE_CALLS_H

#include "vram/device.h"
#include "vram/queue.h"

/* ------------------------------------------- contexts and devices; context.c, device.c */

/* vram_context_create and _destroy, vram_device_open and _close; vr_device_open and _close are the
   backend's (ops.h). */
vram_status vr_context_make(const vram_context_options *options, vram_context **out);
vram_status vr_context_end(vram_context *handle);
vram_status vr_device_make(vram_context *handle, uint32_t index, vram_device **out);
vram_status vr_device_end(vram_device *handle);
vram_status vr_memory_info_get(vram_device *handle, vram_memory_info *info);
bool vr_device_same(const vram_device_info *a, const vram_device_info *b); /* selection.c */

/* ------------------------------------------------------------------- memory; coarse.c */

vram_status vr_device_alloc(vram_device *handle, uint64_t bytes, vram_memory_kind kind,
                            vram_addr *addr);
vram_status vr_device_free(vram_device *handle, vram_addr addr);
vram_status vr_native_get(vram_addr addr, vram_native_info *info);

/* ------------------------------------------------------------------- queues; queue.c */

/* vram_queue_create and _destroy; vr_queue_create and _destroy are the backend's (ops.h). */
vram_status vr_queue_make(vram_device *handle, const vram_queue_options *options, vram_queue **out);
vram_status vr_queue_end(vram_queue *handle);
/* vram_queue_adopt; vr_queue_adopt is the backend's. */
vram_status vr_queue_take(vram_device *handle, void *native, vram_queue **out);

/* ------------------------------------------------------------------- points; point.c */

vram_status vr_submit_mark(vram_queue *handle, vram_point *point);
vram_status vr_submit_after(vram_queue *handle, vram_point point);
vram_status vr_point_poll(vram_point point);
vram_status vr_point_wait(vram_point point, uint64_t timeout);
vram_status vr_queue_wait(vram_queue *handle, uint64_t timeout);
vram_status vr_queue_done(vram_queue *handle); /* vram_queue_poll */

/* ---------------------------------- work, checked against live memory; transfer.c, kernel.c */

vram_status vr_submit_upload(vram_queue *handle, vram_addr to, const void *from, uint64_t bytes);
vram_status vr_submit_download(vram_queue *handle, void *to, vram_addr from, uint64_t bytes);
vram_status vr_submit_copy(vram_queue *handle, vram_addr to, vram_addr from, uint64_t bytes);
vram_status vr_submit_fill(vram_queue *handle, vram_addr to, uint32_t pattern,
                           uint32_t pattern_bytes, uint64_t bytes);
vram_status vr_submit_prefetch(vram_queue *handle, vram_addr addr, uint64_t bytes, int32_t target);
vram_status vr_device_advise(vram_device *handle, vram_addr addr, uint64_t bytes,
                             vram_advice advice, int32_t target);
vram_status vr_submit_launch(vram_queue *queue_handle, vram_kernel *kernel_handle,
                             const vram_launch *launch);
vram_status vr_kernel_create(vram_device *handle, const vram_kernel_source *source,
                             vram_kernel **out);
vram_status vr_kernel_destroy(vram_kernel *handle);

#endif
