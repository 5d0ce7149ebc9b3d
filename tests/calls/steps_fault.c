/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps_fault.c: a driver that fails or lies, host memory that runs out, threads that are
 * cancelled, a process that outlives its parent, and a second copy of the library.
 */
#include "calls/program.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------------- faults */

static _Atomic int fail_in; /* allocations until one fails; 0: none does */

static bool allocation_fails(void) {
    return fail_in > 0 && atomic_fetch_sub(&fail_in, 1) == 1;
}

static void *host_alloc(void *user, size_t bytes) {
    (void)user;
    return allocation_fails() ? NULL : malloc(bytes);
}

static void *host_resize(void *user, void *memory, size_t bytes) {
    (void)user;
    return allocation_fails() ? NULL : realloc(memory, bytes);
}

static void host_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

void faults_install(void) {
    static const vram_host_allocator allocator = {NULL, host_alloc, host_resize, host_free};
    if (vram_host_allocator_set(&allocator) != VRAM_OK) {
        abort();
    }
}

static void fault_plan(struct run *r, vram_sim_fault fault) {
    fault.size = sizeof fault;
    if (is_live(OBJECT(CONTEXT, 0))) {
        DO(OK, vram_sim_fault_set(context, &fault));
        faults_on = faults_were = true;
    }
}

STEP(fault) {
    static const vram_sim_call calls[] = {VRAM_SIM_ALLOC,   VRAM_SIM_PINNED_ALLOC, VRAM_SIM_RESERVE,
                                          VRAM_SIM_CREATE,  VRAM_SIM_MAP,          VRAM_SIM_ACCESS,
                                          VRAM_SIM_UPLOAD,  VRAM_SIM_COPY,         VRAM_SIM_FILL,
                                          VRAM_SIM_DOWNLOAD};
    fault_plan(r, (vram_sim_fault){.call = calls[op->choice % (sizeof calls / sizeof *calls)],
                                   .nth = 1 + op->nth % 5,
                                   .code = op->flags % 2 ? VRAM_SIM_OUT_OF_MEMORY
                                                         : VRAM_SIM_INVALID_VALUE});
}

STEP(lie) {
    fault_plan(r, (vram_sim_fault){.call = VRAM_SIM_ANY, .nth = 1, .lie = VRAM_SIM_LIE_NULL});
}

STEP(malloc_fault) {
    if (is_live(OBJECT(CONTEXT, 0))) {
        fail_in = 1 + (int)(op->nth % 6);
        faults_on = faults_were = true;
    }
}

STEP(fault_clear) {
    if (!faults_on) {
        return;
    }
    fail_in = 0;
    if (is_live(OBJECT(CONTEXT, 0)) && strcmp(settings.backend, "sim") == 0) {
        DO(OK, vram_sim_fault_set(context, NULL));
    }
    faults_on = false;
}

static pid_t helper;

void faults_clear(struct run *r) {
    step_fault_clear(r, NULL);
    if (helper > 0) {
        kill(helper, SIGKILL);
        waitpid(helper, NULL, 0);
        helper = 0;
    }
}

/* ---------------------------------------------------------------- cancellation */

struct victim {
    vram_pool *pool;
    vram_queue *queue;
    uint64_t bytes;
    _Atomic bool started, done;
    vram_status statuses[4];
};

/* No call is a cancellation point: all are made. */
static void *victim_run(void *user) {
    struct victim *victim = user;
    vram_addr addr = 0;
    victim->started = true;
    victim->statuses[0] = vram_alloc(victim->pool, victim->bytes, victim->queue, &addr);
    victim->statuses[1] = vram_queue_wait(victim->queue, VRAM_TIMEOUT_DEFAULT);
    victim->statuses[2] = vram_free(addr, victim->queue);
    victim->statuses[3] = vram_pool_trim(victim->pool, NULL, NULL);
    victim->done = true;
    for (;;) {
        pthread_testcancel();
        usleep(100);
    }
    return NULL;
}

STEP(cancel) {
    struct object *from = OBJECT(POOL, op->pool);
    struct victim victim = {.pool = pool[op->pool], .queue = queue[op->queue], .bytes = op->bytes};
    struct timespec until;
    pthread_t thread;
    if (!op->queue || from->sleeping || from->count || faults_on ||
        pthread_create(&thread, NULL, victim_run, &victim) != 0) {
        return;
    }
    r->call = "vram_alloc, vram_queue_wait, vram_free, vram_pool_trim";
    while (!victim.started) {
    }
    for (volatile uint64_t i = 0; i < op->nth % 4096; i++) {
    }
    pthread_cancel(thread);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += settings.seconds;
    EXPECT(pthread_timedjoin_np(thread, NULL, &until) == 0, "a cancelled thread does not end");
    EXPECT(victim.done, "a thread was cancelled inside of a call");
    for (unsigned i = 0; i < 4; i++) {
        EXPECT(victim.statuses[i] == VRAM_OK, "call %u of a cancelled thread: %s", i,
               vram_status_name(victim.statuses[i]));
    }
    r->calls += 4;
}

/* ------------------------------------------------------- processes and copies */

/* A process that inherits everything and outlives what comes. */
STEP(fork_helper) {
    if (helper > 0 || !is_live(OBJECT(CONTEXT, 0))) {
        return;
    }
    pid_t parent = getpid();
    helper = fork();
    if (helper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(1);
        close(2);
        while (getppid() == parent) {
            pause();
        }
        _exit(0);
    }
}

/* A function of the second copy. */
#define SECOND(library, name) ((__typeof__(&(name)))(uintptr_t)dlsym(library, #name))

static struct {
    void *library; /* NULL: not opened yet */
    __typeof__(&vram_pool_stats_get) stats;
    __typeof__(&vram_queue_poll) poll;
    __typeof__(&vram_alloc) alloc;
} second;

/* The other copy makes the same objects in the same order: its numbers would be the same. */
static bool second_open(void) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_context *its_context;
    vram_device *its_device;
    vram_pool *its_pool;
    vram_queue *its_queue;
    void *library = second.library ? second.library : dlopen(settings.second, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "calls: %s\n", dlerror());
        return false;
    }
    bool fine =
        second.library || (SECOND(library, vram_context_create)(&options, &its_context) == 0 &&
                           SECOND(library, vram_device_open)(its_context, 0, &its_device) == 0);
    for (unsigned i = 0; fine && !second.library && i < 8; i++) {
        fine = SECOND(library, vram_pool_create)(its_device, NULL, &its_pool) == VRAM_OK &&
               SECOND(library, vram_queue_create)(its_device, NULL, &its_queue) == VRAM_OK;
    }
    second.library = library;
    second.stats = SECOND(library, vram_pool_stats_get);
    second.poll = SECOND(library, vram_queue_poll);
    second.alloc = SECOND(library, vram_alloc);
    return fine;
}

/* A handle of this copy is none in the other. */
STEP(second_copy) {
    vram_pool_stats stats = {.size = sizeof stats};
    vram_addr addr;
    if (!settings.second) {
        return;
    }
    if (!second_open()) {
        exit(2);
    }
    QUIETLY(INVALID | STALE, second.stats(pool[op->pool], &stats));
    DO(INVALID | STALE, second.poll(queue[op->queue]));
    DO(INVALID | STALE, second.alloc(pool[op->pool], op->bytes, NULL, &addr));
}
