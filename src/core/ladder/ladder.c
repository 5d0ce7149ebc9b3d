/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.c: the order of the steps, and the climb; see ladder.h.
 */
#include "core/ladder/ladder.h"
#include "core/object/request.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/option.h"
#include "base/size.h"
#include "core/limit/budget.h"

#include <string.h>

enum {
    ALLOC = VR_FOR_ALLOC,
    ALLOC_WAKE = VR_FOR_ALLOC | VR_FOR_WAKE,
    ALL = VR_FOR_ALLOC | VR_FOR_WAKE | VR_FOR_HOST
};

/* One row a step, by its number. `own`: what the pool does with its own memory, again whenever
   work that holds some has ended. `ordered`: what a deterministic pool may do. `serves`: of
   vr_purpose. */
static const struct {
    const char *name;
    bool own, ordered;
    uint32_t serves;
    vr_step_fn *take;
} steps[VRAM_LADDER_STEPS] = {
    [VRAM_LADDER_DRAIN] = {"drain", true, false, ALLOC_WAKE, vr_step_drain},
    [VRAM_LADDER_FINISHED] = {"finished", true, false, ALLOC, vr_step_finished},
    [VRAM_LADDER_MOVE] = {"move", true, false, ALLOC, vr_step_move},
    [VRAM_LADDER_TRIM] = {"trim", true, false, ALLOC_WAKE, vr_step_trim},
    [VRAM_LADDER_OTHERS] = {"others", false, true, ALLOC_WAKE, vr_step_others},
    [VRAM_LADDER_CALLBACKS] = {"callbacks", false, true, ALLOC_WAKE, vr_step_callbacks},
    [VRAM_LADDER_CLEANUP] = {"cleanup", false, true, ALL, vr_step_cleanup},
    [VRAM_LADDER_RETRY] = {"retry", false, true, ALL, vr_step_retry},
    [VRAM_LADDER_WAIT] = {"wait", false, false, ALLOC, vr_step_wait},
    [VRAM_LADDER_FALLBACK] = {"fallback", false, false, ALLOC, vr_step_fallback},
};

const char *vr_ladder_step_name(vram_ladder_step step) {
    return (unsigned)step < VRAM_LADDER_STEPS ? steps[step].name : "unknown";
}

const char *vram_ladder_step_name(vram_ladder_step step) {
    return vr_ladder_step_name(step);
}

/* -------------------------------------------------------------------- the order */

static int find_step(const char *name, size_t bytes) {
    int step = VRAM_LADDER_STEPS;
    while (step-- > 0 &&
           (strlen(steps[step].name) != bytes || memcmp(steps[step].name, name, bytes) != 0)) {
    }
    return step; /* -1: none */
}

/* Reads "drain,move,retry". Empty: all, in the order of their numbers. */
static vram_status read_steps(const char *text, struct vr_ladder *ladder) {
    uint32_t seen = 0, count = 0;
    if (strcmp(text, "none") == 0) {
        ladder->count = 0;
        return VRAM_OK;
    }
    while (!*text && count < VRAM_LADDER_STEPS) {
        ladder->steps[count] = (uint8_t)count;
        count++;
    }
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        int step = find_step(at, length);
        int shown = length < 32 ? (int)length : 32;
        if (step < 0) {
            return vr_fail(VRAM_ERR_INVALID,
                           "no step of the ladder is called \"%.*s\"; there are drain, finished, "
                           "move, trim, others, callbacks, cleanup, retry, wait and fallback",
                           shown, at);
        }
        if (seen & 1u << step) {
            return vr_fail(VRAM_ERR_INVALID, "the ladder has the step \"%.*s\" twice", shown, at);
        }
        seen |= 1u << step;
        ladder->steps[count++] = (uint8_t)step;
        at += length + (at[length] == ',');
    }
    ladder->count = count;
    return VRAM_OK;
}

/* These steps, or what the process's options say. */
static vram_status read_ladder(const char *text, struct vr_ladder *ladder) {
    char option[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_LADDER, option);
    *ladder = (struct vr_ladder){.wait_ns = vr_option_number(VR_OPTION_OOM_WAIT)};
    return read_steps(text ? text : option, ladder);
}

vram_status vr_ladder_init(struct vr_pool *pool) {
    return read_ladder(NULL, &pool->ladder);
}

/* What the program says, over what the options say. */
static vram_status read_wishes(const struct vram_ladder_options *taken, struct vr_ladder *ladder) {
    const uint32_t kinds = VRAM_FALLBACK_MANAGED | VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST;
    vram_status status = read_ladder(taken->steps, ladder);
    if (status == VRAM_OK && taken->fallback & ~kinds) {
        status = vr_fail(VRAM_ERR_INVALID, "there is no such memory to fall back to: 0x%x",
                         taken->fallback);
    }
    ladder->fallback = taken->fallback;
    ladder->wait_ns = taken->wait_ns ? taken->wait_ns : ladder->wait_ns;
    return status;
}

vram_status vram_pool_ladder_set(vram_pool *handle, const vram_ladder_options *options) {
    VR_CALL;
    struct vram_ladder_options taken;
    struct vr_ladder ladder;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && (status = read_wishes(&taken, &ladder)) == VRAM_OK) {
        vr_mutex_lock(&pool->lock);
        pool->ladder = ladder;
        vr_mutex_unlock(&pool->lock);
    }
    vr_leave(pool);
    return status;
}

/* -------------------------------------------------------------------- the climb */

/* Whether the request is larger than all there can ever be: no memory that is given back helps it.
   The limits count as they are set: what is left of them today may be more tomorrow. */
