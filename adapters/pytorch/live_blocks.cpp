/* SPDX-License-Identifier: Apache-2.0 */
#include "live_blocks.h"

#include <algorithm>
#include <mutex>

namespace vram_torch {

static const size_t NOWHERE = static_cast<size_t>(-1);

/* With the shard's lock held, as the next one. */
size_t BlockTable::locate(const Shard &shard, uintptr_t addr, uint64_t hash) {
    if (shard.used == 0) {
        return NOWHERE;
    }
    size_t mask = shard.rows.size() - 1;
    for (size_t i = home_of(shard, hash); shard.rows[i].addr != 0; i = (i + 1) & mask) {
        if (shard.rows[i].addr == addr) {
            return i;
        }
    }
    return NOWHERE;
}

void BlockTable::put(Shard &shard, const Block &block) {
    size_t mask = shard.rows.size() - 1;
    size_t i = home_of(shard, hash_of(block.addr));
    while (shard.rows[i].addr != 0) {
        i = (i + 1) & mask;
    }
    shard.rows[i] = block;
    shard.used++;
}

void BlockTable::insert(const Block &block) {
    Shard &shard = shard_of(hash_of(block.addr));
    std::lock_guard<SpinLock> guard(shard.lock);
    if (shard.used * 2 >= shard.rows.size()) {
        std::vector<Block> larger(std::max<size_t>(64, shard.rows.size() * 2));
        shard.rows.swap(larger);
        shard.used = 0;
        for (const Block &old : larger) {
            if (old.addr != 0) {
                put(shard, old);
            }
        }
    }
    put(shard, block);
}

bool BlockTable::remove(uintptr_t addr, Block *block) {
    uint64_t hash = hash_of(addr);
    Shard &shard = shard_of(hash);
    std::lock_guard<SpinLock> guard(shard.lock);
    size_t hole = locate(shard, addr, hash);
    if (hole == NOWHERE) {
        return false;
    }
    *block = shard.rows[hole];
    size_t mask = shard.rows.size() - 1;
    for (size_t i = (hole + 1) & mask; shard.rows[i].addr != 0; i = (i + 1) & mask) {
        size_t home = home_of(shard, hash_of(shard.rows[i].addr));
        if (((i - home) & mask) >= ((i - hole) & mask)) { /* its home is not after the hole */
            shard.rows[hole] = shard.rows[i];
            hole = i;
        }
    }
    shard.rows[hole] = Block();
    shard.used--;
    return true;
}

bool BlockTable::find(uintptr_t addr, Block *block) {
    uint64_t hash = hash_of(addr);
    Shard &shard = shard_of(hash);
    std::lock_guard<SpinLock> guard(shard.lock);
    size_t i = locate(shard, addr, hash);
    if (i != NOWHERE) {
        *block = shard.rows[i];
    }
    return i != NOWHERE;
}

std::vector<Block> BlockTable::blocks(int device) {
    std::vector<Block> all, rows;
    for (Shard &shard : shards_) {
        for (size_t room = 0;;) { /* no allocation with a spin lock held */
            rows.reserve(room);
            std::lock_guard<SpinLock> guard(shard.lock);
            if (shard.rows.size() <= rows.capacity()) {
                rows.assign(shard.rows.begin(), shard.rows.end());
                break;
            }
            room = shard.rows.size();
        }
        for (const Block &block : rows) {
            if (block.addr != 0 && block.device == device) {
                all.push_back(block);
            }
        }
    }
    std::sort(all.begin(), all.end(),
              [](const Block &a, const Block &b) { return a.addr < b.addr; });
    return all;
}

bool BlockTable::find_around(uintptr_t addr, Block *block) {
    for (Shard &shard : shards_) {
        std::lock_guard<SpinLock> guard(shard.lock);
        for (const Block &row : shard.rows) {
            if (row.addr != 0 && row.addr <= addr && addr - row.addr < row.held) {
                *block = row;
                return true;
            }
        }
    }
    return false;
}

} // namespace vram_torch
