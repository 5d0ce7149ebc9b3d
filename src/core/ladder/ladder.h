/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ladder.h: a run through the steps of the ladder when memory is short (vram/oom.h): for an
 * allocation, for a pool that wakes, or for an allocation that the library itself has no host
 * memory for.
 *
 *   miss.c            serves a request while memory is not short
 *   ladder.c          the order of the steps, and a run through them
 *   ladder_attempt.c  one attempt within a run
 *   ladder_step.c     the steps that release memory, and the one to other memory
 *   ladder_wait.c     waiting, for queues and for other threads
 *   ladder_callback.c the program's callbacks
 *   ladder_lease.c    other processes
 *   quota_charge.c    quotas of tags
 *   handler.c         the context's error handler
 *   report.h          the report when no step helped
 *
 *  (1) A step holds no lock when it calls a driver or the program.
 *  (2) A step that makes an attempt leaves the status in `tried`. The run ends as soon as that is
 *      no shortage: success or another error.
 *  (3) The bytes that a step releases are measured. Only callbacks report their own.
 */
#ifndef VR_LADDER_H
#define VR_LADDER_H

#include "base/status.h"
#include "core/limit/limit.h"
#include "core/object/request.h"
#include "vram/oom.h"

/* The result of one step of a run. */
struct vr_step_result {
    uint32_t taken; /* times */
    uint64_t bytes; /* released */
    uint64_t ns;    /* in the device's time, as vr_pool_now has it */
};

/* What a run is for: it decides which steps can help. */
enum vr_purpose {
    VR_FOR_ALLOC = 1 << 0, /* a block */
    VR_FOR_WAKE = 1 << 1,  /* memory under blocks that sleep */
    VR_FOR_HOST = 1 << 2 /* the library's host memory for a block; continues on HOST_MEMORY only */
};

struct vr_ladder_run;

/* Makes one attempt to get what the run is for; its status. */
typedef vram_status vr_attempt_fn(struct vr_ladder_run *run);

struct vr_ladder_run {
    struct vr_pool *pool;
    const struct vr_request *request;
    enum vr_purpose purpose;
    vr_attempt_fn *attempt;     /* NULL for VR_FOR_ALLOC, whose steps know what to try */
    void *subject;              /* the attempt's own data */
    struct vr_block **block;    /* the result; VR_FOR_ALLOC */
    struct vr_ladder ladder;    /* the pool's, as it was when the run began */
    enum vram_ladder_step step; /* the current one */
    vram_status status;         /* why the pool could not grow */
    vram_status tried;          /* status of the latest attempt; see (2) */
    uint64_t grown;             /* bytes that the driver gave for it */
    uint64_t deadline;          /* for unfinished work */
    uint32_t rounds;            /* waits for work so far */
    uint64_t changes;           /* vr_ladder_changes at the last look: ladder_wait.c (4), */
    uint32_t repeats;           /* and how often that alone was the reason to go on */
    struct vr_step_result results[VRAM_LADDER_STEPS];
    struct vr_lease_refusal refusal; /* of the step `lease` */
    struct vr_lease_hold *hold;      /* of what it is granted; NULL: until the step has ended */
};

/* ----------------------------------------------------------------------- attempts */

/* How the pool serves a request (miss.c); the steps call these. No lock held. */
struct vr_miss_ops {
    /* Asks the space with these flags and executes its plan. *grown: the bytes that the space may
       take from the driver with VR_WANT_NO_GROWTH; then the bytes that the driver gave. */
    vram_status (*plan)(struct vr_pool *pool, const struct vr_request *request, uint32_t flags,
                        uint64_t *grown, struct vr_block **block);
    /* Uses memory that is already mapped, whatever the placement policy prefers. */
    vram_status (*held)(struct vr_pool *pool, const struct vr_request *request,
                        struct vr_block **block);
    /* Uses memory of another queue: the request's queue then waits for it on the device. */
    vram_status (*after)(struct vr_pool *pool, const struct vr_request *request,
                         struct vr_block **block);
    /* Rebuilds coarse pieces until so many bytes are won; the program has declared a safe point. */
    vram_status (*rebuild)(struct vr_pool *pool, uint64_t bytes,
                           struct vram_rebuild_result *result);
};

