/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_live_pages.c: the live pages that `vram run` writes for its programs: with whatever is
 * in the page that it shares with them, and whatever becomes of the files.
 */
#include "live/page_folder.h"
#include "rig/rig.h"
#include "run/run_live_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vram/vram.h>

static struct run_page page;
static char runtime[64], folder[80]; /* XDG_RUNTIME_DIR, and `vram` in it */

/* ---------------------------------------------------------------- the system */

/* Calls until one fails; 0: none does. */
static int pwrite_fails_in, fallocate_fails_in, fstat_fails_in, lstat_fails_in;
static uint64_t later_ns; /* what the clock is ahead */

static bool comes_up(int *calls) {
    return *calls > 0 && --*calls == 0;
}

ssize_t __real_pwrite(int file, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *from, size_t bytes, off_t at) {
    return comes_up(&pwrite_fails_in) ? -1 : __real_pwrite(file, from, bytes, at);
}

int __real_posix_fallocate(int file, off_t at, off_t bytes);
int __wrap_posix_fallocate(int file, off_t at, off_t bytes);
int __wrap_posix_fallocate(int file, off_t at, off_t bytes) {
    return comes_up(&fallocate_fails_in) ? ENOSPC : __real_posix_fallocate(file, at, bytes);
}

int __real_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about) {
    return comes_up(&fstat_fails_in) ? -1 : __real_fstat(file, about);
}

int __real_lstat(const char *path, struct stat *about);
int __wrap_lstat(const char *path, struct stat *about);
int __wrap_lstat(const char *path, struct stat *about) {
    return lstat_fails_in ? -1 : __real_lstat(path, about);
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int code = __real_clock_gettime(clock, now);
    uint64_t ns = (uint64_t)now->tv_nsec + later_ns;
    now->tv_sec += (time_t)(ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return code;
}

/* -------------------------------------------------------------------- pages */

static bool view_take(void *user, const char *path, struct page_view *view) {
    (void)path;
    page_view_free(user);
    *(struct page_view *)user = *view;
    return true;
}

/* How many pages there are; *view is the last. */
static uint64_t pages_read(struct page_view *view) {
    struct pages_met met;
    *view = (struct page_view){0};
    pages_visit_in(folder, view_take, view, &met);
    assert_int_equal(met.wrong, 0);
    return met.read;
}

static uint64_t pages_count(void) {
    struct page_view view;
    uint64_t count = pages_read(&view);
    page_view_free(&view);
    return count;
}

static struct run_live_pages *begin(void) {
    struct run_live_pages *pages = run_live_pages_begin(&page);
    assert_non_null(pages);
    return pages;
}

static struct run_slot *slot_use(unsigned at, int64_t pid) {
    struct run_slot *slot = &page.slots[at];
    atomic_store(&slot->pid, pid);
    atomic_store(&slot->state, RUN_STARTED);
    snprintf(slot->command, sizeof slot->command, "./train");
    return slot;
}

TEST(devices_are_rows) {
    struct run_slot *slot = slot_use(0, getpid());
    for (unsigned i = 0; i < 8; i++) { /* more kinds than a page has rows for */
        struct run_device *device = &slot->devices[i];
        atomic_store(&device->api, i == 6 ? 5 : i == 7 ? 0 : 1 + i % 4);
        device->ordinal = i;
        for (unsigned kind = 0; kind < RUN_KINDS; kind++) {
            atomic_store(&device->peak[kind], 10 + kind);
            atomic_store(&device->live[kind], kind);
        }
        atomic_store(&device->counted, 100);
        atomic_store(&device->counted_peak, 200);
    }
    atomic_store(&slot->devices[1].total, 5000);
    atomic_store(&slot->devices[1].last.time_ns, 1);
    atomic_store(&slot->devices[1].last.free, 4000);
    atomic_store(&slot->devices[1].peak[RUN_MANAGED], 0);
    slot->devices[1].uuid[0] = 9;
    memset(slot->devices[1].name, 'n', RUN_NAME); /* without an end */
    page.settings.limit_bytes = 3000;
    atomic_store(&slot->allocs, 3);
    atomic_store(&slot->frees, 7); /* more than were allocated */
    struct run_live_pages *pages = begin();
    run_live_pages_update(pages);
    struct page_view view;
    assert_int_equal(pages_read(&view), 1);
    assert_int_equal(view.head.origin, VRAM_LIVE_PAGE_RUN);
    assert_string_equal(view.head.command, "./train");
    assert_int_equal(view.head.devices.count, 6);
    assert_int_equal(view.head.pools.count, VRAM_LIVE_PAGE_POOLS);
    assert_int_equal(view.head.pools.total, 6 * RUN_KINDS - 1);
    assert_int_equal(view.head.sum.held_bytes, 600);
    assert_int_equal(view.head.sum.live_blocks, 0);
    assert_int_equal(view.devices[0].memory_bytes, VRAM_LIVE_PAGE_UNKNOWN);
    assert_int_equal(view.devices[0].free_bytes, VRAM_LIVE_PAGE_UNKNOWN);
    assert_false(view.devices[0].uuid_known);
    assert_string_equal(view.devices[0].backend, "cuda");
    assert_int_equal(view.devices[1].memory_bytes, 5000);
    assert_int_equal(view.devices[1].free_bytes, 4000);
    assert_int_equal(view.devices[1].limit_bytes, 3000);
    assert_true(view.devices[1].uuid_known);
    assert_int_equal(strlen(view.devices[1].name), RUN_NAME - 1);
    assert_int_equal(view.devices[1].pools, RUN_KINDS - 1);
    assert_string_equal(view.pools[0].name, "device");
    page_view_free(&view);
    atomic_store(&slot->allocs, 9);
    run_live_pages_update(pages);
    assert_int_equal(pages_read(&view), 1);
    assert_int_equal(view.head.sum.live_blocks, 2);
    page_view_free(&view);
    run_live_pages_end(pages);
    assert_int_equal(pages_count(), 0);
}

/* A second passes between two updates. */
static uint64_t rate_after(struct run_live_pages *pages, uint64_t allocs) {
    struct page_view view;
    atomic_store(&page.slots[0].allocs, allocs);
    later_ns += UINT64_C(1000000000);
    run_live_pages_update(pages);
    assert_int_equal(pages_read(&view), 1);
    uint64_t rate = view.head.sum.alloc_rate;
    page_view_free(&view);
    return rate;
}

TEST(rates_follow_the_counts) {
    slot_use(0, getpid());
    struct run_live_pages *pages = begin();
    run_live_pages_update(pages);
    uint64_t rate = rate_after(pages, 1000); /* in a second and what the machine takes */
    assert_in_range(rate, 100000, 1000000);
    assert_int_equal(rate_after(pages, 1000), 0);
    assert_int_equal(rate_after(pages, 10), 0); /* a count that falls is a lie */
    assert_true(rate_after(pages, UINT64_MAX) == VRAM_LIVE_PAGE_UNKNOWN);
    run_live_pages_end(pages);
}

TEST(processes_that_cannot_have_a_page) {
    static const int64_t pids[] = {-1, INT64_MIN, (int64_t)INT_MAX + 1, INT64_MAX, INT_MAX};
    for (unsigned i = 0; i < sizeof pids / sizeof pids[0]; i++) {
        slot_use(i, pids[i]);
    }
    struct run_live_pages *pages = begin();
    run_live_pages_update(pages);
    run_live_pages_update(pages);
    assert_int_equal(pages_count(), 0);
    run_live_pages_end(pages);
    run_live_pages_update(NULL);
    run_live_pages_end(NULL);
}

static void page_path(char path[200]) {
    struct page_name name;
    char text[PAGE_NAME_MAX];
    assert_true(page_owner_describe((uint64_t)getpid(), &name));
    page_name_write(&name, "page", text);
    snprintf(path, 200, "%s/%s", folder, text);
}

/* The process has a page of its own, put there before or later: that one is never touched. */
TEST(a_page_of_the_process_itself_stays) {
    char path[200];
    struct stat about;
    page_path(path);
    for (int later = 0; later < 2; later++) {
        int kept = -1; /* so that no later file has the same inode */
        slot_use(0, getpid());
        struct run_live_pages *pages = begin();
        if (later) {
            run_live_pages_update(pages);
            kept = open(path, O_RDONLY);
            assert_true(kept >= 0);
            assert_int_equal(unlink(path), 0);
        }
        int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        assert_true(file >= 0);
        assert_int_equal(close(file), 0);
        run_live_pages_update(pages);
        run_live_pages_update(pages);
        run_live_pages_end(pages);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_size, 0);
        assert_int_equal(unlink(path), 0);
        (void)close(kept);
    }
}

