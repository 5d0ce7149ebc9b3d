/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_search.c: takes every choice, depth first.
 *
 *  (1) A thread runs until its next step: a load, a read-modify-write, a sequentially consistent
 *      store, a lock. Other stores are made at once: they may take any place in the modification
 *      order, and loads may return older ones. So when they are made makes no difference.
 *  (2) A choice is a thread and the store that it reads. Two choices of different threads are
 *      independent unless is_dependent says otherwise: one may be taken after the other with the
 *      same result.
 *  (3) Sleep sets: a choice that was tried, and whose executions are all known, is not tried again
 *      after choices that are independent of it. So each execution is seen once, up to the order of
 *      independent steps. Executions in which all that could go on is asleep are cut.
 */
#include "explore_checker.h"

#include "explore_scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHOICES_MAX = 96, SLEEPING_MAX = 192, NOTES_MAX = 400 };

struct choice {
    uint8_t thread, kind;
    bool writes, sequential;
    uint16_t location;
    uint16_t store;
};

/* A place where the search chose. */
struct node {
    bool is_pick;   /* a place for a store: see search_pick */
    uint32_t count; /* of choices */
    uint32_t taken; /* the one that is being explored */
    uint32_t asleep_count;
    struct choice choices[CHOICES_MAX];
    struct choice asleep[SLEEPING_MAX];
};

struct sleepers {
    uint32_t count;
    struct choice choices[SLEEPING_MAX];
};

struct note {
    const struct explore_site *site;
    const char *what;
    uint64_t value;
    unsigned thread;
};

enum outcome { ENDED, CUT, VIOLATED };

static CHECKER_STATE struct {
    const struct scenario *scenario;
    unsigned threads;
    bool running, setting_up;
    bool over[THREADS_MAX]; /* the thread has ended */
    struct step step[THREADS_MAX];
    unsigned answer[THREADS_MAX];
    struct node *nodes;
    unsigned depth, length; /* in this execution, and of the path that is replayed */
    struct sleepers asleep;
    enum outcome outcome;
    jmp_buf finish; /* where a violation in finish goes */
    char text[256];
    struct note notes[NOTES_MAX];
    unsigned note_count;
} search;

bool search_is_running(void) {
    return search.running && fiber_self() < THREADS_MAX;
}

void search_note(const struct explore_site *site, const char *what, uint64_t value) {
    if (search.note_count < NOTES_MAX) {
        search.notes[search.note_count++] = (struct note){site, what, value, fiber_self()};
    }
}

/* Gives this execution up; in a thread, or outside. */
static _Noreturn void execution_leave(enum outcome outcome) {
    search.outcome = outcome;
    if (search.setting_up) {
        checker_fail(search.text);
    }
    if (fiber_self() == THREADS_MAX) {
        longjmp(search.finish, 1);
    }
    fiber_leave();
    checker_fail("a thread went on that was given up");
}

_Noreturn void search_violation(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(search.text, sizeof search.text, format, list);
    va_end(list);
    execution_leave(VIOLATED);
}

_Noreturn void search_cut(void) {
    execution_leave(CUT);
}

void scenario_check(bool holds, const char *text) {
    if (!holds) {
        search_violation("does not hold: %s", text);
    }
}

/* ------------------------------------------------------------------ choices */

static bool is_dependent(const struct choice *a, const struct choice *b) {
    if (a->thread == b->thread || a->kind == STEP_BARRIER || b->kind == STEP_BARRIER) {
        return true;
    }
    if (a->kind == STEP_FENCE || b->kind == STEP_FENCE) {
        return (a->kind == STEP_FENCE || a->sequential) && (b->kind == STEP_FENCE || b->sequential);
    }
    bool locks = a->kind == STEP_LOCK || a->kind == STEP_TRY;
    if (locks != (b->kind == STEP_LOCK || b->kind == STEP_TRY) || a->location != b->location ||
        a->kind == STEP_START || b->kind == STEP_START || a->kind == STEP_YIELD ||
        b->kind == STEP_YIELD) {
        return false;
    }
    if (locks) {
        return true;
    }
    if (a->sequential && b->sequential && (a->writes || b->writes)) {
        return true;
    }
    return a->writes && b->writes && a->store == b->store;
}

