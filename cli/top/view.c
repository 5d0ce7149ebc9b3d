/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: see view.h. */
#include "top/view.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <vram/vram.h>

enum {
    NAME_COLUMNS = 27,    /* of a device, before its bar */
    FIGURE_COLUMNS = 20,  /* behind it */
    COMMAND_COLUMNS = 10, /* that the last column of the table has at least */
    PLOT_ROWS_MAX = 8,
    PLOT_COLUMNS_MIN = 36,
    LEGEND_COLUMNS = 28,
    TABLE_ROWS_MIN = 5, /* processes that are shown before there is a plot */
    ROWS_LEAST = 6,
    COLUMNS_LEAST = 40
};

/* ------------------------------------------------------------------- arrangement */

void view_arrange(struct view *view, const struct machine *machine) {
    view->row_count = column_sort(machine, view->sort, view->reversed, view->filter, view->order);
    uint32_t row = 0;
    while (row < view->row_count && machine->processes[view->order[row]].pid != view->chosen) {
        row++;
    }
    /* A process that has ended leaves the selection where it was. */
    if (row < view->row_count && view->chosen != 0) {
        view->row = row;
    } else {
        view->row = view->chosen == 0             ? 0
                    : view->row < view->row_count ? view->row
                    : view->row_count > 0         ? view->row_count - 1
                                                  : 0;
    }
}

const struct machine_process *view_process(const struct view *view, const struct machine *machine) {
    if (view->mode != VIEW_TABLE) {
        for (uint32_t i = 0; i < machine->process_count; i++) {
            if (machine->processes[i].pid == view->chosen) {
                return &machine->processes[i];
            }
        }
        return NULL;
    }
    return view->row < view->row_count ? &machine->processes[view->order[view->row]] : NULL;
}

enum paint view_paint(const struct view *view, double share) {
    enum paint paint = PAINT_LOW;
    for (int i = 0; i < THRESHOLDS; i++) {
        paint = share * 100 >= view->thresholds[i] ? (enum paint)(PAINT_MEDIUM + i) : paint;
    }
    return paint;
}

/* ------------------------------------------------------------------------- bars */

/* The parts of a bar, in the order in which they are drawn. */
enum bar_part { BAR_THIS, BAR_PAGED, BAR_OTHERS, BAR_FREE, BAR_PARTS };

static const struct {
    uint32_t character, ascii;
} bar_marks[BAR_PARTS] = {{0x2588, '#'}, {0x2593, '='}, {0x2592, '-'}, {0x2591, '.'}};

/* Bytes of each part; false: not known. */
static bool bar_split(const struct machine_device *device, const struct machine_use *chosen,
                      uint64_t parts[BAR_PARTS]) {
    uint64_t others = machine_others(device);
    if (others == UNKNOWN || device->total_bytes == 0) {
        return false;
    }
    uint64_t held =
        device->held_bytes < machine_used(device) ? device->held_bytes : machine_used(device);
    bool paged = chosen != NULL && chosen->held_bytes != UNKNOWN;
    uint64_t own = chosen == NULL                    ? 0
                   : paged                           ? chosen->held_bytes
                   : chosen->driver_bytes != UNKNOWN ? chosen->driver_bytes
                                                     : 0;
    uint64_t from = paged || chosen == NULL ? held : others;
    own = own < from ? own : from;
    parts[BAR_THIS] = own;
    parts[BAR_PAGED] = held - (paged ? own : 0);
    parts[BAR_OTHERS] = others - (paged ? 0 : own);
    parts[BAR_FREE] = device->total_bytes - machine_used(device);
    return true;
}

/* Boundaries are rounded, not parts: so the parts always fill the bar, and none shifts another. */
static void bar_draw(const struct view *view, struct canvas *canvas, int row, int column, int width,
                     const uint64_t parts[BAR_PARTS], uint64_t total) {
    double sum = 0;
    int at = 0;
    double used = 1.0 - (double)parts[BAR_FREE] / (double)total;
    for (int part = 0; part < BAR_PARTS; part++) {
        sum += (double)parts[part];
        int end = (int)(sum / (double)total * width + 0.5);
        end = part == BAR_FREE || end > width ? width : end;
        end = parts[part] > 0 && end == at && at < width ? at + 1 : end;
        enum paint paint = part == BAR_FREE     ? PAINT_DIM
                           : part == BAR_OTHERS ? PAINT_OTHERS
                                                : view_paint(view, used);
        for (; at < end; at++) {
            canvas_put(canvas, row, column + at, paint,
                       canvas->utf8 ? bar_marks[part].character : bar_marks[part].ascii);
        }
    }
}

