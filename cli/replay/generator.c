/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generator.c: see generator.h.
 *
 * One model serves every kind: a program that works in steps. Weights are allocated first and live
 * to the end. A step allocates its blocks one by one; some are temporaries that go soon, in the
 * order of their making, the rest are freed at the end of the step, the last first, as a training
 * step does. A kind is no more than a row of settings for that model.
 */
#include "generator.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <vram/base.h>

enum { TEMPORARIES = 8, BURST = 16 }; /* that many live at once; a thread's turn in blocks */

struct settings {
    uint64_t steps;    /* of the program */
    uint64_t blocks;   /* allocated in each */
    uint64_t weights;  /* blocks that live to the end */
    uint64_t min, max; /* sizes in bytes, drawn evenly over their logarithm */
    uint64_t vary;     /* per cent of the blocks whose size is drawn anew in each step */
    uint64_t queues;   /* blocks take turns on them */
    uint64_t uses;     /* per cent of the blocks that work is submitted for */
    uint64_t threads;  /* take turns, BURST blocks each */
    uint64_t handover; /* per cent of the blocks that another thread frees */
    uint64_t step_us;  /* the host's time for a step */
    uint64_t seed;
};

#define MIB (UINT64_C(1) << 20)

static const struct {
    const char *name;
    struct settings settings;
} kinds[] = {
    /* Every step is like the one before: a pool has all it needs after the first. */
    {"steady", {20, 250, 60, 512, 16 * MIB, 0, 1, 0, 1, 0, 20000, 1}},
    /* Sizes change from step to step, as with sequences of every length. */
    {"varied", {20, 250, 60, 512, 16 * MIB, 100, 1, 0, 1, 0, 20000, 1}},
    /* Several queues, and blocks that more than one of them uses. */
    {"queues", {20, 250, 20, 512, 4 * MIB, 25, 4, 30, 1, 0, 20000, 1}},
    /* The host does not wait: it frees what the device still works on. Blocks of one size, so that
       memory is taken again at once; a simulated device with a large lag shows who is too early. */
    {"ahead", {10, 200, 20, 64 << 10, 64 << 10, 0, 4, 30, 1, 0, 100, 1}},
    /* Threads with a queue each; some blocks are freed by a thread that did not allocate them. */
    {"threads", {20, 240, 20, 512, 4 * MIB, 25, 4, 20, 4, 25, 20000, 1}},
};

static const struct {
    const char *name;
    size_t offset; /* in struct settings */
    uint64_t minimum, maximum;
    bool is_size; /* units are accepted */
} keys[] = {
    {"steps", offsetof(struct settings, steps), 1, 1000000, false},
    {"blocks", offsetof(struct settings, blocks), 1, 1000000, false},
    {"weights", offsetof(struct settings, weights), 0, 1000000, false},
    {"min", offsetof(struct settings, min), 1, UINT64_C(1) << 40, true},
    {"max", offsetof(struct settings, max), 1, UINT64_C(1) << 40, true},
    {"vary", offsetof(struct settings, vary), 0, 100, false},
    {"queues", offsetof(struct settings, queues), 1, TRACE_QUEUES_MAX, false},
    {"uses", offsetof(struct settings, uses), 0, 100, false},
    {"threads", offsetof(struct settings, threads), 1, TRACE_THREADS_MAX, false},
    {"handover", offsetof(struct settings, handover), 0, 100, false},
    {"step_us", offsetof(struct settings, step_us), 0, UINT64_C(1000000000), false},
    {"seed", offsetof(struct settings, seed), 0, UINT64_MAX, false},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0], KEY_COUNT = sizeof keys / sizeof keys[0] };

/* ------------------------------------------------------------- specification */

static bool read_value(size_t key, const char *text, uint64_t *value) {
    if (keys[key].is_size) {
        return vram_size_parse(text, value) == VRAM_OK;
    }
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
}

