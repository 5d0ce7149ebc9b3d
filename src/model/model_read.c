/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_read.c: reads a model from a path. The first bytes of a file tell its format; its name only
 * tells where the other parts of a model are.
 */
#include "vram/model.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/struct_tail.h"
#include "base/text.h"
#include "model/model_config.h"
#include "model/model_file.h"

#include <string.h>

#define INDEX_MAX UINT64_C(100000000)
#define CONFIG_MAX                                                                                 \
    UINT64_C(4194304) /* the longest real ones list labels, and have a few hundred KB */

/* Everything that one call needs, on the heap: about 200 KiB. */
struct reading {
    struct vram_model model;
    struct vr_weight_sum sum;
    struct vr_config config;
    struct vr_shards shards;
    const char *weight_type;
    char path[VR_PATH_MAX];  /* of the current file */
    char other[VR_PATH_MAX]; /* of a file beside it */
};

/* ------------------------------------------------------------------- paths */

/* `name` in the folder of `path`. */
static bool path_beside(const char *path, const char *name, char out[VR_PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, bytes = strlen(name);
    if (folder + bytes + 1 > VR_PATH_MAX) {
        return false;
    }
    memcpy(out, path, folder);
    memcpy(out + folder, name, bytes + 1);
    return true;
}

/* `name` in the folder `path` itself. */
static bool path_inside(const char *path, const char *name, char out[VR_PATH_MAX]) {
    size_t bytes = strlen(path);
    if (bytes + strlen(name) + 2 > VR_PATH_MAX) {
        return false;
    }
    memcpy(out, path, bytes);
    out[bytes] = '/';
    memcpy(out + bytes + 1, name, strlen(name) + 1);
    return true;
}

static bool file_exists(const char *path) {
    struct vr_source source;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_source_open(&source, path, NULL);
    if (status == VRAM_OK) {
        vr_source_close(&source);
    } else {
        vr_error_restore(&error);
    }
    return status == VRAM_OK;
}

/* -------------------------------------------------------------------- GGUF */

enum { PART_DIGITS = 5, PART_END = 20 }; /* "-00001-of-00003.gguf" */

/* The number of the part in the path; NULL: it is not named like a part. */
static char *part_number(char *path) {
    size_t bytes = strlen(path);
    char *end = bytes > PART_END ? path + bytes - PART_END : NULL;
    if (!end || end[0] != '-' || memcmp(end + 6, "-of-", 4) != 0 ||
        memcmp(end + 15, ".gguf", 5) != 0) {
        return NULL;
    }
    for (int i = 0; i < PART_DIGITS; i++) {
        if (end[1 + i] < '0' || end[1 + i] > '9' || end[10 + i] < '0' || end[10 + i] > '9') {
            return NULL;
        }
    }
    return end + 1;
}

static void set_part(char *digits, uint64_t number) {
    for (int i = PART_DIGITS - 1; i >= 0; i--) {
        digits[i] = (char)('0' + number % 10);
        number /= 10;
    }
}

static vram_status read_part(struct reading *reading, uint64_t number,
                             struct vr_gguf_split *split) {
    struct vr_source source;
    vram_status status = vr_source_open(&source, reading->path, NULL);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_gguf_read(&source, &reading->sum, number == 0, split);
    if (status == VRAM_OK && split->count > 1 && split->number != number) {
        status = vr_source_bad(
            &source, VRAM_ERR_CORRUPT, "says that it is part %llu, but its name says %llu",
            (unsigned long long)split->number + 1, (unsigned long long)number + 1);
    }
    vr_source_close(&source);
    return status;
}

/* The path may name any part; reading starts with the first, which describes the model. */
static vram_status read_gguf(struct reading *reading) {
    struct vr_gguf_split split, part;
    char *digits = part_number(reading->path);
    if (digits) {
        set_part(digits, 1);
    }
    vram_status status = read_part(reading, 0, &split);
    if (status == VRAM_OK && split.count > 1 && (!digits || split.count > 99999)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "%.120s is one of %llu parts, but is not called NAME-00001-of-%05llu.gguf",
                       reading->path, (unsigned long long)split.count,
                       (unsigned long long)split.count);
    }
    for (uint64_t i = 1; status == VRAM_OK && i < split.count; i++) {
        set_part(digits, i + 1);
        status = read_part(reading, i, &part);
    }
    if (status == VRAM_OK && split.tensors && split.tensors != reading->model.tensors) {
        status =
            vr_fail(VRAM_ERR_CORRUPT, "the first part says %llu tensors, but %llu were found",
                    (unsigned long long)split.tensors, (unsigned long long)reading->model.tensors);
    }
    return status;
}

