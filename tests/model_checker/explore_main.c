/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_main.c: explores the scenarios, and makes the table of weakened orders.
 *
 *     explorer [--long] [PART]      explores; 1 if something does not hold
 *     explorer --litmus             explores programs whose outcomes are known
 *     explorer --sites              every memory order of the explored sources
 *     explorer --weaken N ORDER [PART]  explores all with one order changed: what happens?
 *     explorer --table              docs/explore.md
 */
#include "explore_litmus.h"
#include "explore_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXECUTIONS_MAX      UINT64_C(20000)
#define EXECUTIONS_MAX_LONG UINT64_C(100000)

static const struct scenario *const parts[] = {
    handle_scenarios,  radix_scenarios, biased_lock_scenarios, thread_scenarios,
    channel_scenarios, point_scenarios, page_scenarios,        table_scenarios,
    drain_scenarios,   stamp_scenarios, log_scenarios};
enum { PARTS = sizeof parts / sizeof parts[0] };

static const char *answer_of(const struct search_result *result) {
    return result->violated ? "VIOLATED" : result->complete ? "complete" : "bounded";
}

/* Explores the scenarios of all parts, or of one; true: all hold. */
static bool scenarios_explore(const char *part, bool is_long) {
    uint64_t most = is_long ? EXECUTIONS_MAX_LONG : EXECUTIONS_MAX;
    bool all = true;
    for (unsigned i = 0; i < PARTS; i++) {
        for (const struct scenario *scenario = parts[i]; scenario->name; scenario++) {
            if ((part && strcmp(part, scenario->part) != 0) || (scenario->is_long && !is_long)) {
                continue;
            }
            struct search_result result = search_run(scenario, most, true);
            printf("%-14s %-36s %9llu executions %9llu cut  %s\n", scenario->part, scenario->name,
                   (unsigned long long)result.executions, (unsigned long long)result.cut,
                   answer_of(&result));
            if (result.violated) {
                printf("    %s\n", result.text);
                all = false;
            }
            fflush(stdout);
        }
    }
    return all;
}

static CHECKER_STATE uint64_t outcomes; /* of the executions so far */

void explore_outcome(unsigned outcome) {
    outcomes |= UINT64_C(1) << outcome;
}

/* Whether every program has all its outcomes, and no other. */
static bool litmus_explore(void) {
    bool all = true;
    for (const struct litmus *litmus = litmus_tests; litmus->scenario.name; litmus++) {
        outcomes = 0;
        struct search_result result = search_run(&litmus->scenario, EXECUTIONS_MAX, true);
        bool right = result.complete && !result.violated && outcomes == litmus->outcomes;
        printf("%-14s %-36s %9llu executions %9llu cut  %s\n", litmus->scenario.part,
               litmus->scenario.name, (unsigned long long)result.executions,
               (unsigned long long)result.cut, right ? "as it must be" : "WRONG");
        if (!right) {
            printf("    %s outcomes %#llx for %#llx\n", result.text, (unsigned long long)outcomes,
                   (unsigned long long)litmus->outcomes);
        }
        all = all && right;
    }
    return all;
}

static void sites_print(void) {
    for (unsigned i = 0; i < site_count(); i++) {
        char text[256];
        site_text(i, text, sizeof text);
        printf("%4u %s:%llu %s %s\n", i, site_file(site_at(i)),
               (unsigned long long)site_at(i)->line, text,
               site_order_name((enum vr_order)site_at(i)->order));
    }
}

static bool order_read(const char *text, enum vr_order *order) {
    static const enum vr_order all[] = {VR_RELAXED, VR_ACQUIRE, VR_RELEASE, VR_ACQ_REL, VR_SEQ_CST};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(text, site_order_name(all[i])) == 0) {
            *order = all[i];
            return true;
        }
    }
    return false;
}

static int misuse(void) {
    fputs("explorer [--long] [PART] | --litmus | --sites | --weaken N ORDER [PART] | --table\n",
          stderr);
    return 2;
}

int main(int count, char **arguments) {
    bool is_long = count > 1 && strcmp(arguments[1], "--long") == 0;
    snapshot_save(0);
    if (count > 1 && strcmp(arguments[1], "--sites") == 0) {
        sites_print();
        return 0;
    }
    if (count > 1 && strcmp(arguments[1], "--weaken") == 0) {
        enum vr_order order;
        if (count < 4 || !order_read(arguments[3], &order)) {
            return misuse();
        }
        unsigned site = (unsigned)strtoul(arguments[2], NULL, 10);
        if (site >= site_count()) {
            return misuse();
        }
        site_weaken(site, order);
        return scenarios_explore(count > 4 ? arguments[4] : NULL, true) ? 0 : 1;
    }
    if (count > 1 && strcmp(arguments[1], "--litmus") == 0) {
        return litmus_explore() ? 0 : 1;
    }
    if (count > 1 && strcmp(arguments[1], "--table") == 0) {
        return explore_table_print(parts, PARTS, EXECUTIONS_MAX) ? 0 : 1;
    }
    const char *part = count > 1 + is_long ? arguments[1 + is_long] : NULL;
    return scenarios_explore(part, is_long) ? 0 : 1;
}
