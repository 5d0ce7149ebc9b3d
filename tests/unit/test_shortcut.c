/* SPDX-License-Identifier: Apache-2.0 */
/* test_shortcut.c: the short way of a miss (shortcut.c): who goes it, and who does not. */
#include "base/os/os.h"
#include "core/pool/pool_calls.h"
#include "unit/shortcut_world.h"

#include <pthread.h>

/* A hole of 6 MiB, of the queue's, and this thread has a cache there. */
static void make_hole(vram_pool *pool, vram_queue *queue) {
    vram_addr hole = take(pool, 6 * MIB, queue);
    (void)take(pool, 70 * KIB, queue); /* the hole ends here */
    assert_ok(vram_free(hole, queue));
    forget();
}

struct place {
    struct rig rig;
    vram_pool *pool;
};

static struct place place_make(uint32_t flags) {
    struct place place = {.rig = rig_make("sim", "memory=1G")};
    place.pool = pool_of(place.rig.device, flags, 0);
    make_hole(place.pool, place.rig.queue);
    return place;
}

/* ----------------------------------------------------------------------- who goes it */

static void a_hole_serves_by_the_short_way(void **state) {
    (void)state;
    for (uint32_t flags = 0; flags <= VRAM_POOL_SEGMENTS; flags += VRAM_POOL_SEGMENTS) {
        struct place place = place_make(flags);
        vram_pool_stats before = stats_of(place.pool);
        vram_addr addr = take(place.pool, 100 * KIB + 1, place.rig.queue);
        expect(1, 1);
        vram_pool_stats after = stats_of(place.pool);
        assert_int_equal(after.allocs, before.allocs + 1);
        assert_int_equal(after.hits, before.hits + 1);
        assert_int_equal(after.cache_hits, before.cache_hits);
        assert_int_equal(after.requested_bytes, before.requested_bytes + 100 * KIB + 1);
        assert_int_equal(after.allocated_bytes, before.allocated_bytes + 100 * KIB + 512);
        assert_int_equal(after.live_blocks, before.live_blocks + 1);
        vram_block_info info = {.size = sizeof info};
        assert_ok(vram_block_info_get(addr, &info));
        assert_int_equal(info.requested_bytes, 100 * KIB + 1);
        assert_int_equal(info.held_bytes, 100 * KIB + 512);
        assert_null(info.tag);
        assert_ok(vram_free(addr, place.rig.queue));
        assert_int_equal(vram_free(addr, place.rig.queue), VRAM_ERR_INVALID);
        rig_end_clean(&place.rig);
    }
}

static void without_a_queue_too(void **state) {
    struct place place = place_make(0);
    (void)state;
    make_hole(place.pool, NULL);
    (void)take(place.pool, 100 * KIB, NULL);
    expect(1, 1);
    rig_end_clean(&place.rig);
}

/* Options with nothing in them are wishes, no options are none. */
static void wishes_go_the_long_way(void **state) {
    const vram_alloc_options wishes[] = {
        {.size = sizeof *wishes},
        {.size = sizeof *wishes, .tag = "model"},
        {.size = sizeof *wishes, .alignment = 4096},
        {.size = sizeof *wishes, .flags = VRAM_ALLOC_CACHED_ONLY},
        {.size = sizeof *wishes, .flags = VRAM_ALLOC_NO_WAIT},
        {.size = sizeof *wishes, .reserve_bytes = 4 * MIB},
        {.size = sizeof *wishes, .name = "weights"},
        {.size = sizeof *wishes, .elements = 7},
    };
    struct place place = place_make(0);
    vram_addr addr;
    (void)state;
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        assert_ok(vram_alloc_with(place.pool, 100 * KIB, place.rig.queue, &wishes[i], &addr));
        expect(0, 0);
    }
    assert_ok(vram_alloc_with(place.pool, 100 * KIB, place.rig.queue, NULL, &addr));
    expect(1, 1);
    rig_end_clean(&place.rig);
}

/* A block at hand is no miss, and the short way takes no small block from the space: the long way
   takes several. */
