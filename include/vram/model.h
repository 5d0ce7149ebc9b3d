/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/model.h: how much memory a language model needs, before any of it is loaded. Link
 * libvram-model.
 *
 *   vram_inference_shape mistral = {.size = sizeof mistral, .hidden = 4096, .intermediate = 14336,
 *       .layers = 32, .vocabulary = 32000, .heads = 32, .kv_heads = 8, .tokens = 4096,
 *       .element_bytes = 2};
 *   vram_inference_estimate(&mistral, &memory);  memory.total_bytes is 15,020,466,176
 *
 * vram_model_read reads a model from a file, and vram_estimate_get distributes it over devices;
 * `vram estimate` does both. Nothing here allocates device memory. All sums are checked:
 * VRAM_ERR_OVERFLOW if one does not fit in 64 bits. All calls may be made from any thread.
 */
#ifndef VRAM_MODEL_H
#define VRAM_MODEL_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------- estimates from dimensions */

/**
 * The dimensions of a decoder with gated feed-forward blocks and a separate output layer. With
 * `experts`, the layers from `first_expert_layer` on have a router and experts instead of the
 * feed-forward block.
 */
typedef struct vram_inference_shape {
    size_t size;            /* sizeof(vram_inference_shape) */
    uint64_t hidden;        /* width of the residual stream */
    uint64_t intermediate;  /* width of the feed-forward block */
    uint64_t layers;        /* all, including those with experts */
    uint64_t vocabulary;    /* number of different tokens */
    uint64_t heads;         /* of queries; a head is hidden / heads wide, rounded down */
    uint64_t kv_heads;      /* of keys and of values; at most `heads` */
    uint64_t tokens;        /* in the key-value cache; 0: no cache */
    uint64_t element_bytes; /* of a weight, a cached value and an activation: 4 for fp32 */
    /* Mixture of experts; all 0 for a dense model. */
    uint64_t experts;             /* that the router chooses from */
    uint64_t shared_experts;      /* that every token passes in addition */
    uint64_t experts_used;        /* chosen for a token (top-k), 1 to `experts` */
    uint64_t expert_intermediate; /* width of one expert */
    uint64_t first_expert_layer;  /* layers below it are dense */
} vram_inference_shape;

/**
 * The result:
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
 * Gigabytes and megabytes are binary.
 */
typedef struct vram_inference_memory {
    size_t size;                /* in: sizeof(vram_inference_memory) of the caller */
    uint64_t parameters;        /* all */
    uint64_t active_parameters; /* that one token uses: of the experts, those chosen and shared */
    uint64_t model_bytes;       /* the weights */
    uint64_t kv_bytes;          /* the key-value cache */
    uint64_t activation_bytes;  /* of one token */
    uint64_t total_bytes;       /* the sum of the three */
    double total_gb;            /* total_bytes / 2^30 */
    double model_mb;            /* model_bytes / 2^20 */
    double kv_mb;               /* kv_bytes / 2^20 */
    double activation_mb;       /* activation_bytes / 2^20 */
} vram_inference_memory;

/**
 * Estimates memory from dimensions alone, by the formulas above. VRAM_ERR_INVALID names the
 * dimension that is 0 or contradicts another; VRAM_ERR_OVERFLOW if a sum does not fit in 64 bits.
 * For models in files the calls below are more accurate.
 */
VRAM_API vram_status vram_inference_estimate(const vram_inference_shape *shape,
                                             vram_inference_memory *memory);

/* ------------------------------------------------------------- models in files */

#define VRAM_MODEL_LAYERS_MAX 512

/** The source of a model's description. */
typedef enum vram_model_format {
    VRAM_MODEL_GGUF = 1,        /* one file, or all parts of a split one */
    VRAM_MODEL_SAFETENSORS = 2, /* one file, or all in an index; config.json in the same folder */
    VRAM_MODEL_CONFIG = 3       /* config.json alone: weights are counted, not read */
} vram_model_format;

/**
 * One layer: its weights, and what it stores per token. Recurrent layers and layers with linear
 * attention store a state per sequence, in float32, whose size does not depend on the length.
 */
