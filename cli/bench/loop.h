/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h: the patterns, as loops that are compiled into each allocator's file with its own take and
 * give inside: an indirect call in between would cost as much as the allocators that are measured.
 *
 * take gives an address, or 0 with worker->reason; give frees one, false with worker->reason.
 */
#ifndef LOOP_H
#define LOOP_H

#include "bench/contest.h"
#include "bench/conveyor.h"

typedef uint64_t take_fn(struct worker *worker, uint64_t bytes);
typedef bool give_fn(struct worker *worker, uint64_t addr);

#define LOOP static inline __attribute__((always_inline))

/* The compiler must believe that the block is used. */
LOOP void loop_touch(uint64_t addr) {
    __asm__ volatile("" : : "r"(addr) : "memory");
}

LOOP bool loop_pair(struct worker *worker, uint64_t pairs, take_fn *take, give_fn *give) {
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t addr = take(worker, worker->bytes);
        if (addr == 0) {
            return false;
        }
        loop_touch(addr);
        if (!give(worker, addr)) {
            return false;
        }
    }
    return true;
}

/* A block that could not be freed stays in its slot for the sweep, which will fail to free it
   too. */
LOOP bool loop_give(struct worker *worker, uint32_t slot, give_fn *give) {
    uint64_t addr = worker->blocks[slot];
    worker->blocks[slot] = 0;
    return addr == 0 || give(worker, addr);
}

/* Bursts of BURST_BLOCKS, the last one may be shorter. Each thousand of the script has every slot
   once, in another order. */
LOOP bool loop_burst(struct worker *worker, uint64_t pairs, take_fn *take, give_fn *give) {
    while (pairs > 0) {
        uint32_t count = pairs < BURST_BLOCKS ? (uint32_t)pairs : BURST_BLOCKS;
        for (uint32_t i = 0; i < count; i++) {
            worker->blocks[i] = take(worker, worker->bytes);
            if (worker->blocks[i] == 0) {
                return false;
            }
        }
        size_t burst = worker->cursor++ % (SCRIPT_STEPS / BURST_BLOCKS);
        const struct choice *order = worker->script + burst * BURST_BLOCKS;
        for (uint32_t i = 0; i < BURST_BLOCKS; i++) {
            if (order[i].slot < count && !loop_give(worker, order[i].slot, give)) {
                return false;
            }
        }
        pairs -= count;
    }
    return true;
}

LOOP bool loop_mixed(struct worker *worker, uint64_t pairs, take_fn *take, give_fn *give) {
    for (uint64_t i = 0; i < pairs; i++) {
        struct choice choice = worker->script[worker->cursor++ % SCRIPT_STEPS];
        uint32_t slot = choice.slot % MIXED_SLOTS;
        if (!loop_give(worker, slot, give)) {
            return false;
        }
        worker->blocks[slot] = take(worker, size_table[choice.size]);
        if (worker->blocks[slot] == 0) {
            return false;
        }
    }
    return true;
}

/* The other side waits for so many: after a failure it is sent nothing but zeros. */
LOOP bool loop_send(struct worker *worker, uint64_t pairs, take_fn *take) {
    bool good = true;
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t addr = good ? take(worker, worker->bytes) : 0;
        good = addr != 0;
        conveyor_put(worker->belt, addr);
    }
    return good;
}

LOOP bool loop_drain(struct worker *worker, uint64_t pairs, give_fn *give) {
    bool good = true;
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t addr = conveyor_get(worker->belt);
        good = (addr == 0 || give(worker, addr)) && good;
    }
    return good;
}

LOOP bool loop_run(struct worker *worker, uint64_t pairs, take_fn *take, give_fn *give) {
    switch (worker->pattern) {
    case PATTERN_PAIR:
        return loop_pair(worker, pairs, take, give);
    case PATTERN_BURST:
        return loop_burst(worker, pairs, take, give);
    case PATTERN_MIXED:
        return loop_mixed(worker, pairs, take, give);
    case PATTERN_HANDOVER:
        return loop_send(worker, pairs, take);
    }
    return false;
}

LOOP bool loop_hold(struct worker *worker, take_fn *take) {
    uint64_t bytes = worker->bytes < LIVE_BYTES_MAX ? worker->bytes : LIVE_BYTES_MAX;
    while (worker->held_count < worker->entry->live) {
        uint64_t addr = take(worker, bytes);
        if (addr == 0) {
            return false;
        }
        worker->held[worker->held_count++] = addr;
    }
    return true;
}

LOOP void loop_sweep(struct worker *worker, give_fn *give) {
    for (uint32_t i = 0; i < BURST_BLOCKS; i++) {
        loop_give(worker, i, give);
    }
    while (worker->held_count > 0) {
        give(worker, worker->held[--worker->held_count]);
    }
}

/* The four functions of struct allocator that are loops around take and give. */
#define LOOP_FUNCTIONS(take, give)                                                                 \
    static bool run_worker(struct worker *worker, uint64_t pairs) {                                \
        return loop_run(worker, pairs, take, give);                                                \
    }                                                                                              \
    static bool drain_worker(struct worker *worker, uint64_t pairs) {                              \
        return loop_drain(worker, pairs, give);                                                    \
    }                                                                                              \
    static bool hold_worker(struct worker *worker) {                                               \
        return loop_hold(worker, take);                                                            \
    }                                                                                              \
    static void sweep_worker(struct worker *worker) {                                              \
        loop_sweep(worker, give);                                                                  \
    }
#define LOOP_FIELDS                                                                                \
    .run = run_worker, .drain = drain_worker, .hold = hold_worker, .sweep = sweep_worker

#endif