void view_device(const struct view *view, const struct machine *machine, uint32_t index,
                 const struct machine_process *process, struct canvas *canvas, int row) {
    const struct machine_device *device = &machine->devices[index];
    const struct machine_use *use = process != NULL ? machine_use_of(process, index) : NULL;
    uint64_t parts[BAR_PARTS];
    char name[192], used[SHORT_SIZE_MAX], total[SHORT_SIZE_MAX], figures[64];
    int width = canvas->columns - NAME_COLUMNS - FIGURE_COLUMNS - 3;
    snprintf(name, sizeof name, "%s %s", device->label, device->name);
    canvas_text(canvas, row, 0, NAME_COLUMNS, PAINT_BOLD, name);
    canvas_put(canvas, row, NAME_COLUMNS + 1, PAINT_PLAIN, '[');
    canvas_put(canvas, row, NAME_COLUMNS + 2 + width, PAINT_PLAIN, ']');
    bool known = bar_split(device, use, parts);
    if (known) {
        bar_draw(view, canvas, row, NAME_COLUMNS + 2, width, parts, device->total_bytes);
    } else { /* an empty bar would say that all is free */
        canvas_text(canvas, row, NAME_COLUMNS + 3, width - 1, PAINT_DIM, "unknown");
    }
    double share = known ? (double)machine_used(device) / (double)device->total_bytes : 0;
    snprintf(figures, sizeof figures, known ? "%s/%s %3.0f%%" : "%s/%s   -",
             short_size(machine_used(device), used), short_size(device->total_bytes, total),
             share * 100);
    canvas_right(canvas, row, canvas->columns - FIGURE_COLUMNS, FIGURE_COLUMNS,
                 known ? view_paint(view, share) : PAINT_DIM, figures);
}

/* ------------------------------------------------------------------------ plots */

/* One column of a plot: eighths of a row in UTF-8, halves else. */
static void plot_column(const struct view *view, struct canvas *canvas, int row, int column,
                        int rows, uint16_t thousandths) {
    int fine = canvas->utf8 ? 8 : 2;
    int filled = (int)((double)thousandths / 1000.0 * rows * fine + 0.5);
    filled = filled == 0 && thousandths > 0 ? 1 : filled;
    for (int i = 0; i < rows && filled > 0; i++, filled -= fine) {
        int part = filled < fine ? filled : fine;
        uint32_t mark = canvas->utf8 ? 0x2580u + (uint32_t)part : part == fine ? '#' : ':';
        canvas_put(canvas, row + rows - 1 - i, column, view_paint(view, thousandths / 1000.0),
                   mark);
    }
}

static void plot_draw(const struct view *view, const struct machine_device *device,
                      struct canvas *canvas, int row, int column, int rows, int width) {
    canvas_right(canvas, row, column, 4, PAINT_DIM, "100%");
    canvas_right(canvas, row + rows - 1, column, 4, PAINT_DIM, "0%");
    for (int i = 0; i < rows; i++) {
        canvas_put(canvas, row + i, column + 4, PAINT_DIM, canvas->utf8 ? 0x2502 : '|');
    }
    for (int ago = 0; ago < width - 6; ago++) {
        uint16_t sample = past_sample(&view->past, device, (uint64_t)ago);
        if (sample != HISTORY_UNKNOWN) {
            plot_column(view, canvas, row, column + width - 2 - ago, rows, sample);
        }
    }
    canvas_text(canvas, row, column + 6, width - 8, PAINT_DIM, device->label);
}

static int plots_shown(const struct machine *machine, int columns) {
    int most = columns / PLOT_COLUMNS_MIN;
    return machine->device_count < (uint32_t)most ? (int)machine->device_count : most;
}

/* ------------------------------------------------------------------------ table */

