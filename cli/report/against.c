/* SPDX-License-Identifier: Apache-2.0 */
/*
 * against.c: see against.h.
 */
#include "against.h"
#include "output.h"

#include <vram/vram.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[FIGURE_COUNT] = {"peak", "rounded", "held", "live", "allocs"};

const char *against_name(enum against_figure figure) {
    return names[figure];
}

uint64_t against_value(const struct history *history, enum against_figure figure) {
    switch (figure) {
    case FIGURE_PEAK:
        return history->peak_bytes;
    case FIGURE_ROUNDED:
        return history->peak_held;
    case FIGURE_HELD:
        return history->peak_reserved;
    case FIGURE_LIVE:
        return history->live_bytes + history->lost_bytes;
    default:
        return history->allocs;
    }
}

/* ---------------------------------------------------------------------- rules */

/* A size such as 64M, or a number. */
static bool read_limit(const char *text, double *limit) {
    uint64_t bytes;
    if (vram_size_parse(text, &bytes) != VRAM_OK) {
        return false;
    }
    *limit = (double)bytes;
    return true;
}

const char *against_add_rule(struct against *against, const char *text) {
    struct against_rule rule = {.text = text};
    const char *sign = strchr(text, '>');
    int figure = 0;
    if (against->rule_count == AGAINST_RULES_MAX) {
        return "there are more than 8 rules";
    }
    if (sign == NULL) {
        return "it has no >; write as in peak>+2%, held>+64M or live>0";
    }
    while (figure < FIGURE_COUNT && (strlen(names[figure]) != (size_t)(sign - text) ||
                                     strncmp(text, names[figure], (size_t)(sign - text)) != 0)) {
        figure++;
    }
    if (figure == FIGURE_COUNT) {
        return "it names none of peak, rounded, held, live, allocs";
    }
    rule.figure = (enum against_figure)figure;
    rule.change = sign[1] == '+';
    const char *number = sign + 1 + rule.change;
    char *end;
    rule.limit = strtod(number, &end);
    rule.percent = end != number && strcmp(end, "%") == 0;
    bool good =
        rule.percent ? rule.limit >= 0 && rule.limit < 1e9 : read_limit(number, &rule.limit);
    if (!good || (rule.percent && !rule.change)) {
        return "its limit is neither a size as in >64M nor a growth as in >+2% or >+64M";
    }
    if (rule.change && against->before == NULL) {
        return "a growth needs the other trace: --against OLD";
    }
    against->rules[against->rule_count++] = rule;
    return NULL;
}

size_t against_judge(struct against *against) {
    size_t broken = 0;
    for (size_t i = 0; i < against->rule_count; i++) {
        struct against_rule *rule = &against->rules[i];
        double now = (double)against_value(against->now, rule->figure);
        double before =
            against->before != NULL ? (double)against_value(against->before, rule->figure) : 0;
        double limit = !rule->change   ? rule->limit
                       : rule->percent ? before * (1 + rule->limit / 100)
                                       : before + rule->limit;
        rule->broken = now > limit;
        broken += rule->broken;
    }
    return broken;
}

/* -------------------------------------------------------------------- changes */

/* A call site's bytes at the peak, then and now. */
struct change {
    const char *name;
    uint64_t before, now;
};

static uint64_t size_of(const struct change *change) {
    return change->now > change->before ? change->now - change->before
                                        : change->before - change->now;
}

static int by_size(const void *one, const void *other) {
    const struct change *a = one, *b = other;
    return size_of(a) != size_of(b) ? (size_of(a) < size_of(b) ? 1 : -1) : strcmp(a->name, b->name);
}

/* The sites of both traces; memory of the caller's. */
struct changes {
    struct site *now, *before;
    struct change *all;
    size_t count;
};

static struct change *change_find(struct changes *changes, const char *name) {
    for (size_t i = 0; i < changes->count; i++) {
        if (strcmp(changes->all[i].name, name) == 0) {
            return &changes->all[i];
        }
    }
    changes->all[changes->count] = (struct change){.name = name};
    return &changes->all[changes->count++];
}

enum { SITES_MAX = 1000 }; /* of each trace, those with the most */

static void changes_find(const struct against *against, struct changes *changes) {
    *changes = (struct changes){.now = output_alloc(SITES_MAX, sizeof(struct site)),
                                .before = output_alloc(SITES_MAX, sizeof(struct site)),
                                .all = output_alloc((size_t)2 * SITES_MAX, sizeof(struct change))};
    if (changes->now == NULL || changes->before == NULL || changes->all == NULL) {
        return;
    }
    size_t now, before;
    if (!sites_find(against->now, against->now_input, false, changes->now, SITES_MAX, &now) ||
        !sites_find(against->before, against->before_input, false, changes->before, SITES_MAX,
                    &before)) {
        output_cut();
        return;
    }
    for (size_t i = 0; i < now; i++) {
        change_find(changes, changes->now[i].name)->now = changes->now[i].bytes;
    }
    for (size_t i = 0; i < before; i++) {
        change_find(changes, changes->before[i].name)->before = changes->before[i].bytes;
    }
    if (changes->count > 0) {
        qsort(changes->all, changes->count, sizeof *changes->all, by_size);
    }
}

