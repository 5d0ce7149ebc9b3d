/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.c: asynchronous products, computed by threads of the scheduler.
 *
 * The threads take products in the order of submission and compute them as vram_matmul_run does. So
 * they are asynchronous whatever the driver does with pageable memory, and on the CPU too. There
 * are two threads, so that one product is sent while another is computed.
 *
 *  (1) Each thread has a reference to the scheduler. The end of the scheduler stops and joins the
 *      threads; a thread that itself ends the scheduler, from a callback, is detached.
 *  (2) A job's record is finished exactly once, by the thread that took the job off the list, with
 *      no lock held.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

enum { THREADS = 2 };

struct background_job {
    struct vr_link link;
    struct vr_product product; /* its weights are pinned */
    vram_async_work *record;
};

/* Guarded by the scheduler's lock. */
struct vr_background {
    struct vr_cond changed;
    struct vr_list jobs;
    bool stopping;
    uint32_t waiting; /* threads without work */
    uint32_t started;
    uint64_t numbers[THREADS]; /* of the threads; 0: not running yet */
    struct vr_thread threads[THREADS];
};

static void job_finish(struct vr_scheduler *scheduler, struct background_job *job,
                       vram_status status) {
    vram_async_work *record = job->record;
    vr_product_drop(&job->product);
    vr_mem_free(job);
    vr_fetch_sub(&scheduler->counters.pending, 1, VR_RELAXED);
    (void)vram_async_finish(record, status);
}

/* The next job, or NULL when there will be none; *stopping: do not run it. */
static struct background_job *job_next(struct vr_scheduler *scheduler, bool *stopping) {
    struct vr_background *background = scheduler->background;
    struct vr_link *link;
    vr_mutex_lock(&scheduler->lock);
    while (!(link = vr_list_first(&background->jobs)) && !background->stopping) {
        background->waiting++;
        (void)vr_cond_wait(&background->changed, &scheduler->lock, UINT64_MAX);
        background->waiting--;
    }
    *stopping = background->stopping;
    if (link) {
        vr_link_remove(link);
    }
    vr_mutex_unlock(&scheduler->lock);
    return link ? VR_CONTAINER(link, struct background_job, link) : NULL;
}

static void run_thread(void *argument) {
    VR_OPERATION("vram_matmul_start");
    struct vr_scheduler *scheduler = argument;
    struct vr_background *background = scheduler->background;
    uint64_t handle = scheduler->object.handle;
    bool stopping;
    struct background_job *job;
    vr_mutex_lock(&scheduler->lock);
    background->numbers[background->numbers[0] ? 1 : 0] = vr_os_thread_number();
    vr_mutex_unlock(&scheduler->lock);
    while ((job = job_next(scheduler, &stopping))) {
        vram_status status;
        if (stopping) {
            status = vr_fail(VRAM_ERR_SHUTDOWN, "the scheduler has ended");
        } else {
            status = vr_products_run(scheduler, &job->product, 1);
        }
        job_finish(scheduler, job, status);
    }
    vr_handle_unpin(handle); /* keeps (1) */
}

/* ------------------------------------------------------------------- starting */

/* Creates the list if there is none. A scheduler that has ended gets none, since nothing would stop
   its threads. */
static vram_status background_prepare(struct vr_scheduler *scheduler) {
    vr_mutex_lock(&scheduler->lock);
    bool made = scheduler->background != NULL, ended = scheduler->ended;
    vr_mutex_unlock(&scheduler->lock);
    if (ended) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the scheduler has ended");
    }
    if (made) {
        return VRAM_OK;
    }
    struct vr_background *background = vr_mem_alloc(1, sizeof *background, vr_operation());
    if (!background) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_list_init(&background->jobs);
    vram_status status = vr_cond_init(&background->changed);
    if (status != VRAM_OK) {
        vr_mem_free(background);
        return status;
    }
    vr_mutex_lock(&scheduler->lock);
    ended = scheduler->ended;
    if (!scheduler->background && !ended) {
        scheduler->background = background;
        background = NULL;
    }
    vr_mutex_unlock(&scheduler->lock);
    if (background) { /* another thread was first */
        vr_cond_destroy(&background->changed);
        vr_mem_free(background);
    }
    return ended ? vr_fail(VRAM_ERR_SHUTDOWN, "the scheduler has ended") : VRAM_OK;
}

