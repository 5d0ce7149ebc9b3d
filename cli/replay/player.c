/* SPDX-License-Identifier: Apache-2.0 */
/*
 * player.c: see player.h.
 */
#include "player.h"
#include "relay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PROGRESS_OPS = 2048 };

struct session {
    const struct trace *trace;
    const struct policy *policy;
    struct place place;
    void *state; /* the policy's */
    struct checker checker;
    bool simulated, verify, pace;
    bool fine;           /* the clock runs around each call of the policy, not around the pass */
    struct curve *curve; /* NULL: none is asked for */
    struct replay_block *blocks; /* trace->block_slots of them */
    uint64_t serial;             /* allocations so far */
    uint32_t repeat;
};

/* One pass while it is played. */
struct play {
    struct session *session;
    session_progress_fn *progress;
    void *user;
    size_t next;                    /* operation */
    vram_status status;             /* of the first that failed */
    char text[VRAM_ERROR_TEXT_MAX]; /* what its thread's record says of it */
    uint64_t spent_ns, started_ns;  /* of the stopwatch */
    uint64_t began_ns;              /* when the trace's time was 0 */
    uint64_t live_bytes;            /* as asked for; counted for the curve */
};

/* ----------------------------------------------------------------------- time */

static uint64_t wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(const struct session *session) {
    vram_sim_state state = {.size = sizeof state};
    if (!session->simulated) {
        return wall_ns();
    }
    return vram_sim_state_get(session->place.context, &state) == VRAM_OK ? state.clock_ns : 0;
}

static void watch_start(struct play *play) {
    play->started_ns = now_ns(play->session);
}

static void watch_stop(struct play *play) {
    play->spent_ns += now_ns(play->session) - play->started_ns;
}

/* Lets the time pass that the program took up to this operation; late is late. */
static void follow(struct play *play, const struct trace_op *op) {
    const struct session *session = play->session;
    if (!session->simulated && !session->pace) {
        return;
    }
    uint64_t due = play->began_ns + op->t_us * 1000, now = now_ns(session);
    if (due <= now) {
        return;
    }
    if (session->simulated) {
        vram_sim_clock_advance(session->place.context, due - now);
        return;
    }
    struct timespec left = {.tv_sec = (time_t)((due - now) / UINT64_C(1000000000)),
                            .tv_nsec = (long)((due - now) % UINT64_C(1000000000))};
    nanosleep(&left, NULL);
}

/* ----------------------------------------------------------------- operations */

static vram_status play_alloc(struct play *play, const struct trace_op *op) {
    struct session *session = play->session;
    struct replay_block *block = &session->blocks[op->block];
    *block = (struct replay_block){.bytes = op->bytes, .queue = op->queue};
    if (session->fine) {
        watch_start(play);
    }
    vram_status status = session->policy->alloc(session->state, op->bytes, op->queue, block);
    if (session->fine) {
        watch_stop(play);
    }
    if (status != VRAM_OK) {
        return status;
    }
    block->serial = ++session->serial;
    return session->verify ? checker_fill(&session->place, block, op->queue, op->bytes) : VRAM_OK;
}

/* Work on `queue` stands behind all that was submitted for the block, as in any right program. */
static vram_status order_behind_users(struct session *session, const struct replay_block *block,
                                      uint32_t queue) {
    uint64_t users = block->used_queues | UINT64_C(1) << block->queue;
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < session->place.queue_count && status == VRAM_OK; i++) {
        if (users & UINT64_C(1) << i) {
            status = place_order(&session->place, i, queue);
        }
    }
    return status;
}

/*
 * Every second block that another queue writes is checked before that, not at its free: its free
 * must not wait for the other queue, or memory that is reused too early would never be found out.
 * What the late write spoils then is the next owner's, who is checked.
 */
static bool checked_early(const struct replay_block *block) {
    return block->serial % 2 == 0;
}

static vram_status play_use(struct play *play, const struct trace_op *op) {
    struct session *session = play->session;
    struct replay_block *block = &session->blocks[op->block];
    bool other = op->queue != block->queue;
    vram_status status = VRAM_OK;
    if (session->verify && other && block->used_queues == 0 && checked_early(block)) {
        status = checker_check(&session->checker, block);
    }
    if (status == VRAM_OK) {
        status = order_behind_users(session, block, op->queue);
    }
    if (status == VRAM_OK) {
        status = checker_fill(&session->place, block, op->queue, op->bytes);
    }
    if (status != VRAM_OK || !other) {
        return status;
    }
    block->used_queues |= UINT64_C(1) << op->queue;
    return session->policy->use != NULL ? session->policy->use(session->state, block, op->queue)
                                        : VRAM_OK;
}

