/* SPDX-License-Identifier: Apache-2.0 */
/* live_world.h: programs with a live page, in a folder of the test's own, and looking at it. */
#ifndef TEST_LIVE_WORLD_H
#define TEST_LIVE_WORLD_H

#include "assert_ok.h"
#include "base/os/os.h"
#include "core/live/live_writer.h"
#include "live/page_folder.h"
#include "vram/vram.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static char runtime[64], pages[80]; /* XDG_RUNTIME_DIR, and `vram` in it */

struct world {
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
};

static inline vram_status world_try(struct world *world, const char *sim) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = sim};
    vram_pool_options named = {.size = sizeof named, .name = "weights", .flags = VRAM_POOL_TRACKED};
    *world = (struct world){0};
    vram_status status = vram_context_create(&options, &world->context);
    status = status == VRAM_OK ? vram_device_open(world->context, 0, &world->device) : status;
    return status == VRAM_OK ? vram_pool_create(world->device, &named, &world->pool) : status;
}

static inline void world_open(struct world *world) {
    assert_ok(world_try(world, "memory=1G"));
}

static inline void world_close(struct world *world) {
    assert_ok(vram_context_destroy(world->context));
}

/* -------------------------------------------------------------------- looking */

struct wanted {
    uint64_t pid, updates; /* of this process, with at least so many updates */
    struct page_view view;
    bool found;
};

static inline bool page_match(void *user, const char *folder, struct page_view *view) {
    struct wanted *wanted = user;
    (void)folder; /* a fault may lead to the other one */
    if (!wanted->found && view->head.pid == wanted->pid && view->head.updates >= wanted->updates) {
        wanted->view = *view;
        wanted->found = true;
    } else {
        page_view_free(view);
    }
    return true;
}

/* Waits up to ten seconds for an update of the process's page. */
static inline bool page_wait(uint64_t pid, uint64_t updates, struct page_view *view) {
    struct wanted wanted = {.pid = pid, .updates = updates};
    struct pages_met met;
    for (int i = 0; i < 2000 && !wanted.found; i++) {
        pages_visit_in(pages, page_match, &wanted, &met);
        assert_string_equal(met.problem, "");
        if (!wanted.found) {
            vr_os_sleep(5000000);
        }
    }
    *view = wanted.view;
    return wanted.found;
}

/* A page with all that was done before the call. */
static inline struct page_view page_now(void) {
    struct page_view view;
    assert_true(page_wait((uint64_t)getpid(), 1, &view));
    uint64_t updates = view.head.updates;
    page_view_free(&view);
    assert_true(page_wait((uint64_t)getpid(), updates + 2, &view));
    return view;
}

static inline int entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        count += entry->d_name[0] != '.';
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* A folder of the test's own, and its end: nothing may be left in it. */
static inline int world_begin(void) {
    snprintf(runtime, sizeof runtime, "%s/vram-live-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(runtime));
    snprintf(pages, sizeof pages, "%s/vram", runtime);
    vr_live_interval_ns = 10000000;
    return setenv("XDG_RUNTIME_DIR", runtime, 1) || setenv("VRAM_LIVE", "on", 1);
}

static inline int world_end(void) {
    char other[64];
    snprintf(other, sizeof other, "/dev/shm/vram-%u", (unsigned)geteuid());
    (void)rmdir(other);                    /* unless others use it */
    return rmdir(pages) || rmdir(runtime); /* nothing is left in them */
}

#endif
