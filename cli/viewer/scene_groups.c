/* SPDX-License-Identifier: Apache-2.0 */
/* scene_groups.c: see scene_groups.h. */
#include "scene_groups.h"
#include "report/sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES = 1 << 12,
    NAMES_MOST = NAMES / 4 * 3,
    STREAMS_MAX = 256,
    SIZE_CLASSES = 64,
    NAME_MAX_BYTES = 255
};

/* ------------------------------------------------------------------- groups */

static bool group_add(struct scene_grouped *grouped, const char *name, size_t bytes,
                      uint64_t number, uint32_t *group) {
    if (grouped->count == grouped->capacity) {
        size_t capacity = grouped->capacity > 0 ? grouped->capacity * 2 : 64;
        struct scene_group *groups = realloc(grouped->groups, capacity * sizeof *groups);
        if (groups == NULL) {
            return false;
        }
        grouped->groups = groups;
        grouped->capacity = capacity;
    }
    char *copy = malloc(bytes + 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, name, bytes);
    copy[bytes] = 0;
    *group = (uint32_t)grouped->count;
    grouped->groups[grouped->count++] = (struct scene_group){.name = copy, .number = number};
    return true;
}

/* What queue 0 is: no queue in the library's own traces, the default stream of CUDA's. CSV has
   numbers of its own, of which only the order is known. */
static const char *stream_zero(enum event_format format) {
    return format == FORMAT_CSV                                    ? "stream 1"
           : format == FORMAT_RECORDING || format == FORMAT_CHROME ? "no stream"
                                                                   : "default stream";
}

/* Group 0 of tags, sites and streams is what has none; each size class is a group. */
bool groups_begin(struct scene *scene, enum event_format format) {
    const char *const none[] = {"no tag", "no stack", stream_zero(format)};
    uint32_t group;
    for (int i = 0; i < SCENE_SIZES; i++) {
        struct scene_grouped *grouped = &scene->grouped[i];
        grouped->of_number = calloc(SCENE_NUMBERS_MAX, sizeof *grouped->of_number);
        grouped->by_name = calloc(NAMES, sizeof *grouped->by_name);
        if (grouped->of_number == NULL || grouped->by_name == NULL ||
            !group_add(grouped, none[i], strlen(none[i]), 0, &group)) {
            return false;
        }
        grouped->of_number[0] = 1;
    }
    for (int i = 0; i < SIZE_CLASSES; i++) {
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        char name[48];
        snprintf(name, sizeof name, "%d %s and more", 1 << i % 10, units[i / 10]);
        if (!group_add(&scene->grouped[SCENE_SIZES], name, strlen(name), (uint64_t)i, &group)) {
            return false;
        }
    }
    scene->stack_of = calloc(SCENE_NUMBERS_MAX, sizeof *scene->stack_of);
    scene->stacks = calloc(1, sizeof *scene->stacks);
    scene->stack_count = scene->stack_capacity = 1;
    return scene->stack_of != NULL && scene->stacks != NULL;
}

void groups_free(struct scene *scene) {
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        struct scene_grouped *grouped = &scene->grouped[i];
        for (size_t j = 0; j < grouped->count; j++) {
            free(grouped->groups[j].name);
        }
        free(grouped->groups);
        free(grouped->of_number);
        free(grouped->by_name);
    }
    free(scene->stacks);
    free(scene->stack_of);
}

/* -------------------------------------------------------------------- sites */

static uint32_t name_hash(const char *name) {
    uint32_t hash = 2166136261U;
    for (; *name; name++) {
        hash = (hash ^ (uint8_t)*name) * 16777619U;
    }
    return hash;
}

/* Chains would need one more array: a full table makes the rest one group. */
static bool site_find(struct scene_grouped *sites, const char *name, uint64_t number,
                      uint32_t *group) {
    for (uint32_t at = name_hash(name) & (NAMES - 1);; at = (at + 1) & (NAMES - 1)) {
        if (sites->by_name[at] == 0 && sites->count < NAMES_MOST) {
            if (!group_add(sites, name, strlen(name), number, group)) {
                return false;
            }
            sites->by_name[at] = *group + 1;
            return true;
        }
        if (sites->by_name[at] == 0) {
            break;
        }
        *group = sites->by_name[at] - 1;
        if (strcmp(sites->groups[*group].name, name) == 0) {
            return true;
        }
    }
    *group = 0;
    return true;
}

/* -------------------------------------------------------------------- noting */

static bool stack_note(struct scene *scene, struct report_input *input, uint32_t stack) {
    struct scene_grouped *sites = &scene->grouped[SCENE_SITES];
    const struct history_group only = {.stack = stack, .tag = ""};
    char text[SITE_TEXT_MAX];
    uint32_t group = 0;
    if (report_input_frame(input, stack, 0) != NULL) {
        site_name(input, &only, text);
        if (!site_find(sites, text, stack, &group)) {
            return false;
        }
    }
    if (scene->stack_count == scene->stack_capacity) {
        size_t capacity = scene->stack_capacity * 2;
        struct scene_stack *stacks = realloc(scene->stacks, capacity * sizeof *stacks);
        if (stacks == NULL) {
            return false;
        }
        scene->stacks = stacks;
        scene->stack_capacity = capacity;
    }
    sites->of_number[stack] = group + 1;
    scene->stack_of[stack] = (uint32_t)scene->stack_count;
    scene->stacks[scene->stack_count++] = (struct scene_stack){.number = stack};
    return true;
}

