/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_memory.c: bugs of others that showed when memory ran out, and where memory lies.
 */
#include "others_bugs/bugs.h"

#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/oom.h"
#include "vram/pool.h"

#include <stdlib.h>

static int others_bugs_begin(void) {
    return start();
}

static int others_bugs_end(void) {
    return nothing_left();
}

static vram_pool *pool_make(struct rig *rig, const vram_pool_options *options) {
    vram_pool *pool;
    whole_device(rig->device);
    assert_ok(vram_pool_create(rig->device, options, &pool));
    return pool;
}

/* Takes blocks of a size until there are no more; how many. */
static uint32_t fill_up(vram_pool *pool, uint64_t bytes, vram_queue *queue, vram_addr *blocks,
                        uint32_t room) {
    uint32_t count = 0;
    vram_status status = VRAM_OK;
    while (count < room && status == VRAM_OK) {
        status = vram_alloc(pool, bytes, queue, &blocks[count]);
        count += status == VRAM_OK;
    }
    assert_true(count == room || status == VRAM_ERR_DEVICE_MEMORY);
    return count;
}

/* ------------------------------------------------------------------ out of memory */

/* A pool as it is by default, without one option, met with every size when nothing is left. */
BUG(01, out_of_memory_with_defaults) {
    enum { ROOM = 64 };
    vram_addr blocks[ROOM], none;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_make(&rig, NULL);
    for (int round = 0; round < 3; round++) {
        uint32_t count = fill_up(pool, 2 * MIB, rig.queue, blocks, ROOM);
        assert_int_equal(count, 32);
        for (uint64_t bytes = 1; bytes; bytes <<= 1) {
            assert_true(vram_status_is_exhausted(vram_alloc(pool, bytes, rig.queue, &none)));
        }
        while (count) {
            assert_ok(vram_free(blocks[--count], rig.queue));
        }
    }
    rig_end_clean(&rig);
}

/* The block that fits is in the pool already, behind work that is not done yet. */
BUG(02, pool_is_searched_again) {
    vram_addr freed, found;
    struct rig rig = rig_make("sim", "memory=128M,lag=50");
    vram_pool *pool = pool_make(&rig, NULL);
    vram_queue *other;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    for (int round = 0; round < 10; round++) {
        assert_ok(vram_alloc(pool, 100 * MIB, rig.queue, &freed));
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_queue_fill(rig.queue, freed, 1, 4, MIB));
        }
        assert_ok(vram_free(freed, rig.queue));
        assert_ok(vram_alloc(pool, 100 * MIB, other, &found));
        assert_ok(vram_free(found, other));
    }
    rig_end_clean(&rig);
}

/* What a pool is to have at first: any number, and never a pool that does not work. */
BUG(05, first_size_of_a_pool) {
    static const uint64_t ranges[] = {
        0, 1, 4095, 2 * MIB, 2 * MIB + 1, 100 * MIB, 4096 * MIB, UINT64_C(1) << 40, UINT64_MAX};
    struct rig rig = rig_make("sim", "memory=64M");
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        vram_pool_options options = {.size = sizeof options, .range_bytes = ranges[i]};
        vram_pool *pool;
        vram_addr addr;
        vram_status status = vram_pool_create(rig.device, &options, &pool);
        if (status != VRAM_OK) {
            assert_true(status == VRAM_ERR_INVALID || status == VRAM_ERR_OVERFLOW ||
                        vram_status_is_exhausted(status));
            continue;
        }
        assert_ok(vram_pool_warm(pool, 3 * MIB + 1, 4, rig.queue));
        assert_int_equal(stats_of(pool).live_blocks, 0);
        assert_true(vram_status_is_exhausted(
            vram_pool_warm(pool, 40 * MIB, 2, rig.queue))); /* all or ... */
        assert_ok(vram_alloc(pool, 40 * MIB, rig.queue, &addr));
        assert_ok(vram_free(addr, rig.queue));
        assert_ok(vram_pool_destroy(pool));
    }
    rig_end_clean(&rig);
}

/* Half of the memory is free, in pieces that are too small: it is moved together. */
BUG(06, free_pieces_are_joined) {
    enum { BLOCKS = 100 };
    vram_addr blocks[BLOCKS], large;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, NULL);
    assert_int_equal(fill_up(pool, 10 * MIB, rig.queue, blocks, BLOCKS), BLOCKS);
    for (int i = 0; i < BLOCKS; i += 2) {
        assert_ok(vram_free(blocks[i], rig.queue));
    }
    assert_ok(vram_alloc(pool, 500 * MIB, rig.queue, &large));
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------- where memory lies */

/* Every size around every power of two, at every alignment: in place, and never on a neighbour. */
BUG(21, sizes_and_alignments) {
    enum { BLOCKS = 14 * 3 };
    struct {
        vram_addr addr;
        uint64_t bytes;
    } blocks[BLOCKS];
    struct rig rig = rig_make("sim", "memory=2G");
    vram_pool *pool = pool_make(&rig, NULL);
    for (uint64_t alignment = 256; alignment <= 2 * MIB; alignment <<= 1) {
        vram_alloc_options options = {.size = sizeof options, .alignment = alignment};
        int count = 0;
        for (uint64_t power = 256; power <= 2 * MIB; power <<= 1) {
            for (uint64_t bytes = power - 1; bytes <= power + 1; bytes++) {
                assert_ok(vram_alloc_with(pool, bytes, rig.queue, &options, &blocks[count].addr));
                assert_int_equal(blocks[count].addr % alignment, 0);
                for (int i = 0; i < count; i++) {
                    assert_true(blocks[i].addr + blocks[i].bytes <= blocks[count].addr ||
                                blocks[count].addr + bytes <= blocks[i].addr);
                }
                blocks[count++].bytes = bytes;
            }
        }
        assert_int_equal(count, BLOCKS);
        while (count) {
            assert_ok(vram_free(blocks[--count].addr, rig.queue));
        }
    }
    rig_end_clean(&rig);
}

/* Moving memory together again and again: it ends, and the second time finds nothing to do. */
BUG(20, moving_ends) {
    enum { BLOCKS = 256 };
    vram_addr blocks[BLOCKS];
    vram_rebuild_result result = {.size = sizeof result};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, NULL);
    assert_ok(vram_pool_warm(pool, 600 * MIB, 1, rig.queue)); /* in large handles */
    assert_int_equal(fill_up(pool, 2 * MIB, rig.queue, blocks, BLOCKS), BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 7) {
            assert_ok(vram_free(blocks[i], rig.queue));
        }
    }
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    uint64_t calls = sim_state(&rig).calls;
    for (int round = 0; round < 4; round++) {
        assert_ok(vram_pool_rebuild(pool, NULL, &result));
        assert_true(round == 0 || result.copied_bytes == 0);
    }
    assert_true(sim_state(&rig).calls - calls < 10000);
    for (int i = 0; i < BLOCKS; i += 7) {
        assert_ok(vram_free(blocks[i], rig.queue));
    }
    rig_end_clean(&rig);
}

EACH_TEST(others_bugs_begin, others_bugs_end)
