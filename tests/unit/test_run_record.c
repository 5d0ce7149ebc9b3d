/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_record.c: the recorder of `vram run`: its table of live blocks against a plain one,
 * physical memory until its last handle and mapping, limits of one process and of several, memory
 * that runs out, and forks.
 */
#include "unit/child.h"

#include "interpose/mapped_handles.h"
#include "interpose/run_live.h"
#include "unit/watched_world.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { MIB = 1 << 20, ORDINAL = 3 };

static uint32_t device;

static struct watched now(void) {
    return watched_of(RUN_CUDA, ORDINAL);
}

static struct run_block block_of(uint64_t value, uint64_t bytes) {
    return (struct run_block){.device = device,
                              .kind = RUN_DEVICE,
                              .space = RUN_SPACE_ADDRESS,
                              .value = value,
                              .bytes = bytes};
}

static void take(uint64_t value, uint64_t bytes) {
    struct run_block block = block_of(value, bytes);
    assert_true(run_limit_take(device, RUN_DEVICE, bytes));
    run_alloc(&block);
}

static bool give(uint64_t value) {
    struct run_block block;
    bool known = run_free_begin(RUN_SPACE_ADDRESS, value, &block);
    run_free_end(known ? &block : NULL, true);
    return known;
}

/* --------------------------------------------------------------------- blocks */

/* Values that share places of the table, taken and given back in any order. */
TEST(live_blocks_are_those_of_a_plain_table) {
    may_leave("tables of vram run stay");
    enum { VALUES = 700, STEPS = 20000 };
    static bool there[VALUES];
    uint64_t seed = 1, bytes = 0;
    for (int i = 0; i < STEPS; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t at = (seed >> 33) % VALUES, value = (at + 1) << 20;
        if (!there[at]) {
            take(value, at + 1);
        }
        struct run_block found;
        assert_true(run_block_find(RUN_SPACE_ADDRESS, value, &found) && found.bytes == at + 1);
        assert_false(run_block_find(RUN_SPACE_ARRAY, value, &found));
        if (there[at]) {
            assert_true(give(value));
        }
        there[at] = !there[at];
    }
    for (uint64_t at = 0; at < VALUES; at++) {
        bytes += there[at] ? at + 1 : 0;
    }
    assert_int_equal(now().live[RUN_DEVICE], bytes);
    for (uint64_t at = 0; at < VALUES; at++) {
        assert_int_equal(give((at + 1) << 20), there[at]);
    }
    assert_int_equal(now().live[RUN_DEVICE], 0);
    assert_int_equal(watched_page->slots[0].devices[device].used, 0);
}

/* The driver refused to free it: it is live as before. */
TEST(a_block_that_was_not_freed_stays) {
    struct run_block block;
    take(MIB, 5);
    assert_true(run_free_begin(RUN_SPACE_ADDRESS, MIB, &block));
    assert_false(run_block_find(RUN_SPACE_ADDRESS, MIB, &block));
    run_free_end(&block, false);
    assert_int_equal(now().live[RUN_DEVICE], 5);
    take(MIB, 7); /* its free was not seen: the address is there again */
    assert_int_equal(now().live[RUN_DEVICE], 7);
    assert_true(give(MIB));
    assert_false(give(MIB));
    assert_false(give(0));
    assert_int_equal(now().live[RUN_DEVICE], 0);
}

/* A context takes its memory along, and leaves physical memory. */
TEST(a_context_ends_with_its_blocks) {
    struct run_block physical = block_of(9, 11);
    physical.kind = RUN_PHYSICAL;
    physical.space = RUN_SPACE_PHYSICAL;
    take(MIB, 5);
    take(2 * MIB, 6);
    run_alloc(&physical);
    run_context_ended(device);
    assert_int_equal(now().live[RUN_DEVICE], 0);
    assert_int_equal(now().live[RUN_PHYSICAL], 11);
    run_free_all(device, NULL, NULL);
    assert_int_equal(now().counted, 0);
}

static void *thread_pairs(void *number) {
    for (uint64_t i = 1; i <= 500; i++) {
        uint64_t value = ((uint64_t)(uintptr_t)number << 40) + (i << 12);
        take(value, 100);
        assert_true(give(value));
    }
    return NULL;
}

