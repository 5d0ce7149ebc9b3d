/* SPDX-License-Identifier: Apache-2.0 */
/* live_watch.c: see live_watch.h. */
#include "serve/live_watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)
#define READER_NS (3 * SECOND_NS) /* a page asks once a second */
#define RETRY_NS  (5 * SECOND_NS) /* before a process that did not answer is asked again */
#define IDLE_MS   50

struct live_watch {
    struct attach_place place;
    uint64_t begun_ns;
    atomic_bool stop;
    atomic_uint_least64_t read_ns; /* when a page asked last; 0: never */
    pthread_t asker;
    pthread_mutex_t lock;
    struct live_document now; /* guarded by `lock` */
};

static uint64_t now_ns(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

bool live_watch_is_read(struct live_watch *watch) {
    uint64_t read = atomic_load(&watch->read_ns);
    return read != 0 && now_ns() - read < READER_NS;
}

/* ----------------------------------------------------------------------- blocks */

/* Why the process has no blocks to show; NULL: it may be asked. */
static const char *blocks_refusal(const struct page_view *view) {
    return view->head.origin == VRAM_LIVE_PAGE_RUN
               ? "The program runs under vram run, which knows its blocks only at the end."
           : view->head.tracked_pools == 0
               ? "No pool is tracked: run the program with VRAM_TRACKING=on to see its blocks, and "
                 "with VRAM_TRACK_STACKS=1 to see who allocated them."
               : NULL;
}

/* Asks once. False: it did not answer. */
static bool blocks_ask(struct live_watch *watch) {
    struct attach_answer answer = {0};
    struct page_view view;
    char problem[ATTACH_PROBLEM_MAX] = "";
    const char *why;
    if (attach_read(&watch->place, &view, &why) != PAGE_READ) {
        return false;
    }
    const char *refusal = blocks_refusal(&view);
    bool asked = refusal == NULL;
    bool good = asked && attach_blocks(&watch->place, &view, &answer, &watch->stop, problem);
    page_view_free(&view);
    pthread_mutex_lock(&watch->lock);
    snprintf(watch->now.blocks_problem, sizeof watch->now.blocks_problem, "%s",
             refusal != NULL ? refusal : problem);
    if (good) {
        struct attach_answer old = watch->now.blocks;
        watch->now.blocks = answer;
        watch->now.blocks_known = true;
        watch->now.blocks_ns = now_ns() - watch->begun_ns;
        answer = old;
    }
    pthread_mutex_unlock(&watch->lock);
    attach_free(&answer);
    return good || !asked;
}

static void *blocks_run(void *user) {
    struct live_watch *watch = user;
    uint64_t next = 0;
    while (!atomic_load(&watch->stop)) {
        if (now_ns() < next || !live_watch_is_read(watch)) {
            (void)poll(NULL, 0, IDLE_MS);
        } else {
            uint64_t began = now_ns();
            next = began + (blocks_ask(watch) ? SECOND_NS : RETRY_NS);
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------------- samples */

static void sample_take(struct live_watch *watch, struct page_view *view) {
    struct page_view old = watch->now.view;
    watch->now.view = *view;
    *view = (struct page_view){0};
    live_past_add(&watch->now.past, now_ns() - watch->begun_ns, &watch->now.view);
    live_refusals_add(&watch->now, old.head.begun_ns != watch->now.view.head.begun_ns);
    page_view_free(&old);
}

static void words_set(struct live_watch *watch, const char *words, const char *more) {
    snprintf(watch->now.words, sizeof watch->now.words, "%s%s%s", words, more != NULL ? ": " : "",
             more != NULL ? more : "");
}

static enum live_state state_of(struct live_watch *watch, enum page_state page,
                                const char *problem) {
    struct live_document *now = &watch->now;
    if (page_owner_ended(&watch->place.name)) {
        words_set(watch, "The process has ended. What is shown is the last that it said.", NULL);
        return LIVE_ENDED;
    }
    if (page == PAGE_READ && !now->view.silent) {
        words_set(watch, "", NULL);
        return LIVE_RUNS;
    }
    if (page == PAGE_READ || page == PAGE_BUSY) {
        words_set(watch, "The process says nothing: it is stopped, or gets no processor time.",
                  NULL);
    } else if (page == PAGE_GONE) {
        words_set(watch, "The process has no live page any more: it has closed its pools.", NULL);
    } else {
        words_set(watch, "The live page of the process cannot be read", problem);
    }
    return LIVE_SILENT;
}

enum live_state live_watch_sample(struct live_watch *watch) {
    struct page_view view;
    const char *problem;
    enum page_state page = attach_read(&watch->place, &view, &problem);
    pthread_mutex_lock(&watch->lock);
    if (page == PAGE_READ) {
        sample_take(watch, &view);
    }
    enum live_state state = watch->now.state = state_of(watch, page, problem);
    pthread_mutex_unlock(&watch->lock);
    return state;
}

uint64_t live_watch_peak(struct live_watch *watch, uint64_t *since_ns) {
    pthread_mutex_lock(&watch->lock);
    uint64_t peak = watch->now.view.head.sum.peak_held_bytes;
    pthread_mutex_unlock(&watch->lock);
    *since_ns = now_ns() - watch->begun_ns;
    return peak;
}

bool live_watch_write(void *user, uint64_t generation, uint64_t from, FILE *to) {
    struct live_watch *watch = user;
    uint64_t now = now_ns();
    atomic_store(&watch->read_ns, now);
    pthread_mutex_lock(&watch->lock);
    bool whole = live_document_write(&watch->now, now - watch->begun_ns, generation, from, to);
    pthread_mutex_unlock(&watch->lock);
    return whole;
}

/* ------------------------------------------------------------------------- life */

struct live_watch *live_watch_begin(const struct attach_place *place, struct page_view *view,
                                    char problem[ATTACH_PROBLEM_MAX]) {
    struct live_watch *watch = calloc(1, sizeof *watch);
    snprintf(problem, ATTACH_PROBLEM_MAX, "out of host memory");
    if (watch == NULL || !live_past_begin(&watch->now.past)) {
        page_view_free(view);
        free(watch);
        return NULL;
    }
    watch->place = *place;
    watch->begun_ns = now_ns();
    pthread_mutex_init(&watch->lock, NULL);
    sample_take(watch, view);
    if (pthread_create(&watch->asker, NULL, blocks_run, watch) != 0) {
        snprintf(problem, ATTACH_PROBLEM_MAX, "no thread can be started");
        live_document_free(&watch->now);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return NULL;
    }
    return watch;
}

void live_watch_end(struct live_watch *watch) {
    if (watch != NULL) {
        atomic_store(&watch->stop, true);
        pthread_join(watch->asker, NULL);
        live_document_free(&watch->now);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
    }
}
