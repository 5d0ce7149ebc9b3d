/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cancel.c: threads that are cancelled (pthread_cancel) inside the library. No call is a
 * cancellation point, so that none is left with a lock or a reference: neither the library's own
 * waits and files, nor drivers, nor callbacks of the program.
 *
 * A thread that cancels itself continues until its first cancellation point. So a thread that does
 * so and then makes every call finds each cancellation point, reliably.
 */
#include "unit/buffer_world.h"

#include "vram/pressure.h"
#include "vram/scope.h"
#include "vram/stats.h"
#include "vram/trace.h"
#include "vram/transfer.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* ------------------------------------------------------- a program that is cancelled */

/* The result of the thread: the line that failed, or 0; and how far it got. */
struct program {
    const char *backend, *sim, *path;
    int failed;
    uint32_t callbacks;
    bool ended;
};

/* Callbacks have cancellation points of their own, as any printf is one. */
static void point_in_callback(struct program *program) {
    program->callbacks++;
    pthread_testcancel();
}

static void on_message(void *user, vram_log_level level, const char *text) {
    (void)level, (void)text;
    point_in_callback(user);
}

static uint64_t on_short(void *user, const vram_oom_event *event) {
    (void)event;
    point_in_callback(user);
    return 0;
}

static void on_moved(void *user, const vram_buffer_event *event) {
    (void)event;
    point_in_callback(user);
}

static void on_async(void *user, vram_status status) {
    (void)status;
    point_in_callback(user);
}

static bool on_block(void *user, const vram_live_block *block) {
    (void)block;
    point_in_callback(user);
    return true;
}

static void run_kernel(const vram_kernel_call *call) {
    (void)call;
    usleep(1000);
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != VRAM_OK) {                                                                   \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

static int use_queue(vram_device *device, vram_queue *queue) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)run_kernel,
                                 .entry = "run_kernel"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    if (vram_kernel_create(device, &source, &kernel) == VRAM_OK) { /* not on every simulation */
        TRY(vram_queue_launch(queue, kernel, &launch));
        TRY(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
        vram_kernel_destroy(kernel);
    }
    return 0;
}

static int use_pool(struct program *program, vram_pool *pool, vram_queue *queue) {
    vram_live_query query = {.size = sizeof query, .pool = pool};
    vram_addr blocks[8], none;
    for (int i = 0; i < 8; i++) {
        TRY(vram_alloc(pool, MIB, queue, &blocks[i]));
        TRY(vram_queue_fill(queue, blocks[i], 1, 1, MIB));
    }
    TRY(vram_live_visit(&query, on_block, program));
    for (int i = 0; i < 8; i++) {
        TRY(vram_free(blocks[i], queue));
    }
    if (vram_alloc(pool, 60 * MIB, NULL, &blocks[0]) == VRAM_OK) { /* waits for the fills */
        if (vram_alloc(pool, 60 * MIB, NULL, &none) == VRAM_OK) {  /* climbs its whole ladder */
            return __LINE__;
        }
        TRY(vram_free(blocks[0], NULL));
    }
    TRY(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    TRY(vram_pool_trim(pool, NULL, NULL));
    return 0;
}

static int use_buffer(struct program *program, vram_pool *pool, vram_queue *queue, uint8_t *host) {
    vram_buffer_options options = {
        .size = sizeof options, .kind = VRAM_BUFFER_FALLBACK, .moved = on_moved, .user = program};
    vram_transfer_options transfer = {.size = sizeof transfer};
    vram_buffer *buffer;
    vram_addr addr;
    vram_async async;
    void *mapped;
    TRY(vram_buffer_create(pool, 16 * MIB, queue, &options, &buffer));
    TRY(vram_buffer_addr(buffer, &addr));
    TRY(vram_transfer_upload(queue, addr, host, 16 * MIB, &transfer, &async));
    TRY(vram_async_then(&async, on_async, program));
    TRY(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    TRY(vram_transfer_download(queue, host, addr, 16 * MIB, &transfer, &async));
    TRY(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    TRY(vram_buffer_map(buffer, 0, MIB, VRAM_MAP_READ | VRAM_MAP_WRITE, queue, &mapped));
    TRY(vram_buffer_unmap(buffer));
    TRY(vram_buffer_demote(buffer, queue));
    TRY(vram_buffer_promote(buffer, queue));
    TRY(vram_buffer_resize(buffer, 20 * MIB, queue));
    TRY(vram_buffer_destroy(buffer));
    return 0;
}

static int run_program(struct program *program) {
    vram_context_options options = {
        .size = sizeof options, .backends = program->backend, .sim = program->sim};
    vram_pool_options tracked = {.size = sizeof tracked, .flags = VRAM_POOL_TRACKED};
    vram_trace_options trace_options = {.size = sizeof trace_options, .path = program->path};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 * MIB};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_trace *trace;
    uint8_t *host = calloc(16, MIB);
    if (!host) {
        return __LINE__;
    }
    vram_log_set(on_message, program, VRAM_LOG_DEBUG);
    TRY(vram_context_create(&options, &context));
    TRY(vram_device_open(context, 0, &device));
    TRY(vram_device_limits_set(device, &limits));
    TRY(vram_pool_create(device, &tracked, &pool));
    TRY(vram_trace_begin(context, &trace_options, &trace));
    TRY(vram_queue_create(device, NULL, &queue));
    uint64_t id, cleaned;
    TRY(vram_oom_callback_add(device, on_short, program, &id));
    int failed = use_queue(device, queue);
    failed = failed ? failed : use_pool(program, pool, queue);
    failed = failed ? failed : use_buffer(program, pool, queue, host);
    TRY(vram_device_trim(device, NULL, &cleaned));
    TRY(vram_trace_end(trace));
    vram_queue_destroy(queue);
    TRY(vram_pool_destroy(pool));
    vram_device_close(device);
    vram_context_destroy(context);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    free(host);
    return failed;
}

static void *be_cancelled(void *argument) {
    struct program *program = argument;
    (void)pthread_cancel(pthread_self());
    program->failed = run_program(program);
    program->ended = true;
    pthread_testcancel();
    return NULL;
}

TEST(no_call_is_a_cancellation_point) {
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/vram-cancel-%ld.trace", (long)getpid());
        struct program program = {
            .backend = backends[i], .sim = "memory=256M,lag=20", .path = path};
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, be_cancelled, &program), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        (void)unlink(path);
        assert_true(program.ended);
        assert_int_equal(program.failed, 0);
        assert_true(program.callbacks > 3);
        assert_ptr_equal(result, PTHREAD_CANCELED); /* after its last call */
    }
}

