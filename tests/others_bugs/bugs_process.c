/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_process.c: bugs of others in forked children and at exit. An alarm ends a process that
 * hangs; the fake driver's journal has every call of a child, and every call after exit began.
 */
#include "others_bugs/bugs.h"
#include "rig/rig.h"

#include "byte_units.h"
#include "unit/child.h"
#include "vram/vram.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static char journal[] = "/tmp/others_bugs-journal-XXXXXX";

/* Before anything of the library is used: its first use is part of some of these. */
static int others_bugs_begin(void) {
    int file = mkstemp(journal);
    return file < 0 || close(file) != 0 || setenv("FAKE_CUDA_JOURNAL", journal, 1) != 0 ||
           setenv("VRAM_CUDA_LIBRARY", FAKE_CUDA_PATH, 1) != 0;
}

static int others_bugs_end(void) {
    return unlink(journal);
}

static void assert_no_calls(void) {
    char text[200] = "";
    int file = open(journal, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_true(read(file, text, sizeof text - 1) >= 0);
    close(file);
    assert_string_equal(text, "");
}

struct world {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
};

static bool world_open(struct world *world, const char *backend) {
    vram_context_options options = {.size = sizeof options, .backends = backend};
    return vram_context_create(&options, &world->context) == VRAM_OK &&
           vram_device_open(world->context, 0, &world->device) == VRAM_OK &&
           vram_queue_create(world->device, NULL, &world->queue) == VRAM_OK &&
           vram_pool_create(world->device, NULL, &world->pool) == VRAM_OK &&
           vram_alloc(world->pool, 100000, world->queue, &world->addr) == VRAM_OK;
}

/* A child's own work with the library. */
static int use_anew(void *argument) {
    struct world world;
    (void)argument;
    rig_no_leak_check = true;
    return world_open(&world, "sim") && vram_free(world.addr, world.queue) == VRAM_OK &&
                   vram_context_destroy(world.context) == VRAM_OK
               ? 0
               : 1;
}

/* ------------------------------------------------------------------ busy threads */

static atomic_bool stop;
static struct world shared;

static void *keep_busy(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        vram_addr addr;
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (vram_alloc(shared.pool, (seed >> 40) % 5000000, shared.queue, &addr) == VRAM_OK) {
            (void)vram_free(addr, shared.queue);
        }
        if ((seed >> 33) % 50 == 0) {
            (void)vram_pool_trim(shared.pool, NULL, NULL);
        }
    }
    return NULL;
}

/* Forks beside `count` busy threads; what each child does must end well. */
static void fork_beside(int count, int forks, int (*child)(void *)) {
    pthread_t threads[8];
    assert_true(world_open(&shared, "sim"));
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, (void *)(uintptr_t)(i + 1)),
                         0);
    }
    for (int i = 0; i < forks; i++) {
        assert_int_equal(in_child(child, NULL), 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_ok(vram_free(shared.addr, shared.queue)); /* the parent goes on */
    assert_ok(vram_context_destroy(shared.context));
}

/* A thread of the parent may have held any mutex. */
BUG(27, mutexes_of_the_parent) {
    fork_beside(2, 20, use_anew);
}

/* What the parent had: every use is refused, in words, and nothing of it is touched. */
static int use_the_parents(void *argument) {
    vram_addr addr;
    (void)argument;
    rig_no_leak_check = true;
    bool refused = vram_free(shared.addr, shared.queue) == VRAM_ERR_FORKED &&
                   vram_alloc(shared.pool, 100000, shared.queue, &addr) == VRAM_ERR_FORKED &&
                   vram_pool_trim(shared.pool, NULL, NULL) == VRAM_ERR_FORKED;
    return refused && use_anew(NULL) == 0 ? 0 : 1;
}

/* Locks, thread caches and the parent's blocks at once. */
BUG(29, three_hazards_at_once) {
    fork_beside(3, 10, use_the_parents);
}

static int leave_at_once(void *argument) {
    (void)argument;
    rig_no_leak_check = true;
    exit(0); /* with everything that runs at exit */
}

/* Many forks beside many threads, whose children only exit. */
BUG(31, a_storm_of_forks) {
    fork_beside(4, BUGS_WATCHED ? 10 : 50, leave_at_once);
}

/* ------------------------------------------------------------------ the first use */

static atomic_bool go;

static void *use_first(void *argument) {
    struct world world;
    (void)argument;
    while (!atomic_load(&go)) {
    }
    assert_true(world_open(&world, "sim"));
    assert_ok(vram_context_destroy(world.context));
    return NULL;
}

/* In a fresh process: one thread begins to use the library while another forks. */
static int fork_at_first_use(void *argument) {
    pthread_t thread;
    unsigned pause_us = *(const unsigned *)argument;
    if (pthread_create(&thread, NULL, use_first, NULL) != 0) {
        return 2;
    }
    atomic_store(&go, true);
    for (volatile unsigned i = 0; i < pause_us * 200; i++) {
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(use_anew(NULL));
    }
    pthread_join(thread, NULL);
    return child_end(child);
}

/* Whoever sees that the library is initialised, sees its fork handlers registered. */
BUG(28, forks_at_the_first_use) {
    for (unsigned i = 0; i < (BUGS_WATCHED ? 8 : 40); i++) {
        assert_int_equal(in_child(fork_at_first_use, &i), 0);
    }
}

/* -------------------------------------------------------------- from another thread */

static void *fork_here(void *argument) {
    int *code = argument;
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        exit(use_anew(NULL));
    }
    *code = child_end(child);
    return NULL;
}

