/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantization.h: how the matrices of a model are stored, as quantization_config in config.json or
 * hf_quant_config.json beside it says.
 *
 * A scheme packs the numbers of a matrix into a few bits each and adds scales. Rules say which
 * scheme a module has; those that leave a module out count most. Only matrices of layers are
 * packed; embeddings, the output layer, routers, norms and biases never are.
 */
#ifndef VR_QUANTIZATION_H
#define VR_QUANTIZATION_H

#include "base/size.h"

#include "vram/model.h"

struct vr_json_reader;

enum {
    VR_SCHEME_PLAIN = 0, /* not packed: in the type of the model */
    VR_SCHEMES_MAX = 8,
    VR_QUANT_RULES_MAX = 4096,
    VR_QUANT_TEXT_MAX = 128 << 10
};

struct vr_scheme {
    char name[16];        /* "fp8", "nvfp4", "int4" */
    uint64_t bits;        /* of one number */
    uint64_t scale_bits;  /* of a scale, and of its zero point if it has one */
    uint64_t rows, width; /* of the part of a matrix that shares a scale; width 0: a whole row */
};

struct vr_quant_rule {
    uint32_t text;  /* of the pattern: its place in `texts` */
    uint32_t layer; /* a pattern for one layer: its number; else UINT32_MAX */
    uint8_t scheme;
};

struct vr_quantization {
    bool told;        /* a file says how the weights are stored */
    char unknown[32]; /* the method, if it is one that is not known; "" */
    struct vr_scheme schemes[VR_SCHEMES_MAX];
    uint32_t scheme_count, rule_count, text_bytes;
    uint8_t usual;   /* the scheme of modules that no rule names */
    uint8_t experts; /* the same of experts */
    uint64_t steps;  /* that matching names may still take */
    struct vr_quant_rule rules[VR_QUANT_RULES_MAX];
    char texts[VR_QUANT_TEXT_MAX];
};

/* Reads the rest of an object whose brace was read. False: invalid JSON, or *status is set:
   VRAM_ERR_UNSUPPORTED if it has more rules than fit. */
bool vr_quantization_read(struct vr_json_reader *reader, struct vr_quantization *quantization,
                          vram_status *status);

/* Reads hf_quant_config.json from memory. */
vram_status vr_quantization_parse(const char *text, size_t bytes,
                                  struct vr_quantization *quantization);

/* Packs all matrices of layers as one of VR_PACKINGS names, in any case, whatever the config says.
   False: it is none. */
#define VR_PACKINGS "fp8, mxfp8, nvfp4, mxfp4, int4, int8, awq, gptq"
bool vr_quantization_ask(struct vr_quantization *quantization, const char *name);

/* Packs experts as a type says that config.json names apart: "fp4", "fp8". */
void vr_quantization_experts(struct vr_quantization *quantization, const char *type);

/* The scheme of most modules: "fp8"; "none" if no file says that the weights are packed. */
const char *vr_quantization_name(const struct vr_quantization *quantization, bool experts);

/* The scheme of a module, VR_SCHEME_PLAIN or an index of `schemes`. */
uint8_t vr_quantization_find(struct vr_quantization *quantization, const char *module,
                             uint32_t layer, bool expert);

/* Bytes of a matrix in a scheme, with its scales. False: overflow. */
bool vr_scheme_bytes(const struct vr_scheme *scheme, uint64_t rows, uint64_t columns,
                     uint64_t *bytes);

#endif
