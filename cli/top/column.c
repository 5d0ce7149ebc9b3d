/* SPDX-License-Identifier: Apache-2.0 */
/* column.c: see column.h. */
#include "top/column.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/vram.h>

const struct column top_columns[COLUMN_COUNT] = {
    [COLUMN_PID] = {"PID", "pid", 7, false, 0, true},
    [COLUMN_USER] = {"USER", "user", 8, true, 5, true},
    [COLUMN_DEVICE] = {"DEVICE", "device", 8, true, 6, true},
    [COLUMN_HELD] = {"HELD", "held_bytes", 6, false, 0, false},
    [COLUMN_LIVE] = {"LIVE", "live_bytes", 6, false, 0, false},
    [COLUMN_CACHED] = {"CACHED", "cached_bytes", 6, false, 1, false},
    [COLUMN_RATIO] = {"RATIO", "ratio", 5, false, 1, false},
    [COLUMN_PEAK] = {"PEAK", "peak_held_bytes", 6, false, 2, false},
    [COLUMN_DRIVER] = {"DRIVER", "driver_bytes", 6, false, 7, false},
    [COLUMN_PRESSURE] = {"PRESSURE", "pressure", 8, true, 2, false},
    [COLUMN_RATE] = {"ALLOC/S", "allocations_per_second", 7, false, 3, false},
    [COLUMN_TAG] = {"TOP TAG", "top_tag", 10, true, 4, true},
    [COLUMN_COMMAND] = {"COMMAND", "command", 10, true, 0, true},
};

const char *short_size(uint64_t bytes, char text[SHORT_SIZE_MAX]) {
    static const char units[] = "BKMGTPE";
    unsigned unit = 0;
    double value = (double)bytes;
    for (; value >= 1000; unit++) { /* 2^64 are 16 E */
        value /= 1024;
    }
    if (bytes == UNKNOWN) {
        snprintf(text, SHORT_SIZE_MAX, "-");
    } else {
        snprintf(text, SHORT_SIZE_MAX, "%.*f%c", unit > 0 && value < 99.95 ? 1 : 0, value,
                 units[unit]);
    }
    return text;
}

/* "cuda:0" or "cuda:0+2": the device with the most, and how many others. */
static void device_text(const struct machine *machine, const struct machine_process *process,
                        char text[CELL_BYTES]) {
    if (process->use_count == 0) {
        snprintf(text, CELL_BYTES, "-");
        return;
    }
    const struct machine_use *most = &process->uses[0];
    for (uint32_t i = 1; i < process->use_count; i++) {
        const struct machine_use *use = &process->uses[i];
        bool more = use->held_bytes != UNKNOWN &&
                    (most->held_bytes == UNKNOWN || use->held_bytes > most->held_bytes);
        most = more ? use : most;
    }
    int used = snprintf(text, CELL_BYTES, "%s", machine->devices[most->device].label);
    if (process->use_count > 1) {
        snprintf(text + used, CELL_BYTES - (size_t)used, "+%u", (unsigned)process->use_count - 1);
    }
}

static uint64_t number_of(const struct machine_process *process, enum column_id column) {
    switch (column) {
    case COLUMN_PID:
        return process->pid;
    case COLUMN_HELD:
        return process->held_bytes;
    case COLUMN_LIVE:
        return process->live_bytes;
    case COLUMN_CACHED:
        return process->cached_bytes;
    case COLUMN_RATIO:
        return process->ratio_hundreds;
    case COLUMN_PEAK:
        return process->peak_bytes;
    case COLUMN_DRIVER:
        return process->driver_bytes;
    case COLUMN_PRESSURE:
        return process->paged && process->level > 0 ? process->level : UNKNOWN;
    default: /* COLUMN_RATE */
        return process->alloc_rate;
    }
}

static bool is_text(enum column_id column) {
    return column == COLUMN_USER || column == COLUMN_DEVICE || column == COLUMN_TAG ||
           column == COLUMN_COMMAND;
}

