/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c: the options of a request.
 */
#include "core/limit/limit.h"
#include "core/pool/pool_calls.h"

#include "base/error.h"
#include "base/size.h"

vram_status vr_request_read(const struct vr_pool *pool, const vram_alloc_options *options,
                            struct vr_request *request) {
    VR_OPERATION("vram_alloc_with");
    struct vram_alloc_options taken;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken.alignment && (!vr_is_power_of_two(taken.alignment) || taken.alignment < 256 ||
                            taken.alignment > pool->granule)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "alignment %llu is invalid: use a power of two from 256 to %llu",
                       (unsigned long long)taken.alignment, (unsigned long long)pool->granule);
    }
    if (taken.flags &
        ~(uint32_t)(VRAM_ALLOC_CACHED_ONLY | VRAM_ALLOC_NO_WAIT | VRAM_ALLOC_NO_FALLBACK)) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags: 0x%x", taken.flags);
    }
    request->align = taken.alignment > VR_UNIT ? taken.alignment : 0;
    request->flags = taken.flags;
    vr_request_add_reserve(pool, taken.reserve_bytes, request);
    request->name = taken.name;
    request->elements = taken.elements;
    if (taken.tag && *taken.tag) {
        return vr_tag_get(vr_ledger_of(pool->device), taken.tag, &request->tag);
    }
    return VRAM_OK;
}

void vr_request_add_reserve(const struct vr_pool *pool, uint64_t reserve_bytes,
                            struct vr_request *request) {
    uint64_t bytes, reserve;
    if (reserve_bytes && pool->range && !vr_load(&pool->guard.modes, VR_RELAXED) &&
        !(request->flags & VRAM_ALLOC_CACHED_ONLY) &&
        vr_round_up(request->bytes, pool->granule, &bytes) &&
        vr_round_up(reserve_bytes, pool->granule, &reserve)) {
        request->bytes = bytes;
        request->reserve = reserve;
        request->align = pool->granule; /* no cached block serves a request with an alignment */
    }
}
