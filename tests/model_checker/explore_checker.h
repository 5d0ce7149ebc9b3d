/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_checker.h: what the files of the model checker share. See docs/design/17-explore.md.
 *
 * An execution of a scenario runs its threads as fibers of one thread of the system. Before each
 * execution all memory of the program is as set_up has left it (explore_snapshot.c); only variables
 * marked CHECKER_STATE keep their values. The search (explore_search.c) runs executions until it
 * has taken every choice: which thread goes on, and which of several stores a load returns.
 */
#ifndef CHECKER_H
#define CHECKER_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKER_STATE __attribute__((section("checker_state")))

enum {
    THREADS_MAX = 3,
    LOCATIONS_MAX = 320, /* atomic objects that an execution may touch */
    STORES_MAX = 1024,   /* stores to them */
    MUTEXES_MAX = 16,
    STEPS_MAX = 1200 /* choices of an execution: more, and it counts as endless */
};

/* Ends the program: the checker itself cannot go on. */
_Noreturn void checker_fail(const char *text);

/* --------------------------------------------------------- explore_snapshot.c */

/* Memory for the checker, never returned. */
void *checker_memory(size_t bytes);
/* Memory of a scenario. Every execution begins with what set_up has left in it. */
void *scenario_memory(size_t bytes);
bool scenario_owns(const volatile void *object);
/* Saves everything at the level: 0 before set_up, 1 after it; and restores it. */
void snapshot_save(unsigned level);
void snapshot_restore(unsigned level);

/* ------------------------------------------------------------ explore_fiber.c */

/* Before set_up: thread-local variables of all threads are as they are now. */
void fibers_forget(void);
/* Starts all threads anew: each runs `body` with its number when it is first resumed. */
void fibers_start(unsigned count, void (*body)(unsigned thread));
/* By the search: runs a thread until it calls fiber_leave, or ends. */
void fiber_resume(unsigned thread);
/* By a thread: returns to the search. */
void fiber_leave(void);
/* The running thread, or THREADS_MAX outside all of them. */
unsigned fiber_self(void);
/* Whether it is on the stack of the running thread, or a thread-local variable. */
bool fiber_has_on_stack(const volatile void *object);
bool fiber_has_as_local(const volatile void *object);
/* Runs `fn` with the thread-local variables of a thread; in set_up only. */
void fiber_act_as(unsigned thread, void (*fn)(void));

/* ------------------------------------------------------------- explore_site.c */

/* Sites in the order of file and line, each once however many files include it. */
unsigned site_count(void);
const struct explore_site *site_at(unsigned index);
/* The path of its file in the tree. */
const char *site_file(const struct explore_site *site);
/* Its text in the table: without the line, which changes too often. */
void site_text(unsigned index, char *text, size_t capacity);
/* From now on the site has this order; SITE_NONE: none differs from the source. */
#define SITE_NONE UINT32_MAX
void site_weaken(unsigned index, enum vr_order order);
enum vr_order site_order(const struct explore_site *site);
const char *site_order_name(enum vr_order order);
/* Which sites were reached since the last call of sites_forget. */
bool site_was_reached(unsigned index);
void sites_forget(void);

/* ----------------------------------------------------------- explore_memory.c */

struct view {
    uint16_t seen[LOCATIONS_MAX]; /* newest store that is known, 0: the first one */
    uint16_t clock[THREADS_MAX];  /* steps of each thread that happened before */
};

struct store {
    struct view message; /* what a thread knows that reads it with acquire order */
    uint64_t value;
    uint16_t rank;    /* place in the modification order */
    bool is_followed; /* by a read-modify-write that read it: nothing comes in between */
};

/* The state of memory; stores are known by their number, from 1 on. */
void model_reset(void);
/* The location of an atomic object, with its present value as first store. */
unsigned model_location(volatile void *object, uint64_t bytes);
const struct store *model_store(unsigned number);
/* The stores that a thread may read, oldest first; `writes`: only those that a read-modify-write
   may follow. Returns how many. */
unsigned model_readable(unsigned thread, unsigned location, bool sequential, bool writes,
                        uint16_t *stores);
/* Whether there is a newer store to the location. */
bool model_is_outdated(unsigned location, unsigned store);
void model_read(unsigned thread, unsigned location, unsigned store, enum vr_order order);
/* Adds a store behind `after`. `reads`: it is a read-modify-write that read `after`. */
void model_write(unsigned thread, unsigned location, unsigned after, uint64_t value,
                 enum vr_order order, bool reads);
/* The effect of a sequentially consistent fence. */
void model_fence(unsigned thread);
/* The object was written by a plain store. */
void model_overwritten(unsigned location);
/* What a thread knows; for mutexes, and to tell races. */
const struct view *model_view(unsigned thread);
void model_join(unsigned thread, const struct view *view);
void model_view_add(struct view *to, const struct view *from);
void model_tick(unsigned thread);

/* ----------------------------------------------------------- explore_shadow.c */

void shadow_reset(void);
/* A plain access; reports a race. */
void shadow_plain(const volatile void *object, size_t bytes, bool writes);
void shadow_atomic(const volatile void *object, size_t bytes, bool writes, unsigned location);
/* Memory was freed: every later access is a mistake. */
void shadow_freed(const void *memory, size_t bytes);

/* ----------------------------------------------------------- explore_search.c */

enum step_kind {
    STEP_START,
    STEP_LOAD,
    STEP_CHANGE, /* a read-modify-write that always writes */
    STEP_CAS,
    STEP_STORE, /* sequentially consistent; others are no step of their own */
    STEP_LOCK,
    STEP_TRY,
    STEP_FENCE,   /* sequentially consistent */
    STEP_BARRIER, /* the same of all threads */
    STEP_YIELD
};

/* What a thread is about to do. */
struct step {
    enum step_kind kind;
    const struct explore_site *site; /* NULL for locks and the like */
    unsigned location;               /* or the mutex */
    bool sequential;
    uint64_t expected; /* STEP_CAS */
};

/* Whether threads of a scenario run, and not set_up or finish. */
bool search_is_running(void);
/* Lets the search choose who goes on; returns when this thread does. The result is the store that
   is read, or that a new one follows; for STEP_TRY 1 for success. */
unsigned search_step(const struct step *step);
/* Chooses among `count` ways to place a store that is no step. */
unsigned search_pick(unsigned count);
/* Ends this execution: something does not hold, in words. */
_Noreturn void search_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends this execution: another one is the same. */
_Noreturn void search_cut(void);
/* For the report of a violation. */
void search_note(const struct explore_site *site, const char *what, uint64_t value);

struct scenario;
struct search_result {
    uint64_t executions; /* that ended */
    uint64_t cut;        /* that were given up: another one is the same */
    bool complete;       /* there is no other one */
    bool violated;
    char text[256]; /* what does not hold */
};
/* Explores a scenario, at most `executions_max` executions. `verbose`: tells how a violation came
   about. */
struct search_result search_run(const struct scenario *scenario, uint64_t executions_max,
                                bool verbose);

/* ---------------------------------------------------------- explored_system.c */

void mutexes_reset(void);
bool mutex_is_free(unsigned mutex);

/* -------------------------------------------------------- explore_operation.c */

/* A thread that waits in a loop goes on when something that it read has changed. */
void explore_yield(void);
void spins_reset(void);
bool spin_may_go_on(unsigned thread);
/* A memory barrier of every thread, as membarrier makes. */
bool explore_barrier(void);

#endif
