/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight_sum.h: counts tensors one by one into the parts of a model, by their names.
 */
#ifndef VR_WEIGHT_SUM_H
#define VR_WEIGHT_SUM_H

#include "model/tensor_type.h"
#include "vram/model.h"

enum { VR_WEIGHT_SUM_TYPES = 64 };

struct vr_weight_sum {
    struct vram_model *model; /* its weight_bytes, parameters, layers[] and tensors are counted */
    bool layers_known;        /* layer_count is set; else it grows with the layers that are named */
    bool overflow;
    bool output_seen;          /* there is a separate output layer */
    uint32_t caches_confirmed; /* matrices of keys and values that are as wide as the layer says */
    uint64_t expert_parameters;
    uint64_t type_bytes[VR_WEIGHT_SUM_TYPES]; /* by row of the table of types */
};

struct vr_tensor {
    const char *name; /* terminated */
    const struct vr_tensor_type *type;
    uint64_t parameters; /* elements */
    uint64_t rows;       /* of a matrix: the first dimension of safetensors */
    uint64_t bytes;
};

/* False: a layer's number is beyond VRAM_MODEL_LAYERS_MAX. */
bool vr_weight_sum_add(struct vr_weight_sum *sum, const struct vr_tensor *tensor);

/* Sets what follows from all tensors together. False: a sum overflows 64 bits. */
bool vr_weight_sum_finish(struct vr_weight_sum *sum);

#endif
