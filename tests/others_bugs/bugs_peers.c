/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_peers.c: bugs of others between processes: counters and locks that a killed process leaves
 * wrong, and memory of other processes that is never given back.
 */
#include "others_bugs/bugs.h"

#include "base/memory.h"
#include "interpose/run_record.h"
#include "unit/share_world.h"
#include "unit/step_kill.h"
#include "unit/watched_world.h"
#include "vram/vram.h"

#include <time.h>

enum { ORDINAL = 3 };
#define LIMIT (10 * MIB)

static uint32_t device;

static int others_bugs_begin(void) {
    watched_begin();
    watched_limit(LIMIT);
    watched_page->settings.tree = 1;
    device = run_device_find(RUN_CUDA, ORDINAL, "a device", 0);
    return device < RUN_DEVICES ? share_folder_make() : -1;
}

static int others_bugs_end(void) {
    share_folder_remove();
    return 0;
}

static uint64_t seconds_of(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

/* ------------------------------------------------- one limit for several processes */

static int find_device(void *argument) {
    (void)argument;
    device = run_device_find(RUN_CUDA, ORDINAL, "a device", 0);
    return device < RUN_DEVICES ? 0 : 1;
}

static int take_and_give(void *argument) {
    (void)argument;
    bool taken = run_limit_take(device, RUN_DEVICE, 6 * MIB);
    run_limit_give(device, RUN_DEVICE, 6 * MIB);
    return taken ? 0 : 1;
}

static const struct stepped taker = {find_device, take_and_give, NULL};

/* Slots of ended processes are kept for the report: a test that has many frees them. */
static void slots_forget(void) {
    for (int i = 1; i < RUN_SLOTS; i++) {
        memset(&watched_page->slots[i], 0, sizeof watched_page->slots[i]);
    }
}

/* Killed at any instruction while it takes and gives: all of it is there for the next one. */
BUG(42, killed_between_two_steps) {
    uint64_t total = step_count(&taker);
    if (!total) {
        skip();
    }
    const char *all = getenv("STEP_ALL");
    for (uint64_t at = 1; at < total; at += all ? 1 : STEP_EVERY(total, 20)) {
        step_kill(&taker, at);
        assert_true(run_limit_take(device, RUN_DEVICE, LIMIT));
        assert_false(run_limit_take(device, RUN_DEVICE, 1));
        run_limit_give(device, RUN_DEVICE, LIMIT);
        slots_forget();
    }
}

/* Stopped there instead, as by a debugger: nobody waits for it, what it may have is not given out
   twice, and the rest is to be had. */
BUG(43, nobody_waits_for_a_stopped_one) {
    uint64_t total = step_count(&taker);
    if (!total) {
        skip();
    }
    uint64_t began = seconds_of();
    for (uint64_t at = 1; at < total; at += STEP_EVERY(total, 10)) {
        bool alive;
        pid_t child = step_begin(&taker);
        step_run(child, at, &alive);
        assert_true(run_limit_take(device, RUN_DEVICE, 4 * MIB));
        (void)run_limit_take(device, RUN_DEVICE, 6 * MIB);
        run_limit_give(device, RUN_DEVICE, LIMIT);
        kill(child, SIGKILL);
        if (alive) {
            assert_int_equal(child_end(child), 1000 + SIGKILL);
        }
        slots_forget();
    }
    assert_true(seconds_of() - began < 20);
}

/* Takes some, says so and stays. */
static pid_t holder_start(uint64_t bytes) {
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        byte = find_device(NULL) == 0 && run_limit_take(device, RUN_DEVICE, bytes) ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        for (;;) {
            pause();
        }
    }
    assert_true(read(ready[0], &byte, 1) == 1 && byte == 'y');
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void holder_kill(pid_t child) {
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(child_end(child), 1000 + SIGKILL);
}

static uint64_t free_bytes(void) {
    uint64_t free = UINT64_MAX / 2, total = UINT64_MAX / 2;
    run_limit_view(device, &free, &total);
    assert_int_equal(total, LIMIT);
    return free;
}

/* One is killed, another lives: only what the dead one had is free again. */
BUG(44, the_living_keep_theirs) {
    pid_t dead = holder_start(4 * MIB), living = holder_start(4 * MIB);
    assert_false(run_limit_take(device, RUN_DEVICE, 4 * MIB));
    holder_kill(dead);
    assert_true(run_limit_take(device, RUN_DEVICE, 6 * MIB));
    assert_false(run_limit_take(device, RUN_DEVICE, 1));
    assert_int_equal(kill(living, 0), 0);
    holder_kill(living);
    assert_true(run_limit_take(device, RUN_DEVICE, 4 * MIB));
}

/* Free and total after a process was killed and others went on. */
BUG(45, free_is_not_total) {
    pid_t dead = holder_start(3 * MIB), living = holder_start(2 * MIB);
    assert_int_equal(free_bytes(), 5 * MIB);
    holder_kill(dead);
    assert_false(run_limit_take(device, RUN_DEVICE, 9 * MIB)); /* the refused one counts anew */
    assert_int_equal(free_bytes(), 8 * MIB);
    assert_true(run_limit_take(device, RUN_DEVICE, MIB));
    assert_int_equal(free_bytes(), 7 * MIB);
    holder_kill(living);
}

/* Many processes that begin at once do not queue for one lock. */
BUG(46, three_hundred_at_once) {
    enum { PROCESSES = BUGS_WATCHED ? 60 : 300 };
    pid_t children[PROCESSES];
    uint64_t began = seconds_of();
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            alarm(CHILD_SECONDS);
            bool taken = find_device(NULL) != 0 || run_limit_take(device, RUN_DEVICE, 1024);
            run_limit_give(device, RUN_DEVICE, 1024);
            _exit(taken ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(child_end(children[i]), 0);
    }
    assert_true(seconds_of() - began < 15);
    assert_true(run_limit_take(device, RUN_DEVICE, LIMIT));
}

/* ------------------------------------------------------------------ opened memory */

static uint64_t mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    uint64_t count = 0;
    assert_non_null(maps);
    for (int c; (c = getc(maps)) != EOF;) {
        count += c == '\n';
    }
    fclose(maps);
    return count;
}

