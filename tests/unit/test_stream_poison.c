/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stream_poison.c: the option poison=stream. Whoever reads memory that was handed out
 * again reads the pattern; a correct program sees no difference.
 */
#include "unit/pool_world.h"

#include <sched.h>
#include <stdatomic.h>

enum { PATTERN = 0xCD, BYTES = 40 * 1024 };

static struct rig rig_poisoned(const char *backend, const char *sim, const char *poison,
                               uint32_t flags) {
    const vram_pool_options options = {.size = sizeof options, .flags = flags};
    assert_ok(vram_option_set("poison", poison));
    return rig_make_with(backend, sim, &options);
}

/* The value of all bytes, as later work of the queue sees them. */
static uint8_t value_of(vram_queue *queue, vram_addr addr) {
    static uint8_t found[BYTES];
    assert_ok(vram_queue_download(queue, found, addr, BYTES));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 1; i < BYTES; i++) {
        assert_int_equal(found[i], found[0]);
    }
    return found[0];
}

/* A block that the queue has used, and which is free now. */
static vram_addr used_block(const struct rig *rig, uint8_t value) {
    vram_addr addr;
    assert_ok(vram_alloc(rig->pool, BYTES, rig->queue, &addr));
    assert_ok(vram_queue_fill(rig->queue, addr, value, 1, BYTES));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_free(addr, rig->queue));
    return addr;
}

/* ------------------------------------------------------------------------- contents */

TEST(new_blocks_have_the_pattern) {
    static const struct {
        const char *sim, *poison, *pool;
        uint32_t flags;
        uint8_t first, again; /* what a block has when it is handed out */
    } rows[] = {
        {"vmm=on", "stream", "on", 0, PATTERN, PATTERN},
        {"vmm=off", "stream", "on", 0, PATTERN, PATTERN},
        {"vmm=on", "stream", "off", 0, PATTERN, PATTERN},
        {"vmm=on", "stream", "on", VRAM_POOL_DETERMINISTIC, PATTERN, PATTERN},
        {"vmm=on", "stream", "on", VRAM_POOL_TRACKED, PATTERN, PATTERN},
        {"vmm=on", "off", "on", 0, 0, 0x11},
        {"vmm=on", "stream", "on", VRAM_POOL_ZERO_ALLOC, 0, 0},
        {"vmm=on", "stream", "on", VRAM_POOL_ZERO_FREE, 0, 0},
        {"vmm=on", "stream", "on", VRAM_POOL_RED_ZONES, PATTERN, PATTERN},
        {"vmm=on", "stream", "on", VRAM_POOL_POISON, PATTERN, PATTERN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_alloc_options tagged = {.size = sizeof tagged, .tag = "tag"};
        vram_addr addr, used[3];
        assert_ok(vram_option_set("pool", rows[i].pool));
        struct rig rig = rig_poisoned("sim", rows[i].sim, rows[i].poison, rows[i].flags);
        assert_ok(vram_alloc(rig.pool, BYTES, rig.queue, &addr));
        assert_int_equal(value_of(rig.queue, addr), rows[i].first);
        assert_ok(vram_free(addr, rig.queue));
        for (int turn = 0; turn < 3; turn++) { /* hits, where there are caches */
            used[turn] = used_block(&rig, 0x11);
            assert_ok(turn < 2 ? vram_alloc(rig.pool, BYTES, rig.queue, &addr)
                               : vram_alloc_with(rig.pool, BYTES, rig.queue, &tagged, &addr));
            if (addr == used[turn]) {
                assert_int_equal(value_of(rig.queue, addr), rows[i].again);
            }
            assert_ok(vram_free(addr, rig.queue));
        }
        assert_int_equal(stats_of(rig.pool).damaged_blocks, 0);
        rig_end(&rig, false);
    }
}

/* Without a queue nobody's order is known; a graph would run the fill at each of its launches. */
TEST(some_blocks_are_not_filled) {
    vram_sim_fault refused = {
        .size = sizeof refused, .call = VRAM_SIM_FILL, .nth = 1, .for_ever = true, .code = 9999};
    vram_queue *captured;
    vram_addr addr;
    struct rig rig = rig_poisoned("sim", "", "stream", 0);
    assert_ok(vram_alloc(rig.pool, BYTES, NULL, &addr));
    assert_int_equal(value_of(rig.queue, addr), 0);
    assert_ok(vram_capture_begin(rig.queue, &captured));
    assert_ok(vram_alloc(rig.pool, BYTES, captured, &addr));
    assert_int_equal(value_of(rig.queue, addr), 0);
    assert_ok(vram_free(addr, captured));
    assert_ok(vram_capture_end(captured));
    assert_ok(vram_sim_fault_set(rig.context, &refused));
    assert_ok(vram_alloc(rig.pool, BYTES, rig.queue, &addr));
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_int_not_equal(value_of(rig.queue, addr), PATTERN);
    rig_end(&rig, false);
}

/* ----------------------------------------------------------------------- late queues */

static atomic_bool kernel_may_end;

static void hold_queue(const vram_kernel_call *call) {
    (void)call;
    while (!kernel_may_end) {
        sched_yield();
    }
}

/* What is submitted to the queue now runs when kernel_may_end is set. */
static void queue_hold(const struct rig *rig, vram_queue *queue) {
    vram_kernel_source source = {
        .size = sizeof source, .code = (const void *)(uintptr_t)hold_queue, .entry = "hold_queue"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    kernel_may_end = false;
    assert_ok(vram_kernel_create(rig->device, &source, &kernel));
    assert_ok(vram_queue_launch(queue, kernel, &launch));
}

/* The fill of a block waits on a busy queue. The block is freed on another one, and its next owner
   writes: the fill does not come after that. */
TEST(fills_hit_no_other_owner) {
    enum { NEW, CACHED, SMALL, WAYS }; /* small: cached, and never used by the queue */
    for (int i = 0; i < 2 * WAYS; i++) {
        struct rig rig = rig_poisoned("host", "", "stream", 0);
        uint64_t bytes = i % WAYS == SMALL ? 512 : BYTES;
        uint8_t found = 0;
        vram_addr addr, next;
        if (i % WAYS == CACHED) {
            used_block(&rig, 0x11);
        } else if (i % WAYS == SMALL) { /* the second brings more of its kind into the cache */
            assert_ok(vram_alloc(rig.pool, bytes, rig.queue, &addr));
            assert_ok(vram_alloc(rig.pool, bytes, rig.queue, &addr));
        }
        queue_hold(&rig, rig.queue);
        assert_ok(vram_alloc(rig.pool, bytes, rig.queue, &addr));
        assert_ok(vram_free(addr, i < WAYS ? rig.other : NULL));
        assert_ok(vram_alloc(rig.pool, bytes, rig.other, &next));
        assert_ok(vram_queue_fill(rig.other, next, 0x77, 1, bytes));
        (void)vram_queue_wait(rig.other, 20 * 1000 * 1000); /* it may wait for the first queue */
        kernel_may_end = true;
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_queue_download(rig.other, &found, next, 1));
        assert_ok(vram_queue_wait(rig.other, VRAM_TIMEOUT_DEFAULT));
        assert_int_equal(found, 0x77);
        rig_end(&rig, false);
    }
}
