/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_report.c: what `vram bench copy` found, as tables, as goals, and as JSON
 * (docs/schema/vram.bench.copy-1.schema.json).
 */
#include "bench/copying.h"

#include "survey.h"

#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const char *const direction_names[DIRECTIONS] = {"to_device", "to_host"};
static const char *const direction_words[DIRECTIONS] = {"to the device", "to the host"};

/* --------------------------------------------------------------------- goals */

/* How many times as fast; false where one of them was not measured. */
static bool times_as_fast(const struct way *fast, const struct way *slow, double *times) {
    bool known = way_measured(fast) && way_measured(slow);
    *times = known ? ways_ratio(slow, fast) : 0;
    return known;
}

static void add_goal(struct copy_goal *goals, uint32_t *count, const char *what, uint64_t bytes,
                     const char *where, double goal, const struct way *ours,
                     const struct way *measure) {
    struct copy_goal *one = &goals[(*count)++];
    char size[VRAM_SIZE_TEXT_MAX];
    snprintf(one->name, sizeof one->name, "%s, %s%s%s", what, vram_size_format(bytes, size),
             *where != 0 ? " " : "", where);
    one->goal = goal;
    one->known = times_as_fast(ours, measure, &one->reached);
}

/* The lower of what the host's threads copy and what the bus takes bounds a copy of ordinary
   memory. */
static const struct way *bound_of(const struct way ways[COPY_WAYS]) {
    const struct way *all = &ways[MEMCPY_ALL], *pinned = &ways[DRIVER_PINNED];
    return way_measured(pinned) && pinned->median_ns > all->median_ns ? pinned : all;
}

/* Goals are of one product: on another device they say nothing, and there are none. */
static bool has_goals(const struct target *target) {
    return strncmp(target->info.name, "NVIDIA H200", 11) == 0;
}

static uint32_t copy_goals(const struct target *target, const struct copying *copying,
                           struct copy_goal goals[GOALS_MAX]) {
    uint32_t count = 0;
    if (!has_goals(target)) {
        return 0;
    }
    for (uint32_t i = 0; i < copying->size_count; i++) {
        const struct copy_size *size = &copying->sizes[i];
        bool last = i + 1 == copying->size_count;
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            const struct way *ways = size->ways[direction];
            const char *where = direction_words[direction];
            if (last) {
                add_goal(goals, &count, "ordinary memory over the lower bound", size->bytes, where,
                         0.9, &ways[VRAM_PAGEABLE], bound_of(ways));
            }
            if (size->bytes == 16 * MIB) {
                add_goal(goals, &count, "ordinary memory over the driver", size->bytes, where, 1.5,
                         &ways[VRAM_PAGEABLE], &ways[DRIVER_PAGEABLE]);
            }
            if (last) {
                add_goal(goals, &count, "page-locked memory over the driver", size->bytes, where,
                         0.98, &ways[VRAM_PINNED], &ways[DRIVER_PINNED]);
            }
        }
    }
    add_goal(goals, &count, "a list in one call over one by one", BATCH_BYTES, "each", 3,
             &copying->batch[BATCHED], &copying->batch[ONE_BY_ONE]);
    for (uint32_t i = 0; i < copying->pair_count; i++) {
        add_goal(goals, &count, "a pool's page-locked pair over the driver's",
                 copying->pairs[i].bytes, "", 1000, &copying->pairs[i].ways[PAIR_POOL],
                 &copying->pairs[i].ways[PAIR_DRIVER]);
    }
    return count;
}

/* ---------------------------------------------------------------------- text */

static double speed(uint64_t bytes, double ns) {
    return (double)bytes / (ns > 1 ? ns : 1); /* bytes a nanosecond are GB a second */
}

static void print_size(const struct terminal *terminal, const struct copy_size *size,
                       int direction) {
    const struct way *ways = size->ways[direction], *slow = &ways[DRIVER_PAGEABLE];
    char text[VRAM_SIZE_TEXT_MAX];
    terminal_print(terminal, STYLE_BOLD, "%s %s", vram_size_format(size->bytes, text),
                   direction_words[direction]);
    printf("\n");
    for (int i = 0; i < COPY_WAYS; i++) {
        const struct way *way = &ways[i];
        double times;
        terminal_cell(terminal, i <= VRAM_PINNED ? STYLE_BOLD : STYLE_PLAIN, 15, "  %s", way->name);
        if (!way_measured(way)) {
            way_print_reason(terminal, way->reason, 15, strlen(way->name) + 2);
            continue;
        }
        printf("%12.1f %8.2f %8.2f %8.2f ", way->median_ns / 1e3,
               speed(size->bytes, way->median_ns), speed(size->bytes, way->p90_ns),
               speed(size->bytes, way->p10_ns));
        if (times_as_fast(way, slow, &times)) {
            printf("%7.2f", times);
        } else {
            printf("%7s", "-");
        }
        printf("  %s\n", way->about);
    }
}