TEST(a_page_that_is_gone_is_given_up) {
    char path[200];
    page_path(path);
    slot_use(0, getpid());
    struct run_live_pages *pages = begin();
    run_live_pages_update(pages);
    assert_int_equal(unlink(path), 0);
    run_live_pages_update(pages);
    run_live_pages_update(pages);
    assert_int_equal(pages_count(), 0);
    run_live_pages_end(pages);
}

TEST(a_process_that_ended_has_none) {
    struct run_slot *slot = slot_use(0, getpid());
    struct run_live_pages *pages = begin();
    run_live_pages_update(pages);
    assert_int_equal(pages_count(), 1);
    atomic_store(&slot->state, RUN_ENDED);
    run_live_pages_update(pages);
    assert_int_equal(pages_count(), 0);
    run_live_pages_end(pages);
}

/* Whatever call fails: there is no page that is not whole. */
TEST(files_that_cannot_be_written) {
    int *const calls[] = {&pwrite_fails_in, &fallocate_fails_in, &fstat_fails_in};
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (int nth = 1; nth <= 5; nth++) {
            slot_use(0, getpid());
            struct run_live_pages *pages = begin();
            *calls[i] = nth;
            run_live_pages_update(pages);
            bool failed = *calls[i] == 0;
            *calls[i] = 0;
            assert_int_equal(pages_count(), failed ? 0 : 1);
            run_live_pages_end(pages);
            assert_int_equal(pages_count(), 0);
        }
    }
}

TEST(no_pages_without_a_folder) {
    lstat_fails_in = 1;
    assert_null(run_live_pages_begin(&page));
    lstat_fails_in = 0;
    assert_int_equal(vram_option_set("live", "off"), VRAM_OK);
    assert_null(run_live_pages_begin(&page));
    assert_int_equal(vram_option_set("live", "on"), VRAM_OK);
}

static int page_clear(void) {
    memset(&page, 0, sizeof page);
    later_ns = 0;
    return 0;
}

static int folder_make(void) {
    snprintf(runtime, sizeof runtime, "/tmp/vram_run_pages_XXXXXX");
    if (mkdtemp(runtime) == NULL) {
        return -1;
    }
    snprintf(folder, sizeof folder, "%s/vram", runtime);
    return setenv("XDG_RUNTIME_DIR", runtime, 1);
}

static int folder_remove(void) {
    return rmdir(folder) != 0 || rmdir(runtime) != 0;
}

WHOLE_FILE(folder_make, folder_remove)
EACH_TEST(page_clear, NULL)