/* What this process has open, mapped and allocated. */
struct footprint {
    uint64_t descriptors, mappings, bytes;
};

static struct footprint footprint_now(void) {
    return (struct footprint){descriptors_open(), mappings(), vr_mem_live_bytes()};
}

static void expect_no_growth(struct footprint before, uint64_t slack_bytes) {
    for (int i = 0; i < 2000 && footprint_now().descriptors > before.descriptors; i++) {
        usleep(1000); /* the server may still be closing some */
    }
    struct footprint now = footprint_now();
    assert_true(now.descriptors <= before.descriptors);
    assert_true(BUGS_WATCHED || now.mappings <= before.mappings + 8);
    assert_true(now.bytes <= before.bytes + slack_bytes);
}

struct sharing {
    struct share_world owner, reader;
    vram_addr addr;
};

static void sharing_open(struct sharing *sharing) {
    share_world_open(&sharing->owner, VRAM_POOL_SHAREABLE);
    share_device_open(&sharing->reader);
    sharing->addr = share_block(&sharing->owner, 64 * 1024, 7);
}

static void sharing_close(struct sharing *sharing) {
    share_world_close(&sharing->reader);
    share_world_close(&sharing->owner);
}

static void open_and_close(struct sharing *sharing, const vram_share_token *token) {
    vram_share *opened;
    assert_ok(vram_share_open(sharing->reader.device, token, NULL, &opened));
    assert_ok(vram_share_close(opened));
}

/* One export, opened and closed over and over. */
BUG(47, mappings_are_given_back) {
    struct sharing sharing;
    struct footprint before = {0};
    vram_share *share;
    vram_share_token token;
    sharing_open(&sharing);
    share_export_one(sharing.addr, 0, &share, &token);
    for (int i = 0; i < (BUGS_WATCHED ? 60 : 300); i++) {
        open_and_close(&sharing, &token);
        if (i == 20) {
            share_await_readers(share, 0);
            before = footprint_now();
        }
    }
    share_await_readers(share, 0);
    expect_no_growth(before, 4096);
    sharing_close(&sharing);
}

/* A reader that ends its device and never closes what it opened. */
BUG(48, closed_with_the_device) {
    struct sharing sharing;
    vram_share *share, *opened;
    vram_share_token token;
    sharing_open(&sharing);
    share_export_one(sharing.addr, 0, &share, &token);
    share_world_close(&sharing.reader);
    struct footprint before = {0};
    for (int i = 0; i < 10; i++) {
        share_device_open(&sharing.reader);
        assert_ok(vram_share_open(sharing.reader.device, &token, NULL, &opened));
        assert_ok(vram_share_open(sharing.reader.device, &token, NULL, &opened));
        share_world_close(&sharing.reader);
        share_await_readers(share, 0);
        before = i ? before : footprint_now();
    }
    expect_no_growth(before, 65536);
    assert_ok(vram_share_close(share));
    share_world_close(&sharing.owner);
}

/* Ever new exports: nobody caches what is closed. */
BUG(49, no_cache_of_what_is_closed) {
    struct sharing sharing;
    struct footprint before = {0};
    sharing_open(&sharing);
    for (int i = 0; i < (BUGS_WATCHED ? 60 : 200); i++) {
        vram_share *share;
        vram_share_token token;
        vram_addr addr = share_block(&sharing.owner, 4096 + (uint64_t)i * 4096, 9);
        share_export_one(addr, 0, &share, &token);
        open_and_close(&sharing, &token);
        assert_ok(vram_share_close(share));
        assert_ok(vram_free(addr, sharing.owner.queue));
        assert_ok(vram_queue_wait(sharing.owner.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_pool_trim(sharing.owner.pool, NULL, NULL));
        if (i == 30) {
            before = footprint_now();
        }
    }
    expect_no_growth(before, 65536);
    sharing_close(&sharing);
}

/* The same token twice in one process: two openings, and the owner is free after both. */
BUG(50, opened_twice) {
    struct sharing sharing;
    vram_share *share, *first, *second;
    vram_share_part parts[2];
    vram_share_token token;
    sharing_open(&sharing);
    share_export_one(sharing.addr, 0, &share, &token);
    assert_ok(vram_share_open(sharing.reader.device, &token, NULL, &first));
    assert_ok(vram_share_open(sharing.reader.device, &token, NULL, &second));
    assert_ok(vram_share_parts_get(first, 0, 1, &parts[0]));
    assert_ok(vram_share_parts_get(second, 0, 1, &parts[1]));
    assert_true(parts[0].addr != parts[1].addr);
    share_await_readers(share, 2);
    assert_ok(vram_share_close(first));
    share_await_readers(share, 1);
    assert_int_equal(share_count(&sharing.reader, parts[1].addr, 64 * 1024, 7), 16 * 1024);
    assert_ok(vram_share_close(second));
    share_await_readers(share, 0);
    assert_ok(vram_share_close(share));
    assert_ok(vram_free(sharing.addr, sharing.owner.queue));
    assert_ok(vram_queue_wait(sharing.owner.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(sharing.owner.pool, NULL, NULL));
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(sharing.owner.pool, &stats));
    assert_int_equal(stats.reserved_bytes, 0);
    sharing_close(&sharing);
}

EACH_TEST(others_bugs_begin, others_bugs_end)
