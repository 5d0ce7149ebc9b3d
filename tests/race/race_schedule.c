/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_schedule.c: two threads that make their calls by a schedule, and a look at the clock.
 *
 * While a run goes on the two tell each other where they are by relaxed atomics alone: anything
 * stronger would order their accesses, and ThreadSanitizer would not see a race any more.
 */
#include "race/race_table.h"

#include "base/delay.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOLD_NS = 600000 }; /* longest that a thread is held up at a point */

struct actor {
    pthread_t thread;
    struct world *world;
    race_fn *fn; /* NULL: nothing to do in this run */
    uint32_t flags;
    bool second;                    /* starts when the other is held up, or has ended */
    uint32_t stop_at;               /* the point at which it is held up; 0: none */
    uint32_t wait_ns;               /* before the call, where there are no points */
    unsigned points;                /* passed so far */
    const char *place;              /* where it was held up */
    vram_status status;             /* what the call answered */
    char text[VRAM_ERROR_TEXT_MAX]; /* why it failed */
    uint64_t ns;                    /* how long that took */
    atomic_bool held; /* it has come to that point, perhaps long ago; relaxed, see above */
    atomic_bool done; /* relaxed, too */
    struct actor *other;
};

static struct actor actors[2]; /* the row's call, the ender's */
static _Thread_local struct actor *self;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t start = PTHREAD_COND_INITIALIZER, end = PTHREAD_COND_INITIALIZER;
static uint64_t run_number; /* counts runs; under the lock, as the next two */
static unsigned working;
static bool over;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is(atomic_bool *flag) {
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void set(atomic_bool *flag, bool value) {
    atomic_store_explicit(flag, value, memory_order_relaxed);
}

static void nap(unsigned turn) {
    if (turn < 32) {
        sched_yield();
    } else {
        usleep(10);
    }
}

/* ------------------------------------------------------------------ delay points */

static void hold_up(struct actor *actor, const char *place) {
    uint64_t until = now_ns() + HOLD_NS;
    actor->place = place;
    set(&actor->held, true);
    for (unsigned i = 0; !is(&actor->other->done); i++) {
        /* The first one goes on where the second is held up in its turn. */
        if ((!actor->second && is(&actor->other->held)) || now_ns() > until) {
            break;
        }
        nap(i);
    }
}

static void on_point(const char *place) {
    struct actor *actor = self;
    if (actor && ++actor->points == actor->stop_at) {
        hold_up(actor, place);
    }
}

static void count_point(const char *place) {
    (void)place;
    if (self) {
        self->points++;
    }
}

bool schedule_has_points(void) {
#ifdef VR_DEBUG
    return true;
#else
    return false;
#endif
}

/* ------------------------------------------------------------------------ actors */

static void wait_for_turn(struct actor *actor) {
    if (!schedule_has_points()) {
        uint64_t until = now_ns() + actor->wait_ns;
        while (now_ns() < until) {
        }
        return;
    }
    for (unsigned i = 0; actor->second && !is(&actor->other->held) && !is(&actor->other->done);
         i++) {
        nap(i);
    }
}

static void act(struct actor *actor) {
    wait_for_turn(actor);
    uint64_t began = now_ns();
    self = actor;
    actor->status = actor->fn(actor->world);
    self = NULL;
    actor->ns = now_ns() - began;
    if (actor->status != VRAM_OK) {
        memcpy(actor->text, vram_error_get()->text, sizeof actor->text);
    }
    /* What a failed call was given is the program's again. */
    if (actor->status != VRAM_OK && (actor->flags & (ROW_DOWNLOAD | ROW_UPLOAD))) {
        memset(actor->world->host, FAILED_BYTE, COPY_BYTES);
    }
    set(&actor->done, true);
}

static void *actor_main(void *argument) {
    struct actor *actor = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (run_number == seen && !over) {
            pthread_cond_wait(&start, &lock);
        }
        if (over) {
            break;
        }
        seen = run_number;
        if (actor->fn) {
            pthread_mutex_unlock(&lock);
            act(actor);
            pthread_mutex_lock(&lock);
            working--;
            pthread_cond_signal(&end);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void schedule_start(void) {
    over = false;
    run_number = 0;
    for (int i = 0; i < 2; i++) {
        actors[i].other = &actors[1 - i];
        pthread_create(&actors[i].thread, NULL, actor_main, &actors[i]);
    }
}

void schedule_stop(void) {
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_broadcast(&start);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++) {
        pthread_join(actors[i].thread, NULL);
    }
}

static void show_stack(int number) {
    void *frames[40];
    (void)number;
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDOUT_FILENO);
}

void schedule_show_stacks(void) {
    signal(SIGUSR1, show_stack);
    for (int i = 0; i < 2; i++) {
        if (actors[i].fn && !is(&actors[i].done)) {
            pthread_kill(actors[i].thread, SIGUSR1);
            usleep(200000);
        }
    }
}

/* --------------------------------------------------------------------------- runs */

static void prepare(struct actor *actor, struct world *world, race_fn *fn, bool second,
                    uint32_t at) {
    actor->world = world;
    actor->fn = fn;
    actor->flags = 0;
    actor->second = second;
    actor->stop_at = actor->wait_ns = at;
    actor->points = 0;
    actor->place = NULL;
    actor->status = VRAM_OK;
    actor->text[0] = 0;
    actor->ns = 0;
    set(&actor->held, false);
    set(&actor->done, fn == NULL);
}

void schedule_run(struct world *world, const struct row *row, const struct ender *ender,
                  struct schedule schedule, struct outcome *outcome) {
    struct timespec until;
    struct actor *call = &actors[0], *end_call = &actors[1];
    bool alone = !ender;
    pthread_mutex_lock(&lock);
    prepare(call, world, row->fn, schedule.ender_first && !alone,
            schedule.ender_first ? schedule.m : schedule.n);
    call->flags = row->flags;
    prepare(end_call, world, alone ? NULL : ender->fn, !schedule.ender_first,
            schedule.ender_first ? schedule.n : schedule.m);
    working = alone ? 1 : 2;
    vr_delay_hook_set(alone ? count_point : on_point);
    run_number++;
    pthread_cond_broadcast(&start);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RACE_SECONDS;
    int error = 0;
    while (working && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&end, &lock, &until);
    }
    bool late = working != 0;
    pthread_mutex_unlock(&lock);
    vr_delay_hook_set(NULL);
    const struct actor *first = schedule.ender_first ? end_call : call;
    *outcome = (struct outcome){.call = call->status,
                                .ender = end_call->status,
                                .late = late,
                                .late_call = late && !is(&call->done) ? row->call
                                             : late                   ? ender->call
                                                                      : NULL,
                                .call_points = call->points,
                                .ender_points = end_call->points,
                                .call_ns = call->ns,
                                .ender_ns = end_call->ns,
                                .first_place = first->place,
                                .second_place = first->other->place};
    memcpy(outcome->call_text, call->text, sizeof call->text);
    memcpy(outcome->ender_text, end_call->text, sizeof end_call->text);
}
