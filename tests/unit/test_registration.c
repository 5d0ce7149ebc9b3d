/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_registration.c: memory of the program's own, page-locked where it lies: found again,
 * bounded, given up when told to, and never under a copy. The simulated driver takes what is
 * registered twice for a breach.
 */
#include "trims.h"
#include "unit/device_world.h"
#include "unit/mem_world.h"
#include "vram/vram.h"
#include "xfer/flight.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static vram_pinned_info info_of(struct rig *rig) {
    vram_pinned_info info = {.size = sizeof info};
    assert_ok(vram_pinned_info_get(rig->device, &info));
    return info;
}

/* 16 pages, aligned to a page. */
enum { PAGES = 16 };
static uint64_t page_bytes;
static char *pages_make(void) {
    page_bytes = vr_os_page_bytes();
    char *pages = aligned_alloc(page_bytes, PAGES * page_bytes);
    assert_non_null(pages);
    return pages;
}

/* ------------------------------------------------------------------------ finding */

TEST(found_again, "sim:memory=64M") {
    char *pages = pages_make();
    assert_ok(vram_pinned_begin(rig->device, pages + 10, 3 * page_bytes)); /* four pages */
    assert_int_equal(info_of(rig).entry_bytes, 4 * page_bytes);
    assert_int_equal(info_of(rig).entries_used, 1);
    assert_ok(vram_pinned_begin(rig->device, pages + page_bytes, page_bytes)); /* inside */
    assert_ok(vram_pinned_end(rig->device, pages + page_bytes, page_bytes));
    assert_ok(vram_pinned_end(rig->device, pages + 10, 3 * page_bytes));
    assert_int_equal(info_of(rig).entries, 1); /* kept */
    assert_int_equal(info_of(rig).entries_used, 0);
    assert_ok(vram_pinned_begin(rig->device, pages, 4 * page_bytes));
    assert_ok(vram_pinned_end(rig->device, pages, 4 * page_bytes));
    vram_pinned_info info = info_of(rig);
    assert_int_equal(info.hits, 2);
    assert_int_equal(info.misses, 1);
    assert_int_equal(info.evictions, 0);
    assert_ok(vram_pinned_forget(rig->device, pages, PAGES * page_bytes));
    assert_int_equal(info_of(rig).entries, 0);
    assert_ok(vram_pinned_forget(rig->device, pages, PAGES * page_bytes));
    free(pages);
}

TEST(overlaps, "sim:memory=64M") {
    char *pages = pages_make();
    assert_ok(vram_pinned_begin(rig->device, pages, 4 * page_bytes));
    assert_int_equal(vram_pinned_begin(rig->device, pages + 2 * page_bytes, 4 * page_bytes),
                     VRAM_ERR_BUSY);
    assert_int_equal(vram_pinned_forget(rig->device, pages + page_bytes, 1), VRAM_ERR_BUSY);
    assert_ok(vram_pinned_end(rig->device, pages, 4 * page_bytes));
    assert_ok(vram_pinned_begin(rig->device, pages + 2 * page_bytes, 4 * page_bytes));
    vram_pinned_info info = info_of(rig);
    assert_int_equal(info.entries, 1);
    assert_int_equal(info.evictions, 1);
    assert_int_equal(info.entry_bytes, 4 * page_bytes);
    assert_ok(vram_pinned_end(rig->device, pages + 2 * page_bytes, 4 * page_bytes));
    /* Several that overlap go together, and a forget of a part takes the whole. */
    assert_ok(vram_pinned_begin(rig->device, pages + 8 * page_bytes, page_bytes));
    assert_ok(vram_pinned_end(rig->device, pages + 8 * page_bytes, page_bytes));
    assert_ok(vram_pinned_begin(rig->device, pages, PAGES * page_bytes));
    assert_int_equal(info_of(rig).entries, 1);
    assert_ok(vram_pinned_end(rig->device, pages, PAGES * page_bytes));
    assert_ok(vram_pinned_forget(rig->device, pages + 5 * page_bytes + 7, 1));
    assert_int_equal(info_of(rig).entry_bytes, 0);
    free(pages);
}

