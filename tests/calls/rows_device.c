/* SPDX-License-Identifier: Apache-2.0 */
/* rows_device.c: contexts, devices, coarse memory, ranges, queues and kernels beside their
   ends. */
#include "calls/call_table.h"

/* --------------------------------------------------------------------- contexts */

CALL_WITH(vram_context_create, CONTEXT, 0,
          SIZED(vram_context_options, .backends = "sim", .sim = "memory=64M,devices=2"),
          &w->made.context);
CALL_WITH(vram_context_destroy, CONTEXT, ROW_WALKS | ROW_NEVER_FAILS, OR_NULL(w->context));

CALL(vram_backend_count, CONTEXT, 0) {
    vram_backend_count(w->context);
    return VRAM_OK;
}

CALL_WITH(vram_backend_info_get, CONTEXT, 0, w->context, 0, TOLD(vram_backend_info));

CALL(vram_device_count, CONTEXT, 0) {
    vram_device_count(w->context);
    return VRAM_OK;
}

CALL_WITH(vram_device_info_get, CONTEXT, 0, w->context, 0, TOLD(vram_device_info));
CALL_WITH(vram_device_best, CONTEXT, 0, w->context, OUT(uint32_t));
CALL_WITH(vram_device_select, CONTEXT, 0, w->context, SIZED(vram_select_options, .bytes = 1000),
          OUT(uint32_t));
CALL_WITH(vram_model_select, CONTEXT, 0, w->context,
          SIZED(vram_model_select_options, .bytes = 1000), PLAIN(vram_model_place));
CALL_WITH(vram_device_open, CONTEXT, ROW_WALKS, w->context, 0, &w->made.device);

/* The simulation's own calls. */

CALL_WITH(vram_sim_fault_set, CONTEXT, 0, w->context, NULL);

CALL_AS(vram_sim_fault_set, plan, CONTEXT, ROW_ALONE) {
    vram_sim_fault plan = {.size = sizeof plan, .nth = 1000000, .code = VRAM_SIM_OUT_OF_MEMORY};
    vram_status status = TRY(vram_sim_fault_set, w->context, &plan);
    vram_sim_fault_set(w->context, NULL);
    return status;
}

CALL_WITH(vram_sim_state_get, CONTEXT, ROW_WALKS, w->context, TOLD(vram_sim_state));
CALL_WITH(vram_sim_clock_advance, CONTEXT, ROW_WALKS, w->context, ANY(1000));
CALL_WITH(vram_sim_others_set, CONTEXT, 0, w->context, 0, ANY(4096));
CALL_WITH(vram_sim_journal_get, CONTEXT, 0, w->context, 0, OUT(vram_sim_entry));

CALL(vram_sim_violation, CONTEXT, ROW_INVALID) {
    char text[100];
    vram_status status = TRY(vram_sim_violation, w->context, 0, text, sizeof text);
    return status == VRAM_ERR_INVALID ? VRAM_OK : status; /* there is none */
}

/* ---------------------------------------------------------------------- devices */

CALL_WITH(vram_device_close, DEVICE, ROW_WALKS | ROW_NEVER_FAILS, OR_NULL(w->device));
CALL_WITH(vram_device_describe, DEVICE, 0, w->device, TOLD(vram_device_info));
CALL_WITH(vram_device_peer_enable, PEER, 0, w->device, w->peer);
CALL_WITH(vram_memory_info_get, DEVICE, 0, w->device, TOLD(vram_memory_info));

CALL(vram_visibility_detect, DEVICE, 0) {
    vram_visibility visibility;
    char reason[VRAM_VISIBILITY_REASON_MAX];
    return TRY(vram_visibility_detect, w->device, NULL, &visibility, OR_NULL(reason));
}

CALL_WITH(vram_device_alloc, DEVICE, 0, w->device, COPY_BYTES, VRAM_MEMORY_DEVICE, &w->made.memory);
CALL_WITH_AS(vram_device_alloc, pinned, DEVICE, 0, w->device, COPY_BYTES, VRAM_MEMORY_PINNED,
             &w->made.memory);
CALL_WITH_AS(vram_device_alloc, managed, DEVICE, 0, w->device, COPY_BYTES, VRAM_MEMORY_MANAGED,
             &w->made.memory);

CALL_AS(vram_device_free, pinned, DEVICE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_PINNED, &addr);
    return status ? status : TRY(vram_device_free, w->device, addr);
}

CALL_AS(vram_device_free, managed, DEVICE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_MANAGED, &addr);
    return status ? status : TRY(vram_device_free, w->device, addr);
}

CALL_WITH(vram_device_free, MEMORY, ROW_INVALID, w->device, w->memory);

