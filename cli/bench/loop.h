/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h: the patterns, as loops that are compiled into each allocator's file with its own take and
 * give inside: an indirect call in between would cost as much as the allocators that are measured.
 *
 * take gives an address, or 0 with lane->reason; give frees one, false with lane->reason.
 */
#ifndef LOOP_H
#define LOOP_H

#include "bench/contest.h"
#include "bench/conveyor.h"

typedef uint64_t take_fn(struct lane *lane, uint64_t bytes);
typedef bool give_fn(struct lane *lane, uint64_t addr);

#define LOOP static inline __attribute__((always_inline))

/* The compiler must believe that the block is used. */
LOOP void loop_touch(uint64_t addr) {
    __asm__ volatile("" : : "r"(addr) : "memory");
}

LOOP bool loop_pair(struct lane *lane, uint64_t pairs, take_fn *take, give_fn *give) {
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t addr = take(lane, lane->bytes);
        if (addr == 0) {
            return false;
        }
        loop_touch(addr);
        if (!give(lane, addr)) {
            return false;
        }
    }
    return true;
}

/* A block that could not be freed stays in its slot for the sweep, which will fail to free it
   too. */
LOOP bool loop_give(struct lane *lane, uint32_t slot, give_fn *give) {
    uint64_t addr = lane->blocks[slot];
    lane->blocks[slot] = 0;
    return addr == 0 || give(lane, addr);
}

/* Bursts of BURST_BLOCKS, the last one may be shorter. Each thousand of the script has every slot
   once, in another order. */
LOOP bool loop_burst(struct lane *lane, uint64_t pairs, take_fn *take, give_fn *give) {
    while (pairs > 0) {
        uint32_t count = pairs < BURST_BLOCKS ? (uint32_t)pairs : BURST_BLOCKS;
        for (uint32_t i = 0; i < count; i++) {
            lane->blocks[i] = take(lane, lane->bytes);
            if (lane->blocks[i] == 0) {
                return false;
            }
        }
        const struct choice *order =
            lane->script + lane->cursor++ % (SCRIPT_STEPS / BURST_BLOCKS) * BURST_BLOCKS;
        for (uint32_t i = 0; i < BURST_BLOCKS; i++) {
            if (order[i].slot < count && !loop_give(lane, order[i].slot, give)) {
                return false;
            }
        }
        pairs -= count;
    }
    return true;
}

LOOP bool loop_mixed(struct lane *lane, uint64_t pairs, take_fn *take, give_fn *give) {
    for (uint64_t i = 0; i < pairs; i++) {
        struct choice choice = lane->script[lane->cursor++ % SCRIPT_STEPS];
        uint32_t slot = choice.slot % MIXED_SLOTS;
        if (!loop_give(lane, slot, give)) {
            return false;
        }
        lane->blocks[slot] = take(lane, size_table[choice.size]);
        if (lane->blocks[slot] == 0) {
            return false;
        }
    }
    return true;
}

/* The other side waits for so many: after a failure it is sent nothing but zeros. */
LOOP bool loop_send(struct lane *lane, uint64_t pairs, take_fn *take) {
    bool good = true;
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t addr = good ? take(lane, lane->bytes) : 0;
        good = addr != 0;
        conveyor_put(lane->belt, addr);
    }
    return good;
}

LOOP bool loop_drain(struct lane *lane, uint64_t pairs, give_fn *give) {
    bool good = true;
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t addr = conveyor_get(lane->belt);
        good = (addr == 0 || give(lane, addr)) && good;
    }
    return good;
}

LOOP bool loop_run(struct lane *lane, uint64_t pairs, take_fn *take, give_fn *give) {
    switch (lane->pattern) {
    case PATTERN_PAIR:
        return loop_pair(lane, pairs, take, give);
    case PATTERN_BURST:
        return loop_burst(lane, pairs, take, give);
    case PATTERN_MIXED:
        return loop_mixed(lane, pairs, take, give);
    case PATTERN_HANDOVER:
        return loop_send(lane, pairs, take);
    }
    return false;
}

LOOP bool loop_hold(struct lane *lane, take_fn *take) {
    uint64_t bytes = lane->bytes < LIVE_BYTES_MAX ? lane->bytes : LIVE_BYTES_MAX;
    while (lane->held_count < lane->entry->live) {
        uint64_t addr = take(lane, bytes);
        if (addr == 0) {
            return false;
        }
        lane->held[lane->held_count++] = addr;
    }
    return true;
}

LOOP void loop_sweep(struct lane *lane, give_fn *give) {
    for (uint32_t i = 0; i < BURST_BLOCKS; i++) {
        loop_give(lane, i, give);
    }
    while (lane->held_count > 0) {
        give(lane, lane->held[--lane->held_count]);
    }
}

/* The four functions of struct allocator that are loops around take and give. */
#define LOOP_FUNCTIONS(take, give)                                                                 \
    static bool run_lane(struct lane *lane, uint64_t pairs) {                                      \
        return loop_run(lane, pairs, take, give);                                                  \
    }                                                                                              \
    static bool drain_lane(struct lane *lane, uint64_t pairs) {                                    \
        return loop_drain(lane, pairs, give);                                                      \
    }                                                                                              \
    static bool hold_lane(struct lane *lane) {                                                     \
        return loop_hold(lane, take);                                                              \
    }                                                                                              \
    static void sweep_lane(struct lane *lane) {                                                    \
        loop_sweep(lane, give);                                                                    \
    }
#define LOOP_FIELDS .run = run_lane, .drain = drain_lane, .hold = hold_lane, .sweep = sweep_lane

#endif
