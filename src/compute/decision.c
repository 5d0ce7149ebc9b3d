/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decision.c: where a product runs, and in which tiles. vram/compute.h and
 * docs/design/08-where-products-run.md state the rule; rule numbers here are those of the header.
 */
#include "compute/scheduler_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"

#include <string.h>

enum { TILE_UNIT = 64, SPREAD_TILES = 4, SPREAD_ROWS = 1024 };

#define SPREAD_BYTES (UINT64_C(32) << 20) /* operands that are worth being sent in parts */
#define COUNTED_MAX  UINT32_MAX           /* elements that the library's own kernels can count */

const char *vram_reason_text(vram_reason reason) {
    switch (reason) {
#define REASON_TEXT(NAME, value, text)                                                             \
    case VRAM_REASON_##NAME:                                                                       \
        return text;
        VRAM_REASON_MAP(REASON_TEXT)
#undef REASON_TEXT
    }
    return "unknown";
}

/* ----------------------------------------------------------------- providers */

static vram_status open_arithmetic(struct vr_scheduler *scheduler, struct vr_arithmetic **out) {
    VR_OPERATION("vram_scheduler");
    struct vr_arithmetic *made = vr_mem_alloc(1, sizeof *made, vr_operation());
    if (!made) {
        return VRAM_ERR_HOST_MEMORY;
    }
    made->device = scheduler->device;
    made->pool = scheduler->pool;
    made->info = scheduler->info;
    made->blas = &scheduler->blas;
    made->cpu_threads = scheduler->cpu_threads;
    made->queue_count = scheduler->queue_count;
    memcpy(made->queues, scheduler->queues, sizeof made->queues);
    vram_status status = vr_arithmetic_open(made);
    if (status != VRAM_OK) {
        vr_mem_free(made);
        return status;
    }
    *out = made;
    return VRAM_OK;
}

vram_status vr_scheduler_arithmetic(struct vr_scheduler *scheduler, struct vr_arithmetic **out) {
    void *present = vr_load(&scheduler->arithmetic, VR_ACQUIRE);
    if (!present) {
        struct vr_arithmetic *made;
        vram_status status = open_arithmetic(scheduler, &made);
        if (status != VRAM_OK) {
            return status;
        }
        if (vr_cas(&scheduler->arithmetic, &present, made, VR_ACQ_REL)) {
            present = made;
        } else { /* keeps (3): another thread was first */
            vr_arithmetic_close(made);
            vr_mem_free(made);
        }
    }
    *out = present;
    return VRAM_OK;
}

/* --------------------------------------------------------------------- the tiles */

/* Bytes that a tile needs on the device, besides operands that are there already. */
static uint64_t tile_bytes(const struct vr_product *product, uint64_t rows, uint64_t columns,
                           uint64_t *largest) {
    uint64_t a = product->a ? rows * product->k * product->each : 0;
    uint64_t b = product->b ? columns * product->k * product->each : 0;
    uint64_t c = product->c ? rows * columns * sizeof(float) : 0;
    *largest = a > b ? a : b;
    *largest = *largest > c ? *largest : c;
    return a > UINT64_MAX - b || a + b > UINT64_MAX - c ? UINT64_MAX : a + b + c;
}

static uint64_t halve_lines(uint64_t lines) {
    uint64_t half = (lines / 2 + TILE_UNIT - 1) / TILE_UNIT * TILE_UNIT;
    return half < lines ? half : lines;
}

bool vr_plan_shrink(const struct vr_product *product, struct vram_matmul_plan *plan) {
    uint64_t rows = halve_lines(plan->tile_m), columns = halve_lines(plan->tile_n), largest;
    bool by_rows = plan->tile_m >= plan->tile_n;
    if (by_rows ? rows < plan->tile_m : columns == plan->tile_n) {
        if (rows == plan->tile_m) {
            return false;
        }
        plan->tile_m = rows;
    } else {
        if (columns == plan->tile_n) {
            return false;
        }
        plan->tile_n = columns;
    }
    plan->tiles = ((product->m - 1) / plan->tile_m + 1) * ((product->n - 1) / plan->tile_n + 1);
    plan->device_bytes = tile_bytes(product, plan->tile_m, plan->tile_n, &largest);
    return true;
}

