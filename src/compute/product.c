/* SPDX-License-Identifier: Apache-2.0 */
/*
 * product.c: products, one or many, on the CPU or as tiles on the device.
 *
 * When device memory runs out, in this order: fetches pending results, which frees their memory;
 * cleans up the device in an emergency and tries once more; makes tiles smaller, as long as
 * possible; uses the CPU, unless the scheduler forbids it. Other failures are returned.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/struct_tail.h"
#include "vram/pressure.h"

#include <string.h>

static void count_product(struct vr_scheduler *scheduler, vram_place place, vram_reason reason) {
    vr_store(&scheduler->counters.last, (uint64_t)place << 8 | (uint64_t)reason, VR_RELAXED);
}

/* -------------------------------------------------------------------- the CPU */

/* Copies in host memory of operands that are on the device. */
struct fetched_operands {
    void *a, *b, *c;
    vram_status waited; /* the status of the last wait for the queue */
};

/* Downloads an operand from the device. */
static vram_status fetch_operand(struct vr_scheduler *scheduler, vram_queue *queue, vram_addr addr,
                                 uint64_t bytes, void **host, vram_status *waited) {
    *host = vr_scratch_alloc(1, bytes);
    if (!*host) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vram_queue_download(queue, *host, addr, bytes);
    *waited = vr_scheduler_wait(scheduler, queue);
    return status == VRAM_OK ? *waited : status;
}

static vram_status fetch_all(struct vr_scheduler *scheduler, const struct vr_product *product,
                             vram_queue *queue, struct fetched_operands *fetched) {
    VR_OPERATION("vram_matmul_run");
    vram_status status = VRAM_OK;
    if (!product->a) {
        status =
            fetch_operand(scheduler, queue, product->a_addr,
                          product->m * product->k * product->each, &fetched->a, &fetched->waited);
    }
    if (status == VRAM_OK && !product->b) {
        status =
            fetch_operand(scheduler, queue, product->b_addr,
                          product->k * product->n * product->each, &fetched->b, &fetched->waited);
    }
    if (status == VRAM_OK && !product->c) {
        fetched->c = vr_scratch_alloc(product->m * product->n, sizeof(float));
        status = fetched->c ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    }
    return status;
}

static void compute_on_cpu(struct vr_scheduler *scheduler, const struct vr_product *product,
                           const struct fetched_operands *fetched) {
    struct vr_gemm gemm = {.m = product->m,
                           .n = product->n,
                           .k = product->k,
                           .a = product->a ? product->a : fetched->a,
                           .b = product->b ? product->b : fetched->b,
                           .c = product->c ? product->c : fetched->c,
                           .lda = product->trans_a ? product->m : product->k,
                           .ldb = product->trans_b ? product->k : product->n,
                           .ldc = product->n,
                           .trans_a = product->trans_a,
                           .trans_b = product->trans_b,
                           .precision = product->precision};
    vr_gemm_cpu(&gemm, &scheduler->blas, scheduler->cpu_threads);
}

/* Downloads operands that are on the device, and uploads the result. */
static vram_status on_cpu(struct vr_scheduler *scheduler, const struct vr_product *product) {
    vram_queue *queue = product->queue ? product->queue : scheduler->queues[0];
    struct fetched_operands fetched = {.waited = VRAM_OK};
    vram_status status = fetch_all(scheduler, product, queue, &fetched);
    if (status == VRAM_OK) {
        compute_on_cpu(scheduler, product, &fetched);
    }
    if (status == VRAM_OK && fetched.c) {
        uint64_t bytes = product->m * product->n * sizeof(float);
        status = vram_queue_upload(queue, product->c_addr, fetched.c, bytes);
        fetched.waited = vr_scheduler_wait(scheduler, queue);
        status = status == VRAM_OK ? fetched.waited : status;
    }
    vr_scratch_free(scheduler, fetched.a, queue, fetched.waited);
    vr_scratch_free(scheduler, fetched.b, queue, fetched.waited);
    vr_scratch_free(scheduler, fetched.c, queue, fetched.waited);
    return status;
}

static vram_status run_on_cpu(struct vr_scheduler *scheduler, const struct vr_product *product,
                              vram_reason reason) {
    vram_status status = on_cpu(scheduler, product);
    if (status == VRAM_OK) {
        vr_counter_add(&scheduler->counters.cpu_products, 1);
        count_product(scheduler, VRAM_PLACE_CPU, reason);
    }
    return status;
}

/* ------------------------------------------------------------------ the device */

/* Frees what the device's pools keep for later; keeps the error record. */
static void clean_up(struct vr_scheduler *scheduler) {
    struct vram_error error;
    uint64_t bytes;
    vr_error_save(&error);
    (void)vram_device_trim(scheduler->device, NULL, &bytes);
    vr_error_restore(&error);
}

