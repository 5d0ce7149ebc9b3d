/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps_fault.c: a driver that fails or lies, host memory that runs out, threads that are
 * cancelled, a process that outlives its parent, and a second copy of the library.
 */
#include "programs/steps.h"

#include <dlfcn.h>
#include <errno.h>
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

static const vram_sim_call fault_calls[] = {
    VRAM_SIM_ALLOC, VRAM_SIM_PINNED_ALLOC, VRAM_SIM_RESERVE, VRAM_SIM_CREATE,
    VRAM_SIM_MAP,   VRAM_SIM_ACCESS,       VRAM_SIM_UPLOAD,  VRAM_SIM_COPY,
    VRAM_SIM_FILL,  VRAM_SIM_DOWNLOAD,     VRAM_SIM_ANY};
enum { FAULT_CALLS = sizeof fault_calls / sizeof *fault_calls };

void step_fault(struct run *r, const struct op *op) {
    bool skip = false;
    uint64_t allowed = ALLOWED(&skip, OBJECT(CONTEXT, 0));
    struct op drawn = *op;
    drawn.choice = fault_calls[op->choice % (FAULT_CALLS - 1)];
    drawn.nth = 1 + op->nth % 5;
    drawn.flags = op->flags % 2 ? VRAM_SIM_OUT_OF_MEMORY : VRAM_SIM_INVALID_VALUE;
    op = &drawn;
    if (skip || !(allowed & OK)) {
        return;
    }
    DO(OK, vram_sim_fault_set(context, &(vram_sim_fault){.size = sizeof(vram_sim_fault),
                                                         .call = (vram_sim_call)op->choice,
                                                         .nth = op->nth,
                                                         .code = (int32_t)op->flags}));
    faults_on = faults_were = true;
}

void step_lie(struct run *r, const struct op *op) {
    bool skip = false;
    uint64_t allowed = ALLOWED(&skip, OBJECT(CONTEXT, 0));
    if (skip || !(allowed & OK)) {
        return;
    }
    DO(OK, vram_sim_fault_set(context, &(vram_sim_fault){.size = sizeof(vram_sim_fault),
                                                         .call = VRAM_SIM_ANY,
                                                         .nth = 1,
                                                         .lie = VRAM_SIM_LIE_NULL}));
    faults_on = faults_were = true;
}

void step_malloc_fault(struct run *r, const struct op *op) {
    if (OBJECT(CONTEXT, 0)->state == STATE_LIVE) {
        fail_in = 1 + (int)(op->nth % 6);
        say(r, "fail_in = %d;", fail_in);
        faults_on = faults_were = true;
    }
}

void step_fault_clear(struct run *r, const struct op *op) {
    if (!faults_on) {
        return;
    }
    fail_in = 0;
    say(r, "fail_in = 0;");
    if (OBJECT(CONTEXT, 0)->state == STATE_LIVE && strcmp(settings.backend, "sim") == 0) {
        DO(OK, vram_sim_fault_set(context, NULL));
    }
    faults_on = false;
}

static pid_t helper;

void faults_clear(struct run *r) {
    const struct op none = {0};
    step_fault_clear(r, &none);
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

void step_cancel(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *from = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, from);
    unsigned slot = queue_for(op, from);
    struct victim victim = {.pool = pool[op->pool], .queue = queue[slot], .bytes = op->bytes};
    struct timespec until;
    pthread_t thread;
    if (skip || !(allowed & OK) || !slot || from->sleeping || from->count || faults_on ||
        pthread_create(&thread, NULL, victim_run, &victim) != 0) {
        return;
    }
    say(r, "cancelled(pool[%u], queue[%u], %lluu, %llu);", op->pool, slot,
        (unsigned long long)op->bytes, (unsigned long long)op->nth % 4096);
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
void step_fork_helper(struct run *r, const struct op *op) {
    (void)op;
    if (helper > 0 || OBJECT(CONTEXT, 0)->state != STATE_LIVE) {
        return;
    }
    say(r, "if (fork() == 0) for (;;) pause();");
    pid_t parent = getpid();
    helper = fork();
    if (helper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(1);
        close(2);
        if (getppid() != parent) {
            _exit(0);
        }
        for (;;) {
            pause();
        }
    }
}

static struct {
    bool tried;
    __typeof__(vram_pool_stats_get) *stats;
    __typeof__(vram_queue_poll) *poll;
    __typeof__(vram_alloc) *alloc;
    vram_context *context;
} second;

/* The other copy makes the same objects in the same order: its numbers would be the same. */
static bool second_open(void) {
    if (!second.tried) {
        second.tried = true;
        void *library = dlopen(settings.second, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "generated_programs: %s\n", dlerror());
            exit(2);
        }
        __typeof__(vram_context_create) *create;
        __typeof__(vram_device_open) *open;
        __typeof__(vram_pool_create) *make;
        __typeof__(vram_queue_create) *queue_make;
        vram_device *other;
        vram_pool *other_pool;
        vram_queue *other_queue;
        *(void **)&create = dlsym(library, "vram_context_create");
        *(void **)&open = dlsym(library, "vram_device_open");
        *(void **)&make = dlsym(library, "vram_pool_create");
        *(void **)&queue_make = dlsym(library, "vram_queue_create");
        *(void **)&second.stats = dlsym(library, "vram_pool_stats_get");
        *(void **)&second.poll = dlsym(library, "vram_queue_poll");
        *(void **)&second.alloc = dlsym(library, "vram_alloc");
        vram_context_options options = {.size = sizeof options, .backends = "host"};
        if (create(&options, &second.context) != VRAM_OK ||
            open(second.context, 0, &other) != VRAM_OK ||
            make(other, NULL, &other_pool) != VRAM_OK) {
            exit(2);
        }
        for (unsigned i = 0; i < 8; i++) {
            if (make(other, NULL, &other_pool) != VRAM_OK ||
                queue_make(other, NULL, &other_queue) != VRAM_OK) {
                exit(2);
            }
        }
    }
    return second.context != NULL;
}

/* A handle of this copy is none in the other. */
void step_second_copy(struct run *r, const struct op *op) {
    bool skip = op->queue == 0;
    vram_pool_stats stats = {.size = sizeof stats};
    vram_addr addr;
    uint64_t allowed = ALLOWED(&skip, OBJECT(POOL, op->pool), OBJECT(QUEUE, op->queue));
    if (skip || !(allowed & OK) || !settings.second || !second_open()) {
        return;
    }
    r->portable = false;
    DO(INVALID | STALE, second.stats(pool[op->pool], &stats));
    DO(INVALID | STALE, second.poll(queue[op->queue]));
    DO(INVALID | STALE, second.alloc(pool[op->pool], op->bytes, NULL, &addr));
}
