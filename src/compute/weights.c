/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.c: matrices that stay on the device or in host memory. The invariants are in
 * scheduler_object.h.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/struct_tail.h"

#include <string.h>

/* The last product that used it has left, and so has all its work on the device: products wait for
   theirs. */
static void weights_free(void *memory) {
    struct vr_weights *weights = memory;
    struct vr_scheduler *scheduler =
        vr_handle_pin(VR_KIND_SCHEDULER, (void *)(uintptr_t)weights->scheduler);
    struct vram_error error;
    vr_error_save(&error);
    if (weights->addr) {
        (void)vram_free(weights->addr, NULL); /* a pool that has ended has freed it */
    }
    (void)vram_attachment_end(weights->attachment);
    vr_error_restore(&error);
    if (scheduler) {
        vr_fetch_sub(&scheduler->counters.weights, 1, VR_RELAXED);
        vr_fetch_sub(&scheduler->counters.weight_bytes, weights->bytes, VR_RELAXED);
        vr_leave(scheduler);
    }
    vr_mem_free(weights->host);
    vr_mem_free(weights);
}

/* `handle` is that of the weights, which may have ended by now. */
static void pool_ended(void *handle) {
    struct vr_weights *weights = vr_handle_pin(VR_KIND_WEIGHTS, handle);
    if (weights) {
        vr_object_parent_ended(&weights->object, NULL);
        vr_leave(weights);
    }
}

vram_status vram_weights_destroy(vram_weights *handle) {
    VR_CALL;
    return vr_object_destroy(VR_KIND_WEIGHTS, handle, NULL, "the weights are being destroyed");
}

/* ------------------------------------------------------------------- creating */

/* Whether products with these weights will run on the device. */
static vram_status belongs_there(struct vr_scheduler *scheduler, const struct vr_weights *weights,
                                 bool *there) {
    struct vr_product product = {.m = 1,
                                 .k = weights->k,
                                 .n = weights->n,
                                 .precision = weights->precision,
                                 .each = vram_precision_bytes(weights->precision),
                                 .resident = true,
                                 .place = scheduler->place};
    struct vram_matmul_plan plan;
    if (scheduler->place == VRAM_PLACE_AUTO && scheduler->info.kind == VRAM_DEVICE_CPU &&
        !(scheduler->flags & VRAM_SCHEDULER_ANY_DEVICE)) {
        *there = false;
        return VRAM_OK;
    }
    vram_status status = vr_decide(scheduler, &product, &plan);
    *there = status == VRAM_OK && plan.place == VRAM_PLACE_DEVICE;
    return status;
}

static vram_status to_device(struct vr_scheduler *scheduler, struct vr_weights *weights,
                             const void *from) {
    vram_status status = vram_alloc(weights->pool, weights->bytes, weights->queue, &weights->addr);
    if (status != VRAM_OK) {
        weights->addr = 0;
        return status;
    }
    status = vram_queue_upload(weights->queue, weights->addr, from, weights->bytes);
    vram_status waited = vr_scheduler_wait(scheduler, weights->queue);
    status = status == VRAM_OK ? waited : status;
    if (status != VRAM_OK) {
        vr_block_free_after(weights->pool, weights->addr, weights->queue);
        weights->addr = 0;
    }
    return status;
}

