/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantization.c: see quantization.h. Each program that packs weights writes its own words; what
 * they have in common is a method or algorithm, a number of bits, a group size, and a list of
 * modules that are left out. The same keys mean the same wherever they stand.
 */
#include "model/quantization.h"

#include "base/error.h"
#include "base/text.h"
#include "model/json_reader.h"
#include "model/name_pattern.h"
#include "model/word_list.h"

#include <stdio.h>
#include <string.h>

#define STEPS_MAX UINT64_C(30000000) /* of matching all names: less than a second */

/* The words of one scheme. */
struct quant_words {
    char words[128]; /* method, algorithm, type and format in lower case, separated by blanks */
    char method[32];
    uint64_t bits, group, rows, width; /* 0: not told */
    bool four, eight;                  /* load_in_4bit, load_in_8bit */
    bool twice;                        /* scales are packed again */
    bool zeros;                        /* a zero point for each scale */
};

struct quant_job {
    struct vr_json_reader *reader;
    struct vr_quantization *to;
    vram_status status;
    uint32_t depth; /* of nested objects that were entered */
};

static void words_add(struct quant_words *words, struct vr_json_token token) {
    char text[32];
    size_t used = strlen(words->words);
    if (vr_json_copy(token, text, sizeof text) && used + strlen(text) + 2 < sizeof words->words) {
        for (size_t i = 0; text[i]; i++) {
            text[i] = vr_text_lower(text[i]);
        }
        snprintf(words->words + used, sizeof words->words - used, " %s", text);
    }
}

/* ------------------------------------------------------------------- schemes */

/* The scheme that the words describe; false: they describe none that is known. */
static bool scheme_make(const struct quant_words *words, struct vr_scheme *scheme) {
    static const struct {
        const char *part; /* of the words; the first that is found counts */
        struct vr_scheme scheme;
    } known[] = {
        {"nvfp4", {"nvfp4", 4, 8, 1, 16}}, /* the scale of scales is a number a matrix */
        {"mxfp4", {"mxfp4", 4, 8, 1, 32}}, {"mxfp8", {"mxfp8", 8, 8, 1, 32}},
        {"w4a", {"int4", 4, 16, 1, 128}},  {"int4", {"int4", 4, 16, 1, 128}},
        {"fp8", {"fp8", 8, 32, 1, 0}},     {"float8", {"fp8", 8, 32, 1, 0}},
        {"int8", {"int8", 8, 32, 1, 0}},   {"w8a", {"int8", 8, 32, 1, 0}},
        {"eetq", {"int8", 8, 32, 1, 0}},   {"fp4", {"mxfp4", 4, 8, 1, 32}},
        {"bitnet", {"int2", 2, 32, 1, 0}},
    };
    bool is_float = vr_word_listed(words->words, "float");
    if (words->four || words->eight) { /* bitsandbytes */
        *scheme = words->four ? (struct vr_scheme){"nf4", 4, words->twice ? 8 : 32, 1, 64}
                              : (struct vr_scheme){"int8", 8, 32, 1, 0};
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strstr(words->words, known[i].part)) {
            *scheme = known[i].scheme;
            scheme->width = words->width   ? words->width
                            : words->group ? words->group
                                           : scheme->width;
            scheme->rows = words->rows ? words->rows : 1;
            return true;
        }
    }
    if (is_float && words->bits == 4) {
        *scheme = words->group == 16 ? known[0].scheme : known[1].scheme;
        return true;
    }
    if (words->bits < 1 || words->bits > 8) { /* 16: not packed */
        return false;
    }
    *scheme = (struct vr_scheme){"", words->bits, words->group ? 16 : 32, 1, words->group};
    bool zeros = words->zeros || vr_word_listed(words->words, "gptq"); /* which always has them */
    scheme->scale_bits += zeros ? words->bits : 0;
    vr_text_format(scheme->name, sizeof scheme->name, "%s%llu", is_float ? "fp" : "int",
                   (unsigned long long)words->bits);
    return true;
}