/* Runs one product alone, when memory is short: see above. */
static vram_status run_squeezed(struct vr_scheduler *scheduler, struct vr_arithmetic *arithmetic,
                                const struct vr_product *product, struct vram_matmul_plan *plan) {
    vram_status status;
    clean_up(scheduler);
    for (;;) {
        struct vr_pipeline pipeline;
        vr_pipeline_begin(&pipeline, scheduler, arithmetic, product->queue);
        pipeline.queue_count = 1; /* one tile at a time */
        pipeline.next = 0;
        status = vr_pipeline_end(&pipeline, vr_pipeline_add(&pipeline, product, plan));
        if (!vram_status_is_exhausted(status) || !vr_plan_shrink(product, plan)) {
            break;
        }
        vr_counter_add(&scheduler->counters.shrinks, 1);
    }
    if (status == VRAM_OK) {
        vr_counter_add(&scheduler->counters.device_products, 1);
        count_product(scheduler, VRAM_PLACE_DEVICE, plan->reason);
    } else if (vram_status_is_exhausted(status) && product->place != VRAM_PLACE_DEVICE &&
               !(scheduler->flags & VRAM_SCHEDULER_NO_FALLBACK)) {
        status = run_on_cpu(scheduler, product, VRAM_REASON_MEMORY);
        vr_counter_add(&scheduler->counters.cpu_fallbacks, status == VRAM_OK ? 1 : 0);
    }
    return status;
}

/* Consecutive products that one pipeline takes: those from `first` on that run on the device by the
   same queue. */
struct product_run {
    struct vr_product *products;
    struct vram_matmul_plan *plans;
    size_t count;
};

/* Submits products until memory is short; *done is how many were added completely. */
static vram_status submit_run(struct vr_scheduler *scheduler, struct vr_arithmetic *arithmetic,
                              const struct product_run *run, size_t *done) {
    struct vr_pipeline pipeline;
    vram_status status = VRAM_OK;
    size_t i = 0;
    vr_pipeline_begin(&pipeline, scheduler, arithmetic, run->products[0].queue);
    pipeline.alone = run->count == 1 && run->plans[0].tiles == 1;
    for (; status == VRAM_OK && i < run->count; i++) {
        status = vr_pipeline_add(&pipeline, &run->products[i], &run->plans[i]);
    }
    *done = status == VRAM_OK ? i : i - 1;
    bool short_of_memory = vram_status_is_exhausted(status);
    /* The products before the one that found no memory are valid: their results are fetched. */
    struct vram_error error;
    vr_error_save(&error);
    vram_status ended = vr_pipeline_end(&pipeline, short_of_memory ? VRAM_OK : status);
    if (ended == VRAM_OK && short_of_memory) {
        vr_error_restore(&error);
        return status;
    }
    if (ended != VRAM_OK) {
        *done = 0;
    }
    return ended;
}

static vram_status run_on_device(struct vr_scheduler *scheduler, const struct product_run *run) {
    struct vr_arithmetic *arithmetic;
    vram_status status = vr_scheduler_arithmetic(scheduler, &arithmetic);
    size_t first = 0;
    while (status == VRAM_OK && first < run->count) {
        size_t done;
        struct product_run rest = {run->products + first, run->plans + first, run->count - first};
        status = submit_run(scheduler, arithmetic, &rest, &done);
        if (done) {
            vr_counter_add(&scheduler->counters.device_products, done);
            count_product(scheduler, VRAM_PLACE_DEVICE, rest.plans[done - 1].reason);
        }
        first += done;
        if (vram_status_is_exhausted(status) && first < run->count) {
            status = run_squeezed(scheduler, arithmetic, &run->products[first], &run->plans[first]);
            first++;
        }
    }
    return status;
}

/* ----------------------------------------------------------------- in sequence */

/* How many products from `first` on run on the device together. */
static size_t run_length(const struct vr_product *products, const struct vram_matmul_plan *plans,
                         size_t count) {
    size_t length = 1;
    while (length < count && plans[length].place == VRAM_PLACE_DEVICE &&
           products[length].queue == products[0].queue) {
        length++;
    }
    return length;
}

static vram_status run_products(struct vr_scheduler *scheduler, struct vr_product *products,
                                struct vram_matmul_plan *plans, size_t count) {
    vram_status status = VRAM_OK;
    for (size_t i = 0; status == VRAM_OK && i < count; i++) {
        status = vr_decide(scheduler, &products[i], &plans[i]);
    }
    for (size_t i = 0; status == VRAM_OK && i < count;) {
        if (plans[i].place == VRAM_PLACE_CPU) {
            status = run_on_cpu(scheduler, &products[i], plans[i].reason);
            i++;
        } else {
            struct product_run run = {products + i, plans + i,
                                      run_length(products + i, plans + i, count - i)};
            status = run_on_device(scheduler, &run);
            i += run.count;
        }
    }
    return status;
}