CALL(vram_device_advise, DEVICE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_MANAGED, &addr);
    return status ? status
                  : TRY(vram_device_advise, w->device, addr, COPY_BYTES, VRAM_ADVICE_READ_MOSTLY,
                        ANY(VRAM_TARGET_OWN));
}

CALL_WITH(vram_native, MEMORY, ROW_INVALID, w->memory, TOLD(vram_native_info));
CALL_WITH_AS(vram_native, block, BLOCK, ROW_INVALID, w->spare, TOLD(vram_native_info));
CALL_WITH(vram_range_create, DEVICE, 0, w->device, 2 << 20, &w->made.range);
CALL_WITH(vram_range_destroy, RANGE, ROW_INVALID, w->device, w->range);
CALL_WITH(vram_physical_create, DEVICE, 0, w->device, 2 << 20, &w->made.physical);
CALL_WITH(vram_physical_destroy, PHYSICAL, ROW_BUSY, OR_NULL(w->physical));

CALL(vram_physical_bytes, PHYSICAL, 0) {
    vram_physical_bytes(w->physical);
    return VRAM_OK;
}

CALL_WITH(vram_range_map, RANGE, ROW_INVALID | ROW_LOSES, w->device, w->range, &w->physical,
          FIXED(1));

CALL_AFTER(vram_range_unmap, RANGE, ROW_INVALID | ROW_BUSY | ROW_PARTIAL,
           vram_range_map(w->device, w->range, &w->physical, 1), w->device, w->range, 2 << 20);

/* Three handles, of one granule, two and three. */
struct pieces {
    vram_physical *at[3];
    uint64_t granule;
};

static vram_status pieces_make(struct world *w, struct pieces *pieces) {
    vram_device_info info = {.size = sizeof info};
    vram_status status = vram_device_describe(w->device, &info);
    pieces->granule = info.vmm_granule.value;
    for (uint64_t i = 0; i < 3 && status == VRAM_OK; i++) {
        status = vram_physical_create(w->device, (i + 1) * pieces->granule, &pieces->at[i]);
    }
    status = status ? status : vram_range_create(w->device, 6 * pieces->granule, &w->made.range);
    w->range = w->made.range;
    return status;
}

/* Unmaps from the first that is mapped on, as a program does that goes on behind a failure. */
static vram_status pieces_unmap(struct world *w, const struct pieces *pieces) {
    vram_status status = VRAM_ERR_INVALID;
    for (uint64_t i = 0, offset = 0; i < 3 && status == VRAM_ERR_INVALID; offset += ++i) {
        status = vram_range_unmap(w->device, w->range + offset * pieces->granule,
                                  (6 - offset) * pieces->granule);
    }
    return status;
}

static vram_status pieces_end(struct world *w, struct pieces *pieces, vram_status status) {
    const uint64_t offsets[] = {0, 1, 3};
    for (int i = 2; i >= 0; i--) {
        (void)vram_range_unmap(w->device, w->range + offsets[i] * pieces->granule,
                               (6 - offsets[i]) * pieces->granule);
    }
    for (int i = 0; i < 3; i++) {
        vram_physical_destroy(pieces->at[i]);
    }
    return status;
}

CALL_AS(vram_range_map, pieces, DEVICE, ROW_INVALID | ROW_LOSES) {
    struct pieces pieces = {.granule = 0};
    vram_status status = pieces_make(w, &pieces);
    status = status ? status : TRY(vram_range_map, w->device, w->range, pieces.at, FIXED(3));
    return pieces_end(w, &pieces, status);
}

CALL_AS(vram_range_unmap, pieces, DEVICE, ROW_INVALID | ROW_PARTIAL) {
    struct pieces pieces = {.granule = 0};
    vram_status status = pieces_make(w, &pieces);
    status = status ? status : vram_range_map(w->device, w->range, pieces.at, 3);
    status = status ? status : TRY(pieces_unmap, FIXED(w), FIXED(&pieces));
    return pieces_end(w, &pieces, status);
}

/* A handle of the program's own has no shared pool: the call ends before it looks for one. */
CALL(vram_pool_shared, DEVICE, ROW_INVALID) {
    vram_pool *pool;
    vram_status status = TRY(vram_pool_shared, w->device, &pool);
    return status == VRAM_ERR_INVALID ? VRAM_OK : status;
}

/* ----------------------------------------------------------------------- queues */

CALL_WITH(vram_queue_create, DEVICE, 0, w->device, NULL, &w->made.queue);
CALL_WITH_AS(vram_queue_create, options, DEVICE, 0, w->device, PLAIN(vram_queue_options),
             &w->made.queue);
CALL_WITH(vram_queue_destroy, QUEUE, 0, OR_NULL(w->queue));

CALL(vram_queue_adopt, DEVICE, 0) {
    static int native;
    vram_queue *queue;
    vram_status status = TRY(vram_queue_adopt, w->device, OR_NULL(&native), &queue);
    return status ? status : vram_queue_end(queue);
}

