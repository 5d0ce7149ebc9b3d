/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/model.h: how much memory a language model takes, before any of it is loaded. Link
 * libvram-model.
 *
 *   vram_inference_shape mistral = {.size = sizeof mistral, .hidden = 4096, .intermediate = 14336,
 *       .layers = 32, .vocabulary = 32000, .heads = 32, .kv_heads = 8, .tokens = 4096,
 *       .element_bytes = 2};
 *   vram_inference_estimate(&mistral, &memory);  memory.total_bytes is 15,020,466,176
 *
 * A model in a file is read by vram_model_read and laid out by vram_estimate_get; `vram estimate`
 * is both. Nothing here allocates device memory. All sums are checked: what does not fit in 64 bits
 * is VRAM_ERR_OVERFLOW, never a small number. All calls may be made from any thread.
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
 * Estimates from dimensions alone, by the formula above. VRAM_ERR_INVALID names the dimension that
 * is 0 or does not go with the others; VRAM_ERR_OVERFLOW when a sum does not fit in 64 bits. For
 * models in files there is a truer answer below.
 */
VRAM_API vram_status vram_inference_estimate(const vram_inference_shape *shape,
                                             vram_inference_memory *memory);

/* ------------------------------------------------------------- models in files */

#define VRAM_MODEL_LAYERS_MAX 512

/** Where the description of a model comes from. */
typedef enum vram_model_format {
    VRAM_MODEL_GGUF = 1,        /* one file, or all parts of a split one */
    VRAM_MODEL_SAFETENSORS = 2, /* one file, or all that an index names; config.json beside them */
    VRAM_MODEL_CONFIG = 3       /* config.json alone: weights are counted, not read */
} vram_model_format;

/**
 * One layer: its weights, and what it keeps of the tokens it has seen. Recurrent layers and those
 * with linear attention keep a state of each sequence, in float32, that does not grow with its
 * length.
 */
typedef struct vram_model_layer {
    uint64_t weight_bytes;   /* as they lie in the file */
    uint64_t parameters;     /* numbers that these stand for; 0 where the file does not tell */
    uint64_t expert_bytes;   /* the part of weight_bytes that is experts a router chooses from */
    uint32_t k_elements;     /* cached for each token: keys, or the latent of MLA */
    uint32_t v_elements;     /* cached for each token: values; 0 with MLA, whose latent has both */
    uint32_t window;         /* tokens that it looks back; 0: all of the context */
    uint32_t state_elements; /* of the state */
} vram_model_layer;

/** A model, as its files describe it. About 25 KiB: better on the heap than on a small stack. */
typedef struct vram_model {
    size_t size; /* in: sizeof(vram_model) of the caller */
    vram_model_format format;
    char architecture[64]; /* "llama", "gemma3", as the file has it */
    char name[128];        /* as the file has it; "" when it has none */
    char weight_type[16];  /* that most bytes of the weights are stored in: "q4_K" */
    bool family_known;     /* false, of config.json alone: counted as Llama is built, by a guess */
    bool tied;             /* input and output share one matrix */
    bool kv_known;         /* whether the layers' k_elements and v_elements are */
    uint32_t files, layer_count;
    uint64_t tensors;      /* in all files; 0 without weights */
    uint64_t context_most; /* tokens that it was made for; 0: not told */
    uint64_t hidden, vocabulary, heads, kv_heads, head_elements;
    uint64_t intermediate; /* width of the widest feed-forward block that a token passes */
    uint64_t experts, experts_used;
    uint64_t parameters; /* all; fewer than there are where a file packs several into one element */
    uint64_t active_parameters; /* that one token meets; equal to parameters where not known */
    uint64_t weight_bytes;      /* all: input + output + other + layers */
    uint64_t input_bytes;       /* embeddings of tokens (and of positions) */
    uint64_t output_bytes;      /* last norm and output layer; the norm alone when tied */
    uint64_t other_bytes;       /* vision tower, projector, whatever belongs to no layer */
    vram_model_layer layers[VRAM_MODEL_LAYERS_MAX]; /* the first layer_count of them */
} vram_model;