static void print_goals(const struct terminal *terminal, const struct target *target,
                        const struct copying *copying) {
    struct copy_goal goals[GOALS_MAX];
    uint32_t count = copy_goals(target, copying, goals);
    if (!count) {
        return;
    }
    printf("\n");
    terminal_print(terminal, STYLE_BOLD, "%-64s %9s %9s", "goals, of one NVIDIA H200", "reached",
                   "goal");
    printf("\n");
    for (uint32_t i = 0; i < count; i++) {
        printf("%-64s ", goals[i].name);
        if (!goals[i].known) {
            terminal_print(terminal, STYLE_DIM, "%9s", "-");
        } else {
            terminal_print(terminal, goals[i].reached >= goals[i].goal ? STYLE_GOOD : STYLE_WARN,
                           "%9.2f", goals[i].reached);
        }
        printf(" %9.2f\n", goals[i].goal);
    }
}

void copy_print(const struct terminal *terminal, const struct target *target,
                const struct copying *copying) {
    char label[DEVICE_LABEL_MAX], size[VRAM_SIZE_TEXT_MAX];
    terminal_print(terminal, STYLE_BOLD, "copy");
    printf(" between host and %s, ", device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf(", %u threads of the host\n\n", (unsigned)copying->threads);
    printf("%-15s%12s %8s %8s %8s %7s  %s\n", "way", "median us", "GB/s", "p10", "p90", "driver",
           "what");
    for (uint32_t i = 0; i < copying->size_count; i++) {
        print_size(terminal, &copying->sizes[i], TO_DEVICE);
        print_size(terminal, &copying->sizes[i], TO_HOST);
    }
    printf("\n");
    terminal_print(terminal, STYLE_BOLD, "%u copies of %s", (unsigned)copying->batch_count,
                   vram_size_format(BATCH_BYTES, size));
    printf("\n");
    ways_print(terminal, copying->batch, BATCH_WAYS);
    for (uint32_t i = 0; i < copying->pair_count; i++) {
        printf("\n");
        terminal_print(terminal, STYLE_BOLD, "page-locked memory, %s, taken and given",
                       vram_size_format(copying->pairs[i].bytes, size));
        printf("\n");
        ways_print(terminal, copying->pairs[i].ways, PAIR_WAYS);
    }
    print_goals(terminal, target, copying);
}

/* ---------------------------------------------------------------------- JSON */

static void write_size(struct json_out *json, const struct copy_size *size) {
    json_object_begin(json, NULL);
    json_unsigned(json, "bytes", size->bytes);
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        const struct way *ways = size->ways[direction];
        json_object_begin(json, direction_names[direction]);
        ways_write(json, ways, COPY_WAYS);
        ways_write_ratio(json, "ratio_driver", &ways[DRIVER_PAGEABLE], &ways[VRAM_PAGEABLE]);
        ways_write_ratio(json, "ratio_bound", bound_of(ways), &ways[VRAM_PAGEABLE]);
        ways_write_ratio(json, "ratio_pinned", &ways[DRIVER_PINNED], &ways[VRAM_PINNED]);
        json_object_end(json);
    }
    json_object_end(json);
}

static void write_goals(struct json_out *json, const struct target *target,
                        const struct copying *copying) {
    struct copy_goal goals[GOALS_MAX];
    uint32_t count = copy_goals(target, copying, goals);
    json_array_begin(json, "goals");
    for (uint32_t i = 0; i < count; i++) {
        json_object_begin(json, NULL);
        json_text(json, "name", goals[i].name);
        json_number(json, "goal", goals[i].goal);
        if (goals[i].known) {
            json_number(json, "reached", goals[i].reached);
            json_bool(json, "met", goals[i].reached >= goals[i].goal);
        } else {
            json_null(json, "reached");
            json_null(json, "met");
        }
        json_object_end(json);
    }
    json_array_end(json);
}

bool copy_write(const struct target *target, const struct copying *copying) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.copy/1");
    json_text(&json, "bench", "copy");
    ways_write_device(&json, target);
    json_unsigned(&json, "threads", copying->threads);
    json_array_begin(&json, "sizes");
    for (uint32_t i = 0; i < copying->size_count; i++) {
        write_size(&json, &copying->sizes[i]);
    }
    json_array_end(&json);
    json_object_begin(&json, "batch");
    json_unsigned(&json, "copies", copying->batch_count);
    json_unsigned(&json, "bytes", BATCH_BYTES);
    ways_write(&json, copying->batch, BATCH_WAYS);
    ways_write_ratio(&json, "ratio_one_by_one", &copying->batch[ONE_BY_ONE],
                     &copying->batch[BATCHED]);
    ways_write_ratio(&json, "ratio_submitted", &copying->batch[SUBMITTED],
                     &copying->batch[BATCHED]);
    json_object_end(&json);
    json_array_begin(&json, "pinned_pairs");
    for (uint32_t i = 0; i < copying->pair_count; i++) {
        const struct copy_pair *pair = &copying->pairs[i];
        json_object_begin(&json, NULL);
        json_unsigned(&json, "bytes", pair->bytes);
        ways_write(&json, pair->ways, PAIR_WAYS);
        ways_write_ratio(&json, "ratio_driver", &pair->ways[PAIR_DRIVER], &pair->ways[PAIR_POOL]);
        json_object_end(&json);
    }
    json_array_end(&json);
    write_goals(&json, target, copying);
    return output_json_end(&json);
}
