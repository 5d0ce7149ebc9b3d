/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist_kernel.c: the kernels of shortlist.h: C on host and simulation, PTX, OpenCL C and
 * SPIR-V. All but C take the same arguments in the same order: four addresses, then numbers of 32
 * bits. Every address is the first of its block, which every device can pass to a kernel.
 */
#include "compute/shortlist.h"

#include "base/error.h"
#include "base/memory.h"
#include "compute/metric.h"

#include <string.h>

/* The code is longer than the string literals that every compiler must support. */
#pragma GCC diagnostic ignored "-Woverlength-strings"
#include "compute/generated/shortlist_ptx.h"
#include "compute/generated/shortlist_spirv.h"
#include "compute/generated/vectors_spirv.h"
#include "compute/shortlist_opencl.h"

enum {
    GROUP = 256,
    GROUP_VECTORS = 8, /* measured by a group */
    ADDRESSES = 4,
    NUMBERS_MAX = 6,
    INVERSE = 1, /* flag of vram_vectors: 1 / length */
    EMPTY = 1,   /* flags of vram_shortlist */
    OF_INT8 = 2
};

/* ------------------------------------------------------------------------ in C */

static void *pointer_of(vram_addr addr) {
    return (void *)(uintptr_t)addr;
}

/* In double precision and in the order of search.c, so that both ways give the same bits. */
static void vectors_c(const vram_kernel_call *call) {
    struct vr_vectors_launch launch;
    memcpy(&launch, call->arguments[ADDRESSES], sizeof launch);
    float *from = pointer_of(launch.from);
    double *lengths = pointer_of(launch.lengths);
    uint32_t *found = pointer_of(launch.found);
    bool halves = launch.precision != VRAM_PRECISION_FP32;
    for (uint64_t i = 0; i < launch.rows; i++) {
        double length = 0;
        for (uint64_t j = 0; j < launch.dim; j++) {
            float *number = &from[i * launch.dim + j], value = *number;
            value = vr_is_finite(value) ? vr_search_round(launch.precision, value) : value;
            if (!vr_is_finite(value)) {
                found[0] = 1;
                value = 0;
            }
            length += (double)value * (double)value;
            if (halves) {
                ((uint16_t *)pointer_of(launch.to))[i * launch.stride + j] = vr_float_half(value);
            } else {
                *number = value;
            }
        }
        lengths[i] = length;
    }
}

static void shortlist_c(const vram_kernel_call *call) {
    struct vr_shortlist_launch launch;
    memcpy(&launch, call->arguments[ADDRESSES], sizeof launch);
    const double *queries = pointer_of(launch.queries), *corpus = pointer_of(launch.corpus);
    bool largest = launch.metric == VRAM_METRIC_INNER_PRODUCT;
    for (uint64_t i = 0; i < launch.rows; i++) {
        float *row = (float *)pointer_of(launch.products) + i * launch.stride;
        uint64_t *list = (uint64_t *)pointer_of(launch.best) + i * launch.k;
        float values[VR_SHORTLIST_MAX];
        uint64_t places[VR_SHORTLIST_MAX];
        struct vr_nearest nearest = {values, places, launch.k, 0, largest};
        for (uint32_t j = 0; !launch.empty && j < launch.k && list[j] != VR_SHORTLIST_NONE; j++) {
            vr_nearest_add(&nearest, vr_shortlist_value((uint32_t)(list[j] >> 32), largest),
                           (uint32_t)list[j]);
        }
        vr_search_measure(launch.metric, launch.precision, queries[i], corpus, row, launch.columns);
        for (uint64_t j = 0; j < launch.columns; j++) {
            if (vr_nearest_wants(&nearest, row[j])) {
                vr_nearest_add(&nearest, row[j], launch.place + j);
            }
        }
        vr_nearest_sort(&nearest);
        for (uint32_t j = 0; j < launch.k; j++) {
            list[j] = j < nearest.count
                          ? (uint64_t)vr_shortlist_rank(values[j], largest) << 32 | places[j]
                          : VR_SHORTLIST_NONE;
        }
    }
}

/* --------------------------------------------------------------------- loading */

static vram_status load_kernel(vram_device *device, enum vram_kernel_format format,
                               const void *code, size_t bytes, const char *entry,
                               vram_kernel **kernel) {
    const struct vram_kernel_source source = {
        .size = sizeof source, .format = format, .code = code, .code_bytes = bytes, .entry = entry};
    return vram_kernel_create(device, &source, kernel);
}

static vram_status load_c(vram_device *device, vram_kernel_fn *function, const char *entry,
                          vram_kernel **kernel) {
    const void *pointer;
    memcpy(&pointer, &function, sizeof pointer); /* a function pointer as a pointer to void */
    return load_kernel(device, VRAM_KERNEL_C, pointer, 0, entry, kernel);
}

