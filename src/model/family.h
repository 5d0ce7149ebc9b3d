/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.h: how a family of models is built: what config.json leaves out, because the programs that
 * read it know.
 */
#ifndef VR_FAMILY_H
#define VR_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

/* How a family differs from Llama. */
enum vr_family_bit {
    VR_FAMILY_TIED = 1 << 0,       /* output shares the input's matrix unless the config denies
                                      it */
    VR_FAMILY_QKV_BIAS = 1 << 1,   /* query, key and value have a bias */
    VR_FAMILY_O_BIAS = 1 << 2,     /* and so has the output of attention */
    VR_FAMILY_HEAD_NORM = 1 << 3,  /* a norm on each head of queries and of keys */
    VR_FAMILY_FOUR_NORMS = 1 << 4, /* norms behind attention and feed-forward, too */
    VR_FAMILY_PLAIN_MLP = 1 << 5,  /* two matrices, no gate */
    VR_FAMILY_LAYER_NORM = 1 << 6, /* norms have a bias */
    VR_FAMILY_LINEAR_BIAS =
        1 << 7,               /* every matrix of a layer has a bias, unless the config denies it */
    VR_FAMILY_SINKS = 1 << 8, /* one learned number for each head */
    VR_FAMILY_EXPERT_BIAS = 1 << 9,  /* router and experts have biases */
    VR_FAMILY_ROUTER_FIX = 1 << 10,  /* a number for each expert that corrects the router */
    VR_FAMILY_GATED_QUERY = 1 << 11, /* queries have a gate of the same width */
    VR_FAMILY_FALCON = 1 << 12,      /* norms by new_decoder_architecture and parallel_attn */
    VR_FAMILY_WINDOWED = 1 << 13,    /* sliding_window, if set, applies to every layer */
    VR_FAMILY_SHARED_GATE = 1 << 14, /* the shared expert has a gate */
    VR_FAMILY_ONE_NORM = 1 << 15,    /* one norm before attention and feed-forward together */
    VR_FAMILY_POSITIONS = 1 << 16    /* learned embeddings of positions */
};

struct vr_family {
    const char *names; /* of model_type, or of GGUF's general.architecture, separated by blanks */
    uint32_t bits;     /* of vr_family_bit */
    uint32_t
        window_every; /* of so many layers the last is full, the others slide; 0: no such rule */
    uint32_t heads, kv_heads, head_elements,
        vocabulary; /* if config.json does not have them; 0: it has */
};

/* NULL: not in the table. */
const struct vr_family *vr_family_find(const char *type);

#endif
