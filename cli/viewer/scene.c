/* SPDX-License-Identifier: Apache-2.0 */
/* scene.c: the two passes over a trace; see scene.h. */
#include "scene_blocks.h"
#include "scene_groups.h"
#include "scene_notes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POOLS_MAX = 256 };

/* What a pool held at the last look. */
struct pool_look {
    uint64_t pool, held, limit;
};

/* One pass. */
struct pass {
    struct scene *scene;
    bool second;
    double at, past; /* where the pass is; parts of the steps that were made */
    uint64_t step;   /* of the event; those that are none have that of the last */
    uint64_t bin, bin_peak, bin_epoch;
    uint64_t moment, moment_peak, moment_epoch, moment_ns;
    double held, held_most; /* NaN: nothing is known yet */
    double limit;
    struct pool_look pools[POOLS_MAX];
    size_t pool_count;
    float *emitted; /* of each stack, at the moment before */
    bool full;      /* no memory */
};

/* ----------------------------------------------------------------- first pass */

static void group_change(struct scene_group *group, uint64_t bytes) {
    group->live += bytes;
    group->blocks++;
    group->bytes += bytes;
    group->peak = group->live > group->peak ? group->live : group->peak;
}

static void first_begun(struct pass *pass, const struct live_block *block) {
    struct scene *scene = pass->scene;
    uint32_t groups[SCENE_GROUPINGS];
    groups_find(scene, block, groups);
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        group_change(&scene->grouped[i].groups[groups[i]], block->bytes);
    }
    struct scene_stack *stack = &scene->stacks[groups_stack(scene, block->stack)];
    stack->live += block->bytes;
    stack->peak = stack->live > stack->peak ? stack->live : stack->peak;
    scene->blocks++;
    scene->live += block->bytes;
    if (scene->live > scene->peak) {
        scene->peak = scene->live;
        scene->peak_ns = block->begin_ns;
        scene->peak_step = block->begin_step;
    }
    if (block->addr > 0) {
        scene->addressed++;
        pass->full = !ranges_add(&scene->ranges, block->addr, block->bytes) || pass->full;
    }
}

static void first_ended(struct pass *pass, const struct live_block *block, bool left) {
    struct scene *scene = pass->scene;
    uint32_t groups[SCENE_GROUPINGS];
    groups_find(scene, block, groups);
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        struct scene_group *group = &scene->grouped[i].groups[groups[i]];
        group->live -= block->bytes;
        group->left += left ? block->bytes : 0;
    }
    struct scene_stack *stack = &scene->stacks[groups_stack(scene, block->stack)];
    stack->live -= block->bytes;
    stack->left += left ? block->bytes : 0;
    scene->live -= block->bytes;
}

/* ---------------------------------------------------------------- second pass */

static void column_change(struct scene_column *column, uint64_t epoch, uint64_t add,
                          uint64_t take) {
    if (column->epoch != epoch) {
        column->kept = column->live;
        column->epoch = epoch;
    }
    column->live = column->live + add - take;
}

static uint64_t column_most(const struct scene_column *column, uint64_t epoch) {
    return column->epoch == epoch ? column->kept : column->live;
}

static double past_of(const struct scene *scene, uint64_t step) {
    return step > scene->steps ? 1 : (double)step / ((double)scene->steps + 1);
}

double scene_at(const struct scene *scene, uint64_t time_ns, uint64_t step) {
    double span = (double)(scene->end_ns - scene->begin_ns) + 1;
    double time = time_ns > scene->end_ns ? 1 : (double)(time_ns - scene->begin_ns) / span;
    return (time + past_of(scene, step)) / 2;
}

