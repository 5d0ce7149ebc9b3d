/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: see page.h. */
#include "page.h"
#include "generated/viewer_page.h"
#include "json_out.h"
#include "page_notes.h"
#include "payload.h"
#include "scene_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS_MAX = 96, ROWS_MAX = 2000, PAST_PARTS = 1 << 22 };

/* An array of the page. */
struct page_array {
    char name[24];
    const char *type; /* "f32", "f64" or "u32" */
    size_t count;
    const void *data;
};

struct page {
    const struct scene *scene;
    struct report_input *input;
    const struct page_policy *policies;
    size_t policy_count;
    struct page_array arrays[ARRAYS_MAX];
    size_t array_count;
    void *own[32]; /* memory of arrays that were made for the page */
    size_t own_count;
};

static const char *const grouping_names[] = {"tag", "site", "stream", "size"};

/* --------------------------------------------------------------------- arrays */

static void array_add(struct page *page, const char *type, size_t count, const void *data,
                      const char *name) {
    struct page_array *array = &page->arrays[page->array_count++];
    *array = (struct page_array){.type = type, .count = count, .data = data};
    snprintf(array->name, sizeof array->name, "%s", name);
}

static size_t array_bytes(const struct page_array *array) {
    return array->count * (strcmp(array->type, "f64") == 0 ? 8 : 4);
}

/* Memory that lasts as long as the page; NULL: none. */
static void *page_own(struct page *page, size_t count, size_t bytes) {
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (memory != NULL) {
        page->own[page->own_count++] = memory;
    }
    return memory;
}

static uint32_t time_part(const struct scene *scene, uint64_t time_ns) {
    double span = (double)(scene->end_ns - scene->begin_ns);
    double at = span > 0 ? (double)(time_ns - scene->begin_ns) / span : 0;
    return (uint32_t)(at * 4294967294.0);
}

static bool blocks_add_arrays(struct page *page) {
    const struct scene *scene = page->scene;
    size_t count = scene->kept_count;
    uint32_t *begin = page_own(page, count, sizeof *begin);
    uint32_t *end = page_own(page, count, sizeof *end);
    uint32_t *begin_step = page_own(page, count, sizeof *begin_step);
    uint32_t *end_step = page_own(page, count, sizeof *end_step);
    uint32_t *tag = page_own(page, count, sizeof *tag);
    uint32_t *stack = page_own(page, count, sizeof *stack);
    uint32_t *stream = page_own(page, count, sizeof *stream);
    double *place = page_own(page, count, sizeof *place);
    double *bytes = page_own(page, count, sizeof *bytes);
    if (!begin || !end || !begin_step || !end_step || !tag || !stack || !stream || !place ||
        !bytes) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct scene_block *block = &scene->kept[i];
        begin[i] = time_part(scene, block->begin_ns);
        end[i] = block->end_ns == UINT64_MAX ? UINT32_MAX : time_part(scene, block->end_ns);
        begin_step[i] = (uint32_t)block->begin_step;
        end_step[i] =
            (uint32_t)(block->end_step > scene->steps ? scene->steps + 1 : block->end_step);
        tag[i] = block->tag;
        stack[i] = block->stack;
        stream[i] = block->stream;
        place[i] = (double)block->place;
        bytes[i] = (double)block->bytes;
    }
    array_add(page, "u32", count, begin, "block.begin");
    array_add(page, "u32", count, end, "block.end");
    array_add(page, "u32", count, begin_step, "block.begin_step");
    array_add(page, "u32", count, end_step, "block.end_step");
    array_add(page, "u32", count, tag, "block.tag");
    array_add(page, "u32", count, stack, "block.stack");
    array_add(page, "u32", count, stream, "block.stream");
    array_add(page, "f64", count, place, "block.place");
    array_add(page, "f64", count, bytes, "block.bytes");
    return true;
}