static void hits_do_not_ask(void **state) {
    struct place place = place_make(0);
    (void)state;
    (void)take(place.pool, 32 * KIB, place.rig.queue);
    (void)take(place.pool, 700, place.rig.queue);
    expect(2, 0);
    (void)take(place.pool, 700, place.rig.queue);
    expect(0, 0);
    vram_addr addr = take(place.pool, 40 * KIB, place.rig.queue);
    expect(1, 1);
    assert_ok(vram_free(addr, place.rig.queue));
    assert_int_equal(take(place.pool, 40 * KIB, place.rig.queue), addr);
    expect(0, 0);
    rig_end_clean(&place.rig);
}

static void *take_elsewhere(void *argument) {
    struct place *place = argument;
    (void)take(place->pool, 100 * KIB, place->rig.queue);
    expect(0, 0);
    (void)take(place->pool, 100 * KIB, place->rig.queue);
    expect(1, 1);
    return NULL;
}

static void a_thread_without_a_cache_does_not_ask(void **state) {
    struct place place = place_make(0);
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, take_elsewhere, &place), 0);
    pthread_join(thread, NULL);
    rig_end_clean(&place.rig);
}

/* Pools whose every block needs more than to be found. */
static void pools_that_do_more_do_not_ask(void **state) {
    static const uint32_t modes[] = {VRAM_POOL_TRACKED,    VRAM_POOL_DETERMINISTIC,
                                     VRAM_POOL_ZERO_ALLOC, VRAM_POOL_ZERO_FREE,
                                     VRAM_POOL_POISON,     VRAM_POOL_RED_ZONES};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        vram_pool *pool = pool_of(rig.device, modes[i], 0);
        make_hole(pool, rig.queue);
        (void)take(pool, 100 * KIB, rig.queue);
        vram_addr addr = take(pool, 100 * KIB, rig.queue);
        expect(0, 0);
        if (modes[i] != VRAM_POOL_TRACKED) { /* nor is who asks all the same served */
            assert_false(ask(pool, 100 * KIB, rig.queue, &addr));
        }
        rig_end_clean(&rig);
    }
}

static void pools_without_pooling_do_not_ask(void **state) {
    (void)state;
    assert_ok(vram_option_set("pool", "off"));
    struct place place = place_make(0);
    (void)take(place.pool, 100 * KIB, place.rig.queue);
    expect(0, 0);
    rig_end_clean(&place.rig);
}

/* --------------------------------------------------------------- who is sent the long way */

static void no_hole_is_a_case_for_the_long_way(void **state) {
    struct place place = place_make(0);
    (void)state;
    vram_error_clear();
    (void)take(place.pool, 50 * MIB, place.rig.queue);
    expect(1, 0);
    expect_no_record();
    rig_end_clean(&place.rig);
}