/* The index of the scheme, which is added if it is new. */
static uint8_t scheme_add(struct vr_quantization *to, const struct vr_scheme *scheme) {
    for (uint32_t i = 1; i < to->scheme_count; i++) {
        if (memcmp(&to->schemes[i], scheme, sizeof *scheme) == 0) {
            return (uint8_t)i;
        }
    }
    if (to->scheme_count == VR_SCHEMES_MAX) {
        return VR_SCHEMES_MAX - 1;
    }
    to->schemes[to->scheme_count] = *scheme;
    return (uint8_t)to->scheme_count++;
}

static uint8_t scheme_of_words(struct vr_quantization *to, const struct quant_words *words) {
    struct vr_scheme scheme;
    memset(&scheme, 0, sizeof scheme);
    if (scheme_make(words, &scheme)) {
        return scheme_add(to, &scheme);
    }
    return VR_SCHEME_PLAIN;
}

bool vr_scheme_bytes(const struct vr_scheme *scheme, uint64_t rows, uint64_t columns,
                     uint64_t *bytes) {
    uint64_t width = scheme->width ? scheme->width : columns, numbers, scales;
    if (rows == 0 || columns == 0) {
        *bytes = 0;
        return true;
    }
    if (!vr_mul(rows, columns, &numbers)) {
        return false;
    }
    scales = ((columns - 1) / width + 1) * ((rows - 1) / scheme->rows + 1); /* not above numbers */
    return vr_mul(numbers, scheme->bits, &numbers) && vr_mul(scales, scheme->scale_bits, &scales) &&
           vr_add(numbers, scales, &numbers) && vr_add(numbers, 7, &numbers) &&
           ((*bytes = numbers / 8), true);
}

/* --------------------------------------------------------------------- rules */

/* Experts of a layer are alike: the first stands for all of them. */
static bool is_later_expert(const char *text) {
    const char *at = strstr(text, "experts.");
    return at && at[8] >= '1' && at[8] <= '9';
}

static bool rule_add(struct quant_job *job, struct vr_json_token token, uint8_t scheme) {
    struct vr_quantization *to = job->to;
    char text[256];
    const char *rest;
    if (!vr_json_copy(token, text, sizeof text) || !text[0] || is_later_expert(text)) {
        return true;
    }
    size_t bytes = strlen(text) + 1;
    if (to->rule_count == VR_QUANT_RULES_MAX || to->text_bytes + bytes > VR_QUANT_TEXT_MAX) {
        job->status = vr_fail(VRAM_ERR_UNSUPPORTED,
                              "the quantization names more than %d modules, or more than %d bytes",
                              VR_QUANT_RULES_MAX, VR_QUANT_TEXT_MAX);
        return false;
    }
    struct vr_quant_rule *rule = &to->rules[to->rule_count++];
    *rule = (struct vr_quant_rule){to->text_bytes, UINT32_MAX, scheme};
    memcpy(to->texts + to->text_bytes, text, bytes);
    to->text_bytes += (uint32_t)bytes;
    if (vr_name_layer(text, &rule->layer, &rest)) {
        rule->text += (uint32_t)(rest - text);
    }
    return true;
}

/* A list of modules that are left out, or of a group's targets, to which groups_read gives the
   scheme. "Linear" among these is not a name: it means every matrix. */
static bool rules_read(struct quant_job *job, struct vr_json_token token, bool targets) {
    if (token.kind != VR_JSON_ARRAY) {
        return vr_json_skip(job->reader, token);
    }
    for (;;) {
        token = vr_json_next(job->reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            return token.kind != VR_JSON_BAD;
        }
        bool every = targets && vr_json_is(token, "Linear");
        if (!(every || rule_add(job, token, VR_SCHEME_PLAIN)) ||
            !vr_json_skip(job->reader, token)) {
            return false;
        }
    }
}