/* The cells without the last row and column, which only end the sums. */
static bool grid_add_array(struct page *page) {
    size_t count = page->scene->merged > 0 ? SCENE_GRID_TIMES * SCENE_GRID_PLACES : 0;
    float *cells = page_own(page, count, sizeof *cells);
    for (size_t i = 0; cells != NULL && i < count; i++) {
        cells[i] = (float)page->scene
                       ->grid[i / SCENE_GRID_TIMES * (SCENE_GRID_TIMES + 1) + i % SCENE_GRID_TIMES];
    }
    array_add(page, "f32", count, cells, "grid");
    return cells != NULL;
}

/* Where bins begin, as differences in parts of PAST_PARTS: small and alike, so they compress. */
static bool edges_add_array(struct page *page) {
    uint32_t *edges = page_own(page, SCENE_BINS + 1, sizeof *edges), before = 0;
    for (int i = 0; edges != NULL && i <= SCENE_BINS; i++) {
        uint32_t edge = (uint32_t)(page->scene->past[i] * PAST_PARTS);
        edges[i] = edge - before;
        before = edge;
    }
    array_add(page, "u32", SCENE_BINS + 1, edges, "past");
    return edges != NULL;
}

static bool moments_add_arrays(struct page *page) {
    const struct scene *scene = page->scene;
    double *times = page_own(page, SCENE_MOMENTS + 1, sizeof *times);
    for (int i = 0; times != NULL && i <= SCENE_MOMENTS; i++) {
        times[i] = (double)(scene->moment_ns[i] - scene->begin_ns);
    }
    array_add(page, "f64", SCENE_MOMENTS + 1, times, "moment.time");
    array_add(page, "u32", SCENE_MOMENTS + 1, scene->moment_changes, "moment.changes");
    array_add(page, "u32", scene->change_count, scene->change_stacks, "change.stack");
    array_add(page, "f32", scene->change_count, scene->change_bytes, "change.bytes");
    return times != NULL;
}

/* NaN behind the last point of a pass that failed. */
static bool curve_add(struct page *page, const struct page_policy *policy, const uint64_t *values,
                      const char *name) {
    float *points = page_own(page, CURVE_POINTS, sizeof *points);
    for (uint32_t i = 0; points != NULL && i < CURVE_POINTS; i++) {
        points[i] = i < policy->curve->count ? (float)values[i] : NAN;
    }
    array_add(page, "f32", CURVE_POINTS, points, name);
    return points != NULL;
}

static bool policies_add_arrays(struct page *page) {
    const struct page_policy *furthest = page->policies; /* all were asked for the same */
    bool good = true;
    char name[24];
    for (size_t i = 0; i < page->policy_count; i++) {
        if (page->policies[i].curve->count > furthest->curve->count) {
            furthest = &page->policies[i];
        }
        snprintf(name, sizeof name, "policy.%u", (unsigned)i);
        good = curve_add(page, &page->policies[i], page->policies[i].curve->held, name) && good;
    }
    if (page->policy_count > 0) {
        good = curve_add(page, furthest, furthest->curve->asked, "policy.asked") && good;
    }
    return good;
}

static bool page_fill(struct page *page) {
    const struct scene *scene = page->scene;
    char name[24];
    array_add(page, "f32", SCENE_BINS + 1, scene->total, "total");
    array_add(page, "f32", SCENE_BINS + 1, scene->held, "held");
    array_add(page, "f32", SCENE_BINS + 1, scene->limit, "limit");
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        for (uint32_t column = 0; column < scene->grouped[i].column_count; column++) {
            snprintf(name, sizeof name, "%s.%u", grouping_names[i], column);
            array_add(page, "f32", SCENE_BINS + 1, scene->grouped[i].bins[column], name);
        }
    }
    return edges_add_array(page) && moments_add_arrays(page) && blocks_add_arrays(page) &&
           policies_add_arrays(page) && grid_add_array(page);
}

/* ----------------------------------------------------------------------- JSON */

static int group_order(const void *a, const void *b) {
    const struct scene_group *one = *(const struct scene_group *const *)a;
    const struct scene_group *other = *(const struct scene_group *const *)b;
    return one->peak > other->peak ? -1 : one->peak < other->peak;
}

