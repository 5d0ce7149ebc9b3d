/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_exit_matrix.c: every way in which a process ends, with everything that may be under way
 * then, and with handlers of the program's own before and after the library's. Each combination is
 * a process of its own, this program executed anew. It must end as it was told, call no driver
 * after its exit began, and leave a trace that can be read.
 */
#include "unit/child.h"
#include "unit/trace_world.h"

#include "vram/vram.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>

extern char **environ;

#define MIB (UINT64_C(1) << 20)

enum { CODE = 7 };

enum end { RETURN, EXIT, UNDERSCORE_EXIT, QUICK_EXIT, ABORT, SIGNAL, ENDS };
enum state { IDLE, ALIVE, COPYING, THREADS, TRACING, STATES };
enum order { NO_HANDLER, HANDLER_FIRST, HANDLER_LAST, ORDERS };

/* --------------------------------------------------------------------- the process */

static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static vram_pool *pool;
static vram_addr block;

/* As a static destructor of the program would. */
static void end_everything(void) {
    (void)vram_free(block, queue);
    (void)vram_pool_destroy(pool);
    vram_queue_destroy(queue);
    vram_device_close(device);
    vram_context_destroy(context);
}

static void *keep_busy(void *unused) {
    for (vram_addr addr;;) {
        if (vram_alloc(pool, 3 * MIB, queue, &addr) == VRAM_OK) {
            (void)vram_free(addr, queue);
        }
        (void)vram_pool_trim(pool, NULL, NULL);
    }
    return unused;
}

static bool world_open(void) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_pool_options tracked = {.size = sizeof tracked, .flags = VRAM_POOL_TRACKED};
    return vram_context_create(&options, &context) == VRAM_OK &&
           vram_device_open(context, 0, &device) == VRAM_OK &&
           vram_queue_create(device, NULL, &queue) == VRAM_OK &&
           vram_pool_create(device, &tracked, &pool) == VRAM_OK;
}

static bool state_reach(enum state state, const char *trace_file) {
    static uint8_t bytes[4 * 1024 * 1024];
    vram_trace_options options = {.size = sizeof options, .path = trace_file};
    vram_trace *trace;
    pthread_t thread;
    bool good = true;
    if (state == TRACING) {
        good = vram_trace_begin(context, &options, &trace) == VRAM_OK;
    }
    if (state != IDLE) {
        good = good && vram_alloc(pool, sizeof bytes, queue, &block) == VRAM_OK;
    }
    for (int i = 0; i < 8 && state == COPYING; i++) {
        good = good && vram_queue_upload(queue, block, bytes, sizeof bytes) == VRAM_OK;
    }
    for (int i = 0; i < 3 && state == THREADS; i++) {
        good = good && pthread_create(&thread, NULL, keep_busy, NULL) == 0;
    }
    if (state == THREADS) {
        usleep(1000);
    }
    return good;
}

static int process_main(enum end end, enum state state, enum order order, const char *trace_file) {
    alarm(CHILD_SECONDS);
    if ((order == HANDLER_FIRST && atexit(end_everything) != 0) || !world_open() ||
        !state_reach(state, trace_file) || (order == HANDLER_LAST && atexit(end_everything) != 0)) {
        return 1;
    }
    switch (end) {
    case EXIT:
        exit(CODE);
    case UNDERSCORE_EXIT:
        _exit(CODE);
    case QUICK_EXIT:
        quick_exit(CODE);
    case ABORT:
        abort();
    case SIGNAL:
        kill(getpid(), SIGTERM);
        break;
    default:
        break;
    }
    return CODE;
}

/* ------------------------------------------------------------------------ the tests */

static char journal[] = "/tmp/vram-exit-XXXXXX";

static uint64_t journal_bytes(void) {
    FILE *file = fopen(journal, "rb");
    char text[200] = "";
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    if (bytes) {
        print_message("%s", text);
    }
    return bytes;
}

static void run_combination(enum end end, enum state state, enum order order) {
    char words[3][12];
    char *const arguments[] = {"test_exit_matrix", words[0], words[1], words[2], trace_path, NULL};
    pid_t child;
    snprintf(words[0], sizeof words[0], "%d", end);
    snprintf(words[1], sizeof words[1], "%d", state);
    snprintf(words[2], sizeof words[2], "%d", order);
    (void)unlink(trace_path);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    int wanted = end == ABORT ? 1000 + SIGABRT : end == SIGNAL ? 1000 + SIGTERM : CODE;
    int code = child_end(child);
    if (code != wanted) {
        fail_msg("end %d, state %d, order %d: %d", end, state, order, code);
    }
    assert_int_equal(journal_bytes(), 0);
    if (state == TRACING) {
        assert_true(read_trace().allocs >= 1);
    }
}

/* 6 ends, 5 states, 3 orders. */
TEST(every_end_in_every_state) {
    for (int end = 0; end < ENDS; end++) {
        for (int at = 0; at < STATES; at++) {
            for (int order = 0; order < ORDERS; order++) {
                run_combination(end, at, order);
            }
        }
    }
}

static int begin(void) {
    int file = mkstemp(journal);
    return trace_world_begin() || file < 0 || close(file) != 0 ||
           setenv("FAKE_CUDA_JOURNAL", journal, 1) != 0 ||
           setenv("FAKE_CUDA_DELAY", "200", 1) != 0 ||
           setenv("VRAM_CUDA_LIBRARY", FAKE_CUDA_PATH, 1) != 0;
}

static int end(void) {
    return unlink(journal) | trace_world_end();
}

static int play(int count, char **words) {
    return count != 5 ? 2
                      : process_main((enum end)atoi(words[1]), (enum state)atoi(words[2]),
                                     (enum order)atoi(words[3]), words[4]);
}
CHILD(play)
WHOLE_FILE(begin, end)
