/* SPDX-License-Identifier: Apache-2.0 */
/* The policies of `vram replay` that map pages, expandable and async, rule by rule. */
#include "policy_world.h"

#include <stdlib.h>

static uint64_t calls(const struct bench *bench, enum policy_call call) {
    struct policy_counts counts;
    assert_int_equal(bench->policy->counts(bench->state, &counts), VRAM_OK);
    assert_int_equal(counts.reserved_bytes, reserved(bench));
    return counts.calls[call];
}

static vram_status try(struct bench *bench, uint64_t bytes) {
    struct replay_block block = {.bytes = bytes};
    return bench->policy->alloc(bench->state, bytes, 0, &block);
}

/* Queue 1 is given work on a block of queue 0. */
static void work(struct bench *bench, struct replay_block *block) {
    assert_int_equal(vram_queue_fill(bench->place.queues[1], block->addr, 1, 1, MIB), VRAM_OK);
    bench->place.busy_queues |= 2;
    block->used_queues = 2;
}

TEST(odd_sizes) {
    static const struct policy *const both[] = {&policy_expandable, &policy_async};
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        open_bench(&bench, both[i], "memory=64M");
        struct replay_block none = take(&bench, 0, 0);
        assert_int_equal(none.addr, 0);
        give(&bench, &none);
        assert_int_equal(try(&bench, UINT64_MAX), VRAM_ERR_OVERFLOW);
        assert_int_equal(try(&bench, UINT64_C(1) << 60), VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(try(&bench, 65 * MIB), VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(reserved(&bench), 0);
        close_bench(&bench);
    }
}

/* ----------------------------------------------------------------- expandable */

TEST(pages_have_their_sizes) {
    struct bench bench;
    open_bench(&bench, &policy_expandable, "memory=1G");
    struct replay_block small = take(&bench, 1, 0);
    assert_int_equal(reserved(&bench), 2 * MIB);
    struct replay_block large = take(&bench, MIB + 1, 0);
    assert_int_equal(reserved(&bench), 22 * MIB);
    struct replay_block next = take(&bench, 25 * MIB, 0); /* grows the same segment */
    assert_int_equal(next.addr, large.addr + MIB + 512);
    assert_int_equal(reserved(&bench), 42 * MIB);
    struct replay_block other = take(&bench, 2 * MIB, 1); /* queues have segments of their own */
    assert_int_equal(reserved(&bench), 62 * MIB);
    give(&bench, &small);
    give(&bench, &large);
    give(&bench, &next);
    give(&bench, &other);
    assert_int_equal(reserved(&bench), 62 * MIB);
    assert_int_equal(calls(&bench, POLICY_CALL_CREATE), 4);
    assert_int_equal(calls(&bench, POLICY_CALL_UNMAP), 0);
    close_bench(&bench);
}

/* The chunk in front of unmapped addresses is the smaller one, and is spared. */
TEST(end_of_a_segment_is_taken_late) {
    struct bench bench;
    open_bench(&bench, &policy_expandable, "memory=1G");
    struct replay_block a = take(&bench, 10 * MIB, 0), b = take(&bench, 6 * MIB, 0);
    give(&bench, &a); /* a hole of 10 MiB, and 4 at the end */
    struct replay_block c = take(&bench, 3 * MIB, 0);
    assert_int_equal(c.addr, a.addr);
    struct replay_block d = take(&bench, 8 * MIB, 0); /* 7 MiB are left in front: the end grows */
    assert_int_equal(d.addr, b.addr + 6 * MIB);
    assert_int_equal(reserved(&bench), 40 * MIB);
    give(&bench, &b);
    give(&bench, &c);
    give(&bench, &d);
    struct replay_block e = take(&bench, 40 * MIB, 0); /* all has joined */
    assert_int_equal(e.addr, a.addr);
    assert_int_equal(reserved(&bench), 40 * MIB);
    give(&bench, &e);
    close_bench(&bench);
}

/* 64 MiB of device: pages of free chunks are unmapped, and mapped again where they are needed. */
TEST(free_pages_are_unmapped_when_full) {
    struct bench bench;
    open_bench(&bench, &policy_expandable, "memory=64M");
    struct replay_block a = take(&bench, 30 * MIB, 0), b = take(&bench, 30 * MIB, 0);
    give(&bench, &a); /* its second page is b's too */
    struct replay_block c = take(&bench, 20 * MIB, 1);
    assert_int_equal(calls(&bench, POLICY_CALL_UNMAP), 1);
    assert_int_equal(reserved(&bench), 60 * MIB);
    struct replay_block d = take(&bench, 8 * MIB, 0); /* in front of b, where memory was left */
    assert_int_equal(d.addr, a.addr + 20 * MIB);
    assert_int_equal(try(&bench, 15 * MIB), VRAM_ERR_DEVICE_MEMORY);
    give(&bench, &b);
    give(&bench, &c);
    give(&bench, &d);
    struct replay_block e = take(&bench, 60 * MIB, 0); /* unmapped, free, and unmapped again */
    assert_int_equal(e.addr, a.addr);
    assert_int_equal(calls(&bench, POLICY_CALL_UNMAP), 4);
    assert_int_equal(calls(&bench, POLICY_CALL_RELEASE), 4);
    give(&bench, &e);
    close_bench(&bench);
}

/* A block of nearly all memory leaves addresses for no second one: there is a second segment. */
TEST(a_second_segment_is_made) {
    struct bench bench;
    open_bench(&bench, &policy_expandable, "memory=100M");
    struct replay_block a = take(&bench, 70 * MIB, 0), b = take(&bench, 10 * MIB, 0);
    give(&bench, &a);
    struct replay_block c = take(&bench, 75 * MIB, 0);
    assert_true(c.addr > b.addr + 40 * MIB || c.addr < a.addr);
    assert_int_equal(reserved(&bench), 100 * MIB);
    give(&bench, &b);
    give(&bench, &c);
    close_bench(&bench);
}

TEST(expandable_waits_for_other_queues) {
    struct bench bench;
    open_bench(&bench, &policy_expandable, "memory=1G,lag=1000,seed=5");
    struct replay_block a = take(&bench, 2 * MIB, 0);
    work(&bench, &a);
    give(&bench, &a);
    struct replay_block b = take(&bench, 2 * MIB, 0);
    assert_true(b.addr != a.addr);
    assert_int_equal(vram_queue_wait(bench.place.queues[1], VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    struct replay_block c = take(&bench, 2 * MIB, 0);
    assert_int_equal(c.addr, a.addr);
    give(&bench, &b);
    assert_int_equal(policy_expandable.free(bench.state, &c, 1), VRAM_OK); /* on another queue */
    close_bench(&bench);
}

/* ---------------------------------------------------------------------- async */

/* Frees and allocates a small block until pending chunks count as completed. */
static void pass_time(struct bench *bench) {
    for (int i = 0; i < 520; i++) {
        struct replay_block block = take(bench, 512, 0);
        give(bench, &block);
    }
}

TEST(async_grows_by_32_mib) {
    struct bench bench;
    open_bench(&bench, &policy_async, "memory=1G");
    struct replay_block a = take(&bench, 20 * MIB, 0);
    assert_int_equal(reserved(&bench), 32 * MIB);
    struct replay_block b = take(&bench, 20 * MIB, 1); /* across two pages */
    assert_int_equal(b.addr, a.addr + 20 * MIB);
    assert_int_equal(reserved(&bench), 64 * MIB);
    struct replay_block c = take(&bench, 25 * MIB, 0); /* one byte more than there is */
    assert_int_equal(reserved(&bench), 96 * MIB);
    give(&bench, &a);
    give(&bench, &b);
    give(&bench, &c);
    assert_int_equal(reserved(&bench), 96 * MIB);
    close_bench(&bench);
}

/* What the queue freed goes before what was never used, whatever fits better. */
TEST(own_pending_chunks_come_first) {
    struct bench bench;
    open_bench(&bench, &policy_async, "memory=1G");
    struct replay_block a = take(&bench, 10 * MIB, 0), b = take(&bench, 10 * MIB, 0);
    struct replay_block c = take(&bench, 9 * MIB, 0);
    give(&bench, &a);
    give(&bench, &b);
    struct replay_block d = take(&bench, 3 * MIB, 0); /* though 3 MiB are left at the end */
    assert_int_equal(d.addr, a.addr);
    struct replay_block e = take(&bench, 17 * MIB, 0); /* both have joined */
    assert_int_equal(e.addr, a.addr + 3 * MIB);
    assert_int_equal(reserved(&bench), 32 * MIB);
    give(&bench, &c);
    give(&bench, &d);
    give(&bench, &e);
    close_bench(&bench);
}

/* A chunk that has long been free joins the end of the range, and its pages move. */
TEST(idle_pages_move) {
    struct bench bench;
    open_bench(&bench, &policy_async, "memory=1G");
    struct replay_block a = take(&bench, 100 * MIB, 0), b = take(&bench, 20 * MIB, 0);
    give(&bench, &a);
    struct replay_block c = take(&bench, 120 * MIB, 0); /* pending pages stay where they are */
    assert_int_equal(c.addr, b.addr + 20 * MIB);
    assert_int_equal(reserved(&bench), 256 * MIB);
    pass_time(&bench);
    struct replay_block d = take(&bench, 200 * MIB, 0); /* 3 pages of a's, the others are new */
    assert_int_equal(d.addr, c.addr + 120 * MIB);
    assert_int_equal(calls(&bench, POLICY_CALL_UNMAP), 3);
    assert_int_equal(reserved(&bench), 352 * MIB);
    give(&bench, &b);
    give(&bench, &c);
    give(&bench, &d);
    close_bench(&bench);
}

/* Another queue's chunk is taken rather than new memory, behind a wait on the device. */
TEST(another_queue_is_waited_for) {
    struct bench bench;
    open_bench(&bench, &policy_async, "memory=1G,lag=1000,seed=5");
    struct replay_block a = take(&bench, 30 * MIB, 0);
    work(&bench, &a);
    assert_int_equal(policy_async.free(bench.state, &a, 1), VRAM_OK);
    struct replay_block b = take(&bench, 10 * MIB, 0);
    assert_int_equal(b.addr, a.addr);
    assert_int_equal(reserved(&bench), 32 * MIB);
    assert_true(calls(&bench, POLICY_CALL_MARKER) > 0);
    work(&bench, &b);
    give(&bench, &b); /* queue 0 goes on behind queue 1 */
    struct replay_block c = take(&bench, 10 * MIB, 0);
    assert_int_equal(c.addr, b.addr);
    give(&bench, &c);
    assert_int_equal(vram_queue_wait(bench.place.queues[1], VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    close_bench(&bench);
}

/* 128 MiB of device: what is pending is waited for, and its pages move, before anything fails. */
TEST(async_waits_when_full) {
    struct bench bench;
    open_bench(&bench, &policy_async, "memory=128M");
    struct replay_block a = take(&bench, 60 * MIB, 0), b = take(&bench, 2 * MIB, 0);
    struct replay_block c = take(&bench, 60 * MIB, 0);
    give(&bench, &a);
    assert_int_equal(try(&bench, 90 * MIB), VRAM_ERR_DEVICE_MEMORY); /* a's page is given back */
    assert_int_equal(reserved(&bench), 96 * MIB);
    give(&bench, &c);
    struct replay_block d = take(&bench, 90 * MIB, 0);
    assert_int_equal(d.addr, c.addr);
    assert_int_equal(reserved(&bench), 128 * MIB);
    give(&bench, &b);
    give(&bench, &d);
    close_bench(&bench);
}

/* Moved pages leave addresses behind, so that the range comes to its end and another is made. */
TEST(addresses_run_out) {
    struct bench bench;
    open_bench(&bench, &policy_async, "memory=320M");
    struct replay_block kept = take(&bench, 512, 0);
    vram_addr lowest = kept.addr, highest = kept.addr;
    for (int i = 0; i < 40; i++) {
        struct replay_block a = take(&bench, 64 * MIB, 0), b = take(&bench, 512, 0);
        give(&bench, &a);
        pass_time(&bench);
        struct replay_block c = take(&bench, 65 * MIB, 0);
        lowest = c.addr < lowest ? c.addr : lowest;
        highest = c.addr > highest ? c.addr : highest;
        give(&bench, &c);
        give(&bench, &kept);
        kept = b;
    }
    assert_true(highest - lowest > 22 * 32 * MIB);
    assert_true(reserved(&bench) <= 320 * MIB);
    give(&bench, &kept);
    close_bench(&bench);
}

/* ------------------------------------------------------------ failing drivers */

/* Every call of a driver fails in turn: the policy says so, and leaves nothing behind. */
TEST(failing_calls) {
    static const struct policy *const both[] = {&policy_expandable, &policy_async};
    static const vram_sim_call kinds[] = {VRAM_SIM_RESERVE, VRAM_SIM_CREATE, VRAM_SIM_MAP,
                                          VRAM_SIM_UNMAP, VRAM_SIM_SIGNAL};
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof kinds[0]; i++) {
        for (uint64_t n = 1; n < 6; n++) {
            struct bench bench;
            open_bench(&bench, both[i % 2], "memory=128M");
            const vram_sim_fault fault = {.size = sizeof fault,
                                          .call = kinds[i / 2],
                                          .nth = n,
                                          .code = VRAM_SIM_INVALID_VALUE};
            assert_int_equal(vram_sim_fault_set(bench.place.context, &fault), VRAM_OK);
            struct replay_block blocks[4] = {{0}};
            for (int k = 0; k < 8; k++) {
                struct replay_block *block = &blocks[k % 4];
                if (block->addr != 0) {
                    bench.place.busy_queues |= 2;
                    block->used_queues = k % 2 ? 2 : 0;
                    bench.policy->free(bench.state, block, 0);
                }
                *block = (struct replay_block){.bytes = 1};
                bench.policy->alloc(bench.state, (uint64_t)(k % 3 + 1) * 30 * MIB, 0, block);
            }
            for (int k = 0; k < 4; k++) {
                if (blocks[k].addr != 0) {
                    bench.policy->free(bench.state, &blocks[k], 0);
                }
            }
            assert_int_equal(vram_sim_fault_set(bench.place.context, NULL), VRAM_OK);
            close_bench(&bench);
        }
    }
}
