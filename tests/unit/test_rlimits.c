/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rlimits.c: programs under the system's limits on descriptors, threads, address space, locked
 * memory and the size of files, from nothing to enough. A child uses much of the library under each
 * limit. Every call may be refused, with a status that a limit explains; none crashes, hangs or
 * leaves something behind, and with enough all succeed.
 */
#include "unit/share_world.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { REFUSED = 10, WRONG = 11, LEFT = 12, UNLIMITED = 77 };

/* Statuses of a shortage, or of a system call that failed for one. */
static bool explained(vram_status status) {
    return vram_status_is_exhausted(status) || status == VRAM_ERR_IO ||
           status == VRAM_ERR_UNSUPPORTED || status == VRAM_ERR_TIMEOUT ||
           status == VRAM_ERR_BACKEND || status == VRAM_ERR_NO_DEVICE ||
           status == VRAM_ERR_DEVICE_LOST ||
           status == VRAM_ERR_STALE; /* an exporter without descriptors closes the connection */
}

/* What has happened so far: 0, REFUSED, or WRONG with the line. */
static int verdict;

static uint64_t patience_ns; /* for another process; 0: as long as usual */

static bool may(vram_status status, int line) {
    if (status == VRAM_OK) {
        return true;
    }
    if (!explained(status)) {
        fprintf(stderr, "line %d: status %d: %s\n", line, (int)status, vram_error_get()->text);
        verdict = WRONG;
    } else if (verdict == 0) {
        verdict = REFUSED;
    }
    return false;
}
#define MAY(call) may(call, __LINE__)

static void share_use(vram_device *device, vram_queue *queue) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SHAREABLE};
    const vram_share_options patience = {.size = sizeof patience, .timeout_ns = patience_ns};
    vram_share_token token;
    vram_share *share, *opened;
    vram_pool *pool;
    vram_addr addr;
    if (!MAY(vram_pool_create(device, &options, &pool))) {
        return;
    }
    if (MAY(vram_alloc(pool, MIB, queue, &addr)) &&
        MAY(vram_share_export(&addr, 1, NULL, &share))) {
        if (MAY(vram_share_token_get(share, &token)) &&
            MAY(vram_share_open(device, &token, &patience, &opened))) {
            (void)MAY(vram_share_close(opened));
        }
        (void)MAY(vram_share_close(share));
    }
    (void)MAY(vram_pool_destroy(pool));
}

static void memory_use(vram_device *device, vram_queue *queue) {
    static uint8_t bytes[MIB];
    vram_pool_options pinned = {.size = sizeof pinned, .kind = VRAM_MEMORY_PINNED};
    vram_pool *pool;
    vram_addr addr;
    if (MAY(vram_pool_create(device, NULL, &pool))) {
        if (MAY(vram_alloc(pool, sizeof bytes, queue, &addr))) {
            (void)MAY(vram_queue_upload(queue, addr, bytes, sizeof bytes));
            (void)MAY(vram_queue_download(queue, bytes, addr, sizeof bytes));
            (void)MAY(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
            (void)MAY(vram_free(addr, queue));
        }
        (void)MAY(vram_pool_destroy(pool));
    }
    if (MAY(vram_pool_create(device, &pinned, &pool))) {
        if (MAY(vram_alloc(pool, MIB, queue, &addr))) {
            (void)MAY(vram_free(addr, queue));
        }
        (void)MAY(vram_pool_destroy(pool));
    }
}

static void library_use(void) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    char path[64];
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_trace *trace;
    snprintf(path, sizeof path, "%s/trace.vrt", share_dir);
    vram_trace_options traced = {.size = sizeof traced, .path = path};
    if (!MAY(vram_context_create(&options, &context))) {
        return;
    }
    bool tracing = MAY(vram_trace_begin(context, &traced, &trace));
    if (MAY(vram_device_open(context, 0, &device)) &&
        MAY(vram_queue_create(device, NULL, &queue))) {
        memory_use(device, queue);
        share_use(device, queue);
        vram_queue_destroy(queue);
    }
    if (tracing) {
        (void)MAY(vram_trace_end(trace));
    }
    (void)MAY(vram_context_destroy(context));
}

struct limited {
    int resource;
    rlim_t soft;
    bool enough; /* all calls must succeed */
};

static int use_limited(void *argument) {
    const struct limited *limited = argument;
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)limited->resource, &limit) != 0) {
        return UNLIMITED;
    }
    limit.rlim_cur = limited->soft < limit.rlim_max ? limited->soft : limit.rlim_max;
    if (setrlimit((__rlimit_resource_t)limited->resource, &limit) != 0) {
        return UNLIMITED;
    }
    patience_ns = limited->enough ? 0 : 50000000;
    library_use();
    return verdict == 0 && vram_host_bytes() ? LEFT : verdict;
}

/* Runs with each limit; the last one must be enough. */
static void sweep(int resource, const rlim_t *limits, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct limited limited = {resource, limits[i], i + 1 == count};
        int code = in_child(use_limited, &limited);
        if (code != 0 && code != REFUSED) {
            fail_msg("limit %llu: %d", (unsigned long long)limits[i], code);
        }
        assert_true(!limited.enough || code == 0);
    }
}

TEST(descriptors) {
    rlim_t limits[28];
    for (rlim_t i = 0; i < 27; i++) {
        limits[i] = i;
    }
    limits[27] = 256;
    sweep(RLIMIT_NOFILE, limits, 28);
}

/* Pages of the program itself, and more and more for the library. */
TEST(address_space) {
    rlim_t limits[13];
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_true(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    for (rlim_t i = 0; i < 12; i++) {
        limits[i] = (rlim_t)pages * 4096 + (i < 6 ? i * MIB / 2 : MIB << (2 * (i - 5)));
    }
    limits[12] = RLIM_INFINITY;
    sweep(RLIMIT_AS, limits, 13);
}

TEST(locked_memory) {
    static const rlim_t limits[] = {0, 4096, 65536, MIB, 16 * MIB, RLIM_INFINITY};
    sweep(RLIMIT_MEMLOCK, limits, sizeof limits / sizeof limits[0]);
}

/* Also for files in memory, which have no name. */
TEST(size_of_files) {
    static const rlim_t limits[] = {0,
                                    1,
                                    4095,
                                    4096,
                                    65536,
                                    MIB - 1,
                                    3 * MIB,
                                    16 * MIB,
                                    64 * MIB,
                                    UINT64_C(1) << 40,
                                    RLIM_INFINITY};
    sweep(RLIMIT_FSIZE, limits, sizeof limits / sizeof limits[0]);
}

/* No root has this limit: as another user, where there can be one. */
static int use_as_another(void *argument) {
    if (geteuid() == 0 &&
        (chown(share_dir, 65533, 65533) != 0 || syscall(SYS_setresgid, 65533, 65533, 65533) != 0 ||
         syscall(SYS_setresuid, 65533, 65533, 65533) != 0)) {
        return UNLIMITED;
    }
    return use_limited(argument);
}

TEST(threads) {
    for (rlim_t i = 0; i < 6; i++) {
        struct limited limited = {RLIMIT_NPROC, i, false};
        int code = in_child(use_as_another, &limited);
        if (code == UNLIMITED) {
            skip();
        }
        assert_true(code == 0 || code == REFUSED);
    }
}

static int begin(void) {
    return share_folder_make();
}

static int end(void) {
    share_folder_remove();
    return 0;
}

EACH_TEST(begin, end)
