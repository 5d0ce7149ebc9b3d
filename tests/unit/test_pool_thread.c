/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_thread.c: what pools keep for each thread, in bad moments: a queue ends while a thread
 * makes its cache for it, threads of high priority need what one of low priority is inside of,
 * processes fork.
 */
#include "core/cache/thread.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include "unit/child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef __linux__
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

static struct {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
} rig;

static void rig_make(void) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "memory=1G"};
    assert_ok(vram_context_create(&options, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_pool_create(rig.device, NULL, &rig.pool));
}

static void rig_end(void) {
    assert_ok(vram_pool_destroy(rig.pool));
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
}

static vram_pool_stats stats_get(void) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(rig.pool, &stats));
    return stats;
}

/* ------------------------------------------------------------------- queues */

static atomic_bool armed;

static void *destroy_queue(void *argument) {
    vram_queue_destroy(rig.queue);
    return argument;
}

/* Nothing else that a pool asks for is as large as a cache and not larger. */
static void *alloc_meanwhile(void *user, size_t bytes) {
    (void)user;
    if (bytes > 20000 && bytes < 60000 && atomic_exchange(&armed, false)) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, destroy_queue, NULL), 0);
        pthread_join(thread, NULL);
    }
    return malloc(bytes);
}

static void *resize(void *user, void *memory, size_t bytes) {
    (void)user;
    return realloc(memory, bytes);
}

static void release(void *user, void *memory) {
    (void)user;
    free(memory);
}

/* Whoever drops the caches of a queue that ends comes too early for this one. */
TEST(no_cache_is_left_of_an_ended_queue) {
    vram_host_allocator allocator = {NULL, alloc_meanwhile, resize, release};
    vram_addr addr;
    assert_ok(vram_host_allocator_set(&allocator));
    rig_make();
    atomic_store(&armed, true);
    assert_ok(vram_alloc(rig.pool, 1000, rig.queue, &addr));
    assert_false(atomic_load(&armed)); /* it happened */
    assert_int_equal(stats_get().thread_cache_bytes, 0);
    assert_int_equal(stats_get().live_blocks, 1);
    assert_int_equal(vram_free(addr, rig.queue), VRAM_ERR_STALE);
    assert_ok(vram_free(addr, NULL));
    rig_end();
    assert_ok(vram_host_allocator_set(NULL));
}

/* ----------------------------------------------------------------- barriers */

#ifdef __linux__

/* From now on no thread of the process may ask for barriers. */
static bool forbid_barriers(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof steps[0], steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

enum { FORBIDDEN = 77 };

/* Programs lock themselves in when they have started, and the library's barrier may be locked
   out. */
static int without_barriers(void *argument) {
    (void)argument;
    vram_addr addr;
    vram_pool_stats stats = {.size = sizeof stats};
    rig_make();
    if (vram_alloc(rig.pool, 1000, rig.queue, &addr) != VRAM_OK || !forbid_barriers()) {
        return FORBIDDEN;
    }
    /* Looking into other threads' caches needs one. */
    if (vram_pool_stats_get(rig.pool, &stats) != VRAM_OK || stats.live_blocks != 1) {
        return 1;
    }
    if (vr_load(&vr_thread_biased, VR_RELAXED)) {
        return 2; /* both sides go on as if the other one's stores were seen */
    }
    return vram_free(addr, rig.queue) == VRAM_OK ? 0 : 3;
}

TEST(barriers_may_be_forbidden_later) {
    int answer = in_child(without_barriers, NULL);
    if (answer == FORBIDDEN) {
        skip();
    }
    assert_int_equal(answer, 0);
}

#endif

/* ------------------------------------------------------------------ visiting */

static void *look_all_the_time(void *argument) {
    (void)argument;
    while (atomic_load(&armed)) {
        (void)stats_get();
    }
    return NULL;
}

/* A thread that is kept out of its caches waits: others have the same memory meanwhile. */
TEST(the_same_memory_whoever_looks) {
    vram_addr first, addr;
    pthread_t reader;
    rig_make();
    assert_ok(vram_alloc(rig.pool, 1000, rig.queue, &first));
    assert_ok(vram_free(first, rig.queue));
    uint64_t misses = stats_get().misses;
    atomic_store(&armed, true);
    assert_int_equal(pthread_create(&reader, NULL, look_all_the_time, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        assert_ok(vram_alloc(rig.pool, 1000, rig.queue, &addr));
        assert_int_equal(addr, first);
        assert_ok(vram_free(addr, rig.queue));
    }
    atomic_store(&armed, false);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_int_equal(stats_get().misses, misses);
    rig_end();
}

static void count_thread(struct vr_thread_state *thread, void *user) {
    (void)thread;
    ++*(unsigned *)user;
}

/* Threads that are in no call are visited without waiting. */
TEST(idle_threads_are_visited) {
    unsigned threads = 0;
    vram_addr addr;
    rig_make();
    assert_ok(vram_alloc(rig.pool, 4096, rig.queue, &addr));
    assert_ok(vram_free(addr, rig.queue));
    assert_true(vr_thread_visit_idle(count_thread, &threads));
    assert_true(threads >= 1);
    rig_end();
}

/* ------------------------------------------------------------------ forking */

static int hit_in_child(void *argument) {
    (void)argument;
    vram_addr addr;
    return vram_alloc(rig.pool, 1000, rig.queue, &addr) == VRAM_ERR_FORKED ? 0 : 1;
}

TEST(a_child_does_not_hit) {
    vram_addr addr;
    rig_make();
    assert_ok(vram_alloc(rig.pool, 1000, rig.queue, &addr));
    assert_ok(vram_free(addr, rig.queue));
    assert_int_equal(in_child(hit_in_child, NULL), 0);
    rig_end();
}
