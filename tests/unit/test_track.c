/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_track.c: the table of live blocks by itself, and what pools tell of their blocks: to it, and
 * to who listens.
 */
#include "byte_units.h"
#include "core/tracking/pool_tracking.h"
#include "track/stack.h"
#include "track/track_table.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static vram_pool *pool_make(struct rig *rig, vram_switch tracking) {
    vram_limits limits = {.size = sizeof limits, .tracking = tracking};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

static struct vr_pool *inside(vram_pool *handle) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, handle);
    assert_non_null(pool);
    vr_leave(pool); /* the test keeps it */
    return pool;
}

static struct vr_track_totals totals_of(vram_pool *pool) {
    struct vr_track_totals totals;
    vr_track_totals_get(inside(pool)->track, &totals);
    return totals;
}

static vram_addr take(vram_pool *pool, uint64_t size, const char *tag, vram_queue *queue) {
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    vram_addr addr;
    assert_ok(tag ? vram_alloc_with(pool, size, queue, &options, &addr)
                  : vram_alloc(pool, size, queue, &addr));
    return addr;
}

static int clean(void) {
    unsetenv("VRAM_TRACKING");
    vr_option_reset();
    vr_mem_fail_at(0, false);
    return nothing_left();
}

/* ------------------------------------------------------------------ the table */

static vr_atomic_u64 live_now, live_peak;

static struct vr_track *track_make(void) {
    struct vr_track_config config = {
        .pool = 7, .device = 9, .name = "pool", .now = &live_now, .peak = &live_peak};
    vr_store(&live_now, 0, VR_RELAXED);
    vr_store(&live_peak, 0, VR_RELAXED);
    struct vr_track *track = vr_track_make(&config);
    assert_non_null(track);
    return track;
}

static uint32_t add(struct vr_track *track, const char *tag, uint64_t size,
                    const struct vr_track_label *label) {
    struct vr_site_key key = {.tag = tag, .queue = 3};
    uint32_t number = vr_track_prepare(track, &key, label);
    assert_int_not_equal(number, 0);
    assert_int_not_equal(vr_track_commit(track, number, 4096 * (uint64_t)number, size,
                                         (size + 511) / 512 * 512, VRAM_MEMORY_PINNED),
                         0);
    return number;
}

/* Two live blocks may share a name; a name is cut at 63 bytes, at a whole character. */
TEST(names_are_labels) {
    struct vr_track *track = track_make();
    char text[80];
    struct vr_track_label same = {.name = "twin"}, cut = {.name = text};
    struct vr_track_view view;
    memset(text, 'x', sizeof text);
    memcpy(&text[61], "\xE2\x82\xAC", 4);
    uint32_t one = add(track, NULL, 1, &same), two = add(track, NULL, 2, &same);
    uint32_t three = add(track, NULL, 3, &cut);
    assert_true(vr_track_look(track, one, &view));
    assert_string_equal(view.name, "twin");
    assert_true(vr_track_look(track, two, &view));
    assert_string_equal(view.name, "twin");
    assert_true(vr_track_look(track, three, &view));
    assert_int_equal(strlen(view.name), 61);
    vr_track_remove(track, one, 1, 512, NULL);
    assert_true(vr_track_look(track, two, &view));
    assert_string_equal(view.name, "twin");
    vr_track_free(track);
}

/* Sites of queues that are gone make place for others; those that had something at the peak
   stay. */
TEST(sites_are_used_again) {
    struct vr_track *track = track_make();
    struct vr_track_totals totals;
    struct vr_site sites[4];
    uint32_t big = add(track, "big", 1 << 20, NULL), at = 0;
    for (uint64_t queue = 10; queue < 10000; queue++) {
        struct vr_site_key key = {.queue = queue};
        uint32_t number = vr_track_prepare(track, &key, NULL);
        vr_track_commit(track, number, queue, 100, 512, 0);
        vr_track_remove(track, number, 100, 512, NULL);
    }
    vr_track_totals_get(track, &totals);
    assert_true(totals.metadata_bytes < 32 * KIB);
    assert_int_equal(vr_track_sites(track, &at, sites, 4),
                     2); /* the peak was with the first queue */
    vr_track_remove(track, big, 1 << 20, 1 << 20, NULL);
    vr_track_free(track);
}

