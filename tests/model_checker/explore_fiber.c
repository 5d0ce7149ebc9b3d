/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_fiber.c: the threads of a scenario, as contexts of one thread of the system.
 * Thread-local variables of the program are exchanged when another one goes on.
 */
#include "explore_checker.h"

#include "explore_scenario.h"

#include <link.h>
#include <setjmp.h>
#include <string.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 << 10 };

static CHECKER_STATE struct {
    char *stacks[THREADS_MAX];
    ucontext_t first[THREADS_MAX], search;
    jmp_buf there[THREADS_MAX], here; /* where a thread, and the search, go on */
    bool begun[THREADS_MAX];
    unsigned self;
    void (*body)(unsigned thread);
    char *locals; /* thread-local variables of this program */
    size_t locals_bytes;
    char *saved[THREADS_MAX], *acting[THREADS_MAX]; /* of each thread, now and after set_up */
    char *own;                                      /* of the search */
} fibers = {.self = THREADS_MAX};

/* The program comes first. */
static int locals_find(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size;
    (void)user;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_TLS) {
            fibers.locals = info->dlpi_tls_data;
            fibers.locals_bytes = info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

static void fibers_prepare(void) {
    if (fibers.own) {
        return;
    }
    (void)dl_iterate_phdr(locals_find, NULL);
    fibers.own = checker_memory(fibers.locals_bytes + 1);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        fibers.stacks[i] = checker_memory(STACK_BYTES);
        fibers.saved[i] = checker_memory(fibers.locals_bytes + 1);
        fibers.acting[i] = checker_memory(fibers.locals_bytes + 1);
    }
}

void fibers_forget(void) {
    fibers_prepare();
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        memcpy(fibers.acting[i], fibers.locals, fibers.locals_bytes);
    }
}

static void fiber_main(void) {
    fibers.body(fibers.self);
    fiber_leave(); /* never resumed */
}

void fibers_start(unsigned count, void (*body)(unsigned thread)) {
    fibers_prepare();
    fibers.body = body;
    for (unsigned i = 0; i < count; i++) {
        fibers.begun[i] = false;
        memcpy(fibers.saved[i], fibers.acting[i], fibers.locals_bytes);
        if (getcontext(&fibers.first[i]) != 0) {
            checker_fail("getcontext failed");
        }
        fibers.first[i].uc_stack.ss_sp = fibers.stacks[i];
        fibers.first[i].uc_stack.ss_size = STACK_BYTES;
        fibers.first[i].uc_link = NULL;
        makecontext(&fibers.first[i], fiber_main, 0);
    }
}

void fiber_resume(unsigned thread) {
    memcpy(fibers.own, fibers.locals, fibers.locals_bytes);
    memcpy(fibers.locals, fibers.saved[thread], fibers.locals_bytes);
    fibers.self = thread;
    if (_setjmp(fibers.here) == 0) {
        if (fibers.begun[thread]) {
            _longjmp(fibers.there[thread], 1);
        }
        fibers.begun[thread] = true;
        (void)setcontext(&fibers.first[thread]);
        checker_fail("setcontext failed");
    }
    memcpy(fibers.saved[fibers.self], fibers.locals, fibers.locals_bytes);
    memcpy(fibers.locals, fibers.own, fibers.locals_bytes);
    fibers.self = THREADS_MAX;
}

void fiber_leave(void) {
    if (_setjmp(fibers.there[fibers.self]) == 0) {
        _longjmp(fibers.here, 1);
    }
}

unsigned fiber_self(void) {
    return fibers.self;
}

bool fiber_has_on_stack(const volatile void *object) {
    const volatile char *at = object;
    return fibers.self < THREADS_MAX && at >= fibers.stacks[fibers.self] &&
           at < fibers.stacks[fibers.self] + STACK_BYTES;
}

/* Thread-local variables, too, are a thread's own. */
bool fiber_has_as_local(const volatile void *object) {
    const volatile char *at = object;
    return at >= fibers.locals && at < fibers.locals + fibers.locals_bytes;
}

void fiber_act_as(unsigned thread, void (*fn)(void)) {
    fibers_prepare();
    memcpy(fibers.own, fibers.locals, fibers.locals_bytes);
    memcpy(fibers.locals, fibers.acting[thread], fibers.locals_bytes);
    fn();
    memcpy(fibers.acting[thread], fibers.locals, fibers.locals_bytes);
    memcpy(fibers.locals, fibers.own, fibers.locals_bytes);
}