/* ------------------------------------------------------- config, safetensors */

/* Reads all of a JSON file; the caller frees it (vr_mem_free). */
static vram_status read_json(const char *path, uint64_t most, char **text, size_t *bytes) {
    struct vr_source source;
    vram_status status = vr_source_open(&source, path, NULL);
    if (status != VRAM_OK) {
        return status;
    }
    if (source.bytes > most) {
        status = vr_source_bad(&source, VRAM_ERR_CORRUPT, "has %llu bytes; at most %llu are read",
                               (unsigned long long)source.bytes, (unsigned long long)most);
    } else {
        *bytes = (size_t)source.bytes;
        status = vr_source_text(&source, source.bytes, text);
    }
    vr_source_close(&source);
    return status;
}

static vram_status read_config(struct reading *reading, const char *path) {
    char *text;
    size_t bytes;
    vram_status status = read_json(path, CONFIG_MAX, &text, &bytes);
    if (status == VRAM_OK) {
        status = vr_config_read(text, bytes, &reading->config);
        vr_mem_free(text);
    }
    return status == VRAM_OK ? vr_config_shape(&reading->config, &reading->model) : status;
}

/* What NVIDIA's tools write beside a config that does not say how the weights are stored. */
static vram_status read_quantization(struct reading *reading) {
    char *text;
    size_t bytes;
    if (reading->config.quantization.told ||
        !path_beside(reading->path, "hf_quant_config.json", reading->other) ||
        !file_exists(reading->other)) {
        return VRAM_OK;
    }
    vram_status status = read_json(reading->other, CONFIG_MAX, &text, &bytes);
    if (status == VRAM_OK) {
        status = vr_quantization_parse(text, bytes, &reading->config.quantization);
        vr_mem_free(text);
    }
    return status;
}

/* The config beside the weights, if there is one. */
static vram_status read_neighbour(struct reading *reading) {
    struct vram_model *model = &reading->model;
    if (!path_beside(reading->path, "config.json", reading->other) ||
        !file_exists(reading->other)) {
        return VRAM_OK;
    }
    vram_status status = read_config(reading, reading->other);
    reading->sum.layers_known = status == VRAM_OK;
    model->family_known = true; /* shapes are read, not guessed */
    return status;
}

static vram_status finish_safetensors(struct reading *reading) {
    struct vram_model *model = &reading->model;
    bool configured = reading->sum.layers_known;
    model->format = VRAM_MODEL_SAFETENSORS;
    if (!configured) {
        model->kv_known = model->layer_count > 0;
        for (uint32_t i = 0; i < model->layer_count; i++) {
            model->kv_known = model->kv_known && model->layers[i].k_elements > 0;
        }
    }
    return model->tensors ? VRAM_OK
                          : vr_fail(VRAM_ERR_INVALID, "%.120s holds no tensors", reading->path);
}

static vram_status read_shard(struct reading *reading, const char *path) {
    struct vr_source source;
    vram_status status = vr_source_open(&source, path, NULL);
    if (status == VRAM_OK) {
        status = vr_safetensors_read(&source, &reading->sum);
        vr_source_close(&source);
    }
    return status;
}

static vram_status read_safetensors(struct reading *reading) {
    vram_status status = read_neighbour(reading);
    status = status == VRAM_OK ? read_shard(reading, reading->path) : status;
    return status == VRAM_OK ? finish_safetensors(reading) : status;
}

static vram_status read_shards(struct reading *reading) {
    const struct vr_shards *shards = &reading->shards;
    vram_status status = read_neighbour(reading);
    for (uint32_t i = 0; i < shards->count && status == VRAM_OK; i++) {
        status = path_beside(reading->path, shards->names[i], reading->other)
                     ? read_shard(reading, reading->other)
                     : vr_fail(VRAM_ERR_INVALID, "a path is too long");
    }
    if (status == VRAM_OK && shards->tensors != reading->model.tensors) {
        status = vr_fail(VRAM_ERR_CORRUPT, "the index names %llu tensors, its files hold %llu",
                         (unsigned long long)shards->tensors,
                         (unsigned long long)reading->model.tensors);
    }
    return status == VRAM_OK ? finish_safetensors(reading) : status;
}

