/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's counters of one device, exact at every moment: current, peak, and what was ever
 * allocated and freed, over all blocks, small ones (at most 1 MiB) and large ones. All of them
 * change together under one lock of some nanoseconds, because a peak needs the sum of all threads.
 */
#ifndef VRAM_TORCH_STATISTICS_H
#define VRAM_TORCH_STATISTICS_H

#include <cstdint>
#include <mutex>

#include "live_blocks.h"

namespace vram_torch {

struct Count {
    int64_t current = 0, peak = 0, allocated = 0, freed = 0;

    void add(uint64_t amount) {
        current += static_cast<int64_t>(amount);
        peak = peak > current ? peak : current;
        allocated += static_cast<int64_t>(amount);
    }
    void take(uint64_t amount) {
        current -= static_cast<int64_t>(amount);
        freed += static_cast<int64_t>(amount);
    }
    void reset_peak() { peak = current; }
    void reset_accumulated() { allocated = freed = 0; }
};

enum Part { ALL = 0, SMALL = 1, LARGE = 2, PARTS = 3 }; /* c10's StatType */

/* A block is active from its allocation until no stream uses it any more: longer than it is
   allocated if it was freed while another stream used it. */
struct Counts {
    Count allocation[PARTS], active[PARTS];
    Count allocated_bytes[PARTS], active_bytes[PARTS], requested_bytes[PARTS];
    Count segment[PARTS];   /* of private pools, which alone have segments */
    Count private_bytes;    /* of allocated_bytes, in private pools */
    Count pool_small_bytes; /* of active_bytes, small blocks of the device's pool */
    int64_t ooms = 0;
};

class Statistics {
  public:
    void block_allocated(const Block &block) {
        std::lock_guard<SpinLock> guard(lock_);
        for (Part part : {ALL, block.small ? SMALL : LARGE}) {
            counts_.allocation[part].add(1);
            counts_.active[part].add(1);
            counts_.allocated_bytes[part].add(block.held);
            counts_.active_bytes[part].add(block.held);
            counts_.requested_bytes[part].add(block.requested);
        }
        if (block.source == Source::PRIVATE) {
            counts_.private_bytes.add(block.held);
        } else if (block.small) {
            counts_.pool_small_bytes.add(block.held);
        }
    }

    /* `idle`: no stream uses it any more, or block_idle follows later. */
    void block_freed(const Block &block, bool idle) {
        std::lock_guard<SpinLock> guard(lock_);
        for (Part part : {ALL, block.small ? SMALL : LARGE}) {
            counts_.allocation[part].take(1);
            counts_.allocated_bytes[part].take(block.held);
            if (idle) {
                counts_.active[part].take(1);
                counts_.active_bytes[part].take(block.held);
                counts_.requested_bytes[part].take(block.requested);
            }
        }
        if (block.source == Source::PRIVATE) {
            counts_.private_bytes.take(block.held);
        } else if (block.small) {
            counts_.pool_small_bytes.take(block.held);
        }
    }

    void block_idle(uint64_t held, uint64_t requested, bool small) {
        std::lock_guard<SpinLock> guard(lock_);
        for (Part part : {ALL, small ? SMALL : LARGE}) {
            counts_.active[part].take(1);
            counts_.active_bytes[part].take(held);
            counts_.requested_bytes[part].take(requested);
        }
    }

    void segment_changed(bool more, bool small) {
        std::lock_guard<SpinLock> guard(lock_);
        for (Part part : {ALL, small ? SMALL : LARGE}) {
            more ? counts_.segment[part].add(1) : counts_.segment[part].take(1);
        }
    }

    void out_of_memory() {
        std::lock_guard<SpinLock> guard(lock_);
        counts_.ooms++;
    }

    Counts get() {
        std::lock_guard<SpinLock> guard(lock_);
        return counts_;
    }

    void reset_peaks() {
        std::lock_guard<SpinLock> guard(lock_);
        each([](Count &count) { count.reset_peak(); });
    }

    void reset_accumulated() {
        std::lock_guard<SpinLock> guard(lock_);
        each([](Count &count) { count.reset_accumulated(); });
        counts_.ooms = 0;
    }

  private:
    template <typename F> void each(F change) {
        for (int part = 0; part < PARTS; part++) {
            change(counts_.allocation[part]);
            change(counts_.active[part]);
            change(counts_.allocated_bytes[part]);
            change(counts_.active_bytes[part]);
            change(counts_.requested_bytes[part]);
            change(counts_.segment[part]);
        }
        change(counts_.private_bytes);
        change(counts_.pool_small_bytes);
    }

    SpinLock lock_;
    Counts counts_; /* under lock_ */
};

} // namespace vram_torch

#endif
