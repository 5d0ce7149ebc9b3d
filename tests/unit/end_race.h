/* SPDX-License-Identifier: Apache-2.0 */
/*
 * end_race.h: a second thread repeats one call on an object while this thread ends the object or
 * one of its parents. Each round starts at a barrier and ends something after a different delay, so
 * that the end happens at each step of the call. A call must return one of the allowed statuses,
 * and in time: it may neither wait as long as the option wait_timeout (a minute) nor spin. The
 * limits allow for a machine on which each thread gets a twentieth of a processor.
 */
#ifndef TEST_END_RACE_H
#define TEST_END_RACE_H

#include "unit/device_world.h"
#include "vram/pool.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

/* A call of the object under test, made by the second thread; `world` is the test's. */
typedef vram_status race_call(void *world);
/* Ends something. */
typedef void race_end(void *world);

/* What every world of a race has. A test's own world begins with it. */
struct race_world {
    struct rig rig;
    vram_pool *pool;
};

static inline void race_end_queue(void *world) {
    vram_queue_destroy(((struct race_world *)world)->rig.queue);
}

static inline void race_end_pool(void *world) {
    assert_ok(vram_pool_destroy(((struct race_world *)world)->pool));
}

static inline void race_end_device(void *world) {
    vram_device_close(((struct race_world *)world)->rig.device);
}

static inline void race_end_context(void *world) {
    vram_context_destroy(((struct race_world *)world)->rig.context);
}

static inline struct race_world race_world_make(const char *backend, const char *sim) {
    struct race_world world = {.rig = rig_make(backend, sim)};
    assert_ok(vram_pool_create(world.rig.device, NULL, &world.pool));
    return world;
}

enum {
    RACE_LONGEST_MS = 30000, /* of one call */
    RACE_CPU_MS = 5000,      /* of one call's own processor time */
    RACE_CALLS =
        1000 /* before the end: more would queue work faster than a busy machine completes it */
};

struct end_race {
    const char *name;
    race_call *call;
    void *world;
    pthread_barrier_t begin;
    atomic_bool ended;
    uint64_t calls, worst_ns, worst_cpu_ns;
    vram_status unexpected; /* the first answer that race_allows does not allow; VRAM_OK: none */
};

static inline uint64_t race_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* What a call may return while its object ends: success, nothing to do, or that the object, its
   queue or a parent is ending or gone. */
static inline bool race_allows(vram_status status) {
    return status == VRAM_OK || status == VRAM_ERR_NOT_READY || status == VRAM_ERR_STALE ||
           status == VRAM_ERR_SHUTDOWN;
}

static inline void *race_thread(void *argument) {
    struct end_race *race = argument;
    pthread_barrier_wait(&race->begin);
    for (bool last = false; !last; race->calls++) {
        while (race->calls >= RACE_CALLS && !atomic_load(&race->ended)) {
            sched_yield();
        }
        last = atomic_load(&race->ended); /* then one more call, on the ended object */
        uint64_t begun = race_clock(CLOCK_MONOTONIC);
        uint64_t cpu = race_clock(CLOCK_THREAD_CPUTIME_ID);
        vram_status status = race->call(race->world);
        begun = race_clock(CLOCK_MONOTONIC) - begun;
        cpu = race_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
        race->worst_ns = begun > race->worst_ns ? begun : race->worst_ns;
        race->worst_cpu_ns = cpu > race->worst_cpu_ns ? cpu : race->worst_cpu_ns;
        if (!race_allows(status) && race->unexpected == VRAM_OK) {
            race->unexpected = status;
            print_error("%s answered %s: %s\n", race->name, vram_status_name(status),
                        vram_error_get()->text);
        }
    }
    return NULL;
}

/* One round. True: no finding. */
static inline bool race_run(const char *name, void *world, race_call *call, race_end *end,
                            uint64_t delay_ns) {
    struct end_race race = {.name = name, .call = call, .world = world};
    pthread_t thread;
    assert_int_equal(pthread_barrier_init(&race.begin, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, race_thread, &race), 0);
    pthread_barrier_wait(&race.begin);
    for (uint64_t until = race_clock(CLOCK_MONOTONIC) + delay_ns;
         race_clock(CLOCK_MONOTONIC) < until;) {
        sched_yield();
    }
    end(world);
    atomic_store(&race.ended, true);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&race.begin);
    if (race.worst_ns > RACE_LONGEST_MS * UINT64_C(1000000) ||
        race.worst_cpu_ns > RACE_CPU_MS * UINT64_C(1000000)) {
        print_error("%s took %.3f s, %.3f s of its own\n", name, (double)race.worst_ns / 1e9,
                    (double)race.worst_cpu_ns / 1e9);
        return false;
    }
    return race.unexpected == VRAM_OK;
}

/* Destroys the context with all that is left, unless the race has ended it. */
static inline void race_world_end(struct race_world *world, race_end *end) {
    if (end != race_end_context) {
        vram_context_destroy(world->rig.context);
    }
}

/* The delay of round i of n, of up to `most` nanoseconds; short ones are more frequent. */
static inline uint64_t race_delay(unsigned i, unsigned n, uint64_t most) {
    return most * i * i / ((uint64_t)n * n);
}

#endif