/* One "key=value", which is cut in two. */
static bool read_pair(char *pair, struct settings *settings, char problem[TRACE_PROBLEM_MAX]) {
    char *sign = strchr(pair, '=');
    size_t key = 0;
    uint64_t value;
    if (sign != NULL) {
        *sign = 0;
    }
    while (key < KEY_COUNT && strcmp(keys[key].name, pair) != 0) {
        key++;
    }
    if (key == KEY_COUNT || sign == NULL) {
        snprintf(problem, TRACE_PROBLEM_MAX,
                 "--generate: \"%.40s\" is none of steps, blocks, weights, min, max, vary, queues, "
                 "uses, threads, handover, step_us, seed, with =VALUE",
                 pair);
        return false;
    }
    if (!read_value(key, sign + 1, &value) || value < keys[key].minimum ||
        value > keys[key].maximum) {
        snprintf(problem, TRACE_PROBLEM_MAX,
                 "--generate: %s=%.40s: not a %s from %" PRIu64 " to %" PRIu64, pair, sign + 1,
                 keys[key].is_size ? "size" : "whole number", keys[key].minimum, keys[key].maximum);
        return false;
    }
    memcpy((char *)settings + keys[key].offset, &value, sizeof value);
    return true;
}

static bool read_settings(const char *text, struct settings *settings,
                          char problem[TRACE_PROBLEM_MAX]) {
    char copy[TRACE_NAME_MAX], *rest = NULL;
    size_t kind = 0;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy) {
        snprintf(problem, TRACE_PROBLEM_MAX, "--generate: the specification is too long");
        return false;
    }
    char *word = strtok_r(copy, ",", &rest);
    while (kind < KIND_COUNT && (word == NULL || strcmp(kinds[kind].name, word) != 0)) {
        kind++;
    }
    if (kind == KIND_COUNT) {
        snprintf(problem, TRACE_PROBLEM_MAX,
                 "--generate: \"%.40s\" is none of steady, varied, queues, ahead, threads",
                 word != NULL ? word : "");
        return false;
    }
    *settings = kinds[kind].settings;
    while ((word = strtok_r(NULL, ",", &rest)) != NULL) {
        if (!read_pair(word, settings, problem)) {
            return false;
        }
    }
    if (settings->min > settings->max) {
        snprintf(problem, TRACE_PROBLEM_MAX, "--generate: min is larger than max");
        return false;
    }
    return true;
}

/* --------------------------------------------------------------------- model */

struct model {
    struct settings settings;
    struct trace_builder builder;
    uint64_t random;
    uint64_t next_id, t_us;
    uint64_t *shapes; /* the size of each block of a step */
    uint64_t *kept;   /* ids that the step frees at its end; by block, NOT_KEPT for temporaries */
};

#define NOT_KEPT UINT64_MAX

