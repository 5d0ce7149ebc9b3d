/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_config.c: reads config.json key by key. Skips unknown keys; of a repeated key the last one
 * counts, as in the programs that these files are written for.
 */
#include "model/model_config.h"

#include "base/error.h"
#include "model/json_reader.h"

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
    vram_status status;
};

/* Whether `word` is in a list separated by blanks. */
static bool is_listed(const char *list, const char *word) {
    size_t bytes = strlen(word);
    for (const char *at = list; *at;) {
        size_t one = strcspn(at, " ");
        if (one == bytes && memcmp(at, word, bytes) == 0) {
            return true;
        }
        at += one + (at[one] == ' ');
    }
    return false;
}

static enum vr_config_key find_key(const char *word) {
    uint32_t key = 0;
    while (key < VR_CONFIG_KEYS && !is_listed(key_names[key], word)) {
        key++;
    }
    return (enum vr_config_key)key;
}

static bool take_number(struct config_job *job, struct vram_value *value, const char *word,
                        struct vr_json_token token) {
    uint64_t number;
    *value = (struct vram_value){0, false};
    if (token.kind == VR_JSON_TRUE || token.kind == VR_JSON_FALSE) {
        *value = (struct vram_value){token.kind == VR_JSON_TRUE, true};
    } else if (vr_json_unsigned_read(token, &number)) {
        if (number > UINT32_MAX) {
            job->status = vr_fail(VRAM_ERR_CORRUPT, "%s is %llu, more than any model has", word,
                                  (unsigned long long)number);
            return false;
        }
        *value = (struct vram_value){number, true};
    }
    return vr_json_skip(&job->reader, token);
}

/* ------------------------------------------------------------------- arrays */

static enum vr_attention attention_of(struct vr_json_token token) {
    static const struct {
        const char *word;
        enum vr_attention kind;
    } words[] = {
        {"full_attention", VR_ATTENTION_FULL},
        {"attention", VR_ATTENTION_FULL},
        {"global", VR_ATTENTION_FULL},
        {"sliding_attention", VR_ATTENTION_SLIDING},
        {"chunked_attention", VR_ATTENTION_SLIDING},
        {"local", VR_ATTENTION_SLIDING},
        {"linear_attention", VR_ATTENTION_LINEAR},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (vr_json_is(token, words[i].word)) {
            return words[i].kind;
        }
    }
    return VR_ATTENTION_OTHER;
}

static bool take_layer_types(struct config_job *job, struct vr_json_token token) {
    struct vr_config *config = job->config;
    if (token.kind != VR_JSON_ARRAY) {
        return vr_json_skip(&job->reader, token);
    }
    config->layer_type_count = 0;
    for (;;) {
        token = vr_json_next(&job->reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            return token.kind != VR_JSON_BAD;
        }
        if (config->layer_type_count < VRAM_MODEL_LAYERS_MAX) {
            config->layer_types[config->layer_type_count++] = (uint8_t)attention_of(token);
        }
        if (!vr_json_skip(&job->reader, token)) {
            return false;
        }
    }
}

static bool take_mlp_only(struct config_job *job, struct vr_json_token token) {
    if (token.kind != VR_JSON_ARRAY) {
        return vr_json_skip(&job->reader, token);
    }
    for (;;) {
        uint64_t layer;
        token = vr_json_next(&job->reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            return token.kind != VR_JSON_BAD;
        }
        if (vr_json_unsigned_read(token, &layer) && layer < VRAM_MODEL_LAYERS_MAX) {
            job->config->mlp_only[layer] = 1;
        }
        if (!vr_json_skip(&job->reader, token)) {
            return false;
        }
    }
}

/* ------------------------------------------------------------------ objects */

static bool take_text(struct config_job *job, char *to, size_t bytes, struct vr_json_token token) {
    if (!vr_json_copy(token, to, bytes)) {
        to[0] = '\0';
    }
    return vr_json_skip(&job->reader, token);
}

static bool read_part(struct config_job *job, struct vr_config_part *part, bool outermost);

static bool read_nested(struct config_job *job, struct vr_config_part *part,
                        struct vr_json_token token) {
    return token.kind == VR_JSON_OBJECT ? read_part(job, part, false)
                                        : vr_json_skip(&job->reader, token);
}

/* The value of `word`, which is not one of the numbers. */
static bool take_other(struct config_job *job, struct vr_config_part *part, bool outermost,
                       const char *word, struct vr_json_token token) {
    struct vr_config *config = job->config;
    bool language = outermost || part == &job->nested, object = token.kind == VR_JSON_OBJECT;
    if (strcmp(word, "model_type") == 0) {
        return take_text(job, part->type, sizeof part->type, token);
    }
    if (is_listed("torch_dtype dtype", word)) {
        return take_text(job, part->dtype, sizeof part->dtype, token);
    }
    if (strcmp(word, "quant_method") == 0) {
        return take_text(job, part->quant, sizeof part->quant, token);
    }
    if (language && strcmp(word, "layer_types") == 0) {
        return take_layer_types(job, token);
    }
    if (language && strcmp(word, "mlp_only_layers") == 0) {
        return take_mlp_only(job, token);
    }
    if (outermost && is_listed("text_config llm_config language_config", word)) {
        return read_nested(job, &job->nested, token);
    }
    if (outermost && strcmp(word, "vision_config") == 0) {
        config->has_vision = config->has_vision || object;
        return read_nested(job, &config->vision, token);
    }
    if (language && strcmp(word, "quantization_config") == 0) {
        config->has_quant = config->has_quant || object;
        return read_nested(job, &config->quant, token);
    }
    return vr_json_skip(&job->reader, token);
}

/* Reads the rest of an object whose brace was read. Only the language model has nested parts, and
   these have none: this recurses at most twice. */
static bool read_part(struct config_job *job, struct vr_config_part *part, bool outermost) {
    for (;;) {
        struct vr_json_token key = vr_json_next(&job->reader);
        char word[64];
        if (key.kind != VR_JSON_KEY) {
            return key.kind == VR_JSON_OBJECT_END;
        }
        vr_json_copy(key, word, sizeof word); /* a longer key is unknown, and "" */
        struct vr_json_token token = vr_json_next(&job->reader);
        enum vr_config_key found = find_key(word);
        bool good = found < VR_CONFIG_KEYS ? take_number(job, &part->values[found], word, token)
                                           : take_other(job, part, outermost, word, token);
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
    memset(config, 0, sizeof *config);
    vr_json_begin(&job.reader, text, bytes);
    struct vr_json_token token = vr_json_next(&job.reader);
    if (token.kind != VR_JSON_OBJECT && token.kind != VR_JSON_BAD) {
        return vr_fail(VRAM_ERR_INVALID, "config.json is not a JSON object");
    }
    bool good = token.kind == VR_JSON_OBJECT && read_part(&job, &config->text, true) &&
                vr_json_next(&job.reader).kind == VR_JSON_END;
    if (job.status != VRAM_OK) {
        return job.status;
    }
    if (!good) {
        return vr_fail(VRAM_ERR_CORRUPT, "invalid JSON in config.json at byte %zu: %s",
                       job.reader.at, job.reader.problem ? job.reader.problem : "unexpected end");
    }
    merge_part(&config->text, &job.nested);
    return VRAM_OK;
}
