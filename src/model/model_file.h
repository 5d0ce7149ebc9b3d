/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_file.h: the readers of model files, one for each format.
 */
#ifndef VR_MODEL_FILE_H
#define VR_MODEL_FILE_H

#include "model/source.h"
#include "model/weight_sum.h"

/* What a part of a split GGUF file says about the split. */
struct vr_gguf_split {
    uint64_t count;   /* parts; 0: not split */
    uint64_t number;  /* of this one, from 0 */
    uint64_t tensors; /* of all parts together; 0: unknown */
};

enum vr_gguf_role {
    VR_GGUF_MODEL,    /* a model, or its first part: the metadata describe it */
    VR_GGUF_PART,     /* another part: its tensors count */
    VR_GGUF_PROJECTOR /* the encoder of images or sound (mmproj): its tensors count */
};

/* Reads one GGUF file: its tensors, and of a model its metadata into sum->model. */
vram_status vr_gguf_read(struct vr_source *source, struct vr_weight_sum *sum,
                         enum vr_gguf_role role, struct vr_gguf_split *split);

/* Reads the header of one safetensors file. */
vram_status vr_safetensors_read(struct vr_source *source, struct vr_weight_sum *sum);

enum { VR_SHARDS_MAX = 1024, VR_SHARD_NAME_MAX = 128 };

/* The files that an index names, each once, in order. */
struct vr_shards {
    uint64_t tensors;      /* entries of weight_map */
    vram_value total_size; /* bytes of all tensors */
    vram_value parameters; /* total_parameters */
    uint32_t count;
    char names[VR_SHARDS_MAX][VR_SHARD_NAME_MAX];
    uint16_t slots[2 * VR_SHARDS_MAX]; /* by hash: index + 1; 0: free */
};

/* Reads an index from memory. *found is false when the JSON, which may be valid, has no
   weight_map. */
vram_status vr_shards_read(struct vr_source *source, const char *text, size_t bytes,
                           struct vr_shards *shards, bool *found);

#endif
