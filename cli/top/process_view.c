/* SPDX-License-Identifier: Apache-2.0 */
/* process_view.c: one process: its pools, its tags as a tree, its sizes, its last refusals. */
#include "top/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vram/vram.h>

enum {
    LINES_FIXED = 16,
    BAR_COLUMNS = 20,
    QUOTA_COLUMNS = 16,
    POOL_COLUMNS = 16,
    WORDS_LINES = 8,
    DEPTH_MAX = 8
};

/* Where the next line is drawn. */
struct page_pen {
    struct canvas *canvas;
    const struct view *view;
    const struct machine_process *process;
    int row;
};

static void heading(struct page_pen *pen, const char *text) {
    pen->row++;
    canvas_paint_row(pen->canvas, pen->row, PAINT_HEAD);
    canvas_print(pen->canvas, pen->row++, 0, PAINT_HEAD, "%s", text);
}

static void percent_text(uint64_t part, uint64_t whole, char text[SHORT_SIZE_MAX]) {
    if (part == UNKNOWN || whole == UNKNOWN || whole == 0) {
        snprintf(text, SHORT_SIZE_MAX, "-");
    } else {
        double share = (double)part / (double)whole * 100.0;
        snprintf(text, SHORT_SIZE_MAX, "%.*f%%", share < 99.95 ? 1 : 0, share < 999 ? share : 999);
    }
}

static void rate_text(uint64_t rate, char text[24]) {
    if (rate == UNKNOWN) {
        snprintf(text, 24, "-");
    } else {
        snprintf(text, 24, "%" PRIu64, (rate + 500) / 1000);
    }
}

static const char *device_label_of(const struct page_view *view, uint32_t row, char text[40]) {
    if (row < view->head.devices.count) {
        snprintf(text, 40, "%.15s:%u", view->devices[row].backend,
                 (unsigned)view->devices[row].index);
    } else {
        snprintf(text, 40, "-");
    }
    return text;
}

/* ------------------------------------------------------------------------- head */

static void head_draw(struct page_pen *pen, const struct machine *machine) {
    const struct machine_process *process = pen->process;
    const struct page_view *page = &process->view;
    char user[USER_TEXT_MAX], a[SHORT_SIZE_MAX], b[SHORT_SIZE_MAX], c[SHORT_SIZE_MAX],
        d[SHORT_SIZE_MAX];
    canvas_print(pen->canvas, pen->row++, 0, PAINT_BOLD, "%llu  %s  %s",
                 (unsigned long long)process->pid, user_format(process, user),
                 process->command[0] != 0 ? process->command : "-");
    if (!process->paged) {
        canvas_print(pen->canvas, pen->row++, 0, PAINT_PLAIN,
                     "It has no live page: only its driver knows of it.");
    } else {
        canvas_print(
            pen->canvas, pen->row++, 0, PAINT_PLAIN, "%s %s%s%s",
            page->head.origin == VRAM_LIVE_PAGE_RUN ? "under vram run, libvram" : "libvram",
            page->head.library, page->silent ? ", stopped: its figures are old" : "",
            page->head.tracked_pools > 0 && page->head.tracked_pools != UNKNOWN ? ", tracked" : "");
    }
    canvas_print(pen->canvas, pen->row++, 0, PAINT_PLAIN, "held %s  live %s  cached %s  peak %s",
                 short_size(process->held_bytes, a), short_size(process->live_bytes, b),
                 short_size(process->cached_bytes, c), short_size(process->peak_bytes, d));
    for (uint32_t i = 0; i < process->use_count; i++) {
        const struct machine_use *use = &process->uses[i];
        view_device(pen->view, machine, use->device, process, pen->canvas, pen->row++);
        canvas_print(pen->canvas, pen->row++, 2, PAINT_PLAIN,
                     "held %s, counted by the driver %s, of the host's memory %s",
                     short_size(use->held_bytes, a), short_size(use->driver_bytes, b),
                     short_size(use->other_bytes, c));
    }
}

/* ------------------------------------------------------------------------ pools */