/** How a model is read. */
typedef struct vram_model_read_options {
    size_t size;             /* sizeof(vram_model_read_options) */
    const char *weight_type; /* for config.json alone: "q8_0", "f16"; NULL: as it says itself */
} vram_model_read_options;

/**
 * Reads the description of a model: a .gguf file (any part of a split one), a .safetensors file, an
 * index (model.safetensors.index.json), a config.json, or a folder with one of the last three.
 * Tensors themselves are not read: time grows with the headers. The files are not trusted: nothing
 * is allocated by a number in them before it is checked against the bytes that are there, and at
 * most a few hundred MiB for the largest headers that the formats allow.
 *
 * VRAM_ERR_IO: a file is missing or cannot be read; VRAM_ERR_INVALID: it is no model, or a folder
 * without one; VRAM_ERR_CORRUPT: it is cut off, or lies about counts, offsets, types or nesting;
 * VRAM_ERR_UNSUPPORTED: more than VRAM_MODEL_LAYERS_MAX layers, or a type nobody has named yet. The
 * error's text says which file and what.
 */
VRAM_API vram_status vram_model_read(const char *path, const vram_model_read_options *options,
                                     vram_model *model);

/** Bytes that one more token of one sequence takes in the key-value cache, windows left aside: `k_type` and
    `v_type` as llama.cpp's -ctk and -ctv, NULL: "f16". VRAM_ERR_INVALID: no such type, or a row of
    the cache is not a multiple of its block; VRAM_ERR_UNSUPPORTED: kv_known is false. */
VRAM_API vram_status vram_model_token_bytes(const vram_model *model, const char *k_type,
                                            const char *v_type, uint64_t *bytes);

/* ------------------------------------------------------------------- will it fit */

#define VRAM_ESTIMATE_DEVICES_MAX 16
#define VRAM_CONTEXT_MOST         UINT64_MAX /* as many tokens as the model was made for */
#define VRAM_OVERHEAD_DEFAULT                                                                      \
    (UINT64_C(512) << 20) /* bytes of a GPU's context, kernels, workspaces */

/** A device, there or not, that layers may lie on. */
typedef struct vram_estimate_device {
    uint64_t free_bytes;       /* that may be taken */
    vram_value overhead_bytes; /* the runtime's; unknown: VRAM_OVERHEAD_DEFAULT */
} vram_estimate_device;

/** Where the embeddings of tokens lie. */
typedef enum vram_input_place {
    VRAM_INPUT_DEFAULT = 0, /* GGUF: on the host, as llama.cpp has them; else on the first device */
    VRAM_INPUT_ON_HOST = 1,
    VRAM_INPUT_ON_DEVICE = 2
} vram_input_place;

/**
 * How a model is to be run; the flags are llama.cpp's. `layers` counts from the end of the model:
 * with as many as there are only the output stays on the host, with one more all of it is on
 * devices.
 */
typedef struct vram_estimate_options {
    size_t size;        /* sizeof(vram_estimate_options) */
    uint64_t context;   /* -c: tokens of all sequences together; 0: 4096, or context_most if less */
    uint64_t sequences; /* -np: that share the context evenly; 0: 1 */
    uint64_t micro_batch;      /* -ub: tokens that pass the model at once; 0: 512 */
    vram_value layers;         /* -ngl: that lie on devices; unknown: all, and the output */
    const char *k_type;        /* -ctk: type of cached keys; NULL: "f16" */
    const char *v_type;        /* -ctv: type of cached values; NULL: "f16" */
    bool no_flash_attention;   /* -fa off: scores of all tokens against all lie in memory */
    uint64_t activation_bytes; /* of a number on its way; 0: 4, as ggml has them */
    uint64_t outputs;          /* tokens whose logits are wanted at once; 0: micro_batch */
    vram_input_place input;
    const vram_estimate_device *devices; /* in the order in which they are filled */
    uint32_t device_count;               /* 0: everything lies on the host */
    vram_value host_free_bytes;          /* unknown: whatever lies there fits */
} vram_estimate_options;