enum { SPELLINGS_MAX = 4, MODULE_MAX = 128 };

/* The names of one matrix: in the program that it is counted by, and in other files. */
struct spellings {
    char names[SPELLINGS_MAX][MODULE_MAX]; /* "model.layers.7.mlp.experts.0.gate_proj" */
    size_t count, module; /* `module`: where in each the part behind the layer begins */
};

/* Adds the name with `part`, if it has it, as `other`. */
static void spelling_add(struct spellings *spellings, const char *part, const char *other) {
    const char *name = spellings->names[0], *found = strstr(name + spellings->module, part);
    if (found && spellings->count < SPELLINGS_MAX) {
        vr_text_format(spellings->names[spellings->count++], MODULE_MAX, "%.*s%s%s",
                       (int)(found - name), name, other, found + strlen(part));
    }
}

static void spellings_fill(struct spellings *spellings, const char *module, uint32_t layer) {
    static const char *const others[][2] = {
        {".gate_proj", ".w1"},
        {".gate_proj", ".gate_up_proj"},
        {".up_proj", ".w3"},
        {".up_proj", ".gate_up_proj"},
        {".down_proj", ".w2"},
        {".q_proj", ".qkv_proj"},
        {".k_proj", ".qkv_proj"},
        {".v_proj", ".qkv_proj"},
        {"moe.experts.0.", "moe."},
        {"moe.shared_experts.", "share_expert."},
        {"shared_experts.", "shared_expert."},
    };
    char begin[32];
    vr_text_format(begin, sizeof begin, "model.layers.%u.", layer);
    spellings->count = 1;
    spellings->module = strlen(begin);
    vr_text_format(spellings->names[0], MODULE_MAX, "%s%s", begin, module);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        spelling_add(spellings, others[i][0], others[i][1]);
    }
}

/* A rule for one layer has the rest of the module's name, others have all of it. */
static bool rule_matches(struct vr_quantization *quantization, const struct vr_quant_rule *rule,
                         const struct spellings *spellings, uint32_t layer) {
    const char *text = quantization->texts + rule->text;
    bool one = rule->layer != UINT32_MAX, found = one && rule->layer == layer && !text[0];
    for (size_t i = 0; i < spellings->count && !found && (!one || rule->layer == layer); i++) {
        found = vr_name_matches(text, spellings->names[i] + (one ? spellings->module : 0),
                                &quantization->steps);
    }
    return found;
}

uint8_t vr_quantization_find(struct vr_quantization *quantization, const char *module,
                             uint32_t layer, bool expert) {
    struct spellings spellings;
    spellings_fill(&spellings, module, layer);
    for (int left_out = 1; left_out >= 0; left_out--) { /* these count most */
        for (uint32_t i = 0; i < quantization->rule_count; i++) {
            const struct vr_quant_rule *rule = &quantization->rules[i];
            if ((rule->scheme == VR_SCHEME_PLAIN) == left_out &&
                rule_matches(quantization, rule, &spellings, layer)) {
                return rule->scheme;
            }
        }
    }
    return expert ? quantization->experts : quantization->usual;
}

const char *vr_quantization_name(const struct vr_quantization *quantization, bool experts) {
    uint8_t usual = experts ? quantization->experts : quantization->usual;
    bool packs = quantization->scheme_count > 1;
    return packs                      ? quantization->schemes[usual ? usual : 1].name
           : quantization->unknown[0] ? quantization->unknown
                                      : "none";
}

/* ------------------------------------------------------------------- reading */

static bool object_read(struct quant_job *job, struct quant_words *words);

static bool number_read(struct quant_job *job, struct vr_json_token token, uint64_t *to) {
    uint64_t number;
    if (vr_json_unsigned_read(token, &number) && number <= UINT32_MAX) {
        *to = number;
    }
    return vr_json_skip(job->reader, token);
}

