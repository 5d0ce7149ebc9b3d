/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_registration.c: memory of the program's own, page-locked where it lies: found again,
 * bounded, given up when told to, and never under a copy. The simulated driver takes what is
 * registered twice for a breach.
 */
#include "trims.h"
#include "unit/mem_world.h"
#include "vram/vram.h"
#include "xfer/staging.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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

static void found_again(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make();
    assert_ok(vram_pinned_begin(rig.device, pages + 10, 3 * page_bytes)); /* four pages */
    assert_int_equal(info_of(&rig).entry_bytes, 4 * page_bytes);
    assert_int_equal(info_of(&rig).entries_used, 1);
    assert_ok(vram_pinned_begin(rig.device, pages + page_bytes, page_bytes)); /* inside */
    assert_ok(vram_pinned_end(rig.device, pages + page_bytes, page_bytes));
    assert_ok(vram_pinned_end(rig.device, pages + 10, 3 * page_bytes));
    assert_int_equal(info_of(&rig).entries, 1); /* kept */
    assert_int_equal(info_of(&rig).entries_used, 0);
    assert_ok(vram_pinned_begin(rig.device, pages, 4 * page_bytes));
    assert_ok(vram_pinned_end(rig.device, pages, 4 * page_bytes));
    vram_pinned_info info = info_of(&rig);
    assert_int_equal(info.hits, 2);
    assert_int_equal(info.misses, 1);
    assert_int_equal(info.evictions, 0);
    assert_ok(vram_pinned_forget(rig.device, pages, PAGES * page_bytes));
    assert_int_equal(info_of(&rig).entries, 0);
    assert_ok(vram_pinned_forget(rig.device, pages, PAGES * page_bytes));
    free(pages);
    rig_end_clean(&rig);
}

static void overlaps(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make();
    assert_ok(vram_pinned_begin(rig.device, pages, 4 * page_bytes));
    assert_int_equal(vram_pinned_begin(rig.device, pages + 2 * page_bytes, 4 * page_bytes),
                     VRAM_ERR_BUSY);
    assert_int_equal(vram_pinned_forget(rig.device, pages + page_bytes, 1), VRAM_ERR_BUSY);
    assert_ok(vram_pinned_end(rig.device, pages, 4 * page_bytes));
    assert_ok(vram_pinned_begin(rig.device, pages + 2 * page_bytes, 4 * page_bytes));
    vram_pinned_info info = info_of(&rig);
    assert_int_equal(info.entries, 1);
    assert_int_equal(info.evictions, 1);
    assert_int_equal(info.entry_bytes, 4 * page_bytes);
    assert_ok(vram_pinned_end(rig.device, pages + 2 * page_bytes, 4 * page_bytes));
    /* Several that overlap go together, and a forget of a part takes the whole. */
    assert_ok(vram_pinned_begin(rig.device, pages + 8 * page_bytes, page_bytes));
    assert_ok(vram_pinned_end(rig.device, pages + 8 * page_bytes, page_bytes));
    assert_ok(vram_pinned_begin(rig.device, pages, PAGES * page_bytes));
    assert_int_equal(info_of(&rig).entries, 1);
    assert_ok(vram_pinned_end(rig.device, pages, PAGES * page_bytes));
    assert_ok(vram_pinned_forget(rig.device, pages + 5 * page_bytes + 7, 1));
    assert_int_equal(info_of(&rig).entry_bytes, 0);
    free(pages);
    rig_end_clean(&rig);
}

