/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_live.c: questions about live blocks (vram/stats.h): which there are, how old, how large,
 * whose, and what was live at the peak.
 */
#include "unit/test_time.h"
#include "unit/track_world.h"

#include <pthread.h>
#include <stdlib.h>

static int begin(void) {
    test_time_begin(1000 * SECOND, 0);
    return start();
}

static int clean(void) {
    test_time_end();
    return track_clean();
}

/* What a visit has seen. */
struct seen {
    vram_live_block blocks[64];
    uint32_t count, enough;
};

static bool see(void *user, const vram_live_block *block) {
    struct seen *seen = user;
    assert_true(seen->count < 64);
    assert_int_equal(block->size, sizeof *block);
    seen->blocks[seen->count++] = *block;
    return seen->count != seen->enough;
}

static struct seen ask(vram_live_query query) {
    struct seen seen = {0};
    query.size = sizeof query;
    assert_ok(vram_live_visit(&query, see, &seen));
    return seen;
}

/* ------------------------------------------------------------------- queries */

/* Acceptance 12: ids unique, tags, a query of old allocations by a clock of the test's own. */
TEST(acceptance_12_old_allocations, "sim:memory=1G") {
    vram_pool *pool = pool_make(rig->device, "pool");
    vram_addr old = take(pool, 1000, "model/a", "old", rig->queue);
    test_time_ns += 61 * SECOND;
    vram_addr young = take(pool, 2000, "model/b", "young", rig->queue);
    struct seen seen = ask((vram_live_query){.pool = pool, .older_ns = VRAM_LIVE_OLD_NS});
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.blocks[0].addr, old);
    assert_string_equal(seen.blocks[0].name, "old");
    assert_string_equal(seen.blocks[0].tag, "model/a");
    assert_true(seen.blocks[0].age_ns >= 61 * SECOND && seen.blocks[0].age_ns < 62 * SECOND);
    test_time_ns += 61 * SECOND;
    assert_int_equal(ask((vram_live_query){.pool = pool, .older_ns = VRAM_LIVE_OLD_NS}).count, 2);
    assert_int_equal(ask((vram_live_query){.pool = pool, .older_ns = 3600 * SECOND}).count, 0);
    assert_int_equal(ask((vram_live_query){.pool = pool, .older_ns = UINT64_MAX}).count, 0);
    assert_ok(vram_free(old, rig->queue));
    assert_ok(vram_free(young, rig->queue));
    assert_int_equal(ask((vram_live_query){.pool = pool}).count, 0);
}

TEST(a_block_tells_all_that_is_known, "sim:memory=1G") {
    vram_pool *pool = pool_make(rig->device, "pool");
    vram_live_block block = {.size = sizeof block};
    vram_addr addr = take(pool, 1000, "model/a", "weights\n", rig->queue), plain;
    assert_ok(vram_live_get(addr, &block));
    assert_int_not_equal(block.id, 0);
    assert_ptr_equal(block.pool, pool);
    assert_ptr_equal(block.device, rig->device);
    assert_ptr_equal(block.queue, rig->queue);
    assert_int_equal(block.addr, addr);
    assert_int_equal(block.requested_bytes, 1000);
    assert_int_equal(block.held_bytes, 1024);
    assert_int_equal(block.elements, 250);
    assert_int_equal(block.kind, VRAM_MEMORY_DEVICE);
    assert_int_equal(block.thread, vr_os_thread_number());
    assert_int_equal(block.created_ns >> 20, test_time_ns >> 20);
    assert_int_equal(block.stack, 0);
    uint64_t id = block.id;
    assert_ok(vram_free(addr, rig->queue));
    assert_int_equal(vram_live_get(addr, &block), VRAM_ERR_INVALID);
    assert_ok(vram_alloc(pool, 900, rig->queue, &plain)); /* the same block, a hit */
    assert_int_equal(plain, addr);
    block = (vram_live_block){.size = sizeof block};
    assert_ok(vram_live_get(plain, &block));
    assert_true(block.id > id);
    assert_string_equal(block.name, "");
    assert_null(block.tag);
    assert_int_equal(block.elements, 0);
    assert_int_equal(block.requested_bytes, 900);
}

