/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_thread.c: what pools keep for each thread, in bad moments: a queue ends while a thread
 * makes its cache for it, threads of high priority need what one of low priority is inside of,
 * processes fork.
 */
#include "base/os/os.h"
#include "core/cache/thread.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include "unit/child.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#ifdef __linux__
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#define SECOND UINT64_C(1000000000)

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

/* --------------------------------------------------------------- priorities */

static atomic_bool stop;

static void *hit_all_the_time(void *argument) {
    vram_addr addr;
    while (!atomic_load(&stop)) {
        assert_ok(vram_alloc(rig.pool, 1000, rig.queue, &addr));
        assert_ok(vram_free(addr, rig.queue));
    }
    return argument;
}

static bool on_one_processor(pthread_t thread) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

/* Time of the processor that the calling thread has used. */
static uint64_t worked_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* Looks into the other thread's caches, which it never leaves by itself while this one is running.
   How long that takes depends on who else is there; how long this thread keeps the processor from
   the other does not. */
static void *look_urgently(void *argument) {
    uint64_t *longest = argument;
    for (int i = 0; i < 40; i++) {
        uint64_t begin = worked_ns();
        (void)stats_get();
        uint64_t took = worked_ns() - begin;
        *longest = took > *longest ? took : *longest;
        vr_os_sleep(3000000);
    }
    return NULL;
}

/* A system that leaves nothing to ordinary threads for a second at a time would do this in
   minutes. */
TEST(urgent_threads_wait_for_others) {
    pthread_t ordinary, urgent;
    pthread_attr_t attributes;
    struct sched_param priority = {.sched_priority = 1};
    uint64_t longest = 0;
    rig_make();
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&ordinary, NULL, hit_all_the_time, NULL), 0);
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &priority);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    bool pinned = on_one_processor(ordinary) &&
                  pthread_attr_setaffinity_np(&attributes, sizeof set, &set) == 0;
    bool allowed = pinned && pthread_create(&urgent, &attributes, look_urgently, &longest) == 0;
    if (allowed) {
        pthread_join(urgent, NULL);
    }
    pthread_attr_destroy(&attributes);
    atomic_store(&stop, true);
    pthread_join(ordinary, NULL);
    rig_end();
    if (!allowed) {
        skip(); /* priorities are for the privileged */
    }
    assert_true(longest < SECOND / 4);
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

static void visit_count(struct vr_thread_state *thread, void *user) {
    (void)thread;
    ++*(unsigned *)user;
}

TEST(readers_do_not_wait_for_a_busy_thread) {
    unsigned visits = 0;
    struct vr_thread_state *thread = vr_thread_get();
    assert_non_null(thread);
    assert_true(vr_thread_enter(thread));
    assert_false(vr_thread_visit_idle(visit_count, &visits));
    assert_int_equal(visits, 0);
    vr_thread_leave(thread);
    assert_true(vr_thread_visit_idle(visit_count, &visits));
    assert_true(visits >= 1);
    assert_true(vr_thread_enter(thread)); /* it was let in again */
    vr_thread_leave(thread);
}

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

static void nothing(void) {}

/* The system has no room for one more handler of forks. */
static int without_handlers(void *argument) {
    (void)argument;
    vram_addr addr;
    while (vr_os_at_fork(nothing, nothing, nothing) == VRAM_OK) {
    }
    rig_make();
    if (vram_alloc(rig.pool, 1000, rig.queue, &addr) != VRAM_OK ||
        vram_free(addr, rig.queue) != VRAM_OK) {
        return 2;
    }
    int answer = in_child(hit_in_child, NULL);
    rig_end();
    return answer;
}

TEST(a_child_does_not_hit_without_handlers_either) {
    assert_int_equal(in_child(without_handlers, NULL), 0);
}
