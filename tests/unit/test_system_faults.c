/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_system_faults.c: what the system and a driver do to a program that has done nothing wrong: a
 * call that does not return, signals all the time, one processor, a stop of minutes, an exec; and
 * what of one owner's bytes another one could see.
 */
#include "unit/buffer_world.h"
#include "unit/child.h"

#include "vram/vram.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

/* -------------------------------------------------------- a driver that does not return */

static atomic_bool is_inside, may_return;

static void do_not_return(void *argument) {
    (void)argument;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_return)) {
        vr_os_sleep(100000);
    }
}

static void *allocate_much(void *argument) {
    vram_addr addr;
    assert_ok(vram_alloc(argument, 64 * MIB, NULL, &addr));
    return NULL;
}

/* A call that one thread has under way for ever: all others go on, in the same pool too. */
TEST(a_call_that_blocks_stops_nobody, "sim:memory=256M") {
    vram_pool *pool = pool_whole(rig->device), *other;
    vram_addr kept, blocks[20];
    pthread_t thread;
    assert_ok(vram_alloc(pool, 40 * MIB, rig->queue, &kept));
    assert_ok(vram_free(kept, rig->queue));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    hook_set(rig->device);
    hook.map_meanwhile = do_not_return;
    assert_int_equal(pthread_create(&thread, NULL, allocate_much, pool), 0);
    while (!atomic_load(&is_inside)) {
        vr_os_yield();
    }
    assert_ok(vram_pool_create(rig->device, NULL, &other));
    for (int i = 0; i < 20; i++) {
        assert_ok(vram_alloc(i % 2 ? pool : other, MIB / 2, rig->queue, &blocks[i]));
        assert_ok(vram_queue_fill(rig->queue, blocks[i], 1, 4, 4096));
    }
    for (int i = 0; i < 20; i++) {
        assert_ok(vram_free(blocks[i], rig->queue));
    }
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    assert_ok(vram_pool_destroy(other));
    atomic_store(&may_return, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

struct waiter {
    pthread_t thread;
    vram_point point;
    vram_status status;
};

static void *wait_for_point(void *argument) {
    struct waiter *waiter = argument;
    waiter->status = vram_point_wait(waiter->point, 30 * SECOND);
    return NULL;
}

/* A device is lost under 64 threads that wait for it: all of them are told, at once. */
TEST(all_who_wait_are_told_of_a_loss, "sim:memory=64M,lag=1000") {
    enum { WAITERS = 64 };
    struct waiter waiters[WAITERS];
    vram_point point;
    hook_set(rig->device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_queue_mark(rig->queue, &point));
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.point = point};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_point, &waiters[i]), 0);
    }
    vr_os_sleep(5000000);
    uint64_t began = vr_os_now();
    hook.poll_answer = VRAM_ERR_DEVICE_LOST;
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        assert_int_equal(waiters[i].status, VRAM_ERR_DEVICE_LOST);
    }
    assert_true(vr_os_now() - began < 10 * SECOND);
}

/* ---------------------------------------------------------------------- the system */

static atomic_uint signals_seen;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

/* A program's work, of all kinds that wait or write files; the line that failed. */
static int work_of_all_kinds(struct rig *rig, vram_pool *pool, const char *path) {
    static uint8_t bytes[3 * MIB];
    vram_trace_options options = {.size = sizeof options, .path = path};
    vram_transfer_options transfer = {.size = sizeof transfer};
    vram_trace *trace;
    vram_addr addr;
    vram_async async;
    if (vram_trace_begin(rig->context, &options, &trace) != VRAM_OK) {
        return __LINE__;
    }
    for (int i = 0; i < 20; i++) {
        if (vram_alloc(pool, sizeof bytes + (uint64_t)i, rig->queue, &addr) != VRAM_OK ||
            vram_queue_upload(rig->queue, addr, bytes, sizeof bytes) != VRAM_OK ||
            vram_transfer_download(rig->queue, bytes, addr, sizeof bytes, &transfer, &async) ||
            vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT) != VRAM_OK ||
            vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT) != VRAM_OK ||
            vram_free(addr, rig->queue) != VRAM_OK || vram_pool_trim(pool, NULL, NULL) != VRAM_OK) {
            return __LINE__;
        }
    }
    return vram_trace_end(trace) == VRAM_OK ? 0 : __LINE__;
}

/* A signal every 100 us, with a handler that lets system calls fail with EINTR. */
TEST(signals_interrupt_nothing) {
    static const char *const backends[] = {"host", "sim"};
    const struct sigaction action = {.sa_handler = on_signal};
    const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    struct sigaction before;
    char path[64];
    snprintf(path, sizeof path, "/tmp/vram-signals-%ld.vrt", (long)getpid());
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "memory=256M,lag=20");
        vram_pool *pool = pool_whole(rig.device);
        atomic_store(&signals_seen, 0);
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        int failed = work_of_all_kinds(&rig, pool, path);
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        assert_int_equal(failed, 0);
        assert_true(atomic_load(&signals_seen) > 5);
        vram_context_destroy(rig.context);
    }
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(unlink(path), 0);
}

struct turns {
    vram_pool *pool;
    vram_queue *queue;
    bool idle;
};

static void *take_turns(void *argument) {
    const struct turns *turns = argument;
    const struct sched_param param = {0};
    if (turns->idle) {
        (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &param);
    }
    for (int i = 0; i < 300; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(turns->pool, (uint64_t)(i % 7) * MIB / 2, turns->queue, &addr));
        assert_ok(vram_free(addr, turns->queue));
        if (i % 50 == 0) {
            assert_ok(vram_pool_trim(turns->pool, NULL, NULL)); /* visits every thread's cache */
        }
    }
    return NULL;
}

