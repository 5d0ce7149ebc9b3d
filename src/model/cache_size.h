/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_size.h: bytes of the key-value cache, layer by layer.
 */
#ifndef VR_CACHE_SIZE_H
#define VR_CACHE_SIZE_H

#include "model/tensor_type.h"
#include "vram/model.h"

/* The types of keys and values by name; NULL is f16. */
struct vr_cache_types {
    const struct vr_tensor_type *k, *v;
};

/* VRAM_ERR_INVALID: no such type, or not one for caches. */
vram_status vr_cache_types_find(const char *k_type, const char *v_type,
                                struct vr_cache_types *types);

/* Bytes of a token in a layer. False: its rows are not whole blocks. */
bool vr_cache_token_bytes(const struct vram_model_layer *layer, const struct vr_cache_types *types,
                          uint64_t *bytes);

#endif
