/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.c: reads config.json key by key. Skips unknown keys; of a repeated key the last one
 * counts, as in the programs that these files are written for.
 */
#include "model/model_config.h"

#include "base/decimal.h"
#include "base/error.h"
#include "model/config_list.h"
#include "model/word_list.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const key_names[VR_CONFIG_KEYS] = {
#define VR_CONFIG_NAME(name, keys) [VR_CONFIG_##name] = keys,
    VR_CONFIG_MAP(VR_CONFIG_NAME)
#undef VR_CONFIG_NAME
};

struct config_job {
    struct vr_json_reader reader;
    struct vr_config *config;
    struct vr_config_part nested; /* text_config, which overrides the outermost object */
    char word[64];                /* the key whose value is being read */
    vram_status status;
};

static enum vr_config_key find_key(const char *word) {
    uint32_t key = 0;
    while (key < VR_CONFIG_KEYS && !vr_word_listed(key_names[key], word)) {
        key++;
    }
    return (enum vr_config_key)key;
}

/* Towers have the words of the language model, and some of their own. */
static enum vr_config_key find_tower_key(const char *word) {
    return strcmp(word, "width") == 0                               ? VR_CONFIG_HIDDEN
           : vr_word_listed("layers conf_num_hidden_layers", word)  ? VR_CONFIG_LAYERS
           : vr_word_listed("heads conf_num_attention_heads", word) ? VR_CONFIG_HEADS
                                                                    : find_key(word);
}

const char *vr_config_key_names(enum vr_config_key key) {
    return key_names[key];
}

/* A value that is not a count: taking it for one that is missing would answer for another model. */
static bool refuse_count(struct config_job *job, struct vr_json_token token) {
    const char *quote = token.kind == VR_JSON_TEXT ? "\"" : "";
    job->status = vr_fail(
        VRAM_ERR_CORRUPT, "config.json: %s is %s%.*s%s, not a number from 0 to %u", job->word,
        quote, (int)(token.bytes < 32 ? token.bytes : 32), token.at, quote, UINT32_MAX);
    return false;
}

/* Behind the counts come the switches. */
static bool is_count(enum vr_config_key key) {
    return key < VR_CONFIG_TIED;
}

/* The value of a number or switch that is neither a text nor a list. */
static bool take_number(struct config_job *job, struct vram_value *value, enum vr_config_key key,
                        struct vr_json_token token) {
    uint64_t number = 0;
    *value = (struct vram_value){0, false};
    if (token.kind == VR_JSON_TRUE || token.kind == VR_JSON_FALSE) {
        *value = (struct vram_value){token.kind == VR_JSON_TRUE, true};
    } else if (token.kind == VR_JSON_NUMBER || token.kind == VR_JSON_NOT_FINITE) {
        bool minus = token.at[0] == '-', ratio = key == VR_CONFIG_EXPANSION;
        bool good = ratio ? token.kind == VR_JSON_NUMBER && !minus
                          : vr_json_unsigned_read(token, &number) && number <= UINT32_MAX;
        bool endless = minus && (key == VR_CONFIG_WINDOW || key == VR_CONFIG_POSITIONS);
        if (!good && is_count(key) && !endless) {
            return refuse_count(job, token);
        }
        number = ratio ? vr_config_millionths(token) : good ? number : 0;
        *value = (struct vram_value){number, good && !(ratio && number == 0)};
    }
    return vr_json_skip(&job->reader, token);
}

/* ------------------------------------------------------------------ objects */

static bool take_text(struct config_job *job, char *to, size_t bytes, struct vr_json_token token) {
    vr_json_copy(token, to, bytes);
    return vr_json_skip(&job->reader, token);
}

/* The first of a list of texts. */
static bool take_first(struct config_job *job, char *to, size_t bytes, struct vr_json_token token) {
    if (token.kind != VR_JSON_ARRAY) {
        return vr_json_skip(&job->reader, token);
    }
    for (bool first = true;; first = false) {
        token = vr_json_next(&job->reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            return token.kind != VR_JSON_BAD;
        }
        if (first) {
            vr_json_copy(token, to, bytes);
        }
        if (!vr_json_skip(&job->reader, token)) {
            return false;
        }
    }
}