static void bin_finish(struct pass *pass) {
    struct scene *scene = pass->scene;
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        struct scene_grouped *grouped = &scene->grouped[i];
        for (uint32_t column = 0; column < grouped->column_count; column++) {
            grouped->bins[column][pass->bin] =
                (float)column_most(&grouped->columns[column], pass->bin_epoch);
        }
    }
    scene->total[pass->bin] = (float)pass->bin_peak;
    /* Between two looks a pool may have grown: it holds at least what is live. */
    double live = (double)pass->bin_peak;
    scene->held[pass->bin] = (float)(pass->held_most < live ? live : pass->held_most);
    scene->limit[pass->bin] = (float)pass->limit;
    pass->held_most = pass->held;
    pass->bin_peak = scene->live;
    pass->bin_epoch++;
    pass->bin++;
}

static bool change_add(struct scene *scene, uint32_t stack, float bytes) {
    if (scene->change_count == scene->change_capacity) {
        size_t capacity = scene->change_capacity > 0 ? scene->change_capacity * 2 : 4096;
        uint32_t *stacks = realloc(scene->change_stacks, capacity * sizeof *stacks);
        scene->change_stacks = stacks != NULL ? stacks : scene->change_stacks;
        float *values = realloc(scene->change_bytes, capacity * sizeof *values);
        scene->change_bytes = values != NULL ? values : scene->change_bytes;
        if (stacks == NULL || values == NULL) {
            return false;
        }
        scene->change_capacity = capacity;
    }
    scene->change_stacks[scene->change_count] = stack;
    scene->change_bytes[scene->change_count++] = bytes;
    return true;
}

static void moment_finish(struct pass *pass) {
    struct scene *scene = pass->scene;
    size_t before = scene->change_count;
    for (uint32_t i = 0; i < scene->stack_count; i++) {
        float bytes = (float)column_most(&scene->stack_columns[i], pass->moment_epoch);
        if (bytes != pass->emitted[i]) {
            pass->full = !change_add(scene, i, bytes) || pass->full;
            pass->emitted[i] = bytes;
        }
    }
    scene->moment_changes[pass->moment] = (uint32_t)(scene->change_count - before);
    scene->moment_ns[pass->moment] = pass->moment_ns;
    pass->moment_peak = scene->live;
    pass->moment_epoch++;
    pass->moment++;
}

/* Finishes all parts that end on the way to `at`, where `past` of the steps were made. The last
   part is left to the end of the pass. */
static void pass_advance(struct pass *pass, double at, double past) {
    struct scene *scene = pass->scene;
    double slope = at > pass->at ? (past - pass->past) / (at - pass->at) : 0, edge;
    while (pass->bin < SCENE_BINS - 1 && (edge = (double)(pass->bin + 1) / SCENE_BINS) <= at) {
        bin_finish(pass);
        scene->past[pass->bin] = pass->past + (edge - pass->at) * slope;
    }
    while (pass->moment < SCENE_MOMENTS - 1 &&
           (edge = (double)(pass->moment + 1) / SCENE_MOMENTS) <= at) {
        moment_finish(pass);
        double time = 2 * edge - (pass->past + (edge - pass->at) * slope);
        pass->moment_ns =
            scene->begin_ns + (uint64_t)(time * (double)(scene->end_ns - scene->begin_ns));
    }
    pass->at = at;
    pass->past = past;
}

static void second_change(struct pass *pass, const struct live_block *block, uint64_t time_ns,
                          uint64_t add, uint64_t take) {
    struct scene *scene = pass->scene;
    uint32_t groups[SCENE_GROUPINGS];
    groups_find(scene, block, groups);
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        struct scene_grouped *grouped = &scene->grouped[i];
        column_change(&grouped->columns[grouped->groups[groups[i]].column], pass->bin_epoch, add,
                      take);
    }
    column_change(&scene->stack_columns[groups_stack(scene, block->stack)], pass->moment_epoch, add,
                  take);
    scene->live = scene->live + add - take;
    if (scene->live > pass->bin_peak) {
        pass->bin_peak = scene->live;
        pass->bin_epoch++;
    }
    if (scene->live > pass->moment_peak) {
        pass->moment_peak = scene->live;
        pass->moment_ns = time_ns;
        pass->moment_epoch++;
    }
}

