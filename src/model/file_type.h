/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_type.h: the mixes of types that llama-quantize writes: "Q4_K_M" stores most matrices as q4_K
 * and some as q6_K.
 */
#ifndef VR_FILE_TYPE_H
#define VR_FILE_TYPE_H

#include "model/model_config.h"

struct vr_file_type;

/* By the name that llama-quantize gives it, case-insensitive; NULL: there is no such mix. */
const struct vr_file_type *vr_file_type_find(const char *name);

/* The name of the type that most matrices have. */
const char *vr_file_type_base(const struct vr_file_type *type);

/* Corrects the weights of a model, which were counted in the base type, to the types of the mix.
   False: a sum overflows 64 bits. */
bool vr_file_type_apply(const struct vr_file_type *type, const struct vr_config *config,
                        struct vram_model *model);

#endif