static vram_status check_at_free(struct session *session, const struct replay_block *block) {
    if (!session->verify || (block->used_queues != 0 && checked_early(block))) {
        return VRAM_OK;
    }
    vram_status status = order_behind_users(session, block, block->queue);
    return status == VRAM_OK ? checker_check(&session->checker, block) : status;
}

/* A free on another queue than the block's own stands behind what its own was given. */
static vram_status play_free(struct play *play, struct replay_block *block, uint32_t queue) {
    struct session *session = play->session;
    vram_status status = check_at_free(session, block);
    if (status == VRAM_OK) {
        status = place_order(&session->place, block->queue, queue);
    }
    if (session->fine) {
        watch_start(play);
    }
    /* Freed whatever happened before: the policy must not be left with blocks that nobody knows. */
    vram_status freed = session->policy->free(session->state, block, queue);
    if (session->fine) {
        watch_stop(play);
    }
    block->serial = 0;
    return status == VRAM_OK ? freed : status;
}

static vram_status play_op(struct play *play, const struct trace_op *op) {
    follow(play, op);
    switch ((enum trace_kind)op->kind) {
    case TRACE_ALLOC:
        return play_alloc(play, op);
    case TRACE_FREE:
        return play_free(play, &play->session->blocks[op->block], op->queue);
    case TRACE_USE:
        return play_use(play, op);
    }
    return VRAM_ERR_CORRUPT;
}

/* A trace without times is drawn over its operations. */
static uint32_t part_of(const struct trace *trace, size_t index) {
    double whole = (double)trace_ns(trace), at = (double)trace->ops[index].t_us * 1000;
    if (whole == 0) {
        whole = (double)trace->op_count, at = (double)index;
    }
    double part = at / whole * CURVE_POINTS;
    return part < CURVE_POINTS ? (uint32_t)part : CURVE_POINTS - 1;
}

static vram_status note_curve(struct play *play, const struct trace_op *op) {
    struct session *session = play->session;
    struct policy_counts counts;
    if (op->kind == TRACE_ALLOC) {
        play->live_bytes += op->bytes;
    } else if (op->kind == TRACE_FREE) {
        play->live_bytes -= session->blocks[op->block].bytes;
    }
    vram_status status = session->policy->counts(session->state, &counts);
    if (status == VRAM_OK) {
        curve_note(session->curve, part_of(session->trace, play->next), counts.reserved_bytes,
                   play->live_bytes);
    }
    return status;
}

/* The record belongs to the thread that failed. */
static void keep_text(struct play *play, vram_status status) {
    const vram_error *error = vram_error_get();
    bool recorded = error->status == status && error->text[0] != 0;
    snprintf(play->text, sizeof play->text, "%s",
             recorded ? error->text : vram_status_text(status));
}

