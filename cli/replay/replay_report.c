/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_report.c: see replay_report.h.
 */
#include "replay_report.h"

#include "least_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------- figures */

double pass_ratio(const struct pass *pass) {
    bool known = pass->result == PASS_DONE && pass->trace->peak_bytes > 0;
    return known ? (double)pass->counts.peak_reserved_bytes / (double)pass->trace->peak_bytes : 0;
}

double pass_move_share(const struct pass *pass) {
    uint64_t whole = trace_ns(pass->trace);
    return whole > 0 ? (double)pass->counts.move_ns / (double)whole : 0;
}

double pass_ns_per_op(const struct pass *pass) {
    return pass->op_count > 0 ? (double)pass->spent_ns / (double)pass->op_count : 0;
}

uint64_t pass_calls(const struct pass *pass) {
    uint64_t sum = 0;
    for (int i = 0; i < POLICY_CALL_COUNT; i++) {
        sum += pass->counts.calls[i];
    }
    return sum;
}

static bool is_simulated(const struct replay_report *report) {
    return report->target->info.kind == VRAM_DEVICE_SIMULATED;
}

/* ---------------------------------------------------------------------- table */

enum { BAR_COLUMNS = 12, POLICY_COLUMNS = 13, SIZE_COLUMNS = 11, NUMBER_COLUMNS = 8 };

void replay_report_head(const struct replay_report *report, const struct terminal *terminal) {
    const vram_device_info *info = &report->target->info;
    char label[64];
    snprintf(label, sizeof label, "%s:%" PRIu32, info->backend, info->backend_index);
    terminal_print(terminal, STYLE_BOLD, "Replay on %s, %s", label, info->name);
    if (is_simulated(report)) {
        terminal_print(terminal, STYLE_WARN, " (simulated: times are those of a model)");
    }
    printf("\n");
}

void replay_report_trace(const struct trace *trace, const struct terminal *terminal) {
    char size[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX];
    printf("\n");
    terminal_print(terminal, STYLE_BOLD, "%s", trace->name);
    terminal_print(terminal, STYLE_PLAIN, ": %" PRIu64 " blocks in %s, at most %s live",
                   trace->alloc_count, duration_format(trace_ns(trace), duration),
                   vram_size_format(trace->peak_bytes, size));
    printf("\n");
}

static void print_titles(const struct terminal *terminal) {
    terminal_cell(terminal, STYLE_DIM, POLICY_COLUMNS, "  policy");
    terminal_cell(terminal, STYLE_DIM, BAR_COLUMNS + 1, "held at peak");
    static const char *const titles[] = {"", "ratio", "moved", "moving", "calls", "per op"};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        terminal_print(terminal, STYLE_DIM, "%*s", i == 0 ? SIZE_COLUMNS : NUMBER_COLUMNS,
                       titles[i]);
    }
    printf("\n");
}

/* The colours that peers' figures suggest. */
enum style ratio_style(double ratio) {
    return ratio == 0      ? STYLE_DIM
           : ratio <= 1.02 ? STYLE_GOOD
           : ratio <= 1.25 ? STYLE_WARN
                           : STYLE_BAD;
}

/* Columns of a bar for `part` of `whole`. */
static uint32_t bar_part(uint64_t part, uint64_t whole) {
    return whole > 0 ? (uint32_t)((double)part / (double)whole * BAR_COLUMNS + 0.5) : 0;
}

static void print_run(const struct terminal *terminal, enum style style, uint32_t columns,
                      const char *rich, const char *plain) {
    char text[BAR_COLUMNS * 4 + 1] = "";
    for (uint32_t i = 0; i < columns; i++) {
        text_add(text, sizeof text, terminal->utf8 ? rich : plain);
    }
    terminal_print(terminal, style, "%s", text);
}

/* Full is the largest peak of the trace's passes; what was asked for and what came on top
   differ. */
static void print_bar(const struct terminal *terminal, const struct pass *pass, uint64_t largest) {
    uint32_t full = bar_part(pass->counts.peak_reserved_bytes, largest);
    uint32_t used = bar_part(pass->trace->peak_bytes, largest);
    used = used < full ? used : full;
    print_run(terminal, STYLE_GOOD, used, "\xe2\x96\x88", "#");
    print_run(terminal, STYLE_BAD, full - used, "\xe2\x96\x92", "+");
    print_run(terminal, STYLE_DIM, BAR_COLUMNS - full, "\xe2\x96\x91", ".");
    printf(" ");
}

