/* SPDX-License-Identifier: Apache-2.0 */
/*
 * least_report.c: see least_report.h.
 */
#include "least_report.h"

#include <stdio.h>

enum { POLICY_COLUMNS = 13, SIZE_COLUMNS = 11, NUMBER_COLUMNS = 8, SLOWER_COLUMNS = 9 };

static void print_figure(const struct terminal *terminal, enum style style, int columns,
                         const char *text) {
    terminal_print(terminal, style, " %*s", columns - 1, text);
}

static void print_titles(const struct terminal *terminal) {
    static const struct {
        const char *text;
        int columns;
    } titles[] = {{"no limit", SIZE_COLUMNS}, {"ratio", NUMBER_COLUMNS},  {"least", SIZE_COLUMNS},
                  {"ratio", NUMBER_COLUMNS},  {"slower", SLOWER_COLUMNS}, {"at 5 %", SIZE_COLUMNS},
                  {"ratio", NUMBER_COLUMNS}};
    terminal_cell(terminal, STYLE_DIM, POLICY_COLUMNS, "  policy");
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        print_figure(terminal, STYLE_DIM, titles[i].columns, titles[i].text);
    }
    printf("\n");
}

static void print_memory(const struct terminal *terminal, uint64_t bytes, double ratio) {
    char size[VRAM_SIZE_TEXT_MAX], text[32];
    print_figure(terminal, STYLE_PLAIN, SIZE_COLUMNS, vram_size_format(bytes, size));
    snprintf(text, sizeof text, "%.4f", ratio);
    print_figure(terminal, ratio_style(ratio), NUMBER_COLUMNS, text);
}

static void print_least(const struct terminal *terminal, const struct least *least) {
    const struct pass *freely = &least->freely;
    char text[32];
    if (freely->result != PASS_DONE) {
        pass_print_problem(terminal, freely);
        return;
    }
    terminal_cell(terminal, STYLE_ACCENT, POLICY_COLUMNS, "  %s", freely->policy->name);
    print_memory(terminal, freely->counts.peak_reserved_bytes, pass_ratio(freely));
    print_memory(terminal, least->tight.bytes, least_ratio(least, &least->tight));
    double more = least_slowdown(least, &least->tight) - 1;
    snprintf(text, sizeof text, "%.2f %%", more * 100);
    print_figure(terminal, more > 0.05 ? STYLE_BAD : STYLE_PLAIN, SLOWER_COLUMNS, text);
    print_memory(terminal, least->quick.bytes, least_ratio(least, &least->quick));
    printf("\n");
}

void least_report_print(const struct replay_report *report, const struct terminal *terminal) {
    const struct trace *last = NULL;
    replay_report_head(report, terminal);
    for (size_t i = 0; i < report->least_count; i++) {
        const struct least *least = &report->leasts[i];
        if (least->freely.trace != last) {
            last = least->freely.trace;
            replay_report_trace(last, terminal);
            print_titles(terminal);
        }
        print_least(terminal, least);
    }
}

/* ----------------------------------------------------------------------- JSON */

static void write_memory(struct json_out *json, const char *key, const struct least *least,
                         const struct least_memory *memory) {
    json_object_begin(json, key);
    json_unsigned(json, "memory_bytes", memory->bytes);
    json_number(json, "ratio", least_ratio(least, memory));
    json_unsigned(json, "spent_ns", memory->spent_ns);
    json_number(json, "slowdown", least_slowdown(least, memory));
    json_object_end(json);
}

static void write_least(struct json_out *json, const struct least *least) {
    static const char *const results[] = {
        [PASS_DONE] = "done", [PASS_EXHAUSTED] = "exhausted", [PASS_FAILED] = "failed"};
    const struct pass *freely = &least->freely;
    json_object_begin(json, NULL);
    json_text(json, "trace", freely->trace->name);
    json_text(json, "policy", freely->policy->name);
    json_text(json, "result", results[freely->result]);
    json_text(json, "reason", freely->result == PASS_DONE ? NULL : freely->reason);
    json_unsigned(json, "peak_requested_bytes", freely->trace->peak_bytes);
    json_unsigned(json, "trace_ns", trace_ns(freely->trace));
    if (freely->result == PASS_DONE) {
        const struct least_memory free = {.bytes = freely->counts.peak_reserved_bytes,
                                          .spent_ns = freely->spent_ns};
        write_memory(json, "unlimited", least, &free);
        write_memory(json, "least", least, &least->tight);
        write_memory(json, "quick", least, &least->quick);
        json_unsigned(json, "runs", least->runs);
    }
    json_object_end(json);
}

void least_report_write(const struct replay_report *report, struct json_out *json) {
    json_array_begin(json, "least");
    for (size_t i = 0; i < report->least_count; i++) {
        write_least(json, &report->leasts[i]);
    }
    json_array_end(json);
}
