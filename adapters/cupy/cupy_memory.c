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
    _Atomic(vram_queue *) queue; /* a handle, which may have ended */
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

EXPORT void *vram_cupy_alloc(void *stream, size_t bytes, int device) {
    struct stream_record *record = stream;
    vram_queue *queue = atomic_load_explicit(&record->queue, memory_order_acquire);
    vram_addr addr = 0;
    if (queue == NULL || device != record->device ||
        record->alloc(record->pool, bytes, queue, &held_only, &addr) != VRAM_OK) {
        return NULL;
    }
    return (void *)(uintptr_t)addr;
}

EXPORT void vram_cupy_free(void *stream, void *block, int device) {
    struct stream_record *record = stream;
    vram_queue *queue = atomic_load_explicit(&record->queue, memory_order_acquire);
    vram_status status = record->release((vram_addr)(uintptr_t)block, queue);
    (void)device;
    if (queue != NULL && (status == VRAM_ERR_STALE || status == VRAM_ERR_INVALID)) {
        record->release((vram_addr)(uintptr_t)block, NULL);
    }
}
