/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.h: how a family of models is built: what config.json leaves out, because the programs that
 * read it know. A family is Llama with other blocks: which mixer its layers have, which matrices
 * have biases, which norms there are, and what its config means where it says nothing.
 */
#ifndef VR_FAMILY_H
#define VR_FAMILY_H

#include "model/model_config.h"

/* How a family differs from Llama. */
enum vr_family_bit {
    VR_FAMILY_TIED = 1 << 0,         /* output shares the input's matrix unless the config denies
                                        it */
    VR_FAMILY_QKV_BIAS = 1 << 1,     /* query, key and value have a bias */
    VR_FAMILY_O_BIAS = 1 << 2,       /* and so has the output of attention, if these have */
    VR_FAMILY_HEAD_NORM = 1 << 3,    /* a norm on each head of queries and of keys */
    VR_FAMILY_WIDE_NORM = 1 << 4,    /* a norm on all heads of queries, and on all of keys */
    VR_FAMILY_NORM_TOLD = 1 << 5,    /* the config says whether there is such a norm */
    VR_FAMILY_FOUR_NORMS = 1 << 6,   /* norms behind attention and feed-forward, too */
    VR_FAMILY_ONE_NORM = 1 << 7,     /* one norm before attention and feed-forward together */
    VR_FAMILY_NO_NORM = 1 << 8,      /* norms have no parameters */
    VR_FAMILY_LAYER_NORM = 1 << 9,   /* norms have a bias */
    VR_FAMILY_PLAIN_MLP = 1 << 10,   /* two matrices, no gate */
    VR_FAMILY_LINEAR_BIAS = 1 << 11, /* every matrix of a layer has a bias, unless the config denies
                                        it */
    VR_FAMILY_SINKS = 1 << 12,       /* one learned number for each head */
    VR_FAMILY_EXPERT_BIAS = 1 << 13, /* router and experts have biases */
    VR_FAMILY_ROUTER_FIX = 1 << 14,  /* a number for each expert that corrects the router */
    VR_FAMILY_GATED_QUERY = 1 << 15, /* queries have a gate of the same width */
    VR_FAMILY_HEAD_GATE = 1 << 16,   /* queries have a gate of one number for each head */
    VR_FAMILY_FALCON = 1 << 17,      /* norms by new_decoder_architecture and parallel_attn */
    VR_FAMILY_WINDOWED = 1 << 18,    /* sliding_window, if set, applies to every layer */
    VR_FAMILY_SHARED_GATE = 1 << 19, /* the shared expert has a gate */
    VR_FAMILY_SHARED_ONE = 1 << 20,  /* one shared expert, as wide as the others */
    VR_FAMILY_POSITIONS = 1 << 21,   /* learned embeddings of positions */
    VR_FAMILY_INPUT_NORM = 1 << 22,  /* a norm behind the embeddings */
    VR_FAMILY_OUTPUT_BIAS = 1 << 23, /* the output layer has a bias */
    VR_FAMILY_ONE_BLOCK = 1 << 24,   /* a layer has either a mixer or a feed-forward block */
    VR_FAMILY_BOTH_FEEDS = 1 << 25,  /* experts stand beside the dense block */
    VR_FAMILY_ENCODER = 1 << 26,     /* sees all tokens at once: no cache, no output layer */
    VR_FAMILY_POOLER = 1 << 27,      /* an encoder with a matrix behind the last layer */
    VR_FAMILY_DECODER = 1 << 28,     /* encoder layers, then decoder layers that attend to them */
    VR_FAMILY_STATE_NORM = 1 << 29,  /* Mamba's step, input and output matrices have norms */
    VR_FAMILY_TWO_MIXERS = 1 << 30   /* attention and a mixer with a state side by side */
};