TEST(threads_take_and_give) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, thread_pairs, (void *)(i + 1)), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(now().counted, 0);
}

/* Whatever allocation fails, the call returns, and what was counted can be given back. */
TEST(memory_that_runs_out_loses_records_alone) {
    for (uint64_t nth = 1; nth < 40; nth++) {
        run_live_clear(); /* it has to grow again */
        memory_fails(nth, true);
        for (uint64_t i = 1; i <= 600; i++) {
            struct run_block block = block_of(i << 20, 1);
            run_alloc(&block);
        }
        for (uint64_t i = 1; i <= 600; i++) {
            (void)give(i << 20);
        }
        memory_fails(0, false);
        assert_int_equal(now().live[RUN_DEVICE], 0);
    }
}

/* ------------------------------------------------------------- physical memory */

static void handle_make(uint64_t handle, uint64_t bytes) {
    struct run_block block = {.device = device,
                              .kind = RUN_PHYSICAL,
                              .space = RUN_SPACE_PHYSICAL,
                              .value = handle,
                              .bytes = bytes};
    run_handle_created(&block);
}

static void handle_release(uint64_t handle, bool done) {
    struct run_handle_end end;
    run_handle_release_begin(handle, &end);
    run_handle_end(&end, done);
}

static void handle_unmap(uint64_t address, uint64_t bytes, bool done) {
    struct run_handle_end end;
    run_handle_unmap_begin(address, bytes, &end);
    run_handle_end(&end, done);
}

TEST(physical_memory_lives_until_its_last_user) {
    may_leave("tables of vram run stay");
    handle_make(1, 4);
    handle_make(2, 6);
    run_handle_mapped(1, 16 * MIB, MIB);
    run_handle_mapped(2, 17 * MIB, MIB);
    handle_release(1, true); /* mapped: it stays */
    assert_int_equal(now().live[RUN_PHYSICAL], 10);
    run_handle_retained(2);
    handle_release(2, true);
    handle_unmap(16 * MIB, 2 * MIB, false); /* the driver refuses: nothing changes */
    assert_int_equal(now().live[RUN_PHYSICAL], 10);
    handle_unmap(16 * MIB, 2 * MIB, true); /* both; the second has a handle left */
    assert_int_equal(now().live[RUN_PHYSICAL], 6);
    handle_release(2, false);
    assert_int_equal(now().live[RUN_PHYSICAL], 6);
    handle_release(2, true);
    assert_int_equal(now().live[RUN_PHYSICAL], 0);
    handle_release(2, true); /* nothing is known of it */
    handle_unmap(16 * MIB, MIB, true);
    handle_make(1, 4); /* the number comes again */
    handle_release(1, true);
    assert_int_equal(now().live[RUN_PHYSICAL], 0);
}

TEST(many_handles_are_found) {
    may_leave("tables of vram run stay");
    enum { HANDLES = 2000 };
    for (uint64_t i = 1; i <= HANDLES; i++) {
        handle_make(i, 1);
        run_handle_mapped(i, i << 21, 1 << 21);
    }
    for (uint64_t i = 1; i <= HANDLES; i++) {
        handle_release(i, true);
    }
    assert_int_equal(now().live[RUN_PHYSICAL], HANDLES);
    handle_unmap(1 << 21, (uint64_t)HANDLES << 21, true);
    assert_int_equal(now().live[RUN_PHYSICAL], 0);
}

/* ----------------------------------------------------------------------- limits */

TEST(a_limit_is_never_passed) {
    uint64_t free = 100 * MIB, total = 200 * MIB;
    watched_limit(10 * MIB);
    assert_true(run_limit_take(device, RUN_DEVICE, 6 * MIB));
    assert_false(run_limit_take(device, RUN_DEVICE, 6 * MIB));
    assert_false(run_limit_take(device, RUN_DEVICE, UINT64_MAX));
    assert_true(run_limit_take(device, RUN_PINNED, UINT64_MAX)); /* the host's */
    assert_true(run_limit_take(RUN_NO_DEVICE, RUN_DEVICE, 6 * MIB));
    run_limit_view(device, &free, &total);
    assert_true(free == 4 * MIB && total == 10 * MIB);
    free = 1; /* never more than the driver said */
    run_limit_view(device, &free, NULL);
    assert_int_equal(free, 1);
    run_limit_give(device, RUN_DEVICE, 60 * MIB); /* never below nothing */
    assert_true(run_limit_take(device, RUN_DEVICE, 10 * MIB));
    free = 100 * MIB;
    run_limit_view(device, &free, NULL);
    assert_int_equal(free, 0);
    run_limit_give(device, RUN_DEVICE, 10 * MIB);
    watched_limit(0);
}