/* A figure at the right of its column. One that is too wide moves what follows: columns never
   touch. */
static void print_figure(const struct terminal *terminal, enum style style, int columns,
                         const char *text) {
    terminal_print(terminal, style, " %*s", columns - 1, text);
}

static void print_figures(const struct terminal *terminal, const struct pass *pass) {
    char size[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX], text[32] = "-";
    print_figure(terminal, STYLE_PLAIN, SIZE_COLUMNS,
                 vram_size_format(pass->counts.peak_reserved_bytes, size));
    if (pass_ratio(pass) > 0) {
        snprintf(text, sizeof text, "%.3f", pass_ratio(pass));
    }
    print_figure(terminal, ratio_style(pass_ratio(pass)), NUMBER_COLUMNS, text);
    snprintf(text, sizeof text, "%" PRIu64, pass->counts.moved_handles);
    print_figure(terminal, STYLE_PLAIN, NUMBER_COLUMNS, text);
    snprintf(text, sizeof text, "%.2f %%", pass_move_share(pass) * 100);
    print_figure(terminal, STYLE_PLAIN, NUMBER_COLUMNS, text);
    snprintf(text, sizeof text, "%" PRIu64, pass_calls(pass));
    print_figure(terminal, STYLE_PLAIN, NUMBER_COLUMNS, text);
    bool priceless = pass->spent_ns == 0 && pass_calls(pass) > 0; /* simulated, without prices */
    print_figure(terminal, STYLE_PLAIN, NUMBER_COLUMNS,
                 priceless ? "-"
                           : duration_format((uint64_t)(pass_ns_per_op(pass) + 0.5), duration));
}

void pass_print_problem(const struct terminal *terminal, const struct pass *pass) {
    char text[PASS_REASON_MAX + 64];
    if (pass->result != PASS_DONE) {
        snprintf(text, sizeof text, "%s: %s: %s", pass->policy->name,
                 pass->result == PASS_EXHAUSTED ? "does not fit" : "failed", pass->reason);
        terminal_wrap(terminal, STYLE_BAD, 0, text);
    }
}

static void print_pass(const struct replay_report *report, const struct terminal *terminal,
                       const struct pass *pass, uint64_t largest) {
    char name[32];
    snprintf(name, sizeof name, report->repeats > 1 ? "  %s #%" PRIu32 : "  %s", pass->policy->name,
             pass->repeat);
    terminal_cell(terminal, STYLE_ACCENT, POLICY_COLUMNS - 1, "%s", name);
    printf(" ");
    print_bar(terminal, pass, largest);
    print_figures(terminal, pass);
    printf("\n");
    if (pass->result != PASS_DONE) {
        char text[PASS_REASON_MAX + 32];
        snprintf(text, sizeof text, "%s: %s",
                 pass->result == PASS_EXHAUSTED ? "does not fit" : "failed", pass->reason);
        printf("    ");
        terminal_wrap(terminal, STYLE_BAD, 4, text);
    }
    if (report->verify && pass->mismatched_bytes > 0) {
        terminal_print(terminal, STYLE_BAD, "    %" PRIu64 " bytes differ", pass->mismatched_bytes);
        printf("\n");
    }
}

/* The passes of one trace stand together. */
static uint64_t largest_peak(const struct replay_report *report, const struct trace *trace) {
    uint64_t largest = trace->peak_bytes;
    for (size_t i = 0; i < report->pass_count; i++) {
        const struct pass *pass = &report->passes[i];
        if (pass->trace == trace && pass->counts.peak_reserved_bytes > largest) {
            largest = pass->counts.peak_reserved_bytes;
        }
    }
    return largest;
}

void replay_report_verdict(const struct replay_report *report, const struct terminal *terminal) {
    uint64_t wrong = 0;
    bool on_device = false;
    for (size_t i = 0; i < report->pass_count; i++) {
        wrong += report->passes[i].mismatched_bytes;
        on_device = on_device || report->passes[i].device_checked;
    }
    printf("\n");
    terminal_print(terminal, wrong == 0 ? STYLE_GOOD : STYLE_BAD,
                   "every block was filled and checked%s: %" PRIu64 " bytes differ",
                   on_device ? " on the device" : "", wrong);
    printf("\n");
}

void replay_report_print(const struct replay_report *report, const struct terminal *terminal) {
    replay_report_head(report, terminal);
    for (size_t i = 0; i < report->pass_count; i++) {
        const struct pass *pass = &report->passes[i];
        if (i == 0 || pass->trace != report->passes[i - 1].trace) {
            replay_report_trace(pass->trace, terminal);
            print_titles(terminal);
        }
        print_pass(report, terminal, pass, largest_peak(report, pass->trace));
    }
    if (report->verify) {
        replay_report_verdict(report, terminal);
    }
}