/* One processor for all, and one thread that gets it only when nobody else wants it. */
TEST(one_processor_is_enough) {
    enum { THREADS = 4 };
    struct turns turns[THREADS];
    pthread_t threads[THREADS];
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    struct rig rig = rig_make("sim", "memory=256M");
    vram_pool *pool = pool_whole(rig.device);
    for (int i = 0; i < THREADS; i++) {
        turns[i] = (struct turns){pool, rig.queue, i == 0};
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &turns[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    rig_end_clean(&rig);
}

static int wait_with_deadlines(void *argument) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    vram_addr addr;
    static uint8_t bytes[MIB];
    uint64_t end = vr_os_now() + SECOND / 4;
    (void)argument;
    if (vram_alloc(pool, sizeof bytes, rig.queue, &addr) != VRAM_OK) {
        return 1;
    }
    while (vr_os_now() < end) {
        vram_status status = vram_queue_upload(rig.queue, addr, bytes, sizeof bytes);
        if (status == VRAM_OK) {
            status = vram_queue_wait(rig.queue, 20000000);
        }
        if (status != VRAM_OK && status != VRAM_ERR_TIMEOUT) {
            return 2;
        }
    }
    return vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK &&
                   vram_free(addr, rig.queue) == VRAM_OK &&
                   vram_context_destroy(rig.context) == VRAM_OK
               ? 0
               : 3;
}

/* A process that is stopped for longer than its deadlines: none of them makes a device lost. */
TEST(a_stop_is_no_loss) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(wait_with_deadlines(NULL));
    }
    for (int i = 0; i < 3; i++) {
        usleep(30000);
        assert_int_equal(kill(child, SIGSTOP), 0);
        usleep(40000);
        assert_int_equal(kill(child, SIGCONT), 0);
    }
    assert_int_equal(child_end(child), 0);
}

/* Descriptors of this process that an exec would pass on. */
static int passed_on(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        int flags = entry->d_name[0] == '.' ? FD_CLOEXEC : fcntl(atoi(entry->d_name), F_GETFD);
        count += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    closedir(folder);
    return count;
}

/* The folder, with what the library keeps there between exports. */
static void folder_remove(const char *path) {
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
}

/* With everything open that the library has a descriptor for. */
TEST(descriptors_end_at_an_exec) {
    char path[64], dir[] = "/tmp/vram-exec-XXXXXX";
    int before = passed_on(), fd;
    uint64_t bytes = vr_mem_live_bytes();
    assert_non_null(mkdtemp(dir));
    assert_ok(vram_option_set("share_dir", dir));
    struct rig rig = rig_make("host", NULL);
    snprintf(path, sizeof path, "%s/trace.vrt", dir);
    vram_pool_options shareable = {.size = sizeof shareable, .flags = VRAM_POOL_SHAREABLE};
    vram_trace_options options = {.size = sizeof options, .path = path};
    vram_share_token token;
    vram_pool *pool;
    vram_trace *trace;
    vram_share *share, *opened;
    vram_point point;
    vram_async async;
    vram_addr addr;
    assert_ok(vram_pool_create(rig.device, &shareable, &pool));
    assert_ok(vram_trace_begin(rig.context, &options, &trace));
    assert_ok(vram_alloc(pool, MIB, rig.queue, &addr));
    assert_ok(vram_share_export(&addr, 1, NULL, &share));
    assert_ok(vram_share_token_get(share, &token));
    assert_ok(vram_share_open(rig.device, &token, NULL, &opened));
    assert_ok(vram_queue_mark(rig.queue, &point));
    assert_ok(vram_async_of_point(point, "test", &async));
    assert_ok(vram_async_fd_open(&async, 1, &fd));
    assert_int_equal(passed_on(), before);
    assert_int_equal(close(fd), 0);
    vram_async_end(&async);
    assert_ok(vram_trace_end(trace));
    assert_ok(vram_share_close(opened));
    assert_ok(vram_share_close(share));
    vram_context_destroy(rig.context);
    assert_int_equal(unlink(path), 0);
    folder_remove(dir);
    for (int i = 0; i < 5000 && vr_mem_live_bytes() != bytes; i++) {
        vr_os_sleep(1000000); /* the server of shares ends behind the last of them */
    }
}

/* -------------------------------------------------------------------- residual data */

/* One owner's bytes went through page-locked memory; the next one's copies show none of them. */
TEST(staging_shows_nobody_elses_bytes, "sim:memory=64M,lag=3") {
    enum { SECRET = 0x5a, UNTOUCHED = 0xee, GUARD = 4096 };
    static const uint64_t sizes[] = {1, 511, 4096, 65537, MIB - 3, 3 * MIB};
    static uint8_t bytes[3 * MIB + GUARD];
    vram_transfer_options options = {.size = sizeof options};
    vram_pool *pool = pool_whole(rig->device);
    vram_addr first, second;
    vram_async async;
    assert_ok(vram_alloc(pool, sizeof bytes, rig->queue, &first));
    assert_ok(vram_alloc(pool, sizeof bytes, rig->queue, &second));
    assert_ok(vram_queue_fill(rig->queue, second, 0x11, 1, sizeof bytes));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(bytes, SECRET, sizeof bytes);
        assert_ok(vram_transfer_upload(rig->queue, first, bytes, sizeof bytes, &options, &async));
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        memset(bytes, UNTOUCHED, sizeof bytes);
        assert_ok(vram_transfer_download(rig->queue, bytes, second, sizes[i], &options, &async));
        assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        for (uint64_t at = 0; at < sizeof bytes; at++) {
            assert_int_equal(bytes[at], at < sizes[i] ? 0x11 : UNTOUCHED);
        }
    }
}