static const struct {
    const char *head;
    int width;
} pool_columns[] = {{"HELD", 6}, {"LIVE", 6}, {"CACHED", 6},  {"ASLEEP", 6}, {"LIMIT", 6},
                    {"PEAK", 6}, {"HITS", 5}, {"ALLOC/S", 7}, {"REFUSED", 7}};

enum { POOL_CELLS = sizeof pool_columns / sizeof pool_columns[0] };

static void cells_draw(struct page_pen *pen, int column, enum paint paint,
                       const char *const cells[POOL_CELLS]) {
    for (int i = 0; i < POOL_CELLS; i++) {
        canvas_right(pen->canvas, pen->row, column, pool_columns[i].width, paint, cells[i]);
        column += pool_columns[i].width + 1;
    }
}

static void pool_draw(struct page_pen *pen, const vram_live_page_pool *pool) {
    const vram_live_page_counts *counts = &pool->counts;
    char sizes[6][SHORT_SIZE_MAX], hits[SHORT_SIZE_MAX], rate[24], refused[24], label[40],
        name[112];
    const uint64_t bytes[6] = {counts->held_bytes,   counts->live_bytes,  counts->cached_bytes,
                               counts->asleep_bytes, counts->limit_bytes, counts->peak_held_bytes};
    for (int i = 0; i < 6; i++) {
        short_size(bytes[i], sizes[i]);
    }
    percent_text(counts->hits, counts->allocs, hits);
    rate_text(counts->alloc_rate, rate);
    snprintf(refused, sizeof refused, counts->refusals == UNKNOWN ? "-" : "%" PRIu64,
             counts->refusals);
    snprintf(name, sizeof name, "%s %s", device_label_of(&pen->process->view, pool->device, label),
             pool->name);
    enum paint paint = pool->pressure_level == VRAM_PRESSURE_UNKNOWN
                           ? PAINT_PLAIN
                           : (enum paint)(PAINT_LOW + (pool->pressure_level - VRAM_PRESSURE_LOW));
    canvas_text(pen->canvas, pen->row, 0, POOL_COLUMNS, paint, name);
    const char *const cells[POOL_CELLS] = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],
                                           sizes[5], hits,     rate,     refused};
    cells_draw(pen, POOL_COLUMNS + 1, PAINT_PLAIN, cells);
    pen->row++;
}

static void pools_draw(struct page_pen *pen) {
    const struct page_view *view = &pen->process->view;
    const char *heads[POOL_CELLS];
    for (int i = 0; i < POOL_CELLS; i++) {
        heads[i] = pool_columns[i].head;
    }
    heading(pen, "POOL");
    pen->row--;
    cells_draw(pen, POOL_COLUMNS + 1, PAINT_HEAD, heads);
    pen->row++;
    for (uint32_t i = 0; i < view->head.pools.count; i++) {
        pool_draw(pen, &view->pools[i]);
    }
    if (view->head.pools.total > view->head.pools.count) {
        canvas_print(pen->canvas, pen->row++, 0, PAINT_DIM, "and %u smaller ones",
                     (unsigned)(view->head.pools.total - view->head.pools.count));
    }
}

/* ------------------------------------------------------------------------- tags */

static int compare_tags(const void *left, const void *right) {
    const vram_live_page_tag *a = *(const vram_live_page_tag *const *)left;
    const vram_live_page_tag *b = *(const vram_live_page_tag *const *)right;
    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    /* A slash sorts before every other character, so that what is below a tag follows it. */
    const char *x = a->name, *y = b->name;
    while (*x != 0 && *x == *y) {
        x++;
        y++;
    }
    int first = *x == '/' ? 1 : (unsigned char)*x, second = *y == '/' ? 1 : (unsigned char)*y;
    return (first > second) - (first < second);
}

/* How many of the tags above it are in the list; and where the rest of its name begins. */
static int tag_depth(const vram_live_page_tag *const *tags, uint32_t at, const char **rest) {
    const char *name = tags[at]->name;
    int depth = 0;
    *rest = name;
    for (uint32_t i = 0; i < at; i++) {
        size_t bytes = strlen(tags[i]->name);
        if (tags[i]->device == tags[at]->device && strncmp(tags[i]->name, name, bytes) == 0 &&
            name[bytes] == '/') {
            depth++;
            *rest = name + bytes + 1;
        }
    }
    return depth < DEPTH_MAX ? depth : DEPTH_MAX;
}

