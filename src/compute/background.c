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
 *  (3) The end of a scheduler fails the jobs that have not begun. One with a context of its own
 *      computes them first: failures are forgotten with the context, and the handles of such jobs
 *      would say that they are ready.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

enum { THREADS = 2 };

/* Of background_job.bits. */
enum {
    A_HERE = 1 << 0, /* the operand is a host pointer, not an address of the device */
    B_HERE = 1 << 1,
    C_HERE = 1 << 2,
    B_WEIGHTS = 1 << 3, /* B is a struct vr_weights, pinned */
    TRANS_A = 1 << 4,
    TRANS_B = 1 << 5
};

/* A product that waits. There may be thousands, so it has only what is needed to make the
   vr_product again. */
struct background_job {
    struct background_job *next;
    vram_async_work *record;
    uint64_t m, k, n;
    uint64_t a, b, c; /* as `bits` says */
    vram_queue *queue;
    uint8_t precision, place, bits;
};
_Static_assert(sizeof(struct background_job) <= 80, "what vram/async.h says of a pending product");

/* Guarded by the scheduler's lock. */
struct vr_background {
    struct vr_cond changed;
    struct background_job *first, **last; /* by `next` */
    bool stopping;
    uint32_t started;
    uint64_t numbers[THREADS]; /* of the threads; 0: not running yet */
    struct vr_thread threads[THREADS];
};

static uint64_t operand_pack(const void *host, vram_addr addr, unsigned bit,
                             struct background_job *job) {
    job->bits |= (uint8_t)(host ? bit : 0);
    return host ? (uintptr_t)host : addr;
}

static void *operand_unpack(const struct background_job *job, uint64_t operand, unsigned bit,
                            vram_addr *addr) {
    *addr = job->bits & bit ? 0 : operand;
    return job->bits & bit ? (void *)(uintptr_t)operand : NULL;
}

/* Takes over a checked product, and its pin of the weights. */
static void job_pack(struct background_job *job, const struct vr_product *product) {
    job->m = product->m;
    job->k = product->k;
    job->n = product->n;
    job->queue = product->queue;
    job->precision = (uint8_t)product->precision;
    job->place = (uint8_t)product->place;
    job->bits = (uint8_t)((product->trans_a ? TRANS_A : 0) | (product->trans_b ? TRANS_B : 0) |
                          (product->weights ? B_WEIGHTS : 0));
    job->a = operand_pack(product->a, product->a_addr, A_HERE, job);
    job->b = product->weights ? (uintptr_t)product->weights
                              : operand_pack(product->b, product->b_addr, B_HERE, job);
    job->c = operand_pack(product->c, product->c_addr, C_HERE, job);
}

static struct vr_product job_product(const struct background_job *job) {
    struct vr_product product = {.m = job->m,
                                 .k = job->k,
                                 .n = job->n,
                                 .precision = (vram_precision)job->precision,
                                 .each = vram_precision_bytes((vram_precision)job->precision),
                                 .trans_a = (job->bits & TRANS_A) != 0,
                                 .trans_b = (job->bits & TRANS_B) != 0,
                                 .place = (vram_place)job->place,
                                 .queue = job->queue};
    product.a = operand_unpack(job, job->a, A_HERE, &product.a_addr);
    product.c = operand_unpack(job, job->c, C_HERE, &product.c_addr);
    if (job->bits & B_WEIGHTS) {
        product.weights = (struct vr_weights *)(uintptr_t)job->b;
        product.b = product.weights->host;
        product.b_addr = product.weights->addr;
    } else {
        product.b = operand_unpack(job, job->b, B_HERE, &product.b_addr);
    }
    product.resident = product.a_addr || product.b_addr || product.c_addr;
    return product;
}

static void job_finish(struct vr_scheduler *scheduler, struct background_job *job,
                       vram_status status) {
    vram_async_work *record = job->record;
    struct vr_product product = job_product(job);
    vr_product_drop(&product);
    vr_mem_free(job);
    vr_fetch_sub(&scheduler->counters.pending, 1, VR_RELAXED);
    (void)vram_async_finish(record, status);
}

/* The next job, or NULL when there will be none; *stopping: do not run it. */
static struct background_job *job_next(struct vr_scheduler *scheduler, bool *stopping) {
    struct vr_background *background = scheduler->background;
    struct background_job *job;
    vr_mutex_lock(&scheduler->lock);
    while (!(job = background->first) && !background->stopping) {
        (void)vr_cond_wait(&background->changed, &scheduler->lock, UINT64_MAX);
    }
    *stopping = background->stopping && !scheduler->own; /* keeps (3) */
    if (job) {
        background->first = job->next;
        background->last = job->next ? background->last : &background->first;
    }
    vr_mutex_unlock(&scheduler->lock);
    return job;
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
            struct vr_product product = job_product(job);
            status = vr_products_run(scheduler, &product, 1);
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
    background->last = &background->first;
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

/* Starts a thread if there are more products than threads: one that waits may have been woken for
   an earlier product. The lock is held during the system call,
   which happens at most twice per scheduler: so the end of the scheduler either joins the thread or
   prevents its start. */
static vram_status ensure_thread(struct vr_scheduler *scheduler) {
    struct vr_background *background = scheduler->background;
    vram_status status = VRAM_OK;
    vr_mutex_lock(&scheduler->lock);
    bool needed = !background->stopping && background->started < THREADS &&
                  vr_load(&scheduler->counters.pending, VR_RELAXED) > background->started;
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
        *background->last = job;
        background->last = &job->next;
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
        /* the result is the product: its first element, wherever it lies */
        status = vr_in_operation(
            vram_async_begin(scheduler->device, vr_operation(), job->c, async, &job->record));
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
    struct vr_product taken = {.weights = NULL};
    struct background_job *job = vr_mem_alloc(1, sizeof *job, vr_operation());
    status = job ? vr_product_take(scheduler, product, &taken) : VRAM_ERR_HOST_MEMORY;
    vr_counter_add(&scheduler->counters.pending, 1);
    if (status == VRAM_OK) {
        job_pack(job, &taken);
        status = job_begin(scheduler, job, &made);
    }
    if (status != VRAM_OK) {
        vr_fetch_sub(&scheduler->counters.pending, 1, VR_RELAXED);
        vr_product_drop(&taken);
        vr_mem_free(job);
    } else {
        if (!job_add(scheduler, job)) { /* the handle tells of it, and not the call */
            struct vram_error before;
            vr_error_save(&before);
            job_finish(scheduler, job, vr_fail(VRAM_ERR_SHUTDOWN, "the scheduler has ended"));
            vr_error_restore(&before);
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
