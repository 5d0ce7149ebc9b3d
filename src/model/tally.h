/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.h: tensors counted one by one into the parts of a model, by their names.
 */
#ifndef VR_TALLY_H
#define VR_TALLY_H

#include "model/tensor_type.h"
#include "vram/model.h"

enum { VR_TALLY_TYPES = 64 };

struct vr_tally {
    struct vram_model *model; /* its weight_bytes, parameters, layers[] and tensors are added to */
    bool layers_known;        /* layer_count is; else it grows with the layers that are named */
    bool overflow;
    bool output_seen; /* an output layer of its own */
    uint64_t expert_parameters;
    uint64_t type_bytes[VR_TALLY_TYPES]; /* by row of the table of types */
};

struct vr_tensor {
    const char *name; /* terminated */
    const struct vr_tensor_type *type;
    uint64_t parameters; /* elements */
    uint64_t rows;       /* of a matrix: the first dimension of safetensors */
    uint64_t bytes;
};

/* False: a layer's number is beyond VRAM_MODEL_LAYERS_MAX. */
bool vr_tally_add(struct vr_tally *tally, const struct vr_tensor *tensor);

/* Sets what follows from all tensors together. False: a sum does not fit in 64 bits. */
bool vr_tally_finish(struct vr_tally *tally);

#endif