typedef struct vram_model_layer {
    uint64_t weight_bytes;   /* as stored in the file */
    uint64_t parameters;     /* in these weights; 0 if the file does not say */
    uint64_t expert_bytes;   /* the part of weight_bytes in experts that a router chooses */
    uint32_t k_elements;     /* cached per token: keys, or the latent vector of MLA */
    uint32_t v_elements;     /* cached per token: values; 0 with MLA, whose latent has both */
    uint32_t window;         /* tokens that attention looks back; 0: all of the context */
    uint32_t state_elements; /* of the state per sequence */
} vram_model_layer;

/** A model, as its files describe it. About 25 KiB: allocate it on the heap if stacks are small. */
typedef struct vram_model {
    size_t size; /* in: sizeof(vram_model) of the caller */
    vram_model_format format;
    char architecture[64]; /* "llama", "gemma3", from the file */
    char name[128];        /* from the file; "" if it has none */
    char weight_type[16];  /* the type of most bytes of the weights: "q4_K" */
    char quantization[32]; /* as config.json says: "fp8", "nvfp4", "int4"; "none": it does not say;
                              "" without a config.json */
    bool family_known;     /* false: config.json alone, counted as if it were Llama; a guess */
    bool tied;             /* input and output share one matrix */
    bool kv_known;         /* whether the layers' k_elements and v_elements are known */
    bool kv_guessed;       /* they are those of a Llama with these dimensions: the family is
                              unknown, and no tensor confirms them */
    uint32_t files, layer_count;
    uint32_t missing_files; /* that an index names and that are not there. The sum of the weights is
                               then the index's total_size, spread over the layers as config.json
                               suggests */
    uint64_t tensors;       /* in all files; 0 without weights */
    uint64_t context_most;  /* tokens that it was trained for; 0: unknown */
    uint64_t hidden, vocabulary, heads, kv_heads, head_elements;
    uint64_t intermediate; /* width of the widest feed-forward block on a token's path */
    uint64_t experts, experts_used;
    uint64_t parameters;        /* all; too few if a file packs several into one element */
    uint64_t active_parameters; /* that one token uses; equal to parameters if unknown */
    uint64_t tower_parameters;  /* of `parameters`: in towers and projectors, by config.json */
    uint64_t weight_bytes;      /* all: input + output + other + layers */
    uint64_t input_bytes;       /* embeddings of tokens (and of positions) */
    uint64_t output_bytes;      /* last norm and output layer; the norm alone if tied */
    uint64_t other_bytes;       /* vision tower, projector, and all else outside the layers */
    uint64_t projector_bytes;   /* the part of other_bytes that options.projector has */
    vram_model_layer layers[VRAM_MODEL_LAYERS_MAX]; /* the first layer_count of them */
    char defaults[256]; /* what config.json leaves out, and what was taken for it:
                           "hidden_size 4096, torch_dtype bf16"; "" for nothing */
} vram_model;

/** Options for reading a model. */
typedef struct vram_model_read_options {
    size_t size;             /* sizeof(vram_model_read_options) */
    const char *weight_type; /* for config.json alone: a type of tensors ("bf16"), one of
                                llama-quantize's mixes ("Q4_K_M"), or how the matrices of layers
                                are packed ("fp8", "mxfp8", "nvfp4", "mxfp4", "int4", "int8",
                                "awq", "gptq"); NULL: as config.json says */
    const char *projector;   /* path of a GGUF file that encodes images or sound for the model
                                (llama.cpp's --mmproj), whose weights are added; NULL: none */
} vram_model_read_options;

/**
 * Reads the description of a model: a .gguf file (any part of a split one), a .safetensors file, an
 * index (model.safetensors.index.json), a config.json, or a folder with one of the last three. The
 * files of an index may be missing if it has a total_size and config.json lies beside it.
 * Reads headers only, not the tensors. The files are not trusted: a number in them is checked
 * against the size of the file before anything is allocated by it. The largest headers that the
 * formats allow need at most a few hundred MiB.
 *
 *   VRAM_ERR_IO           a file is missing or cannot be read.
 *   VRAM_ERR_INVALID      the file is not a model or has no weights, or the folder contains none.
 *   VRAM_ERR_CORRUPT      the file is truncated, or has wrong counts, offsets, types or nesting.
 *   VRAM_ERR_UNSUPPORTED  more than VRAM_MODEL_LAYERS_MAX layers, an unknown type or quantization,
 *                         or not a language model.
 *
 * The error text names the file and the problem.
 */