struct bounds {
    uint64_t block, all, lines, elements;
};

static struct bounds bounds_of(const struct vr_scheduler *scheduler,
                               const struct vr_provider *provider) {
    const struct vram_device_info *info = &scheduler->info;
    struct bounds bounds = {UINT64_MAX, UINT64_MAX, provider->lines_max, UINT64_MAX};
    if (info->alloc_max.known && info->alloc_max.value) {
        bounds.block = info->alloc_max.value;
    }
    if (info->memory_bytes.known && info->memory_bytes.value) {
        bounds.all = info->memory_bytes.value;
    }
    if (scheduler->device_bytes && scheduler->device_bytes < bounds.all) {
        bounds.all = scheduler->device_bytes;
    }
    if (provider->lines_max < INT32_MAX) { /* one of the library's own kernels */
        bounds.elements = COUNTED_MAX;
    }
    return bounds;
}

static bool is_within(const struct vr_product *product, const struct vram_matmul_plan *plan,
                      const struct bounds *bounds) {
    uint64_t largest, bytes = tile_bytes(product, plan->tile_m, plan->tile_n, &largest);
    return plan->tile_m <= bounds->lines && plan->tile_n <= bounds->lines && bytes <= bounds->all &&
           largest <= bounds->block && plan->tile_m * product->k <= bounds->elements &&
           plan->tile_n * product->k <= bounds->elements;
}

/* False: no tile is small enough for the device. */
static bool plan_tiles(const struct vr_scheduler *scheduler, const struct vr_product *product,
                       const struct vr_provider *provider, struct vram_matmul_plan *plan) {
    struct bounds bounds = bounds_of(scheduler, provider);
    uint64_t largest;
    plan->tile_m = product->m;
    plan->tile_n = product->n;
    plan->tiles = 1;
    plan->device_bytes = tile_bytes(product, product->m, product->n, &largest);
    if (product->k > bounds.lines ||
        (product->resident &&
         (product->m * product->k > bounds.elements || product->k * product->n > bounds.elements ||
          product->m * product->n > bounds.elements))) {
        return false;
    }
    while (!is_within(product, plan, &bounds)) {
        if (!vr_plan_shrink(product, plan)) {
            return false;
        }
    }
    /* Parts that are sent, computed and fetched in parallel. */
    if (plan->tiles == 1 && product->a && product->c && product->m >= SPREAD_ROWS &&
        plan->device_bytes >= SPREAD_BYTES && scheduler->queue_count > 1 && !product->queue) {
        plan->tile_m = (product->m / SPREAD_TILES + TILE_UNIT - 1) / TILE_UNIT * TILE_UNIT;
        plan->tiles = (product->m - 1) / plan->tile_m + 1;
        plan->device_bytes = tile_bytes(product, plan->tile_m, plan->tile_n, &largest);
    }
    return true;
}

/* ---------------------------------------------------------------------- the rule */

/* Rule 5: whether the device finishes sooner by the measured rates; A and B are in host memory. */
static bool device_is_sooner(const struct vram_calibration *rates,
                             const struct vr_product *product) {
    double work = (double)product->m * (double)product->k * (double)product->n;
    double sent = (double)product->m * (double)product->k + (double)product->k * (double)product->n;
    double fetched = product->c ? (double)product->m * (double)product->n : 0;
    double there = rates->device_seconds + work / rates->device_rate +
                   sent * (double)product->each / rates->upload_rate +
                   fetched * sizeof(float) / rates->download_rate;
    return there < work / rates->cpu_rate;
}

static bool is_gpu(const struct vr_scheduler *scheduler) {
    return scheduler->info.kind != VRAM_DEVICE_CPU ||
           (scheduler->flags & VRAM_SCHEDULER_ANY_DEVICE) != 0;
}