static void limits_hold_and_the_oldest_goes(void **state) {
    (void)state;
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

/* ------------------------------------------------------------------ with everything else */

static void trimmed_with_slots(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make();
    uint64_t released = 7;
    assert_ok(vram_pinned_begin(rig.device, pages, page_bytes));
    assert_ok(vram_pinned_begin(rig.device, pages + 2 * page_bytes, page_bytes));
    assert_ok(vram_pinned_end(rig.device, pages, page_bytes));
    assert_ok(vram_device_trim(rig.device, TRIM(.flags = VRAM_TRIM_PINNED), &released));
    assert_int_equal(released, page_bytes);
    assert_ok(vram_pinned_end(rig.device, pages + 2 * page_bytes, page_bytes));
    vram_error_clear();
    assert_ok(vram_device_trim(rig.device, NULL, &released));
    assert_int_equal(released, page_bytes);
    expect_no_record();
    assert_ok(vram_device_trim(rig.device, TRIM(.flags = VRAM_TRIM_PINNED), NULL));
    free(pages);
    rig_end_clean(&rig);
}

/* Copies find out that memory is locked, as long as it is used. */
static void covered_while_used(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make();
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    struct vr_staging *staging;
    assert_ok(vr_staging_enter(device, &staging));
    uint64_t addr = (uintptr_t)pages;
    assert_false(vr_registration_covers(&staging->registrations, addr, 1));
    assert_ok(vram_pinned_begin(rig.device, pages, 2 * page_bytes));
    assert_true(vr_registration_covers(&staging->registrations, addr + 5, 2 * page_bytes - 5));
    assert_false(vr_registration_covers(&staging->registrations, addr + 5, 2 * page_bytes));
    assert_false(vr_registration_covers(&staging->registrations, addr, 0));
    assert_false(vr_registration_covers(&staging->registrations, addr, UINT64_MAX));
    assert_ok(vram_pinned_end(rig.device, pages, 2 * page_bytes));
    assert_false(vr_registration_covers(&staging->registrations, addr, 1));
    vr_staging_leave(staging);
    vr_leave(device);
    rig_end_clean(&rig);
    free(pages);
}

/* ------------------------------------------------------------------------ bad moments */

static vram_status pin_part(struct rig *rig, vram_pool *unused) {
    char *pages = pages_make();
    (void)unused;
    assert_ok(vram_option_set("pinned_entries", "2"));
    vram_status status = VRAM_OK;
    for (int i = 0; i < 4 && status == VRAM_OK; i++) {
        status = vram_pinned_begin(rig->device, pages + 3 * i * page_bytes, 2 * page_bytes);
        if (status == VRAM_OK) {
            assert_ok(vram_pinned_end(rig->device, pages + 3 * i * page_bytes, 2 * page_bytes));
        }
    }
    if (status == VRAM_OK) {
        status = vram_pinned_forget(rig->device, pages, PAGES * page_bytes);
    }
    struct vram_error error;
    vr_error_save(&error);
    while (vram_pinned_forget(rig->device, pages, PAGES * page_bytes) != VRAM_OK &&
           vr_mem_failed() + sim_state(rig).faults < 3) {
    }
    vr_error_restore(&error);
    if (status != VRAM_OK) { /* a driver that refuses for ever */
        assert_ok(vram_sim_fault_set(rig->context, NULL));
        vr_mem_fail_at(0, false);
    }
    free(pages);
    return status;
}

static bool fail_once(int32_t code, uint64_t nth) {
    struct rig rig = rig_make("sim", "memory=64M");
    if (code) {
        fault(&rig, VRAM_SIM_ANY, nth, false, code);
    } else {
        vr_mem_fail_at(nth, false);
    }
    vram_error_clear();
    vram_status status = pin_part(&rig, NULL);
    bool struck = sim_state(&rig).faults + vr_mem_failed() > 0 || status != VRAM_OK;
    vr_mem_fail_at(0, false);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_true(status == VRAM_OK || vram_error_get()->status == status);
    rig_end_clean(&rig);
    return struck;
}

static void every_call_may_fail(void **state) {
    static const int32_t codes[] = {0, VRAM_SIM_OUT_OF_MEMORY, VRAM_SIM_NOT_SUPPORTED, 9999};
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        uint64_t nth = 1;
        while (fail_once(codes[i], nth)) {
            assert_true(++nth < 100);
        }
        assert_true(nth > 1);
    }
}