static void block_show(struct scene *scene, const struct live_block *block, uint64_t end_ns,
                       uint64_t end_step) {
    uint32_t groups[SCENE_GROUPINGS];
    groups_find(scene, block, groups);
    struct scene_block shown = {.begin_ns = block->begin_ns,
                                .end_ns = end_ns,
                                .begin_step = block->begin_step,
                                .end_step = end_step,
                                .place = ranges_find(&scene->ranges, block->addr),
                                .bytes = block->bytes,
                                .tag = groups[SCENE_TAGS],
                                .stack = groups_stack(scene, block->stack),
                                .stream = groups[SCENE_STREAMS]};
    shown.area = (double)block->bytes * (scene_at(scene, end_ns, end_step) -
                                         scene_at(scene, block->begin_ns, block->begin_step));
    if (block->addr > 0) {
        blocks_add(scene, &shown);
    }
}

static void pool_look(struct pass *pass, const struct recorded *event) {
    size_t i = 0;
    while (i < pass->pool_count && pass->pools[i].pool != event->pool) {
        i++;
    }
    if (i == POOLS_MAX) {
        return;
    }
    pass->pool_count += i == pass->pool_count;
    bool ended = event->kind == RECORDED_POOL_END;
    pass->pools[i] = (struct pool_look){.pool = event->pool,
                                        .held = ended ? 0 : event->sample.reserved,
                                        .limit = ended ? 0 : event->sample.limit};
    pass->held = 0;
    pass->limit = 0;
    for (i = 0; i < pass->pool_count; i++) {
        pass->held += (double)pass->pools[i].held;
        pass->limit += (double)pass->pools[i].limit;
    }
    pass->limit = pass->limit > 0 ? pass->limit : (double)NAN;
    pass->held_most = pass->held_most > pass->held ? pass->held_most : pass->held;
}

/* --------------------------------------------------------------------- passes */

static void pass_begun(void *user, const struct live_block *block) {
    struct pass *pass = user;
    if (pass->second) {
        second_change(pass, block, block->begin_ns, block->bytes, 0);
    } else {
        first_begun(pass, block);
    }
}

static void pass_ended(void *user, const struct live_block *block, uint64_t end_ns, bool left) {
    struct pass *pass = user;
    if (!pass->second) {
        first_ended(pass, block, left);
        return;
    }
    if (end_ns != LIVE_TO_THE_END) { /* the end of the trace changes nothing */
        second_change(pass, block, end_ns, 0, block->bytes);
    }
    block_show(pass->scene, block, end_ns, end_ns == LIVE_TO_THE_END ? UINT64_MAX : pass->step);
}

static bool pass_event(struct pass *pass, struct report_input *input, struct live_set *set,
                       const struct recorded *event) {
    const struct live_watcher watcher = {pass, pass_begun, pass_ended};
    struct scene *scene = pass->scene;
    pass->step += live_set_is_step(event);
    if (pass->second) {
        pass_advance(pass, scene_at(scene, event->time_ns, pass->step), past_of(scene, pass->step));
        if (event->kind == RECORDED_SAMPLE || event->kind == RECORDED_POOL_END) {
            pool_look(pass, event);
        } else if (event->kind == RECORDED_REFUSE || event->kind == RECORDED_MARK) {
            pass->full = !notes_add(scene, event, pass->step, pass->held) || pass->full;
        }
    } else {
        bool first = scene->blocks == 0 && event->kind == RECORDED_ALLOC;
        scene->begin_ns = first ? event->time_ns : scene->begin_ns;
        scene->end_ns = event->time_ns > scene->end_ns ? event->time_ns : scene->end_ns;
        scene->steps = pass->step;
        if (!groups_note(scene, input, event)) {
            return false;
        }
    }
    return live_set_add(set, event, &watcher) && !pass->full;
}