static int take_and_wait(void *argument) {
    const int *ready = argument;
    uint32_t own = run_device_find(RUN_CUDA, ORDINAL, NULL, 0);
    char byte = run_limit_take(own, RUN_DEVICE, 6 * MIB) ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) {
        return 1;
    }
    for (;;) {
        pause();
    }
}

/* With --tree: what a killed process had is given back by the one that is refused. */
TEST(a_limit_of_several_processes) {
    int ready[2];
    char byte;
    watched_limit(10 * MIB);
    watched_page->settings.tree = 1;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        _exit(take_and_wait(ready));
    }
    assert_true(read(ready[0], &byte, 1) == 1 && byte == 'y');
    assert_false(run_limit_take(device, RUN_DEVICE, 6 * MIB));
    assert_true(run_limit_take(device, RUN_DEVICE, 4 * MIB));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(child_end(child), 1000 + SIGKILL);
    assert_true(run_limit_take(device, RUN_DEVICE, 6 * MIB));
    run_limit_give(device, RUN_DEVICE, 10 * MIB);
    assert_true(run_limit_take(device, RUN_DEVICE, 10 * MIB)); /* all of it is there */
    run_limit_give(device, RUN_DEVICE, 10 * MIB);
    close(ready[0]);
    close(ready[1]);
    watched_page->settings.tree = 0;
    watched_limit(0);
}

static int take_without_a_slot(void *argument) {
    (void)argument;
    uint32_t own = run_device_find(RUN_CUDA, ORDINAL, NULL, 0);
    bool held = run_limit_take(own, RUN_DEVICE, 6 * MIB) &&
                !run_limit_take(own, RUN_DEVICE, 6 * MIB) &&
                run_limit_take(own, RUN_DEVICE, 4 * MIB);
    run_limit_give(own, RUN_DEVICE, 10 * MIB);
    return held && run_limit_take(own, RUN_DEVICE, 10 * MIB) ? 0 : 1;
}

/* More processes than the page has slots: each is limited all the same. */
TEST(a_limit_without_a_slot) {
    watched_limit(10 * MIB);
    for (int tree = 0; tree < 2; tree++) {
        watched_page->settings.tree = (uint32_t)tree;
        for (int i = 1; i < RUN_SLOTS; i++) {
            watched_page->slots[i].pid = getpid();
        }
        uint32_t before = watched_page->slotless;
        assert_int_equal(in_child(take_without_a_slot, NULL), 0);
        assert_int_equal(watched_page->slotless, before + 1);
        for (int i = 1; i < RUN_SLOTS; i++) {
            watched_page->slots[i].pid = 0;
        }
    }
    watched_page->settings.tree = 0;
    watched_limit(0);
}

/* ------------------------------------------------------------------------ forks */

/* A child has a slot of its own, and none of its parent's blocks. */
static int forked(void *argument) {
    struct run_block block;
    (void)argument;
    bool parents = run_block_find(RUN_SPACE_ADDRESS, MIB, &block);
    handle_release(5, true);
    device = run_device_find(RUN_CUDA, ORDINAL, NULL, 0);
    take(MIB, 3);
    return parents || !give(MIB) ? 1 : 0;
}

TEST(a_forked_child_starts_anew) {
    take(MIB, 5);
    handle_make(5, 7);
    assert_int_equal(in_child(forked, NULL), 0);
    assert_int_equal(now().live[RUN_DEVICE], 5);
    handle_release(5, true);
    assert_true(give(MIB));
}

static int begin(void) {
    watched_begin();
    device = run_device_find(RUN_CUDA, ORDINAL, "a device", 0);
    return device < RUN_DEVICES ? 0 : -1;
}

WHOLE_FILE(begin, NULL)
