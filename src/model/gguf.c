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
#include "model/family.h"

#include <string.h>

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

/* The numbers to read: X(name, end of the key behind "ARCHITECTURE."). */
#define NUMBER_MAP(X)                                                                              \
    X(LAYERS, "block_count")                                                                       \
    X(CONTEXT, "context_length")                                                                   \
    X(HIDDEN, "embedding_length")                                                                  \
    X(FEED_FORWARD, "feed_forward_length")                                                         \
    X(EXPERT_FEED_FORWARD, "expert_feed_forward_length")                                           \
    X(HEADS, "attention.head_count")                                                               \
    X(KV_HEADS, "attention.head_count_kv")                                                         \
    X(KEY, "attention.key_length")                                                                 \
    X(VALUE, "attention.value_length")                                                             \
    X(WINDOW, "attention.sliding_window")                                                          \
    X(WINDOW_PATTERN, "attention.sliding_window_pattern")                                          \
    X(KV_RANK, "attention.kv_lora_rank")                                                           \
    X(ROPE, "rope.dimension_count")                                                                \
    X(EXPERTS, "expert_count")                                                                     \
    X(EXPERTS_USED, "expert_used_count")                                                           \
    X(VOCABULARY, "vocab_size")                                                                    \
    X(FULL_EVERY, "full_attention_interval")                                                       \
    X(SSM_KERNEL, "ssm.conv_kernel")                                                               \
    X(SSM_INNER, "ssm.inner_size")                                                                 \
    X(SSM_STATE, "ssm.state_size")                                                                 \
    X(SSM_GROUPS, "ssm.group_count")

enum gguf_number {
#define NUMBER_ENUM(name, key) NUMBER_##name,
    NUMBER_MAP(NUMBER_ENUM)
#undef NUMBER_ENUM
        NUMBERS
};

static const char *const number_keys[NUMBERS] = {
#define NUMBER_KEY(name, key) [NUMBER_##name] = key,
    NUMBER_MAP(NUMBER_KEY)
#undef NUMBER_KEY
};

