/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem_calls.h: public calls on buffers as the library's own code makes them; see
 * device/device_calls.h. They take handles, enter and leave by themselves, and fail with the same
 * statuses and texts as the public calls, which are thin entries to these.
 */
#ifndef VR_MEM_CALLS_H
#define VR_MEM_CALLS_H

#include "vram/buffer.h"
#include "vram/growth.h"

/* ------------------------------------------------------ element types; precision.c */

uint32_t vr_precision_bytes(vram_precision precision);
const char *vr_precision_name(vram_precision precision);
vram_status vr_precision_size(vram_precision precision, uint64_t count, uint64_t *bytes);
/* The same for elements of `each` bytes, from 1. */
vram_status vr_elements_size(uint32_t each, uint64_t count, uint64_t *bytes);
const char *vr_buffer_kind_name(vram_buffer_kind kind);

/* -------------------------------------------- buffers; buffer.c, buffer_object.c */

vram_status vr_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                             const vram_buffer_options *options, vram_buffer **buffer);
vram_status vr_buffer_destroy(vram_buffer *handle);
vram_status vr_buffer_info_get(vram_buffer *handle, vram_buffer_info *info);
vram_status vr_buffer_addr(vram_buffer *handle, vram_addr *addr);
vram_status vr_buffer_host(vram_buffer *handle, void **pointer);

/* ------------------------------------------------- growth; growth.c, growth_policy.c */

vram_status vr_buffer_resize(vram_buffer *handle, uint64_t bytes, vram_queue *queue);
vram_status vr_buffer_growth_set(vram_buffer *handle, const vram_growth *given);
vram_status vr_buffer_growth_get(vram_buffer *handle, vram_growth_info *info);
/* vram_growth_next. vr_growth_next (growth_state.h) takes a policy that was read already. */
vram_status vr_growth_next_given(const vram_growth *given, uint64_t capacity, uint64_t needed,
                                 uint64_t *bytes);

#endif