/* It leaves no error behind, and the long way says what was wrong. */
static void what_has_ended_is_told_of(void **state) {
    struct place place = place_make(0);
    vram_addr addr = 4711;
    (void)state;
    vram_queue *queue;
    assert_ok(vram_queue_create(place.rig.device, NULL, &queue));
    make_hole(place.pool, queue);
    vram_queue_destroy(queue);
    assert_int_equal(vram_alloc(place.pool, 100 * KIB, queue, &addr), VRAM_ERR_STALE);
    assert_int_equal(vram_alloc(place.pool, UINT64_MAX, place.rig.queue, &addr), VRAM_ERR_OVERFLOW);
    assert_int_equal(vram_alloc(place.pool, 100 * KIB, place.rig.queue, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_pool_destroy(place.pool));
    assert_int_equal(vram_alloc(place.pool, 100 * KIB, place.rig.queue, &addr), VRAM_ERR_STALE);
    expect(0, 0);
    assert_int_equal(addr, 4711);
    /* The same for who asks all the same: the pool's end may come just before. */
    assert_false(ask(place.pool, 100 * KIB, place.rig.queue, &addr));
    assert_int_equal(addr, 4711);
    rig_end_clean(&place.rig);
}

/* A queue that the pool does not know, whose end it therefore would not hear of, or that ends. */
static void unknown_queues_are_sent_on(void **state) {
    struct place place = place_make(0);
    vram_queue *queue;
    vram_addr addr = 4711;
    (void)state;
    assert_ok(vram_queue_create(place.rig.device, NULL, &queue));
    assert_false(ask(place.pool, 100 * KIB, queue, &addr));
    assert_int_equal(addr, 4711);
    struct vr_queue_object *object = vr_handle_pin(VR_KIND_QUEUE, place.rig.queue);
    assert_non_null(object);
    vr_store(&object->closed, true, VR_SEQ_CST); /* as one who destroys it does first */
    assert_false(ask(place.pool, 100 * KIB, place.rig.queue, &addr));
    vr_store(&object->closed, false, VR_SEQ_CST);
    vr_leave(object);
    assert_true(ask(place.pool, 100 * KIB, place.rig.queue, &addr));
    assert_int_not_equal(addr, 4711);
    rig_end_clean(&place.rig);
}

static void sleepers_hand_out_nothing(void **state) {
    struct place place = place_make(0);
    vram_addr addr = 4711;
    (void)state;
    assert_ok(vram_pool_sleep(place.pool, NULL));
    assert_int_equal(vram_alloc(place.pool, 100 * KIB, place.rig.queue, &addr), VRAM_ERR_BUSY);
    assert_false(ask(place.pool, 100 * KIB, place.rig.queue, &addr));
    assert_int_equal(addr, 4711);
    assert_ok(vram_pool_wake(place.pool, NULL));
    (void)take(place.pool, 100 * KIB, place.rig.queue); /* makes a cache anew */
    forget();
    (void)take(place.pool, 110 * KIB, place.rig.queue);
    expect(1, 1);
    rig_end_clean(&place.rig);
}

static int ask_in_child(void *argument) {
    struct place *place = argument;
    vram_addr addr = 4711;
    bool done = ask(place->pool, 100 * KIB, place->rig.queue, &addr);
    vram_status status = vram_alloc(place->pool, 100 * KIB, place->rig.queue, &addr);
    return done || status == VRAM_OK || addr != 4711;
}

static void a_forked_child_has_no_short_way(void **state) {
    struct place place = place_make(0);
    (void)state;
    assert_int_equal(in_child(ask_in_child, &place), 0);
    (void)take(place.pool, 100 * KIB, place.rig.queue);
    expect(1, 1);
    rig_end_clean(&place.rig);
}

/* What is pinned or used by another queue is not there to be had, and is when that is over. */
static void what_is_held_is_not_handed_out(void **state) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(rig.device, 0, 0);
    (void)state;
    vram_addr held = take(pool, 6 * MIB, rig.queue);
    (void)take(pool, 70 * KIB, rig.queue);
    assert_ok(vram_pin(held));
    assert_ok(vram_free(held, rig.queue));
    for (uint64_t i = 0; i < 40; i++) {
        vram_addr addr = take(pool, 200 * KIB + i * 512, rig.queue);
        assert_true(addr + 200 * KIB + i * 512 <= held || addr >= held + 6 * MIB);
    }
    assert_ok(vram_unpin(held));
    forget();
    vram_addr addr = take(pool, 5 * MIB, rig.queue);
    expect(1, 1);
    assert_true(addr >= held && addr + 5 * MIB <= held + 6 * MIB);
    rig_end_clean(&rig);
}

/* What was freed to a captured region is the region's until that ends, by the short way too. */
static void regions_keep_what_is_theirs(void **state) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(rig.device, 0, 0);
    vram_queue *captured;
    (void)state;
    assert_ok(vram_capture_begin(rig.queue, &captured));
    vram_addr hole = take(pool, 6 * MIB, captured);
    (void)take(pool, 70 * KIB, captured);
    assert_ok(vram_free(hole, captured));
    vram_addr before = take(pool, 200 * KIB, rig.queue); /* gives the thread its cache */
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < 20; i++) {
        vram_addr addr = take(pool, 300 * KIB + i * 512, rig.queue);
        assert_true(addr + 300 * KIB + i * 512 <= hole || addr >= hole + 6 * MIB);
    }
    forget();
    vram_addr own = take(pool, 5 * MIB, captured);
    expect(1, 1);
    assert_true(own >= hole && own + 5 * MIB <= hole + 6 * MIB);
    assert_ok(vram_free(own, captured));
    assert_ok(vram_capture_end(captured));
    assert_ok(vram_free(before, rig.queue));
    forget();
    own = take(pool, 5 * MIB + 512, rig.queue);
    expect(1, 1);
    assert_true(own >= hole && own + 5 * MIB <= hole + 6 * MIB);
    rig_end_clean(&rig);
}