/* Loads one of the two; VRAM_ERR_UNSUPPORTED if there is no format for this device. */
static vram_status load_one(const struct vr_scheduler *scheduler, bool vectors,
                            vram_kernel **kernel) {
    const char *backend = scheduler->info.backend;
    const char *entry = vectors ? "vram_vectors" : "vram_shortlist";
    if (strcmp(backend, "cuda") == 0) {
        return load_kernel(scheduler->device, VRAM_KERNEL_PTX, shortlist_ptx,
                           sizeof shortlist_ptx - 1, entry, kernel);
    }
    if (strcmp(backend, "opencl") == 0) {
        return load_kernel(scheduler->device, VRAM_KERNEL_OPENCL_C, shortlist_opencl,
                           sizeof shortlist_opencl - 1, entry, kernel);
    }
    if (strcmp(backend, "vulkan") == 0) {
        return vectors ? load_kernel(scheduler->device, VRAM_KERNEL_SPIRV, vectors_spirv,
                                     sizeof vectors_spirv, entry, kernel)
                       : load_kernel(scheduler->device, VRAM_KERNEL_SPIRV, shortlist_spirv,
                                     sizeof shortlist_spirv, entry, kernel);
    }
    if (strcmp(backend, "host") == 0 || strcmp(backend, "sim") == 0) {
        return load_c(scheduler->device, vectors ? vectors_c : shortlist_c, entry, kernel);
    }
    return vr_fail(VRAM_ERR_UNSUPPORTED, "no kernels for %s", backend);
}

void vr_shortlist_close(struct vr_shortlist_kernels *kernels) {
    if (kernels) {
        vram_kernel_destroy(kernels->vectors);
        vram_kernel_destroy(kernels->shortlist);
        kernels->vectors = kernels->shortlist = NULL;
    }
}

/* Whether a failure means that the driver will never accept the code. */
static bool is_refused(vram_status status) {
    return status == VRAM_ERR_UNSUPPORTED || status == VRAM_ERR_BACKEND ||
           status == VRAM_ERR_INVALID;
}

static vram_status make_kernels(struct vr_scheduler *scheduler, struct vr_shortlist_kernels **out) {
    VR_OPERATION("vram_distance_run");
    struct vram_error error;
    struct vr_shortlist_kernels *made = vr_mem_alloc(1, sizeof *made, vr_operation());
    if (!made) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_error_save(&error);
    made->in_c =
        strcmp(scheduler->info.backend, "host") == 0 || strcmp(scheduler->info.backend, "sim") == 0;
    vram_status status = load_one(scheduler, true, &made->vectors);
    if (status == VRAM_OK) {
        status = load_one(scheduler, false, &made->shortlist);
    }
    if (status != VRAM_OK) {
        vr_shortlist_close(made);
        if (!is_refused(status)) {
            vr_mem_free(made);
            return status;
        }
        vr_error_restore(&error);
    }
    *out = made;
    return VRAM_OK;
}

vram_status vr_shortlist_open(struct vr_scheduler *scheduler, struct vr_shortlist_kernels **out) {
    void *present = vr_load(&scheduler->shortlist, VR_ACQUIRE);
    if (!present) {
        struct vr_shortlist_kernels *made;
        vram_status status = make_kernels(scheduler, &made);
        if (status != VRAM_OK) {
            return status;
        }
        if (vr_cas(&scheduler->shortlist, &present, made, VR_ACQ_REL)) {
            present = made;
        } else { /* another thread was first */
            vr_shortlist_close(made);
            vr_mem_free(made);
        }
    }
    *out = present;
    return VRAM_OK;
}

/* -------------------------------------------------------------------- launches */

/* For a kernel in C the launch itself is the argument behind the addresses. */
static vram_status submit_kernel(vram_queue *queue, vram_kernel *kernel, uint32_t groups,
                                 const vram_addr addrs[ADDRESSES], const uint32_t *numbers,
                                 uint32_t number_count, const void *whole, size_t whole_bytes) {
    const void *arguments[ADDRESSES + NUMBERS_MAX];
    size_t bytes[ADDRESSES + NUMBERS_MAX];
    uint32_t count = ADDRESSES;
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        arguments[i] = &addrs[i];
        bytes[i] = sizeof addrs[i];
    }
    for (uint32_t i = 0; i < number_count && !whole; i++, count++) {
        arguments[count] = &numbers[i];
        bytes[count] = sizeof numbers[i];
    }
    if (whole) {
        arguments[count] = whole;
        bytes[count++] = whole_bytes;
    }
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {whole ? 1 : groups, 1, 1},
                                 .group_size = {whole ? 1 : GROUP, 1, 1},
                                 .argument_count = count,
                                 .arguments = arguments,
                                 .argument_bytes = bytes,
                                 .address_mask = (1u << ADDRESSES) - 1};
    return vram_queue_launch(queue, kernel, &launch);
}

vram_status vr_vectors_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                              const struct vr_vectors_launch *launch) {
    const vram_addr addrs[ADDRESSES] = {launch->from, launch->to, launch->lengths, launch->found};
    const uint32_t numbers[] = {launch->rows, launch->dim, launch->stride,
                                (uint32_t)launch->precision,
                                launch->metric == VRAM_METRIC_COSINE ? INVERSE : 0};
    return submit_kernel(queue, kernels->vectors, (launch->rows - 1) / GROUP_VECTORS + 1, addrs,
                         numbers, sizeof numbers / sizeof numbers[0], kernels->in_c ? launch : NULL,
                         sizeof *launch);
}

vram_status vr_shortlist_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                                const struct vr_shortlist_launch *launch) {
    const vram_addr addrs[ADDRESSES] = {launch->products, launch->queries, launch->corpus,
                                        launch->best};
    const uint32_t numbers[] = {launch->columns,
                                launch->stride,
                                launch->k,
                                launch->place,
                                (uint32_t)launch->metric,
                                (launch->empty ? EMPTY : 0u) |
                                    (launch->precision == VRAM_PRECISION_INT8 ? OF_INT8 : 0u)};
    return submit_kernel(queue, kernels->shortlist, launch->rows, addrs, numbers,
                         sizeof numbers / sizeof numbers[0], kernels->in_c ? launch : NULL,
                         sizeof *launch);
}
