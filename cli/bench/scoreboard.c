/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scoreboard.c: see scoreboard.h.
 */
#include "bench/scoreboard.h"
#include "bench/ways.h"
#include "survey.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_COLUMNS = 17 };

static const char *const titles[] = {"pairs", "bursts of 1000", "mixed sizes", "handover"};
static const char *const names[] = {"pair", "burst", "mixed", "handover"};

/* ---------------------------------------------------------------------- text */

static void print_heading(const struct terminal *terminal, const struct contest *contest,
                          const struct target *target) {
    const struct contest_plan *plan = &contest->plan;
    char size[VRAM_SIZE_TEXT_MAX], label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "alloc, %s", titles[plan->pattern]);
    if (plan->pattern != PATTERN_MIXED) {
        printf(" of %s", vram_size_format(plan->bytes, size));
    }
    printf(", %" PRIu32 " thread%s", plan->threads, plan->threads == 1 ? "" : "s");
    if (plan->live > 0) {
        printf(", %" PRIu64 " live", plan->live);
    }
    printf(", on %s, ", device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("\n\n%-16s %12s %12s %12s %14s %8s\n", "allocator", "median ns", "p10", "p90", "pairs/s",
           "ratio");
}

static void print_entry(const struct terminal *terminal, const struct contest *contest,
                        const struct entry *entry) {
    const struct entry *ours = &contest->entries[0];
    terminal_cell(terminal, entry == ours ? STYLE_BOLD : STYLE_PLAIN, NAME_COLUMNS, "%s",
                  entry->name);
    if (!entry->measured) {
        way_print_reason(terminal, entry->reason, NAME_COLUMNS, strlen(entry->name));
        return;
    }
    printf("%12.1f %12.1f %12.1f %14.0f", entry->figures.median, entry->figures.p10,
           entry->figures.p90, entry->pairs_per_s);
    if (entry != ours && ours->measured) {
        printf(" %8.3f", ours->figures.median / entry->figures.median);
    }
    printf("\n");
}

static void print_judgement(const struct terminal *terminal, const struct judgement *judgement) {
    for (uint32_t i = 0; i < judgement->verdict_count; i++) {
        const struct verdict *verdict = &judgement->verdicts[i];
        terminal_print(terminal, verdict->worse ? STYLE_BAD : STYLE_GOOD, "%s",
                       verdict->worse ? "worse" : "good");
        printf(": ratio %.3f to %s, it was %.3f, the margin is %.0f %%\n", verdict->ratio,
               verdict->peer, verdict->baseline_ratio, 100 * judgement->margin);
    }
}

void scoreboard_print(const struct terminal *terminal, const struct contest *contest,
                      const struct target *target, const struct judgement *judgement) {
    print_heading(terminal, contest, target);
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        print_entry(terminal, contest, &contest->entries[i]);
    }
    const struct entry *best = contest_best_peer(contest);
    if (best != NULL) {
        printf("\nvram takes %.3f times as long as %s, the best comparable peer.\n",
               contest->entries[0].figures.median / best->figures.median, best->name);
    }
    print_judgement(terminal, judgement);
}

/* ---------------------------------------------------------------------- JSON */

static void write_number(struct json_out *json, const char *key, bool known, double value) {
    if (known) {
        json_number(json, key, value);
    } else {
        json_null(json, key);
    }
}

static void write_figures(struct json_out *json, const struct entry *entry) {
    write_number(json, "ns_median", entry->measured, entry->figures.median);
    write_number(json, "ns_p10", entry->measured, entry->figures.p10);
    write_number(json, "ns_p90", entry->measured, entry->figures.p90);
    write_number(json, "pairs_per_s", entry->measured, entry->pairs_per_s);
    json_unsigned(json, "samples", entry->measured ? entry->sample_count : 0);
    json_unsigned(json, "pairs_per_sample", entry->measured ? entry->pairs : 0);
    json_value(json, "driver_calls", entry->driver_calls);
}

static void write_peer(struct json_out *json, const struct contest *contest,
                       const struct entry *entry) {
    const struct entry *ours = &contest->entries[0];
    bool both = ours->measured && entry->measured;
    json_object_begin(json, NULL);
    json_text(json, "name", entry->name);
    json_bool(json, "found", entry->measured);
    json_text(json, "reason", entry->measured ? NULL : entry->reason);
    json_bool(json, "comparable", entry->comparable);
    json_value(json, "size_bytes",
               (vram_value){entry->bytes, contest->plan.pattern != PATTERN_MIXED});
    json_unsigned(json, "threads", entry->threads);
    json_unsigned(json, "live_blocks", entry->live);
    write_figures(json, entry);
    write_number(json, "ratio", both, both ? ours->figures.median / entry->figures.median : 0);
    json_object_end(json);
}

static void write_device(struct json_out *json, const struct target *target) {
    json_object_begin(json, "device");
    json_unsigned(json, "index", target->index);
    json_text(json, "backend", target->info.backend);
    json_unsigned(json, "backend_index", target->info.backend_index);
    json_text(json, "name", target->info.name);
    json_text(json, "kind", device_kind_name(target->info.kind));
    json_object_end(json);
}

static void write_judgement(struct json_out *json, const struct judgement *judgement) {
    if (judgement->path == NULL) {
        json_null(json, "baseline");
        return;
    }
    json_object_begin(json, "baseline");
    json_text(json, "file", judgement->path);
    json_number(json, "margin", judgement->margin);
    json_bool(json, "worse", judgement->worse);
    json_array_begin(json, "peers");
    for (uint32_t i = 0; i < judgement->verdict_count; i++) {
        const struct verdict *verdict = &judgement->verdicts[i];
        json_object_begin(json, NULL);
        json_text(json, "name", verdict->peer);
        json_number(json, "ratio", verdict->ratio);
        json_number(json, "baseline_ratio", verdict->baseline_ratio);
        json_bool(json, "worse", verdict->worse);
        json_object_end(json);
    }
    json_array_end(json);
    json_object_end(json);
}

/* Ours stands at the top, where scripts look first. */
bool scoreboard_write(const struct contest *contest, const struct target *target,
                      const struct judgement *judgement) {
    const struct contest_plan *plan = &contest->plan;
    const struct entry *ours = &contest->entries[0], *best = contest_best_peer(contest);
    struct json_out json;
    output_json_begin(&json, "vram.bench/1");
    json_text(&json, "bench", "alloc");
    json_text(&json, "pattern", names[plan->pattern]);
    json_value(&json, "size_bytes", (vram_value){plan->bytes, plan->pattern != PATTERN_MIXED});
    json_unsigned(&json, "threads", plan->threads);
    json_unsigned(&json, "live_blocks", plan->live);
    write_device(&json, target);
    json_text(&json, "reason", ours->measured ? NULL : ours->reason);
    write_figures(&json, ours);
    json_array_begin(&json, "peers");
    for (uint32_t i = 1; i < contest->entry_count; i++) {
        write_peer(&json, contest, &contest->entries[i]);
    }
    json_array_end(&json);
    write_number(&json, "ratio", best != NULL,
                 best != NULL ? ours->figures.median / best->figures.median : 0);
    json_text(&json, "ratio_peer", best != NULL ? best->name : NULL);
    write_judgement(&json, judgement);
    return output_json_end(&json);
}