/* Which columns fit: those of the highest rank are left out first, from the right. */
static void columns_choose(int width, bool shown[COLUMN_COUNT]) {
    int needed = COMMAND_COLUMNS - 1;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        shown[i] = true;
        needed += i != COLUMN_COMMAND ? top_columns[i].width + 1 : 1;
    }
    for (int rank = 7; rank > 0; rank--) {
        for (int i = COLUMN_COUNT - 1; i >= 0 && needed > width; i--) {
            if (shown[i] && top_columns[i].rank == rank) {
                shown[i] = false;
                needed -= top_columns[i].width + 1;
            }
        }
    }
}

static void cell_draw(struct canvas *canvas, int row, int *column, int id, enum paint paint,
                      const char *text) {
    int width = id == COLUMN_COMMAND ? canvas->columns - *column : top_columns[id].width;
    if (top_columns[id].left) {
        canvas_text(canvas, row, *column, width, paint, text);
    } else {
        canvas_right(canvas, row, *column, width, paint, text);
    }
    *column += width + 1;
}

static void head_draw(const struct view *view, struct canvas *canvas, int row,
                      const bool shown[COLUMN_COUNT]) {
    int column = 0;
    canvas_paint_row(canvas, row, PAINT_HEAD);
    for (int i = 0; i < COLUMN_COUNT; i++) {
        if (shown[i]) {
            cell_draw(canvas, row, &column, i,
                      i == (int)view->sort && view->interactive ? PAINT_CHOSEN : PAINT_HEAD,
                      top_columns[i].head);
        }
    }
}

static enum paint level_paint(uint32_t level) {
    return level == VRAM_PRESSURE_UNKNOWN ? PAINT_DIM
                                          : (enum paint)(PAINT_LOW + (level - VRAM_PRESSURE_LOW));
}

static void process_row_draw(const struct machine *machine, const struct machine_process *process,
                             struct canvas *canvas, int row, const bool shown[COLUMN_COUNT],
                             bool chosen) {
    int column = 0;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        char text[CELL_BYTES];
        if (shown[i]) {
            enum paint paint = i == COLUMN_PRESSURE ? level_paint(process->level)
                               : process->paged     ? PAINT_PLAIN
                                                    : PAINT_DIM;
            cell_draw(canvas, row, &column, i, paint,
                      column_format(machine, process, (enum column_id)i, text));
        }
    }
    if (chosen) {
        canvas_paint_row(canvas, row, PAINT_CHOSEN);
    }
}

static void table_draw(struct view *view, const struct machine *machine, struct canvas *canvas,
                       int row, int rows) {
    bool shown[COLUMN_COUNT];
    columns_choose(canvas->columns, shown);
    head_draw(view, canvas, row, shown);
    view->page = rows > 1 ? (uint32_t)rows - 1 : 1;
    if (view->row < view->first) {
        view->first = view->row;
    } else if (view->row >= view->first + view->page) {
        view->first = view->row - view->page + 1;
    }
    for (uint32_t i = 0; i < view->page && view->first + i < view->row_count; i++) {
        uint32_t at = view->first + i;
        process_row_draw(machine, &machine->processes[view->order[at]], canvas, row + 1 + (int)i,
                         shown, view->interactive && at == view->row);
    }
    if (view->row_count == 0) {
        canvas_print(canvas, row + 1, 0, PAINT_DIM, "%s",
                     view->filter[0] != 0 ? "no process matches the filter"
                                          : "no process uses libvram, and no driver names one");
    }
}

/* ----------------------------------------------------------------------- screens */

/* What the marks in bars mean. "this" is the selected process, if one is. */
static void legend_draw(const struct view *view, struct canvas *canvas) {
    static const char *const names[BAR_PARTS] = {"this", "libvram", "others", "free"};
    int column = canvas->columns - LEGEND_COLUMNS;
    for (int part = 0; part < BAR_PARTS; part++) {
        if (part == BAR_THIS && !view->interactive && view->mode == VIEW_TABLE) {
            column += (int)strlen(names[part]) + 2;
            continue;
        }
        canvas_put(canvas, 0, column++, PAINT_PLAIN,
                   canvas->utf8 ? bar_marks[part].character : bar_marks[part].ascii);
        column = canvas_print(canvas, 0, column, PAINT_DIM, "%s", names[part]) + 1;
    }
}