static void choice_add(struct node *node, struct choice choice) {
    if (node->count == CHOICES_MAX) {
        checker_fail("more choices than there is room for");
    }
    node->choices[node->count++] = choice;
}

static void choices_of_memory(struct node *node, unsigned thread, const struct step *step) {
    uint16_t stores[CHOICES_MAX];
    bool stores_only = step->kind == STEP_STORE || step->kind == STEP_CHANGE;
    unsigned count = model_readable(thread, step->location, step->sequential, stores_only, stores);
    for (unsigned i = count; i-- > 0;) { /* the newest first: that is how it mostly goes */
        const struct store *store = model_store(stores[i]);
        bool succeeds = step->kind == STEP_CAS && store->value == step->expected;
        if (succeeds && store->is_followed) {
            continue; /* another one had this value first: it is gone */
        }
        choice_add(node, (struct choice){.thread = (uint8_t)thread,
                                         .kind = (uint8_t)step->kind,
                                         .writes = stores_only || succeeds,
                                         .sequential = step->sequential,
                                         .location = (uint16_t)step->location,
                                         .store = stores[i]});
    }
}

static void choices_of(struct node *node, unsigned thread) {
    const struct step *step = &search.step[thread];
    struct choice choice = {.thread = (uint8_t)thread,
                            .kind = (uint8_t)step->kind,
                            .location = (uint16_t)step->location,
                            .writes = true};
    switch (step->kind) {
    case STEP_LOAD:
    case STEP_CHANGE:
    case STEP_CAS:
    case STEP_STORE:
        choices_of_memory(node, thread, step);
        return;
    case STEP_TRY: /* it may fail for no other reason than time */
        choice_add(node, choice);
        choice.store = 1;
        if (mutex_is_free(step->location)) {
            choice_add(node, choice);
        }
        return;
    case STEP_LOCK:
        if (mutex_is_free(step->location)) {
            choice_add(node, choice);
        }
        return;
    case STEP_YIELD:
        if (spin_may_go_on(thread)) {
            choice_add(node, choice);
        }
        return;
    default:
        choice_add(node, choice);
    }
}

static bool is_asleep(const struct node *node, const struct choice *choice) {
    for (uint32_t i = 0; i < node->asleep_count; i++) {
        const struct choice *other = &node->asleep[i];
        if (other->thread == choice->thread && other->store == choice->store) {
            return true;
        }
    }
    return false;
}

static void asleep_add(struct node *node, const struct choice *choice) {
    if (node->asleep_count == SLEEPING_MAX) {
        checker_fail("more choices are asleep than there is room for");
    }
    node->asleep[node->asleep_count++] = *choice;
}

/* Advances to the next choice that is not asleep; false: none is left. */
static bool node_advance(struct node *node) {
    while (node->taken < node->count && !node->is_pick &&
           is_asleep(node, &node->choices[node->taken])) {
        node->taken++;
    }
    return node->taken < node->count;
}

static struct node *node_next(void) {
    if (search.depth == STEPS_MAX) {
        search_violation("a thread does not come to an end");
    }
    return &search.nodes[search.depth++];
}

static bool node_is_new(void) {
    return search.depth > search.length;
}

unsigned search_pick(unsigned count) {
    if (count == 1) {
        return 0;
    }
    struct node *node = node_next();
    if (node_is_new()) {
        search.length = search.depth;
        node->is_pick = true;
        node->count = count;
        node->taken = node->asleep_count = 0;
    } else if (!node->is_pick || node->count != count) {
        checker_fail("an execution is not repeatable");
    }
    return node->taken;
}

/* What sleeps after a choice: keeps (3). */
static void asleep_pass_on(const struct node *node, const struct choice *taken) {
    search.asleep.count = 0;
    for (uint32_t i = 0; i < node->asleep_count; i++) {
        if (!is_dependent(&node->asleep[i], taken)) {
            search.asleep.choices[search.asleep.count++] = node->asleep[i];
        }
    }
}