static void lost_device(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make();
    assert_ok(vram_pinned_begin(rig.device, pages, page_bytes));
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    assert_int_equal(vram_pinned_begin(rig.device, pages + 4 * page_bytes, 1),
                     VRAM_ERR_DEVICE_LOST);
    assert_ok(vram_pinned_end(rig.device, pages, page_bytes));
    /* The driver was not told: the pages may still be locked, which is said once. */
    assert_int_equal(vram_pinned_forget(rig.device, pages, page_bytes), VRAM_ERR_DEVICE_LOST);
    assert_non_null(strstr(vram_error_get()->text, "may keep these pages locked"));
    assert_int_equal(info_of(&rig).entries, 0);
    assert_ok(vram_pinned_forget(rig.device, pages, page_bytes));
    rig_end_clean(&rig);
    free(pages);
}

struct user {
    vram_device *device;
    char *pages;
    unsigned seed;
};

static void *use_at_random(void *argument) {
    struct user *user = argument;
    for (int i = 0; i < 300; i++) {
        user->seed = user->seed * 1103515245 + 12345;
        uint64_t first = user->seed >> 16 & 7, count = 1 + (user->seed >> 20 & 3);
        char *memory = user->pages + first * page_bytes;
        vram_status status = vram_pinned_begin(user->device, memory, count * page_bytes);
        if (status == VRAM_OK) {
            assert_ok(vram_pinned_end(user->device, memory, count * page_bytes));
        } else {
            assert_true(status == VRAM_ERR_BUSY || status == VRAM_ERR_LIMIT);
        }
        if (i % 16 == 0) {
            status = vram_pinned_forget(user->device, memory, page_bytes);
            assert_true(status == VRAM_OK || status == VRAM_ERR_BUSY);
        }
    }
    return NULL;
}

