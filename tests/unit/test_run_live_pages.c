/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_run_live_pages.c: the live pages that `vram run` writes for its programs: with whatever is
 * in the page that it shares with them, and whatever becomes of the files.
 */
#include "live/page_folder.h"
#include "rig/rig.h"
#include "run/run_live_pages.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vram/vram.h>

static struct run_page page;
static char runtime[64], folder[80]; /* XDG_RUNTIME_DIR, and `vram` in it */

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

static int page_clear(void) {
    memset(&page, 0, sizeof page);
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
