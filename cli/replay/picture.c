/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture.c: see picture.h. The terminal's side of it.
 *
 *   13.9 GiB |      ##   ###  |   ++++++++++++
 *            | ##########  ## | ++####++####++
 *          0 +----------------+----------------
 */
#include "picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 10, LABEL_COLUMNS = 10, GAP_COLUMNS = 2, PANEL_LEAST = 18, PANEL_MOST = 60 };

/* ---------------------------------------------------------------------- panels */

size_t picture_panels(const struct replay_report *report, const struct trace *trace,
                      const struct pass *panels[PICTURE_PANELS_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < report->pass_count; i++) {
        const struct pass *pass = &report->passes[i];
        if (pass->trace != trace || pass->curve == NULL) {
            continue;
        }
        if (count > 0 && panels[count - 1]->policy == pass->policy) {
            count--; /* a later pass of the same */
        }
        if (count < PICTURE_PANELS_MAX) {
            panels[count++] = pass;
        }
    }
    return count;
}

uint64_t picture_top(const struct pass *const *panels, size_t count) {
    uint64_t top = 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t most = curve_most(panels[i]->curve);
        top = most > top ? most : top;
        top = panels[i]->trace->peak_bytes > top ? panels[i]->trace->peak_bytes : top;
    }
    return top;
}

/* ----------------------------------------------------------------------- cells */

/* A cell of a panel: eighths of it that are full, or held beyond what was asked for. */
enum { CELL_EMPTY = 0, CELL_FULL = 8, CELL_EXTRA = 9 };

/* How much of row `row` (0 is the lowest) a value fills, 0 to 1. */
static double filled(uint64_t value, uint64_t top, uint32_t row) {
    double rows = (double)value / (double)top * ROWS - row;
    return rows < 0 ? 0 : rows > 1 ? 1 : rows;
}

static uint32_t cell_of(const struct pass *pass, uint32_t column, uint32_t columns, uint32_t row,
                        uint64_t top) {
    uint64_t held, asked;
    curve_column(pass->curve, column, columns, &held, &asked);
    double full = filled(held, top, row);
    double within = filled(asked < held ? asked : held, top, row);
    if (full - within > within) { /* most of what is in it was not asked for */
        return full >= 0.5 ? CELL_EXTRA : CELL_EMPTY;
    }
    return (uint32_t)(full * CELL_FULL + 0.5);
}

static const char *cell_text(const struct terminal *terminal, uint32_t cell) {
    static const char *const blocks[] = {
        " ",
        "\xe2\x96\x81",
        "\xe2\x96\x82",
        "\xe2\x96\x83",
        "\xe2\x96\x84",
        "\xe2\x96\x85",
        "\xe2\x96\x86",
        "\xe2\x96\x87",
        "\xe2\x96\x88",
        "\xe2\x96\x92",
    };
    if (terminal->utf8) {
        return blocks[cell];
    }
    return cell == CELL_EXTRA ? "+" : cell >= CELL_FULL / 2 ? "#" : " ";
}

/* One row of one panel; cells of one style are printed together. */
static void print_row(const struct terminal *terminal, const struct pass *pass, uint32_t columns,
                      uint32_t row, uint64_t top) {
    char text[PANEL_MOST * 4 + 1] = "";
    bool extra = false;
    for (uint32_t i = 0; i < columns; i++) {
        uint32_t cell = cell_of(pass, i, columns, row, top);
        if ((cell == CELL_EXTRA) != extra) {
            terminal_print(terminal, extra ? STYLE_BAD : STYLE_GOOD, "%s", text);
            text[0] = 0;
            extra = !extra;
        }
        text_add(text, sizeof text, cell_text(terminal, cell));
    }
    terminal_print(terminal, extra ? STYLE_BAD : STYLE_GOOD, "%s", text);
}

/* ------------------------------------------------------------------------ frame */

/* The top says what it stands for, and so does the row that the program's own peak is in. */
static void print_label(const struct terminal *terminal, uint32_t row, uint64_t top,
                        uint64_t asked) {
    uint32_t asked_row = (uint32_t)((double)asked / (double)top * ROWS);
    char size[VRAM_SIZE_TEXT_MAX] = "";
    if (row == ROWS - 1) {
        vram_size_format(top, size);
    } else if (row == asked_row) {
        vram_size_format(asked, size);
    }
    terminal_print(terminal, STYLE_DIM, "%*s %s", LABEL_COLUMNS, size,
                   terminal->utf8 ? "\xe2\x94\x82" : "|");
}

static void print_floor(const struct terminal *terminal, size_t count, uint32_t columns) {
    terminal_print(terminal, STYLE_DIM, "%*s %s", LABEL_COLUMNS, "0",
                   terminal->utf8 ? "\xe2\x94\x94" : "+");
    for (size_t i = 0; i < count; i++) {
        char text[PANEL_MOST * 4 + 1] = "";
        for (uint32_t k = 0; k < columns; k++) {
            text_add(text, sizeof text, terminal->utf8 ? "\xe2\x94\x80" : "-");
        }
        terminal_print(terminal, STYLE_DIM, "%s", text);
        printf("%*s", i + 1 < count ? GAP_COLUMNS : 0, "");
    }
    printf("\n");
}