/* weight_block_size: rows and columns that share a scale. */
static bool block_read(struct quant_job *job, struct vr_json_token token,
                       struct quant_words *words) {
    uint64_t sides[2] = {0, 0};
    if (token.kind != VR_JSON_ARRAY) {
        return vr_json_skip(job->reader, token);
    }
    for (uint32_t i = 0;; i++) {
        token = vr_json_next(job->reader);
        if (token.kind == VR_JSON_ARRAY_END || token.kind == VR_JSON_BAD) {
            words->rows = sides[0];
            words->width = sides[1];
            return token.kind != VR_JSON_BAD;
        }
        if (!number_read(job, token, &sides[i < 2 ? i : 1])) {
            return false;
        }
    }
}

/* Objects of which each member describes modules: config_groups, and quantized_layers, where the
   key is the module. */
static bool groups_read(struct quant_job *job, struct vr_json_token token, bool keys_are_modules) {
    if (token.kind != VR_JSON_OBJECT || job->depth >= 4) {
        return vr_json_skip(job->reader, token);
    }
    for (;;) {
        struct vr_json_token key = vr_json_next(job->reader);
        struct quant_words words = {0};
        if (key.kind != VR_JSON_KEY) {
            return key.kind == VR_JSON_OBJECT_END;
        }
        token = vr_json_next(job->reader);
        uint32_t first = job->to->rule_count;
        job->depth++;
        bool good = token.kind == VR_JSON_OBJECT ? object_read(job, &words)
                                                 : vr_json_skip(job->reader, token);
        job->depth--;
        uint8_t scheme = scheme_of_words(job->to, &words);
        for (uint32_t i = first; i < job->to->rule_count; i++) { /* the group's targets */
            job->to->rules[i].scheme = scheme;
        }
        if (!keys_are_modules && first == job->to->rule_count && scheme != VR_SCHEME_PLAIN) {
            job->to->usual = job->to->experts = scheme;
        }
        if (!good || (keys_are_modules && !rule_add(job, key, scheme))) {
            return false;
        }
    }
}

static bool member_read(struct quant_job *job, struct quant_words *words, const char *key,
                        struct vr_json_token token) {
    static const char *const left_out =
        "ignore exclude_modules exclude modules_to_not_convert llm_int8_skip_modules "
        "ignored_layers skip_modules";
    static const char *const inner = "weights weight quantization global_quant_config quant_config "
                                     "weight_quant_params quant_type "
                                     "default _data";
    bool yes = token.kind == VR_JSON_TRUE;
    if (vr_word_listed("quant_method quant_algo quant_type type _type format fmt dtype", key) &&
        token.kind == VR_JSON_TEXT) {
        if (strcmp(key, "quant_method") == 0) {
            vr_json_copy(token, words->method, sizeof words->method);
        }
        words_add(words, token);
    } else if (vr_word_listed("bits num_bits nbits w_bit", key)) {
        return number_read(job, token, &words->bits);
    } else if (vr_word_listed("group_size q_group_size", key)) {
        return number_read(job, token, &words->group);
    } else if (strcmp(key, "weight_block_size") == 0) {
        return block_read(job, token, words);
    } else if (vr_word_listed(left_out, key)) {
        return rules_read(job, token, false);
    } else if (strcmp(key, "targets") == 0) {
        return rules_read(job, token, true);
    } else if (strcmp(key, "config_groups") == 0) {
        return groups_read(job, token, false);
    } else if (vr_word_listed("quantized_layers extra_config", key)) {
        return groups_read(job, token, true);
    } else if (vr_word_listed(inner, key)) {
        if (token.kind == VR_JSON_OBJECT && job->depth < 4) {
            job->depth++;
            bool good = object_read(job, words);
            job->depth--;
            return good;
        }
        words_add(words, token); /* quanto: "weights": "int8" */
    }
    words->four = words->four || (yes && vr_word_listed("load_in_4bit _load_in_4bit", key));
    words->eight = words->eight || (yes && vr_word_listed("load_in_8bit _load_in_8bit", key));
    words->twice = words->twice || (yes && strcmp(key, "bnb_4bit_use_double_quant") == 0);
    words->zeros = words->zeros || (yes && strcmp(key, "zero_point") == 0) ||
                   (token.kind == VR_JSON_FALSE && vr_word_listed("symmetric sym", key));
    return vr_json_skip(job->reader, token);
}