/* ----------------------------------------------------------------------- JSON */

/* A figure that has no meaning is null. */
static void write_figure(struct json_out *json, const char *key, double value, bool known) {
    if (known) {
        json_number(json, key, value);
    } else {
        json_null(json, key);
    }
}

static void write_calls(struct json_out *json, const struct pass *pass) {
    json_object_begin(json, "driver_calls");
    for (int i = 0; i < POLICY_CALL_COUNT; i++) {
        json_unsigned(json, policy_call_names[i], pass->counts.calls[i]);
    }
    json_unsigned(json, "total", pass_calls(pass));
    json_object_end(json);
}

static void write_points(struct json_out *json, const char *key, const uint64_t *values,
                         uint32_t count) {
    json_array_begin(json, key);
    for (uint32_t i = 0; i < count; i++) {
        json_unsigned(json, NULL, values[i]);
    }
    json_array_end(json);
}

/* A curve is of the last pass of its trace and policy. */
static void write_curve(const struct replay_report *report, struct json_out *json,
                        const struct pass *pass) {
    bool last = pass->curve != NULL;
    for (const struct pass *later = pass + 1; later < report->passes + report->pass_count;
         later++) {
        last = last && later->curve != pass->curve;
    }
    if (last) {
        uint64_t held[CURVE_COARSE], asked[CURVE_COARSE];
        uint32_t count = curve_coarse(pass->curve, held, asked);
        write_points(json, "held_bytes", held, count);
        write_points(json, "asked_bytes", asked, count);
    }
}

static void write_pass(const struct replay_report *report, struct json_out *json,
                       const struct pass *pass) {
    static const char *const results[] = {
        [PASS_DONE] = "done", [PASS_EXHAUSTED] = "exhausted", [PASS_FAILED] = "failed"};
    bool done = pass->result == PASS_DONE;
    json_object_begin(json, NULL);
    json_text(json, "trace", pass->trace->name);
    json_text(json, "policy", pass->policy->name);
    json_unsigned(json, "repeat", pass->repeat);
    json_text(json, "result", results[pass->result]);
    json_text(json, "reason", done ? NULL : pass->reason);
    json_unsigned(json, "operations", pass->op_count);
    json_unsigned(json, "allocations", pass->trace->alloc_count);
    json_unsigned(json, "queues", pass->trace->queue_count);
    json_unsigned(json, "threads", pass->trace->thread_count);
    json_unsigned(json, "peak_requested_bytes", pass->trace->peak_bytes);
    json_unsigned(json, "peak_reserved_bytes", pass->counts.peak_reserved_bytes);
    write_figure(json, "ratio", pass_ratio(pass), done && pass->trace->peak_bytes > 0);
    json_unsigned(json, "moved_handles", pass->counts.moved_handles);
    json_unsigned(json, "move_ns", pass->counts.move_ns);
    json_unsigned(json, "trace_ns", trace_ns(pass->trace));
    write_figure(json, "move_share", pass_move_share(pass), trace_ns(pass->trace) > 0);
    write_calls(json, pass);
    write_figure(json, "ns_per_op", pass_ns_per_op(pass), pass->op_count > 0);
    if (report->verify) {
        json_text(json, "checked_on", pass->device_checked ? "device" : "host");
        json_unsigned(json, "mismatched_bytes", pass->mismatched_bytes);
    }
    write_curve(report, json, pass);
    json_object_end(json);
}

bool replay_report_write(const struct replay_report *report) {
    const vram_device_info *info = &report->target->info;
    struct json_out json;
    output_json_begin(&json, "vram.replay/1");
    json_text(&json, "backend", info->backend);
    json_unsigned(&json, "device", report->target->index);
    json_text(&json, "device_name", info->name);
    json_text(&json, "clock", is_simulated(report) ? "simulated" : "wall");
    json_value(&json, "memory_bytes",
               report->memory_bytes > 0 ? (vram_value){report->memory_bytes, true}
                                        : info->memory_bytes);
    json_array_begin(&json, "passes");
    for (size_t i = 0; i < report->pass_count; i++) {
        write_pass(report, &json, &report->passes[i]);
    }
    json_array_end(&json);
    if (report->leasts != NULL) {
        least_report_write(report, &json);
    }
    return output_json_end(&json);
}
