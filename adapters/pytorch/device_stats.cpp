/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.cuda.memory_stats. Counts and bytes of blocks are PyTorch's and exact, and so are those of
 * segments: private pools have some; the device's pool has none, as PyTorch's expandable segments,
 * which are not counted either. Inactive split bytes are what the pool of libvram holds, serves no
 * block and is in no thread's cache.
 */
#include "allocator.h"

namespace vram_torch {

using Stat = c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

static Stat stat_of(const Count &count) {
    Stat stat;
    stat.current = count.current;
    stat.peak = count.peak;
    stat.allocated = count.allocated;
    stat.freed = count.freed;
    return stat;
}

static void fill(StatArray &array, const Count (&counts)[PARTS]) {
    for (size_t part = 0; part < PARTS; part++) {
        array[part] = stat_of(counts[part]);
    }
}

/* What is not small can serve any size: PyTorch's large_pool. */
static Count difference(const Count &all, const Count &part) {
    Count rest;
    rest.current = all.current - part.current;
    rest.peak = all.peak > part.peak ? all.peak - part.peak : 0;
    rest.peak = rest.peak > rest.current ? rest.peak : rest.current;
    rest.allocated = all.allocated > part.allocated ? all.allocated - part.allocated : 0;
    rest.freed = all.freed > part.freed ? all.freed - part.freed : 0;
    return rest;
}

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(c10::DeviceIndex device) {
    Heap &heap = this->heap(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    Counts counts = heap.statistics().get();
    Reserved reserved = heap.reserved();
    const vram_pool_stats &pool = reserved.now;

    fill(stats.allocation, counts.allocation);
    fill(stats.active, counts.active);
    fill(stats.allocated_bytes, counts.allocated_bytes);
    fill(stats.active_bytes, counts.active_bytes);
    fill(stats.requested_bytes, counts.requested_bytes);
    fill(stats.segment, counts.segment);

    stats.reserved_bytes[ALL] = stat_of(reserved.bytes);
    stats.reserved_bytes[SMALL] = stat_of(reserved.small_bytes);
    stats.reserved_bytes[LARGE] = stat_of(difference(reserved.bytes, reserved.small_bytes));

    Count split;
    int64_t used = static_cast<int64_t>(pool.allocated_bytes + pool.cached_bytes);
    split.current = static_cast<int64_t>(pool.reserved_bytes) - used;
    split.current = split.current > 0 ? split.current : 0;
    split.peak = split.current;
    stats.inactive_split_bytes[ALL] = stat_of(split);
    stats.inactive_split_bytes[LARGE] = stat_of(split);
    Count pieces;
    pieces.current = pieces.peak = static_cast<int64_t>(pool.spare_handles);
    stats.inactive_split[ALL] = stat_of(pieces);
    stats.inactive_split[LARGE] = stat_of(pieces);

    stats.num_alloc_retries = static_cast<int64_t>(pool.ladder_runs);
    stats.num_ooms = counts.ooms;
    stats.num_sync_all_streams = static_cast<int64_t>(pool.ladder_steps[VRAM_LADDER_FINISHED]);
    stats.num_device_alloc = static_cast<int64_t>(pool.driver_creates + pool.driver_allocs);
    stats.num_device_free = static_cast<int64_t>(pool.driver_releases + pool.driver_frees);
    stats.max_split_size = -1; /* any block may be split */
    return stats;
}

void Allocator::resetAccumulatedStats(c10::DeviceIndex device) {
    heap(device).reset_accumulated();
}

void Allocator::resetPeakStats(c10::DeviceIndex device) {
    heap(device).reset_peaks();
}

} // namespace vram_torch
