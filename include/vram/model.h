/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/model.h: how much memory a language model takes, before any of it is loaded.
 *
 *   vram_inference_shape mistral = {.size = sizeof mistral, .hidden = 4096, .intermediate = 14336,
 *       .layers = 32, .vocabulary = 32000, .heads = 32, .kv_heads = 8, .tokens = 4096,
 *       .element_bytes = 2};
 *   vram_inference_estimate(&mistral, &memory);  memory.total_bytes is 15,020,466,176
 *
 * Nothing here allocates device memory. All sums are checked: what does not fit in 64 bits is
 * VRAM_ERR_OVERFLOW, never a small number. All calls may be made from any thread.
 */
#ifndef VRAM_MODEL_H
#define VRAM_MODEL_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------- estimates from dimensions */

/**
 * The dimensions of a decoder with gated feed-forward blocks and an output layer of its own. With
 * `experts` the layers from `first_expert_layer` on have a router and experts in the place of the
 * feed-forward block.
 */
typedef struct vram_inference_shape {
    size_t size;            /* sizeof(vram_inference_shape) */
    uint64_t hidden;        /* width of the residual stream */
    uint64_t intermediate;  /* width of the feed-forward block */
    uint64_t layers;        /* all of them, those with experts included */
    uint64_t vocabulary;    /* tokens that the model knows */
    uint64_t heads;         /* of queries; a head is hidden / heads wide, rounded down */
    uint64_t kv_heads;      /* of keys and of values; at most `heads` */
    uint64_t tokens;        /* kept in the key-value cache; 0: no cache */
    uint64_t element_bytes; /* of a weight, a cached number and an activation: 4 for fp32 */
    /* Mixture of experts; all 0 for a dense model. */
    uint64_t experts;             /* that the router chooses from */
    uint64_t shared_experts;      /* that every token passes besides */
    uint64_t experts_used;        /* chosen for a token (top-k), 1 to `experts` */
    uint64_t expert_intermediate; /* width of one expert */
    uint64_t first_expert_layer;  /* layers below it are dense */
} vram_inference_shape;

/**
 * What they add up to:
 *
 *   head       = hidden / heads
 *   attention  = 2 hidden^2 + 2 hidden (kv_heads head) + 2 hidden            both norms included
 *   dense      = attention + 3 hidden intermediate
 *   expert     = attention + hidden experts + (experts + shared) 3 hidden expert_intermediate
 *   parameters = sum of the layers + 2 vocabulary hidden + hidden
 *   model      = parameters element_bytes
 *   kv         = layers tokens kv_heads head 2 element_bytes
 *   activation = (hidden + 2 intermediate) element_bytes 2
 *
 * The gigabytes and megabytes are binary.
 */
typedef struct vram_inference_memory {
    size_t size;                /* in: sizeof(vram_inference_memory) of the caller */
    uint64_t parameters;        /* all */
    uint64_t active_parameters; /* that one token meets: of the experts those used and shared */
    uint64_t model_bytes;       /* the weights */
    uint64_t kv_bytes;          /* the key-value cache */
    uint64_t activation_bytes;  /* of one token on its way */
    uint64_t total_bytes;       /* the sum of the three */
    double total_gb;            /* total_bytes / 2^30 */
    double model_mb;            /* model_bytes / 2^20 */
    double kv_mb;               /* kv_bytes / 2^20 */
    double activation_mb;       /* activation_bytes / 2^20 */
} vram_inference_memory;

/**
 * Estimates from dimensions alone, by the formula above. VRAM_ERR_INVALID names the dimension that is 0 or
 * does not go with the others; VRAM_ERR_OVERFLOW when a sum does not fit in 64 bits. For models in
 * files there is a truer answer below.
 */
VRAM_API vram_status vram_inference_estimate(const vram_inference_shape *shape,
                                             vram_inference_memory *memory);

/** What vram_model_select goes by: exactly one of `shape` and `bytes`. */
typedef struct vram_model_select_options {
    size_t size;                       /* sizeof(vram_model_select_options) */
    const vram_inference_shape *shape; /* its total_bytes are needed; NULL: `bytes` */
    uint64_t bytes;                    /* needed at once, where there is no shape */
    const char *order;                 /* as in vram_select_options; NULL: the usual order */
} vram_model_select_options;

/** Where a model goes. */
typedef struct vram_model_place {
    size_t size;            /* in: sizeof(vram_model_place) of the caller */
    const char *backend;    /* "cuda"; static storage */
    uint32_t backend_index; /* the backend's own number of the device */
    uint32_t device;        /* index in the context, for vram_device_open */
    uint64_t bytes;         /* that were looked for */
} vram_model_place;

/**
 * The first backend and device with room for a model or a number of bytes, in the order of the
 * backends: CUDA, HIP, Metal, Vulkan, OpenCL, the host last. As vram_device_select, whose errors these
 * are: VRAM_ERR_DEVICE_MEMORY, "No backend has enough memory", when none has room.
 */
VRAM_API vram_status vram_model_select(vram_context *context,
                                       const vram_model_select_options *options,
                                       vram_model_place *place);

#ifdef __cplusplus
}
#endif

#endif