static void title_draw(const struct view *view, const struct machine *machine,
                       struct canvas *canvas) {
    time_t now = (time_t)(machine->now_ns / 1000000000u);
    struct tm when;
    char clock[16] = "";
    uint32_t paged = 0;
    for (uint32_t i = 0; i < machine->process_count; i++) {
        paged += machine->processes[i].paged;
    }
    (void)localtime_r(&now, &when); /* of the next 500 years: it is one */
    strftime(clock, sizeof clock, "%H:%M:%S", &when);
    int column = canvas_print(canvas, 0, 0, PAINT_BOLD, "vram top");
    column = canvas_print(canvas, 0, column, PAINT_PLAIN, "  %s  %u process%s, %u with libvram",
                          clock, (unsigned)machine->process_count,
                          machine->process_count == 1 ? "" : "es", (unsigned)paged);
    if (machine->cut || machine->silent) {
        column = canvas_print(canvas, 0, column, PAINT_HIGH,
                              machine->silent ? ", NVML does not answer" : ", not all shown");
    }
    if (view->filter[0] != 0 && !view->typing) {
        column = canvas_print(canvas, 0, column, PAINT_HIGH, "  filter: %s", view->filter);
    }
    if (view->paused) {
        canvas_right(canvas, 0, canvas->columns - 8, 8, PAINT_HIGH, "PAUSED");
    } else if (canvas->columns - column > LEGEND_COLUMNS) {
        legend_draw(view, canvas);
    }
}

static void keys_draw(const struct view *view, struct canvas *canvas) {
    static const struct {
        const char *key, *what;
    } table_keys[] = {{"F1", "Help"},   {"F4", "Filter"}, {"F5", "Refresh"}, {"F6", "Sort"},
                      {"<>", "Column"}, {"I", "Invert"},  {"Enter", "Open"}, {"F10", "Quit"}},
      page_keys[] = {{"Esc", "Back"}, {"F1", "Help"}, {"F5", "Refresh"}, {"F10", "Quit"}};
    int row = canvas->rows - 1, column = 0;
    if (view->typing) {
        column = canvas_print(canvas, row, 0, PAINT_BOLD, "Filter: %s", view->filter);
        canvas_put(canvas, row, column, PAINT_CHOSEN, '_');
        return;
    }
    bool table = view->mode == VIEW_TABLE;
    size_t count =
        table ? sizeof table_keys / sizeof *table_keys : sizeof page_keys / sizeof *page_keys;
    for (size_t i = 0; i < count; i++) {
        const char *key = table ? table_keys[i].key : page_keys[i].key;
        const char *what = table ? table_keys[i].what : page_keys[i].what;
        column = canvas_print(canvas, row, column, PAINT_BOLD, "%s", key);
        column = canvas_print(canvas, row, column, PAINT_KEY, "%-6s", what) + 1;
    }
}

static void overview_draw(struct view *view, const struct machine *machine, struct canvas *canvas) {
    const struct machine_process *chosen = view->interactive ? view_process(view, machine) : NULL;
    int bottom = canvas->rows - (view->interactive ? 1 : 0);
    int row = 1;
    int room = (bottom - TABLE_ROWS_MIN - 2) / 2;
    int devices = (int)machine->device_count;
    int shown = !view->interactive || devices <= room ? devices : room > 0 ? room : 1;
    shown = shown < devices ? shown : devices;
    for (int i = 0; i < shown; i++) {
        view_device(view, machine, (uint32_t)i, chosen, canvas, row++);
    }
    if (shown < devices) {
        canvas_print(canvas, row++, 0, PAINT_DIM, "and %d more devices", devices - shown);
    }
    int plots = view->plots && view->interactive ? plots_shown(machine, canvas->columns) : 0;
    int rows = (bottom - row - TABLE_ROWS_MIN - 1) / 2;
    rows = rows > PLOT_ROWS_MAX ? PLOT_ROWS_MAX : rows;
    if (plots > 0 && rows >= 2) {
        int width = canvas->columns / plots;
        for (int i = 0; i < plots; i++) {
            plot_draw(view, &machine->devices[i], canvas, row, i * width, rows, width);
        }
        row += rows;
    }
    table_draw(view, machine, canvas, row, bottom - row);
}

