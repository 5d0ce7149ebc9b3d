/* SPDX-License-Identifier: Apache-2.0 */
/*
 * picture_svg.c: the picture of a replay as a file for pages and slides: one row of panels for each
 * trace.
 */
#include "picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Pixels. */
enum {
    PANEL_WIDTH = 2 * CURVE_COARSE,
    PANEL_HEIGHT = 200,
    MARGIN = 24,
    SCALE_WIDTH = 90, /* of the sizes at the left */
    GAP = 28,
    HEAD_HEIGHT = 84, /* above the panels of a trace */
    FOOT_HEIGHT = 76, /* below them */
    TRACE_HEIGHT = HEAD_HEIGHT + PANEL_HEIGHT + FOOT_HEIGHT,
    LEGEND_HEIGHT = 32
};

static const char ink[] = "#24292f", faint[] = "#57606a", within[] = "#2f7d5b",
                  beyond[] = "#c98a3a";

/* Text of others' making, as XML has it. */
static void write_escaped(FILE *to, const char *text) {
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f || strchr("<>&\"'", c) != NULL) {
            fprintf(to, "&#%d;", c < 0x20 || c >= 0x7f ? '?' : c);
        } else {
            fputc(c, to);
        }
    }
}

static void write_text(FILE *to, uint32_t x, uint32_t y, const char *style, const char *text) {
    fprintf(to, "<text x=\"%" PRIu32 "\" y=\"%" PRIu32 "\" %s>", x, y, style);
    write_escaped(to, text);
    fprintf(to, "</text>\n");
}

static double height_of(uint64_t value, uint64_t top) {
    return (double)value / (double)top * PANEL_HEIGHT;
}

/* The area below one of a pass's two lines; parts of one height are one step. */
static void write_area(FILE *to, const uint64_t *values, uint32_t count, uint32_t x, uint32_t floor,
                       uint64_t top, const char *color) {
    fprintf(to, "<path fill=\"%s\" d=\"M%" PRIu32 " %" PRIu32, color, x, floor);
    for (uint32_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && values[next] == values[i];) {
            next++;
        }
        fprintf(to, "V%.1fh%" PRIu32, (double)floor - height_of(values[i], top), 2 * (next - i));
    }
    fprintf(to, "V%" PRIu32 "Z\"/>\n", floor);
}

static void write_panel(FILE *to, const struct pass *pass, uint32_t x, uint32_t y, uint64_t top) {
    char text[160], size[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX];
    uint32_t floor = y + PANEL_HEIGHT;
    bool timed = pass->spent_ns > 0 || pass_calls(pass) == 0;
    uint64_t held[CURVE_COARSE], asked[CURVE_COARSE];
    fprintf(to,
            "<rect x=\"%" PRIu32 "\" y=\"%" PRIu32
            "\" width=\"%d\" height=\"%d\" fill=\"#f6f8fa\"/>\n",
            x, y, PANEL_WIDTH, PANEL_HEIGHT);
    uint32_t count = curve_coarse(pass->curve, held, asked);
    write_area(to, held, count, x, floor, top, beyond);
    write_area(to, asked, count, x, floor, top, within);
    snprintf(text, sizeof text, "font-size=\"15\" font-weight=\"bold\" fill=\"%s\"", ink);
    write_text(to, x, floor + 22, text, pass->policy->name);
    vram_size_format(pass->counts.peak_reserved_bytes, size);
    if (pass_ratio(pass) > 0) {
        snprintf(text, sizeof text, "peak %s, ratio %.3f", size, pass_ratio(pass));
    } else {
        snprintf(text, sizeof text, "peak %s, %s", size,
                 pass->result == PASS_EXHAUSTED ? "does not fit" : "not done");
    }
    write_text(to, x, floor + 42, "font-size=\"13\"", text);
    snprintf(text, sizeof text, "%" PRIu64 " driver calls%s%s", pass_calls(pass),
             timed ? ", took " : "", timed ? duration_format(pass->spent_ns, duration) : "");
    write_text(to, x, floor + 60, "font-size=\"13\"", text);
}