/* Host memory for the pool's table or records may be out: the long way tells, or finds some. */
static void host_memory_may_be_out(void **state) {
    (void)state;
    for (uint64_t nth = 1, struck = 1; struck; nth++) {
        struct place place = place_make(0);
        assert_ok(vram_pool_warm(place.pool, 64 * MIB, 1, place.rig.queue));
        vr_mem_fail_at(nth, false);
        vram_error_clear();
        for (uint64_t i = 0; i < 600; i++) { /* records are made by the dozen */
            vram_addr addr = 4711;
            vram_status status = vram_alloc(place.pool, 34 * KIB + i * 64, place.rig.queue, &addr);
            if (status == VRAM_OK) {
                expect_no_record();
            } else {
                assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
                assert_int_equal(vram_error_get()->status, status);
                assert_int_equal(addr, 4711);
                vram_error_clear();
            }
        }
        struck = vr_mem_failed();
        vr_mem_fail_at(0, false);
        assert_true(nth > 1 || struck);
        assert_true(nth < 200);
        rig_end_clean(&place.rig);
    }
}

/* A free on a queue that the pool could not note is made up for first, and the long way does
   that. */
static void what_is_owed_comes_first(void **state) {
    struct place place = place_make(0);
    vram_queue *queue;
    (void)state;
    assert_ok(vram_queue_create(place.rig.device, NULL, &queue));
    vram_addr addr = take(place.pool, 100 * KIB, place.rig.queue);
    vr_mem_fail_at(1, true);
    assert_ok(vram_free(addr, queue));
    vr_mem_fail_at(0, false);
    forget();
    (void)take(place.pool, 90 * KIB, place.rig.queue);
    expect(1, 0);
    (void)take(place.pool, 80 * KIB, place.rig.queue);
    expect(1, 1);
    rig_end_clean(&place.rig);
}

/* ------------------------------------------------------------------- small blocks */

enum { BURST = 300 };

static void take_and_free(vram_pool *pool, vram_queue *queue) {
    vram_addr blocks[BURST];
    for (int i = 0; i < BURST; i++) {
        blocks[i] = take(pool, 1000, queue);
    }
    for (int i = 0; i < BURST; i++) {
        assert_ok(vram_free(blocks[i], queue));
    }
}

/* Bytes that were freed on the queue since it was last marked. */
static uint64_t unmarked_of(struct place *place) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, place->pool);
    struct vr_queue_id id = {(uintptr_t)place->rig.queue};
    assert_non_null(pool);
    vr_mutex_lock(&pool->lock);
    uint64_t bytes = vr_queue_state_find(&pool->queue_states, id)->unmarked_bytes;
    vr_mutex_unlock(&pool->lock);
    vr_leave(pool);
    return bytes;
}

/* Once the central cache has seen a burst, the next one moves half a bin at a time, and the space
   is not asked. */