/* A list for a key that is a number: how many it lists for DEEPSTACK, else its first number. */
static bool take_list_number(struct config_job *job, struct vr_config_part *part,
                             enum vr_config_key key) {
    struct vram_value value = {0, false};
    for (uint64_t i = 0;; i++) {
        struct vr_json_token token = vr_json_next(&job->reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            part->values[key] = key == VR_CONFIG_DEEPSTACK ? (struct vram_value){i, true} : value;
            return token.kind != VR_JSON_BAD;
        }
        if (!(i == 0 ? take_number(job, &value, key, token) : vr_json_skip(&job->reader, token))) {
            return false;
        }
    }
}

enum part_kind { PART_OUTERMOST, PART_TEXT, PART_LINEAR, PART_SLIDING, PART_MAMBA, PART_TOWER };

static bool read_part(struct config_job *job, struct vr_config_part *part, enum part_kind kind);

static bool read_nested(struct config_job *job, struct vr_config_part *part, enum part_kind kind,
                        struct vr_json_token token) {
    return token.kind == VR_JSON_OBJECT ? read_part(job, part, kind)
                                        : vr_json_skip(&job->reader, token);
}

/* attention_other_setting: what differs in the layers that slide. */
static bool read_sliding(struct config_job *job, struct vr_config_part *part,
                         struct vr_json_token token) {
    static const enum vr_config_key pairs[][2] = {{VR_CONFIG_SLIDING_HEADS, VR_CONFIG_HEADS},
                                                  {VR_CONFIG_SLIDING_KV_HEADS, VR_CONFIG_KV_HEADS},
                                                  {VR_CONFIG_SLIDING_HEAD_DIM, VR_CONFIG_HEAD_DIM}};
    struct vr_config_part other = {0};
    bool good = read_nested(job, &other, PART_SLIDING, token);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        part->values[pairs[i][0]] = other.values[pairs[i][1]];
    }
    return good;
}

/* linear_attn_config: its lists are those of the model; its heads are those of linear layers. */
static bool read_linear(struct config_job *job, struct vr_config_part *part,
                        struct vr_json_token token) {
    struct vr_config_part linear = {0};
    bool good = read_nested(job, &linear, PART_LINEAR, token);
    part->values[VR_CONFIG_LINEAR_KEY_HEADS] = linear.values[VR_CONFIG_HEADS];
    part->values[VR_CONFIG_LINEAR_KEY_DIM] = linear.values[VR_CONFIG_HEAD_DIM];
    part->values[VR_CONFIG_LINEAR_KERNEL] = linear.values[VR_CONFIG_LINEAR_KERNEL];
    part->values[VR_CONFIG_FULL_RANK_GATE] = linear.values[VR_CONFIG_FULL_RANK_GATE];
    return good;
}

/* sparse_attention_config: an indexer, and the layers that have it. */
static bool read_sparse(struct config_job *job, struct vr_config_part *part,
                        struct vr_json_token token) {
    struct vr_config_part sparse = {0};
    bool good = read_nested(job, &sparse, PART_LINEAR, token);
    part->values[VR_CONFIG_INDEX_HEADS] = sparse.values[VR_CONFIG_INDEX_HEADS];
    part->values[VR_CONFIG_INDEX_DIM] = sparse.values[VR_CONFIG_INDEX_DIM];
    return good;
}

/* ssm_cfg: the first files of Mamba, which have no model_type. */
static bool read_mamba(struct config_job *job, struct vr_config_part *part,
                       struct vr_json_token token) {
    struct vr_config_part mamba = {0};
    bool good = read_nested(job, &mamba, PART_MAMBA, token);
    bool second = strcmp(mamba.type, "Mamba2") == 0;
    if (!part->type[0]) {
        memcpy(part->type, second ? "mamba2" : "mamba", second ? 7 : 6);
        part->values[VR_CONFIG_STATE_GROUPS] = (struct vram_value){1, true};
    }
    return good;
}

