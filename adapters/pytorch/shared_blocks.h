/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that other processes open (vram/share.h), for torch.multiprocessing. Like the heap it
 * knows nothing of PyTorch's classes.
 *
 * PyTorch sends tensors one by one, and an export costs descriptors on both sides. So an export
 * holds the block that is sent and live blocks that follow it in the order of addresses, which are
 * usually sent next. What is exported and never sent cannot be reused before the export ends: it is
 * at most a quarter of what was sent, or the least that a reader sees anyway.
 *
 * Threads: any thread may call anything. A mutex in each class guards all of it.
 */
#ifndef VRAM_TORCH_SHARED_BLOCKS_H
#define VRAM_TORCH_SHARED_BLOCKS_H

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <vram/share.h>

namespace vram_torch {

/* One block of an export. */
struct SharedPart {
    vram_share_token token;
    uint32_t index;
};

/* A block that may be exported with another. */
struct Neighbour {
    uintptr_t addr;
    uint64_t bytes;
};

/* What this process has exported. */
class ExportedBlocks {
  public:
    /* The part that stands for a block of libvram, exported now or earlier. `neighbours` are live
       blocks of the same pool with higher addresses, in order; it is asked only for a new export,
       and some of them may be freed meanwhile. */
    template <typename F>
    vram_status send(uintptr_t addr, uint64_t bytes, F neighbours, SharedPart *part) {
        std::lock_guard<std::mutex> guard(mutex_);
        if (find(addr, part)) {
            return VRAM_OK;
        }
        return export_new(addr, bytes, neighbours(), part);
    }
    /* The block is about to be freed. An export ends with the last block of it that was sent. */
    void freed(uintptr_t addr);
    /* False in programs that share nothing: freed() need not be called. */
    bool any() const { return count_.load(std::memory_order_acquire) != 0; }
    size_t exports();

  private:
    struct Export {
        vram_share *share;
        vram_share_token token;
        std::vector<uintptr_t> blocks;
        std::vector<bool> sent;
        size_t sent_count; /* live blocks of those */
    };
    struct Place {
        std::shared_ptr<Export> where;
        uint32_t index;
    };

    bool find(uintptr_t addr, SharedPart *part);
    vram_status export_new(uintptr_t addr, uint64_t bytes, const std::vector<Neighbour> &neighbours,
                           SharedPart *part);
    vram_status export_list(std::vector<uintptr_t> blocks);

    std::mutex mutex_;
    std::unordered_map<uintptr_t, Place> places_; /* of exported blocks */
    std::atomic<size_t> count_{0};                /* of places */
    uint64_t sent_bytes_ = 0;                     /* ever */
};

/* What this process has opened. */
class OpenedBlocks {
  public:
    /* The block's address here. The memory stays mapped as long as somebody has a pointer into its
       export. NULL, with the status and the thread's error record set, if that fails. */
    std::shared_ptr<void> open(vram_device *device, const SharedPart &part, vram_status *status);

  private:
    struct Opened;

    std::mutex mutex_;
    std::map<std::vector<uint8_t>, std::weak_ptr<Opened>> opened_; /* by token */
};

} // namespace vram_torch

#endif
