/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_process.c: fork and exit. Each scene plays in a child process, whose exit code is the
 * verdict: 0, or the line of the first expectation that did not hold.
 */
#include "rig/rig.h"
#include "vram/vram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/child.h"

/* Leaves the process with the line number, which fits since the file is short. */
#define EXPECT(fact)                                                                               \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            _exit(__LINE__ % 250 + 1);                                                             \
        }                                                                                          \
    } while (0)

static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static vram_addr addr;
static vram_pool *pool;
static vram_addr block;
static unsigned char host[4096];

static void open_all(const char *backend) {
    vram_context_options options = {
        .size = sizeof options, .backends = backend, .sim = "memory=1G,lag=5"};
    EXPECT(vram_context_create(&options, &context) == VRAM_OK);
    EXPECT(vram_device_open(context, 0, &device) == VRAM_OK);
    EXPECT(vram_queue_create(device, NULL, &queue) == VRAM_OK);
    EXPECT(vram_device_alloc(device, sizeof host, VRAM_MEMORY_DEVICE, &addr) == VRAM_OK);
    EXPECT(vram_pool_create(device, NULL, &pool) == VRAM_OK);
    EXPECT(vram_alloc(pool, 5000, queue, &block) == VRAM_OK);
    EXPECT(vram_free(block, queue) == VRAM_OK); /* now the thread has some at hand */
    EXPECT(vram_alloc(pool, 5000, queue, &block) == VRAM_OK);
}

static void round_trip(unsigned char byte) {
    unsigned char back[sizeof host];
    memset(host, byte, sizeof host);
    memset(back, 0, sizeof back);
    EXPECT(vram_queue_upload(queue, addr, host, sizeof host) == VRAM_OK);
    EXPECT(vram_queue_download(queue, back, addr, sizeof back) == VRAM_OK);
    EXPECT(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT) == VRAM_OK);
    EXPECT(memcmp(host, back, sizeof host) == 0);
}

/* Runs a scene in a child of its own. */
static void play(void (*scene)(const char *), const char *backend) {
    int result;
    pid_t child = fork();
    if (child == 0) {
        scene(backend);
        child_leave(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

/* --------------------------------------------------------------------- fork */

/* That every call is refused in a child of fork is for the engine modes of tests/calls. Here: what
   the parent's thread had at hand is none of the child's, after a bare clone either, and the ends
   only forget. */
static void refused_in_child(void) {
    vram_addr more = 0;
    EXPECT(vram_alloc(pool, 5000, queue, &more) == VRAM_ERR_FORKED && more == 0);
    EXPECT(vram_alloc(pool, 5000, NULL, &more) == VRAM_ERR_FORKED && more == 0);
    EXPECT(vram_free(block, queue) == VRAM_ERR_FORKED);
    EXPECT(vram_device_count(context) == 0);
    EXPECT(vram_error_get()->status == VRAM_ERR_FORKED);
    EXPECT(strstr(vram_error_get()->text, "create one"));
    EXPECT(vram_pool_destroy(pool) == VRAM_OK);
    vram_queue_destroy(queue);
    vram_device_close(device);
    vram_context_destroy(context);
}

/* What the child may start. The stack of its first thread is that of a thread which its parent had,
   and ThreadSanitizer, whose table still has that one, ends the process ("dup thread with used
   id"). The simulation has no threads. */
#ifdef __SANITIZE_THREAD__
#define FRESH "sim"
#else
#define FRESH "host"
#endif

static void own_context_in_child(void) {
    open_all(FRESH);
    round_trip(7);
    vram_context_destroy(context);
}

/* The child, made by fork or by a bare clone system call that runs no handlers. */
static void fork_scene_by(const char *backend, pid_t (*make)(void)) {
    int result;
    open_all(backend);
    round_trip(1);
    pid_t child = make();
    if (child == 0) {
        refused_in_child();
        own_context_in_child();
        child_leave(0);
    }
    EXPECT(child > 0 && waitpid(child, &result, 0) == child);
    EXPECT(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    round_trip(2); /* the parent never noticed */
    EXPECT(vram_free(block, queue) == VRAM_OK);
    EXPECT(vram_alloc(pool, 5000, queue, &block) == VRAM_OK);
    vram_context_destroy(context);
    EXPECT(vram_host_bytes() == 0);
}

static pid_t bare_fork(void) {
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void fork_scene(const char *backend) {
    fork_scene_by(backend, fork);
}
static void clone_scene(const char *backend) {
    fork_scene_by(backend, bare_fork);
}

TEST(a_forked_child_is_refused) {
    play(fork_scene, "host");
    play(fork_scene, "sim");
    play(clone_scene, "host");
    play(clone_scene, "sim");
}

/* --------------------------------------------------------------------- exit */

/* A call that is inside when the process begins to exit: it waits for work that does not end. */
static atomic_bool gate_open;
static pthread_t waiter;
static vram_status waited;

static void pass_gate(const vram_kernel_call *call) {
    (void)call;
    while (!atomic_load(&gate_open)) {
        usleep(1000);
    }
}

static void *wait_inside(void *argument) {
    (void)argument;
    waited = vram_queue_wait(queue, UINT64_C(15000000000));
    return NULL;
}

static void begin_waiting(void) {
    vram_kernel_source source = {
        .size = sizeof source, .code = (const void *)(uintptr_t)pass_gate, .entry = "pass_gate"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    vram_memory_info before = {.size = sizeof before}, now = {.size = sizeof now};
    EXPECT(vram_kernel_create(device, &source, &kernel) == VRAM_OK);
    EXPECT(vram_queue_launch(queue, kernel, &launch) == VRAM_OK);
    EXPECT(vram_memory_info_get(device, &before) == VRAM_OK);
    EXPECT(pthread_create(&waiter, NULL, wait_inside, NULL) == 0);
    uint64_t own = 0;
    do { /* until it has asked the driver, too */
        usleep(1000);
        own++;
        EXPECT(vram_memory_info_get(device, &now) == VRAM_OK);
    } while (now.driver_calls < before.driver_calls + own + 5);
}

/* Registered before the library knows of any driver, so it runs after the library's own handler:
   the place where static destructors of programs stand. */
static void late_destructor(void) {
    vram_addr more = 0;
    vram_context *another;
    if (waiter) {
        EXPECT(pthread_join(waiter, NULL) == 0);
        EXPECT(waited == VRAM_ERR_SHUTDOWN);
        atomic_store(&gate_open, true);
    }
    EXPECT(vram_device_free(device, addr) == VRAM_OK);
    EXPECT(vram_device_alloc(device, 1, VRAM_MEMORY_DEVICE, &more) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_queue_wait(queue, 0) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_context_create(NULL, &another) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_free(block, queue) == VRAM_OK);
    EXPECT(vram_alloc(pool, 1 << 20, queue, &more) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_use(block, queue) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_pin(block) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_pool_trim(pool, NULL, NULL) == VRAM_ERR_SHUTDOWN);
    EXPECT(vram_pool_destroy(pool) == VRAM_OK);
    vram_queue_destroy(queue);
    vram_device_close(device);
    vram_context_destroy(context);
    if (!__gcov_init) { /* a coverage build goes on to write its counts */
        _exit(0);
    }
}

static void exit_scene(const char *backend) {
    EXPECT(atexit(late_destructor) == 0);
    open_all(backend);
    round_trip(3);
    if (strcmp(backend, "host") == 0) {
        begin_waiting();
    }
    exit(__gcov_init ? 0 : 251); /* late_destructor must get to say otherwise */
}

TEST(frees_after_exit_are_harmless) {
    play(exit_scene, "host");
    play(exit_scene, "sim");
}
