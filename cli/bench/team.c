/* SPDX-License-Identifier: Apache-2.0 */
/*
 * team.c: see team.h.
 *
 * Members sleep between tasks, since they may be more than the processors. Before a task they wait
 * at a gate until all have come, spinning, so that they start within a fraction of a microsecond of
 * each other; the clock of each is read behind the gate.
 */
#include "bench/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct member {
    struct team *team;
    pthread_t thread;
    uint32_t index;
    bool good;                 /* its last task */
    uint64_t start_ns, end_ns; /* of it */
};

struct team {
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    uint64_t round; /* raised for each task; what follows belongs to it */
    uint32_t count; /* members that take part */
    uint32_t ready; /* members that have finished */
    team_task_fn *before, *task;
    void *user;
    bool ending;
    _Atomic uint32_t at_gate; /* members that have come to the gate */
    uint32_t size;
    struct member members[];
};

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Member i goes to the i-th processor that the process may use. Failing to is no failure. */
static void settle(uint32_t index) {
#if defined(__linux__)
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return;
    }
    uint32_t wanted = index % (uint32_t)CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one); /* 0: this thread */
            return;
        }
    }
#else
    (void)index;
#endif
}

static void pass_gate(struct team *team, uint32_t count) {
    atomic_fetch_add(&team->at_gate, 1);
    for (uint32_t spins = 1; atomic_load(&team->at_gate) < count; spins++) {
        if (spins % 1024 == 0) {
            sched_yield();
        }
    }
}

static void take_part(struct member *member, uint32_t count) {
    struct team *team = member->team;
    bool good = team->before == NULL || team->before(team->user, member->index);
    pass_gate(team, count);
    member->start_ns = now_ns();
    good = team->task(team->user, member->index) && good;
    member->end_ns = now_ns();
    member->good = good;
}

static void *live(void *argument) {
    struct member *member = argument;
    struct team *team = member->team;
    uint64_t seen = 0;
    settle(member->index);
    pthread_mutex_lock(&team->mutex);
    while (true) {
        while (team->round == seen && !team->ending) {
            pthread_cond_wait(&team->wake, &team->mutex);
        }
        if (team->ending) {
            break;
        }
        seen = team->round;
        uint32_t count = team->count;
        if (member->index >= count) {
            continue;
        }
        pthread_mutex_unlock(&team->mutex);
        take_part(member, count);
        pthread_mutex_lock(&team->mutex);
        if (++team->ready == count) {
            pthread_cond_signal(&team->done);
        }
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

struct team *team_create(uint32_t size) {
    struct team *team = calloc(1, sizeof *team + size * sizeof team->members[0]);
    if (team == NULL) {
        return NULL;
    }
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->done, NULL);
    for (; team->size < size; team->size++) {
        struct member *member = &team->members[team->size];
        member->team = team;
        member->index = team->size;
        if (pthread_create(&member->thread, NULL, live, member) != 0) {
            team_destroy(team);
            return NULL;
        }
    }
    return team;
}

void team_destroy(struct team *team) {
    if (team == NULL) {
        return;
    }
    pthread_mutex_lock(&team->mutex);
    team->ending = true;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->mutex);
    for (uint32_t i = 0; i < team->size; i++) {
        pthread_join(team->members[i].thread, NULL);
    }
    pthread_cond_destroy(&team->done);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->mutex);
    free(team);
}

bool team_run(struct team *team, uint32_t count, team_task_fn *before, team_task_fn *task,
              void *user, uint64_t *ns) {
    pthread_mutex_lock(&team->mutex);
    team->count = count;
    team->ready = 0;
    team->before = before;
    team->task = task;
    team->user = user;
    atomic_store(&team->at_gate, 0);
    team->round++;
    pthread_cond_broadcast(&team->wake);
    while (team->ready < count) {
        pthread_cond_wait(&team->done, &team->mutex);
    }
    pthread_mutex_unlock(&team->mutex);
    uint64_t start = UINT64_MAX, end = 0;
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct member *member = &team->members[i];
        start = member->start_ns < start ? member->start_ns : start;
        end = member->end_ns > end ? member->end_ns : end;
        good = good && member->good;
    }
    *ns = end - start;
    return good;
}