static void group_write(struct json_out *json, const struct scene_group *group, size_t number) {
    json_object_begin(json, NULL);
    json_unsigned(json, "group", number);
    json_text(json, "name", group->name);
    json_unsigned(json, "column", group->column);
    json_unsigned(json, "peak", group->peak);
    json_unsigned(json, "blocks", group->blocks);
    json_unsigned(json, "bytes", group->bytes);
    json_unsigned(json, "left", group->left);
    json_object_end(json);
}

/* "columns" are names by column, "rows" the groups, the largest first. */
static bool grouping_write(struct json_out *json, const struct scene_grouped *grouped, int which) {
    json_object_begin(json, NULL);
    json_text(json, "name", grouping_names[which]);
    json_array_begin(json, "columns");
    for (uint32_t i = 0; i < grouped->column_count; i++) {
        json_text(json, NULL, i > 0 ? grouped->groups[grouped->group_of[i]].name : "all others");
    }
    json_array_end(json);
    const struct scene_group **order = malloc(grouped->count * sizeof *order);
    for (size_t i = 0; order != NULL && i < grouped->count; i++) {
        order[i] = &grouped->groups[i];
    }
    if (order != NULL) {
        qsort(order, grouped->count, sizeof *order, group_order);
    }
    json_array_begin(json, "rows");
    for (size_t i = 0; order != NULL && i < grouped->count && i < ROWS_MAX; i++) {
        if (order[i]->blocks > 0) {
            group_write(json, order[i], (size_t)(order[i] - grouped->groups));
        }
    }
    json_array_end(json);
    json_object_end(json);
    free(order);
    return order != NULL;
}

static void stacks_write(struct json_out *json, const struct page *page) {
    const struct scene *scene = page->scene;
    json_array_begin(json, "stacks");
    for (size_t i = 0; i < scene->stack_count; i++) {
        const struct scene_stack *stack = &scene->stacks[i];
        json_object_begin(json, NULL);
        json_unsigned(json, "site", groups_site(scene, stack->number));
        json_unsigned(json, "left", stack->left);
        page_frames_write(json, page->input, stack->number);
        json_object_end(json);
    }
    json_array_end(json);
}

static void ranges_write(struct json_out *json, const struct scene *scene) {
    json_array_begin(json, "ranges");
    for (size_t i = 0; i < scene->ranges.count; i++) {
        const struct address_range *range = &scene->ranges.all[i];
        json_object_begin(json, NULL);
        json_address(json, "addr", range->begin);
        json_unsigned(json, "place", range->place);
        json_unsigned(json, "bytes", range->end - range->begin);
        json_object_end(json);
    }
    json_array_end(json);
}

static void figures_write(struct json_out *json, const struct scene *scene) {
    json_unsigned(json, "begin", scene->begin_ns);
    json_unsigned(json, "span", scene->end_ns - scene->begin_ns);
    json_unsigned(json, "peak_bytes", scene->peak);
    json_unsigned(json, "peak_time", scene->peak_ns - scene->begin_ns);
    json_unsigned(json, "peak_step", scene->peak_step);
    json_unsigned(json, "steps", scene->steps);
    json_unsigned(json, "past_parts", PAST_PARTS);
    json_unsigned(json, "blocks", scene->blocks);
    json_unsigned(json, "addressed", scene->addressed);
    json_unsigned(json, "kept", scene->kept_count);
    json_unsigned(json, "merged", scene->merged);
    json_unsigned(json, "left_out", scene->left_out);
    json_unsigned(json, "notes_left_out", scene->notes_left_out);
    json_unsigned(json, "bins", SCENE_BINS);
    json_unsigned(json, "moments", SCENE_MOMENTS);
    json_unsigned(json, "grid_times", SCENE_GRID_TIMES);
    json_unsigned(json, "grid_places", SCENE_GRID_PLACES);
    json_unsigned(json, "place_bytes", scene->ranges.bytes);
}

