/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inference.c: the memory of a model by the formula of vram/model.h, from its dimensions alone.
 *
 * All arithmetic is on unsigned 64-bit numbers and checked. A sum that has overflowed stays
 * overflowed (struct vr_sum), so that the code reads like the formula and checks once, at the end.
 */
#include "vram/model.h"

#include "base/error.h"
#include "base/struct_tail.h"
#include "model/sum.h"

#include <string.h>

#define GIB 1073741824.0
#define MIB 1048576.0

static vram_status refuse_zero(const struct vram_inference_shape *shape) {
    const struct {
        const char *name;
        uint64_t value;
    } needed[] = {
        {"hidden", shape->hidden},
        {"intermediate", shape->intermediate},
        {"layers", shape->layers},
        {"vocabulary", shape->vocabulary},
        {"heads", shape->heads},
        {"kv_heads", shape->kv_heads},
        {"element_bytes", shape->element_bytes},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (needed[i].value == 0) {
            return vr_fail(VRAM_ERR_INVALID, "%s is 0", needed[i].name);
        }
    }
    return VRAM_OK;
}

static vram_status refuse_experts(const struct vram_inference_shape *shape) {
    if (shape->experts == 0) {
        if (shape->shared_experts || shape->experts_used || shape->expert_intermediate ||
            shape->first_expert_layer) {
            return vr_fail(VRAM_ERR_INVALID, "experts is 0, but other numbers of experts are not");
        }
        return VRAM_OK;
    }
    if (shape->expert_intermediate == 0) {
        return vr_fail(VRAM_ERR_INVALID, "expert_intermediate is 0");
    }
    if (shape->experts_used == 0 || shape->experts_used > shape->experts) {
        return vr_fail(VRAM_ERR_INVALID,
                       "experts_used is %llu; it must be 1 to %llu, the number of experts",
                       (unsigned long long)shape->experts_used, (unsigned long long)shape->experts);
    }
    if (shape->first_expert_layer > shape->layers) {
        return vr_fail(VRAM_ERR_INVALID, "first_expert_layer is %llu of %llu layers",
                       (unsigned long long)shape->first_expert_layer,
                       (unsigned long long)shape->layers);
    }
    return VRAM_OK;
}

static vram_status shape_check(const struct vram_inference_shape *shape) {
    vram_status status = refuse_zero(shape);
    if (status != VRAM_OK) {
        return status;
    }
    if (shape->kv_heads > shape->heads) {
        return vr_fail(VRAM_ERR_INVALID, "kv_heads is %llu, more than heads, %llu",
                       (unsigned long long)shape->kv_heads, (unsigned long long)shape->heads);
    }
    if (shape->heads > shape->hidden) {
        return vr_fail(VRAM_ERR_INVALID,
                       "heads is %llu, more than hidden, %llu: a head would be 0 wide",
                       (unsigned long long)shape->heads, (unsigned long long)shape->hidden);
    }
    return refuse_experts(shape);
}

/* Parameters, with `experts` of those that the router chooses from. */
static struct vr_sum count_parameters(const struct vram_inference_shape *shape, uint64_t experts) {
    const uint64_t hidden = shape->hidden, head = hidden / shape->heads;
    uint64_t dense_layers = shape->experts ? shape->first_expert_layer : shape->layers;
    uint64_t expert_layers = shape->layers - dense_layers;
    struct vr_sum attention = vr_sum_of(0), dense, expert, all = vr_sum_of(0);
    vr_sum_add(&attention, 3, (uint64_t[]){2, hidden, hidden});
    vr_sum_add(&attention, 4, (uint64_t[]){2, hidden, shape->kv_heads, head});
    vr_sum_add(&attention, 2, (uint64_t[]){2, hidden});
    dense = expert = attention;
    vr_sum_add(&dense, 3, (uint64_t[]){3, hidden, shape->intermediate});
    vr_sum_add(&expert, 2, (uint64_t[]){hidden, shape->experts});
    vr_sum_add(&expert, 4, (uint64_t[]){experts, 3, hidden, shape->expert_intermediate});
    vr_sum_add(&expert, 4,
               (uint64_t[]){shape->shared_experts, 3, hidden, shape->expert_intermediate});
    vr_sum_add_times(&all, dense, dense_layers);
    vr_sum_add_times(&all, expert, expert_layers);
    vr_sum_add(&all, 3, (uint64_t[]){2, shape->vocabulary, hidden});
    vr_sum_add(&all, 1, (uint64_t[]){hidden});
    return all;
}

static bool compute_memory(const struct vram_inference_shape *shape,
                           struct vram_inference_memory *memory) {
    const uint64_t bytes = shape->element_bytes, head = shape->hidden / shape->heads;
    struct vr_sum all = count_parameters(shape, shape->experts);
    struct vr_sum active = count_parameters(shape, shape->experts_used);
    struct vr_sum model = vr_sum_of(0), kv = vr_sum_of(0), activation = vr_sum_of(0);
    vr_sum_add_times(&model, all, bytes);
    vr_sum_add(&kv, 6, (uint64_t[]){shape->layers, shape->tokens, shape->kv_heads, head, 2, bytes});
    vr_sum_add(&activation, 3, (uint64_t[]){shape->hidden, bytes, 2});
    vr_sum_add(&activation, 4, (uint64_t[]){2, shape->intermediate, bytes, 2});
    struct vr_sum total = model;
    vr_sum_add_times(&total, kv, 1);
    vr_sum_add_times(&total, activation, 1);
    *memory = (struct vram_inference_memory){
        .size = sizeof *memory,
        .parameters = all.value,
        .active_parameters = active.value,
        .model_bytes = model.value,
        .kv_bytes = kv.value,
        .activation_bytes = activation.value,
        .total_bytes = total.value,
        .total_gb = (double)total.value / GIB,
        .model_mb = (double)model.value / MIB,
        .kv_mb = (double)kv.value / MIB,
        .activation_mb = (double)activation.value / MIB,
    };
    return !total.overflow && !active.overflow;
}

vram_status vram_inference_estimate(const vram_inference_shape *shape,
                                    vram_inference_memory *memory) {
    VR_CALL;
    struct vram_inference_shape taken;
    struct vram_inference_memory full;
    if (!shape) {
        return vr_fail(VRAM_ERR_INVALID, "the shape is NULL");
    }
    vram_status status = vr_options_take(&taken, sizeof taken, shape);
    if (status == VRAM_OK) {
        status = shape_check(&taken);
    }
    if (status == VRAM_OK && !compute_memory(&taken, &full)) {
        status = vr_fail(VRAM_ERR_OVERFLOW,
                         "a model of %llu layers of %llu x %llu does not fit in 64 bits",
                         (unsigned long long)taken.layers, (unsigned long long)taken.hidden,
                         (unsigned long long)taken.intermediate);
    }
    return status == VRAM_OK ? vr_info_give(memory, &full, sizeof full, sizeof full) : status;
}