static void changes_free(struct changes *changes) {
    free(changes->now);
    free(changes->before);
    free(changes->all);
}

/* --------------------------------------------------------------------- output */

static void print_value(const struct terminal *terminal, enum against_figure figure,
                        uint64_t value) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (figure == FIGURE_ALLOCS) {
        terminal_print(terminal, STYLE_PLAIN, "%14" PRIu64, value);
    } else {
        terminal_print(terminal, STYLE_PLAIN, "%14s", vram_size_format(value, size));
    }
}

static void print_change(const struct terminal *terminal, uint64_t before, uint64_t now) {
    double percent = before > 0 ? ((double)now - (double)before) / (double)before * 100 : 0;
    enum style style = now > before ? STYLE_WARN : now < before ? STYLE_GOOD : STYLE_PLAIN;
    if (before > 0) {
        terminal_print(terminal, style, "%+10.2f %%", percent);
    } else {
        terminal_print(terminal, style, "%12s", now > 0 ? "new" : "-");
    }
    printf("\n");
}

static void print_figures(const struct against *against, const struct terminal *terminal) {
    terminal_print(terminal, STYLE_DIM, "  %-10s%14s%14s%12s", "", "before", "now", "change");
    printf("\n");
    for (int i = 0; i < FIGURE_COUNT; i++) {
        enum against_figure figure = (enum against_figure)i;
        uint64_t before = against_value(against->before, figure);
        uint64_t now = against_value(against->now, figure);
        printf("  ");
        terminal_cell(terminal, STYLE_PLAIN, 10, "%s", names[i]);
        print_value(terminal, figure, before);
        print_value(terminal, figure, now);
        print_change(terminal, before, now);
    }
}

static void print_sites(const struct against *against, const struct terminal *terminal,
                        size_t top) {
    struct changes changes;
    changes_find(against, &changes);
    for (size_t i = 0; i < changes.count && i < top && size_of(&changes.all[i]) > 0; i++) {
        const struct change *change = &changes.all[i];
        char size[VRAM_SIZE_TEXT_MAX];
        if (i == 0) {
            printf("\n");
            terminal_print(terminal, STYLE_BOLD, "Changed at the peak");
            printf("\n");
        }
        printf("  ");
        terminal_print(terminal, change->now > change->before ? STYLE_WARN : STYLE_GOOD, "%c%12s",
                       change->now > change->before ? '+' : '-',
                       vram_size_format(size_of(change), size));
        terminal_print(terminal, STYLE_PLAIN, "  %s", change->name);
        printf("\n");
    }
    changes_free(&changes);
}

void against_print(const struct against *against, const struct terminal *terminal, size_t top) {
    if (against->before != NULL) {
        terminal_print(terminal, STYLE_BOLD, "%s", against->now->name);
        terminal_print(terminal, STYLE_PLAIN, " against %s", against->before->name);
        printf("\n");
        print_figures(against, terminal);
        print_sites(against, terminal, top);
    }
    for (size_t i = 0; i < against->rule_count; i++) {
        const struct against_rule *rule = &against->rules[i];
        terminal_print(terminal, rule->broken ? STYLE_BAD : STYLE_GOOD, "%s: %s",
                       rule->broken ? "FAILED" : "passed", rule->text);
        printf("\n");
    }
}

void against_write(const struct against *against, struct json_out *json) {
    struct changes changes = {.count = 0};
    json_array_begin(json, "rules");
    for (size_t i = 0; i < against->rule_count; i++) {
        json_object_begin(json, NULL);
        json_text(json, "rule", against->rules[i].text);
        json_bool(json, "broken", against->rules[i].broken);
        json_object_end(json);
    }
    json_array_end(json);
    if (against->before == NULL) {
        json_null(json, "against");
        return;
    }
    json_object_begin(json, "against");
    json_text(json, "file", against->before->name);
    for (int i = 0; i < FIGURE_COUNT; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%s", names[i], i == FIGURE_ALLOCS ? "" : "_bytes");
        json_unsigned(json, key, against_value(against->before, (enum against_figure)i));
    }
    changes_find(against, &changes);
    json_array_begin(json, "changes");
    for (size_t i = 0; i < changes.count && i < AGAINST_CHANGES_MAX && size_of(&changes.all[i]) > 0;
         i++) {
        json_object_begin(json, NULL);
        json_text(json, "site", changes.all[i].name);
        json_unsigned(json, "before_bytes", changes.all[i].before);
        json_unsigned(json, "now_bytes", changes.all[i].now);
        json_object_end(json);
    }
    json_array_end(json);
    json_object_end(json);
    changes_free(&changes);
}
