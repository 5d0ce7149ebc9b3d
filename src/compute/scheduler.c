/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler.c: creation and destruction of schedulers, and information on them. The invariants are
 * in scheduler_object.h.
 */
#include "compute/shortlist.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/struct_tail.h"
#include "base/text.h"

#include <string.h>

enum { LANES_DEFAULT = 3, CPU_THREADS_MAX = 16 };

/* --------------------------------------------------------------------- ending */

static void scheduler_free(void *memory) {
    struct vr_scheduler *scheduler = memory;
    vram_attachment *attachment = scheduler->attachment;
    vram_context *own = scheduler->own;
    vr_background_free(scheduler);
    vr_mem_free(vr_load(&scheduler->arithmetic, VR_RELAXED));
    vr_mem_free(vr_load(&scheduler->shortlist, VR_RELAXED));
    vr_mutex_destroy(&scheduler->lock);
    vr_mem_free(scheduler);
    (void)vram_attachment_end(attachment); /* the pool may be freed with it */
    (void)vram_context_destroy(own);
}

/* Ends what it owns. Queues wait for their work. */
static void release_all(struct vr_scheduler *scheduler) {
    struct vr_arithmetic *arithmetic = vr_load(&scheduler->arithmetic, VR_ACQUIRE);
    struct vram_error error;
    vr_error_save(&error);
    vr_shortlist_close(vr_load(&scheduler->shortlist, VR_ACQUIRE));
    if (arithmetic) {
        vr_arithmetic_close(arithmetic);
    }
    for (uint32_t i = 0; i < scheduler->queue_count; i++) {
        vram_queue_destroy(scheduler->queues[i]);
        (void)vram_attachment_wait(scheduler->attachment, scheduler->queues[i], 0);
    }
    vr_bounce_pool_end(scheduler);
    vr_scratch_end(scheduler);
    vr_error_restore(&error);
}

/* Runs when the last product has left: then queues and libraries end. */
static void scheduler_end(void *memory) {
    release_all(memory);
    scheduler_free(memory);
}

static vram_status stop_threads(void *scheduler) {
    vr_background_end(scheduler);
    return VRAM_OK;
}

/* `handle` is the scheduler's, which may have ended by now. */
static void pool_ended(void *handle) {
    struct vr_scheduler *scheduler = vr_handle_pin(VR_KIND_SCHEDULER, handle);
    if (scheduler) {
        vr_object_parent_ended(&scheduler->object, stop_threads);
        vr_leave(scheduler);
    }
}

vram_status vram_scheduler_destroy(vram_scheduler *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_SCHEDULER, handle, stop_threads,
                             "the scheduler is being destroyed");
}

/* ------------------------------------------------------------------- creating */

static vram_status options_check(const struct vram_scheduler_options *options) {
    if ((unsigned)options->place > VRAM_PLACE_DEVICE) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_place", (int)options->place);
    }
    if (options->flags & ~(uint32_t)(VRAM_SCHEDULER_NO_FALLBACK | VRAM_SCHEDULER_ANY_DEVICE)) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of a scheduler: 0x%x", options->flags);
    }
    if (options->queues > VR_QUEUES_MAX || options->cpu_threads > CPU_THREADS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "%u queues and %u threads are too many; at most %d and %d",
                       options->queues, options->cpu_threads, VR_QUEUES_MAX, CPU_THREADS_MAX);
    }
    const struct vram_calibration *rates = options->calibration;
    if (rates &&
        (rates->size < sizeof *rates || !vr_tail_is_zero(rates, sizeof *rates) ||
         !(rates->cpu_rate > 0) || !(rates->device_rate > 0) || !(rates->upload_rate > 0) ||
         !(rates->download_rate > 0) || !(rates->device_seconds >= 0))) {
        return vr_fail(VRAM_ERR_INVALID, "the rates of a calibration must be above 0");
    }
    return VRAM_OK;
}

/* An OpenCL device that is the CPU gives one kernel all processors, so further queues gain nothing.
   And PoCL up to 5.0 crashes the program when launches of one kernel overlap and a later one has
   more groups than any before. */
static uint32_t queues_wanted(const struct vr_scheduler *scheduler,
                              const struct vram_scheduler_options *options) {
    if (scheduler->info.kind == VRAM_DEVICE_CPU && strcmp(scheduler->info.backend, "opencl") == 0) {
        return 1;
    }
    return options->queues ? options->queues : LANES_DEFAULT;
}

static vram_status make_queues(struct vr_scheduler *scheduler, uint32_t count) {
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && scheduler->queue_count < count) {
        status =
            vram_queue_create(scheduler->device, NULL, &scheduler->queues[scheduler->queue_count]);
        scheduler->queue_count += status == VRAM_OK ? 1 : 0;
    }
    return status;
}

/* A context of the scheduler's own, with a pool on the best device. */
static vram_status make_own(vram_context **context, vram_pool **pool) {
    vram_device *device;
    uint32_t index;
    vram_status status = vram_context_create(NULL, context);
    if (status != VRAM_OK) {
        return vr_in_operation(status);
    }
    status = vram_device_best(*context, &index);
    if (status == VRAM_OK) {
        status = vram_device_open(*context, index, &device);
    }
    if (status == VRAM_OK) {
        status = vram_pool_create(device, NULL, pool);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        (void)vr_in_operation(status);
        vr_error_save(&error);
        (void)vram_context_destroy(*context);
        vr_error_restore(&error);
    }
    return status;
}