/* Rules 3 to 6, for a device that can compute the product. */
static vram_place by_rule(struct vr_scheduler *scheduler, const struct vr_product *product,
                          vram_reason *reason) {
    if (product->resident) {
        *reason = VRAM_REASON_RESIDENT;
        return VRAM_PLACE_DEVICE;
    }
    if (product->m <= 1) {
        *reason = VRAM_REASON_ONE_ROW;
        return VRAM_PLACE_CPU;
    }
    vr_mutex_lock(&scheduler->lock);
    struct vram_calibration rates = scheduler->rates;
    vr_mutex_unlock(&scheduler->lock);
    if (rates.size) {
        *reason = VRAM_REASON_MEASURED;
        return device_is_sooner(&rates, product) ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU;
    }
    bool large = vr_product_work(product) >= scheduler->threshold;
    *reason = large ? VRAM_REASON_LARGE : VRAM_REASON_SMALL;
    return large ? VRAM_PLACE_DEVICE : VRAM_PLACE_CPU;
}

static void on_cpu(struct vram_matmul_plan *plan, const struct vr_product *product,
                   vram_reason reason) {
    *plan = (struct vram_matmul_plan){.size = sizeof *plan,
                                      .place = VRAM_PLACE_CPU,
                                      .reason = reason,
                                      .tile_m = product->m,
                                      .tile_n = product->n,
                                      .tiles = 1};
}

/* Finds the provider, and whether the device can compute the product at all. */
static vram_status find_provider(struct vr_scheduler *scheduler, const struct vr_product *product,
                                 struct vram_matmul_plan *plan, bool *can) {
    struct vr_arithmetic *arithmetic;
    vram_status status = vr_scheduler_arithmetic(scheduler, &arithmetic);
    if (status != VRAM_OK) {
        return status;
    }
    const struct vr_provider *provider = arithmetic->provider;
    *can = provider && (provider->precisions >> product->precision & 1) &&
           plan_tiles(scheduler, product, provider, plan);
    return VRAM_OK;
}

vram_status vr_decide(struct vr_scheduler *scheduler, const struct vr_product *product,
                      struct vram_matmul_plan *plan) {
    VR_OPERATION("vram_matmul_run");
    bool asked = product->place == VRAM_PLACE_DEVICE, can;
    vram_reason reason = VRAM_REASON_ASKED;
    if (product->place == VRAM_PLACE_CPU) {
        on_cpu(plan, product, VRAM_REASON_ASKED);
        return VRAM_OK;
    }
    if (!asked && !is_gpu(scheduler) && !product->resident) {
        on_cpu(plan, product, VRAM_REASON_NO_GPU);
        return VRAM_OK;
    }
    if (!asked && by_rule(scheduler, product, &reason) == VRAM_PLACE_CPU) {
        on_cpu(plan, product, reason); /* before any driver call */
        return VRAM_OK;
    }
    *plan = (struct vram_matmul_plan){
        .size = sizeof *plan, .place = VRAM_PLACE_DEVICE, .reason = reason};
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = find_provider(scheduler, product, plan, &can);
    if (vram_status_is_exhausted(status) && !asked &&
        !(scheduler->flags & VRAM_SCHEDULER_NO_FALLBACK)) {
        vr_error_restore(&error); /* no memory to begin with: the next product tries again */
        on_cpu(plan, product, VRAM_REASON_MEMORY);
        return VRAM_OK;
    }
    if (status != VRAM_OK || can) {
        return status;
    }
    if (asked) {
        struct vr_arithmetic *arithmetic = vr_load(&scheduler->arithmetic, VR_ACQUIRE);
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "no provider computes such a product on %s device %u: %s",
                       scheduler->info.backend, scheduler->info.backend_index,
                       arithmetic->provider ? "type or size" : arithmetic->name);
    }
    on_cpu(plan, product, VRAM_REASON_NO_ARITHMETIC);
    return VRAM_OK;
}