enum line { LINE_NAME, LINE_PEAK, LINE_RATIO, LINE_TIME, LINE_CALLS, LINE_COUNT };

/* What stands below a panel. Times of a simulation without prices are none. */
static void print_line(const struct terminal *terminal, const struct pass *pass, enum line line,
                       uint32_t columns) {
    char text[96] = "";
    enum style style = STYLE_PLAIN;
    switch (line) {
    case LINE_NAME:
        style = STYLE_BOLD;
        snprintf(text, sizeof text, "%s", pass->policy->name);
        break;
    case LINE_PEAK: {
        char size[VRAM_SIZE_TEXT_MAX];
        snprintf(text, sizeof text, "peak %s",
                 vram_size_format(pass->counts.peak_reserved_bytes, size));
        break;
    }
    case LINE_RATIO:
        style = ratio_style(pass_ratio(pass));
        if (pass_ratio(pass) > 0) {
            snprintf(text, sizeof text, "ratio %.3f", pass_ratio(pass));
        } else {
            snprintf(text, sizeof text, "%s",
                     pass->result == PASS_EXHAUSTED ? "does not fit" : "ratio -");
        }
        break;
    case LINE_TIME: {
        char duration[DURATION_TEXT_MAX];
        bool known = pass->spent_ns > 0 || pass_calls(pass) == 0;
        uint64_t whole = trace_ns(pass->trace);
        snprintf(text, sizeof text, "took %s",
                 known ? duration_format(pass->spent_ns, duration) : "-");
        if (pass->spent_ns > 0 && whole > 0) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, ", %.1f %%",
                     100.0 * (double)pass->spent_ns / (double)whole);
        }
        break;
    }
    default:
        snprintf(text, sizeof text, "%" PRIu64 " driver calls", pass_calls(pass));
    }
    terminal_cell(terminal, style, columns, "%s", text);
}

static void print_panels(const struct terminal *terminal, const struct pass *const *panels,
                         size_t count, uint32_t columns, uint64_t top) {
    for (uint32_t row = ROWS; row-- > 0;) {
        print_label(terminal, row, top, panels[0]->trace->peak_bytes);
        for (size_t i = 0; i < count; i++) {
            print_row(terminal, panels[i], columns, row, top);
            printf("%*s", i + 1 < count ? GAP_COLUMNS : 0, "");
        }
        printf("\n");
    }
    print_floor(terminal, count, columns);
    for (int line = 0; line < LINE_COUNT; line++) {
        printf("%*s", LABEL_COLUMNS + 2, "");
        for (size_t i = 0; i < count; i++) {
            bool last = i + 1 == count;
            print_line(terminal, panels[i], (enum line)line, last ? 0 : columns + GAP_COLUMNS);
        }
        printf("\n");
    }
}

static void print_legend(const struct terminal *terminal, const struct trace *trace) {
    char duration[DURATION_TEXT_MAX];
    printf("\n%*s", LABEL_COLUMNS + 2, "");
    terminal_print(terminal, STYLE_GOOD, "%s", cell_text(terminal, CELL_FULL));
    terminal_print(terminal, STYLE_DIM, " what the program had asked for, over its time  ");
    terminal_print(terminal, STYLE_BAD, "%s", cell_text(terminal, CELL_EXTRA));
    terminal_print(terminal, STYLE_DIM, " held beyond that");
    printf("\n");
    if (trace_ns(trace) > 0) {
        printf("%*s", LABEL_COLUMNS + 2, "");
        terminal_print(terminal, STYLE_DIM, "%% of the program's own %s",
                       duration_format(trace_ns(trace), duration));
        printf("\n");
    }
}

/* As many panels in a row as have room, all equally wide. */
static void print_trace(const struct replay_report *report, const struct terminal *terminal,
                        const struct trace *trace) {
    const struct pass *panels[PICTURE_PANELS_MAX];
    size_t count = picture_panels(report, trace, panels);
    uint32_t room = terminal->width - LABEL_COLUMNS - 2;
    size_t abreast = (room + GAP_COLUMNS) / (PANEL_LEAST + GAP_COLUMNS);
    abreast = abreast < 1 ? 1 : abreast < count ? abreast : count;
    if (count == 0) {
        return;
    }
    uint32_t columns = (room + GAP_COLUMNS) / (uint32_t)abreast - GAP_COLUMNS;
    columns = columns < PANEL_MOST ? columns : PANEL_MOST;
    uint64_t top = picture_top(panels, count);
    for (size_t i = 0; i < count; i += abreast) {
        printf("\n");
        print_panels(terminal, panels + i, count - i < abreast ? count - i : abreast, columns, top);
    }
    print_legend(terminal, trace);
    for (size_t i = 0; i < count; i++) {
        pass_print_problem(terminal, panels[i]);
    }
}

void picture_print(const struct replay_report *report, const struct terminal *terminal) {
    const struct trace *last = NULL;
    replay_report_head(report, terminal);
    for (size_t i = 0; i < report->pass_count; i++) {
        const struct trace *trace = report->passes[i].trace;
        if (trace != last) {
            replay_report_trace(trace, terminal);
            print_trace(report, terminal, trace);
            last = trace;
        }
    }
    if (report->verify) {
        replay_report_verdict(report, terminal);
    }
}
