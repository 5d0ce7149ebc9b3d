/* SPDX-License-Identifier: Apache-2.0 */
/* cache_size.c: see cache_size.h. */
#include "model/cache_size.h"

#include "base/error.h"
#include "base/struct_tail.h"

static vram_status find_type(const char *name, const struct vr_tensor_type **type) {
    *type = vr_tensor_type_of_name(name ? name : "f16");
    if (!*type || !(*type)->cache) {
        return vr_fail(VRAM_ERR_INVALID,
                       "\"%.32s\" is not a type of a cache; use f32, f16, bf16, q8_0, q5_1, "
                       "q5_0, q4_1, q4_0 or iq4_nl",
                       name);
    }
    return VRAM_OK;
}

vram_status vr_cache_types_find(const char *k_type, const char *v_type,
                                struct vr_cache_types *types) {
    vram_status status = find_type(k_type, &types->k);
    return status == VRAM_OK ? find_type(v_type, &types->v) : status;
}

bool vr_cache_token_bytes(const struct vram_model_layer *layer, const struct vr_cache_types *types,
                          uint64_t *bytes) {
    uint64_t k, v;
    if (!vr_tensor_type_bytes(types->k, layer->k_elements, 1, &k) ||
        !vr_tensor_type_bytes(types->v, layer->v_elements, 1, &v)) {
        return false;
    }
    *bytes = k + v; /* of 32-bit numbers of elements */
    return true;
}

/* Checks a model that the caller may have filled in itself. */
vram_status vram_model_token_bytes(const vram_model *model, const char *k_type, const char *v_type,
                                   uint64_t *bytes) {
    VR_CALL;
    struct vr_cache_types types;
    uint64_t sum = 0, one;
    if (!model || !bytes || model->size < sizeof *model || !vr_tail_is_zero(model, sizeof *model) ||
        model->layer_count > VRAM_MODEL_LAYERS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "%s",
                       !bytes ? "the pointer that receives the bytes is NULL"
                              : "the model is NULL or invalid");
    }
    if (!model->kv_known && model->architecture[0]) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "what a layer of \"%.40s\" caches is not known; its weights are %llu bytes",
                       model->architecture, (unsigned long long)model->weight_bytes);
    }
    if (!model->kv_known) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the files do not say what the layers cache; put config.json beside them");
    }
    vram_status status = vr_cache_types_find(k_type, v_type, &types);
    for (uint32_t i = 0; i < model->layer_count && status == VRAM_OK; i++) {
        if (vr_cache_token_bytes(&model->layers[i], &types, &one)) {
            sum += one; /* 512 layers of less than 2^35 */
        } else {
            status =
                vr_fail(VRAM_ERR_INVALID,
                        "layer %u caches %u and %u numbers for a token, which is not a multiple "
                        "of the blocks of %s and %s, %u and %u; use f16",
                        i, model->layers[i].k_elements, model->layers[i].v_elements, types.k->name,
                        types.v->name, types.k->block_elements, types.v->block_elements);
        }
    }
    if (status == VRAM_OK) {
        *bytes = sum;
    }
    return status;
}