/* Few programs have more than a dozen streams. */
static uint32_t stream_find(const struct scene *scene, uint64_t queue) {
    const struct scene_grouped *streams = &scene->grouped[SCENE_STREAMS];
    for (size_t i = 1; queue > 0 && i < streams->count; i++) {
        if (streams->groups[i].number == queue) {
            return (uint32_t)i;
        }
    }
    return 0;
}

bool groups_note(struct scene *scene, struct report_input *input, const struct recorded *event) {
    struct scene_grouped *tags = &scene->grouped[SCENE_TAGS];
    struct scene_grouped *streams = &scene->grouped[SCENE_STREAMS];
    uint32_t group;
    if (event->tag_number < SCENE_NUMBERS_MAX && tags->of_number[event->tag_number] == 0) {
        if (!group_add(tags, event->tag, strnlen(event->tag, NAME_MAX_BYTES), event->tag_number,
                       &group)) {
            return false;
        }
        tags->of_number[event->tag_number] = group + 1;
    }
    if (event->queue > 0 && streams->count < STREAMS_MAX && stream_find(scene, event->queue) == 0) {
        char name[32];
        size_t number = streams->count + (input->format == FORMAT_CSV);
        int bytes = snprintf(name, sizeof name, "stream %zu", number);
        if (!group_add(streams, name, (size_t)bytes, event->queue, &group)) {
            return false;
        }
    }
    bool known = event->stack == 0 || event->stack >= SCENE_NUMBERS_MAX ||
                 scene->grouped[SCENE_SITES].of_number[event->stack] > 0;
    return known || stack_note(scene, input, event->stack);
}

static uint32_t of_number(const struct scene_grouped *grouped, uint32_t number) {
    uint32_t group = number < SCENE_NUMBERS_MAX ? grouped->of_number[number] : 0;
    return group > 0 ? group - 1 : 0;
}

void groups_find(const struct scene *scene, const struct live_block *block,
                 uint32_t groups[SCENE_GROUPINGS]) {
    uint32_t size = 0;
    for (uint64_t rest = block->bytes; rest > 1; rest >>= 1) {
        size++;
    }
    groups[SCENE_TAGS] = of_number(&scene->grouped[SCENE_TAGS], block->tag);
    groups[SCENE_SITES] = groups_site(scene, block->stack);
    groups[SCENE_STREAMS] = stream_find(scene, block->queue);
    groups[SCENE_SIZES] = size;
}

uint32_t groups_site(const struct scene *scene, uint32_t stack) {
    return of_number(&scene->grouped[SCENE_SITES], stack);
}

uint32_t groups_stack(const struct scene *scene, uint32_t number) {
    return number < SCENE_NUMBERS_MAX ? scene->stack_of[number] : 0;
}

/* ------------------------------------------------------------------- ranking */

static void columns_give(struct scene_grouped *grouped) {
    grouped->column_count = 1;
    for (uint32_t column = 1; column <= SCENE_COLUMNS; column++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < grouped->count; i++) {
            const struct scene_group *group = &grouped->groups[i];
            if (group->column == 0 && group->peak > 0 &&
                (best == UINT32_MAX || group->peak > grouped->groups[best].peak)) {
                best = i;
            }
        }
        if (best == UINT32_MAX) {
            return;
        }
        grouped->groups[best].column = column;
        grouped->group_of[column] = best;
        grouped->column_count = column + 1;
    }
}

static int stack_order(const void *a, const void *b) {
    const struct scene_stack *one = a, *other = b;
    return one->peak > other->peak ? -1 : one->peak < other->peak;
}

/* The largest first; the others become part of number 0. */
static void stacks_keep(struct scene *scene) {
    struct scene_stack *stacks = scene->stacks;
    qsort(stacks + 1, scene->stack_count - 1, sizeof *stacks, stack_order);
    size_t kept = scene->stack_count < SCENE_STACKS + 1 ? scene->stack_count : SCENE_STACKS + 1;
    for (size_t i = 1; i < scene->stack_count; i++) {
        scene->stack_of[stacks[i].number] = i < kept ? (uint32_t)i : 0;
        if (i >= kept) {
            stacks[0].left += stacks[i].left;
        }
    }
    scene->stack_count = kept;
}

bool groups_rank(struct scene *scene) {
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        struct scene_grouped *grouped = &scene->grouped[i];
        columns_give(grouped);
        for (uint32_t column = 0; column < grouped->column_count; column++) {
            grouped->bins[column] = calloc(SCENE_BINS + 1, sizeof(float));
            if (grouped->bins[column] == NULL) {
                return false;
            }
        }
    }
    stacks_keep(scene);
    scene->stack_columns = calloc(scene->stack_count, sizeof *scene->stack_columns);
    return scene->stack_columns != NULL;
}
