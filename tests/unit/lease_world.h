/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_world.h: holders of leases on one device. Each has a context of its own, so two of them in
 * one process lend each other memory as two processes do. The broker is a thread of the test unless
 * a test says otherwise.
 */
#ifndef TEST_LEASE_WORLD_H
#define TEST_LEASE_WORLD_H

#include "assert_ok.h"
#include "base/memory.h"
#include "child.h"
#include "vram/vram.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define UNIT   (UINT64_C(1) << 16) /* a granule; the device has 1024 */
#define SECOND UINT64_C(1000000000)

struct holder {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_lease *lease;
    vram_addr addr;
};

static char lease_dir[32];
#define LEASE_SIM "memory=64M,granule=64K,real=on"
static const char *lease_backend = "sim", *lease_sim = LEASE_SIM;

static inline uint64_t lease_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* A device of 1024 granules whose memory can be written and read. */
static inline void holder_device(struct holder *holder) {
    vram_context_options options = {
        .size = sizeof options, .backends = lease_backend, .sim = lease_sim};
    vram_limits limits = {.size = sizeof limits, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    memset(holder, 0, sizeof *holder);
    assert_ok(vram_context_create(&options, &holder->context));
    assert_ok(vram_device_open(holder->context, 0, &holder->device));
    assert_ok(vram_device_limits_set(holder->device, &limits));
    assert_ok(vram_queue_create(holder->device, NULL, &holder->queue));
    assert_ok(vram_pool_create(holder->device, NULL, &holder->pool));
}

static inline vram_lease_options lease_options(const char *name, uint64_t min, uint64_t want) {
    return (vram_lease_options){.size = sizeof(vram_lease_options),
                                .min_bytes = min,
                                .want_bytes = want,
                                .name = name,
                                .capacity_bytes = 1024 * UNIT,
                                .timeout_ns = 20 * SECOND};
}

static inline void holder_open(struct holder *holder, const vram_lease_options *options) {
    holder_device(holder);
    assert_ok(vram_lease_open(holder->device, options, &holder->lease));
}

static inline void holder_close(struct holder *holder) {
    assert_ok(vram_lease_close(holder->lease));
    assert_ok(vram_context_destroy(holder->context));
}

/* The pool sleeps when memory is asked for. */
static inline void holder_list(struct holder *holder, vram_sleep_contents contents) {
    vram_sleep_options options = {.size = sizeof options, .contents = contents};
    assert_ok(vram_lease_pool_add(holder->lease, holder->pool, &options));
}

static inline void holder_fill(struct holder *holder, uint64_t bytes, uint32_t pattern) {
    assert_ok(vram_alloc(holder->pool, bytes, holder->queue, &holder->addr));
    assert_ok(vram_queue_fill(holder->queue, holder->addr, pattern, 4, bytes));
    assert_ok(vram_queue_wait(holder->queue, VRAM_TIMEOUT_DEFAULT));
}

static inline void holder_expect(struct holder *holder, uint64_t bytes, uint32_t pattern) {
    uint32_t *words = malloc(bytes);
    assert_non_null(words);
    assert_ok(vram_queue_download(holder->queue, words, holder->addr, bytes));
    assert_ok(vram_queue_wait(holder->queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < bytes / 4; i += 1024) {
        assert_int_equal(words[i], pattern);
    }
    free(words);
}

static inline vram_lease_info lease_info(vram_lease *lease) {
    vram_lease_info info = {.size = sizeof info};
    assert_ok(vram_lease_info_get(lease, &info));
    return info;
}

static inline uint64_t holder_granted(struct holder *holder) {
    return lease_info(holder->lease).granted_bytes;
}

/* ------------------------------------------------------------------- a waiter */

/* An allocation on a thread of its own. */
struct waiter {
    struct holder *holder;
    uint64_t bytes;
    vram_status status;
    vram_oom_report report;
    uint64_t ns;
    pthread_t thread;
};

static inline void *waiter_run(void *argument) {
    struct waiter *waiter = argument;
    struct holder *holder = waiter->holder;
    uint64_t begin = lease_now();
    waiter->report.size = sizeof waiter->report;
    waiter->status = vram_alloc(holder->pool, waiter->bytes, holder->queue, &holder->addr);
    if (waiter->status != VRAM_OK) {
        (void)vram_oom_report_get(NULL, &waiter->report);
    }
    waiter->ns = lease_now() - begin;
    return NULL;
}

static inline void waiter_start(struct waiter *waiter, struct holder *holder, uint64_t bytes) {
    *waiter = (struct waiter){.holder = holder, .bytes = bytes};
    assert_int_equal(pthread_create(&waiter->thread, NULL, waiter_run, waiter), 0);
}

static inline void waiter_join(struct waiter *waiter) {
    assert_int_equal(pthread_join(waiter->thread, NULL), 0);
}

/* Declares safe points until something was given, for a few seconds at most. */
static inline uint64_t points_until_given(struct holder *holder) {
    uint64_t given = 0, end = lease_now() + 30 * SECOND;
    while (!given && lease_now() < end) {
        assert_ok(vram_lease_point(holder->lease, &given));
        usleep(200);
    }
    return given;
}

/* ------------------------------------------------------------------ the folder */

static inline int lease_folder_make(void) {
    may_leave_locks("a process keeps the lock of its leases");
    strcpy(lease_dir, "/tmp/vram-test-XXXXXX");
    if (!mkdtemp(lease_dir) || vram_option_set("broker", "thread") != VRAM_OK) {
        return -1;
    }
    setenv("VRAM_SHARE_DIR", lease_dir, 1); /* for children */
    return vram_option_set("share_dir", lease_dir) == VRAM_OK ? 0 : -1;
}

static inline int lease_folder_remove(void) {
    char path[400];
    DIR *folder = opendir(lease_dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", lease_dir, entry->d_name);
        (void)unlink(path);
    }
    closedir(folder);
    rmdir(lease_dir);
    return 0;
}

#endif
