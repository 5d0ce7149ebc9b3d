/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watched_world.h: a process that `vram run` watches, for tests of the layers: the test makes the
 * page itself, and reads there what the recorder counted.
 */
#ifndef TEST_WATCHED_WORLD_H
#define TEST_WATCHED_WORLD_H

#include "interpose/run_page.h"
#include "interpose/run_record.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct run_page *watched_page;

static char watched_path[] = "/tmp/vram_watched_XXXXXX";

/* The page and the variable that names it. watched_end removes the file. */
static inline void watched_file(void) {
    int fd = mkstemp(watched_path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof *watched_page), 0);
    watched_page = mmap(NULL, sizeof *watched_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(watched_page != MAP_FAILED);
    close(fd);
    watched_page->magic = RUN_PAGE_MAGIC;
    watched_page->version = RUN_PAGE_VERSION;
    watched_page->bytes = sizeof *watched_page;
    watched_page->settings.root = getpid();
    watched_page->settings.limit_bytes = UINT64_C(1) << 50;
    assert_int_equal(setenv(RUN_PAGE_VARIABLE, watched_path, 1), 0);
}

static inline void watched_end(void) {
    assert_int_equal(unlink(watched_path), 0);
}

/* For programs with the recorder in them, before its first call. */
static inline void watched_begin(void) {
    watched_file();
    assert_true(run_active());
    watched_end();
}

/* The limit counts from the start, or not at all: 0 is one that is larger than any device. */
static inline void watched_limit(uint64_t bytes) {
    watched_page->settings.limit_bytes = bytes ? bytes : UINT64_C(1) << 50;
}

/* What the recorder counted so far, and of which device. */
struct watched {
    uint64_t allocs, frees, refusals, limit_refusals, strangers;
    uint64_t counted, peak;
    uint64_t live[RUN_KINDS];
};

static inline struct watched watched_of(uint32_t api, uint32_t ordinal) {
    struct run_slot *slot = &watched_page->slots[0];
    struct watched now = {.allocs = slot->allocs,
                          .frees = slot->frees,
                          .refusals = slot->refusals,
                          .limit_refusals = slot->limit_refusals,
                          .strangers = slot->strangers};
    for (int i = 0; i < RUN_DEVICES; i++) {
        struct run_device *at = &slot->devices[i];
        if (at->api == api && at->ordinal == ordinal) {
            now.counted = at->counted;
            now.peak = at->counted_peak;
            for (int kind = 0; kind < RUN_KINDS; kind++) {
                now.live[kind] = at->live[kind];
            }
        }
    }
    return now;
}

#endif