struct gguf {
    struct vr_source *source;
    struct vr_weight_sum *sum;
    struct vr_gguf_split *split;
    bool first; /* the part whose metadata describe the model */
    uint64_t alignment;
    uint64_t end;    /* of the tensors so far in the data, with padding */
    uint64_t filled; /* the same without the padding behind the last, which may be missing */
    uint64_t tokens; /* entries of tokenizer.ggml.tokens */
    struct vram_value numbers[NUMBERS];
    uint64_t largest_feed_forward;
    uint32_t kv_head_count,
        pattern_count; /* entries of the two arrays, where the file has arrays */
    uint32_t kv_heads[VRAM_MODEL_LAYERS_MAX];
    uint8_t pattern[VRAM_MODEL_LAYERS_MAX]; /* 1: the layer slides */
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

static void note_element(struct gguf *gguf, enum gguf_number key, uint64_t index,
                         struct vram_value value) {
    if (index >= VRAM_MODEL_LAYERS_MAX || !value.known || value.value > UINT32_MAX) {
        return;
    }
    if (key == NUMBER_KV_HEADS) {
        gguf->kv_heads[index] = (uint32_t)value.value;
        gguf->kv_head_count = (uint32_t)index + 1;
    } else if (key == NUMBER_WINDOW_PATTERN) {
        gguf->pattern[index] = value.value != 0;
        gguf->pattern_count = (uint32_t)index + 1;
    } else if (key == NUMBER_FEED_FORWARD && value.value > gguf->largest_feed_forward) {
        gguf->largest_feed_forward = value.value;
    } else if (key == NUMBER_HEADS &&
               (!gguf->numbers[key].known || value.value > gguf->numbers[key].value)) {
        gguf->numbers[key] = value;
    }
}

/* An array; `key` is what it is for: NUMBERS for nothing, NUMBERS + 1 for the tokens. */
static vram_status take_array(struct gguf *gguf, uint32_t key) {
    uint32_t type;
    uint64_t count;
    TRY(vr_source_u32(gguf->source, &type));
    TRY(vr_source_u64(gguf->source, &count));
    if (type >= TYPES || type == TYPE_ARRAY) {
        return CORRUPT(gguf, "an array has elements of type %u", type);
    }
    if (key == NUMBERS + 1) {
        gguf->tokens = count;
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
    if (key >= NUMBERS) {
        return vr_source_skip(gguf->source, bytes);
    }
    for (uint64_t i = 0; i < count; i++) {
        struct vram_value value;
        TRY(take_number(gguf, type, &value));
        note_element(gguf, (enum gguf_number)key, i, value);
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------------ metadata */

static uint32_t key_of(const char *key) {
    const char *dot = strchr(key, '.');
    if (strcmp(key, "tokenizer.ggml.tokens") == 0) {
        return NUMBERS + 1;
    }
    if (!dot || strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0) {
        return NUMBERS;
    }
    uint32_t found = 0;
    while (found < NUMBERS && strcmp(number_keys[found], dot + 1) != 0) {
        found++;
    }
    return found;
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
        bool architecture = gguf->first && strcmp(key, "general.architecture") == 0;
        bool name = gguf->first && strcmp(key, "general.name") == 0;
        char *to = architecture ? model->architecture : name ? model->name : ignored;
        TRY(take_text(gguf, to,
                      architecture ? sizeof model->architecture
                      : name       ? sizeof model->name
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
    } else if (found < NUMBERS) {
        gguf->numbers[found] = value;
    }
    return VRAM_OK;
}

static vram_status take_pairs(struct gguf *gguf, uint64_t count) {
    if (count > (gguf->source->bytes - gguf->source->at) / PAIR_LEAST) {
        return CORRUPT(gguf, "%llu pairs are more than the file has bytes",
                       (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        char key[KEY_MAX];
        uint32_t type;
        TRY(take_text(gguf, key, sizeof key));
        TRY(vr_source_u32(gguf->source, &type));
        if (type >= TYPES) {
            return CORRUPT(gguf, "a value has the type %u", type);
        }
        TRY(take_value(gguf, key, type));
    }
    if (!vr_is_power_of_two(gguf->alignment) || gguf->alignment > VR_GIB) {
        return CORRUPT(gguf, "the alignment is %llu, which is not a power of two",
                       (unsigned long long)gguf->alignment);
    }
    return VRAM_OK;
}

/* --------------------------------------------------------------------- layers */

static uint64_t number_get(const struct gguf *gguf, enum gguf_number key, uint64_t other) {
    return gguf->numbers[key].known ? gguf->numbers[key].value : other;
}

static uint64_t kv_heads_of(const struct gguf *gguf, uint32_t layer) {
    uint64_t heads = number_get(gguf, NUMBER_KV_HEADS, number_get(gguf, NUMBER_HEADS, 0));
    return gguf->kv_head_count ? layer < gguf->kv_head_count ? gguf->kv_heads[layer] : 0 : heads;
}

static bool layer_slides(const struct gguf *gguf, const struct vr_family *family, uint32_t layer) {
    uint64_t every = number_get(gguf, NUMBER_WINDOW_PATTERN, family ? family->window_every : 0);
    if (gguf->pattern_count) {
        return layer < gguf->pattern_count && gguf->pattern[layer];
    }
    return every > 0 && (layer + 1) % every != 0;
}

/* Layers without a cache keep a state: those without heads of keys, and in Qwen3-Next all but every
   fourth. */
static bool is_recurrent(const struct gguf *gguf, uint32_t layer) {
    bool next = strcmp(gguf->sum->model->architecture, "qwen3next") == 0;
    uint64_t full_every = number_get(gguf, NUMBER_FULL_EVERY, next ? 4 : 0);
    return full_every ? (layer + 1) % full_every != 0 : kv_heads_of(gguf, layer) == 0;
}

/* False: not within 32 bits. */
static bool set_layer(const struct gguf *gguf, const struct vr_family *family, uint32_t index) {
    struct vram_model *model = gguf->sum->model;
    struct vram_model_layer *layer = &model->layers[index];
    uint64_t heads = kv_heads_of(gguf, index), k, v = 0, state = 0, group = 0;
    uint64_t inner = number_get(gguf, NUMBER_SSM_INNER, 0),
             states = number_get(gguf, NUMBER_SSM_STATE, 0);
    uint64_t kernel = number_get(gguf, NUMBER_SSM_KERNEL, 1);
    bool both = strcmp(model->architecture, "falcon-h1") == 0, good = true;
    bool latent = gguf->numbers[NUMBER_KV_RANK].known && heads == 1;
    if (is_recurrent(gguf, index) || both) {
        good = inner <= UINT32_MAX && states <= UINT16_MAX && kernel > 0 && kernel <= UINT16_MAX &&
               number_get(gguf, NUMBER_SSM_GROUPS, 0) <= UINT16_MAX;
        group = good ? 2 * number_get(gguf, NUMBER_SSM_GROUPS, 0) * states : 0;
        state = good ? inner * states + (kernel - 1) * (inner + group) : 0;
    }
    if (is_recurrent(gguf, index)) {
        k = 0;
    } else if (latent) {
        k = number_get(gguf, NUMBER_KV_RANK, 0) + number_get(gguf, NUMBER_ROPE, 0);
    } else {
        good = good && vr_mul(heads, number_get(gguf, NUMBER_KEY, model->head_elements), &k) &&
               vr_mul(heads, number_get(gguf, NUMBER_VALUE, model->head_elements), &v);
        k = good ? k : 0;
    }
    uint64_t window = layer_slides(gguf, family, index) ? number_get(gguf, NUMBER_WINDOW, 0) : 0;
    layer->k_elements = (uint32_t)k;
    layer->v_elements = (uint32_t)v;
    layer->state_elements = (uint32_t)state;
    layer->window = (uint32_t)window;
    return good && k <= UINT32_MAX && v <= UINT32_MAX && state <= UINT32_MAX &&
           window <= UINT32_MAX;
}

static vram_status set_layers(struct gguf *gguf) {
    struct vram_model *model = gguf->sum->model;
    uint64_t layers = number_get(gguf, NUMBER_LAYERS, 0), heads = number_get(gguf, NUMBER_HEADS, 0);
    const struct vr_family *family = vr_family_find(model->architecture);
    if (layers == 0) {
        return vr_source_bad(gguf->source, VRAM_ERR_INVALID,
                             "has no block_count: it does not hold a language model");
    }
    if (layers > VRAM_MODEL_LAYERS_MAX) {
        return vr_source_bad(gguf->source, VRAM_ERR_UNSUPPORTED, "%llu layers; at most %d are read",
                             (unsigned long long)layers, VRAM_MODEL_LAYERS_MAX);
    }
    model->layer_count = (uint32_t)layers;
    gguf->sum->layers_known = true;
    model->heads = heads;
    model->kv_heads = kv_heads_of(gguf, 0);
    model->head_elements = number_get(gguf, NUMBER_KEY, heads ? model->hidden / heads : 0);
    model->kv_known = heads > 0 || gguf->kv_head_count > 0 || gguf->numbers[NUMBER_SSM_STATE].known;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (!set_layer(gguf, family, i)) {
            return CORRUPT(gguf, "layer %u would keep more than 2^32 numbers", i);
        }
    }
    return VRAM_OK;
}

static vram_status set_model(struct gguf *gguf) {
    struct vram_model *model = gguf->sum->model;
    const uint64_t most = UINT32_MAX;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (gguf->numbers[i].known && gguf->numbers[i].value > most) {
            return CORRUPT(gguf, "%s is %llu, more than any model has", number_keys[i],
                           (unsigned long long)gguf->numbers[i].value);
        }
    }
    model->format = VRAM_MODEL_GGUF;
    model->family_known = true; /* shapes are read, not guessed */
    model->hidden = number_get(gguf, NUMBER_HIDDEN, 0);
    model->context_most = number_get(gguf, NUMBER_CONTEXT, 0);
    model->vocabulary = number_get(gguf, NUMBER_VOCABULARY, gguf->tokens);
    model->experts = number_get(gguf, NUMBER_EXPERTS, 0);
    model->experts_used = number_get(gguf, NUMBER_EXPERTS_USED, model->experts);
    if (model->experts_used > model->experts) {
        return CORRUPT(gguf, "%llu of %llu experts are used",
                       (unsigned long long)model->experts_used, (unsigned long long)model->experts);
    }
    uint64_t dense = number_get(gguf, NUMBER_FEED_FORWARD, gguf->largest_feed_forward);
    uint64_t experts = number_get(gguf, NUMBER_EXPERT_FEED_FORWARD, dense) * model->experts_used;
    model->intermediate = dense > experts ? dense : experts;
    return set_layers(gguf);
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
        return CORRUPT(gguf, "%.60s has %u dimensions", name, dimensions);
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
                             "%.60s is of type %u, which does not exist or was removed", name,
                             type);
    }
    if (!vr_mul(sizes[1], sizes[2], &rows) || !vr_mul(rows, sizes[3], &rows) ||
        !vr_mul(rows, sizes[0], &tensor.parameters) ||
        !vr_tensor_type_bytes(tensor.type, sizes[0], rows, &tensor.bytes)) {
        return CORRUPT(gguf, "%.60s has rows of %llu elements, which is not possible in %s", name,
                       (unsigned long long)sizes[0], tensor.type->name);
    }
    if (offset != gguf->end) { /* keeps (2) */
        return CORRUPT(gguf, "%.60s lies at offset %llu; the tensors before it end at %llu", name,
                       (unsigned long long)offset, (unsigned long long)gguf->end);
    }
    if (!vr_add(offset, tensor.bytes, &gguf->filled) || gguf->filled > gguf->source->bytes ||
        !vr_round_up(gguf->filled, gguf->alignment, &gguf->end)) {
        return CORRUPT(gguf, "is truncated: %.60s ends behind the end of the file", name);
    }
    tensor.rows = rows;
    if (!vr_weight_sum_add(gguf->sum, &tensor)) {
        return vr_source_bad(gguf->source, VRAM_ERR_UNSUPPORTED, "%.60s: too many layers", name);
    }
    return VRAM_OK;
}

static vram_status take_tensors(struct gguf *gguf, uint64_t count) {
    struct vr_source *source = gguf->source;
    uint64_t data;
    if (count > (source->bytes - source->at) / TENSOR_LEAST) {
        return CORRUPT(gguf, "%llu tensors are more than the file has bytes",
                       (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        TRY(take_tensor(gguf));
    }
    if (!vr_round_up(source->at, gguf->alignment, &data) ||
        (gguf->filled && (data > source->bytes || gguf->filled > source->bytes - data))) {
        return CORRUPT(gguf, "is truncated: the tensors end %llu bytes behind the header",
                       (unsigned long long)gguf->filled);
    }
    return VRAM_OK;
}

vram_status vr_gguf_read(struct vr_source *source, struct vr_weight_sum *sum, bool first,
                         struct vr_gguf_split *split) {
    static const uint8_t magic[4] = {'G', 'G', 'U', 'F'};
    struct gguf gguf = {
        .source = source, .sum = sum, .split = split, .first = first, .alignment = 32};
    uint8_t head[4];
    uint32_t version;
    uint64_t tensors, pairs;
    *split = (struct vr_gguf_split){0, 0, 0};
    TRY(vr_source_take(source, head, sizeof head));
    if (memcmp(head, magic, sizeof magic) != 0) {
        return vr_source_bad(source, VRAM_ERR_INVALID, "is not a GGUF file");
    }
    TRY(vr_source_u32(source, &version));
    if (version != 2 && version != 3) {
        return vr_source_bad(source, VRAM_ERR_UNSUPPORTED, "is GGUF of version %u%s", version,
                             version == 0x03000000 || version == 0x02000000 ? ", big-endian" : "");
    }
    TRY(vr_source_u64(source, &tensors));
    TRY(vr_source_u64(source, &pairs));
    TRY(take_pairs(&gguf, pairs));
    if (first) {
        TRY(set_model(&gguf));
    }
    sum->model->files++;
    return take_tensors(&gguf, tensors);
}