/* Many threads want overlapping pages: the driver never sees two registrations of one page. */
static void many_threads(void **state) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct user users[THREADS];
    (void)state;
    assert_ok(vram_option_set("pinned_entries", "3"));
    struct rig rig = rig_make("sim", "memory=64M");
    char *pages = pages_make();
    for (unsigned i = 0; i < THREADS; i++) {
        users[i] = (struct user){rig.device, pages, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, use_at_random, &users[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_ok(vram_pinned_forget(rig.device, pages, PAGES * page_bytes));
    assert_int_equal(info_of(&rig).entries, 0);
    free(pages);
    rig_end_clean(&rig);
}

/* Stand before the driver's own calls, until the other thread has begun to wait; unregister is then
   refused. */
static struct {
    const struct vr_pinned_ops *ops;
    struct vr_pinned_ops copy;
    vr_atomic_bool inside;
} slow;

static vram_status register_slowly(struct vr_device *device, uint64_t addr, uint64_t bytes) {
    vr_store(&slow.inside, true, VR_RELEASE);
    vr_os_sleep(30000000);
    return slow.ops->register_pages(device, addr, bytes);
}

static vram_status unregister_slowly(struct vr_device *device, uint64_t addr, uint64_t bytes) {
    (void)addr, (void)bytes;
    vr_store(&slow.inside, true, VR_RELEASE);
    vr_os_sleep(30000000);
    return vr_error_set(VRAM_ERR_BACKEND, device->info.backend, "unregister", 1, "refused");
}

static void *forget_pages(void *argument) {
    struct user *user = argument;
    assert_int_equal(vram_pinned_forget(user->device, user->pages, page_bytes), VRAM_ERR_BACKEND);
    return NULL;
}

static void *begin_pages(void *argument) {
    struct user *user = argument;
    assert_ok(vram_pinned_begin(user->device, user->pages, page_bytes));
    return NULL;
}

/* Begins a use of the pages while the other thread is inside the driver. */
static void begin_beside(struct user *user, void *(*other)(void *)) {
    pthread_t thread;
    vr_store(&slow.inside, false, VR_RELAXED);
    assert_int_equal(pthread_create(&thread, NULL, other, user), 0);
    while (!vr_load(&slow.inside, VR_ACQUIRE)) {
        vr_os_yield();
    }
    uint64_t begun = vr_os_now();
    assert_ok(vram_pinned_begin(user->device, user->pages, page_bytes));
    assert_true(vr_os_now() - begun < 30 * SECOND); /* wait_timeout is 60 s */
    pthread_join(thread, NULL);
}

/* Who waits for another thread's pages goes on as soon as that thread has locked them, or has
   failed to unlock them. */
static void an_answer_wakes_who_waits(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    struct user user = {rig.device, pages_make(), 0};
    slow.ops = device->base.pinned;
    slow.copy = *slow.ops;
    slow.copy.register_pages = register_slowly;
    slow.copy.unregister_pages = unregister_slowly;
    device->base.pinned = &slow.copy;
    begin_beside(&user, begin_pages);
    assert_int_equal(info_of(&rig).hits, 1); /* locked once, and used twice */
    assert_ok(vram_pinned_end(rig.device, user.pages, page_bytes));
    assert_ok(vram_pinned_end(rig.device, user.pages, page_bytes));
    begin_beside(&user, forget_pages); /* they are still locked */
    assert_ok(vram_pinned_end(rig.device, user.pages, page_bytes));
    device->base.pinned = slow.ops;
    vr_leave(device);
    rig_end_clean(&rig);
    free(user.pages);
}

/* On pages of the system itself; what it lets nobody lock is a limit. */
static void on_the_host(void **state) {
    (void)state;
    struct rig rig = rig_make("host", NULL);
    char *pages = pages_make();
    vram_status status = vram_pinned_begin(rig.device, pages, 2 * page_bytes);
    if (status == VRAM_OK) {
        memset(pages, 1, 2 * page_bytes);
        assert_ok(vram_pinned_end(rig.device, pages, 2 * page_bytes));
        assert_ok(vram_pinned_forget(rig.device, pages, 2 * page_bytes));
    } else {
        assert_int_equal(status, VRAM_ERR_LIMIT);
    }
    vram_context_destroy(rig.context);
    free(pages);
}

static void misuse_is_refused(void **state) {
    char memory[10];
    vram_pinned_info info = {.size = 0};
    uint64_t released = 7;
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    assert_int_equal(vram_pinned_begin(NULL, memory, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_begin(rig.device, NULL, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_begin(rig.device, memory, 0), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_begin(rig.device, memory, UINT64_MAX), VRAM_ERR_OVERFLOW);
    assert_int_equal(vram_pinned_end(NULL, memory, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_end(rig.device, memory, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_end(rig.device, NULL, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_forget(NULL, memory, 1), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_forget(rig.device, NULL, 1), VRAM_ERR_INVALID);
    assert_ok(vram_pinned_forget(rig.device, memory, 0));
    assert_int_equal(vram_pinned_info_get(NULL, &info), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_info_get(rig.device, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_pinned_info_get(rig.device, &info), VRAM_ERR_INVALID);
    assert_int_equal(vram_device_trim(NULL, TRIM(.flags = VRAM_TRIM_PINNED), &released),
                     VRAM_ERR_INVALID);
    assert_int_equal(released, 7);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    const struct vr_pinned_ops *ops = device->base.pinned;
    struct vr_pinned_ops without = *ops;
    without.register_pages = NULL;
    device->base.pinned = &without;
    assert_int_equal(vram_pinned_begin(rig.device, memory, 1), VRAM_ERR_UNSUPPORTED);
    device->base.pinned = ops;
    vr_leave(device);
    vram_device *closed = rig.device;
    rig_end_clean(&rig);
    assert_int_equal(vram_pinned_begin(closed, memory, 1), VRAM_ERR_STALE);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(found_again),        TEST(overlaps),           TEST(limits_hold_and_the_oldest_goes),
        TEST(trimmed_with_slots), TEST(covered_while_used), TEST(every_call_may_fail),
        TEST(lost_device),        TEST(many_threads),       TEST(an_answer_wakes_who_waits),
        TEST(on_the_host),        TEST(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