static const char *const help_lines[] = {
    "Memory bars: the selected process, other processes with libvram, others, free.",
    "",
    "  Up Down j k      select                 PgUp PgDn ^B ^F  by pages",
    "  Home End g G     first, last            Enter l          open the process",
    "  / F3 F4 \\        filter by pid, user, device, tag or command; Esc clears it",
    "  F6 > <           sort by the next or last column;  I  + -  order",
    "  M N A            sort by held memory, pid, allocations",
    "  p                plots on and off       Space Z          pause",
    "  r F5 ^L          refresh now            q F10 ^C         quit",
    "",
    "  HELD     memory taken from the driver   LIVE     in blocks, as requested",
    "  CACHED   free, kept for reuse           RATIO    held / live",
    "  PEAK     most that was held             DRIVER   what the driver counts",
    "  PRESSURE of the fullest pool            ALLOC/S  allocations per second",
    "",
    "  A dash is a figure that is not known. Nothing here changes a process.",
};

static void help_draw(struct view *view, struct canvas *canvas) {
    enum { LINES = sizeof help_lines / sizeof *help_lines };
    view->row_count = LINES;
    view->page = canvas->rows > 3 ? (uint32_t)canvas->rows - 3 : 1;
    for (uint32_t i = 0; i < view->page && view->first + i < LINES; i++) {
        canvas_print(canvas, 2 + (int)i, 0, PAINT_PLAIN, "%s", help_lines[view->first + i]);
    }
}

/* Shows the part of the lines of a process that fits. */
static void process_page_draw(struct view *view, const struct machine *machine,
                              struct canvas *canvas) {
    const struct machine_process *process = view_process(view, machine);
    int rows = canvas->rows - 1 - (view->interactive ? 1 : 0);
    struct canvas all = {0};
    view->page = rows > 1 ? (uint32_t)rows : 1;
    view->row_count = 0;
    if (process == NULL) {
        canvas_print(canvas, 2, 0, PAINT_HIGH, "process %llu has ended, or holds no device memory",
                     (unsigned long long)view->chosen);
        return;
    }
    if (!process_draw(view, machine, process, canvas->columns, &all)) {
        return;
    }
    view->row_count = (uint32_t)all.rows;
    uint32_t last = view->row_count > view->page ? view->row_count - view->page : 0;
    view->first = view->first < last ? view->first : last;
    for (int row = 0; row < rows && view->first + (uint32_t)row < (uint32_t)all.rows; row++) {
        memcpy(canvas->cells + (size_t)(row + 1) * (size_t)canvas->columns,
               all.cells + ((size_t)view->first + (size_t)row) * (size_t)all.columns,
               (size_t)canvas->columns * sizeof *canvas->cells);
    }
    canvas_end(&all);
}

int view_rows(const struct view *view, const struct machine *machine, int width) {
    if (view->mode == VIEW_PROCESS) {
        struct canvas all = {0};
        const struct machine_process *process = view_process(view, machine);
        int rows =
            process != NULL && process_draw(view, machine, process, width, &all) ? all.rows + 1 : 3;
        canvas_end(&all);
        return rows;
    }
    uint32_t rows = view->row_count > 0 ? view->row_count : 1;
    return (int)(2 + machine->device_count + rows);
}

void view_draw(struct view *view, const struct machine *machine, struct canvas *canvas) {
    if (view->interactive && (canvas->rows < ROWS_LEAST || canvas->columns < COLUMNS_LEAST)) {
        canvas_print(canvas, 0, 0, PAINT_PLAIN, "%d x %d is too small", canvas->columns,
                     canvas->rows);
        return;
    }
    title_draw(view, machine, canvas);
    if (view->mode == VIEW_TABLE) {
        overview_draw(view, machine, canvas);
    } else if (view->mode == VIEW_PROCESS) {
        process_page_draw(view, machine, canvas);
    } else {
        help_draw(view, canvas);
    }
    if (view->interactive) {
        keys_draw(view, canvas);
    }
}
