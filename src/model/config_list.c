/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_list.c: see config_list.h. Entries past the most layers that are read are left out;
 * vr_config_shape refuses such models.
 */
#include "model/config_list.h"

#include "base/decimal.h"
#include "model/word_list.h"

/* -------------------------------------------------------------------- lists */

/* What the entries of a list are. */
enum list_kind {
    LIST_LAYER_WORDS, /* kinds of layers */
    LIST_FEED_WORDS,  /* kinds of feed-forward blocks */
    LIST_SLIDING,     /* 1: the layer slides */
    LIST_FULL,        /* 1: it is full; 0: it is linear */
    LIST_EXPERTS,     /* 1: it has experts */
    LIST_INDEXED,     /* 1: an indexer chooses the tokens that it attends to */
    LIST_RATIOS,
    LIST_WIDTHS,
    LIST_DENSE_AT, /* numbers of layers from here on */
    LIST_EXPERTS_AT,
    LIST_FULL_AT, /* from 1 */
    LIST_LINEAR_AT,
    LIST_IMAGE_AT, /* from 0 */
    LIST_KINDS
};

static const char *const list_names[LIST_KINDS] = {
    [LIST_LAYER_WORDS] = "layer_types layers_block_type",
    [LIST_FEED_WORDS] = "mlp_layer_types",
    [LIST_SLIDING] = "hybrid_layer_pattern no_rope_layers",
    [LIST_FULL] = "attn_type_list",
    [LIST_EXPERTS] = "moe_layer_freq",
    [LIST_INDEXED] = "sparse_attention_freq",
    [LIST_RATIOS] = "compress_ratios",
    [LIST_WIDTHS] = "intermediate_size",
    [LIST_DENSE_AT] = "mlp_only_layers",
    [LIST_EXPERTS_AT] = "moe_layers moe_layers_enum",
    [LIST_FULL_AT] = "full_attn_layers",
    [LIST_LINEAR_AT] = "kda_layers",
    [LIST_IMAGE_AT] = "cross_attention_layers",
};

static void layer_word(struct vr_config_layer *layer, struct vr_json_token token) {
    static const struct {
        const char *words;
        enum vr_attention attention;
        enum vr_layer_feed feed;
    } kinds[] = {
        {"full_attention attention global indexed_attention minimax_m3_sparse", VR_ATTENTION_FULL,
         VR_FEED_UNTOLD},
        {"compressed_sparse_attention heavily_compressed_attention", VR_ATTENTION_FULL,
         VR_FEED_UNTOLD},
        {"sliding_attention chunked_attention local", VR_ATTENTION_SLIDING, VR_FEED_UNTOLD},
        {"linear_attention mamba mamba2", VR_ATTENTION_LINEAR, VR_FEED_UNTOLD},
        {"moe", VR_ATTENTION_NONE, VR_FEED_EXPERTS},
        {"mlp", VR_ATTENTION_NONE, VR_FEED_DENSE},
    };
    char word[32];
    layer->attention = VR_ATTENTION_OTHER;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (vr_json_copy(token, word, sizeof word) && vr_word_listed(kinds[i].words, word)) {
            layer->attention = (uint8_t)kinds[i].attention;
            layer->feed = (uint8_t)kinds[i].feed;
        }
    }
    layer->indexed = strcmp(word, "minimax_m3_sparse") == 0;
    if (strstr(word, "compressed")) { /* DeepSeek V4; its own files have compress_ratios */
        layer->ratio = word[0] == 'c' ? 4 : 128;
    }
}

static void count_refuse(struct vr_json_reader *reader, struct vr_json_token token) {
    if (token.kind == VR_JSON_NUMBER || token.kind == VR_JSON_NOT_FINITE) {
        reader->problem = "a count that is not a number from 0 to 4294967295";
    }
}

/* Reads a number from 0 to 2^32 - 1. False: it is another one, which the reader then refuses, as
   one that is missing would mean another model; or it is no number. */