struct groups {
    vram_live_group all[16];
    uint32_t count;
};

static bool see_group(void *user, const vram_live_group *group) {
    struct groups *groups = user;
    assert_true(groups->count < 16);
    groups->all[groups->count++] = *group;
    return true;
}

TEST(queries_choose_and_order, "sim:devices=2,memory=1G") {
    vram_pool *one = pool_make(rig->device, "one"), *two = pool_make(rig->device, "two");
    vram_pool *far = pool_make(rig->other, "far");
    for (int i = 0; i < 5; i++) {
        take(i % 2 ? one : two, (uint64_t)(1 + (i * 3) % 5) * KIB, i < 3 ? "t/a" : "t2", NULL,
             rig->queue);
        test_time_ns += SECOND;
    }
    take(far, 9 * KIB, NULL, NULL, NULL);
    assert_int_equal(ask((vram_live_query){.pool = one}).count, 2);
    assert_int_equal(ask((vram_live_query){.device = rig->device}).count, 5);
    assert_int_equal(ask((vram_live_query){.device = rig->other}).count, 1);
    assert_int_equal(ask((vram_live_query){.context = rig->context}).count, 6);
    assert_int_equal(ask((vram_live_query){.context = rig->context, .tag = "t"}).count, 3);
    assert_int_equal(ask((vram_live_query){.context = rig->context, .tag = "t/a"}).count, 3);
    assert_int_equal(ask((vram_live_query){.context = rig->context, .tag = "t2"}).count, 2);
    assert_int_equal(ask((vram_live_query){.context = rig->context, .tag = ""}).count, 1);
    assert_int_equal(ask((vram_live_query){.context = rig->context, .tag = "none"}).count, 0);
    assert_int_equal(ask((vram_live_query){.context = rig->context, .most = 4}).count, 4);
    struct seen seen = ask((vram_live_query){.context = rig->context, .order = VRAM_LIVE_LARGEST});
    assert_int_equal(seen.count, 6);
    assert_int_equal(seen.blocks[0].requested_bytes, 9 * KIB);
    for (uint32_t i = 1; i < 6; i++) {
        assert_true(seen.blocks[i - 1].requested_bytes >= seen.blocks[i].requested_bytes);
    }
    seen = ask((vram_live_query){.context = rig->context, .order = VRAM_LIVE_OLDEST, .most = 3});
    assert_int_equal(seen.count, 3);
    assert_true(seen.blocks[0].created_ns < seen.blocks[1].created_ns);
    assert_true(seen.blocks[1].created_ns < seen.blocks[2].created_ns);
    vram_live_query query = {.size = sizeof query, .context = rig->context};
    struct seen few = {.enough = 2};
    assert_ok(vram_live_visit(&query, see, &few));
    assert_int_equal(few.count, 2);
    struct groups groups = {0};
    assert_ok(vram_live_groups(&query, VRAM_LIVE_BY_TAG, see_group, &groups));
    assert_int_equal(groups.count, 3); /* whichever pool they are of */
}

/* --------------------------------------------------------------------- peaks */