/* Whatever gets no memory, the call goes on, totals stay exact, and what is missing is counted. */
TEST(lost_records_are_counted) {
    uint64_t lost = 0;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        struct vr_track *track = track_make();
        struct vr_track_totals totals;
        struct vr_site_key key = {.queue = 1};
        vr_mem_fail_at(nth, true);
        uint32_t number = vr_track_prepare(track, &key, NULL);
        vr_mem_fail_at(0, false);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        vr_track_commit(track, number, 512, 100, 512, 0);
        vr_track_totals_get(track, &totals);
        assert_int_equal(totals.lost, number == 0);
        assert_int_equal(totals.bytes, 100);
        lost += totals.lost;
        vr_track_remove(track, number, 100, 512, NULL);
        vr_track_totals_get(track, &totals);
        assert_int_equal(totals.bytes + totals.count + totals.held, 0);
        vr_track_free(track);
    }
    assert_int_equal(lost, 4);
}

TEST(a_record_costs_at_most_48_bytes) {
    enum { COUNT = 10000 };
    struct vr_track *track = track_make();
    struct vr_track_totals totals;
    for (int i = 0; i < COUNT; i++) {
        add(track, i % 2 ? "a" : "b", 1000, NULL);
    }
    vr_track_totals_get(track, &totals);
    assert_true(totals.metadata_bytes <= 48 * (uint64_t)COUNT);
    vr_track_free(track);
}

/* What a signal handler meets that has interrupted the holder of the lock: every call ends at once,
   and tells what it could not keep. */
TEST(a_handler_finds_the_lock_held) {
    struct vr_track_label label = {.name = "name"};
    struct vr_site_key key = {.tag = "tag", .queue = 3};
    struct vr_track_view view;
    struct vr_track_brief brief;
    struct vr_track_totals totals;
    struct vr_site site;
    uint32_t at = 5, place = 0;
    uint64_t id = 0;
    struct vr_track *track = track_make();
    uint32_t number = add(track, "tag", 1000, &label), more = add(track, "tag", 1000, &label);
    vr_track_remove(track, more, 1000, 1024, &brief); /* its label waits to be freed */
    assert_true(vr_track_enter(track));
    assert_int_equal(vr_track_prepare(track, &key, &label), 0);
    assert_int_equal(vr_track_commit(track, number, 4096, 1000, 1024, 0), 0);
    assert_int_equal(vr_track_quick(track, &key, &place, 4096, 1000, 1024, &id), 0);
    vr_track_remove(track, number, 1000, 1024, &brief);
    vr_track_resize(track, number, (struct vr_track_size){1000, 1024},
                    (struct vr_track_size){2000, 2048}, &brief);
    vr_track_drop(track, number);
    assert_false(vr_track_look(track, number, &view));
    assert_int_equal(vr_track_list(track, &at, &view, 1), 0);
    assert_int_equal(at, 0);
    at = 5;
    assert_int_equal(vr_track_sites(track, &at, &site, 1), 0);
    assert_int_equal(at, 0);
    vr_track_peak_reset(track);
    vr_track_totals_get(track, &totals);
    assert_int_equal(totals.count, 0); /* not known now */
    assert_int_equal(totals.lost, 2);
    vr_track_leave(track);
    vr_track_totals_get(track, &totals);
    assert_int_equal(totals.count, 1);
    assert_true(vr_track_look(track, number, &view));
    assert_int_equal(view.requested, 1000);
    vr_track_free(track);
}

/* Blocks whose record was lost count all the same; one that is only prepared is not live yet. */
TEST(blocks_without_records_count) {
    struct vr_site_key keys[3] = {{.tag = "a"}, {.tag = "b"}, {.tag = "c"}};
    struct vr_track_view view;
    struct vr_track_brief brief = {.id = 7};
    struct vr_site sites[2];
    uint32_t at = 0, found = 0;
    struct vr_track *track = track_make();
    assert_int_equal(vr_track_commit(track, 0, 4096, 1000, 1024, 0), 0);
    vr_track_resize(track, 0, (struct vr_track_size){1000, 1024},
                    (struct vr_track_size){2000, 2048}, &brief);
    assert_int_equal(brief.id, 0);
    vr_track_remove(track, 0, 2000, 2048, &brief);
    for (int i = 0; i < 3; i++) {
        uint32_t number = vr_track_prepare(track, &keys[i], NULL);
        assert_false(vr_track_look(track, number, &view));
        assert_int_not_equal(vr_track_commit(track, number, 4096, 1000, 1024, 0), 0);
    }
    do { /* a few at a time */
        found += vr_track_sites(track, &at, sites, 1);
    } while (at);
    assert_int_equal(found, 3);
    vr_track_peak_reset(track);
    struct vr_track_totals totals;
    vr_track_totals_get(track, &totals);
    assert_int_equal(totals.peak_count, 3);
    vr_track_free(track);
}

/* ------------------------------------------------------------------ stacks */

