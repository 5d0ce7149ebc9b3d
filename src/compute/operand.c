/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operand.c: checks a requested product before anything is done: the same rules wherever it runs.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/size.h"
#include "base/struct_tail.h"

#define KNOWN_FLAGS (VRAM_MATMUL_TRANSPOSED_A | VRAM_MATMUL_TRANSPOSED_B)

uint64_t vr_product_work(const struct vr_product *product) {
    uint64_t work;
    return vr_mul(product->m, product->k, &work) && vr_mul(work, product->n, &work) ? work
                                                                                    : UINT64_MAX;
}

static vram_status check_precision(vram_precision precision) {
    if (precision == VRAM_PRECISION_FP32 || precision == VRAM_PRECISION_FP16 ||
        precision == VRAM_PRECISION_BF16) {
        return VRAM_OK;
    }
    return vr_fail(VRAM_ERR_INVALID, "products are of fp32, fp16 or bf16, not of %s (%d)",
                   vram_precision_name(precision), (int)precision);
}

static vram_status check_shape(const struct vr_product *product) {
    uint64_t bytes;
    if (!product->m || !product->k || !product->n) {
        return vr_fail(VRAM_ERR_INVALID, "m, k and n are at least 1, not %llu, %llu and %llu",
                       (unsigned long long)product->m, (unsigned long long)product->k,
                       (unsigned long long)product->n);
    }
    if (!vr_mul(product->m, product->k, &bytes) || !vr_mul(bytes, product->each, &bytes) ||
        !vr_mul(product->k, product->n, &bytes) || !vr_mul(bytes, product->each, &bytes) ||
        !vr_mul(product->m, product->n, &bytes) || !vr_mul(bytes, sizeof(float), &bytes) ||
        bytes > SIZE_MAX / 4) {
        return vr_fail(VRAM_ERR_OVERFLOW,
                       "matrices of %llu x %llu and %llu x %llu do not fit into 64 bits",
                       (unsigned long long)product->m, (unsigned long long)product->k,
                       (unsigned long long)product->k, (unsigned long long)product->n);
    }
    return VRAM_OK;
}

/* An operand is given once, and as large as its shape. */
static vram_status check_operand(char name, const void *host, vram_addr addr, uint64_t given,
                                 uint64_t rows, uint64_t columns) {
    if (!host == !addr) {
        return vr_fail(VRAM_ERR_INVALID,
                       host ? "%c is both in host memory and at an address" : "%c is missing",
                       name);
    }
    if (given && given != rows * columns) {
        return vr_fail(VRAM_ERR_INVALID,
                       "%c has %llu elements, and a shape of %llu x %llu needs %llu", name,
                       (unsigned long long)given, (unsigned long long)rows,
                       (unsigned long long)columns, (unsigned long long)(rows * columns));
    }
    return VRAM_OK;
}

/* Uses the weights as B. */
static vram_status take_weights(struct vr_scheduler *scheduler, const vram_matmul *from,
                                struct vr_product *product) {
    void *entered;
    if (from->b || from->b_addr) {
        return vr_fail(VRAM_ERR_INVALID, "B is given both directly and as weights");
    }
    vram_status status = vr_enter(VR_KIND_WEIGHTS, from->weights, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_weights *weights = entered;
    if (weights->scheduler != scheduler->object.handle) {
        status = vr_fail(VRAM_ERR_INVALID, "the weights belong to another scheduler");
    } else if (weights->k != product->k || weights->n != product->n) {
        status = vr_fail(VRAM_ERR_INVALID,
                         "the weights are %llu x %llu, and the product needs %llu x %llu",
                         (unsigned long long)weights->k, (unsigned long long)weights->n,
                         (unsigned long long)product->k, (unsigned long long)product->n);
    } else if (weights->precision != product->precision) {
        status = vr_fail(VRAM_ERR_INVALID, "the weights are %s, and the product is %s",
                         vram_precision_name(weights->precision),
                         vram_precision_name(product->precision));
    }
    if (status != VRAM_OK) {
        vr_leave(weights);
        return status;
    }
    product->weights = weights;
    product->trans_b = weights->transposed;
    product->b = weights->host;
    product->b_addr = weights->addr;
    return VRAM_OK;
}

static vram_status product_check(const vram_matmul *from, const struct vr_product *product) {
    if (from->flags & ~(uint32_t)KNOWN_FLAGS) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of a product: 0x%x", from->flags);
    }
    if ((unsigned)from->place > VRAM_PLACE_DEVICE) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_place", (int)from->place);
    }
    vram_status status = check_precision(product->precision);
    if (status == VRAM_OK) {
        status = check_shape(product);
    }
    if (status == VRAM_OK) {
        status =
            check_operand('A', from->a, from->a_addr, from->a_elements, product->m, product->k);
    }
    if (status == VRAM_OK) {
        status =
            check_operand('C', from->c, from->c_addr, from->c_elements, product->m, product->n);
    }
    if (status == VRAM_OK && !from->weights) {
        status =
            check_operand('B', from->b, from->b_addr, from->b_elements, product->k, product->n);
    }
    return status;
}