/* The block that relates tokens. */
enum vr_mixer {
    VR_MIXER_HEADS,      /* attention with keys and values for each head */
    VR_MIXER_LATENT,     /* MLA: keys and values are computed from one cached vector */
    VR_MIXER_COMPRESSED, /* DeepSeek V4: one cached vector for several tokens */
    VR_MIXER_DELTA,      /* gated delta net */
    VR_MIXER_KIMI,       /* Kimi delta attention: a gate for each channel */
    VR_MIXER_LIGHTNING,  /* MiniMax: a decayed sum */
    VR_MIXER_MAMBA,
    VR_MIXER_MAMBA2,
    VR_MIXER_MATRIX, /* a single matrix */
    VR_MIXER_NONE
};

/* A value that the config may leave out. */
struct vr_family_default {
    enum vr_config_key key;
    uint32_t value; /* 0 ends the list */
};

struct vr_family {
    const char *names; /* of model_type, or of GGUF's general.architecture, separated by blanks */
    uint32_t bits;     /* of vr_family_bit */
    enum vr_mixer mixer, linear;  /* of layers with attention, and of those without */
    const char *attention, *feed; /* names of the two blocks; NULL: "self_attn", "mlp" */
    const char *experts;          /* of the block with the experts; NULL: the name of `feed`; "":
                                     they stand in the layer itself */
    uint32_t window_every;        /* of so many layers the last is full, the others slide */
    struct vr_family_default defaults[10];
};

/* NULL: not in the table. */
const struct vr_family *vr_family_find(const char *type);

/* The kind of a model that is not a language model: "a diffusion model"; NULL: it may be one. */
const char *vr_family_foreign(const char *type);

/* How a vision tower differs from a plain vision transformer: patches, positions, layers of four
   attention matrices and two of feed-forward, all without biases. */
enum vr_tower_bit {
    VR_TOWER_BIAS = 1 << 0,       /* matrices have biases */
    VR_TOWER_MLP_BIAS = 1 << 1,   /* those of feed-forward have, whatever the others do */
    VR_TOWER_LAYER_NORM = 1 << 2, /* norms have biases */
    VR_TOWER_GATED = 1 << 3,      /* three matrices of feed-forward */
    VR_TOWER_PATCH_BIAS = 1 << 4,
    VR_TOWER_CLASS = 1 << 5,     /* a patch that stands for the image */
    VR_TOWER_POSITIONS = 1 << 6, /* learned, as many as an image has patches */
    VR_TOWER_PLANE = 1 << 7,     /* learned for each axis */
    VR_TOWER_PRE_NORM = 1 << 8,
    VR_TOWER_POST_NORM = 1 << 9,
    VR_TOWER_HEAD_NORM = 1 << 10, /* of queries and keys */
    VR_TOWER_FOUR_NORMS = 1 << 11
};

/* What leads from the tower to the language model. */
enum vr_projector {
    VR_PROJECTOR_NORM_MATRIX, /* a norm and a matrix */
    VR_PROJECTOR_MATRIX,
    VR_PROJECTOR_TWO,    /* two matrices with biases */
    VR_PROJECTOR_MERGER, /* a norm, and two matrices with biases over neighbouring patches */
    VR_PROJECTOR_MISTRAL,
    VR_PROJECTOR_GLM,
    VR_PROJECTOR_LLAMA3, /* a matrix with a bias; the tower has positions for each tile */
    VR_PROJECTOR_LLAMA4,
    VR_PROJECTOR_STEP,
    VR_PROJECTOR_MINIMAX,  /* two matrices for each patch, and two for those that are merged */
    VR_PROJECTOR_PHI,      /* two matrices with biases, the first over merged patches */
    VR_PROJECTOR_EMBEDDER, /* a norm and a matrix, and embeddings of special tokens */
    VR_PROJECTOR_CLIP,     /* none: text and images end in the same space */
    VR_PROJECTOR_SIGLIP    /* the same; a layer of attention sums the image up */
};

struct vr_tower {
    const char *names; /* of model_type in vision_config, or else of the whole model */
    uint32_t bits;     /* of vr_tower_bit */
    enum vr_projector projector;
    uint32_t fixed; /* numbers of a tower that a config only names; 0: it describes it */
    struct vr_family_default defaults[6];
};

/* NULL: not in the table. */
const struct vr_tower *vr_tower_find(const char *type);

#endif
