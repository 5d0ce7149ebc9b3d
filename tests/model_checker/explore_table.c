/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_table.c: docs/explore.md: every memory order of the explored sources, weakened one at a
 * time, and the scenario that notices. An order that no scenario misses needs a reason.
 */
#include "explore_table.h"

#include <stdio.h>
#include <string.h>

enum { SCENARIOS_MAX = 128 };

/* The scenarios, and which sites each of them reaches. */
static CHECKER_STATE struct {
    unsigned count;
    const struct scenario *scenario[SCENARIOS_MAX];
    struct search_result result[SCENARIOS_MAX];
    bool *reaches[SCENARIOS_MAX];
} table;

static void scenarios_list(const struct scenario *const *parts, unsigned part_count) {
    for (unsigned i = 0; i < part_count; i++) {
        for (const struct scenario *at = parts[i]; at->name; at++) {
            if (table.count == SCENARIOS_MAX) {
                checker_fail("too many scenarios");
            }
            table.scenario[table.count++] = at;
        }
    }
}

static void scenarios_reach(uint64_t executions_max) {
    for (unsigned i = 0; i < table.count; i++) {
        sites_forget();
        table.result[i] = search_run(table.scenario[i], executions_max, false);
        table.reaches[i] = checker_memory(site_count() * sizeof(bool));
        for (unsigned site = 0; site < site_count(); site++) {
            table.reaches[i][site] = site_was_reached(site);
        }
    }
}

static bool is_reached(unsigned site) {
    bool reached = false;
    for (unsigned i = 0; i < table.count; i++) {
        reached = reached || table.reaches[i][site];
    }
    return reached;
}

/* The next weaker orders of an operation; returns how many, 0 for relaxed ones. */
static unsigned orders_below(const char *operation, enum vr_order order, enum vr_order *below) {
    bool loads = strcmp(operation, "load") == 0, stores = strcmp(operation, "store") == 0;
    below[0] = VR_RELAXED;
    if (order == VR_SEQ_CST && strcmp(operation, "fence") != 0) {
        below[0] = loads ? VR_ACQUIRE : stores ? VR_RELEASE : VR_ACQ_REL;
    } else if (order == VR_ACQ_REL) {
        below[0] = VR_ACQUIRE;
        below[1] = VR_RELEASE;
        return 2;
    }
    return order == VR_RELAXED ? 0 : 1;
}

/* The first scenario that notices; NULL: none does. */
static const struct scenario *scenario_catches(unsigned site, enum vr_order order,
                                               uint64_t executions_max,
                                               struct search_result *result) {
    site_weaken(site, order);
    const struct scenario *found = NULL;
    for (unsigned i = 0; i < table.count && !found; i++) {
        if (table.reaches[i][site]) {
            *result = search_run(table.scenario[i], executions_max, false);
            found = result->violated ? table.scenario[i] : NULL;
        }
    }
    site_weaken(SITE_NONE, VR_RELAXED);
    return found;
}

static const char *reason_of(const char *file, const char *site, enum vr_order order) {
    for (const struct explore_reason *at = explore_reasons; at->file; at++) {
        if (strcmp(at->file, file) == 0 && strcmp(at->site, site) == 0 &&
            strcmp(at->order, site_order_name(order)) == 0) {
            return at->reason;
        }
    }
    return NULL;
}

struct table_sums {
    unsigned sites, weakened, caught, reasoned, unreached, open;
};

static void row_print(unsigned site, enum vr_order to, uint64_t executions_max,
                      struct table_sums *sums) {
    char text[256];
    struct search_result result;
    const struct explore_site *at = site_at(site);
    site_text(site, text, sizeof text);
    printf("| %s | %s | %s | ", text, site_order_name((enum vr_order)at->order),
           site_order_name(to));
    const struct scenario *caught =
        is_reached(site) ? scenario_catches(site, to, executions_max, &result) : NULL;
    const char *reason = caught ? NULL : reason_of(site_file(at), text, to);
    sums->weakened++;
    if (!is_reached(site)) {
        puts("not reached |");
        sums->unreached++;
    } else if (caught) {
        printf("%s: %s |\n", caught->name, result.text);
        sums->caught++;
    } else if (reason) {
        printf("not noticed: %s |\n", reason);
        sums->reasoned++;
    } else {
        puts("not noticed, **without a reason** |");
        sums->open++;
    }
    fflush(stdout);
}

static bool is_of_library(const struct explore_site *site) {
    return strncmp(site_file(site), "src/", 4) == 0;
}

static void sites_print(uint64_t executions_max, struct table_sums *sums) {
    const char *file = "";
    for (unsigned i = 0; i < site_count(); i++) {
        enum vr_order below[2];
        const struct explore_site *site = site_at(i);
        if (!is_of_library(site)) {
            continue;
        }
        sums->sites++;
        unsigned count = orders_below(site->operation, (enum vr_order)site->order, below);
        if (count && strcmp(file, site_file(site)) != 0) {
            file = site_file(site);
            printf("\n### %s\n\n| operation | order | weakened to | what happens |\n", file);
            puts("|---|---|---|---|");
        }
        for (unsigned k = 0; k < count; k++) {
            row_print(i, below[k], executions_max, sums);
        }
    }
}

bool explore_table_print(const struct scenario *const *parts, unsigned part_count,
                         uint64_t executions_max) {
    struct table_sums sums = {.sites = 0};
    scenarios_list(parts, part_count);
    scenarios_reach(executions_max);
    puts("# Memory orders, weakened one at a time\n");
    puts("Made by `tools/explore-table`; `docs/design/17-explore.md` says how. A test of `make "
         "test-long` checks that it is\ncurrent.\n");
    puts("## Scenarios\n\n| part | scenario | executions | cut | search |\n|---|---|---|---|---|");
    bool all = true;
    for (unsigned i = 0; i < table.count; i++) {
        const struct search_result *result = &table.result[i];
        printf("| %s | %s | %llu | %llu | %s |\n", table.scenario[i]->part, table.scenario[i]->name,
               (unsigned long long)result->executions, (unsigned long long)result->cut,
               result->violated   ? "**violated**"
               : result->complete ? "complete"
                                  : "bounded");
        all = all && !result->violated;
    }
    puts("\n## Orders");
    sites_print(executions_max, &sums);
    printf(
        "\n%u atomic operations; %u weakened orders: %u noticed by a scenario, %u not noticed for "
        "the reason given,\n%u in code that no scenario reaches, %u open.\n",
        sums.sites, sums.weakened, sums.caught, sums.reasoned, sums.unreached, sums.open);
    return all && sums.open == 0;
}