static void small_blocks_come_and_go_by_half_a_bin(void **state) {
    struct place place = place_make(0);
    (void)state;
    take_and_free(place.pool, place.rig.queue);
    vram_pool_stats before = stats_of(place.pool);
    assert_true(before.cached_bytes >= (BURST - 32) * 1024);
    uint64_t unmarked = unmarked_of(&place);
    forget();
    take_and_free(place.pool, place.rig.queue);
    vram_pool_stats after = stats_of(place.pool);
    unsigned half = VR_SMALL_DEPTH / 2;
    assert_int_equal(unmarked_of(&place) - unmarked, atomic_load(&spilled) * half * 1024);
    assert_in_range(atomic_load(&asked), BURST / (half + 1) - 2, BURST / (half + 1) + 1);
    assert_int_equal(atomic_load(&served), atomic_load(&asked));
    assert_in_range(atomic_load(&spilled), BURST / half - 2, BURST / half + 1);
    assert_int_equal(after.cached_bytes, before.cached_bytes);
    assert_int_equal(after.allocs - before.allocs, BURST);
    assert_int_equal(after.frees - before.frees, BURST);
    assert_int_equal(after.misses, before.misses);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_ok(vram_pool_trim(place.pool, NULL, NULL));
    assert_int_equal(stats_of(place.pool).cached_bytes, 0);
    rig_end_clean(&place.rig);
}

/* ------------------------------------------------------------------- bad moments */

struct holder {
    struct vr_pool *pool;
    atomic_bool locked;
};

static void *hold_lock(void *argument) {
    struct holder *holder = argument;
    vr_mutex_lock(&holder->pool->lock);
    atomic_store(&holder->locked, true);
    vr_os_sleep(20000000);
    vr_mutex_unlock(&holder->pool->lock);
    return NULL;
}

/* The short way does not wait: a thread inside its caches must not. */
static void another_thread_has_the_lock(void **state) {
    struct place place = place_make(0);
    struct holder holder = {.pool = vr_handle_pin(VR_KIND_POOL, place.pool)};
    vram_addr addr = take(place.pool, 300 * KIB, place.rig.queue);
    pthread_t thread;
    (void)state;
    for (int frees = 0; frees < 2; frees++) {
        atomic_store(&holder.locked, false);
        forget();
        assert_int_equal(pthread_create(&thread, NULL, hold_lock, &holder), 0);
        while (!atomic_load(&holder.locked)) {
            vr_os_yield();
        }
        if (frees) {
            assert_ok(vram_free(addr, place.rig.queue));
            assert_int_equal(atomic_load(&spilled), 0);
        } else {
            (void)take(place.pool, 100 * KIB, place.rig.queue);
            expect(1, 0);
        }
        pthread_join(thread, NULL);
    }
    vr_leave(holder.pool);
    rig_end_clean(&place.rig);
}

static void end_queue(void *argument) {
    struct place *place = argument;
    vram_queue_destroy(place->rig.queue);
    place->rig.queue = NULL;
}

static void trim_pool(void *argument) {
    struct place *place = argument;
    assert_ok(vram_pool_trim(place->pool, NULL, NULL));
}

static void sleep_and_wake(void *argument) {
    struct place *place = argument;
    assert_ok(vram_pool_sleep(place->pool, NULL));
    assert_ok(vram_pool_wake(place->pool, NULL));
}

static void fall_asleep(void *argument) {
    struct place *place = argument;
    assert_ok(vram_pool_sleep(place->pool, NULL));
}

/* The long way is outside the caches. A block on it is the program's whatever happens to the queue
   and the caches of the thread. */
static void blocks_on_their_way_arrive(void **state) {
    static void (*const moments[])(void *) = {end_queue, trim_pool, sleep_and_wake, fall_asleep};
    (void)state;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        struct place place = place_make(0);
        vram_pool_stats before = stats_of(place.pool);
        atomic_store(&kept_off, place.pool);
        supplied_meanwhile = moments[i];
        supplied_argument = &place;
        vram_addr addr = take(place.pool, 100 * KIB + 3, place.rig.queue);
        assert_null(supplied_meanwhile);
        vram_pool_stats after = stats_of(place.pool);
        assert_int_equal(after.live_blocks, before.live_blocks + 1);
        assert_int_equal(after.requested_bytes, before.requested_bytes + 100 * KIB + 3);
        assert_int_equal(after.allocated_bytes, before.allocated_bytes + 100 * KIB + 512);
        assert_int_equal(after.allocs, before.allocs + 1);
        assert_int_equal(after.hits, before.hits + 1);
        assert_int_equal(after.cache_hits, before.cache_hits);
        assert_ok(vram_free(addr, place.rig.queue));
        assert_int_equal(vram_free(addr, place.rig.queue), VRAM_ERR_INVALID);
        if (moments[i] == fall_asleep) {
            assert_ok(vram_pool_wake(place.pool, NULL));
        }
        assert_int_equal(stats_of(place.pool).live_blocks, before.live_blocks);
        assert_int_equal(stats_of(place.pool).requested_bytes, before.requested_bytes);
        rig_end_clean(&place.rig);
    }
}