TEST(the_peak_is_exact_and_explained, "sim:memory=1G") {
    vram_pool *pool = pool_make(rig->device, "pool");
    vram_addr a = take(pool, 10 * KIB, "a", NULL, rig->queue);
    vram_addr b = take(pool, 20 * KIB, "b", NULL, rig->queue);
    assert_ok(vram_free(a, rig->queue));
    assert_ok(vram_free(b, rig->queue));
    take(pool, 5 * KIB, "c", NULL, rig->queue);
    vram_live_query query = {.size = sizeof query, .pool = pool};
    vram_live_stats stats = {.size = sizeof stats};
    struct groups groups = {0};
    assert_ok(vram_live_stats_get(&query, &stats));
    assert_int_equal(stats.pools, 1);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.live_bytes, 5 * KIB);
    assert_int_equal(stats.peak_bytes, 30 * KIB);
    assert_int_equal(stats.peak_blocks, 2);
    assert_true(stats.peak_ns.known);
    assert_int_equal(stats.allocs, 3);
    assert_int_equal(stats.frees, 2);
    assert_int_equal(stats.lost_records, 0);
    assert_ok(vram_live_groups(&query, VRAM_LIVE_BY_TAG, see_group, &groups));
    assert_int_equal(groups.count, 3);
    assert_string_equal(groups.all[0].tag, "b");
    assert_int_equal(groups.all[0].peak_bytes, 20 * KIB);
    assert_int_equal(groups.all[0].live_bytes, 0);
    assert_string_equal(groups.all[1].tag, "a");
    assert_string_equal(groups.all[2].tag, "c");
    assert_int_equal(groups.all[2].peak_blocks, 0);
    assert_int_equal(groups.all[2].live_blocks, 1);
    groups.count = 0;
    assert_ok(vram_live_groups(&query, VRAM_LIVE_BY_QUEUE, see_group, &groups));
    assert_int_equal(groups.count, 1);
    assert_ptr_equal(groups.all[0].queue, rig->queue);
    vram_pool_stats all = {.size = sizeof all};
    assert_ok(vram_pool_stats_get(pool, &all));
    assert_int_equal(all.peak_requested_bytes, 30 * KIB);
    take(pool, 40 * KIB, "d", NULL, rig->queue); /* more than ever, with what is left */
    groups.count = 0;
    assert_ok(vram_live_groups(&query, VRAM_LIVE_BY_TAG, see_group, &groups));
    assert_int_equal(groups.count, 2);
    assert_string_equal(groups.all[0].tag, "d");
    assert_int_equal(groups.all[0].peak_bytes, 40 * KIB);
    assert_int_equal(groups.all[1].peak_bytes, 5 * KIB);
}

/* --------------------------------------------------------------------- stacks */

TEST(stacks_say_who_asked) {
    assert_ok(vram_option_set("track_stacks", "2"));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "pool");
    for (int i = 0; i < 6; i++) {
        assert_ok(vram_alloc(pool, 1000, rig.queue, &(vram_addr){0}));
    }
    struct seen seen = ask((vram_live_query){.pool = pool});
    uint32_t with = 0, stack = 0;
    for (uint32_t i = 0; i < seen.count; i++) {
        with += seen.blocks[i].stack != 0;
        stack = seen.blocks[i].stack ? seen.blocks[i].stack : stack;
    }
    assert_int_equal(with, 3);
    assert_true(ask((vram_live_query){.pool = pool, .stack = stack}).count >= 1);
    char text[4096], small[8];
    size_t bytes = vram_stack_text(stack, text, sizeof text);
    assert_true(bytes > 0 && bytes < sizeof text);
    assert_int_equal(bytes, strlen(text));
    assert_non_null(strstr(text, "unit+0x")); /* the module at least */
    assert_int_equal(vram_stack_text(stack, small, sizeof small), bytes);
    assert_memory_equal(small, text, 7);
    assert_int_equal(vram_stack_text(0, text, sizeof text), 0);
    assert_int_equal(vram_stack_text(0, NULL, 0), 0);
    assert_int_equal(vram_stack_text(UINT32_MAX, text, sizeof text), 0);
    struct groups groups = {0};
    vram_live_query query = {.size = sizeof query, .pool = pool};
    assert_ok(vram_live_groups(&query, VRAM_LIVE_BY_STACK, see_group, &groups));
    assert_true(groups.count >= 2);
    vram_context_destroy(rig.context);
}

/* -------------------------------------------------------------------- threads */

enum { THREADS = 16, EACH = 2000 };

struct crew {
    vram_pool *pool;
    vram_queue *queue;
    pthread_barrier_t start;
};

