/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/cupy/cupy_memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

struct stream_record {
    vram_cupy_alloc_fn alloc;    /* vram_alloc_with */
    vram_cupy_free_fn release;   /* vram_free */
    vram_pool *pool;             /* of the device, for as long as the process runs */
    _Atomic(vram_queue *) queue; /* a handle, which may have ended; NULL: none */
    _Atomic(long) live;          /* blocks that were allocated and not freed */
    int device;                  /* CuPy's number */
};

static const vram_alloc_options held_only = {
    .size = sizeof held_only, .flags = VRAM_ALLOC_CACHED_ONLY, .tag = "cupy"};

EXPORT int vram_cupy_abi(void) {
    return VRAM_CUPY_ABI;
}

EXPORT void *vram_cupy_stream_make(vram_cupy_alloc_fn alloc, vram_cupy_free_fn release,
                                   vram_pool *pool, int device) {
    struct stream_record *made = malloc(sizeof *made);
    if (made != NULL) {
        *made = (struct stream_record){
            .alloc = alloc, .release = release, .pool = pool, .device = device};
    }
    return made;
}

EXPORT void vram_cupy_stream_set(void *stream, vram_queue *queue) {
    struct stream_record *record = stream;
    atomic_store_explicit(&record->queue, queue, memory_order_release);
}

EXPORT int vram_cupy_stream_retire(void *stream) {
    struct stream_record *record = stream;
    if (atomic_load_explicit(&record->live, memory_order_acquire) != 0) {
        return 0;
    }
    atomic_store_explicit(&record->queue, NULL, memory_order_release);
    return 1;
}

EXPORT void *vram_cupy_alloc(void *stream, size_t bytes, int device) {
    struct stream_record *record = stream;
    vram_queue *queue = atomic_load_explicit(&record->queue, memory_order_acquire);
    vram_addr addr = 0;
    if (queue == NULL || device != record->device ||
        record->alloc(record->pool, bytes, queue, &held_only, &addr) != VRAM_OK) {
        return NULL;
    }
    atomic_fetch_add_explicit(&record->live, 1, memory_order_relaxed);
    return (void *)(uintptr_t)addr;
}

EXPORT void vram_cupy_free(void *stream, void *block, int device) {
    struct stream_record *record = stream;
    vram_queue *queue = atomic_load_explicit(&record->queue, memory_order_acquire);
    vram_status status = record->release((vram_addr)(uintptr_t)block, queue);
    (void)device;
    if (queue != NULL && (status == VRAM_ERR_STALE || status == VRAM_ERR_INVALID)) {
        status = record->release((vram_addr)(uintptr_t)block, NULL);
    }
    if (status == VRAM_OK) { /* else it was freed before, or the process exits */
        atomic_fetch_sub_explicit(&record->live, 1, memory_order_release);
    }
}