static void end_pool(void *argument) {
    struct place *place = argument;
    assert_ok(vram_pool_destroy(place->pool));
}

/* The pool's end takes it along, as any other block. */
static void a_pool_may_end_meanwhile(void **state) {
    struct place place = place_make(0);
    vram_addr addr;
    (void)state;
    atomic_store(&kept_off, place.pool);
    supplied_meanwhile = end_pool;
    supplied_argument = &place;
    assert_ok(vram_alloc(place.pool, 100 * KIB, place.rig.queue, &addr));
    assert_int_equal(vram_free(addr, place.rig.queue), VRAM_ERR_INVALID);
    rig_end_clean(&place.rig);
}

/* What is free above the limit goes back, whichever way a block has come. */
static void limits_are_kept(void **state) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(rig.device, 0, 8 * MIB);
    (void)state;
    vram_addr blocks[16];
    for (int i = 0; i < 16; i++) {
        blocks[i] = take(pool, 4 * MIB, rig.queue);
    }
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (int i = 0; i < 16; i++) {
        assert_ok(vram_free(blocks[i], NULL));
    }
    forget();
    assert_in_range(stats_of(pool).reserved_bytes, 0, 9 * MIB + 4 * MIB); /* frees released it */
    (void)take(pool, 3 * MIB, rig.queue);
    expect(1, 1);
    vram_pool_stats stats = stats_of(pool);
    assert_true(stats.reserved_bytes <= stats.allocated_bytes + stats.cached_bytes + 10 * MIB);
    rig_end_clean(&rig);
}

/* A program that misses by the short way alone does so in time that passes: sizes it no longer uses
   decay. */
static void time_passes_on_the_short_way(void **state) {
    enum { MISSES = 200 };
    struct place place = place_make(0);
    (void)state;
    assert_ok(vram_sim_clock_advance(place.rig.context, 60 * SECOND));
    assert_int_equal(stats_of(place.pool).response_steps[VRAM_RESPONSE_DECAY], 0);
    for (uint64_t i = 0; i < MISSES; i++) {
        vram_addr addr = take(place.pool, 70 * KIB + (i + 1) * 512, place.rig.queue);
        assert_ok(vram_free(addr, place.rig.queue));
    }
    expect(MISSES, MISSES);
    assert_int_equal(stats_of(place.pool).response_steps[VRAM_RESPONSE_DECAY], 1);
    rig_end_clean(&place.rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(a_hole_serves_by_the_short_way),
        HERE(without_a_queue_too),
        HERE(wishes_go_the_long_way),
        HERE(hits_do_not_ask),
        HERE(small_blocks_come_and_go_by_half_a_bin),
        HERE(another_thread_has_the_lock),
        HERE(a_thread_without_a_cache_does_not_ask),
        HERE(pools_that_do_more_do_not_ask),
        HERE(pools_without_pooling_do_not_ask),
        HERE(no_hole_is_a_case_for_the_long_way),
        HERE(what_has_ended_is_told_of),
        HERE(unknown_queues_are_sent_on),
        HERE(sleepers_hand_out_nothing),
        HERE(a_forked_child_has_no_short_way),
        HERE(what_is_held_is_not_handed_out),
        HERE(regions_keep_what_is_theirs),
        HERE(host_memory_may_be_out),
        HERE(what_is_owed_comes_first),
        HERE(blocks_on_their_way_arrive),
        HERE(a_pool_may_end_meanwhile),
        HERE(limits_are_kept),
        HERE(time_passes_on_the_short_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
