/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats_peak.c: scopes of peaks, for parts of a program, and resets of peaks.
 *
 * A scope saves the peaks and restarts them; at its end they become the larger of both. Caches
 * first publish their counters, so that these count on the right side of the boundary.
 */
#include "core/cache/drain.h"
#include "core/stats/pool_stats.h"

#include "base/error.h"
#include "base/memory.h"
#include "vram/stats.h"

#include <assert.h>

/* What is measured: the peaks, and the present values at which they restart. */
struct measure {
    struct vr_peak_stack *stack;
    vr_atomic_u64 *requested;
    uint64_t *allocated;    /* NULL: not measured */
    vr_atomic_u64 *charged; /* peak of the memory taken from the driver, */
    uint64_t *reserved;     /* the same where a lock guards it; NULL: use `charged` */
    uint64_t requested_now, allocated_now, reserved_now;
};

static void tell_thread(struct vr_thread_state *thread, void *user) {
    const struct vr_stats_scope *scope = user;
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask; i++) {
        struct vr_cache *cache = thread->caches[i];
        if (cache && (!scope->pool || cache->pool == scope->pool) &&
            (!scope->slot || cache->pool->device->slot == scope->slot) &&
            (!scope->context || cache->pool->device->context == scope->context)) {
            vr_pool_report_cache(cache);
            vr_pool_report_up(cache->pool);
        }
    }
}

void vr_stats_publish(struct vr_stats_scope scope) {
    vr_thread_visit_all(tell_thread, &scope);
}

static struct vram_peaks read_peaks(const struct measure *of) {
    return (struct vram_peaks){
        .size = sizeof(struct vram_peaks),
        .requested_bytes = vr_load(of->requested, VR_RELAXED),
        .allocated_bytes = of->allocated ? *of->allocated : 0,
        .reserved_bytes = of->reserved ? *of->reserved : vr_load(of->charged, VR_RELAXED),
    };
}

static void write_peaks(struct measure *of, uint64_t requested, uint64_t allocated,
                        uint64_t reserved) {
    vr_store(of->requested, requested, VR_RELAXED);
    if (of->allocated) {
        *of->allocated = allocated;
    }
    if (of->reserved) {
        *of->reserved = reserved;
    } else {
        vr_store(of->charged, reserved, VR_RELAXED);
    }
}

static void start_anew(struct measure *of) {
    write_peaks(of, of->requested_now, of->allocated_now, of->reserved_now);
}

static vram_status peaks_push(struct measure *of) {
    if (of->stack->depth == VR_PEAK_SCOPES) {
        return vr_fail(VRAM_ERR_LIMIT, "%d scopes of peaks are open already", VR_PEAK_SCOPES);
    }
    struct vram_peaks peaks = read_peaks(of);
    uint32_t at = of->stack->depth++;
    of->stack->saved[at].requested = peaks.requested_bytes;
    of->stack->saved[at].allocated = peaks.allocated_bytes;
    of->stack->saved[at].reserved = peaks.reserved_bytes;
    start_anew(of);
    return VRAM_OK;
}

static uint64_t larger_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static vram_status peaks_pop(struct measure *of, struct vram_peaks *peaks) {
    if (of->stack->depth == 0) {
        return vr_fail(VRAM_ERR_INVALID, "no scope of peaks is open");
    }
    *peaks = read_peaks(of);
    uint32_t at = --of->stack->depth;
    write_peaks(of, larger_of(peaks->requested_bytes, of->stack->saved[at].requested),
                larger_of(peaks->allocated_bytes, of->stack->saved[at].allocated),
                larger_of(peaks->reserved_bytes, of->stack->saved[at].reserved));
    return VRAM_OK;
}

static vram_status peaks_reset(struct measure *of) {
    of->stack->depth = 0;
    start_anew(of);
    return VRAM_OK;
}

enum act { BEGIN, END, RESET };

static vram_status act_on(struct measure *of, enum act act, struct vram_peaks *peaks) {
    return act == BEGIN ? peaks_push(of) : act == END ? peaks_pop(of, peaks) : peaks_reset(of);
}

