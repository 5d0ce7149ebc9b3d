/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibration.c: measures the speed of this machine's CPU, of the device and of copies between
 * them, once for all programs of its user: calibration_cache.c stores it.
 *
 * Each number is the best of a few runs: disturbances only make a run slower.
 */
#include "compute/calibration_cache.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/struct_tail.h"
#include "vram/transfer.h"

enum {
    ROUNDS = 3,
    COPIES = 8, /* rounds: enough to try both ways of xfer/rates.h and to allocate slots */
    CPU_SIDE = 256,
    SMALL_SIDE = 16
};

#define COPY_BYTES (UINT64_C(8) << 20)

struct calibration_trial {
    struct vr_scheduler *scheduler;
    float *host; /* COPY_BYTES of zeros */
    uint64_t device_side;
};

/* Seconds of one product of zeros with sides of `side`. */
static vram_status product_time(const struct calibration_trial *trial, uint64_t side,
                                vram_place place, vram_addr resident, double *seconds) {
    uint64_t count = side * side;
    struct vr_product product = {.m = side,
                                 .k = side,
                                 .n = side,
                                 .precision = VRAM_PRECISION_FP32,
                                 .each = sizeof(float),
                                 .place = place};
    if (resident) {
        product.resident = true;
        product.a_addr = product.b_addr = resident;
        product.c_addr = resident + count * sizeof(float);
    } else {
        product.a = product.b = trial->host;
        product.c = trial->host + count;
    }
    *seconds = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = vr_clock_now();
        vram_status status = vr_products_run(trial->scheduler, &product, 1);
        if (status != VRAM_OK) {
            return status;
        }
        double took = (double)(vr_clock_now() - begin + 1) * 1e-9;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
    return VRAM_OK;
}

/* Copies as operands and results are copied: through staging, or the driver's way where that is
   faster. */
static vram_status copy_time(const struct calibration_trial *trial, vram_addr addr, bool up,
                             double *seconds) {
    vram_queue *queue = trial->scheduler->queues[0];
    for (int i = 0; i < COPIES; i++) {
        uint64_t begin = vr_clock_now();
        vram_status status =
            up ? vram_transfer_upload(queue, addr, trial->host, COPY_BYTES, NULL, NULL)
               : vram_transfer_download(queue, trial->host, addr, COPY_BYTES, NULL, NULL);
        vram_status waited = vr_scheduler_wait(trial->scheduler, queue);
        if (status != VRAM_OK || waited != VRAM_OK) {
            return status != VRAM_OK ? status : waited;
        }
        double took = (double)(vr_clock_now() - begin + 1) * 1e-9;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
    return VRAM_OK;
}

static double side_cubed(uint64_t side) {
    return (double)side * (double)side * (double)side;
}

static vram_status measure_rates(const struct calibration_trial *trial, vram_addr addr,
                                 struct vram_calibration *rates) {
    double cpu, small, large, up = 1, down = 1;
    vram_status status = product_time(trial, CPU_SIDE, VRAM_PLACE_CPU, 0, &cpu);
    if (status == VRAM_OK) {
        status = copy_time(trial, addr, true, &up);
    }
    if (status == VRAM_OK) {
        status = copy_time(trial, addr, false, &down);
    }
    if (status == VRAM_OK) {
        status = product_time(trial, SMALL_SIDE, VRAM_PLACE_DEVICE, 0, &small);
    }
    if (status == VRAM_OK) {
        status = product_time(trial, trial->device_side, VRAM_PLACE_DEVICE, addr, &large);
    }
    if (status == VRAM_OK) {
        *rates = (struct vram_calibration){
            .size = sizeof *rates,
            .cpu_rate = side_cubed(CPU_SIDE) / cpu,
            .device_rate = side_cubed(trial->device_side) / large,
            .upload_rate = (double)COPY_BYTES / up,
            .download_rate = (double)COPY_BYTES / down,
            .device_seconds = small,
        };
    }
    return status;
}

static vram_status calibrate_scheduler(struct vr_scheduler *scheduler,
                                       struct vram_calibration *rates) {
    struct calibration_trial trial = {.scheduler = scheduler, .device_side = 1024};
    vram_addr addr;
    if (scheduler->info.kind == VRAM_DEVICE_CPU) {
        trial.device_side = CPU_SIDE;
    }
    trial.host = vr_scratch_alloc(1, COPY_BYTES);
    if (!trial.host) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vram_alloc(scheduler->pool, COPY_BYTES, scheduler->queues[0], &addr);
    if (status == VRAM_OK) {
        status = measure_rates(&trial, addr, rates);
        vr_block_free_after(scheduler->pool, addr, scheduler->queues[0]);
    }
    vr_scratch_free(scheduler, trial.host, NULL, status);
    return status;
}

/* The rates measured before, or measured now. */
static vram_status find_rates(struct vr_scheduler *scheduler, struct vram_calibration *rates) {
    struct vr_arithmetic *arithmetic;
    struct vr_calibration_place place;
    if (scheduler->info.kind == VRAM_DEVICE_SIMULATED) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "a simulated device has simulated time, which cannot be calibrated");
    }
    vram_status status = vr_scheduler_arithmetic(scheduler, &arithmetic);
    if (status != VRAM_OK) {
        return status;
    }
    bool kept = arithmetic->provider && vr_calibration_place(scheduler, arithmetic, &place);
    if (kept && vr_calibration_read(&place, rates)) {
        return VRAM_OK;
    }
    status = calibrate_scheduler(scheduler, rates);
    if (status == VRAM_OK) {
        vr_calibration_round(rates);
        if (kept) {
            vr_calibration_keep(&place, rates);
        }
    }
    return status;
}

vram_status vram_scheduler_calibrate(vram_scheduler *handle, vram_calibration *calibration) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_SCHEDULER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_scheduler *scheduler = entered;
    vr_mutex_lock(&scheduler->lock);
    struct vram_calibration rates = scheduler->rates;
    vr_mutex_unlock(&scheduler->lock);
    if (!rates.size) {
        status = vr_scheduler_stale(scheduler, find_rates(scheduler, &rates));
    }
    if (status == VRAM_OK && calibration) {
        status = vr_info_give(calibration, &rates, sizeof rates, sizeof rates);
    }
    if (status == VRAM_OK) {
        vr_mutex_lock(&scheduler->lock);
        scheduler->rates = rates;
        vr_mutex_unlock(&scheduler->lock);
    }
    vr_leave(scheduler);
    return status;
}