static void policies_write(struct json_out *json, const struct page *page) {
    json_array_begin(json, "policies");
    for (size_t i = 0; i < page->policy_count; i++) {
        const struct page_policy *policy = &page->policies[i];
        json_object_begin(json, NULL);
        json_text(json, "name", policy->name);
        json_unsigned(json, "held_bytes", policy->held_bytes);
        json_unsigned(json, "calls", policy->calls);
        json_unsigned(json, "spent_ns", policy->spent_ns);
        json_text(json, "problem", policy->problem);
        json_object_end(json);
    }
    json_array_end(json);
    json_unsigned(json, "policy_begin", page->policy_count > 0 ? page->policies[0].begin_ns : 0);
    json_unsigned(json, "policy_span", page->policy_count > 0 ? page->policies[0].span_ns : 0);
}

static bool meta_write(FILE *to, const struct page *page, const struct report_view *view) {
    struct json_out json;
    bool good = true;
    json_begin(&json, to);
    json_object_begin(&json, NULL);
    json_text(&json, "schema", "vram.page/1");
    json_text(&json, "version", vram_version_text());
    json_object_begin(&json, "report");
    report_write_summary(view, &json);
    report_write_advice(view->history, &json);
    json_object_end(&json);
    json_unsigned(&json, "date_us", report_input_date_us(page->input));
    figures_write(&json, page->scene);
    json_array_begin(&json, "groupings");
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        good = grouping_write(&json, &page->scene->grouped[i], i) && good;
    }
    json_array_end(&json);
    stacks_write(&json, page);
    page_notes_write(&json, page->scene, page->input);
    policies_write(&json, page);
    ranges_write(&json, page->scene);
    json_array_begin(&json, "arrays");
    for (size_t i = 0; i < page->array_count; i++) {
        json_object_begin(&json, NULL);
        json_text(&json, "name", page->arrays[i].name);
        json_text(&json, "type", page->arrays[i].type);
        json_unsigned(&json, "count", page->arrays[i].count);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
    return json_end(&json) == NULL && good;
}

/* -------------------------------------------------------------------- writing */

static void filled_write(struct payload *payload, const void *data, size_t bytes, char filler) {
    char fill[8];
    memset(fill, filler, sizeof fill);
    payload_write(payload, data, bytes);
    payload_write(payload, fill, (8 - bytes % 8) % 8);
}

static bool payload_fill(struct payload *payload, const struct page *page, const char *meta,
                         size_t bytes) {
    uint8_t head[8] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16),
                       (uint8_t)(bytes >> 24)};
    payload_write(payload, head, sizeof head);
    filled_write(payload, meta, bytes, ' ');
    for (size_t i = 0; i < page->array_count; i++) {
        filled_write(payload, page->arrays[i].data, array_bytes(&page->arrays[i]), 0);
    }
    return payload_end(payload);
}

static void texts_write(FILE *to, const char *const *texts) {
    for (; *texts != NULL; texts++) {
        (void)fputs(*texts, to);
    }
}

static bool data_write(FILE *to, const struct page *page, const struct report_view *view) {
    char *meta = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&meta, &bytes);
    if (memory == NULL) {
        return false;
    }
    bool good = meta_write(memory, page, view);
    good = fclose(memory) == 0 && good && bytes < UINT32_MAX - 8;
    struct payload *payload = malloc(sizeof *payload);
    good = good && payload != NULL && payload_begin(payload, to) &&
           payload_fill(payload, page, meta, bytes);
    (void)fputc('\n', to);
    free(payload);
    free(meta);
    return good;
}

void page_begin(FILE *to) {
    texts_write(to, viewer_head);
}

bool page_add(FILE *to, const struct page_trace *trace) {
    struct page *page = calloc(1, sizeof *page);
    if (page == NULL) {
        return false;
    }
    page->scene = trace->scene;
    page->input = trace->input;
    page->policies = trace->policies;
    page->policy_count =
        trace->policy_count < PAGE_POLICIES_MAX ? trace->policy_count : PAGE_POLICIES_MAX;
    bool good = page_fill(page) && data_write(to, page, trace->view);
    for (size_t i = 0; i < page->own_count; i++) {
        free(page->own[i]);
    }
    free(page);
    return good;
}

void page_end(FILE *to) {
    texts_write(to, viewer_tail);
}
