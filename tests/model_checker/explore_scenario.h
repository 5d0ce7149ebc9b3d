/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_scenario.h: what the model checker explores: a few threads with a few operations each,
 * on the library's own code.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

struct scenario {
    const char *part; /* of the library, as in the table of docs/explore.md */
    const char *name;
    void (*set_up)(void);     /* once, alone; may be NULL */
    void (*threads[3])(void); /* NULL: fewer */
    void (*finish)(void);     /* alone, when all threads have ended; may be NULL */
    bool is_long;             /* too long for make test */
};

/* Ends the execution with a report if it does not hold. */
void scenario_check(bool holds, const char *text);
#define CHECK(expression) scenario_check(expression, #expression)

/* Runs `fn` in set_up with the thread-local variables of a thread, 0 to 2. */
void fiber_act_as(unsigned thread, void (*fn)(void));
/* Memory that every execution finds as set_up has left it. */
void *scenario_memory(size_t bytes);
/* The library gets no more memory. */
extern bool scenario_memory_ends;

/* Each part's scenarios, ended by one without a name. */
extern const struct scenario handle_scenarios[], radix_scenarios[], biased_lock_scenarios[],
    thread_scenarios[], table_scenarios[], point_scenarios[], channel_scenarios[], page_scenarios[],
    drain_scenarios[], stamp_scenarios[], log_scenarios[];

#endif