static void quota_draw(struct page_pen *pen, int column, const vram_live_page_tag *tag) {
    uint64_t most = tag->hard_bytes != UNKNOWN ? tag->hard_bytes : tag->soft_bytes;
    char quota[SHORT_SIZE_MAX];
    if (most == UNKNOWN || most == 0 || tag->used_bytes == UNKNOWN) {
        return;
    }
    double share = (double)tag->used_bytes / (double)most;
    int filled = share >= 1 ? QUOTA_COLUMNS : (int)(share * QUOTA_COLUMNS + 0.5);
    canvas_put(pen->canvas, pen->row, column, PAINT_PLAIN, '[');
    for (int i = 0; i < QUOTA_COLUMNS; i++) {
        uint32_t full = pen->canvas->utf8 ? 0x2588 : '#', rest = pen->canvas->utf8 ? 0x2591 : '.';
        canvas_put(pen->canvas, pen->row, column + 1 + i,
                   i < filled ? view_paint(pen->view, share) : PAINT_DIM, i < filled ? full : rest);
    }
    canvas_print(pen->canvas, pen->row, column + QUOTA_COLUMNS + 1, PAINT_PLAIN, "] of %s %s",
                 short_size(most, quota), tag->hard_bytes != UNKNOWN ? "hard" : "soft");
}

static void tag_draw(struct page_pen *pen, const vram_live_page_tag *const *tags, uint32_t at) {
    char used[SHORT_SIZE_MAX], peak[SHORT_SIZE_MAX];
    const char *rest;
    int depth = tag_depth(tags, at, &rest);
    canvas_text(pen->canvas, pen->row, depth * 2, 30 - depth * 2, PAINT_PLAIN, rest);
    canvas_right(pen->canvas, pen->row, 31, 6, PAINT_PLAIN, short_size(tags[at]->used_bytes, used));
    canvas_right(pen->canvas, pen->row, 38, 6, PAINT_DIM, short_size(tags[at]->peak_bytes, peak));
    quota_draw(pen, 46, tags[at]);
    pen->row++;
}

static void tags_draw(struct page_pen *pen) {
    const struct page_view *view = &pen->process->view;
    const vram_live_page_tag *tags[VRAM_LIVE_PAGE_TAGS] = {NULL};
    uint32_t count = view->head.tags.count;
    for (uint32_t i = 0; i < count; i++) {
        tags[i] = &view->tags[i];
    }
    qsort(tags, count, sizeof *tags, compare_tags);
    heading(pen, "TAG");
    pen->row--;
    canvas_right(pen->canvas, pen->row, 31, 6, PAINT_HEAD, "USED");
    canvas_right(pen->canvas, pen->row, 38, 6, PAINT_HEAD, "PEAK");
    canvas_print(pen->canvas, pen->row++, 46, PAINT_HEAD, "QUOTA");
    for (uint32_t i = 0; i < count; i++) {
        tag_draw(pen, tags, i);
    }
    if (count == 0) {
        canvas_print(pen->canvas, pen->row++, 0, PAINT_DIM, "none");
    }
    if (view->head.tags.total > count) {
        canvas_print(pen->canvas, pen->row++, 0, PAINT_DIM, "and %u smaller ones",
                     (unsigned)(view->head.tags.total - count));
    }
}

/* ------------------------------------------------------------------------ sizes */

