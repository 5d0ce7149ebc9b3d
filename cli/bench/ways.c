/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways.c: see ways.h.
 */
#include "bench/ways.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_COLUMNS = 9 };

uint64_t ways_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool way_fail(struct way *way, vram_status status) {
    snprintf(way->reason, sizeof way->reason, "%s", failure_text(status));
    return false;
}

bool way_good(struct way *way, vram_status status) {
    if (status != VRAM_OK) {
        return way_fail(way, status);
    }
    return true;
}

bool way_differs(struct way *way, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(way->reason, sizeof way->reason, format, list);
    va_end(list);
    way->wrong = true;
    return false;
}

bool ways_differ(const struct way *ways, uint32_t count) {
    bool differ = false;
    for (uint32_t i = 0; i < count; i++) {
        differ |= ways[i].wrong;
    }
    return differ;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void way_sum_up(struct way *way) {
    if (!way_measured(way)) {
        return;
    }
    qsort(way->samples, way->count, sizeof way->samples[0], compare);
    way->median_ns = way->samples[way->count / 2];
    way->p10_ns = way->samples[way->count / 10];
    way->p90_ns = way->samples[(way->count - 1) * 9 / 10];
}

void way_measure(struct way *way, way_fn *round, void *user, double seconds) {
    uint64_t end = ways_now() + (uint64_t)(seconds * 1e9), ns;
    way->count = 0;
    if (!round(user, way, &ns)) {
        return;
    }
    while (way->count < WAY_SAMPLES && (ways_now() < end || way->count < WAY_ROUNDS_LEAST)) {
        if (!round(user, way, &ns)) {
            way->count = 0;
            return;
        }
        way->samples[way->count++] = (double)ns;
    }
    way_sum_up(way);
}

double ways_ratio(const struct way *slow, const struct way *fast) {
    return slow->median_ns / (fast->median_ns > 1 ? fast->median_ns : 1);
}

void way_print_reason(const struct terminal *terminal, const char *reason, uint32_t columns,
                      size_t used) {
    if (used >= columns) {
        printf("\n%*s", (int)columns, "");
    }
    terminal_wrap(terminal, STYLE_DIM, columns, reason);
}

void ways_print(const struct terminal *terminal, const struct way *ways, uint32_t count) {
    printf("%-8s %12s %12s %12s %8s  %s\n", "way", "median us", "p10", "p90", "samples", "what");
    for (uint32_t i = 0; i < count; i++) {
        const struct way *way = &ways[i];
        terminal_cell(terminal, i == 0 ? STYLE_BOLD : STYLE_PLAIN, NAME_COLUMNS, "%s", way->name);
        if (!way_measured(way)) {
            way_print_reason(terminal, way->reason, NAME_COLUMNS, strlen(way->name));
            continue;
        }
        printf("%12.1f %12.1f %12.1f %8u  %s\n", way->median_ns / 1e3, way->p10_ns / 1e3,
               way->p90_ns / 1e3, (unsigned)way->count, way->about);
    }
}

/* ---------------------------------------------------------------------- JSON */

static void write_ns(struct json_out *json, const char *key, bool known, double value) {
    if (known) {
        json_number(json, key, value);
    } else {
        json_null(json, key);
    }
}

void ways_write(struct json_out *json, const struct way *ways, uint32_t count) {
    json_array_begin(json, "ways");
    for (uint32_t i = 0; i < count; i++) {
        const struct way *way = &ways[i];
        bool known = way_measured(way);
        json_object_begin(json, NULL);
        json_text(json, "name", way->name);
        json_text(json, "about", way->about);
        json_text(json, "reason", known ? NULL : way->reason);
        write_ns(json, "ns_median", known, way->median_ns);
        write_ns(json, "ns_p10", known, way->p10_ns);
        write_ns(json, "ns_p90", known, way->p90_ns);
        json_unsigned(json, "samples", way->count);
        json_object_end(json);
    }
    json_array_end(json);
}

void ways_write_ratio(struct json_out *json, const char *key, const struct way *slow,
                      const struct way *fast) {
    bool known = way_measured(slow) && way_measured(fast);
    write_ns(json, key, known, known ? ways_ratio(slow, fast) : 0);
}

void ways_write_device(struct json_out *json, const struct target *target) {
    json_object_begin(json, "device");
    json_unsigned(json, "index", target->index);
    json_text(json, "backend", target->info.backend);
    json_unsigned(json, "backend_index", target->info.backend_index);
    json_text(json, "name", target->info.name);
    json_text(json, "kind", device_kind_name(target->info.kind));
    json_object_end(json);
}