/* per_layer_config: {"05": {"head_dim": 512}}, what differs in one layer. */
static bool read_layers(struct config_job *job, struct vr_json_token token) {
    if (token.kind != VR_JSON_OBJECT) {
        return vr_json_skip(&job->reader, token);
    }
    for (;;) {
        struct vr_json_token key = vr_json_next(&job->reader);
        struct vr_config_part part = {0};
        uint32_t index = VRAM_MODEL_LAYERS_MAX;
        char text[8];
        if (key.kind != VR_JSON_KEY) {
            return key.kind == VR_JSON_OBJECT_END;
        }
        if (vr_json_copy(key, text, sizeof text) && text[0] &&
            vr_decimal_digits(text, key.bytes, 0) == key.bytes) {
            index = (uint32_t)strtoul(text, NULL, 10);
        }
        if (!read_nested(job, &part, PART_SLIDING, vr_json_next(&job->reader))) {
            return false;
        }
        if (index < VRAM_MODEL_LAYERS_MAX) {
            struct vr_config_layer *layer = &job->config->layers[index];
            layer->heads = (uint32_t)vr_config_get(&part, VR_CONFIG_HEADS, 0);
            layer->kv_heads = (uint32_t)vr_config_get(&part, VR_CONFIG_KV_HEADS, 0);
            layer->head = (uint32_t)vr_config_get(&part, VR_CONFIG_HEAD_DIM, 0);
            layer->width = (uint32_t)vr_config_get(&part, VR_CONFIG_INTERMEDIATE, layer->width);
        }
    }
}

/* Objects that describe a part of the model. */
static bool take_object(struct config_job *job, struct vr_config_part *part, enum part_kind kind,
                        const char *word, struct vr_json_token token) {
    struct vr_config *config = job->config;
    bool object = token.kind == VR_JSON_OBJECT;
    if (kind == PART_OUTERMOST && vr_word_listed("text_config llm_config language_config", word)) {
        return read_nested(job, &job->nested, PART_TEXT, token);
    }
    if (kind == PART_OUTERMOST && vr_word_listed("vision_config img_processor", word)) {
        config->has_vision = config->has_vision || object;
        return read_nested(job, &config->vision, PART_TOWER, token);
    }
    if (kind == PART_OUTERMOST && strcmp(word, "audio_config") == 0) {
        config->has_audio = config->has_audio || object;
        return read_nested(job, &config->audio, PART_TOWER, token);
    }
    if (kind == PART_OUTERMOST && strcmp(word, "thinker_config") == 0) { /* the rest speaks */
        return read_nested(job, part, PART_OUTERMOST, token);
    }
    if (kind == PART_OUTERMOST && strcmp(word, "ssm_cfg") == 0) {
        return read_mamba(job, part, token);
    }
    if (strcmp(word, "quantization_config") == 0 && object) {
        return vr_quantization_read(&job->reader, &config->quantization, &job->status);
    } else if (strcmp(word, "linear_attn_config") == 0 && object) {
        return read_linear(job, part, token);
    } else if (strcmp(word, "sparse_attention_config") == 0 && object) {
        return read_sparse(job, part, token);
    } else if (strcmp(word, "attention_other_setting") == 0) {
        return read_sliding(job, part, token);
    } else if (strcmp(word, "block_configs") == 0) {
        return vr_config_blocks(&job->reader, config, token);
    } else if (strcmp(word, "per_layer_config") == 0) {
        return read_layers(job, token);
    }
    return vr_json_skip(&job->reader, token);
}

/* The value of `word`, which is not one of the numbers. */
static bool take_other(struct config_job *job, struct vr_config_part *part, enum part_kind kind,
                       const char *word, struct vr_json_token token) {
    struct vr_config *config = job->config;
    bool language = kind == PART_OUTERMOST || kind == PART_TEXT;
    if (strcmp(word, kind == PART_MAMBA ? "layer" : "model_type") == 0) {
        return take_text(job, part->type, sizeof part->type, token);
    }
    if (vr_word_listed("torch_dtype dtype", word)) {
        return take_text(job, part->dtype, sizeof part->dtype, token);
    }
    if (kind == PART_OUTERMOST && strcmp(word, "architectures") == 0) {
        return take_first(job, config->architecture, sizeof config->architecture, token);
    }
    if (kind == PART_OUTERMOST && strcmp(word, "_class_name") == 0) {
        return take_text(job, config->class_name, sizeof config->class_name, token);
    }
    if (language && strcmp(word, "expert_dtype") == 0) {
        return take_text(job, config->expert_type, sizeof config->expert_type, token);
    }
    if (language && strcmp(word, "hybrid_override_pattern") == 0 && token.kind == VR_JSON_TEXT) {
        vr_config_pattern(config, token);
    }
    return language ? take_object(job, part, kind, word, token) : vr_json_skip(&job->reader, token);
}