CALL(vram_queue_shared, DEVICE, 0) {
    static int native;
    vram_queue *queue;
    vram_status status = TRY(vram_queue_shared, w->device, OR_NULL(&native), &queue);
    return status ? status : vram_queue_end(queue);
}

CALL_WITH(vram_queue_end, ADOPTED, 0, OR_NULL(w->adopted));
CALL_WITH(vram_capture_begin, ADOPTED, 0, w->adopted, &w->captured);
CALL_WITH(vram_capture_end, CAPTURED, 0, OR_NULL(w->captured));
CALL_WITH(vram_queue_native, QUEUE, 0, w->queue, OUT(void *));
CALL_WITH(vram_queue_poll, QUEUE, ROW_NOT_READY, w->queue);
CALL_WITH(vram_queue_wait, QUEUE, 0, w->queue, ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH(vram_queue_mark, QUEUE, 0, w->queue, &w->point);
CALL_WITH(vram_point_poll, POINT, ROW_NOT_READY, w->point);
CALL_WITH(vram_point_wait, POINT, 0, w->point, ANY(VRAM_TIMEOUT_DEFAULT));

/* Of a queue that ends, and on it. */
CALL_WITH(vram_queue_after, POINT, 0, w->other, w->point);

CALL_AS(vram_queue_after, itself, QUEUE, 0) {
    vram_point point;
    vram_status status = vram_queue_mark(w->other, &point);
    return status ? status : TRY(vram_queue_after, w->queue, point);
}

CALL_WITH(vram_queue_upload, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID, w->queue, w->block,
          w->host, LENGTH(COPY_BYTES));
CALL_WITH(vram_queue_download, QUEUE, ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID, w->queue,
          w->host, w->block, LENGTH(COPY_BYTES));
CALL_WITH(vram_queue_copy, QUEUE, ROW_USES_BLOCK | ROW_INVALID, w->queue, w->block,
          w->block + COPY_BYTES / 2, COPY_BYTES / 2);

CALL_AS(vram_queue_copy, peer, PEER, ROW_USES_QUEUE | ROW_INVALID) {
    vram_addr from;
    vram_status status = vram_device_peer_enable(w->device, w->peer);
    status = status ? status : vram_device_alloc(w->peer, COPY_BYTES, VRAM_MEMORY_DEVICE, &from);
    return status ? status : TRY(vram_queue_copy, w->queue, w->block, from, COPY_BYTES);
}

CALL_WITH(vram_queue_fill, QUEUE, ROW_USES_BLOCK | ROW_INVALID, w->queue, w->block, ANY(1), ANY(1),
          COPY_BYTES);

CALL(vram_queue_prefetch, QUEUE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_device_alloc(w->device, COPY_BYTES, VRAM_MEMORY_MANAGED, &addr);
    return status ? status
                  : TRY(vram_queue_prefetch, w->queue, addr, COPY_BYTES, ANY(VRAM_TARGET_OWN));
}

/* ---------------------------------------------------------------------- kernels */

static void nothing(const vram_kernel_call *call) {
    (void)call;
}

CALL_WITH(vram_kernel_create, DEVICE, 0, w->device,
          SIZED(vram_kernel_source, .format = VRAM_KERNEL_C,
                .code = (const void *)(uintptr_t)nothing, .entry = "nothing"),
          &w->made.kernel);
CALL_WITH(vram_kernel_destroy, KERNEL, 0, OR_NULL(w->kernel));

/* Beside the ends of queue and device only: a program destroys a kernel after waiting for its
   launches. */
CALL(vram_queue_launch, QUEUE, 0) {
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)nothing,
                                 .entry = "nothing"};
    vram_status status = vram_kernel_create(w->device, &source, &w->made.kernel);
    return status ? status : TRY(vram_queue_launch, w->queue, w->made.kernel, &launch);
}

/* With a width of its groups and an argument of so many bytes. */
static vram_status launch_sized(vram_queue *queue, vram_kernel *kernel, uint32_t width,
                                uint32_t count, size_t bytes) {
    static const unsigned char value[4096];
    const void *arguments[32];
    size_t sizes[32];
    for (int i = 0; i < 32; i++) {
        arguments[i] = value;
        sizes[i] = i ? 64 : bytes;
    }
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {width, 1, 1},
                          .argument_count = count,
                          .arguments = arguments,
                          .argument_bytes = sizes};
    return vram_queue_launch(queue, kernel, &launch);
}

CALL_AS(vram_queue_launch, arguments, KERNEL, ROW_USES_QUEUE | ROW_ALONE) {
    return TRY(launch_sized, w->queue, w->kernel, ANY(1), ANY(2), 64);
}