static bool is_hopeless(const struct vr_pool *pool, const struct vr_request *request) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    uint64_t bytes = request->bytes, limit = vr_charge_limit(pool->device);
    if (bytes > vr_load(&pool->caps.own_bytes, VR_RELAXED)) {
        return true;
    }
    return vr_pool_on_device(pool) &&
           ((memory.known && bytes > memory.value) || (limit && bytes > limit) ||
            bytes > vr_load(&pool->caps.fraction_bytes, VR_RELAXED));
}

/* Leaves out of the ladder what this pool may not do, or what cannot help. */
static void choose_steps(struct vr_climb *climb) {
    struct vr_ladder *ladder = &climb->ladder;
    bool ordered = climb->pool->flags & VRAM_POOL_DETERMINISTIC;
    bool hopeless = is_hopeless(climb->pool, climb->request);
    uint32_t count = 0;
    for (uint32_t i = 0; i < ladder->count; i++) {
        uint8_t step = ladder->steps[i];
        if ((steps[step].serves & climb->purpose) && (!ordered || steps[step].ordered) &&
            (!hopeless || step == VRAM_LADDER_FALLBACK)) {
            ladder->steps[count++] = step;
        }
    }
    ladder->count = count;
}

void vr_climb_begin_for(struct vr_climb *climb, enum vr_purpose purpose, struct vr_pool *pool,
                        const struct vr_request *request, vram_status status,
                        vr_attempt_fn *attempt, void *subject) {
    *climb = (struct vr_climb){.pool = pool,
                               .request = request,
                               .purpose = purpose,
                               .attempt = attempt,
                               .subject = subject,
                               .status = status,
                               .tried = status,
                               .deadline = vr_deadline_in(pool->device->context->wait_ns)};
    vr_mutex_lock(&pool->lock);
    climb->ladder = pool->ladder;
    vr_mutex_unlock(&pool->lock);
    choose_steps(climb);
}

void vr_climb_begin(struct vr_climb *climb, struct vr_pool *pool, const struct vr_request *request,
                    vram_status status, uint64_t grown, struct vr_block **block) {
    vr_climb_begin_for(climb, VR_FOR_ALLOC, pool, request, status, NULL, NULL);
    climb->grown = grown;
    climb->block = block;
}

/* Whether a further step may help. */
static bool goes_on(const struct vr_climb *climb) {
    return climb->purpose == VR_FOR_HOST ? climb->tried == VRAM_ERR_HOST_MEMORY
                                         : vr_status_is_short(climb->tried);
}

/* Takes one step, and counts it. */
static void take(struct vr_climb *climb, enum vram_ladder_step step) {
    struct vr_pool_counters *counters = &climb->pool->counters;
    struct vr_rung *rung = &climb->rungs[step];
    uint64_t begin = vr_pool_now(climb->pool), bytes = rung->bytes;
    climb->step = step;
    if (steps[step].take(climb)) {
        rung->taken++;
        rung->ns += vr_pool_now(climb->pool) - begin;
        vr_counter_add(&counters->ladder_steps[step], 1);
        vr_counter_add(&counters->ladder_bytes[step], rung->bytes - bytes);
    }
    if (climb->tried == VRAM_OK) {
        vr_counter_add(&counters->ladder_rescues[step], 1);
    }
}

/* Behind the last of a row of the pool's own steps: whether work has ended, so that the row is
   worth taking again. It counts for the step `finished`. */
static bool wait_behind(struct vr_climb *climb) {
    struct vr_rung *rung = &climb->rungs[VRAM_LADDER_FINISHED];
    uint64_t begin = vr_pool_now(climb->pool);
    climb->step = VRAM_LADDER_FINISHED;
    bool again = vr_climb_wait(climb);
    rung->ns += vr_pool_now(climb->pool) - begin;
    if (climb->tried == VRAM_OK) {
        vr_counter_add(&climb->pool->counters.ladder_rescues[VRAM_LADDER_FINISHED], 1);
    }
    return again;
}

/* Takes the step at `at`, or the row of own steps that begins there; where it goes on. */
static uint32_t take_row(struct vr_climb *climb, uint32_t at) {
    const struct vr_ladder *ladder = &climb->ladder;
    uint32_t end = at + 1;
    bool waits = false;
    if (!steps[ladder->steps[at]].own) {
        take(climb, (enum vram_ladder_step)ladder->steps[at]);
        return end;
    }
    for (end = at; end < ladder->count && steps[ladder->steps[end]].own; end++) {
        waits = waits || ladder->steps[end] == VRAM_LADDER_FINISHED;
    }
    do {
        for (uint32_t i = at; i < end && goes_on(climb); i++) {
            take(climb, (enum vram_ladder_step)ladder->steps[i]);
        }
    } while (waits && goes_on(climb) && wait_behind(climb));
    return end;
}

vram_status vr_climb_run(struct vr_climb *climb) {
    struct vram_error error;
    vr_error_save(&error);
    vr_counter_add(&climb->pool->counters.ladder_runs, 1);
    for (uint32_t at = 0; at < climb->ladder.count && goes_on(climb);) {
        at = take_row(climb, at);
    }
    if (!goes_on(climb)) {
        return climb->tried; /* done, or something else went wrong and is in the record */
    }
    vr_error_restore(&error);
    return vr_climb_status(climb);
}

vram_status vr_climb_fall_back(struct vr_pool *pool, const struct vr_request *request,
                               vram_status status, struct vr_block **block) {
    struct vr_climb climb;
    vr_climb_begin(&climb, pool, request, status, 0, block);
    climb.ladder.count = 1;
    climb.ladder.steps[0] = VRAM_LADDER_FALLBACK;
    if (!climb.ladder.fallback) {
        climb.ladder.fallback = VRAM_FALLBACK_MANAGED | VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST;
    }
    return vr_climb_run(&climb);
}