static void *work(void *argument) {
    struct crew *crew = argument;
    vram_addr live[8] = {0};
    vram_alloc_options options = {.size = sizeof options, .tag = "crew/thread"};
    uint32_t seed = (uint32_t)vr_os_thread_number();
    pthread_barrier_wait(&crew->start);
    for (int i = 0; i < EACH; i++) {
        seed = seed * 1664525u + 1013904223u;
        vram_addr *at = &live[seed >> 29];
        if (*at) {
            (void)vram_free(*at, crew->queue);
        }
        uint64_t size = 1 + (seed >> 8) % 20000;
        vram_status status = i % 3 ? vram_alloc(crew->pool, size, crew->queue, at)
                                   : vram_alloc_with(crew->pool, size, crew->queue, &options, at);
        if (status != VRAM_OK) {
            *at = 0;
        }
    }
    for (int i = 0; i < 7; i++) { /* one is left for the count at the end */
        if (live[i]) {
            (void)vram_free(live[i], crew->queue);
        }
    }
    return NULL;
}

static bool sum_up(void *user, const vram_live_block *block) {
    uint64_t *sums = user;
    sums[0]++;
    sums[1] += block->requested_bytes;
    sums[2] += block->held_bytes;
    sums[3] ^= block->id;
    return true;
}

/* 100,000 allocations and frees over 16 threads: totals are exact, and no block is forgotten or
   made up. */
TEST(totals_are_exact_over_threads) {
    test_time_end();
    struct rig rig = rig_make("sim", "memory=4G");
    struct crew crew = {.pool = pool_make(rig.device, "pool"), .queue = rig.queue};
    pthread_t threads[THREADS];
    pthread_barrier_init(&crew.start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &crew), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&crew.start);
    vram_live_query query = {.size = sizeof query, .pool = crew.pool};
    vram_live_stats stats = {.size = sizeof stats};
    vram_pool_stats counted = {.size = sizeof counted};
    uint64_t sums[4] = {0};
    assert_ok(vram_live_stats_get(&query, &stats));
    assert_ok(vram_pool_stats_get(crew.pool, &counted));
    assert_ok(vram_live_visit(&query, sum_up, sums));
    assert_int_equal(stats.allocs, THREADS * EACH);
    assert_int_equal(counted.allocs, THREADS * EACH);
    assert_int_equal(stats.frees, counted.frees);
    assert_int_equal(stats.live_blocks, counted.live_blocks);
    assert_int_equal(stats.live_bytes, counted.requested_bytes);
    assert_int_equal(stats.held_bytes, counted.allocated_bytes);
    assert_int_equal(stats.peak_bytes, counted.peak_requested_bytes);
    assert_int_equal(stats.lost_records, 0);
    assert_int_equal(sums[0], stats.live_blocks);
    assert_int_equal(sums[1], stats.live_bytes);
    assert_int_equal(sums[2], stats.held_bytes);
    assert_true(stats.live_blocks <= THREADS);
    vram_context_destroy(rig.context);
}

static void *collect_ids(void *argument) {
    struct crew *crew = argument;
    pthread_barrier_wait(&crew->start);
    for (int i = 0; i < 500; i++) {
        (void)vram_alloc(crew->pool, 512, crew->queue, &(vram_addr){0});
    }
    return NULL;
}

static int by_number(const void *one, const void *other) {
    uint64_t a, b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return (a > b) - (a < b);
}

struct ids {
    uint64_t all[4096];
    uint32_t count;
};

static bool keep_id(void *user, const vram_live_block *block) {
    struct ids *ids = user;
    ids->all[ids->count++] = block->id;
    return ids->count < 4096;
}

TEST(acceptance_12_ids_are_unique_over_threads_and_pools, "sim:memory=1G") {
    static struct ids ids;
    struct crew crews[2] = {{.pool = pool_make(rig->device, "one"), .queue = rig->queue},
                            {.pool = pool_make(rig->device, "two"), .queue = rig->queue}};
    pthread_t threads[4];
    for (int i = 0; i < 2; i++) {
        pthread_barrier_init(&crews[i].start, NULL, 2);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, collect_ids, &crews[i % 2]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    ids.count = 0;
    vram_live_query query = {.size = sizeof query, .context = rig->context};
    assert_ok(vram_live_visit(&query, keep_id, &ids));
    assert_int_equal(ids.count, 2000);
    qsort(ids.all, ids.count, sizeof ids.all[0], by_number);
    for (uint32_t i = 1; i < ids.count; i++) {
        assert_true(ids.all[i] > ids.all[i - 1]);
    }
}

EACH_TEST(begin, clean)