/* The program's own peak, through all panels. */
static void write_line(FILE *to, uint64_t asked, uint64_t top, uint32_t y, uint32_t right) {
    char size[VRAM_SIZE_TEXT_MAX];
    uint32_t at = y + PANEL_HEIGHT - (uint32_t)height_of(asked, top);
    fprintf(to,
            "<line x1=\"%d\" y1=\"%" PRIu32 "\" x2=\"%" PRIu32 "\" y2=\"%" PRIu32
            "\" stroke=\"%s\" stroke-dasharray=\"4 3\"/>\n",
            MARGIN + SCALE_WIDTH, at, right, at, ink);
    write_text(to, MARGIN, at + 4, "font-size=\"12\"", vram_size_format(asked, size));
}

static void write_trace(FILE *to, const struct trace *trace, const struct pass *const *panels,
                        size_t count, uint32_t y) {
    char text[200], duration[DURATION_TEXT_MAX], size[VRAM_SIZE_TEXT_MAX];
    uint64_t top = picture_top(panels, count);
    uint32_t left = MARGIN + SCALE_WIDTH, right = left;
    snprintf(text, sizeof text, "font-size=\"17\" font-weight=\"bold\" fill=\"%s\"", ink);
    write_text(to, MARGIN, y + 32, text, trace->name);
    snprintf(text, sizeof text, "%" PRIu64 " blocks in %s, at most %s live", trace->alloc_count,
             duration_format(trace_ns(trace), duration), vram_size_format(trace->peak_bytes, size));
    write_text(to, MARGIN, y + 54, "font-size=\"13\"", text);
    for (size_t i = 0; i < count; i++) {
        uint32_t x = left + (uint32_t)i * (PANEL_WIDTH + GAP);
        write_panel(to, panels[i], x, y + HEAD_HEIGHT, top);
        right = x + PANEL_WIDTH;
    }
    if (top > trace->peak_bytes + trace->peak_bytes / 10) {
        write_text(to, MARGIN, y + HEAD_HEIGHT + 12, "font-size=\"12\"",
                   vram_size_format(top, size));
    }
    write_line(to, trace->peak_bytes, top, y + HEAD_HEIGHT, right);
}

static void write_legend(FILE *to, uint32_t y) {
    static const char *const words[] = {"asked for by the program", "held beyond that"};
    const char *const colors[] = {within, beyond};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t x = MARGIN + SCALE_WIDTH + i * 190;
        fprintf(to,
                "<rect x=\"%" PRIu32 "\" y=\"%" PRIu32 "\" width=\"12\" height=\"12\" rx=\"2\" "
                "fill=\"%s\"/>\n",
                x, y, colors[i]);
        write_text(to, x + 18, y + 11, "font-size=\"12\"", words[i]);
    }
}

static void write_svg(FILE *to, const struct replay_report *report) {
    const struct pass *panels[PICTURE_PANELS_MAX];
    const struct trace *last = NULL;
    uint32_t width = 0, height = LEGEND_HEIGHT;
    for (size_t i = 0; i < report->pass_count; i++) {
        if (report->passes[i].trace != last) {
            last = report->passes[i].trace;
            size_t count = picture_panels(report, last, panels);
            uint32_t needed =
                2 * MARGIN + SCALE_WIDTH + (uint32_t)count * (PANEL_WIDTH + GAP) - GAP;
            width = needed > width ? needed : width;
            height += TRACE_HEIGHT;
        }
    }
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %" PRIu32 " %" PRIu32
            "\" width=\"%" PRIu32 "\" height=\"%" PRIu32 "\" role=\"img\" fill=\"%s\" "
            "font-family=\"system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif\">\n"
            "<title>Memory held over time, by policy</title>\n"
            "<rect width=\"%" PRIu32 "\" height=\"%" PRIu32 "\" rx=\"8\" fill=\"#ffffff\"/>\n",
            width, height, width, height, faint, width, height);
    write_legend(to, height - LEGEND_HEIGHT);
    last = NULL;
    height = 0;
    for (size_t i = 0; i < report->pass_count; i++) {
        if (report->passes[i].trace != last) {
            last = report->passes[i].trace;
            write_trace(to, last, panels, picture_panels(report, last, panels), height);
            height += TRACE_HEIGHT;
        }
    }
    fprintf(to, "</svg>\n");
}

bool picture_write(const struct replay_report *report, const char *path) {
    FILE *to = output_create(path);
    bool good = to != NULL;
    if (good) {
        write_svg(to, report);
        good = !ferror(to);
        good = fclose(to) == 0 && good;
    }
    if (!good) {
        say_error("cannot write the picture to %s: %s", path, strerror(errno));
        remove_file(path);
    }
    return good;
}
