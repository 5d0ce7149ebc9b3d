/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.c: the order of the steps, and a run through them; see ladder.h.
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

/* One row per step, by its number. `own`: acts on the pool's own memory, and is repeated whenever
   work that holds some has ended. `ordered`: allowed in a deterministic pool. `serves`: of
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
    [VRAM_LADDER_REBUILD] = {"rebuild", false, false, ALLOC, vr_step_rebuild},
    [VRAM_LADDER_LEASE] = {"lease", false, true, ALLOC_WAKE, vr_step_lease},
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

/* The default order. Without `rebuild`: only the program knows whether it may be taken. Other
   processes are asked once this one has released what it can. */
static const uint8_t default_steps[] = {
    VRAM_LADDER_DRAIN,  VRAM_LADDER_FINISHED,  VRAM_LADDER_MOVE,    VRAM_LADDER_TRIM,
    VRAM_LADDER_OTHERS, VRAM_LADDER_CALLBACKS, VRAM_LADDER_CLEANUP, VRAM_LADDER_LEASE,
    VRAM_LADDER_RETRY,  VRAM_LADDER_WAIT,      VRAM_LADDER_FALLBACK};

/* Reads "drain,move,retry". Empty: the default order. */
static vram_status read_steps(const char *text, struct vr_ladder *ladder) {
    uint32_t seen = 0, count = 0;
    if (strcmp(text, "none") == 0) {
        ladder->count = 0;
        return VRAM_OK;
    }
    if (!*text) {
        count = sizeof default_steps;
        memcpy(ladder->steps, default_steps, sizeof default_steps);
    }
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        int step = find_step(at, length);
        int shown = length < 32 ? (int)length : 32;
        if (step < 0) {
            return vr_fail(VRAM_ERR_INVALID,
                           "the ladder has no step \"%.*s\"; the steps are drain, finished, "
                           "move, trim, others, callbacks, cleanup, lease, retry, wait, fallback "
                           "and rebuild",
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
    ladder->rebuilds = seen & 1u << VRAM_LADDER_REBUILD;
    return VRAM_OK;
}

/* Reads these steps or, with NULL, those of the process's options. */
static vram_status read_ladder(const char *text, struct vr_ladder *ladder) {
    char option[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_LADDER, option);
    *ladder = (struct vr_ladder){.wait_ns = vr_option_number(VR_OPTION_OOM_WAIT)};
    return read_steps(text ? text : option, ladder);
}

vram_status vr_ladder_init(struct vr_pool *pool) {
    return read_ladder(NULL, &pool->ladder);
}

/* Reads the program's settings, which take precedence over the options. */
static vram_status read_options(const struct vram_ladder_options *taken, struct vr_ladder *ladder) {
    const uint32_t kinds = VRAM_FALLBACK_MANAGED | VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST;
    vram_status status = read_ladder(taken->steps, ladder);
    if (status == VRAM_OK && taken->fallback & ~kinds) {
        status = vr_fail(VRAM_ERR_INVALID, "unknown memory to fall back to: 0x%x", taken->fallback);
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
    if (status == VRAM_OK && (status = read_options(&taken, &ladder)) == VRAM_OK) {
        vr_mutex_lock(&pool->lock);
        pool->ladder = ladder;
        vr_mutex_unlock(&pool->lock);
    }
    vr_leave(pool);
    return status;
}

/* ------------------------------------------------------------------------ a run */

/* Whether the request exceeds the device, or a limit as it is set: then no released memory helps.
   How much of a limit is in use does not count, since that may change. */
static bool can_never_fit(const struct vr_pool *pool, const struct vr_request *request) {
    const struct vram_value memory = pool->device->base.info.memory_bytes;
    uint64_t bytes = request->bytes, limit = vr_charge_limit(pool->device);
    if (bytes > vr_load(&pool->caps.own_bytes, VR_RELAXED) ||
        (vr_pool_is_charged(pool) && limit && bytes > limit)) {
        return true;
    }
    return vr_pool_on_device(pool) && ((memory.known && bytes > memory.value) ||
                                       bytes > vr_load(&pool->caps.fraction_bytes, VR_RELAXED));
}

/* Removes the steps that this pool may not take, or that cannot help. */
static void choose_steps(struct vr_ladder_run *run) {
    struct vr_ladder *ladder = &run->ladder;
    bool ordered = run->pool->flags & VRAM_POOL_DETERMINISTIC;
    bool hopeless = can_never_fit(run->pool, run->request);
    bool leased = vr_load(&run->pool->device->slot->account->lease, VR_RELAXED);
    uint32_t count = 0;
    for (uint32_t i = 0; i < ladder->count; i++) {
        uint8_t step = ladder->steps[i];
        if ((steps[step].serves & run->purpose) && (!ordered || steps[step].ordered) &&
            (!hopeless || step == VRAM_LADDER_FALLBACK) && (leased || step != VRAM_LADDER_LEASE)) {
            ladder->steps[count++] = step;
        }
    }
    ladder->count = count;
}

void vr_ladder_begin_for(struct vr_ladder_run *run, enum vr_purpose purpose, struct vr_pool *pool,
                         const struct vr_request *request, vram_status status,
                         vr_attempt_fn *attempt, void *subject) {
    *run = (struct vr_ladder_run){.pool = pool,
                                  .request = request,
                                  .purpose = purpose,
                                  .attempt = attempt,
                                  .subject = subject,
                                  .status = status,
                                  .tried = status,
                                  .deadline = vr_deadline_in(pool->device->context->wait_ns)};
    vr_mutex_lock(&pool->lock);
    run->ladder = pool->ladder;
    run->changes = vr_ladder_changes(pool);
    vr_mutex_unlock(&pool->lock);
    choose_steps(run);
}

void vr_ladder_begin(struct vr_ladder_run *run, struct vr_pool *pool,
                     const struct vr_request *request, vram_status status, uint64_t grown,
                     struct vr_block **block) {
    vr_ladder_begin_for(run, VR_FOR_ALLOC, pool, request, status, NULL, NULL);
    run->grown = grown;
    run->block = block;
}

/* Whether a further step may help. */
static bool is_still_short(const struct vr_ladder_run *run) {
    return run->purpose == VR_FOR_HOST ? run->tried == VRAM_ERR_HOST_MEMORY
                                       : vr_status_is_short(run->tried);
}

/* Takes one step, and counts it. */
static void take_step(struct vr_ladder_run *run, enum vram_ladder_step step) {
    struct vr_pool_counters *counters = &run->pool->counters;
    struct vr_step_result *result = &run->results[step];
    uint64_t begin = vr_pool_now(run->pool), bytes = result->bytes;
    run->step = step;
    if (steps[step].take(run)) {
        result->taken++;
        result->ns += vr_pool_now(run->pool) - begin;
        vr_counter_add(&counters->ladder_steps[step], 1);
        vr_counter_add(&counters->ladder_bytes[step], result->bytes - bytes);
    }
    if (run->tried == VRAM_OK) {
        vr_counter_add(&counters->ladder_rescues[step], 1);
    }
}

/* After a row of the pool's own steps: returns whether work has ended, so that the row is worth
   repeating. Counted as the step `finished`. */
static bool wait_behind(struct vr_ladder_run *run) {
    struct vr_step_result *result = &run->results[VRAM_LADDER_FINISHED];
    uint64_t begin = vr_pool_now(run->pool);
    run->step = VRAM_LADDER_FINISHED;
    bool again = vr_ladder_wait(run);
    result->ns += vr_pool_now(run->pool) - begin;
    if (run->tried == VRAM_OK) {
        vr_counter_add(&run->pool->counters.ladder_rescues[VRAM_LADDER_FINISHED], 1);
    }
    return again;
}

/* Takes the row of the pool's own steps from `at` to `end`. */
static void take_own(struct vr_ladder_run *run, uint32_t at, uint32_t end) {
    const uint8_t *row = run->ladder.steps;
    bool waits = memchr(row + at, VRAM_LADDER_FINISHED, end - at);
    do {
        for (uint32_t i = at; i < end && is_still_short(run); i++) {
            take_step(run, (enum vram_ladder_step)row[i]);
        }
    } while (waits && is_still_short(run) && wait_behind(run));
}

/* Takes the step at `at`, or the row of the pool's own steps that begins there. Returns the index
   of the next step. */
static uint32_t take_row(struct vr_ladder_run *run, uint32_t at) {
    const struct vr_ladder *ladder = &run->ladder;
    uint32_t end = at;
    while (end < ladder->count && steps[ladder->steps[end]].own) {
        end++;
    }
    if (end > at) {
        take_own(run, at, end);
        return end;
    }
    take_step(run, (enum vram_ladder_step)ladder->steps[at]);
    return at + 1;
}

/* The last attempt failed. What was on its way is where it was put, which may be the other space:
   takes the pool's own steps again. */
static void take_landed(struct vr_ladder_run *run) {
    while (is_still_short(run) && vr_ladder_wait_transit(run)) {
        for (uint32_t at = 0; at < run->ladder.count && is_still_short(run);) {
            at = steps[run->ladder.steps[at]].own ? take_row(run, at) : at + 1;
        }
    }
}

vram_status vr_ladder_execute(struct vr_ladder_run *run) {
    struct vram_error error;
    vr_error_save(&error);
    vr_counter_add(&run->pool->counters.ladder_runs, 1);
    for (uint32_t at = 0; at < run->ladder.count && is_still_short(run);) {
        bool last = run->ladder.steps[at] == VRAM_LADDER_RETRY;
        at = take_row(run, at);
        if (last && run->purpose == VR_FOR_ALLOC) {
            take_landed(run);
        }
    }
    if (!is_still_short(run)) {
        return run->tried; /* success, or an error that is in the record */
    }
    vr_error_restore(&error);
    return vr_ladder_status(run);
}

vram_status vr_ladder_fall_back(struct vr_pool *pool, const struct vr_request *request,
                                vram_status status, struct vr_block **block) {
    struct vr_ladder_run run;
    vr_ladder_begin(&run, pool, request, status, 0, block);
    run.ladder.count = 1;
    run.ladder.steps[0] = VRAM_LADDER_FALLBACK;
    if (!run.ladder.fallback) {
        run.ladder.fallback = VRAM_FALLBACK_MANAGED | VRAM_FALLBACK_PINNED | VRAM_FALLBACK_HOST;
    }
    return vr_ladder_execute(&run);
}
