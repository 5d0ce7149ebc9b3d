/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf.c: one GGUF file, versions 2 and 3, little-endian.
 *
 *   "GGUF"  version  tensors  pairs | pairs: key, type, value |
 *   tensors: name, dimensions, type, offset | padding |
 *   data of the tensors, each at a multiple of the alignment
 *
 * (1) Everything is read once, from front to back, through the window of the source: neither time
 *     nor memory grows with a number in the file beyond the bytes that are there.
 * (2) Tensors lie one behind another without gaps or overlaps, in the order of their entries, as
 *     the format requires; the last ends inside the file. So the sum of sizes is exact.
 */
#include "model/model_file.h"

#include "base/text.h"
#include "model/gguf_shape.h"

#include <string.h>

enum { TOKENS = VR_GGUF_NUMBERS + 1 };
enum { KEY_MAX = 128, DIMENSIONS_MAX = 4, PAIR_LEAST = 13, TENSOR_LEAST = 24 };

enum gguf_value_type {
    TYPE_U8,
    TYPE_I8,
    TYPE_U16,
    TYPE_I16,
    TYPE_U32,
    TYPE_I32,
    TYPE_F32,
    TYPE_BOOL,
    TYPE_TEXT,
    TYPE_ARRAY,
    TYPE_U64,
    TYPE_I64,
    TYPE_F64,
    TYPES
};