static void number_text(enum column_id column, uint64_t number, char text[CELL_BYTES]) {
    char size[SHORT_SIZE_MAX];
    if (number == UNKNOWN) {
        snprintf(text, CELL_BYTES, "-");
    } else if (column == COLUMN_PID) {
        snprintf(text, CELL_BYTES, "%" PRIu64, number);
    } else if (column == COLUMN_RATIO && number >= 10000) { /* 100 and more: no room for a point */
        snprintf(text, CELL_BYTES, "%" PRIu64, number / 100);
    } else if (column == COLUMN_RATIO) {
        snprintf(text, CELL_BYTES, "%" PRIu64 ".%02" PRIu64, number / 100, number % 100);
    } else if (column == COLUMN_PRESSURE) {
        snprintf(text, CELL_BYTES, "%s", vram_pressure_level_name((vram_pressure_level)number));
    } else if (column == COLUMN_RATE) {
        snprintf(text, CELL_BYTES, "%" PRIu64, (number + 500) / 1000);
    } else {
        snprintf(text, CELL_BYTES, "%s", short_size(number, size));
    }
}

const char *column_format(const struct machine *machine, const struct machine_process *process,
                          enum column_id column, char text[CELL_BYTES]) {
    char user[USER_TEXT_MAX];
    switch (column) {
    case COLUMN_USER:
        snprintf(text, CELL_BYTES, "%s", user_format(process, user));
        break;
    case COLUMN_DEVICE:
        device_text(machine, process, text);
        break;
    case COLUMN_TAG:
        snprintf(text, CELL_BYTES, "%s", process->top_tag[0] != 0 ? process->top_tag : "-");
        break;
    case COLUMN_COMMAND:
        snprintf(text, CELL_BYTES, "%s%s", process->view.silent ? "(stopped) " : "",
                 process->command[0] != 0 ? process->command : "-");
        break;
    default:
        number_text(column, number_of(process, column), text);
        break;
    }
    return text;
}

/* ---------------------------------------------------------------------- sorting */

/* What qsort's function needs; the command has one thread. */
static struct {
    const struct machine *machine;
    enum column_id column;
    bool falls;
} sorting;

/* Unknown numbers come last, whatever the order. */
static int compare_numbers(const struct machine_process *a, const struct machine_process *b) {
    uint64_t left = number_of(a, sorting.column), right = number_of(b, sorting.column);
    if ((left == UNKNOWN) != (right == UNKNOWN)) {
        return left == UNKNOWN ? 1 : -1;
    }
    int order = (left > right) - (left < right);
    return sorting.falls ? -order : order;
}

static int compare_texts(const struct machine_process *a, const struct machine_process *b) {
    char left[CELL_BYTES], right[CELL_BYTES];
    int order = strcmp(column_format(sorting.machine, a, sorting.column, left),
                       column_format(sorting.machine, b, sorting.column, right));
    return sorting.falls ? -order : order;
}

static int compare(const void *left, const void *right) {
    const struct machine_process *a = &sorting.machine->processes[*(const uint32_t *)left];
    const struct machine_process *b = &sorting.machine->processes[*(const uint32_t *)right];
    int order = is_text(sorting.column) ? compare_texts(a, b) : compare_numbers(a, b);
    return order != 0 ? order : (a->pid > b->pid) - (a->pid < b->pid);
}

static bool filter_matches(const struct machine *machine, const struct machine_process *process,
                           const char *filter) {
    static const enum column_id searched[] = {COLUMN_PID, COLUMN_USER, COLUMN_DEVICE, COLUMN_TAG,
                                              COLUMN_COMMAND};
    bool matches = filter[0] == 0;
    for (size_t i = 0; i < sizeof searched / sizeof searched[0] && !matches; i++) {
        char text[CELL_BYTES];
        matches = strcasestr(column_format(machine, process, searched[i], text), filter) != NULL;
    }
    return matches;
}

uint32_t column_sort(const struct machine *machine, enum column_id column, bool reversed,
                     const char *filter, uint32_t *order) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < machine->process_count; i++) {
        if (filter_matches(machine, &machine->processes[i], filter)) {
            order[count++] = i;
        }
    }
    sorting.machine = machine;
    sorting.column = column;
    sorting.falls = top_columns[column].rises == reversed;
    qsort(order, count, sizeof *order, compare);
    return count;
}