/* Checks an address here, since libraries accept any. */
static vram_status check_address(const struct vr_scheduler *scheduler, vram_addr addr,
                                 uint64_t bytes) {
    return vr_in_operation(vram_memory_check(scheduler->device, addr, bytes));
}

/* Addresses are unique in the process: an address that equals a host pointer is the same memory. */
static bool overlaps_c(const struct vr_product *product, const void *host, vram_addr addr,
                       uint64_t bytes) {
    uint64_t results = product->m * product->n * sizeof(float);
    uint64_t c = product->c ? (uintptr_t)product->c : product->c_addr;
    return (host && vr_overlap(c, results, (uintptr_t)host, bytes)) ||
           (addr && vr_overlap(c, results, addr, bytes));
}

/* Addresses are large enough, and C does not overlap A or B. */
static vram_status check_places(const struct vr_scheduler *scheduler,
                                const struct vr_product *product) {
    const uint64_t a_bytes = product->m * product->k * product->each;
    const uint64_t b_bytes = product->k * product->n * product->each;
    vram_status status = VRAM_OK;
    bool on_a = overlaps_c(product, product->a, product->a_addr, a_bytes);
    if (on_a || overlaps_c(product, product->b, product->b_addr, b_bytes)) {
        return vr_fail(VRAM_ERR_INVALID, "C overlaps %c, from which it is computed",
                       on_a ? 'A' : 'B');
    }
    if (!product->resident) {
        return VRAM_OK;
    }
    if (product->a_addr) {
        status = check_address(scheduler, product->a_addr, a_bytes);
    }
    if (status == VRAM_OK && product->b_addr && !product->weights) {
        status = check_address(scheduler, product->b_addr, b_bytes);
    }
    if (status == VRAM_OK && product->c_addr) {
        status = check_address(scheduler, product->c_addr, product->m * product->n * sizeof(float));
    }
    return status;
}

vram_status vr_product_take(struct vr_scheduler *scheduler, const vram_matmul *from,
                            struct vr_product *product) {
    vram_status status = vr_product_shape(scheduler, from, product);
    return status == VRAM_OK ? check_places(scheduler, product) : status;
}

vram_status vr_product_shape(struct vr_scheduler *scheduler, const vram_matmul *from,
                             struct vr_product *product) {
    vram_matmul taken;
    if (!from) {
        return vr_fail(VRAM_ERR_INVALID, "the product is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, from);
    if (status != VRAM_OK) {
        return status;
    }
    vram_precision precision = taken.precision ? taken.precision : VRAM_PRECISION_FP32;
    *product = (struct vr_product){
        .m = taken.m,
        .k = taken.k,
        .n = taken.n,
        .precision = precision,
        .each = vram_precision_bytes(precision),
        .a = taken.a,
        .b = taken.b,
        .c = taken.c,
        .a_addr = taken.a_addr,
        .b_addr = taken.b_addr,
        .c_addr = taken.c_addr,
        .trans_a = (taken.flags & VRAM_MATMUL_TRANSPOSED_A) != 0,
        .trans_b = (taken.flags & VRAM_MATMUL_TRANSPOSED_B) != 0,
        .place = taken.place ? taken.place : scheduler->place,
        .queue = taken.queue,
    };
    status = product_check(&taken, product);
    if (status == VRAM_OK && taken.weights) {
        status = take_weights(scheduler, &taken, product);
    }
    product->resident = product->a_addr || product->b_addr || product->c_addr;
    return status;
}

void vr_product_drop(struct vr_product *product) {
    if (product->weights) {
        vr_leave(product->weights);
        product->weights = NULL;
    }
}
