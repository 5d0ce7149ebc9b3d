/* SPDX-License-Identifier: Apache-2.0 */
/* crew.c: threads that do something at the same time, and the clock they are held against. */
#include "case.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { CREW_MAX = 16 };

struct member {
    struct check *check;
    check_thread_fn *body;
    void *argument;
    atomic_uint *ready; /* how many have started; all begin together */
    uint32_t count;
    pthread_t thread;
    bool result;
};

/* All begin together: the first would be done before the last had started. */
static void *begin(void *argument) {
    struct member *member = argument;

    atomic_fetch_add(member->ready, 1);
    while (atomic_load(member->ready) < member->count) {
        sched_yield();
    }
    member->result = member->body(member->check, member->argument);
    return NULL;
}

bool check_threads(struct check *check, uint32_t count, check_thread_fn *body, void *arguments,
                   size_t argument_bytes) {
    struct member crew[CREW_MAX];
    atomic_uint ready = 0;
    uint32_t started = 0;
    bool all = true;

    CHECK_THAT(check, count <= CREW_MAX);
    for (; started < count; started++) {
        struct member *member = &crew[started];
        *member = (struct member){check, body, NULL, &ready, count, 0, false};
        member->argument = (char *)arguments + started * argument_bytes;
        if (pthread_create(&member->thread, NULL, begin, member) != 0) {
            /* Those that run must not wait for one that never will. */
            atomic_fetch_add(&ready, count - started);
            all = check_fail(check, CHECK_AT("pthread_create"), "no thread to be had");
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(crew[i].thread, NULL);
        all = crew[i].result && all;
    }
    return all;
}

/* Time that no one sets back while a wait is measured. */
uint64_t check_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void check_sleep(uint64_t ns) {
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}
