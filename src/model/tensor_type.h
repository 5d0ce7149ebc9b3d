/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_type.h: how numbers are stored in model files and key-value caches: in blocks of a number
 * of elements and bytes.
 */
#ifndef VR_TENSOR_TYPE_H
#define VR_TENSOR_TYPE_H

#include "base/size.h"

struct vr_tensor_type {
    const char *name;        /* as llama.cpp spells it: "q4_K", "f16" */
    const char *safetensors; /* as safetensors spells it: "BF16"; NULL: not in such files */
    int32_t gguf;            /* its number in GGUF files; -1: not in such files */
    uint32_t block_elements;
    uint32_t block_bytes;
    bool cache; /* llama.cpp accepts it for keys and values */
};

/* NULL: there is no such type. Names are case-insensitive. */
const struct vr_tensor_type *vr_tensor_type_of_gguf(uint32_t number);
const struct vr_tensor_type *vr_tensor_type_of_safetensors(const char *name, size_t bytes);
const struct vr_tensor_type *vr_tensor_type_of_name(const char *name);
/* Row `index` of the table, NULL past its end. */
const struct vr_tensor_type *vr_tensor_type_at(size_t index);

/* Bytes of `rows` rows of `elements` each, where a row is whole blocks. False: it is not, or the
   product overflows. */
bool vr_tensor_type_bytes(const struct vr_tensor_type *type, uint64_t elements, uint64_t rows,
                          uint64_t *bytes);

#endif
