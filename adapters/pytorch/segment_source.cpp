/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment_source.cpp: where private pools take segments from, and what is counted of it.
 */
#include "heap.h"

#include <cstdio>

namespace vram_torch {

static const char PRIVATE_TAG[] = "pytorch-pools"; /* of segments of private pools */

vram_status Heap::alloc_segment(uint64_t bytes, uintptr_t *addr) {
    const char *tag = options_.segment_tag ? options_.segment_tag() : nullptr;
    return tag == nullptr ? alloc_pool(bytes, nullptr, PRIVATE_TAG, addr)
                          : alloc_pool(bytes, nullptr, tag, addr, granule_);
}

SegmentSource Heap::own_source() {
    SegmentSource source;
    source.alloc = [this](uint64_t bytes, bool, uintptr_t *addr) {
        vram_status status = alloc_segment(bytes, addr);
        if (status == VRAM_OK) {
            segment_pin(*addr);
        }
        return status;
    };
    source.free = [this](uintptr_t addr, uint64_t, bool) {
        segment_unpin(addr);
        vram_free(addr, nullptr);
    };
    return source;
}

/* Other allocators' segments are unknown to libvram, which has nothing to pin there. */
void Heap::segment_pin(uintptr_t addr) {
    std::lock_guard<std::mutex> guard(pins_mutex_);
    if (pins_ && pinned_.count(addr) == 0 && vram_pin(addr) == VRAM_OK) {
        pinned_.insert(addr);
    }
}

void Heap::segment_unpin(uintptr_t addr) {
    std::lock_guard<std::mutex> guard(pins_mutex_);
    if (pinned_.erase(addr) != 0) {
        vram_unpin(addr);
    }
}

void Heap::segments_pin() {
    {
        std::lock_guard<std::mutex> guard(pins_mutex_);
        pins_ = true;
    }
    for (const std::shared_ptr<PrivatePool> &pool : pools()) {
        pool->for_segments([this](uintptr_t segment) { segment_pin(segment); });
    }
}

/* Whether another allocator may give so much more, under the limit of the fraction. */
vram_status Heap::foreign_check(uint64_t bytes) {
    vram_pool_stats stats = {};
    stats.size = sizeof stats;
    uint64_t most = allowed_bytes();
    if (most == UINT64_MAX) {
        return VRAM_OK;
    }
    for (int turn = 0; turn < 2; turn++) {
        vram_status status = vram_pool_stats_get(pool_, &stats);
        if (status != VRAM_OK) {
            return status;
        }
        uint64_t used = stats.reserved_bytes + static_cast<uint64_t>(foreign_bytes_.load());
        if (bytes <= most && used <= most - bytes) {
            return VRAM_OK;
        }
        vram_pool_trim(pool_, nullptr, nullptr); /* what is free may do */
    }
    vram_error error = {};
    error.status = VRAM_ERR_LIMIT;
    error.backend = error.operation = "";
    std::snprintf(error.text, sizeof error.text,
                  "%llu bytes of another allocator are more than the memory fraction allows",
                  static_cast<unsigned long long>(bytes));
    vram_error_set(&error);
    return VRAM_ERR_LIMIT;
}

void Heap::foreign_change(int64_t bytes) {
    foreign_bytes_ += bytes;
    if (fraction_.load() < 1) {
        limits_apply(); /* it was set before; a failure leaves the limit as it was */
    }
}

/* The same source, with what it gives counted. */
SegmentSource Heap::counted(PoolId id, SegmentSource source, bool own) {
    SegmentSource counted;
    auto count = [this, own](int64_t bytes, bool small) {
        private_small_bytes_ += small ? bytes : 0;
        statistics_.segment_changed(bytes > 0, small);
        if (!own) {
            foreign_change(bytes);
        }
    };
    auto alloc = std::move(source.alloc);
    auto free = std::move(source.free);
    counted.alloc = [this, own, alloc, count](uint64_t bytes, bool small, uintptr_t *addr) {
        vram_status status = own ? VRAM_OK : foreign_check(bytes);
        status = status == VRAM_OK ? alloc(bytes, small, addr) : status;
        if (status == VRAM_OK) {
            count(static_cast<int64_t>(bytes), small);
        }
        return status;
    };
    counted.free = [this, id, free, count](uintptr_t addr, uint64_t bytes, bool small) {
        if (options_.releasing) {
            options_.releasing(id, addr, bytes);
        }
        free(addr, bytes, small);
        count(-static_cast<int64_t>(bytes), small);
    };
    /* No marks while something is captured: the stream may have joined the capture. */
    counted.queue_of = [this](void *stream, vram_queue **queue) {
        return capturing() ? VRAM_ERR_CAPTURE : streams_.get(device_, stream, queue);
    };
    counted.graph = options_.graph;
    return counted;
}

} // namespace vram_torch