static int fork_from_a_thread(void *argument) {
    pthread_t thread;
    int code = 3;
    (void)argument;
    if (!world_open(&shared, "sim") || pthread_create(&thread, NULL, fork_here, &code) != 0) {
        return 2;
    }
    pthread_join(thread, NULL);
    return code || vram_context_destroy(shared.context) != VRAM_OK;
}

/* The child's only thread is not the parent's first; it exits with all handlers. */
BUG(30, forks_from_another_thread) {
    assert_int_equal(in_child(fork_from_a_thread, NULL), 0);
}

/* --------------------------------------------------------------------- the driver */

static int exit_or_use(void *argument) {
    const bool *uses = argument;
    struct world world;
    vram_memory_info info = {.size = sizeof info};
    if (!world_open(&world, "cuda") || vram_queue_wait(world.queue, VRAM_TIMEOUT_DEFAULT)) {
        return 2;
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        rig_no_leak_check = true;
        bool refused =
            !*uses || (vram_memory_info_get(world.device, &info) == VRAM_ERR_FORKED &&
                       vram_queue_fill(world.queue, world.addr, 1, 4, 400) == VRAM_ERR_FORKED &&
                       vram_queue_wait(world.queue, 0) == VRAM_ERR_FORKED);
        vram_context_destroy(world.context);
        exit(refused ? 0 : 1);
    }
    int code = child_end(child);
    bool whole = vram_queue_fill(world.queue, world.addr, 1, 4, 400) == VRAM_OK &&
                 vram_free(world.addr, world.queue) == VRAM_OK;
    vram_context_destroy(world.context);
    return code || !whole;
}

/* A child ends as programs do, with device memory that it inherited. */
BUG(32, inherited_memory_at_exit) {
    bool uses = false;
    assert_int_equal(in_child(exit_or_use, &uses), 0);
    assert_no_calls();
}

/* A child uses the parent's context: every call is refused before it reaches the driver. */
BUG(33, inherited_context) {
    bool uses = true;
    assert_int_equal(in_child(exit_or_use, &uses), 0);
    assert_no_calls();
}

/* --------------------------------------------------------------------------- exit */

/* Runs after the library's own exit handler, as static destructors of a program do. */
static void free_late(void) {
    (void)vram_free(shared.addr, shared.queue);
    (void)vram_pool_destroy(shared.pool);
    vram_queue_destroy(shared.queue);
    vram_context_destroy(shared.context);
}

static int free_after_exit(void *argument) {
    rig_no_leak_check = true;
    if (atexit(free_late) != 0 || !world_open(&shared, argument)) {
        return 1;
    }
    exit(42);
}

/* "All tests passed", and then the last free of the program. */
BUG(39, frees_after_exit) {
    assert_int_equal(in_child(free_after_exit, "sim"), 42);
    assert_int_equal(in_child(free_after_exit, "host"), 42);
}

/* The driver has shut down by then: nothing asks it any more, for events neither. */
BUG(40, driver_gone_at_exit) {
    assert_int_equal(in_child(free_after_exit, "cuda"), 42);
    assert_no_calls();
}

static int exit_beside_threads(void *argument) {
    pthread_t threads[4];
    rig_no_leak_check = true;
    if (!world_open(&shared, argument)) {
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, keep_busy, (void *)(uintptr_t)(i + 1)) != 0) {
            return 1;
        }
    }
    usleep(2000);
    exit(43);
}

/* Threads allocate and free while the process exits. */
BUG(41, exit_under_threads) {
    for (int i = 0; i < (BUGS_WATCHED ? 3 : 10); i++) {
        assert_int_equal(in_child(exit_beside_threads, "sim"), 43);
        assert_int_equal(in_child(exit_beside_threads, "cuda"), 43);
    }
    assert_no_calls();
}

EACH_TEST(others_bugs_begin, others_bugs_end)