static struct vr_scheduler *scheduler_make(vram_pool *pool,
                                           const struct vram_scheduler_options *options) {
    struct vr_scheduler *scheduler = vr_mem_alloc(1, sizeof *scheduler, vr_operation());
    if (!scheduler) {
        return NULL;
    }
    vr_mutex_init(&scheduler->lock, VR_RANK_SCOPE);
    scheduler->object.process = vr_os_process_generation();
    scheduler->pool = pool;
    scheduler->place = options->place;
    scheduler->flags = options->flags;
    scheduler->threshold = options->threshold ? options->threshold : VRAM_MATMUL_THRESHOLD;
    scheduler->device_bytes = options->device_bytes;
    scheduler->cpu_threads = options->cpu_threads;
    if (options->calibration) {
        scheduler->rates = *options->calibration;
    }
    vr_blas_open(&scheduler->blas);
    (void)vr_text_format(scheduler->cpu_name, sizeof scheduler->cpu_name, "vram %s",
                         vr_gemm_kernel(0)->name);
    return scheduler;
}

static vram_status scheduler_create(vram_pool *pool, const struct vram_scheduler_options *options,
                                    vram_scheduler **out) {
    vram_context *own = NULL;
    vram_status status = pool ? VRAM_OK : make_own(&own, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scheduler *scheduler = scheduler_make(pool, options);
    if (!scheduler) {
        (void)vram_context_destroy(own);
        return VRAM_ERR_HOST_MEMORY;
    }
    uint64_t handle;
    scheduler->own = own;
    status = vr_publish_attached(pool, VR_KIND_SCHEDULER, &scheduler->object, scheduler_end,
                                 pool_ended, &scheduler->device, &scheduler->attachment);
    if (status != VRAM_OK) {
        return status;
    }
    handle = scheduler->object.handle;
    scheduler->info.size = sizeof scheduler->info;
    status = vr_in_operation(vram_device_describe(scheduler->device, &scheduler->info));
    scheduler->bounces = vr_bounces_are_useful(scheduler->info.caps);
    if (status == VRAM_OK) {
        status = make_queues(scheduler, queues_wanted(scheduler, options));
    }
    if (status == VRAM_OK) {
        *out = (vram_scheduler *)(uintptr_t)handle; /* it may have ended with its pool by now */
    } else {
        vr_object_parent_ended(&scheduler->object, NULL);
    }
    vr_leave(scheduler);
    return status;
}

vram_status vram_scheduler_create(vram_pool *pool, const vram_scheduler_options *options,
                                  vram_scheduler **scheduler) {
    VR_CALL;
    struct vram_scheduler_options taken;
    if (!scheduler) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the scheduler is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = options_check(&taken);
    }
    if (status == VRAM_OK) {
        status = vr_process_watch(0); /* this library's own copy of the flag */
    }
    return status == VRAM_OK ? scheduler_create(pool, &taken, scheduler) : status;
}

/* ---------------------------------------------------------------- information */

static uint64_t counter_read(vr_atomic_u64 *counter) {
    return vr_load(counter, VR_RELAXED);
}

static void fill_stats(struct vr_scheduler *scheduler, const struct vram_pool_stats *pool,
                       struct vram_scheduler_stats *stats) {
    struct vr_scheduler_counters *counters = &scheduler->counters;
    struct vr_arithmetic *arithmetic = vr_load(&scheduler->arithmetic, VR_ACQUIRE);
    uint64_t last = counter_read(&counters->last);
    *stats = (struct vram_scheduler_stats){
        .size = sizeof *stats,
        .cpu_products = counter_read(&counters->cpu_products),
        .device_products = counter_read(&counters->device_products),
        .cpu_fallbacks = counter_read(&counters->cpu_fallbacks),
        .failures = counter_read(&counters->failures),
        .tiles = counter_read(&counters->tiles),
        .uploads = counter_read(&counters->uploads),
        .uploaded_bytes = counter_read(&counters->uploaded_bytes),
        .downloads = counter_read(&counters->downloads),
        .downloaded_bytes = counter_read(&counters->downloaded_bytes),
        .hits = counter_read(&counters->hits),
        .misses = counter_read(&counters->misses),
        .shared_operands = counter_read(&counters->shared_operands),
        .shrinks = counter_read(&counters->shrinks),
        .pending = counter_read(&counters->pending),
        .threshold = scheduler->threshold,
        .last_place = (vram_place)(last >> 8),
        .last_reason = (vram_reason)(last & 0xff),
        .weights = counter_read(&counters->weights),
        .weight_bytes = counter_read(&counters->weight_bytes),
        .cpu_arithmetic = scheduler->blas.sgemm ? scheduler->blas.name : scheduler->cpu_name,
        .device_arithmetic = arithmetic && arithmetic->provider ? arithmetic->name : "",
        .pool_hits = pool->hits,
        .pool_misses = pool->misses,
        .pool_reserved_bytes = pool->reserved_bytes,
        .pool_driver_allocs = pool->driver_allocs + pool->driver_creates,
    };
    stats->products = stats->cpu_products + stats->device_products;
    uint64_t blocks = stats->hits + stats->misses;
    stats->hit_rate = blocks ? (double)stats->hits / (double)blocks : 0;
    vr_mutex_lock(&scheduler->lock);
    stats->calibrated = scheduler->rates.size != 0;
    vr_mutex_unlock(&scheduler->lock);
}

vram_status vram_scheduler_stats_get(vram_scheduler *handle, vram_scheduler_stats *stats) {
    VR_CALL;
    struct vram_pool_stats pool = {.size = sizeof pool};
    struct vram_scheduler_stats full;
    void *scheduler;
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &scheduler);
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_pool_stats_get(((struct vr_scheduler *)scheduler)->pool, &pool);
    if (status == VRAM_OK) {
        fill_stats(scheduler, &pool, &full);
        status = vr_info_give(stats, &full, sizeof full, sizeof full);
    }
    vr_leave(scheduler);
    return status;
}