/* Starts a thread unless one is idle or all are running. The lock is held during the system call,
   which happens at most twice per scheduler: so the end of the scheduler either joins the thread or
   prevents its start. */
static vram_status ensure_thread(struct vr_scheduler *scheduler) {
    struct vr_background *background = scheduler->background;
    vram_status status = VRAM_OK;
    vr_mutex_lock(&scheduler->lock);
    bool needed =
        !background->stopping && background->waiting == 0 && background->started < THREADS;
    if (needed) {
        struct vr_thread *thread = &background->threads[background->started];
        vr_handle_ref(scheduler->object.handle);
        status = vr_os_thread_start(thread, "vram-compute", run_thread, scheduler);
        background->started += status == VRAM_OK;
    }
    bool others = background->started > 0;
    vr_mutex_unlock(&scheduler->lock);
    if (status != VRAM_OK) {
        vr_handle_unpin(scheduler->object.handle);
    }
    return others ? VRAM_OK
                  : status; /* the other thread does all the work; without one the call fails */
}

/* Adds a job to the list; false: the scheduler has ended. */
static bool job_add(struct vr_scheduler *scheduler, struct background_job *job) {
    struct vr_background *background = scheduler->background;
    vr_mutex_lock(&scheduler->lock);
    bool open = !background->stopping;
    if (open) {
        vr_list_append(&background->jobs, &job->link);
        vr_cond_broadcast(&background->changed);
    }
    vr_mutex_unlock(&scheduler->lock);
    return open;
}

static vram_status job_begin(struct vr_scheduler *scheduler, struct background_job *job,
                             vram_async *async) {
    vram_status status = background_prepare(scheduler);
    if (status == VRAM_OK) {
        status = ensure_thread(scheduler);
    }
    if (status == VRAM_OK) {
        status = vr_in_operation(
            vram_async_begin(scheduler->device, vr_operation(), async, &job->record));
    }
    return status;
}

vram_status vram_matmul_start(vram_scheduler *handle, const vram_matmul *product,
                              vram_async *async) {
    VR_CALL;
    struct vr_scheduler *scheduler;
    vram_async made;
    void *entered;
    if (!async) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the handle is NULL");
    }
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    scheduler = entered;
    struct background_job *job = vr_mem_alloc(1, sizeof *job, vr_operation());
    status = job ? vr_product_take(scheduler, product, &job->product) : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK) {
        status = job_begin(scheduler, job, &made);
    }
    if (status != VRAM_OK) {
        if (job) {
            vr_product_drop(&job->product);
        }
        vr_mem_free(job);
    } else {
        vr_counter_add(&scheduler->counters.pending, 1);
        if (!job_add(scheduler, job)) {
            job_finish(scheduler, job, vr_fail(VRAM_ERR_SHUTDOWN, "the scheduler has ended"));
        }
        *async = made;
    }
    vr_leave(scheduler);
    return status;
}

/* --------------------------------------------------------------------- ending */

void vr_background_end(struct vr_scheduler *scheduler) {
    uint64_t own = vr_os_thread_number();
    vr_mutex_lock(&scheduler->lock);
    struct vr_background *background = scheduler->background;
    uint32_t started = 0;
    scheduler->ended = true;
    if (background) {
        background->stopping = true;
        started = background->started;
        vr_cond_broadcast(&background->changed);
    }
    bool inside = background && (background->numbers[0] == own || background->numbers[1] == own);
    vr_mutex_unlock(&scheduler->lock);
    for (uint32_t i = 0; i < started; i++) {
        if (inside) {
            vr_os_thread_detach(&background->threads[i]); /* keeps (1) */
        } else {
            vr_os_thread_join(&background->threads[i]);
        }
    }
}

void vr_background_free(struct vr_scheduler *scheduler) {
    if (scheduler->background) {
        vr_cond_destroy(&scheduler->background->changed);
        vr_mem_free(scheduler->background);
    }
}