static void sizes_draw(struct page_pen *pen) {
    const vram_live_page *head = &pen->process->view.head;
    uint64_t most = 0;
    heading(pen, "SIZES OF LIVE BLOCKS");
    for (int i = 0; i < VRAM_LIVE_PAGE_SIZES; i++) {
        uint64_t bytes = head->sizes[i].bytes;
        most = bytes != UNKNOWN && bytes > most ? bytes : most;
    }
    if (most == 0) {
        canvas_print(pen->canvas, pen->row++, 0, PAINT_DIM,
                     head->sizes_ns == 0 ? "not counted yet" : "none");
    }
    for (int i = 0; i < VRAM_LIVE_PAGE_SIZES && most > 0; i++) {
        uint64_t blocks = head->sizes[i].blocks, bytes = head->sizes[i].bytes;
        char limit[SHORT_SIZE_MAX], held[SHORT_SIZE_MAX];
        if (blocks == 0 || blocks == UNKNOWN || bytes == UNKNOWN) {
            continue;
        }
        int filled = (int)((double)bytes / (double)most * BAR_COLUMNS + 0.5);
        filled = filled < 1 ? 1 : filled;
        canvas_print(pen->canvas, pen->row, 0, PAINT_PLAIN, "up to %6s",
                     short_size(UINT64_C(1) << i, limit));
        for (int column = 0; column < filled; column++) {
            canvas_put(pen->canvas, pen->row, 14 + column, PAINT_MEDIUM,
                       pen->canvas->utf8 ? 0x2588 : '#');
        }
        canvas_print(pen->canvas, pen->row++, 15 + BAR_COLUMNS, PAINT_PLAIN,
                     "%7s in %" PRIu64 " block%s", short_size(bytes, held), blocks,
                     blocks == 1 ? "" : "s");
    }
}

/* --------------------------------------------------------------------- refusals */

/* A sentence over as many lines as it needs, broken between words. */
static void words_draw(struct page_pen *pen, const char *text) {
    int width = pen->canvas->columns - 2;
    for (int lines = 0; *text != 0 && lines < WORDS_LINES; lines++) {
        char line[sizeof((vram_live_page_refusal *)0)->text];
        size_t fitting = strcspn(text, " ");
        for (size_t end = fitting; text[end] != 0;) {
            end += strspn(text + end, " ");
            end += strcspn(text + end, " ");
            snprintf(line, sizeof line, "%.*s", (int)end, text);
            if (text_columns(line) > width) {
                break;
            }
            fitting = end;
        }
        snprintf(line, sizeof line, "%.*s", (int)fitting, text);
        canvas_text(pen->canvas, pen->row++, 2, width, PAINT_PLAIN, line);
        text += fitting + strspn(text + fitting, " ");
    }
}

static void refusals_draw(struct page_pen *pen) {
    const struct page_view *view = &pen->process->view;
    heading(pen, "LAST REFUSALS");
    if (view->head.refusals.count == 0) {
        canvas_print(pen->canvas, pen->row++, 0, PAINT_DIM, "none");
    }
    for (uint32_t i = 0; i < view->head.refusals.count; i++) {
        const vram_live_page_refusal *refusal = &view->refusals[i];
        time_t date = (time_t)(refusal->date_ns / 1000000000u);
        struct tm when;
        char clock[16] = "-", size[SHORT_SIZE_MAX];
        if (refusal->date_ns != UNKNOWN) {
            (void)localtime_r(&date, &when); /* of the next 500 years: it is one */
            strftime(clock, sizeof clock, "%H:%M:%S", &when);
        }
        canvas_print(pen->canvas, pen->row++, 0, PAINT_HIGH, "%s  %s in pool %s%s%s: %s", clock,
                     short_size(refusal->bytes, size), refusal->pool,
                     refusal->tag[0] != 0 ? " for " : "", refusal->tag,
                     vram_oom_cause_name((vram_oom_cause)refusal->cause));
        words_draw(pen, refusal->text);
    }
}

bool process_draw(const struct view *view, const struct machine *machine,
                  const struct machine_process *process, int width, struct canvas *canvas) {
    const vram_live_page *head = &process->view.head;
    int rows = LINES_FIXED + (int)(2 * process->use_count + head->pools.count + head->tags.count +
                                   VRAM_LIVE_PAGE_SIZES + (1 + WORDS_LINES) * head->refusals.count);
    struct page_pen pen = {.canvas = canvas, .view = view, .process = process};
    if (!canvas_begin(canvas, rows, width, view->utf8)) {
        return false;
    }
    head_draw(&pen, machine);
    if (process->paged) {
        pools_draw(&pen);
        tags_draw(&pen);
        sizes_draw(&pen);
        refusals_draw(&pen);
    }
    canvas->rows = pen.row < rows ? pen.row : rows;
    return true;
}