/* A JSON file is an index if it has a weight_map, else a config. */
static vram_status read_json_model(struct reading *reading) {
    struct vr_source named = {.path = reading->path, .fd = -1};
    char *text;
    size_t bytes;
    bool index;
    vram_status status = read_json(reading->path, INDEX_MAX, &text, &bytes);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_shards_read(&named, text, bytes, &reading->shards, &index);
    if (status == VRAM_OK && !index && bytes > CONFIG_MAX) {
        status = vr_source_bad(&named, VRAM_ERR_CORRUPT, "has %zu bytes; at most %llu are read",
                               bytes, (unsigned long long)CONFIG_MAX);
    } else if (status == VRAM_OK && !index) {
        status = vr_config_read(text, bytes, &reading->config);
    }
    vr_mem_free(text);
    if (status != VRAM_OK) {
        return status;
    }
    if (index) {
        return read_shards(reading);
    }
    status = read_quantization(reading);
    status = status == VRAM_OK ? vr_config_shape(&reading->config, &reading->model) : status;
    reading->model.format = VRAM_MODEL_CONFIG;
    reading->model.files = 1;
    return status == VRAM_OK
               ? vr_config_weights(&reading->config, reading->weight_type, &reading->model)
               : status;
}

/* ------------------------------------------------------------------ anything */

/* Chooses the reader for a file. */
static vram_status read_file(struct reading *reading, struct vr_source *source) {
    uint8_t head[16] = {0};
    size_t bytes = source->bytes < sizeof head ? (size_t)source->bytes : sizeof head, at = 0;
    vram_status status = vr_source_take(source, head, bytes);
    if (status != VRAM_OK) {
        return status;
    }
    while (at < bytes &&
           (head[at] == ' ' || head[at] == '\n' || head[at] == '\r' || head[at] == '\t')) {
        at++;
    }
    if (memcmp(head, "GGUF", 4) == 0) {
        return read_gguf(reading);
    }
    if (at < bytes && head[at] == '{') {
        return read_json_model(reading);
    }
    if (bytes > 8 && head[8] == '{') {
        return read_safetensors(reading);
    }
    return vr_source_bad(source, VRAM_ERR_INVALID,
                         "is not a model: neither GGUF, nor safetensors, nor config.json");
}

static vram_status read_path(struct reading *reading, const char *path);

static vram_status read_folder(struct reading *reading, const char *path) {
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "config.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (path_inside(path, names[i], reading->other) && file_exists(reading->other)) {
            char file[VR_PATH_MAX];
            memcpy(file, reading->other, sizeof file);
            return read_path(reading, file);
        }
    }
    return vr_fail(VRAM_ERR_INVALID,
                   "%.100s: the folder holds no model: no model.safetensors, no index of it and no "
                   "config.json; name a .gguf file itself",
                   path);
}

static vram_status read_path(struct reading *reading, const char *path) {
    struct vr_source source;
    bool folder;
    if (strlen(path) >= sizeof reading->path) {
        return vr_fail(VRAM_ERR_INVALID, "the path of %zu bytes is too long", strlen(path));
    }
    vram_status status = vr_source_open(&source, path, &folder);
    if (folder) {
        return read_folder(reading, path);
    }
    if (status != VRAM_OK) {
        return status;
    }
    memcpy(reading->path, path, strlen(path) + 1);
    status = read_file(reading, &source);
    vr_source_close(&source);
    return status;
}

vram_status vram_model_read(const char *path, const vram_model_read_options *options,
                            vram_model *model) {
    VR_CALL;
    struct vram_model_read_options taken;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && (!path || !path[0] || !model)) {
        status = vr_fail(VRAM_ERR_INVALID, "%s",
                         model ? "the path is empty" : "the model to fill is NULL");
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct reading *reading = vr_mem_alloc(1, sizeof *reading, vr_operation());
    if (!reading) {
        return VRAM_ERR_HOST_MEMORY;
    }
    reading->sum.model = &reading->model;
    reading->weight_type = taken.weight_type;
    status = read_path(reading, path);
    if (status == VRAM_OK && reading->model.format != VRAM_MODEL_CONFIG &&
        !vr_weight_sum_finish(&reading->sum)) {
        status = vr_fail(VRAM_ERR_OVERFLOW, "the weights do not fit in 64 bits");
    }
    if (status == VRAM_OK) {
        reading->model.size = sizeof reading->model;
        status = vr_info_give(model, &reading->model, sizeof *model, sizeof *model);
    }
    vr_mem_free(reading);
    return status;
}