/* Whether a status means that the ladder may help. */
static inline bool vr_status_is_short(vram_status status) {
    return (vr_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY) ||
           status == VRAM_ERR_NOT_READY;
}

/* --------------------------------------------------------------------- a run; ladder.c */

/* Sets the ladder of a new pool; VRAM_ERR_INVALID if the option `ladder` cannot be read. */
vram_status vr_ladder_init(struct vr_pool *pool);

/* Begins a run for a request that failed with `status` after the driver had given `grown` bytes. */
void vr_ladder_begin(struct vr_ladder_run *run, struct vr_pool *pool,
                     const struct vr_request *request, vram_status status, uint64_t grown,
                     struct vr_block **block);
/* The same for another purpose. */
void vr_ladder_begin_for(struct vr_ladder_run *run, enum vr_purpose purpose, struct vr_pool *pool,
                         const struct vr_request *request, vram_status status,
                         vr_attempt_fn *attempt, void *subject);
/* Takes the steps. VRAM_OK: it has what it is for. Otherwise an error that is no shortage, or the
   status and the error record that it began with. */
vram_status vr_ladder_execute(struct vr_ladder_run *run);
/* The status of the failed request for the program. If unfinished work is in the way, that is
   VRAM_ERR_LIMIT or VRAM_ERR_DEVICE_MEMORY. */
vram_status vr_ladder_status(const struct vr_ladder_run *run);

/* Takes only the step `fallback`, for a request that failed with `status` and its error record.
   Uses any other memory if the pool allows none. */
vram_status vr_ladder_fall_back(struct vr_pool *pool, const struct vr_request *request,
                                vram_status status, struct vr_block **block);

/* Makes one more attempt to serve the request; ladder_attempt.c. */
void vr_ladder_try(struct vr_ladder_run *run);
/* Notes what the current step released; if that is not 0, makes one more attempt. */
void vr_ladder_released(struct vr_ladder_run *run, uint64_t bytes);

/* ---------------------------------------------------------------------------- the steps */

/* "unknown" if the value is no step; ladder.c. */
const char *vr_ladder_step_name(vram_ladder_step step);

/* Returns whether the step could do anything. */
typedef bool vr_step_fn(struct vr_ladder_run *run);

vr_step_fn vr_step_drain, vr_step_finished, vr_step_move, vr_step_trim, vr_step_others,
    vr_step_cleanup, vr_step_retry, vr_step_rebuild, vr_step_fallback; /* ladder_step.c */
vr_step_fn vr_step_wait;                                               /* ladder_wait.c */
vr_step_fn vr_step_callbacks;                                          /* ladder_callback.c */
vr_step_fn vr_step_lease;                                              /* ladder_lease.c */
/* The request of run->hold begins, before a run, and has ended; ladder_lease.c. No lock held. */
void vr_lease_hold_begin(const struct vr_pool *pool, struct vr_lease_hold *hold);
void vr_lease_hold_end(const struct vr_pool *pool, struct vr_lease_hold *hold);

/* After a row of the pool's own steps: waits for unfinished work, on the device or for a short time
   on the host. False: there is none, or no time is left; ladder_wait.c. */
bool vr_ladder_wait(struct vr_ladder_run *run);
/* Waits a little if the memory that the request needs was on its way at the last attempt, or is
   now. False: it was not, or no time is left; ladder_wait.c. */
bool vr_ladder_wait_transit(struct vr_ladder_run *run);
/* A number that changes when work or another thread leaves memory in the pool. Under the lock. */
uint64_t vr_ladder_changes(const struct vr_pool *pool);

/* Releases up to `need` bytes of free memory of the pool to the driver; returns how many. No lock
   held; ladder_step.c. */
uint64_t vr_pool_release_free(struct vr_pool *pool, uint64_t need);

#endif