static vram_status to_host(struct vr_weights *weights, const void *from) {
    weights->host = vr_mem_alloc(1, (size_t)weights->bytes, vr_operation());
    if (!weights->host) {
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(weights->host, from, weights->bytes);
    return VRAM_OK;
}

static vram_status weights_fill(struct vr_scheduler *scheduler, struct vr_weights *weights,
                                const void *from) {
    bool there;
    vram_status status = belongs_there(scheduler, weights, &there);
    if (status != VRAM_OK || !there) {
        return status == VRAM_OK ? to_host(weights, from) : status;
    }
    status = to_device(scheduler, weights, from);
    if (vram_status_is_exhausted(status) && scheduler->place != VRAM_PLACE_DEVICE &&
        !(scheduler->flags & VRAM_SCHEDULER_NO_FALLBACK)) {
        status = to_host(weights, from);
    }
    return status;
}

static vram_status weights_make(struct vr_scheduler *scheduler,
                                const struct vram_weights_options *options, uint64_t bytes,
                                vram_weights **out) {
    struct vr_weights *weights = vr_mem_alloc(1, sizeof *weights, vr_operation());
    if (!weights) {
        return VRAM_ERR_HOST_MEMORY;
    }
    weights->object.process = vr_os_process_generation();
    weights->pool = scheduler->pool;
    weights->queue = scheduler->queues[0];
    weights->k = options->k;
    weights->n = options->n;
    weights->bytes = bytes;
    weights->precision = options->precision ? options->precision : VRAM_PRECISION_FP32;
    weights->transposed = (options->flags & VRAM_MATMUL_TRANSPOSED_B) != 0;
    vram_status status =
        vr_scheduler_stale(scheduler, weights_fill(scheduler, weights, options->b));
    if (status != VRAM_OK) {
        vr_mem_free(weights->host);
        vr_mem_free(weights);
        return status;
    }
    weights->scheduler = scheduler->object.handle;
    vr_counter_add(&scheduler->counters.weights, 1);
    vr_counter_add(&scheduler->counters.weight_bytes, bytes);
    status = vr_publish_attached(weights->pool, VR_KIND_WEIGHTS, &weights->object, weights_free,
                                 pool_ended, NULL, &weights->attachment);
    if (status == VRAM_OK) {
        *out = (vram_weights *)(uintptr_t)weights->object.handle;
        vr_leave(weights);
    }
    return status;
}

static vram_status options_check(const struct vram_weights_options *options, uint64_t *bytes) {
    vram_precision precision = options->precision ? options->precision : VRAM_PRECISION_FP32;
    if (precision != VRAM_PRECISION_FP32 && precision != VRAM_PRECISION_FP16 &&
        precision != VRAM_PRECISION_BF16) {
        return vr_fail(VRAM_ERR_INVALID, "weights are fp32, fp16 or bf16, not %s (%d)",
                       vram_precision_name(precision), (int)precision);
    }
    if (!options->k || !options->n || !options->b) {
        return vr_fail(VRAM_ERR_INVALID, "weights need a matrix, and k and n of at least 1");
    }
    if (options->flags & ~(uint32_t)VRAM_MATMUL_TRANSPOSED_B) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of weights: 0x%x", options->flags);
    }
    uint64_t elements;
    if (!vr_mul(options->k, options->n, &elements) ||
        !vr_mul(elements, vram_precision_bytes(precision), bytes) || *bytes > SIZE_MAX / 2) {
        return vr_fail(VRAM_ERR_OVERFLOW, "%llu x %llu do not fit into 64 bits",
                       (unsigned long long)options->k, (unsigned long long)options->n);
    }
    if (options->b_elements && options->b_elements != elements) {
        return vr_fail(VRAM_ERR_INVALID,
                       "B has %llu elements, and a shape of %llu x %llu needs %llu",
                       (unsigned long long)options->b_elements, (unsigned long long)options->k,
                       (unsigned long long)options->n, (unsigned long long)elements);
    }
    return VRAM_OK;
}

vram_status vram_weights_create(vram_scheduler *handle, const vram_weights_options *options,
                                vram_weights **weights) {
    VR_CALL;
    struct vram_weights_options taken;
    struct vram_error before;
    uint64_t bytes = 0;
    void *entered;
    vr_error_save(&before);
    if (!options || !weights) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the options or the pointer that receives the weights are NULL");
    }
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scheduler *scheduler = entered;
    status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = options_check(&taken, &bytes);
    }
    if (status == VRAM_OK) {
        status = weights_make(scheduler, &taken, bytes, weights);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&before); /* what was tried first is no failure of the call */
    }
    vr_leave(scheduler);
    return status;
}