VRAM_API vram_status vram_model_read(const char *path, const vram_model_read_options *options,
                                     vram_model *model);

/**
 * Bytes that one more token of one sequence takes in the key-value cache, without regard to
 * windows. `k_type` and `v_type` are those of llama.cpp's -ctk and -ctv; NULL is "f16".
 * VRAM_ERR_INVALID if there is no such type, or a row of the cache is not a multiple of its block;
 * VRAM_ERR_UNSUPPORTED if kv_known is false.
 */
VRAM_API vram_status vram_model_token_bytes(const vram_model *model, const char *k_type,
                                            const char *v_type, uint64_t *bytes);

/* ------------------------------------------------------------------ does it fit */

#define VRAM_ESTIMATE_DEVICES_MAX 16
#define VRAM_CONTEXT_MOST         UINT64_MAX /* as many tokens as the model was trained for */
#define VRAM_OVERHEAD_DEFAULT                                                                      \
    (UINT64_C(512) << 20) /* bytes of a GPU's context, kernels, workspaces */

/** A device for layers. It need not exist. */
typedef struct vram_estimate_device {
    uint64_t free_bytes;       /* memory that may be used */
    vram_value overhead_bytes; /* of the runtime; unknown: VRAM_OVERHEAD_DEFAULT */
    double share;              /* -ts: of the layers, relative to the other devices' shares; if all
                                  are 0, devices are filled in order */
} vram_estimate_device;

/** Where the token embeddings lie. */
typedef enum vram_input_place {
    VRAM_INPUT_DEFAULT = 0, /* GGUF: on the host, as in llama.cpp; else on the first device */
    VRAM_INPUT_ON_HOST = 1,
    VRAM_INPUT_ON_DEVICE = 2
} vram_input_place;

/**
 * How to run the model; the flags are llama.cpp's, and so are their meanings. `layers` are counted
 * from the end of the model, where the output is one more layer: with 1, only the output is on a
 * device; with the model's number of layers, only its first layer stays on the host.
 */
typedef struct vram_estimate_options {
    size_t size;                 /* sizeof(vram_estimate_options) */
    uint64_t context;            /* -c: tokens of all sequences; 0: 4096, or context_most if less */
    uint64_t sequences;          /* -np: they share the context evenly; 0: 1 */
    uint64_t micro_batch;        /* -ub: tokens computed at once; 0: 512 */
    vram_value layers;           /* -ngl: on devices; unknown: all, and the output */
    const char *k_type;          /* -ctk: type of cached keys; NULL: "f16" */
    const char *v_type;          /* -ctv: type of cached values; NULL: "f16" */
    bool no_flash_attention;     /* -fa off: the whole score matrix is in memory */
    bool swa_full;               /* --swa-full: layers with a window cache the whole context */
    uint64_t host_expert_layers; /* -ncmoe: of so many first layers the experts stay on the host;
                                    UINT64_MAX: of all (-cmoe) */
    uint64_t activation_bytes;   /* of one activation; 0: 4, as in ggml */
    uint64_t outputs;            /* tokens whose logits are computed at once; 0: micro_batch */
    vram_input_place input;
    const vram_estimate_device *devices; /* in the order in which they are used */
    uint32_t device_count;               /* 0: everything is on the host */
    vram_value host_free_bytes;          /* unknown: everything fits there */
} vram_estimate_options;

/** What lies on one device, or on the host. If nothing does, all fields are 0 and it fits. */
typedef struct vram_estimate_part {
    uint64_t weight_bytes, kv_bytes, compute_bytes, overhead_bytes;
    uint64_t total_bytes; /* the sum of the four */
    uint64_t free_bytes;  /* of the device or host; 0: unknown */
    uint32_t first_layer, layers;
    uint32_t expert_layers;     /* of the host: layers on devices whose experts are here */
    bool has_input, has_output; /* token embeddings; last norm and output layer */
    bool fits;
} vram_estimate_part;