TEST(limits_hold_and_the_oldest_goes) {
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make(), limit[32];
    assert_ok(vram_option_set("pinned_entries", "3"));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_pinned_begin(rig.device, pages + 2 * i * page_bytes, 1));
        assert_ok(vram_pinned_end(rig.device, pages + 2 * i * page_bytes, 1));
    }
    assert_ok(vram_pinned_begin(rig.device, pages, 1)); /* the first is the newest now, and used */
    assert_ok(vram_pinned_begin(rig.device, pages + 8 * page_bytes, 1));
    assert_int_equal(info_of(&rig).entries, 3);
    assert_int_equal(info_of(&rig).evictions, 1);
    assert_ok(vram_pinned_begin(rig.device, pages + 4 * page_bytes, 1)); /* still there */
    assert_int_equal(info_of(&rig).hits, 2);
    assert_int_equal(vram_pinned_begin(rig.device, pages + 10 * page_bytes, 1), VRAM_ERR_LIMIT);
    assert_ok(vram_pinned_end(rig.device, pages, 1));
    assert_ok(vram_pinned_begin(rig.device, pages + 10 * page_bytes, 1));
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)(3 * page_bytes));
    assert_ok(vram_option_set("pinned_entries", "100"));
    assert_ok(vram_option_set("pinned_limit", limit));
    assert_int_equal(vram_pinned_begin(rig.device, pages + 12 * page_bytes, 1), VRAM_ERR_LIMIT);
    assert_int_equal(vram_pinned_begin(rig.device, pages + 12 * page_bytes, 4 * page_bytes),
                     VRAM_ERR_LIMIT);
    assert_int_equal(info_of(&rig).entries, 3);
    rig_end_clean(&rig); /* what is used goes with the device */
    free(pages);
}

/* ------------------------------------------------------------------------ two threads */

static struct {
    const struct vr_pinned_ops *ops; /* the driver's */
    struct vr_pinned_ops copy;
    vr_atomic_bool inside, beside;
} slow;

/* Takes as long as the other thread needs to find the pages under way. */
static vram_status register_slowly(struct vr_device *device, uint64_t addr, uint64_t bytes) {
    vr_store(&slow.inside, true, VR_RELEASE);
    while (!vr_load(&slow.beside, VR_ACQUIRE)) {
        vr_os_yield();
    }
    for (int i = 0; i < 1000; i++) {
        vr_os_yield();
    }
    return slow.ops->register_pages(device, addr, bytes);
}

struct user {
    vram_device *device;
    char *pages;
    vram_status status;
};

static void *begin_beside(void *argument) {
    struct user *user = argument;
    while (!vr_load(&slow.inside, VR_ACQUIRE)) {
        vr_os_yield();
    }
    vr_store(&slow.beside, true, VR_RELEASE);
    user->status = vram_pinned_begin(user->device, user->pages, 1);
    return NULL;
}

/* Who waits for another thread's pages goes on as soon as they are locked, not at its deadline. */
TEST(an_answer_wakes_who_waits, "sim:memory=64M") {
    enum { ROUNDS = 10 };
    struct user user = {rig->device, pages_make(), VRAM_OK};
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig->device);
    slow.ops = device->base.pinned;
    slow.copy = *slow.ops;
    slow.copy.register_pages = register_slowly;
    device->base.pinned = &slow.copy;
    uint64_t before = vr_os_now();
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        vr_store(&slow.inside, false, VR_RELAXED);
        vr_store(&slow.beside, false, VR_RELAXED);
        assert_int_equal(pthread_create(&thread, NULL, begin_beside, &user), 0);
        assert_ok(vram_pinned_begin(rig->device, user.pages, 1));
        pthread_join(thread, NULL);
        assert_ok(user.status);
        assert_ok(vram_pinned_end(rig->device, user.pages, 1));
        assert_ok(vram_pinned_end(rig->device, user.pages, 1));
        assert_ok(vram_pinned_forget(rig->device, user.pages, 1));
    }
    assert_true(vr_os_now() - before < 30 * SECOND); /* wait_timeout is 60 s */
    assert_int_equal(info_of(rig).hits, ROUNDS);     /* locked once a round, and used twice */
    device->base.pinned = slow.ops;
    vr_leave(device);
    free(user.pages);
}

/* ------------------------------------------------------------------ with everything else */