/* Live bytes; below 0 for a moment if a free was published before its allocation. */
static uint64_t live_now(const vr_atomic_u64 *now) {
    int64_t bytes = (int64_t)vr_load(now, VR_RELAXED);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* ------------------------------------------------------------------- subjects */

/* The object whose peaks these are. */
struct subject {
    void *object;                /* entered */
    struct vr_stats_scope scope; /* caches with counters of it */
    struct vr_mutex *lock;       /* guards the stack */
    struct vr_peak_stack *stack;
    struct vr_ledger *ledger; /* whose tags are reset with it; NULL: none */
    struct measure (*measure)(const struct subject *subject); /* under the lock */
};

/* The stack of the context or of a device, created when it is first needed; NULL with the error
   set. */
static struct vr_peak_stack *stack_of(struct vr_context *context, void **place) {
    vr_mutex_lock(&context->lock);
    struct vr_peak_stack *stack = *place;
    vr_mutex_unlock(&context->lock);
    if (stack) {
        return stack;
    }
    struct vr_peak_stack *made = vr_mem_alloc(1, sizeof *made, vr_operation());
    vr_mutex_lock(&context->lock);
    stack = *place;
    if (!stack) {
        *place = stack = made;
        made = NULL;
    }
    vr_mutex_unlock(&context->lock);
    vr_mem_free(made);
    return stack;
}

static struct measure measure_pool(const struct subject *subject) {
    struct vr_pool *pool = subject->object;
    assert(vr_pool_is_locked(pool));
    return (struct measure){
        .stack = subject->stack,
        .requested = &pool->requested_peak,
        .allocated = &pool->peak_out_bytes,
        .reserved = &pool->peak_reserved_bytes,
        .requested_now = vr_pool_requested(pool),
        .allocated_now = pool->out_bytes,
        .reserved_now = vr_space_reserved(pool->spaces[VR_PART_SMALL]) +
                        vr_space_reserved(pool->spaces[VR_PART_LARGE]),
    };
}

static struct measure measure_device(const struct subject *subject) {
    struct vr_slot *slot = ((struct vr_device_object *)subject->object)->slot;
    return (struct measure){
        .stack = subject->stack,
        .requested = &slot->requested.peak,
        .charged = &slot->charged_peak,
        .requested_now = live_now(&slot->requested.now),
        .reserved_now = vr_load(&slot->charged_bytes, VR_RELAXED),
    };
}

static struct measure measure_context(const struct subject *subject) {
    struct vr_context *context = subject->object;
    return (struct measure){
        .stack = subject->stack,
        .requested = &context->requested.peak,
        .charged = &context->charged.peak,
        .requested_now = live_now(&context->requested.now),
        .reserved_now = live_now(&context->charged.now),
    };
}

static struct subject subject_pool(struct vr_pool *pool) {
    return (struct subject){.object = pool,
                            .scope = {.pool = pool},
                            .lock = &pool->lock,
                            .stack = &pool->peaks,
                            .measure = measure_pool};
}

static struct subject subject_device(struct vr_device_object *device) {
    struct vr_ledger *ledger = vr_ledger_get(device);
    return (struct subject){.object = device,
                            .scope = {.slot = device->slot},
                            .lock = &device->context->lock,
                            .stack =
                                ledger ? stack_of(device->context, &device->slot->peaks) : NULL,
                            .ledger = ledger,
                            .measure = measure_device};
}

static struct subject subject_context(struct vr_context *context) {
    return (struct subject){.object = context,
                            .scope = {.context = context},
                            .lock = &context->lock,
                            .stack = stack_of(context, &context->peaks),
                            .measure = measure_context};
}

static void forget_tags(struct vr_ledger *ledger) {
    vr_mutex_lock(&ledger->lock);
    for (struct vr_tag *tag = vr_load(&ledger->tags.newest, VR_ACQUIRE); tag; tag = tag->older) {
        vr_store(&tag->peak, vr_load(&tag->used, VR_RELAXED), VR_RELAXED);
    }
    vr_mutex_unlock(&ledger->lock);
}

/* Acts once the output struct was checked. */
static vram_status act_on_subject(const struct subject *subject, enum act act,
                                  struct vram_peaks *to) {
    struct vram_peaks peaks = {.size = sizeof peaks};
    vram_status status =
        act == END ? vr_info_give(to, &peaks, sizeof peaks, sizeof peaks) : VRAM_OK;
    if (status != VRAM_OK) {
        return status;
    }
    vr_stats_publish(subject->scope);
    vr_mutex_lock(subject->lock);
    struct measure of = subject->measure(subject);
    status = act_on(&of, act, &peaks);
    vr_mutex_unlock(subject->lock);
    if (act == RESET && subject->ledger) {
        forget_tags(subject->ledger);
    }
    return status == VRAM_OK && act == END ? vr_info_give(to, &peaks, sizeof peaks, sizeof peaks)
                                           : status;
}

static vram_status act_by_handle(enum vr_kind kind, const void *handle, enum act act,
                                 struct vram_peaks *to) {
    void *object;
    vram_status status = vr_enter(kind, handle, &object);
    if (status != VRAM_OK) {
        return status;
    }
    struct subject subject = kind == VR_KIND_POOL     ? subject_pool(object)
                             : kind == VR_KIND_DEVICE ? subject_device(object)
                                                      : subject_context(object);
    status = subject.stack ? act_on_subject(&subject, act, to) : vr_error_get()->status;
    vr_leave(object);
    return status;
}

/* --------------------------------------------------------------------- public */

vram_status vram_pool_peaks_begin(vram_pool *pool) {
    VR_CALL;
    return act_by_handle(VR_KIND_POOL, pool, BEGIN, NULL);
}

vram_status vram_pool_peaks_end(vram_pool *pool, vram_peaks *peaks) {
    VR_CALL;
    return act_by_handle(VR_KIND_POOL, pool, END, peaks);
}

vram_status vram_pool_peaks_reset(vram_pool *pool) {
    VR_CALL;
    return act_by_handle(VR_KIND_POOL, pool, RESET, NULL);
}

vram_status vram_device_peaks_begin(vram_device *device) {
    VR_CALL;
    return act_by_handle(VR_KIND_DEVICE, device, BEGIN, NULL);
}

vram_status vram_device_peaks_end(vram_device *device, vram_peaks *peaks) {
    VR_CALL;
    return act_by_handle(VR_KIND_DEVICE, device, END, peaks);
}

vram_status vram_device_peaks_reset(vram_device *device) {
    VR_CALL;
    return act_by_handle(VR_KIND_DEVICE, device, RESET, NULL);
}

vram_status vram_context_peaks_begin(vram_context *context) {
    VR_CALL;
    return act_by_handle(VR_KIND_CONTEXT, context, BEGIN, NULL);
}

vram_status vram_context_peaks_end(vram_context *context, vram_peaks *peaks) {
    VR_CALL;
    return act_by_handle(VR_KIND_CONTEXT, context, END, peaks);
}

vram_status vram_context_peaks_reset(vram_context *context) {
    VR_CALL;
    return act_by_handle(VR_KIND_CONTEXT, context, RESET, NULL);
}