/**
 * The estimate. Weights are the bytes in the file, and the cache follows from its types. Compute
 * memory is a model of what engines need at once, with hidden h, micro-batch u, activations of a
 * bytes, and n tokens that a sequence can look back:
 *
 *   attention  u a (2 h + queries + keys + values) + mask u n 2; without flash attention
 *              u n 4 heads for the scores and u n 4 for the mask
 *   feed       u a (2 h + 2 intermediate) + mask; experts count as often as they are used
 *   output     outputs 4 vocabulary + u a h
 *   compute    the largest of those that the part has
 *
 * As in llama.cpp, a sequence has the context divided by the number of sequences, rounded up to 256
 * tokens; a layer with a window stores window + u tokens of it, rounded up likewise. A tied output
 * that is not on the same device as the input is a second copy of the embeddings.
 */
typedef struct vram_estimate {
    size_t size;                              /* in: sizeof(vram_estimate) of the caller */
    bool fits;                                /* every part fits */
    uint64_t context, sequences, micro_batch; /* used in the estimate */
    uint64_t token_bytes;                     /* of one more token, without regard to windows */
    uint64_t weight_bytes, kv_bytes, compute_bytes, overhead_bytes, total_bytes; /* of all parts */
    uint32_t layers_on_devices;
    uint32_t device_count;
    vram_estimate_part devices[VRAM_ESTIMATE_DEVICES_MAX];
    vram_estimate_part host;
} vram_estimate;

/**
 * Distributes a model over devices, layer by layer, and says whether it fits. Devices are filled in
 * order, and the last one gets the rest; with shares, each gets its share of the layers, whether or
 * not they fit. VRAM_ERR_INVALID names the option that is wrong: a type, a share, more sequences
 * than tokens, too many devices; VRAM_ERR_UNSUPPORTED if kv_known is false; VRAM_ERR_OVERFLOW.
 *
 * `fits` follows from the model as it was read. If that is a guess (family_known is false or
 * kv_guessed is true), so is this.
 */
VRAM_API vram_status vram_estimate_get(const vram_model *model,
                                       const vram_estimate_options *options,
                                       vram_estimate *estimate);

/**
 * The most that fits. A context is a multiple of 256, or the most that the model was trained for
 * (2^24 if unknown); layers are counted as in the options.
 */
typedef struct vram_fit {
    size_t size;       /* in: sizeof(vram_fit) of the caller */
    uint64_t context;  /* most tokens with the layers of the options; 0: not even 256 fit */
    vram_value layers; /* most layers with the context of the options; unknown: not even 0 fit */
} vram_fit;

/**
 * Finds the largest context and the most layers, each with the other as in the options. Takes as
 * long as a few hundred estimates.
 */
VRAM_API vram_status vram_fit_get(const vram_model *model, const vram_estimate_options *options,
                                  vram_fit *fit);

/* ---------------------------------------------------------------------- selection */

/**
 * What vram_model_select looks for: exactly one of `shape` and `bytes`. For a model from a file,
 * `bytes` is the total_bytes of its estimate.
 */
typedef struct vram_model_select_options {
    size_t size;                       /* sizeof(vram_model_select_options) */
    const vram_inference_shape *shape; /* needs its total_bytes; NULL: `bytes` */
    uint64_t bytes;                    /* needed at the same time, if there is no shape */
    const char *order;                 /* as in vram_select_options; NULL: the usual order */
} vram_model_select_options;

/** The device for a model. */
typedef struct vram_model_place {
    size_t size;            /* in: sizeof(vram_model_place) of the caller */
    const char *backend;    /* "cuda"; static storage */
    uint32_t backend_index; /* number of the device in the backend */
    uint32_t device;        /* index in the context, for vram_device_open */
    uint64_t bytes;         /* that are needed */
} vram_model_place;

/**
 * The first backend and device with enough free memory for a model or a number of bytes, in the
 * order CUDA, HIP, Metal, Vulkan, OpenCL, host. Works, and fails, as vram_device_select:
 * VRAM_ERR_DEVICE_MEMORY, "No backend has enough memory", if no device has enough.
 */
VRAM_API vram_status vram_model_select(vram_context *context,
                                       const vram_model_select_options *options,
                                       vram_model_place *place);

#ifdef __cplusplus
}
#endif

#endif