/* Reads the rest of an object; nested at most four deep. */
static bool object_read(struct quant_job *job, struct quant_words *words) {
    for (;;) {
        struct vr_json_token key = vr_json_next(job->reader);
        char word[32];
        if (key.kind != VR_JSON_KEY) {
            return key.kind == VR_JSON_OBJECT_END;
        }
        vr_json_copy(key, word, sizeof word); /* a longer key is unknown, and "" */
        if (!member_read(job, words, word, vr_json_next(job->reader))) {
            return false;
        }
    }
}

bool vr_quantization_read(struct vr_json_reader *reader, struct vr_quantization *quantization,
                          vram_status *status) {
    struct quant_job job = {.reader = reader, .to = quantization, .status = VRAM_OK};
    struct quant_words words = {0};
    quantization->steps = STEPS_MAX;
    quantization->scheme_count = quantization->scheme_count ? quantization->scheme_count : 1;
    bool good = object_read(&job, &words);
    uint8_t scheme = scheme_of_words(quantization, &words);
    if (quantization->usual == VR_SCHEME_PLAIN) {
        quantization->usual = quantization->experts = scheme;
    }
    if (quantization->scheme_count == 1 && words.words[0]) {
        vr_text_format(quantization->unknown, sizeof quantization->unknown, "%s",
                       words.method[0] ? words.method : words.words + 1);
    }
    quantization->told = true;
    *status = job.status;
    return good;
}

vram_status vr_quantization_parse(const char *text, size_t bytes,
                                  struct vr_quantization *quantization) {
    struct vr_json_reader reader;
    vram_status status = VRAM_OK;
    vr_json_begin(&reader, text, bytes);
    bool good = vr_json_next(&reader).kind == VR_JSON_OBJECT &&
                vr_quantization_read(&reader, quantization, &status) &&
                vr_json_next(&reader).kind == VR_JSON_END;
    if (status != VRAM_OK || good) {
        return status;
    }
    return vr_fail(VRAM_ERR_CORRUPT, "invalid JSON in hf_quant_config.json at byte %zu: %s",
                   reader.at, reader.problem ? reader.problem : "expected an object");
}

bool vr_quantization_ask(struct vr_quantization *quantization, const char *name) {
    char text[16];
    size_t bytes = strlen(name);
    for (size_t i = 0; i <= bytes && bytes < sizeof text; i++) {
        text[i] = vr_text_lower(name[i]);
    }
    bool groups = bytes < sizeof text && vr_word_listed("awq gptq", text);
    if (!groups &&
        (bytes >= sizeof text || !vr_word_listed("fp8 mxfp8 nvfp4 mxfp4 int4 int8", text))) {
        return false;
    }
    struct quant_words words = {.bits = groups ? 4 : 0, .group = groups ? 128 : 0, .zeros = groups};
    vr_text_format(words.words, sizeof words.words, " %s", text);
    quantization->rule_count = quantization->text_bytes = 0;
    quantization->scheme_count = 1;
    quantization->usual = quantization->experts = scheme_of_words(quantization, &words);
    return true;
}

void vr_quantization_experts(struct vr_quantization *quantization, const char *type) {
    struct quant_words words = {0};
    vr_text_format(words.words, sizeof words.words, " %s", type);
    quantization->scheme_count = quantization->scheme_count ? quantization->scheme_count : 1;
    quantization->steps = STEPS_MAX;
    uint8_t scheme = scheme_of_words(quantization, &words);
    if (scheme != VR_SCHEME_PLAIN) {
        quantization->experts = scheme;
        quantization->told = true;
    }
}
