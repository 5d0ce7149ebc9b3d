/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_device.c: contexts, devices, coarse memory, ranges, queues and kernels beside their
   ends. */
#include "race/race_table.h"

/* --------------------------------------------------------------------- contexts */

ROW(vram_context_destroy, CONTEXT, ROW_WALKS) {
    return vram_context_destroy(w->context);
}

ROW(vram_backend_count, CONTEXT, 0) {
    vram_backend_count(w->context);
    return VRAM_OK;
}

ROW(vram_backend_info_get, CONTEXT, 0) {
    LOOK(vram_backend_info, vram_backend_info_get(w->context, 0, &info));
}

ROW(vram_device_count, CONTEXT, 0) {
    vram_device_count(w->context);
    return VRAM_OK;
}

ROW(vram_device_info_get, CONTEXT, 0) {
    LOOK(vram_device_info, vram_device_info_get(w->context, 0, &info));
}

ROW(vram_device_best, CONTEXT, 0) {
    uint32_t index;
    return vram_device_best(w->context, &index);
}

ROW(vram_device_select, CONTEXT, 0) {
    vram_select_options options = {.size = sizeof options, .bytes = 1000};
    uint32_t index;
    return vram_device_select(w->context, &options, &index);
}

ROW(vram_model_select, CONTEXT, 0) {
    vram_model_select_options options = {.size = sizeof options, .bytes = 1000};
    vram_model_place place = {.size = sizeof place};
    return vram_model_select(w->context, &options, &place);
}

ROW(vram_device_open, CONTEXT, ROW_WALKS) {
    return vram_device_open(w->context, 0, &w->made.device);
}

/* The simulation's own calls. */

ROW(vram_sim_fault_set, CONTEXT, 0) {
    return vram_sim_fault_set(w->context, NULL);
}

ROW(vram_sim_state_get, CONTEXT, ROW_WALKS) {
    LOOK(vram_sim_state, vram_sim_state_get(w->context, &info));
}

ROW(vram_sim_clock_advance, CONTEXT, ROW_WALKS) {
    return vram_sim_clock_advance(w->context, 1000);
}

ROW(vram_sim_others_set, CONTEXT, 0) {
    return vram_sim_others_set(w->context, 0, 4096);
}

ROW(vram_sim_journal_get, CONTEXT, 0) {
    vram_sim_entry entry;
    return vram_sim_journal_get(w->context, 0, &entry);
}

ROW(vram_sim_violation, CONTEXT, ROW_INVALID) {
    char text[100];
    vram_status status = vram_sim_violation(w->context, 0, text, sizeof text);
    return status == VRAM_ERR_INVALID ? VRAM_OK : status; /* there is none */
}

/* ---------------------------------------------------------------------- devices */

ROW(vram_device_close, DEVICE, ROW_WALKS) {
    return vram_device_close(w->device);
}

ROW(vram_device_describe, DEVICE, 0) {
    LOOK(vram_device_info, vram_device_describe(w->device, &info));
}

ROW(vram_device_peer_enable, PEER, 0) {
    return vram_device_peer_enable(w->device, w->peer);
}

ROW(vram_memory_info_get, DEVICE, 0) {
    LOOK(vram_memory_info, vram_memory_info_get(w->device, &info));
}

ROW(vram_visibility_detect, DEVICE, 0) {
    vram_visibility visibility;
    char reason[VRAM_VISIBILITY_REASON_MAX];
    return vram_visibility_detect(w->device, NULL, &visibility, reason);
}

ROW(vram_device_alloc, DEVICE, 0) {
    return vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_DEVICE, &w->made.memory);
}

ROW_AS(vram_device_alloc, _pinned, DEVICE, 0) {
    return vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_PINNED, &w->made.memory);
}

ROW(vram_device_free, MEMORY, ROW_INVALID) {
    return vram_device_free(w->device, w->memory);
}

ROW(vram_device_advise, DEVICE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_MANAGED, &addr);
    return status ? status
                  : vram_device_advise(w->device, addr, COPY_BYTES, VRAM_ADVICE_READ_MOSTLY,
                                       VRAM_TARGET_OWN);
}

ROW(vram_native, MEMORY, ROW_INVALID) {
    LOOK(vram_native_info, vram_native(w->memory, &info));
}

ROW_AS(vram_native, _block, BLOCK, ROW_INVALID) {
    LOOK(vram_native_info, vram_native(w->spare, &info));
}

ROW(vram_range_create, DEVICE, 0) {
    return vram_range_create(w->device, 2 << 20, &w->made.range);
}

ROW(vram_range_destroy, RANGE, ROW_INVALID) {
    return vram_range_destroy(w->device, w->range);
}

ROW(vram_physical_create, DEVICE, 0) {
    return vram_physical_create(w->device, 2 << 20, &w->made.physical);
}

ROW(vram_physical_destroy, PHYSICAL, ROW_BUSY) {
    return vram_physical_destroy(w->physical);
}

ROW(vram_physical_bytes, PHYSICAL, 0) {
    vram_physical_bytes(w->physical);
    return VRAM_OK;
}