static bool pass_run(struct pass *pass, const struct report_source *source,
                     struct report_input *input) {
    const struct live_watcher watcher = {pass, pass_begun, pass_ended};
    struct scene *scene = pass->scene;
    struct live_set set;
    struct recorded event;
    bool there = true, good, read;
    if (pass->second) {
        report_input_close(input);
    }
    read = report_source_open(input, source);
    good = live_set_begin(&set) && (pass->second || groups_begin(scene, input->format));
    while (good && read && there) {
        read = report_input_next(input, &event, &there);
        if (read && there && event.kind != RECORDED_TRANSFER) {
            event.time_ns = event.time_ns < scene->begin_ns ? scene->begin_ns : event.time_ns;
            good = pass_event(pass, input, &set, &event);
        }
    }
    if (good && read && pass->second) { /* the rest, and the end as one more of each */
        pass_advance(pass, 1, 1);
        bin_finish(pass);
        bin_finish(pass);
        scene->past[SCENE_BINS] = 1;
        moment_finish(pass);
        pass->moment_ns = scene->end_ns;
        moment_finish(pass);
    }
    if (good && read) {
        live_set_finish(&set, &watcher);
    }
    scene->left_out = set.left_out;
    live_set_free(&set);
    scene->problem = good && !pass->full ? NULL : "out of host memory";
    return scene->problem == NULL && read;
}

static bool second_begin(struct scene *scene, struct pass *pass) {
    scene->live = 0;
    scene->total = calloc(SCENE_BINS + 1, sizeof(float));
    scene->held = calloc(SCENE_BINS + 1, sizeof(float));
    scene->limit = calloc(SCENE_BINS + 1, sizeof(float));
    scene->past = calloc(SCENE_BINS + 1, sizeof(double));
    scene->moment_changes = calloc(SCENE_MOMENTS + 1, sizeof(uint32_t));
    scene->moment_ns = calloc(SCENE_MOMENTS + 1, sizeof(uint64_t));
    scene->notes = calloc(SCENE_NOTES_MAX, sizeof *scene->notes);
    ranges_place(&scene->ranges);
    bool good = groups_rank(scene) && blocks_begin(scene);
    pass->emitted = calloc(scene->stack_count, sizeof(float));
    pass->moment_ns = scene->begin_ns;
    return good && scene->total && scene->held && scene->limit && scene->past &&
           scene->moment_changes && scene->moment_ns && scene->notes && pass->emitted;
}

bool scene_read(struct scene *scene, const struct report_source *source, size_t blocks,
                struct report_input *input) {
    memset(scene, 0, sizeof *scene);
    scene->kept_max = blocks > 0 && blocks < SCENE_BLOCKS ? blocks : SCENE_BLOCKS;
    struct pass *pass = calloc(2, sizeof *pass);
    bool good = pass != NULL;
    scene->problem = good ? NULL : "out of host memory";
    if (good) {
        pass[0].scene = pass[1].scene = scene;
        pass[1].second = true;
        pass[1].bin_epoch = pass[1].moment_epoch = 1;
        pass[1].held = pass[1].held_most = pass[1].limit = (double)NAN;
        good = pass_run(&pass[0], source, input);
    }
    if (good) {
        good = second_begin(scene, &pass[1]);
        scene->problem = good ? NULL : "out of host memory";
        good = good && pass_run(&pass[1], source, input);
    }
    if (good) {
        blocks_finish(scene);
    }
    if (pass != NULL) {
        free(pass[1].emitted);
    }
    free(pass);
    return good;
}

void scene_free(struct scene *scene) {
    for (int i = 0; i < SCENE_GROUPINGS; i++) {
        for (uint32_t column = 0; column <= SCENE_COLUMNS; column++) {
            free(scene->grouped[i].bins[column]);
        }
    }
    groups_free(scene);
    free(scene->stack_columns);
    free(scene->moment_changes);
    free(scene->change_stacks);
    free(scene->change_bytes);
    free(scene->moment_ns);
    free(scene->total);
    free(scene->held);
    free(scene->limit);
    free(scene->past);
    free(scene->ranges.all);
    free(scene->kept);
    free(scene->grid);
    notes_free(scene);
    memset(scene, 0, sizeof *scene);
}