/* One thread's turn: operations up to the first of another thread. False at the end. */
static bool play_turn(void *user, uint32_t *thread) {
    struct play *play = user;
    const struct trace *trace = play->session->trace;
    while (play->next < trace->op_count && play->status == VRAM_OK) {
        const struct trace_op *op = &trace->ops[play->next];
        if (op->thread != *thread) {
            *thread = op->thread;
            return true;
        }
        play->status = play_op(play, op);
        if (play->status == VRAM_OK && play->session->curve != NULL) {
            play->status = note_curve(play, op);
        }
        play->next += play->status == VRAM_OK;
        if (play->status != VRAM_OK) {
            keep_text(play, play->status);
        }
        if (play->next % PROGRESS_OPS == 0 && play->progress != NULL) {
            if (!play->session->fine) { /* drawing is not the policy's */
                watch_stop(play);
            }
            play->progress(play->user, play->next);
            if (!play->session->fine) {
                watch_start(play);
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------------ pass */

/* Frees what the trace left, so that the next pass finds what this one found. */
static vram_status free_rest(struct play *play) {
    struct session *session = play->session;
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < session->trace->block_slots; i++) {
        struct replay_block *block = &session->blocks[i];
        if (block->serial != 0) {
            vram_status freed = play_free(play, block, block->queue);
            status = status == VRAM_OK ? freed : status;
        }
    }
    return status;
}

/* Says in the pass what went wrong, and at which operation if it was one. */
static void note_failure(struct play *play, vram_status status, bool at_op, struct pass *pass) {
    char where[64] = "";
    /* No device has a size that overflows when it is rounded up. */
    bool exhausted = (vram_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY) ||
                     status == VRAM_ERR_OVERFLOW;
    if (at_op) {
        snprintf(where, sizeof where, "operation %zu, %" PRIu64 " bytes: ", play->next + 1,
                 play->session->trace->ops[play->next].bytes);
    }
    if (!at_op) {
        keep_text(play, status);
    }
    pass->result = exhausted ? PASS_EXHAUSTED : PASS_FAILED;
    snprintf(pass->reason, sizeof pass->reason, "%s%s (%s)", where, play->text,
             vram_status_name(status));
}

/* A simulated driver writes down what a real one would not forgive. */
static void note_violation(const struct session *session, struct pass *pass) {
    vram_sim_state state = {.size = sizeof state};
    char text[PASS_REASON_MAX - 64];
    if (session->simulated && vram_sim_state_get(session->place.context, &state) == VRAM_OK &&
        state.violations > 0 &&
        vram_sim_violation(session->place.context, 0, text, sizeof text) == VRAM_OK) {
        pass->result = PASS_FAILED;
        snprintf(pass->reason, sizeof pass->reason, "a rule of the driver was violated: %s", text);
    }
}

/* Only what this pass added; the peak is the session's. */
static vram_status count(const struct session *session, const struct policy_counts *before,
                         struct pass *pass) {
    vram_status status = session->policy->counts(session->state, &pass->counts);
    pass->counts.moved_handles -= before->moved_handles;
    pass->counts.move_ns -= before->move_ns;
    for (int i = 0; i < POLICY_CALL_COUNT; i++) {
        pass->counts.calls[i] -= before->calls[i];
    }
    return status;
}

static vram_status play_all(struct play *play) {
    uint32_t first = 0; /* the first operation's thread is always 0 */
    if (!play->session->fine) {
        watch_start(play);
    }
    vram_status status = relay_run(play->session->trace->thread_count, first, play_turn, play);
    if (!play->session->fine) {
        watch_stop(play);
    }
    return status != VRAM_OK ? status : play->status;
}

void session_play(struct session *session, session_progress_fn *progress, void *user,
                  struct pass *pass) {
    struct policy_counts before = {.peak_reserved_bytes = 0};
    struct play play = {.session = session, .progress = progress, .user = user};
    uint64_t mismatched = session->checker.mismatched_bytes;
    *pass = (struct pass){.trace = session->trace,
                          .policy = session->policy,
                          .repeat = ++session->repeat,
                          .curve = session->curve};
    if (session->curve != NULL) {
        *session->curve = (struct curve){.count = 0};
    }
    vram_status status = session->policy->counts(session->state, &before);
    play.began_ns = now_ns(session);
    if (status == VRAM_OK) {
        status = play_all(&play);
        if (status != VRAM_OK) {
            note_failure(&play, status, play.status != VRAM_OK, pass);
        }
    } else {
        note_failure(&play, status, false, pass);
    }
    if (session->curve != NULL && status == VRAM_OK) {
        curve_finish(session->curve);
    }
    pass->op_count = play.next;
    pass->spent_ns = play.spent_ns;
    vram_status after = free_rest(&play);
    if (after == VRAM_OK && session->verify) {
        after = checker_settle(&session->checker);
    }
    if (after == VRAM_OK) {
        after = place_wait(&session->place, UINT64_MAX);
    }
    if (after == VRAM_OK) {
        after = count(session, &before, pass);
    }
    if (pass->result == PASS_DONE && after != VRAM_OK) {
        note_failure(&play, after, false, pass);
    }
    note_violation(session, pass);
    pass->mismatched_bytes = session->checker.mismatched_bytes - mismatched;
    pass->device_checked = session->checker.scanner != NULL;
}

/* -------------------------------------------------------------------- session */

static bool has_uses(const struct trace *trace) {
    for (size_t i = 0; i < trace->op_count; i++) {
        if (trace->ops[i].kind == TRACE_USE) {
            return true;
        }
    }
    return false;
}

vram_status session_open(const struct session_options *options, const struct trace *trace,
                         const struct policy *policy, struct session **opened) {
    struct session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    session->trace = trace;
    session->policy = policy;
    session->verify = options->verify;
    session->pace = options->pace;
    session->curve = options->curve;
    session->blocks = calloc((size_t)trace->block_slots + 1, sizeof *session->blocks);
    vram_status status = session->blocks != NULL ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK) {
        status = place_open(&session->place, &options->place, trace->queue_count);
    }
    session->simulated = session->place.info.kind == VRAM_DEVICE_SIMULATED;
    session->fine = session->verify || session->pace || session->simulated ||
                    session->curve != NULL || has_uses(trace);
    if (status == VRAM_OK && session->verify) {
        status = checker_begin(&session->checker, &session->place, trace->peak_bytes);
    }
    if (status == VRAM_OK) {
        status = policy->begin(&session->place, &session->state);
    }
    if (status != VRAM_OK) {
        session_close(session);
        return status;
    }
    *opened = session;
    return VRAM_OK;
}

void session_close(struct session *session) {
    if (session == NULL) {
        return;
    }
    if (session->state != NULL) {
        session->policy->end(session->state);
    }
    checker_end(&session->checker);
    place_close(&session->place);
    free(session->blocks);
    free(session);
}
