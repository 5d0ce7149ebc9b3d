/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h: tests that need a process of their own. The child answers by its exit code and never
 * returns into the test; an alarm ends one that hangs, which is how a lock left locked shows.
 */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include "rig/rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SECONDS 60

/* Only a coverage build has this function. */
void __gcov_init(void *information) __attribute__((weak));

/* A child leaves at once, so that nothing of its parent's is done twice; but a coverage build
   writes its counts at a regular exit alone. */
static inline void child_leave(int code) {
    if (__gcov_init) {
        exit(code);
    }
    _exit(code);
}

/* How a child ended: its exit code, or 1000 + the signal that killed it. */
static inline int child_end(pid_t child) {
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Runs `work` in a forked child. */
static inline int in_child(int (*work)(void *argument), void *argument) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(work(argument));
    }
    return child_end(child);
}

/* How many descriptors this process has open. */
static inline uint32_t descriptors_open(void) {
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;
    assert_non_null(folder);
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

#endif