vram_status vr_products_run(struct vr_scheduler *scheduler, struct vr_product *products,
                            size_t count) {
    struct vram_matmul_plan one, *plans = &one;
    struct vram_error before;
    vr_error_save(&before);
    if (count > 1) {
        plans = vr_mem_alloc(count, sizeof *plans, vr_operation());
        if (!plans) {
            return VRAM_ERR_HOST_MEMORY;
        }
    }
    vram_status status =
        vr_scheduler_stale(scheduler, run_products(scheduler, products, plans, count));
    if (status != VRAM_OK) {
        vr_counter_add(&scheduler->counters.failures, 1);
    } else {
        vr_error_restore(&before); /* what was tried first is no failure of the call */
    }
    if (plans != &one) {
        vr_mem_free(plans);
    }
    return status;
}

/* ------------------------------------------------------------------------- calls */

vram_status vram_matmul_run(vram_scheduler *handle, const vram_matmul *from) {
    VR_CALL;
    struct vr_product product = {0};
    void *scheduler;
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &scheduler);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_product_take(scheduler, from, &product);
    if (status == VRAM_OK) {
        status = vr_products_run(scheduler, &product, 1);
    }
    vr_product_drop(&product);
    vr_leave(scheduler);
    return status;
}

/* Adds the number of the product in the batch to the error. */
static vram_status of_batch(vram_status status, size_t number) {
    struct vram_error error;
    vr_error_save(&error);
    return vr_error_set(status, error.backend, error.operation, error.native_code,
                        "product %zu of the batch: %s", number, error.text);
}

vram_status vram_matmul_batch(vram_scheduler *handle, const vram_matmul *from, size_t count) {
    VR_CALL;
    void *scheduler;
    if (!from && count) {
        return vr_fail(VRAM_ERR_INVALID, "the products are NULL");
    }
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &scheduler);
    if (status != VRAM_OK || !count) {
        if (status == VRAM_OK) {
            vr_leave(scheduler);
        }
        return status;
    }
    struct vr_product *products = vr_mem_alloc(count, sizeof *products, vr_operation());
    status = products ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    for (size_t i = 0; status == VRAM_OK && i < count; i++) {
        status = vr_product_take(scheduler, &from[i], &products[i]);
        if (status != VRAM_OK) {
            status = of_batch(status, i);
        }
    }
    if (status == VRAM_OK) {
        status = vr_products_run(scheduler, products, count);
    }
    for (size_t i = 0; products && i < count; i++) {
        vr_product_drop(&products[i]);
    }
    vr_mem_free(products);
    vr_leave(scheduler);
    return status;
}

vram_status vram_matmul_plan_get(vram_scheduler *handle, const vram_matmul *from,
                                 vram_matmul_plan *plan) {
    VR_CALL;
    struct vr_product product = {0};
    struct vram_matmul_plan full;
    void *scheduler;
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &scheduler);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_product_shape(scheduler, from, &product);
    if (status == VRAM_OK) {
        status = vr_decide(scheduler, &product, &full);
    }
    if (status == VRAM_OK) {
        status = vr_info_give(plan, &full, sizeof full, sizeof full);
    }
    vr_product_drop(&product);
    vr_leave(scheduler);
    return status;
}

vram_status vram_matmul_warm_up(vram_scheduler *handle, uint64_t m, uint64_t k, uint64_t n) {
    VR_CALL;
    struct vr_product product = {0};
    vram_addr none = 1; /* for the check only */
    void *scheduler;
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &scheduler);
    if (status != VRAM_OK) {
        return status;
    }
    vram_matmul shape = {.size = sizeof shape,
                         .m = m,
                         .k = k,
                         .n = n,
                         .a_addr = none,
                         .b_addr = none,
                         .c_addr = none};
    status = vr_product_shape(scheduler, &shape, &product);
    if (status == VRAM_OK) {
        float *zeros = vr_scratch_alloc(m * k + k * n + m * n, sizeof(float));
        status = zeros ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
        if (zeros) {
            product.a = zeros;
            product.b = zeros + m * k;
            product.c = zeros + m * k + k * n;
            product.a_addr = product.b_addr = product.c_addr = 0;
            product.resident = false;
            status = vr_products_run(scheduler, &product, 1);
        }
        vr_scratch_free(scheduler, zeros, NULL, status);
    }
    vr_leave(scheduler);
    return status;
}