/* ----------------------------------------------------------- others that go on */

struct storm {
    vram_pool *pool;
    vram_queue *queue;
    uint64_t seed;
};

__attribute__((noinline)) static void work(struct storm *storm) {
    vram_addr addr;
    uint8_t bytes[64];
    storm->seed = storm->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    if (vram_alloc(storm->pool, storm->seed % 3000000, storm->queue, &addr) == VRAM_OK) {
        (void)vram_queue_download(storm->queue, bytes, addr, sizeof bytes);
        (void)vram_queue_wait(storm->queue, VRAM_TIMEOUT_DEFAULT);
        (void)vram_free(addr, storm->queue);
    }
    if (storm->seed % 7 == 0) {
        (void)vram_pool_trim(storm->pool, NULL, NULL);
    }
}

/* Without variables of its own: AddressSanitizer does not learn that a cancelled thread's frames
   are gone, and the end of the thread uses their stack. */
static void *work_until_cancelled(void *argument) {
    for (;;) {
        work(argument);
        pthread_testcancel();
    }
    return NULL;
}

/* Whenever a thread is cancelled, others are not blocked, and everything can be ended. */
TEST(other_threads_go_on) {
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "memory=256M");
        vram_pool *pool = pool_whole(rig.device);
        for (uint64_t round = 0; round < 100; round++) {
            struct storm storm = {pool, rig.queue, round * 2654435761u + 1};
            vram_addr addr;
            pthread_t thread;
            void *result;
            assert_int_equal(pthread_create(&thread, NULL, work_until_cancelled, &storm), 0);
            usleep((useconds_t)(round * 37 % 1000));
            assert_int_equal(pthread_cancel(thread), 0);
            assert_int_equal(pthread_join(thread, &result), 0);
            assert_ptr_equal(result, PTHREAD_CANCELED);
            assert_ok(vram_alloc(pool, MIB, NULL, &addr));
            assert_ok(vram_free(addr, NULL));
        }
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_equal(stats_of(pool).live_blocks, 0);
        assert_int_equal(stats_of(pool).reserved_bytes, 0);
        vram_context_destroy(rig.context);
    }
}