static bool count_read(struct vr_json_reader *reader, struct vr_json_token token,
                       uint64_t *number) {
    if (vr_json_unsigned_read(token, number) && *number <= UINT32_MAX) {
        return true;
    }
    *number = 0;
    count_refuse(reader, token);
    return false;
}

/* One entry. */
static void list_entry(struct vr_json_reader *reader, struct vr_config *config, enum list_kind kind,
                       uint64_t index, struct vr_json_token token) {
    uint64_t number;
    bool known = count_read(reader, token, &number);
    bool from_one = kind == LIST_FULL_AT || kind == LIST_LINEAR_AT;
    if (kind >=
        LIST_DENSE_AT) { /* 0, where numbers are from 1, becomes a number that is too large */
        index = known ? number - from_one : VRAM_MODEL_LAYERS_MAX;
    }
    if (index >= VRAM_MODEL_LAYERS_MAX) {
        return;
    }
    struct vr_config_layer *layer = &config->layers[index];
    switch (kind) {
    case LIST_LAYER_WORDS:
        config->listed = (uint32_t)index + 1;
        layer_word(layer, token);
        break;
    case LIST_FEED_WORDS:
        layer->feed = vr_json_is(token, "dense") ? VR_FEED_DENSE : VR_FEED_EXPERTS;
        break;
    case LIST_SLIDING:
        layer->attention = number ? VR_ATTENTION_SLIDING : VR_ATTENTION_FULL;
        break;
    case LIST_FULL:
        layer->attention = number ? VR_ATTENTION_FULL : VR_ATTENTION_LINEAR;
        break;
    case LIST_EXPERTS:
        layer->feed = number ? VR_FEED_EXPERTS : VR_FEED_DENSE;
        break;
    case LIST_INDEXED:
        layer->indexed = number != 0;
        break;
    case LIST_RATIOS:
        layer->ratio = (uint32_t)number;
        break;
    case LIST_WIDTHS:
        layer->width = (uint32_t)number;
        break;
    case LIST_DENSE_AT:
        layer->feed = VR_FEED_DENSE;
        break;
    case LIST_EXPERTS_AT:
        layer->feed = VR_FEED_EXPERTS;
        config->experts_listed = true;
        break;
    default:
        layer->attention = kind == LIST_FULL_AT     ? VR_ATTENTION_FULL
                           : kind == LIST_LINEAR_AT ? VR_ATTENTION_LINEAR
                                                    : VR_ATTENTION_IMAGE;
    }
}

static bool list_read(struct vr_json_reader *reader, struct vr_config *config,
                      enum list_kind kind) {
    for (uint64_t i = 0;; i++) {
        struct vr_json_token token = vr_json_next(reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            return token.kind != VR_JSON_BAD;
        }
        list_entry(reader, config, kind, i, token);
        if (reader->problem || !vr_json_skip(reader, token)) {
            return false;
        }
    }
}

/* A list in a text: "4,5,6". */
static void list_parse(struct vr_json_reader *reader, struct vr_config *config, enum list_kind kind,
                       struct vr_json_token token) {
    const char *at = token.at, *end = token.at + token.bytes;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t bytes = (size_t)((comma ? comma : end) - at);
        if (bytes > 0 && vr_decimal_bytes(at, bytes) == bytes) {
            list_entry(reader, config, kind, 0, (struct vr_json_token){VR_JSON_NUMBER, at, bytes});
        }
        at += bytes + 1;
    }
}

bool vr_config_list(struct vr_json_reader *reader, struct vr_config *config, const char *word,
                    struct vr_json_token token, bool *good) {
    for (int kind = 0; kind < LIST_KINDS; kind++) {
        if (vr_word_listed(list_names[kind], word) && token.kind == VR_JSON_ARRAY) {
            *good = list_read(reader, config, (enum list_kind)kind);
            return true;
        }
        if (kind >= LIST_DENSE_AT && vr_word_listed(list_names[kind], word) &&
            token.kind == VR_JSON_TEXT) {
            list_parse(reader, config, (enum list_kind)kind, token);
        }
    }
    return false;
}

