// SPDX-License-Identifier: Apache-2.0
//
// What ProcessGroupNCCL does with the allocator, without NCCL: it listens for segments of MemPools,
// registers those that exist in the order of their counters, and forgets them before they go.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>

#include <c10/cuda/CUDACachingAllocator.h>

#define TRACKER extern "C" __attribute__((visibility("default")))

namespace cca = c10::cuda::CUDACachingAllocator;

static std::mutex mutex;
static std::set<uintptr_t> registered;
static bool refusing;
static int wrong; // a segment that is not registered is forgotten, or has no counter

static void track(const cca::TraceEntry &entry) {
    std::lock_guard<std::mutex> guard(mutex);
    if (entry.action_ == cca::TraceEntry::SEGMENT_ALLOC) {
        if (refusing) {
            throw std::runtime_error("NCCL refuses");
        }
        registered.insert(static_cast<uintptr_t>(entry.addr_));
    } else if (entry.action_ == cca::TraceEntry::SEGMENT_FREE) {
        wrong += registered.erase(static_cast<uintptr_t>(entry.addr_)) == 0;
    }
}

TRACKER void tracker_attach(unsigned long long first, unsigned long long second) {
    cca::attachAllocatorTraceTracker(track);
    auto segments = cca::snapshot({first, second}).segments;
    std::sort(segments.begin(), segments.end(), [](const auto &a, const auto &b) {
        return a.registration_counter < b.registration_counter;
    });
    int64_t before = -1;
    for (const auto &segment : segments) {
        wrong += segment.registration_counter <= before;
        before = segment.registration_counter;
        std::lock_guard<std::mutex> guard(mutex);
        registered.insert(segment.address);
    }
}

TRACKER void tracker_refuse(bool refuse) {
    refusing = refuse;
}

TRACKER int tracker_count() {
    std::lock_guard<std::mutex> guard(mutex);
    return wrong != 0 ? -wrong : static_cast<int>(registered.size());
}