TEST(trimmed_with_slots, "sim:memory=64M") {
    char *pages = pages_make();
    uint64_t released = 7;
    assert_ok(vram_pinned_begin(rig->device, pages, page_bytes));
    assert_ok(vram_pinned_begin(rig->device, pages + 2 * page_bytes, page_bytes));
    assert_ok(vram_pinned_end(rig->device, pages, page_bytes));
    assert_ok(vram_device_trim(rig->device, TRIM(.flags = VRAM_TRIM_PINNED), &released));
    assert_int_equal(released, page_bytes);
    assert_ok(vram_pinned_end(rig->device, pages + 2 * page_bytes, page_bytes));
    vram_error_clear();
    assert_ok(vram_device_trim(rig->device, NULL, &released));
    assert_int_equal(released, page_bytes);
    expect_no_record();
    assert_ok(vram_device_trim(rig->device, TRIM(.flags = VRAM_TRIM_PINNED), NULL));
    free(pages);
}

/* ----------------------------------------- watchers, and the end of their device */

enum { SMALL = 4096, ENTRIES = 16 };

static _Alignas(65536) unsigned char many_pages[ENTRIES][65536];

/* ------------------------------------------------------------- a cleanup, and an end */

static pthread_t closer;
static struct rig *meets;
static atomic_int unlocking;
static vr_pinned_unregister_fn *plain_unregister;

static void *close_now(void *argument) {
    vram_device_close(((struct rig *)argument)->device);
    return NULL;
}

/* Inside the first call: closes the device on another thread, up to where that waits. */
static vram_status slow_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    if (atomic_fetch_add(&unlocking, 1) == 0) {
        struct timespec moment = {.tv_nsec = 50000000};
        assert_int_equal(pthread_create(&closer, NULL, close_now, meets), 0);
        nanosleep(&moment, NULL);
    }
    return plain_unregister(device, addr, bytes);
}

/* A cleanup that is unlocking memory when the device closes finishes; nothing is unlocked twice. */
TEST(a_cleanup_ends_before_its_device) {
    for (int of_context = 0; of_context < 2; of_context++) {
        struct rig rig = rig_make("sim", "memory=64M");
        struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
        struct vr_pinned_ops pinned = *device->base.pinned;
        uint64_t bytes;
        for (int i = 0; i < ENTRIES; i++) {
            assert_ok(vram_pinned_begin(rig.device, many_pages[i], SMALL));
            assert_ok(vram_pinned_end(rig.device, many_pages[i], SMALL));
        }
        atomic_store(&unlocking, 0);
        plain_unregister = pinned.unregister_pages;
        pinned.unregister_pages = slow_unregister;
        device->base.pinned = &pinned;
        vr_leave(device);
        meets = &rig;
        vram_status status = of_context ? vram_context_trim(rig.context, NULL, &bytes)
                                        : vram_device_trim(rig.device, NULL, &bytes);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        pthread_join(closer, NULL);
        expect_protocol(&rig);
        vram_context_destroy(rig.context);
    }
}

/* -------------------------------------------------------------- ends inside of ends */

enum { QUEUES = 80 };

static struct {
    vram_queue *queues[QUEUES];
    unsigned destroyed, depth, deepest;
} chain;

/* The end of each queue is told to a callback that destroys the next one. */
static void destroy_next(void *user, vram_status status) {
    (void)user;
    assert_ok(status);
    chain.depth++;
    chain.deepest = chain.depth > chain.deepest ? chain.depth : chain.deepest;
    if (chain.destroyed < QUEUES) {
        vram_queue_destroy(chain.queues[chain.destroyed++]);
    }
    chain.depth--;
}

/* Any number of ends may be told at the same time, one inside the other. */
TEST(ends_may_be_nested, "sim:memory=64M,lag=1000") {
    vram_addr addr;
    memset(&chain, 0, sizeof chain);
    assert_ok(vram_device_alloc(rig->device, SMALL, VRAM_MEMORY_DEVICE, &addr));
    for (unsigned i = 0; i < QUEUES; i++) {
        vram_async async;
        vram_point point;
        assert_ok(vram_queue_create(rig->device, NULL, &chain.queues[i]));
        assert_ok(vram_queue_fill(chain.queues[i], addr, 1, 1, SMALL));
        assert_ok(vram_queue_mark(chain.queues[i], &point));
        assert_ok(vram_async_of_point(point, "fill", &async));
        assert_ok(vram_async_then(&async, destroy_next, NULL));
    }
    vram_queue_destroy(chain.queues[chain.destroyed++]);
    assert_int_equal(chain.destroyed, QUEUES);
    assert_true(chain.deepest > 64);
    assert_ok(vram_device_free(rig->device, addr));
}