ROW(vram_range_map, RANGE, ROW_INVALID) {
    return vram_range_map(w->device, w->range, &w->physical, 1);
}

ROW(vram_range_unmap, RANGE, ROW_INVALID | ROW_BUSY) {
    vram_status status = vram_range_map(w->device, w->range, &w->physical, 1);
    return status ? status : vram_range_unmap(w->device, w->range, 2 << 20);
}

/* A handle of the program's own has no shared pool: the call ends before it looks for one. */
ROW(vram_pool_shared, DEVICE, ROW_INVALID) {
    vram_pool *pool;
    vram_status status = vram_pool_shared(w->device, &pool);
    return status == VRAM_ERR_INVALID ? VRAM_OK : status;
}

/* ----------------------------------------------------------------------- queues */

ROW(vram_queue_create, DEVICE, 0) {
    return vram_queue_create(w->device, NULL, &w->made.queue);
}

ROW(vram_queue_destroy, QUEUE, 0) {
    return vram_queue_destroy(w->queue);
}

ROW(vram_queue_adopt, DEVICE, 0) {
    static int native;
    vram_queue *queue;
    vram_status status = vram_queue_adopt(w->device, &native, &queue);
    return status ? status : vram_queue_end(queue);
}

ROW(vram_queue_shared, DEVICE, 0) {
    static int native;
    vram_queue *queue;
    vram_status status = vram_queue_shared(w->device, &native, &queue);
    return status ? status : vram_queue_end(queue);
}

ROW(vram_queue_end, ADOPTED, 0) {
    return vram_queue_end(w->adopted);
}

ROW(vram_capture_begin, ADOPTED, 0) {
    return vram_capture_begin(w->adopted, &w->captured);
}

ROW(vram_capture_end, CAPTURED, 0) {
    return vram_capture_end(w->captured);
}

ROW(vram_queue_native, QUEUE, 0) {
    void *native;
    return vram_queue_native(w->queue, &native);
}

ROW(vram_queue_poll, QUEUE, ROW_NOT_READY) {
    return vram_queue_poll(w->queue);
}

ROW(vram_queue_wait, QUEUE, 0) {
    return vram_queue_wait(w->queue, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_queue_mark, QUEUE, 0) {
    return vram_queue_mark(w->queue, &w->point);
}

ROW(vram_point_poll, POINT, ROW_NOT_READY) {
    return vram_point_poll(w->point);
}

ROW(vram_point_wait, POINT, 0) {
    return vram_point_wait(w->point, VRAM_TIMEOUT_DEFAULT);
}

/* Of a queue that ends, and on it. */
ROW(vram_queue_after, POINT, 0) {
    return vram_queue_after(w->other, w->point);
}

ROW_AS(vram_queue_after, _itself, QUEUE, 0) {
    vram_point point;
    vram_status status = vram_queue_mark(w->other, &point);
    return status ? status : vram_queue_after(w->queue, point);
}

ROW(vram_queue_upload, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    return vram_queue_upload(w->queue, w->block, w->host, COPY_BYTES);
}

ROW(vram_queue_download, QUEUE, ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    return vram_queue_download(w->queue, w->host, w->block, COPY_BYTES);
}

ROW(vram_queue_copy, QUEUE, ROW_USES_BLOCK | ROW_INVALID) {
    return vram_queue_copy(w->queue, w->block, w->block + COPY_BYTES / 2, COPY_BYTES / 2);
}

ROW_AS(vram_queue_copy, _peer, PEER, ROW_USES_QUEUE | ROW_INVALID) {
    vram_addr from;
    vram_status status = vram_device_peer_enable(w->device, w->peer);
    status = status ? status : vram_device_alloc(w->peer, COPY_BYTES, VRAM_MEMORY_DEVICE, &from);
    return status ? status : vram_queue_copy(w->queue, w->block, from, COPY_BYTES);
}

ROW(vram_queue_fill, QUEUE, ROW_USES_BLOCK | ROW_INVALID) {
    return vram_queue_fill(w->queue, w->block, 1, 1, COPY_BYTES);
}

ROW(vram_queue_prefetch, QUEUE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_MANAGED, &addr);
    return status ? status : vram_queue_prefetch(w->queue, addr, COPY_BYTES, VRAM_TARGET_OWN);
}

/* ---------------------------------------------------------------------- kernels */

static void nothing(const vram_kernel_call *call) {
    (void)call;
}

ROW(vram_kernel_create, DEVICE, 0) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)nothing,
                                 .entry = "nothing"};
    return vram_kernel_create(w->device, &source, &w->made.kernel);
}

ROW(vram_kernel_destroy, KERNEL, 0) {
    return vram_kernel_destroy(w->kernel);
}

/* Beside the ends of queue and device only: a program destroys a kernel after waiting for its
   launches. */
ROW(vram_queue_launch, QUEUE, 0) {
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)nothing,
                                 .entry = "nothing"};
    vram_status status = vram_kernel_create(w->device, &source, &w->made.kernel);
    return status ? status : vram_queue_launch(w->queue, w->made.kernel, &launch);
}
