/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a cudaStream_t to the queue of libvram that adopted it. PyTorch does not destroy its
 * streams, so a row stays for the life of the process, and readers need no lock. Streams of others,
 * which may be destroyed, are not in it: Heap::alloc_external, Heap::use.
 */
#ifndef VRAM_TORCH_STREAM_TABLE_H
#define VRAM_TORCH_STREAM_TABLE_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <vram/shared.h>

namespace vram_torch {

class StreamTable {
  public:
    /* The queue of the stream: the one that others in the process use for it, or a new one. */
    vram_status get(vram_device *device, void *native, vram_queue **queue) {
        vram_queue *found = find(native);
        if (found != nullptr) {
            *queue = found;
            return VRAM_OK;
        }
        return adopt(device, native, queue);
    }

    /* Whether work on the stream has been seen; it lasts as long as the process then. */
    bool knows(void *native) const { return find(native) != nullptr; }

    /* Every queue so far. */
    std::vector<vram_queue *> queues();

  private:
    enum { ROWS = 2048 }; /* a power of two; at most half of them are used */

    struct Row {
        std::atomic<uintptr_t> key{0}; /* key_of(native); written last; 0: the row is free */
        vram_queue *queue = nullptr;
    };

    /* CUDA's legacy stream is 0 and its two special ones are 1 and 2: no key is 0. */
    static uintptr_t key_of(void *native) { return reinterpret_cast<uintptr_t>(native) + 3; }
    static size_t row_of(uintptr_t key) {
        return static_cast<size_t>((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (ROWS - 1);
    }

    vram_queue *find(void *native) const {
        uintptr_t key = key_of(native);
        for (size_t i = row_of(key);; i = (i + 1) & (ROWS - 1)) {
            uintptr_t there = rows_[i].key.load(std::memory_order_acquire);
            if (there == key) {
                return rows_[i].queue;
            }
            if (there == 0) {
                return nullptr;
            }
        }
    }

    vram_status adopt(vram_device *device, void *native, vram_queue **queue);

    Row rows_[ROWS];
    std::mutex mutex_; /* of adopting */
    size_t used_ = 0;  /* rows; under mutex_ */
};

} // namespace vram_torch

#endif
