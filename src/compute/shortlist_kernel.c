/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist_kernel.c: the kernels of shortlist.h: C on host and simulation, PTX, OpenCL C and
 * SPIR-V. All but C take the same arguments in the same order: addresses, then numbers of 32 bits.
 * Every address is the first of its block, which every device can pass to a kernel.
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
    GROUP_VECTORS = 8, /* converted by a group */
    VECTORS_ADDRESSES = 5,
    SHORTLIST_ADDRESSES = 7,
    ADDRESSES_MAX = 7,
    NUMBERS_MAX = 9,
    CENTRED = 1, /* flags of both: there is a centre */
    QUERIES = 2, /* of vram_vectors */
    EMPTY = 2,   /* of vram_shortlist */
    INTEGERS = 4
};

/* ------------------------------------------------------------------------ in C */

static void *pointer_of(vram_addr addr) {
    return (void *)(uintptr_t)addr;
}

static uint32_t greater_of(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static void vectors_c(const vram_kernel_call *call) {
    struct vr_vectors_launch launch;
    memcpy(&launch, call->arguments[VECTORS_ADDRESSES], sizeof launch);
    const struct vr_conversion how = {.dim = launch.dim,
                                      .precision = launch.precision,
                                      .metric = launch.metric,
                                      .scale = launch.scale,
                                      .centre = pointer_of(launch.centre)};
    const struct vr_rows rows = {pointer_of(launch.to), launch.stored, launch.stride};
    const float *from = pointer_of(launch.from);
    double *terms = pointer_of(launch.terms);
    uint32_t *found = pointer_of(launch.found);
    struct vr_found all = {0};
    for (uint64_t i = 0; i < launch.rows; i++) {
        terms[i] = vr_vector_take(&how, launch.queries, from + i * how.dim, &rows, i, &all);
        uint32_t bits = vr_float_bits((float)all.length);
        if (!launch.queries) {
            found[VR_FOUND_LONGEST] = greater_of(found[VR_FOUND_LONGEST], bits);
            found[VR_FOUND_SHORTEST] = greater_of(found[VR_FOUND_SHORTEST], ~bits);
        }
    }
    found[VR_FOUND_NOT_FINITE] |= all.not_finite;
    found[launch.queries ? VR_FOUND_QUERIES : VR_FOUND_CORPUS] += (uint32_t)all.saturated;
}

static void shortlist_c(const vram_kernel_call *call) {
    struct vr_shortlist_launch launch;
    memcpy(&launch, call->arguments[SHORTLIST_ADDRESSES], sizeof launch);
    const struct vr_conversion how = {.dim = launch.dim,
                                      .precision = launch.precision,
                                      .metric = launch.metric,
                                      .scale = launch.scale,
                                      .centre = pointer_of(launch.centre)};
    const double *queries = pointer_of(launch.queries), *corpus = pointer_of(launch.corpus);
    const float *query = pointer_of(launch.query), *vector = pointer_of(launch.vector);
    for (uint64_t i = 0; i < launch.rows; i++) {
        const float *row = (const float *)pointer_of(launch.products) + i * launch.stride;
        uint64_t *list = (uint64_t *)pointer_of(launch.best) + i * launch.k;
        double values[VR_SHORTLIST_MAX];
        uint64_t places[VR_SHORTLIST_MAX];
        struct vr_nearest nearest = {values, places, launch.k, 0};
        for (uint32_t j = 0; !launch.empty && j < launch.k && list[j] != VR_SHORTLIST_NONE; j++) {
            vr_nearest_add(&nearest, (double)vr_shortlist_value((uint32_t)(list[j] >> 32)),
                           vr_shortlist_place(list[j]));
        }
        vr_row_rank(&how, query + i * how.dim, vector, launch.place, queries[i], corpus, row,
                    launch.columns, &nearest, NULL);
        vr_nearest_sort(&nearest);
        for (uint32_t j = 0; j < launch.k; j++) {
            list[j] = j < nearest.count ? vr_shortlist_word((float)values[j], (uint32_t)places[j])
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

/* What a kernel gets. */
struct arguments {
    vram_addr addrs[ADDRESSES_MAX];
    uint32_t addr_count;
    uint32_t numbers[NUMBERS_MAX];
    uint32_t number_count;
    const void *whole; /* a kernel in C: the launch itself, in place of the numbers */
    size_t whole_bytes;
};

static vram_status submit_kernel(vram_queue *queue, vram_kernel *kernel, uint32_t groups,
                                 const struct arguments *from) {
    const void *arguments[ADDRESSES_MAX + NUMBERS_MAX];
    size_t bytes[ADDRESSES_MAX + NUMBERS_MAX];
    uint32_t count = from->addr_count;
    for (uint32_t i = 0; i < count; i++) {
        arguments[i] = &from->addrs[i];
        bytes[i] = sizeof from->addrs[i];
    }
    for (uint32_t i = 0; i < from->number_count && !from->whole; i++, count++) {
        arguments[count] = &from->numbers[i];
        bytes[count] = sizeof from->numbers[i];
    }
    if (from->whole) {
        arguments[count] = from->whole;
        bytes[count++] = from->whole_bytes;
    }
    struct vram_launch launch = {.size = sizeof launch,
                                 .groups = {from->whole ? 1 : groups, 1, 1},
                                 .group_size = {from->whole ? 1 : GROUP, 1, 1},
                                 .argument_count = count,
                                 .arguments = arguments,
                                 .argument_bytes = bytes,
                                 .address_mask = (1u << from->addr_count) - 1};
    return vram_queue_launch(queue, kernel, &launch);
}

/* An address that is not used has to be one all the same. */
static vram_addr any_address(vram_addr addr, vram_addr other) {
    return addr ? addr : other;
}

vram_status vr_vectors_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                              const struct vr_vectors_launch *launch) {
    const struct arguments arguments = {
        .addrs = {launch->from, launch->to, launch->terms, launch->found,
                  any_address(launch->centre, launch->from)},
        .addr_count = VECTORS_ADDRESSES,
        .numbers = {launch->rows, launch->dim, launch->stride, (uint32_t)launch->stored,
                    (uint32_t)launch->precision, (uint32_t)launch->metric,
                    (launch->centre ? CENTRED : 0u) | (launch->queries ? QUERIES : 0u),
                    vr_float_bits(launch->scale)},
        .number_count = 8,
        .whole = kernels->in_c ? launch : NULL,
        .whole_bytes = sizeof *launch};
    return submit_kernel(queue, kernels->vectors, (launch->rows - 1) / GROUP_VECTORS + 1,
                         &arguments);
}

vram_status vr_shortlist_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                                const struct vr_shortlist_launch *launch) {
    const struct arguments arguments = {
        .addrs = {launch->products, launch->queries, launch->corpus, launch->best, launch->query,
                  launch->vector, any_address(launch->centre, launch->query)},
        .addr_count = SHORTLIST_ADDRESSES,
        .numbers = {launch->columns, launch->stride, launch->k, launch->place, launch->dim,
                    (uint32_t)launch->metric, (uint32_t)launch->precision,
                    (launch->centre ? CENTRED : 0u) | (launch->empty ? EMPTY : 0u) |
                        (launch->integers ? INTEGERS : 0u),
                    vr_float_bits(launch->scale)},
        .number_count = 9,
        .whole = kernels->in_c ? launch : NULL,
        .whole_bytes = sizeof *launch};
    return submit_kernel(queue, kernels->shortlist, launch->rows, &arguments);
}