/** What lies on one device, or on the host. Nothing at all: every field is 0, and it fits. */
typedef struct vram_estimate_part {
    uint64_t weight_bytes, kv_bytes, compute_bytes, overhead_bytes;
    uint64_t total_bytes; /* the sum of the four */
    uint64_t free_bytes;  /* of the device; 0 for a host that is not known */
    uint32_t first_layer, layers;
    bool has_input, has_output; /* embeddings of tokens; last norm and output layer */
    bool fits;
} vram_estimate_part;

/**
 * The answer. Weights are the file's own bytes, and the cache what its types make it; compute is a
 * model of what engines need at once, of hidden h, micro-batch u, activations of a bytes and n
 * tokens that a sequence can look back:
 *
 *   attention  u a (2 h + queries + keys + values) + mask u n 2; without flash attention
 *              u n 4 heads for the scores and u n 4 for the mask
 *   feed       u a (2 h + 2 intermediate) + mask; experts count as often as they are used
 *   output     outputs 4 vocabulary + u a h
 *   compute    the largest of those that the part has
 *
 * A layer with a window keeps window + u tokens of each sequence at most. A tied output that lies
 * elsewhere than the input is a second copy of the embeddings.
 */
typedef struct vram_estimate {
    size_t size;                              /* in: sizeof(vram_estimate) of the caller */
    bool fits;                                /* every part fits */
    uint64_t context, sequences, micro_batch; /* that were reckoned with */
    uint64_t token_bytes;                     /* of one more token, windows left aside */
    uint64_t weight_bytes, kv_bytes, compute_bytes, overhead_bytes, total_bytes; /* of all parts */
    uint32_t layers_on_devices;
    uint32_t device_count;
    vram_estimate_part devices[VRAM_ESTIMATE_DEVICES_MAX];
    vram_estimate_part host;
} vram_estimate;

/**
 * Lays a model out over devices, layer by layer, and says whether it fits: each device is filled in
 * turn, the last gets what is left. VRAM_ERR_INVALID names what makes no sense: types, more
 * sequences than tokens, too many devices; VRAM_ERR_UNSUPPORTED: kv_known is false;
 * VRAM_ERR_OVERFLOW.
 */
VRAM_API vram_status vram_estimate_get(const vram_model *model,
                                       const vram_estimate_options *options,
                                       vram_estimate *estimate);

/**
 * What would fit. A context is a multiple of 256, or the most that the model was made for (2^24
 * where it does not tell); layers are counted as in the options.
 */
typedef struct vram_fit {
    size_t size;       /* in: sizeof(vram_fit) of the caller */
    uint64_t context;  /* most tokens with the layers that were asked for; 0: not even 256 fit */
    vram_value layers; /* most layers with the context that was asked for; unknown: not even none */
} vram_fit;

/**
 * Solves for the context and for the layers, each with the other as asked for. A few hundred
 * estimates.
 */
VRAM_API vram_status vram_fit_get(const vram_model *model, const vram_estimate_options *options,
                                  vram_fit *fit);

/* ---------------------------------------------------------------------- selection */

/** What vram_model_select goes by: exactly one of `shape` and `bytes`. For a model from a file `bytes` is the
    total_bytes of its estimate. */
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
 * backends: CUDA, HIP, Metal, Vulkan, OpenCL, the host last. As vram_device_select, whose errors
 * these are: VRAM_ERR_DEVICE_MEMORY, "No backend has enough memory", when none has room.
 */
VRAM_API vram_status vram_model_select(vram_context *context,
                                       const vram_model_select_options *options,
                                       vram_model_place *place);

#ifdef __cplusplus
}
#endif

#endif