/* splitmix64: small, and the same everywhere. */
static uint64_t draw(struct model *model) {
    uint64_t x = model->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool chance(struct model *model, uint64_t per_cent) {
    return draw(model) % 100 < per_cent;
}

/*
 * First one of the doublings between min and max, then a place within it: even over the logarithm,
 * in whole numbers, so that no rounding of a processor shows.
 */
static uint64_t draw_size(struct model *model) {
    uint64_t min = model->settings.min, max = model->settings.max, doublings = 1;
    while (min << doublings < max) {
        doublings++;
    }
    uint64_t low = min << draw(model) % doublings;
    uint64_t high = low > max / 2 ? max : low * 2;
    return low + draw(model) % (high - low + 1);
}

static bool add(struct model *model, enum trace_kind kind, uint64_t id, uint64_t bytes,
                uint64_t queue, uint64_t thread) {
    struct trace_entry entry = {.kind = kind,
                                .id = id,
                                .bytes = bytes,
                                .bytes_given = kind == TRACE_ALLOC,
                                .stream = queue,
                                .stream_given = kind != TRACE_FREE,
                                .thread = thread,
                                .t_us = model->t_us};
    return trace_builder_add(&model->builder, &entry);
}

static uint64_t thread_of(const struct model *model, uint64_t block) {
    return block / BURST % model->settings.threads;
}

static uint64_t queue_of(const struct model *model, uint64_t block) {
    const struct settings *settings = &model->settings;
    return (settings->threads > 1 ? thread_of(model, block) : block) % settings->queues;
}

/* Allocates a block and, by chance, submits work that writes it: on another queue where there is
   one, else on its own. */
static bool make(struct model *model, uint64_t block, uint64_t bytes, uint64_t *id) {
    const struct settings *settings = &model->settings;
    uint64_t queue = queue_of(model, block), thread = thread_of(model, block);
    *id = model->next_id++;
    if (!add(model, TRACE_ALLOC, *id, bytes, queue, thread)) {
        return false;
    }
    if (!chance(model, settings->uses)) {
        return true;
    }
    uint64_t user = (queue + draw(model)) % settings->queues;
    return add(model, TRACE_USE, *id, bytes, user, thread);
}

static bool drop(struct model *model, uint64_t block, uint64_t id) {
    const struct settings *settings = &model->settings;
    uint64_t thread = thread_of(model, block);
    if (chance(model, settings->handover)) {
        thread = (thread + 1) % settings->threads;
    }
    return add(model, TRACE_FREE, id, 0, 0, thread);
}

/* Every third block is a temporary; the oldest goes when there are too many of them. */
static bool forward(struct model *model, uint64_t began_us) {
    const struct settings *settings = &model->settings;
    uint64_t oldest = 0, temporaries = 0;
    for (uint64_t block = 0; block < settings->blocks; block++) {
        uint64_t id;
        if (chance(model, settings->vary)) {
            model->shapes[block] = draw_size(model);
        }
        model->t_us = began_us + settings->step_us * block / settings->blocks / 2;
        if (!make(model, block, model->shapes[block], &id)) {
            return false;
        }
        model->kept[block] = id;
        temporaries += block % 3 == 2;
        if (temporaries > TEMPORARIES) {
            for (oldest += oldest % 3 != 2; oldest % 3 != 2; oldest++) {
            }
            if (!drop(model, oldest, model->kept[oldest])) {
                return false;
            }
            model->kept[oldest++] = NOT_KEPT;
            temporaries--;
        }
    }
    return true;
}

static bool backward(struct model *model, uint64_t began_us) {
    const struct settings *settings = &model->settings;
    for (uint64_t done = 0; done < settings->blocks; done++) {
        uint64_t block = settings->blocks - 1 - done;
        uint64_t half = settings->step_us / 2;
        model->t_us = began_us + half + half * done / settings->blocks;
        if (model->kept[block] != NOT_KEPT && !drop(model, block, model->kept[block])) {
            return false;
        }
    }
    return true;
}

static bool run_program(struct model *model) {
    const struct settings *settings = &model->settings;
    uint64_t id;
    for (uint64_t weight = 0; weight < settings->weights; weight++) {
        if (!make(model, weight, draw_size(model), &id)) {
            return false;
        }
    }
    for (uint64_t block = 0; block < settings->blocks; block++) {
        model->shapes[block] = draw_size(model);
    }
    for (uint64_t step = 0; step < settings->steps; step++) {
        uint64_t began_us = settings->step_us * step;
        if (!forward(model, began_us) || !backward(model, began_us)) {
            return false;
        }
    }
    return true;
}

bool generator_run(const char *text, struct trace *trace, char problem[TRACE_PROBLEM_MAX]) {
    struct model model = {.next_id = 0};
    if (!read_settings(text, &model.settings, problem)) {
        return false;
    }
    model.random = model.settings.seed;
    model.shapes = calloc(model.settings.blocks, sizeof *model.shapes);
    model.kept = calloc(model.settings.blocks, sizeof *model.kept);
    bool good = trace_builder_begin(&model.builder, trace, text) && model.shapes != NULL &&
                model.kept != NULL && run_program(&model);
    if (!good) {
        snprintf(problem, TRACE_PROBLEM_MAX, "--generate: %.200s",
                 model.builder.problem[0] != 0 ? model.builder.problem : "out of host memory");
        trace_free(trace);
    }
    trace_builder_end(&model.builder);
    free(model.shapes);
    free(model.kept);
    return good;
}