TEST(stacks_without_memory) {
    uint64_t frames[VR_STACK_DEPTH];
    char text[VR_FRAME_TEXT];
    vr_stacks_reset();
    for (uint64_t nth = 1; nth <= 2; nth++) { /* for the page, and for the stack itself */
        vr_os_fail_at(nth, true, ENOMEM);
        (void)vr_stack_take();
        vr_os_fail_at(0, false, 0);
    }
    uint32_t number = vr_stack_take();
    assert_int_not_equal(number, 0);
    assert_int_equal(vr_stack_all(number, frames, 1), 1);
    assert_int_equal(vr_stack_all(number + 100, frames, 1), 0);
    assert_int_equal(vr_stack_frames(0, frames), 0);
    vr_frame_text(1, text);
    assert_string_equal(text, "0x1");
    vr_stacks_reset();
}

/* --------------------------------------------------------------------- pools */

/* Allocations without a tag have a site of their own, which the first one makes. If that one is a
   hit, its block goes back to its bin, small or exact, and the request path has it. */
TEST(a_hit_waits_for_its_site, "sim:memory=1G") {
    static const uint64_t sizes[] = {1000, 40 * KIB};
    for (int i = 0; i < 2; i++) {
        vram_pool *pool = pool_make(rig, VRAM_SWITCH_ON);
        vram_addr tagged = take(pool, sizes[i], "tag", rig->queue);
        assert_ok(vram_free(tagged, rig->queue));
        vram_addr plain = take(pool, sizes[i], NULL, rig->queue);
        assert_int_equal(plain, tagged);
        assert_int_equal(totals_of(pool).count, 1);
        assert_int_equal(stats_of(pool).hits, 1);
        assert_ok(vram_free(plain, rig->queue));
    }
}

/* Hits are hits, counters are what they would be without, and what is live is told exactly. */
TEST(tracked_pools_count_as_others_do, "sim:memory=1G") {
    vram_pool *pools[2] = {pool_make(rig, VRAM_SWITCH_OFF), pool_make(rig, VRAM_SWITCH_ON)};
    assert_null(inside(pools[0])->track);
    assert_non_null(inside(pools[1])->track);
    vram_pool_stats stats[2];
    for (int i = 0; i < 2; i++) {
        for (int round = 0; round < 1000; round++) {
            vram_addr a = take(pools[i], 1000, NULL, rig->queue);
            vram_addr b = take(pools[i], 100 * KIB, "tag", rig->queue);
            assert_ok(vram_free(a, rig->queue));
            assert_ok(vram_free(b, rig->queue));
            assert_int_equal(vram_free(b, rig->queue), VRAM_ERR_INVALID);
        }
        stats[i] = stats_of(pools[i]);
    }
    assert_int_equal(stats[0].hits, stats[1].hits);
    assert_int_equal(stats[0].cache_hits, stats[1].cache_hits);
    assert_int_equal(stats[0].misses, stats[1].misses);
    assert_int_equal(stats[0].returns, stats[1].returns);
    assert_int_equal(stats[1].peak_requested_bytes, 1000 + 100 * KIB);
    assert_int_equal(totals_of(pools[1]).allocs, 2000);
    assert_int_equal(totals_of(pools[1]).frees, 2000);
    assert_int_equal(totals_of(pools[1]).count, 0);
}

/* Who decides: the pool, the device, the option, the preset, the build; the environment before
   all. */
TEST(tracking_is_a_choice, "sim:memory=1G") {
    vram_pool *pool;
    assert_ok(vram_option_set("preset", "inference"));
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_null(inside(pool)->track);
    vram_pool_options flagged = {.size = sizeof flagged, .flags = VRAM_POOL_TRACKED};
    assert_ok(vram_pool_create(rig->device, &flagged, &pool));
    assert_non_null(inside(pool)->track);
    assert_ok(vram_option_set("tracking", "on"));
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_non_null(inside(pool)->track);
    vr_option_reset();
    setenv("VRAM_TRACKING", "off", 1);
    assert_null(inside(pool_make(rig, VRAM_SWITCH_ON))->track);
    vr_option_reset();
    setenv("VRAM_TRACKING", "on", 1);
    assert_non_null(inside(pool_make(rig, VRAM_SWITCH_OFF))->track);
}

/* -------------------------------------------------------------------- events */

struct heard {
    struct vr_event events[64];
    uint32_t count;
};

static void hear(void *user, const struct vr_event *event) {
    struct heard *heard = user;
    if (heard->count < 64) {
        heard->events[heard->count] = *event;
        heard->events[heard->count++].name = NULL; /* was valid during the call */
    }
}

