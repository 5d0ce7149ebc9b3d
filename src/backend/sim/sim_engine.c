/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_engine.c: how submitted work completes, without a thread of its own.
 *
 *  (1) Only the first work of a stream can complete, so a stream keeps its order. It completes when
 *      the virtual clock has reached its start plus its cost, and as many calls have been made as
 *      its lag says. It starts when it was submitted or when the work before it completed,
 *      whichever is later.
 *  (2) Work takes effect at that moment and not before: an upload reads host memory then, a
 *      download writes it then. So freeing host memory too early is noticed.
 *  (3) Work never completes inside the call that submitted it: its tick lies in the future.
 *  (4) Of several streams the work that completes earlier runs first; at the same time the seed
 *      decides.
 *  (5) A kernel runs without the lock. Its stream has a `runner` meanwhile: no other thread touches
 *      the stream's first work, and the runner keeps the stream alive.
 *  (6) A failure of the system while work takes effect cannot be returned to the caller, who makes
 *      another call: the device is lost, as on real hardware.
 */
#include "backend/sim/sim_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/text.h"

#include <assert.h>

/* splitmix64: any seed is valid, also 0. */
uint64_t vr_sim_random(struct vr_sim *sim) {
    uint64_t value = sim->random += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* ----------------------------------------------------------------- finding work */

static struct vr_sim_work *stream_first_work(const struct vr_sim_stream *stream) {
    struct vr_link *first = vr_list_first(&stream->work);
    assert(first); /* a stream without work is not in the list */
    return VR_CONTAINER(first, struct vr_sim_work, link);
}

/* When a stream's first work completes, by (1). */
static uint64_t work_done_ns(const struct vr_sim_work *work) {
    uint64_t start = work->submitted_ns, done;
    start = start > work->stream->free_ns ? start : work->stream->free_ns;
    start = start > work->passed_ns ? start : work->passed_ns;
    return vr_add(start, work->cost_ns, &done) ? done : UINT64_MAX;
}

/* Whether it only waits for time to pass. */
static bool work_is_ready(const struct vr_sim_work *work) {
    return !work->stream->runner && !vr_link_linked(&work->wait_link);
}

static bool work_precedes(const struct vr_sim_work *one, const struct vr_sim_work *other) {
    uint64_t one_ns = work_done_ns(one), other_ns = work_done_ns(other);
    return one_ns < other_ns || (one_ns == other_ns && one->tie < other->tie);
}

static bool work_is_due(const struct vr_sim *sim, const struct vr_sim_work *work) {
    return work_done_ns(work) <= sim->clock_ns && work->ready_tick <= sim->ticks;
}

/* The work that completes next by (4): of what is due or, with `early`, of all. NULL if there is
   none. */
static struct vr_sim_work *work_next(const struct vr_sim *sim, bool early) {
    struct vr_sim_work *best = NULL;
    for (struct vr_link *link = vr_list_first(&sim->streams); link;
         link = vr_list_next(&sim->streams, link)) {
        struct vr_sim_work *work =
            stream_first_work(VR_CONTAINER(link, struct vr_sim_stream, link));
        if (work_is_ready(work) && (early || work_is_due(sim, work)) &&
            (!best || work_precedes(work, best))) {
            best = work;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ ending work */

void vr_sim_waiters_release(struct vr_sim_queue *queue, uint64_t value, uint64_t ns) {
    struct vr_link *link = vr_list_first(&queue->waiters);
    while (link) {
        struct vr_sim_work *work = VR_CONTAINER(link, struct vr_sim_work, wait_link);
        link = vr_list_next(&queue->waiters, link);
        if (work->value <= value) {
            vr_link_remove(&work->wait_link);
            work->passed_ns = ns;
        }
    }
}

static void launch_release(struct vr_sim *sim, const struct vr_sim_launch *launch) {
    for (unsigned i = 0; i < VR_SIM_ARGUMENTS_MAX; i++) {
        if (launch->touched & 1u << i) {
            vr_sim_busy_add(sim, *(const uint64_t *)launch->arguments[i], 1, -1);
        }
    }
    launch->kernel->busy--;
}

/* Removes work from its stream, complete or not, and frees what it has. */
static void work_end(struct vr_sim *sim, struct vr_sim_work *work) {
    struct vr_sim_stream *stream = work->stream;
    if (work->launch) {
        launch_release(sim, work->launch);
        vr_mem_free(work->launch);
    }
    vr_sim_busy_add(sim, work->to, work->to ? work->bytes : 0, -1);
    vr_sim_busy_add(sim, work->from, work->from ? work->bytes : 0, -1);
    vr_link_remove(&work->wait_link);
    vr_link_remove(&work->link);
    if (vr_list_empty(&stream->work)) {
        vr_link_remove(&stream->link);
    }
    vr_mem_free(work);
}

void vr_sim_stream_clear(struct vr_sim *sim, struct vr_sim_stream *stream) {
    struct vr_link *link = vr_list_first(&stream->work);
    if (link && stream->runner) {
        link = vr_list_next(&stream->work, link); /* keeps (5) */
    }
    while (link) {
        struct vr_sim_work *work = VR_CONTAINER(link, struct vr_sim_work, link);
        link = vr_list_next(&stream->work, link);
        if (work->kind == VRAM_SIM_SIGNAL) {
            /* What other devices wait for will never come: they continue. */
            vr_sim_waiters_release(work->queue, work->value, sim->clock_ns);
        }
        work_end(sim, work);
    }
}

/* ------------------------------------------------------------------ doing work */

/* Runs all groups of a kernel, in an order that the seed decides. */
static void launch_run_groups(const struct vr_sim_launch *launch, bool backwards) {
    vram_kernel_call call = launch->call;
    call.arguments = launch->arguments;
    for (uint32_t z = 0; z < call.groups[2]; z++) {
        for (uint32_t y = 0; y < call.groups[1]; y++) {
            for (uint32_t x = 0; x < call.groups[0]; x++) {
                call.group[0] = backwards ? call.groups[0] - 1 - x : x;
                call.group[1] = backwards ? call.groups[1] - 1 - y : y;
                call.group[2] = backwards ? call.groups[2] - 1 - z : z;
                launch->code(&call);
            }
        }
    }
}

static void work_run_kernel(struct vr_sim *sim, struct vr_sim_work *work) {
    work->stream->runner = vr_error_get();
    vr_mutex_unlock(&sim->lock); /* (5) */
    launch_run_groups(work->launch, work->tie & 1);
    vr_mutex_lock(&sim->lock);
    work->stream->runner = NULL;
}

static vram_status work_apply(struct vr_sim *sim, struct vr_sim_work *work, uint64_t ns) {
    switch ((int)work->kind) {
    case VRAM_SIM_UPLOAD:
        return vr_sim_write(sim, work->to, work->from_host, work->bytes);
    case VRAM_SIM_DOWNLOAD:
        return vr_sim_read(sim, work->to_host, work->from, work->bytes);
    case VRAM_SIM_COPY:
    case VRAM_SIM_PEER_COPY:
        return vr_sim_copy(sim, work->to, work->from, work->bytes);
    case VRAM_SIM_FILL:
        return vr_sim_fill(sim, work->to, work->pattern, work->pattern_bytes, work->bytes);
    case VRAM_SIM_SIGNAL:
        vr_store(&work->queue->word->value, work->value, VR_RELEASE);
        vr_sim_waiters_release(work->queue, work->value, ns);
        return VRAM_OK;
    case VRAM_SIM_LAUNCH:
        work_run_kernel(sim, work);
        return VRAM_OK;
    default: /* after and prefetch only take time */
        return VRAM_OK;
    }
}

static void work_run(struct vr_sim *sim, struct vr_sim_work *work) {
    struct vr_sim_stream *stream = work->stream;
    struct vr_sim_gpu *gpu = stream->gpu;
    uint64_t ns = work_done_ns(work);
    vram_error before;
    vr_error_save(&before);
    stream->users++;
    vram_status status = work_apply(sim, work, ns);
    stream->free_ns = ns;
    work_end(sim, work);
    if (status != VRAM_OK) { /* (6) */
        char why[VR_SIM_TEXT_MAX];
        vr_text_format(why, sizeof why, "its memory could not be kept: %s", vr_error_get()->text);
        vr_sim_gpu_lose(sim, gpu, why);
        vr_error_restore(&before);
    }
    vr_sim_stream_leave(stream);
}

/* ---------------------------------------------------------------------- driving */

void vr_sim_advance(struct vr_sim *sim) {
    struct vr_sim_work *work;
    while ((work = work_next(sim, false))) {
        work_run(sim, work);
    }
}

bool vr_sim_step(struct vr_sim *sim) {
    struct vr_sim_work *work = work_next(sim, true);
    if (!work) {
        return false;
    }
    sim->ticks++;
    uint64_t ns = work_done_ns(work);
    sim->clock_ns = ns > sim->clock_ns ? ns : sim->clock_ns;
    vr_sim_advance(sim);
    return true;
}

/* Whether another thread runs a kernel. False inside a kernel, where the caller would wait for
   itself. */
static bool kernel_runs_elsewhere(const struct vr_sim *sim) {
    bool found = false;
    for (struct vr_link *link = vr_list_first(&sim->streams); link;
         link = vr_list_next(&sim->streams, link)) {
        const void *runner = VR_CONTAINER(link, struct vr_sim_stream, link)->runner;
        if (runner == vr_error_get()) {
            return false;
        }
        found = found || runner;
    }
    return found;
}

void vr_sim_finish_all(struct vr_sim *sim) {
    for (;;) {
        struct vr_sim_work *work = work_next(sim, true);
        if (work) {
            uint64_t ns = work_done_ns(work);
            sim->clock_ns = ns > sim->clock_ns ? ns : sim->clock_ns;
            work_run(sim, work);
        } else if (kernel_runs_elsewhere(sim)) { /* others may wait for that kernel's stream */
            vr_mutex_unlock(&sim->lock);
            vr_os_yield();
            vr_mutex_lock(&sim->lock);
        } else {
            return;
        }
    }
}
