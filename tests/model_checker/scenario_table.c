/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_table.c: the table of blocks (core/cache/block_table.c), read while it changes. Its old
 * slots are freed after quiescence (core/cache/thread.c). Records of blocks are zeroed by plain
 * stores before their first use, as new memory is.
 */
#include "explore_scenario.h"

#include "explore_checker.h"

/* The table itself, since addresses that share a slot are found by its hash. */
#include "core/cache/block_table.c"
#include "core/cache/thread.h"

#include <string.h>

enum { BLOCKS = 4, STEP = 256 };

static struct vr_block_table table;
static struct vr_block *blocks[BLOCKS];
static vram_addr addresses[BLOCKS]; /* all of one slot */
static struct vr_thread_state *states[2];

static void first_begin(void) {
    states[0] = vr_thread_get();
}

static void second_begin(void) {
    states[1] = vr_thread_get();
}

static void block_make(unsigned at) {
    memset(blocks[at], 0, sizeof *blocks[at]);
    vr_store(&blocks[at]->addr, addresses[at], VR_RELAXED);
}

static void block_insert(unsigned at) {
    block_make(at);
    vr_block_table_insert(&table, blocks[at]);
}

/* Two blocks, the second behind the first in its run. */
static void two_blocks(void) {
    fiber_act_as(0, first_begin);
    fiber_act_as(1, second_begin);
    CHECK(vr_block_table_reserve(&table) == VRAM_OK);
    uint64_t mask = slots_of(&table)->mask;
    vram_addr addr = STEP;
    for (unsigned i = 0; i < BLOCKS; addr += STEP) {
        if (i == 0 || (addr_hash(addr) & mask) == (addr_hash(addresses[0]) & mask)) {
            addresses[i++] = addr;
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = scenario_memory(sizeof(struct vr_block));
    }
    block_insert(0);
    block_insert(1);
}

static void two_blocks_full(void) {
    two_blocks();
    table.used = (slots_of(&table)->mask + 1) / 2;
}

static struct vr_block *block_find(unsigned at) {
    struct vr_thread_state *thread = vr_thread_get();
    CHECK(vr_thread_enter_wait(thread));
    struct vr_block *found = vr_block_table_find(&table, addresses[at]);
    CHECK(!found || found == blocks[at]);
    vr_thread_leave(thread);
    return found;
}

static void second_is_found(void) {
    CHECK(block_find(1));
    (void)block_find(2);
}

static void third_is_looked_for(void) {
    (void)block_find(2);
    CHECK(block_find(1));
}

static void first_is_replaced(void) {
    vr_block_table_remove(&table, blocks[0]);
    block_insert(2);
}

static void third_comes_and_goes(void) {
    block_insert(2);
    vr_block_table_remove(&table, blocks[2]);
    vr_block_table_remove(&table, blocks[0]);
}

static void table_is_replaced(void) {
    CHECK(vr_block_table_reserve(&table) == VRAM_OK && vr_block_table_has_retired(&table));
    block_insert(2);
    struct vr_block_slots *retired = vr_block_table_retired(&table);
    vr_thread_quiesce();
    vr_block_slots_free(retired);
}

static void three_are_there(void) {
    CHECK(table.live == 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(vr_block_table_find(&table, addresses[i]) == blocks[i]);
    }
}

static void two_are_there(void) {
    CHECK(table.live == 2 && !vr_block_table_find(&table, addresses[0]));
    CHECK(vr_block_table_find(&table, addresses[1]) == blocks[1]);
    CHECK(vr_block_table_find(&table, addresses[2]) == blocks[2]);
}

static void one_is_there(void) {
    CHECK(table.live == 1 && vr_block_table_find(&table, addresses[1]) == blocks[1]);
}

const struct scenario table_scenarios[] = {{"block table",
                                            "a block replaced",
                                            two_blocks,
                                            {first_is_replaced, second_is_found},
                                            two_are_there,
                                            false},
                                           {"block table",
                                            "a block comes and goes",
                                            two_blocks,
                                            {third_comes_and_goes, third_is_looked_for},
                                            one_is_there,
                                            false},
                                           {"block table",
                                            "a new table",
                                            two_blocks_full,
                                            {table_is_replaced, second_is_found},
                                            three_are_there,
                                            false},
                                           {.name = NULL}};
