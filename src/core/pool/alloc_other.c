/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_other.c: requests for memory that is not the pool's own kind; cache/other_memory.c supplies
 * it.
 */
#include "core/guard/block_lookup.h"
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"

#include "base/error.h"

static vram_status alloc_other(vram_pool *handle, uint64_t size, vram_queue *queue,
                               const struct vram_alloc_options *options,
                               const struct vr_other *other, vram_addr *addr) {
    VR_OPERATION("vram_alloc");
    struct vr_request request = {.size = size,
                                 .queue = vr_queue_id_of(queue),
                                 .flags = other->flags,
                                 .other = other->kinds,
                                 .provided = other->provided,
                                 .name = options->name,
                                 .elements = options->elements};
    struct vr_pool *pool;
    if (!vr_block_bytes(size, &request.bytes)) {
        return vr_fail_size(size);
    }
    vram_status status = vr_pool_enter(handle, queue, &pool, &request.queue_object);
    if (status != VRAM_OK) {
        return status;
    }
    if (options->tag) {
        status = vr_tag_get(vr_ledger_of(pool->device), options->tag, &request.tag);
    }
    if (status == VRAM_OK && !vr_guard_widen(pool, &request)) {
        status = vr_fail(VRAM_ERR_OVERFLOW,
                         "a size of %llu bytes overflows when red zones are added; request less",
                         (unsigned long long)size);
    }
    if (status == VRAM_OK) {
        status = vr_pool_alloc_request(pool, &request, addr);
    }
    vr_pool_leave(pool, request.queue_object);
    return status;
}

vram_status vr_pool_alloc_other(vram_pool *pool, uint64_t size, vram_queue *queue,
                                const struct vram_alloc_options *options,
                                const struct vr_other *other, vram_addr *addr) {
    vram_status status;
    do { /* as vr_alloc_owned */
        status = alloc_other(pool, size, queue, options, other, addr);
    } while (status == VRAM_OK && !vr_pool_own((uintptr_t)pool, *addr, true));
    return status;
}
