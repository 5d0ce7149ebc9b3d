/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.h: what is short of memory, on its way from step to step (vram/oom.h). That is an
 * allocation, a pool that wakes, or an allocation for which the library itself has no host memory
 * left.
 *
 *   miss.c            a request before it is short, and one attempt to serve it
 *   ladder.c          the order of the steps, and the climb
 *   climb.c           one attempt of a climb
 *   ladder_step.c     the steps that give memory back, and the one to other memory
 *   ladder_wait.c     waiting, for queues and for other threads
 *   ladder_callback.c the program's callbacks
 *   quota_charge.c    quotas of tags
 *   handler.c         the context's error handler
 *   report.h          what is said when nothing helped
 *
 *  (1) No lock is held by a step when it calls a driver or the program.
 *  (2) A step that makes an attempt leaves its answer in `tried`; the climb ends as soon as that is
 *      no shortage, be it success or another error.
 *  (3) What a step gives back is measured, not guessed; only callbacks are believed.
 */
#ifndef VR_LADDER_H
#define VR_LADDER_H

#include "base/status.h"
#include "core/object/request.h"
#include "vram/oom.h"

/* What became of one step of a climb. */
struct vr_step_result {
    uint32_t taken; /* times */
    uint64_t bytes; /* given back */
    uint64_t ns;    /* the device's time, as vr_pool_now has it */
};

/* What a climb is for: it decides which steps can help. */
enum vr_purpose {
    VR_FOR_ALLOC = 1 << 0, /* a block */
    VR_FOR_WAKE = 1 << 1,  /* memory under blocks that sleep */
    VR_FOR_HOST =
        1 << 2 /* the library's own host memory, for a block: only VRAM_ERR_HOST_MEMORY climbs */
};

struct vr_ladder_run;

/* One attempt to get what the climb is for; its answer. */
typedef vram_status vr_attempt_fn(struct vr_ladder_run *run);

struct vr_ladder_run {
    struct vr_pool *pool;
    const struct vr_request *request;
    enum vr_purpose purpose;
    vr_attempt_fn *attempt;     /* NULL for VR_FOR_ALLOC, whose steps know what to try */
    void *subject;              /* the attempt's own */
    struct vr_block **block;    /* where the block goes; VR_FOR_ALLOC */
    struct vr_ladder ladder;    /* the pool's, as it was when the climb began */
    enum vram_ladder_step step; /* the present one */
    vram_status status;         /* what growing was refused with */
    vram_status tried;          /* the latest attempt; see (2) */
    uint64_t grown;             /* what the driver gave of it */
    uint64_t deadline;          /* for unfinished work */
    uint32_t rounds;            /* times that work was waited for */
    struct vr_step_result results[VRAM_LADDER_STEPS];
};

/* ----------------------------------------------------------------------- attempts */

/* Ways to serve a request, which the pool has (miss.c) and the steps try. No lock held. */
struct vr_miss_ops {
    /* Asks with these flags and carries out what the space plans. *grown: what the space may take
       from the driver with VR_WANT_NO_GROWTH, and what the driver gave in the end. */
    vram_status (*plan)(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                        uint64_t *grown, struct vr_block **block);
    /* Memory that is mapped already, whatever the policy would rather have. */
    vram_status (*held)(struct vr_pool *pool, const struct vr_request *request,
                        struct vr_block **block);
    /* Memory of another queue, after the device has been told to wait for it. */
    vram_status (*after)(struct vr_pool *pool, const struct vr_request *request,
                         struct vr_block **block);
};

/* Whether a status means that the ladder may help. */
static inline bool vr_status_is_short(vram_status status) {
    return (vr_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY) ||
           status == VRAM_ERR_NOT_READY;
}

/* ------------------------------------------------------------------ climbing; ladder.c */

/* Gives a pool that is being made its ladder; VRAM_ERR_INVALID when the option `ladder` has no
   meaning. */
vram_status vr_ladder_init(struct vr_pool *pool);

/* Begins a climb for a request that was refused with `status` when the driver had given `grown`
   bytes. */
void vr_ladder_begin(struct vr_ladder_run *run, struct vr_pool *pool,
                     const struct vr_request *request, vram_status status, uint64_t grown,
                     struct vr_block **block);
/* The same for another purpose. */
void vr_ladder_begin_for(struct vr_ladder_run *run, enum vr_purpose purpose, struct vr_pool *pool,
                         const struct vr_request *request, vram_status status,
                         vr_attempt_fn *attempt, void *subject);
/* Climbs: VRAM_OK with what it was for, an error that is no shortage, or the status it began with
   and its error record. */
vram_status vr_ladder_execute(struct vr_ladder_run *run);
/* What the request was refused with, for programs: where work that has not ended stands in the way,
   what ran out is the limit, or the device's memory. */
vram_status vr_ladder_status(const struct vr_ladder_run *run);

/* The step `fallback` alone, for a request that was refused with `status` and its error record; of
   whatever memory there is when the pool allows none. */
vram_status vr_ladder_fall_back(struct vr_pool *pool, const struct vr_request *request,
                                vram_status status, struct vr_block **block);

/* One more attempt to serve the request; climb.c. */
void vr_ladder_try(struct vr_ladder_run *run);
/* The same if the present step gave anything back, which is noted. */
void vr_ladder_released(struct vr_ladder_run *run, uint64_t bytes);

/* ---------------------------------------------------------------------------- the steps */

/* "unknown" for what is none; ladder.c. */
const char *vr_ladder_step_name(vram_ladder_step step);

/* Whether the step could do anything at all. */
typedef bool vr_step_fn(struct vr_ladder_run *run);

vr_step_fn vr_step_drain, vr_step_finished, vr_step_move, vr_step_trim, vr_step_others,
    vr_step_cleanup, vr_step_retry, vr_step_fallback; /* ladder_step.c */
vr_step_fn vr_step_wait;                              /* ladder_wait.c */
vr_step_fn vr_step_callbacks;                         /* ladder_callback.c */

/* Behind a row of the pool's own steps: waits for unfinished work, on the device or for a while on
   the host. False when there is none, or no time left; ladder_wait.c. */
bool vr_ladder_wait(struct vr_ladder_run *run);

/* Has a pool give back up to `need` bytes of what it has free; how much it did. No lock held;
   ladder_step.c. */
uint64_t vr_pool_release_free(struct vr_pool *pool, uint64_t need);

#endif