void vr_config_pattern(struct vr_config *config, struct vr_json_token token) {
    for (size_t i = 0; i < token.bytes && i < VRAM_MODEL_LAYERS_MAX; i++) {
        struct vr_config_layer *layer = &config->layers[i];
        char c = token.at[i];
        layer->attention = c == 'M'               ? VR_ATTENTION_LINEAR
                           : c == '*'             ? VR_ATTENTION_FULL
                           : c == '-' || c == 'E' ? VR_ATTENTION_NONE
                                                  : VR_ATTENTION_OTHER;
        layer->feed = c == '-' ? VR_FEED_DENSE : c == 'E' ? VR_FEED_EXPERTS : VR_FEED_NONE;
    }
}

/* -------------------------------------------------------------------- blocks */

uint32_t vr_config_millionths(struct vr_json_token token) {
    struct vr_decimal number;
    bool good = token.kind == VR_JSON_NUMBER &&
                vr_decimal_read(token.at, token.bytes, 6, &number) && !number.negative;
    return good && number.value <= UINT32_MAX ? (uint32_t)number.value : 0;
}

static bool block_member(struct vr_json_reader *reader, struct vr_config_layer *layer, bool feed,
                         const char *word, struct vr_json_token token) {
    uint64_t number;
    bool yes = token.kind == VR_JSON_TRUE;
    if (strcmp(word, "ffn_mult") == 0) {
        layer->width_parts = vr_config_millionths(token);
        if (token.at[0] == '-') {
            count_refuse(reader, token);
        }
    } else if (vr_word_listed("n_heads_in_group intermediate_size", word) &&
               count_read(reader, token, &number)) {
        *(word[0] == 'n' ? &layer->group : &layer->width) = (uint32_t)number;
    } else if (yes && feed && vr_word_listed("no_op replace_with_linear", word)) {
        layer->feed = word[0] == 'n' ? VR_FEED_NONE : VR_FEED_MATRIX;
    } else if (yes && vr_word_listed("no_op replace_with_linear", word)) {
        layer->attention = word[0] == 'n' ? VR_ATTENTION_NONE : VR_ATTENTION_MATRIX;
    }
    return !reader->problem && vr_json_skip(reader, token);
}

/* One block of block_configs: {"attention": {...}, "ffn": {...}}. `depth` is 0 outside of both. */
static bool block_read(struct vr_json_reader *reader, struct vr_config_layer *layer, int depth,
                       bool feed) {
    for (;;) {
        struct vr_json_token key = vr_json_next(reader);
        char word[64];
        if (key.kind != VR_JSON_KEY) {
            return key.kind == VR_JSON_OBJECT_END;
        }
        vr_json_copy(key, word, sizeof word);
        struct vr_json_token token = vr_json_next(reader);
        bool inner = depth == 0 && token.kind == VR_JSON_OBJECT;
        if (!(inner ? block_read(reader, layer, 1, strcmp(word, "ffn") == 0)
                    : block_member(reader, layer, feed, word, token))) {
            return false;
        }
    }
}

bool vr_config_blocks(struct vr_json_reader *reader, struct vr_config *config,
                      struct vr_json_token token) {
    if (token.kind != VR_JSON_ARRAY) {
        return vr_json_skip(reader, token);
    }
    for (uint32_t i = 0;; i++) {
        struct vr_config_layer ignored = {0};
        token = vr_json_next(reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            return token.kind != VR_JSON_BAD;
        }
        struct vr_config_layer *layer = i < VRAM_MODEL_LAYERS_MAX ? &config->layers[i] : &ignored;
        if (!(token.kind == VR_JSON_OBJECT ? block_read(reader, layer, 0, false)
                                           : vr_json_skip(reader, token))) {
            return false;
        }
    }
}