/* "gated-gelu" in a key that is a switch, and in one that is a number "LLLG", a pattern of layers,
   or "auto". */
static bool take_word(struct config_job *job, struct vram_value *value, enum vr_config_key key,
                      struct vr_json_token token) {
    if (key == VR_CONFIG_GATED) {
        *value = (struct vram_value){token.bytes > 5 && memcmp(token.at, "gated", 5) == 0, true};
    } else if (key == VR_CONFIG_WINDOW_PATTERN) {
        *value = (struct vram_value){token.bytes, token.bytes > 0};
    } else if (is_count(key) && !vr_json_is(token, "auto")) {
        return refuse_count(job, token);
    }
    return vr_json_skip(&job->reader, token);
}

/* Reads the rest of an object whose brace was read. Only the language model has nested parts, and
   of these only text_config has some: this recurses at most three deep, or as deep as one
   thinker_config is in another. */
static bool read_part(struct config_job *job, struct vr_config_part *part, enum part_kind kind) {
    for (;;) {
        struct vr_json_token key = vr_json_next(&job->reader);
        char word[64];
        bool good = true;
        if (key.kind != VR_JSON_KEY) {
            return key.kind == VR_JSON_OBJECT_END;
        }
        vr_json_copy(key, word, sizeof word); /* a longer key is unknown, and "" */
        struct vr_json_token token = vr_json_next(&job->reader);
        memcpy(job->word, word, sizeof job->word);
        enum vr_config_key found = kind == PART_TOWER ? find_tower_key(word) : find_key(word);
        if (kind <= PART_LINEAR && vr_config_list(&job->reader, job->config, word, token, &good)) {
            /* read */
        } else if (found == VR_CONFIG_KEYS) {
            good = take_other(job, part, kind, word, token);
        } else if (token.kind == VR_JSON_ARRAY) {
            good = take_list_number(job, part, found);
        } else if (token.kind == VR_JSON_TEXT) {
            good = take_word(job, &part->values[found], found, token);
        } else {
            good = take_number(job, &part->values[found], found, token);
        }
        if (!good) {
            return false;
        }
    }
}

static void merge_part(struct vr_config_part *to, const struct vr_config_part *from) {
    for (uint32_t i = 0; i < VR_CONFIG_KEYS; i++) {
        to->values[i] = from->values[i].known ? from->values[i] : to->values[i];
    }
    if (from->type[0]) {
        memcpy(to->type, from->type, sizeof to->type);
    }
    if (from->dtype[0]) {
        memcpy(to->dtype, from->dtype, sizeof to->dtype);
    }
}

vram_status vr_config_read(const char *text, size_t bytes, struct vr_config *config) {
    struct config_job job = {.config = config, .status = VRAM_OK};
    memset(config, 0, offsetof(struct vr_config, quantization.rules));
    vr_json_begin(&job.reader, text, bytes);
    struct vr_json_token token = vr_json_next(&job.reader);
    if (token.kind != VR_JSON_OBJECT && token.kind != VR_JSON_BAD) {
        return vr_fail(VRAM_ERR_INVALID, "config.json is not a JSON object");
    }
    bool good = token.kind == VR_JSON_OBJECT && read_part(&job, &config->text, PART_OUTERMOST) &&
                vr_json_next(&job.reader).kind == VR_JSON_END;
    if (job.status != VRAM_OK) {
        return job.status;
    }
    if (!good) {
        return vr_fail(VRAM_ERR_CORRUPT, "invalid JSON in config.json at byte %zu: %s",
                       job.reader.at, job.reader.problem ? job.reader.problem : "unexpected end");
    }
    memcpy(config->outer_type, config->text.type, sizeof config->outer_type);
    if (config->text.values[VR_CONFIG_TIED].known) { /* the outermost object has the output */
        job.nested.values[VR_CONFIG_TIED] = config->text.values[VR_CONFIG_TIED];
    }
    merge_part(&config->text, &job.nested);
    vr_quantization_experts(&config->quantization, config->expert_type);
    return VRAM_OK;
}
