/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_kill.h: a process that ends at a chosen instruction. The child is executed instruction by
 * instruction (ptrace), so a kill between any two of them is tested, not only one that chance
 * finds.
 */
#ifndef TEST_STEP_KILL_H
#define TEST_STEP_KILL_H

#include "unit/child.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>

struct stepped {
    int (*prepare)(void *argument); /* as a whole, before; may be NULL */
    int (*work)(void *argument);    /* instruction by instruction */
    void *argument;
};

/* A child that has prepared itself and stands before its work. 0: this system traces nobody. */
static inline pid_t step_begin(const struct stepped *stepped) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        alarm(CHILD_SECONDS);
        int code = stepped->prepare ? stepped->prepare(stepped->argument) : 0;
        raise(SIGSTOP);
        _exit(code ? code : stepped->work(stepped->argument));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 77);
        return 0;
    }
    assert_true(WIFSTOPPED(status));
    return child;
}

/* Executes at most `most` instructions; how many there were. *alive: it has not come to its end. */
static inline uint64_t step_run(pid_t child, uint64_t most, bool *alive) {
    uint64_t steps = 0;
    int status = 0;
    for (*alive = true; *alive && steps < most; steps++) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) {
            fail_msg("ptrace: %d", errno);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        *alive = WIFSTOPPED(status);
    }
    if (!*alive) {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    return steps;
}

/* Instructions that the whole work takes; 0: this system traces nobody, or has processors whose
   atomic operations are loops that no step gets out of (aarch64 before version 8.1). */
static inline uint64_t step_count(const struct stepped *stepped) {
    enum { MOST = 400000 };
    bool alive = false;
    pid_t child = step_begin(stepped);
    uint64_t steps = child ? step_run(child, MOST, &alive) : 0;
    if (alive) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(child_end(child), 1000 + SIGKILL);
        return 0;
    }
    return steps;
}

/* Kills a child after that many instructions. */
static inline void step_kill(const struct stepped *stepped, uint64_t steps) {
    bool alive;
    pid_t child = step_begin(stepped);
    assert_true(child > 0);
    step_run(child, steps, &alive);
    if (alive) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(child_end(child), 1000 + SIGKILL);
    }
}

/* Every instruction, or about `most` of them at equal distances from each other. */
#define STEP_EVERY(total, most) ((total) / (most) ? (total) / (most) : 1)

#endif