static const uint8_t type_bytes[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct gguf {
    struct vr_source *source;
    struct vr_weight_sum *sum;
    struct vr_gguf_split *split;
    enum vr_gguf_role role;
    uint64_t alignment;
    uint64_t end;    /* of the tensors so far in the data, with padding */
    uint64_t filled; /* the same without the padding behind the last, which may be missing */
    char architecture[sizeof((struct vram_model *)0)->architecture];
    char type[16]; /* general.type: "model", "adapter", "mmproj"; "" if the file does not say */
    struct vr_gguf_shape shape;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        vram_status status_ = (call);                                                              \
        if (status_ != VRAM_OK) {                                                                  \
            return status_;                                                                        \
        }                                                                                          \
    } while (0)

#define CORRUPT(gguf, ...) vr_source_bad((gguf)->source, VRAM_ERR_CORRUPT, __VA_ARGS__)

/* -------------------------------------------------------------------- values */

/* A text, truncated to `to_bytes`; skips the rest. */
static vram_status take_text(struct gguf *gguf, char *to, size_t to_bytes) {
    uint64_t bytes;
    TRY(vr_source_u64(gguf->source, &bytes));
    size_t kept = bytes < to_bytes - 1 ? (size_t)bytes : to_bytes - 1;
    TRY(vr_source_take(gguf->source, to, kept));
    to[kept] = '\0';
    return vr_source_skip(gguf->source, bytes - kept);
}

/* A number or switch of any type; negative numbers and fractions are unknown. */
static vram_status take_number(struct gguf *gguf, uint32_t type, struct vram_value *value) {
    uint8_t raw[8] = {0};
    uint64_t number = 0;
    TRY(vr_source_take(gguf->source, raw, type_bytes[type]));
    for (unsigned i = 0; i < type_bytes[type]; i++) {
        number |= (uint64_t)raw[i] << 8 * i;
    }
    bool is_signed = type == TYPE_I8 || type == TYPE_I16 || type == TYPE_I32 || type == TYPE_I64;
    bool negative = is_signed && (raw[type_bytes[type] - 1] & 0x80);
    bool whole = type != TYPE_F32 && type != TYPE_F64 && !negative;
    *value = (struct vram_value){whole ? number : 0, whole};
    return VRAM_OK;
}

/* An array; `key` is what it is for. */
static vram_status take_array(struct gguf *gguf, uint32_t key) {
    uint32_t type;
    uint64_t count;
    TRY(vr_source_u32(gguf->source, &type));
    TRY(vr_source_u64(gguf->source, &count));
    if (type >= TYPES || type == TYPE_ARRAY) {
        return CORRUPT(gguf, "an array has elements of type %u", type);
    }
    if (key == TOKENS) {
        gguf->shape.tokens = count;
    }
    if (type == TYPE_TEXT) {
        uint64_t bytes;
        for (uint64_t i = 0; i < count; i++) {
            TRY(vr_source_u64(gguf->source, &bytes));
            TRY(vr_source_skip(gguf->source, bytes));
        }
        return VRAM_OK;
    }
    uint64_t bytes, left = gguf->source->bytes - gguf->source->at;
    if (!vr_mul(count, type_bytes[type], &bytes) || bytes > left) {
        return CORRUPT(gguf, "an array has %llu elements, more than the file has bytes",
                       (unsigned long long)count);
    }
    if (key >= VR_GGUF_NUMBERS) {
        return vr_source_skip(gguf->source, bytes);
    }
    for (uint64_t i = 0; i < count; i++) {
        struct vram_value value;
        TRY(take_number(gguf, type, &value));
        vr_gguf_shape_note(&gguf->shape, (enum vr_gguf_number)key, i, value);
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------------ metadata */

/* What a key is for: a number, TOKENS, or VR_GGUF_NUMBERS for nothing. */
static uint32_t key_of(const char *key) {
    const char *dot = strchr(key, '.');
    if (strcmp(key, "tokenizer.ggml.tokens") == 0) {
        return TOKENS;
    }
    if (!dot || strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0) {
        return VR_GGUF_NUMBERS;
    }
    return vr_gguf_number_find(dot + 1);
}

static vram_status take_value(struct gguf *gguf, const char *key, uint32_t type) {
    struct vram_model *model = gguf->sum->model;
    struct vram_value value;
    uint32_t found = key_of(key);
    char ignored[2];
    if (type == TYPE_ARRAY) {
        return take_array(gguf, found);
    }
    if (type == TYPE_TEXT) {
        bool architecture = strcmp(key, "general.architecture") == 0;
        bool name = gguf->role == VR_GGUF_MODEL && strcmp(key, "general.name") == 0;
        bool kind = strcmp(key, "general.type") == 0;
        char *to = architecture ? gguf->architecture
                   : name       ? model->name
                   : kind       ? gguf->type
                                : ignored;
        TRY(take_text(gguf, to,
                      architecture ? sizeof gguf->architecture
                      : name       ? sizeof model->name
                      : kind       ? sizeof gguf->type
                                   : sizeof ignored));
        vr_text_clean(to);
        return VRAM_OK;
    }
    TRY(take_number(gguf, type, &value));
    if (strcmp(key, "general.alignment") == 0) {
        gguf->alignment = value.value;
    } else if (strcmp(key, "split.count") == 0) {
        gguf->split->count = value.value;
    } else if (strcmp(key, "split.no") == 0) {
        gguf->split->number = value.value;
    } else if (strcmp(key, "split.tensors.count") == 0) {
        gguf->split->tensors = value.value;
    } else if (found < VR_GGUF_NUMBERS) {
        gguf->shape.numbers[found] = value;
    }
    return VRAM_OK;
}

static vram_status take_pairs(struct gguf *gguf, uint64_t count) {
    if (count > (gguf->source->bytes - gguf->source->at) / PAIR_LEAST) {
        return CORRUPT(gguf, "its %llu pairs are more than the file has bytes",
                       (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        char key[KEY_MAX];
        uint32_t type;
        TRY(take_text(gguf, key, sizeof key));
        TRY(vr_source_u32(gguf->source, &type));
        if (type >= TYPES) {
            return CORRUPT(gguf, "a value has the unknown type %u", type);
        }
        TRY(take_value(gguf, key, type));
    }
    if (!vr_is_power_of_two(gguf->alignment) || gguf->alignment > VR_GIB) {
        return CORRUPT(gguf, "the alignment is %llu, which is not a power of two",
                       (unsigned long long)gguf->alignment);
    }
    return VRAM_OK;
}

/* -------------------------------------------------------------------- tensors */

static vram_status take_tensor(struct gguf *gguf) {
    struct vr_tensor tensor = {.parameters = 1};
    char name[KEY_MAX];
    uint64_t sizes[DIMENSIONS_MAX] = {1, 1, 1, 1}, rows, offset;
    uint32_t dimensions, type;
    TRY(take_text(gguf, name, sizeof name));
    vr_text_clean(name);
    TRY(vr_source_u32(gguf->source, &dimensions));
    if (dimensions > DIMENSIONS_MAX) {
        return CORRUPT(gguf, "tensor %.60s has %u dimensions", name, dimensions);
    }
    for (uint32_t i = 0; i < dimensions; i++) {
        TRY(vr_source_u64(gguf->source, &sizes[i]));
    }
    TRY(vr_source_u32(gguf->source, &type));
    TRY(vr_source_u64(gguf->source, &offset));
    tensor.name = name;
    tensor.type = vr_tensor_type_of_gguf(type);
    if (!tensor.type) {
        return vr_source_bad(gguf->source, VRAM_ERR_UNSUPPORTED,
                             "tensor %.60s is of type %u, which does not exist or was removed",
                             name, type);
    }
    if (!vr_mul(sizes[1], sizes[2], &rows) || !vr_mul(rows, sizes[3], &rows) ||
        !vr_mul(rows, sizes[0], &tensor.parameters) ||
        !vr_tensor_type_bytes(tensor.type, sizes[0], rows, &tensor.bytes)) {
        return CORRUPT(gguf, "tensor %.60s has rows of %llu elements, which is not possible in %s",
                       name, (unsigned long long)sizes[0], tensor.type->name);
    }
    if (offset != gguf->end) { /* keeps (2) */
        return CORRUPT(gguf, "tensor %.60s lies at offset %llu; the tensors before it end at %llu",
                       name, (unsigned long long)offset, (unsigned long long)gguf->end);
    }
    if (!vr_add(offset, tensor.bytes, &gguf->filled) || gguf->filled > gguf->source->bytes) {
        return CORRUPT(gguf, "the file is truncated: tensor %.60s ends behind the end of the file",
                       name);
    }
    (void)vr_round_up(gguf->filled, gguf->alignment, &gguf->end); /* a file ends below 2^63 */
    tensor.rows = rows;
    if (!vr_weight_sum_add(gguf->sum, &tensor)) {
        return vr_source_bad(gguf->source, VRAM_ERR_UNSUPPORTED,
                             "tensor %.60s belongs to a layer beyond the %d that are supported",
                             name, VRAM_MODEL_LAYERS_MAX);
    }
    return VRAM_OK;
}

static vram_status take_tensors(struct gguf *gguf, uint64_t count) {
    struct vr_source *source = gguf->source;
    uint64_t data = 0;
    if (count > (source->bytes - source->at) / TENSOR_LEAST) {
        return CORRUPT(gguf, "its %llu tensors are more than the file has bytes",
                       (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        TRY(take_tensor(gguf));
    }
    (void)vr_round_up(source->at, gguf->alignment, &data); /* a file ends below 2^63 */
    if (gguf->filled && (data > source->bytes || gguf->filled > source->bytes - data)) {
        return CORRUPT(gguf, "the file is truncated: the tensors end %llu bytes behind the header",
                       (unsigned long long)gguf->filled);
    }
    return VRAM_OK;
}

static vram_status check_projector(const struct gguf *gguf) {
    return strcmp(gguf->architecture, "clip") == 0
               ? VRAM_OK
               : vr_source_bad(
                     gguf->source, VRAM_ERR_INVALID,
                     "the file is not a projector (mmproj): its architecture is \"%.32s\"",
                     gguf->architecture);
}

static vram_status set_model(struct gguf *gguf) {
    struct vram_model *model = gguf->sum->model;
    if (strcmp(gguf->architecture, "clip") == 0 || strcmp(gguf->type, "mmproj") == 0) {
        return vr_source_bad(gguf->source, VRAM_ERR_INVALID,
                             "the file contains a projector for images or sound, not a language "
                             "model; name the model, and this file as its projector (--mmproj)");
    }
    if (gguf->type[0] && strcmp(gguf->type, "model") != 0) { /* an adapter, an importance matrix */
        return vr_source_bad(gguf->source, VRAM_ERR_INVALID,
                             "the file does not contain a model: its general.type is \"%s\"",
                             gguf->type);
    }
    memcpy(model->architecture, gguf->architecture, sizeof model->architecture);
    model->format = VRAM_MODEL_GGUF;
    model->family_known = true; /* shapes are read, not guessed */
    TRY(vr_gguf_shape_apply(&gguf->shape, gguf->source, model));
    gguf->sum->layers_known = true;
    return VRAM_OK;
}

vram_status vr_gguf_read(struct vr_source *source, struct vr_weight_sum *sum,
                         enum vr_gguf_role role, struct vr_gguf_split *split) {
    static const uint8_t magic[4] = {'G', 'G', 'U', 'F'};
    struct gguf gguf = {
        .source = source, .sum = sum, .split = split, .role = role, .alignment = 32};
    uint8_t head[4];
    uint32_t version;
    uint64_t tensors, pairs;
    *split = (struct vr_gguf_split){0, 0, 0};
    TRY(vr_source_take(source, head, sizeof head));
    if (memcmp(head, magic, sizeof magic) != 0) {
        return vr_source_bad(source, VRAM_ERR_INVALID, "this is not a GGUF file");
    }
    TRY(vr_source_u32(source, &version));
    if (version != 2 && version != 3) {
        return vr_source_bad(
            source, VRAM_ERR_UNSUPPORTED,
            "the file has GGUF version %u%s; versions 2 and 3, little-endian, are supported",
            version, version == 0x03000000 || version == 0x02000000 ? ", big-endian" : "");
    }
    TRY(vr_source_u64(source, &tensors));
    TRY(vr_source_u64(source, &pairs));
    TRY(take_pairs(&gguf, pairs));
    if (role == VR_GGUF_PROJECTOR) {
        TRY(check_projector(&gguf));
    } else if (role == VR_GGUF_MODEL) {
        TRY(set_model(&gguf));
    }
    sum->model->files++;
    return take_tensors(&gguf, tensors);
}