TEST(listeners_hear_everything_in_order, "sim:memory=64M") {
    static struct heard heard;
    heard.count = 0;
    assert_ok(vr_events_to(hear, &heard));
    assert_int_equal(vr_events_to(hear, &heard), VRAM_ERR_BUSY);
    vram_pool *pool = pool_make(rig, VRAM_SWITCH_ON);
    vram_addr a = take(pool, 1000, "tag", rig->queue);
    assert_ok(vram_free(a, rig->queue));
    vram_addr b = take(pool, 900, NULL, rig->queue); /* the same block, a hit */
    assert_int_equal(a, b);
    assert_int_equal(stats_of(pool).cache_hits, 1);
    assert_true(
        vram_status_is_exhausted(vram_alloc(pool, UINT64_C(1) << 40, rig->queue, &(vram_addr){0})));
    assert_ok(vram_pool_destroy(pool));
    assert_ok(vr_events_to(NULL, NULL));
    static const enum vr_event_kind kinds[] = {
        VR_EVENT_POOL_BEGIN, VR_EVENT_ALLOC,   VR_EVENT_FREE,    VR_EVENT_ALLOC,
        VR_EVENT_REPORT,     VR_EVENT_REFUSED, VR_EVENT_POOL_END};
    assert_int_equal(heard.count, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(heard.events[i].kind, kinds[i]);
        assert_int_equal(heard.events[i].pool, (uintptr_t)pool);
        assert_int_equal(heard.events[i].device, (uintptr_t)rig->device);
    }
    assert_int_equal(heard.events[1].id, heard.events[2].id);
    assert_true(heard.events[3].id > heard.events[2].id);
    assert_int_equal(heard.events[1].addr, a);
    assert_int_equal(heard.events[1].bytes, 1000);
    assert_int_equal(heard.events[1].held, 1024);
    assert_int_equal(heard.events[1].queue, (uintptr_t)rig->queue);
    assert_int_equal(heard.events[2].bytes, 1000);
    assert_int_equal(heard.events[6].bytes, 900);
    assert_true(vram_status_is_exhausted(heard.events[5].status));
}

/* Hits are told quickly, with all that is known of them. */
TEST(hits_are_told_with_their_tags, "sim:memory=64M") {
    static struct heard heard;
    heard.count = 0;
    assert_ok(vr_events_to(hear, &heard));
    vram_pool *pool = pool_make(rig, VRAM_SWITCH_ON);
    for (int i = 0; i < 10; i++) {
        vram_addr addr = take(pool, 1000, i % 2 ? "tag" : NULL, rig->queue);
        assert_ok(vram_free(addr, rig->queue));
    }
    assert_int_equal(stats_of(pool).cache_hits, 9);
    assert_ok(vr_events_to(NULL, NULL));
    assert_int_equal(heard.count, 21);
    for (uint32_t i = 0; i < 20; i++) {
        const struct vr_event *event = &heard.events[1 + i];
        assert_int_equal(event->kind, i % 2 ? VR_EVENT_FREE : VR_EVENT_ALLOC);
        assert_int_equal(event->bytes, 1000);
        assert_int_equal(event->held, 1024);
        assert_int_equal(event->queue, (uintptr_t)rig->queue);
        assert_int_equal(event->thread, vr_os_thread_number());
        assert_int_not_equal(event->time_ns, 0);
        assert_true(i % 2 ? event->id == event[-1].id && event->addr == event[-1].addr
                          : i == 0 || event->id > event[-1].id);
        if (i / 2 % 2) {
            assert_string_equal(event->tag, "tag");
        } else {
            assert_null(event->tag);
        }
    }
}

static vr_atomic_u32 ready, receivers;

static void *receive_at_once(void *user) {
    vr_fetch_add(&ready, 1, VR_ACQ_REL);
    while (vr_load(&ready, VR_ACQUIRE) < 4) {
    }
    if (vr_events_to(hear, user) == VRAM_OK) {
        vr_fetch_add(&receivers, 1, VR_RELAXED);
    }
    return NULL;
}

/* A child that inherits a receiver sets its own from several threads at once: one of them does. */
TEST(a_child_has_one_receiver) {
    static struct heard heard;
    assert_ok(vr_events_to(hear, &heard));
    for (int round = 0; round < 40; round++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) {
                if (pthread_create(&threads[i], NULL, receive_at_once, &heard)) {
                    _exit(2);
                }
            }
            for (int i = 0; i < 4; i++) {
                (void)pthread_join(threads[i], NULL);
            }
            _exit(vr_load(&receivers, VR_RELAXED) != 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_ok(vr_events_to(NULL, NULL));
}

EACH_TEST(start, clean)
