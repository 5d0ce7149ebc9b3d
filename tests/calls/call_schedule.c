/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_schedule.c: two threads that make their calls by a schedule, and a deadline for both.
 *
 * During a run the two threads use only relaxed atomics to tell each other where they are: anything
 * stronger would order their accesses, and ThreadSanitizer would no longer see a race.
 */
#include "calls/call_table.h"

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

enum { HOLD_NS = 600000 }; /* longest delay of a thread at a point */

struct actor {
    pthread_t thread;
    struct world *world;
    call_fn *fn; /* NULL: nothing to do in this run */
    uint32_t flags;
    bool second;                    /* starts when the other is delayed, or has returned */
    uint32_t stop_at;               /* the point at which it is delayed; 0: none */
    uint32_t wait_ns;               /* before the call, where there are no points */
    unsigned points;                /* passed so far */
    const char *place;              /* where it was delayed */
    vram_status status;             /* what the call returned */
    char text[VRAM_ERROR_TEXT_MAX]; /* why it failed */
    uint64_t ns;                    /* how long that took */
    atomic_bool held;               /* it has reached that point at some time; relaxed, see above */
    atomic_bool done;               /* relaxed, too */
    struct actor *other;
};

unsigned schedule_seconds = RUN_SECONDS;

static struct actor actors[2]; /* the row's call, the ender's */
static _Thread_local struct actor *self;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t start = PTHREAD_COND_INITIALIZER, end = PTHREAD_COND_INITIALIZER;
static uint64_t run_number; /* counts runs; under the lock, as the next two */
static unsigned working;
static bool over;

uint64_t calls_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool flag_is_set(atomic_bool *flag) {
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void flag_set(atomic_bool *flag, bool value) {
    atomic_store_explicit(flag, value, memory_order_relaxed);
}

static void back_off(unsigned turn) {
    if (turn < 32) {
        sched_yield();
    } else {
        usleep(10);
    }
}

/* ------------------------------------------------------------------ delay points */

static void actor_delay(struct actor *actor, const char *place) {
    uint64_t until = calls_now_ns() + HOLD_NS;
    actor->place = place;
    flag_set(&actor->held, true);
    for (unsigned i = 0; !flag_is_set(&actor->other->done); i++) {
        /* The first one continues when the second is delayed in turn. */
        if ((!actor->second && flag_is_set(&actor->other->held)) || calls_now_ns() > until) {
            break;
        }
        back_off(i);
    }
}

static void on_point(const char *place) {
    struct actor *actor = self;
    if (actor && ++actor->points == actor->stop_at) {
        actor_delay(actor, place);
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
        uint64_t until = calls_now_ns() + actor->wait_ns;
        while (calls_now_ns() < until) {
        }
        return;
    }
    for (unsigned i = 0;
         actor->second && !flag_is_set(&actor->other->held) && !flag_is_set(&actor->other->done);
         i++) {
        back_off(i);
    }
}

static void actor_run(struct actor *actor) {
    wait_for_turn(actor);
    uint64_t began = calls_now_ns();
    self = actor;
    actor->status = actor->fn(actor->world);
    self = NULL;
    actor->ns = calls_now_ns() - began;
    if (actor->status != VRAM_OK) {
        memcpy(actor->text, vram_error_get()->text, sizeof actor->text);
    }
    /* Memory that was passed to a failed call belongs to the program again. */
    if (actor->status != VRAM_OK && (actor->flags & (ROW_DOWNLOAD | ROW_UPLOAD))) {
        memset(actor->world->host, FAILED_BYTE, COPY_BYTES);
    }
    flag_set(&actor->done, true);
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
            actor_run(actor);
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
        if (actors[i].fn && !flag_is_set(&actors[i].done)) {
            pthread_kill(actors[i].thread, SIGUSR1);
            usleep(200000);
        }
    }
}

/* --------------------------------------------------------------------------- runs */

static void prepare(struct actor *actor, struct world *world, call_fn *fn, bool second,
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
    flag_set(&actor->held, false);
    flag_set(&actor->done, fn == NULL);
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
    until.tv_sec += schedule_seconds;
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
                                .late_call = late && !flag_is_set(&call->done) ? row->call
                                             : late                            ? ender->call
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