static void node_fill(struct node *node) {
    node->is_pick = false;
    node->count = node->taken = 0;
    for (unsigned i = 0; i < search.threads; i++) {
        if (!search.over[i]) {
            choices_of(node, i);
        }
    }
    node->asleep_count = search.asleep.count;
    memcpy(node->asleep, search.asleep.choices, search.asleep.count * sizeof node->asleep[0]);
}

/* ---------------------------------------------------------------- executions */

unsigned search_step(const struct step *step) {
    unsigned self = fiber_self();
    search.step[self] = *step;
    fiber_leave();
    return search.answer[self];
}

static void thread_main(unsigned thread) {
    const struct step start = {.kind = STEP_START};
    (void)search_step(&start);
    search.scenario->threads[thread]();
    search.over[thread] = true;
}

static bool all_are_over(void) {
    bool over = true;
    for (unsigned i = 0; i < search.threads; i++) {
        over = over && search.over[i];
    }
    return over;
}

/* Lets one thread take its step, and run to the next one. */
static void execution_step(void) {
    struct node *node = node_next();
    if (node_is_new()) {
        node_fill(node);
        if (node->count == 0) {
            search_violation("threads wait for ever");
        }
        if (!node_advance(node)) {
            execution_leave(CUT);
        }
        search.length = search.depth;
    }
    const struct choice *taken = &node->choices[node->taken];
    asleep_pass_on(node, taken);
    search.answer[taken->thread] = taken->store;
    fiber_resume(taken->thread);
}

static void execution_begin(void) {
    snapshot_restore(1);
    model_reset();
    shadow_reset();
    mutexes_reset();
    spins_reset();
    search.depth = search.asleep.count = search.note_count = 0;
    search.outcome = ENDED;
    memset(search.over, 0, sizeof search.over);
    search.running = true;
    fibers_start(search.threads, thread_main);
    for (unsigned i = 0; i < search.threads; i++) {
        fiber_resume(i);
    }
}

static void execution_run(void) {
    if (_setjmp(search.finish) == 0) {
        execution_begin();
        while (!all_are_over() && search.outcome == ENDED) {
            execution_step();
        }
        search.running = false;
        if (search.outcome == ENDED && search.scenario->finish) {
            search.scenario->finish();
        }
    }
    search.running = false;
}

/* Prepares the next execution; false: there is none. */
static bool path_advance(void) {
    for (; search.length > 0; search.length--) {
        struct node *node = &search.nodes[search.length - 1];
        if (!node->is_pick) {
            asleep_add(node, &node->choices[node->taken]);
        }
        node->taken++;
        if (node_advance(node)) {
            return true;
        }
    }
    return false;
}

static void notes_print(void) {
    for (unsigned i = 0; i < search.note_count; i++) {
        const struct note *note = &search.notes[i];
        printf("    thread %u  %-8s %#-12llx", note->thread + 1, note->what,
               (unsigned long long)note->value);
        if (note->site) {
            printf(" %s:%llu %s %s", site_file(note->site), (unsigned long long)note->site->line,
                   note->site->operation, note->site->object);
        }
        putchar('\n');
    }
}

struct search_result search_run(const struct scenario *scenario, uint64_t executions_max,
                                bool verbose) {
    struct search_result result = {.executions = 0};
    if (!search.nodes) {
        search.nodes = checker_memory(STEPS_MAX * sizeof *search.nodes);
    }
    search.scenario = scenario;
    search.threads = scenario->threads[2] ? 3 : scenario->threads[1] ? 2 : 1;
    search.length = 0;
    snapshot_restore(0);
    fibers_forget();
    search.setting_up = true;
    if (scenario->set_up) {
        scenario->set_up();
    }
    search.setting_up = false;
    snapshot_save(1);
    do {
        execution_run();
        result.executions += search.outcome != CUT;
        result.cut += search.outcome == CUT;
        result.violated = search.outcome == VIOLATED;
        if (result.violated) {
            memcpy(result.text, search.text, sizeof result.text);
            if (verbose) {
                notes_print();
            }
            return result;
        }
        result.complete = !path_advance();
    } while (!result.complete && result.executions + result.cut < executions_max);
    return result;
}
