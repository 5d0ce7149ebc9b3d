/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live blocks by address: what PyTorch does not say when it frees one. The table is split into
 * shards with a lock each, so threads that work on different blocks rarely meet.
 */
#ifndef VRAM_TORCH_LIVE_BLOCKS_H
#define VRAM_TORCH_LIVE_BLOCKS_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include <vram/queue.h>

#include "spin_lock.h"

namespace vram_torch {

class PrivatePool;

/* Where the memory of a block comes from. */
enum class Source : uint8_t {
    POOL,    /* the device's pool of libvram */
    PRIVATE, /* a private pool: a captured graph or a torch.cuda.MemPool */
    DRIVER   /* cudaMalloc, while caching is turned off */
};

struct Block {
    uintptr_t addr = 0;           /* 0: none */
    uint64_t requested = 0;       /* bytes, as asked for */
    uint64_t held = 0;            /* bytes, rounded as PyTorch rounds: to 512 */
    void *stream = nullptr;       /* cudaStream_t of the allocation */
    vram_queue *queue = nullptr;  /* of that stream */
    PrivatePool *owner = nullptr; /* of Source::PRIVATE */
    int32_t device = 0;
    Source source = Source::POOL;
    bool small = false; /* counts for PyTorch's small_pool: at most 1 MiB */
};

class BlockTable {
  public:
    /* Throws std::bad_alloc; the table is unchanged then. */
    void insert(const Block &block);
    /* Takes the block at `addr` out. False if there is none. */
    bool remove(uintptr_t addr, Block *block);
    bool find(uintptr_t addr, Block *block);
    /* All live blocks of a device, in the order of addresses. */
    std::vector<Block> blocks(int device);
    /* The block that `addr` lies in; false if there is none. Slow: looks at all. */
    bool find_around(uintptr_t addr, Block *block);

  private:
    enum { SHARDS = 64 };

    /* Open addressing with linear probing; a removal moves later rows back, so there are no
       tombstones. At most half of the rows are used. */
    struct alignas(64) Shard {
        SpinLock lock;
        std::vector<Block> rows;
        size_t used = 0;
    };

    static uint64_t hash_of(uintptr_t addr) {
        return (static_cast<uint64_t>(addr) >> 9) * UINT64_C(0x9E3779B97F4A7C15);
    }
    Shard &shard_of(uint64_t hash) { return shards_[hash >> 58]; }
    static size_t home_of(const Shard &shard, uint64_t hash) {
        return static_cast<size_t>(hash >> 20) & (shard.rows.size() - 1);
    }
    static size_t locate(const Shard &shard, uintptr_t addr, uint64_t hash);
    static void put(Shard &shard, const Block &block);

    Shard shards_[SHARDS];
};

} // namespace vram_torch

#endif
