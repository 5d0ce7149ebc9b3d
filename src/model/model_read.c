/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_read.c: reads a model from a path. The first bytes of a file tell its format; its name only
 * tells where the other parts of a model are.
 */
#include "vram/model.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/struct_tail.h"
#include "base/text.h"
#include "model/file_type.h"
#include "model/json_reader.h"
#include "model/model_config.h"
#include "model/model_file.h"
#include "model/weight_spread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_MAX UINT64_C(100000000)
#define CONFIG_MAX                                                                                 \
    UINT64_C(4194304) /* the longest real ones list labels, and have a few hundred KB */

/* Everything that one call needs, on the heap: about 400 KiB. */
struct reading {
    struct vram_model model;
    struct vr_weight_sum sum;
    struct vr_config config;
    struct vr_shards shards;
    const char *weight_type;
    struct vram_model projector; /* only its sums */
    char path[VR_PATH_MAX];      /* of the current file */
    char other[VR_PATH_MAX];     /* of a file beside it */
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

/* A file that is there and cannot be opened is no missing file: whoever reads it then says why. */
static bool file_exists(const char *path) {
    struct vr_source source;
    struct vram_error before, error;
    vr_error_save(&before);
    vram_status status = vr_source_open(&source, path, NULL);
    if (status == VRAM_OK) {
        vr_source_close(&source);
        return true;
    }
    vr_error_save(&error);
    vr_error_restore(&before);
    return status != VRAM_ERR_INVALID && error.native_code != ENOENT &&
           error.native_code != ENOTDIR;
}

static bool path_ends(const char *path, const char *end) {
    size_t bytes = strlen(path), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(path + bytes - end_bytes, end) == 0;
}

/* ------------------------------------------------------------------- parts */

enum { PART_DIGITS = 5, PART_END = 15 }; /* "-00001-of-00003" */

/* The number of the part in the path, which ends with `suffix`; NULL: it is not named like a
   part. */
static char *part_number(char *path, const char *suffix) {
    size_t bytes = strlen(path), rest = PART_END + strlen(suffix);
    char *end = bytes > rest && path_ends(path, suffix) ? path + bytes - rest : NULL;
    if (!end || end[0] != '-' || memcmp(end + 6, "-of-", 4) != 0) {
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

/* -------------------------------------------------------------------- GGUF */

static vram_status read_part(struct reading *reading, uint64_t number,
                             struct vr_gguf_split *split) {
    struct vr_source source;
    vram_status status = vr_source_open(&source, reading->path, NULL);
    if (status != VRAM_OK) {
        return status;
    }
    status =
        vr_gguf_read(&source, &reading->sum, number == 0 ? VR_GGUF_MODEL : VR_GGUF_PART, split);
    if (status == VRAM_OK && split->count > 1 && split->number != number) {
        status = vr_source_bad(
            &source, VRAM_ERR_CORRUPT, "the file says that it is part %llu, but its name says %llu",
            (unsigned long long)split->number + 1, (unsigned long long)number + 1);
    }
    vr_source_close(&source);
    return status;
}

/* The path may name any part; reading starts with the first, which describes the model. */
static vram_status read_gguf(struct reading *reading) {
    struct vr_gguf_split split, part;
    char *digits = part_number(reading->path, ".gguf");
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
    if (status == VRAM_OK && reading->model.tensors == 0) {
        status = vr_fail(VRAM_ERR_INVALID,
                         "%.120s contains no weights: it has 0 tensors, only the vocabulary and "
                         "metadata of a model; name the file with the weights",
                         reading->path);
    }
    return status;
}

/* Adds the weights of options.projector, which are no part of any layer. */
static vram_status read_projector(struct reading *reading, const char *path) {
    struct vram_model *model = &reading->model, *added = &reading->projector;
    struct vr_weight_sum sum = {.model = added};
    struct vr_gguf_split split;
    struct vr_source source;
    vram_status status = vr_source_open(&source, path, NULL);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_gguf_read(&source, &sum, VR_GGUF_PROJECTOR, &split);
    vr_source_close(&source);
    if (status != VRAM_OK) {
        return status;
    }
    model->projector_bytes = added->weight_bytes;
    model->files += added->files;
    model->tensors += added->tensors; /* of files that are there: their sum is far below 2^64 */
    if (sum.overflow || !vr_add(model->other_bytes, added->weight_bytes, &model->other_bytes) ||
        !vr_add(model->weight_bytes, added->weight_bytes, &model->weight_bytes) ||
        !vr_add(model->parameters, added->parameters, &model->parameters)) {
        return vr_fail(VRAM_ERR_OVERFLOW, "the weights do not fit in 64 bits");
    }
    model->active_parameters += added->parameters; /* at most model->parameters */
    return VRAM_OK;
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
        status = vr_source_bad(&source, VRAM_ERR_CORRUPT,
                               "the file has %llu bytes; at most %llu are read",
                               (unsigned long long)source.bytes, (unsigned long long)most);
    } else {
        *bytes = (size_t)source.bytes;
        status = vr_source_text(&source, source.bytes, text);
    }
    vr_source_close(&source);
    return status;
}

/* llama.cpp does not apply the windows of these families, whatever config.json says: it caches the
   whole context (build b11549). */
static void drop_windows(struct vram_model *model) {
    static const char *const families[] = {
        "mistral",     "mixtral",         "ministral", "ministral3", "mistral3",      "phi3",
        "phimoe",      "starcoder2",      "qwen2",     "qwen2_moe",  "qwen2_vl",      "qwen2_5_vl",
        "qwen2_audio", "qwen2_5_vl_text", "qwen3",     "qwen3_moe",  "qwen3_vl_text", "phi4mm"};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(model->architecture, families[i]) == 0) {
            for (uint32_t layer = 0; layer < model->layer_count; layer++) {
                model->layers[layer].window = 0;
            }
        }
    }
}

/* What NVIDIA's tools write beside a config that does not say how the weights are stored. */
static vram_status read_quantization(struct reading *reading) {
    char *text = NULL;
    size_t bytes = 0;
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

/* Everything but the weights, from the config. */
static vram_status set_shape(struct reading *reading) {
    struct vram_model *model = &reading->model;
    vram_status status = read_quantization(reading);
    status = status == VRAM_OK ? vr_config_shape(&reading->config, model) : status;
    model->kv_guessed = status == VRAM_OK && model->kv_known && !model->family_known;
    drop_windows(model);
    return status;
}

/* The weights, counted from the config. */
static vram_status count_weights(struct reading *reading) {
    const char *name = reading->weight_type;
    const struct vr_file_type *mix = name ? vr_file_type_find(name) : NULL;
    vram_status status =
        vr_config_weights(&reading->config, mix ? vr_file_type_base(mix) : name, &reading->model);
    if (status == VRAM_OK && mix && !vr_file_type_apply(mix, &reading->config, &reading->model)) {
        status = vr_fail(VRAM_ERR_OVERFLOW, "the weights do not fit in 64 bits");
    }
    return status;
}

static vram_status read_config(struct reading *reading, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    vram_status status = read_json(path, CONFIG_MAX, &text, &bytes);
    if (status == VRAM_OK) {
        status = vr_config_read(text, bytes, &reading->config);
        vr_mem_free(text);
    }
    return status == VRAM_OK ? set_shape(reading) : status;
}

/* The config beside the weights, if there is one. */
static vram_status read_neighbour(struct reading *reading) {
    if (!path_beside(reading->path, "config.json", reading->other) ||
        !file_exists(reading->other)) {
        reading->model.family_known = true; /* shapes are read, not guessed */
        return VRAM_OK;
    }
    vram_status status = read_config(reading, reading->other);
    reading->sum.layers_known = status == VRAM_OK;
    reading->model.family_known = true;
    return status;
}

static vram_status finish_safetensors(struct reading *reading) {
    struct vram_model *model = &reading->model;
    bool configured = reading->sum.layers_known;
    model->format = VRAM_MODEL_SAFETENSORS;
    if (reading->sum.caches_confirmed == 2 * model->layer_count) {
        model->kv_guessed = false; /* every layer has such keys and values */
    }
    if (!configured) {
        model->kv_known = model->layer_count > 0;
        for (uint32_t i = 0; i < model->layer_count; i++) {
            model->kv_known = model->kv_known && model->layers[i].k_elements > 0;
        }
    }
    return model->tensors ? VRAM_OK
                          : vr_fail(VRAM_ERR_INVALID, "%.120s contains no tensors", reading->path);
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

static vram_status read_path(struct reading *reading, const char *path);

/* NAME-00001-of-00003.safetensors is a part of what NAME.safetensors.index.json lists, and without
   an index of all files with such names. */
static vram_status read_safetensors(struct reading *reading) {
    static const char suffix[] = ".safetensors", index[] = ".safetensors.index.json";
    char *digits = part_number(reading->path, suffix);
    uint32_t parts = 1;
    if (digits) {
        char file[VR_PATH_MAX];
        size_t stem = (size_t)(digits - 1 - reading->path);
        memcpy(file, reading->path, stem);
        memcpy(file + stem, index, sizeof index); /* shorter than what it replaces */
        if (file_exists(file)) {
            return read_path(reading, file);
        }
        parts = (uint32_t)strtoul(digits + PART_DIGITS + strlen("-of-"), NULL, 10);
    }
    vram_status status = read_neighbour(reading);
    for (uint32_t i = 0; i < parts && status == VRAM_OK; i++) {
        if (digits) {
            set_part(digits, i + 1);
        }
        status = read_shard(reading, reading->path);
    }
    return status == VRAM_OK ? finish_safetensors(reading) : status;
}

/* ------------------------------------------------------- an index without its files */

#define TOTAL_MAX (UINT64_C(1) << 62)

/* The files of the index were not read, but it tells the size of all tensors together. */
static vram_status read_total(struct reading *reading, uint32_t missing, const char *name) {
    const struct vr_shards *shards = &reading->shards;
    struct vram_model *model = &reading->model;
    struct vram_error error;
    if (shards->total_size.value > TOTAL_MAX) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "the index has a total_size of %llu bytes, more than any "
                       "model has",
                       (unsigned long long)shards->total_size.value);
    }
    if (!shards->total_size.known) {
        return vr_fail(VRAM_ERR_IO,
                       "%.80s: there is no such file; %u of the %u files of the index are missing, "
                       "and it has no total_size",
                       name, missing, shards->count);
    }
    if (!reading->sum.layers_known) {
        return vr_fail(VRAM_ERR_IO,
                       "%.80s: there is no such file; %u of the %u files of the index are missing; "
                       "put config.json beside it",
                       name, missing, shards->count);
    }
    bool known = !model->kv_guessed;
    vr_error_save(&error);
    if (!model->kv_known || vr_config_weights(&reading->config, NULL, model) != VRAM_OK) {
        vr_error_restore(&error);
        model->weight_bytes = model->parameters = model->active_parameters = 0;
    }
    vr_weight_spread(model, shards->total_size.value);
    if (shards->parameters.known) {
        uint64_t idle = model->parameters - model->active_parameters;
        model->parameters = shards->parameters.value;
        model->active_parameters = model->parameters - (idle < model->parameters ? idle : 0);
    } else if (!known) {
        model->parameters = model->active_parameters = 0; /* not from a guess */
    }
    model->family_known = true; /* the sum is read */
    model->missing_files = missing;
    model->files = shards->count;
    model->tensors = shards->tensors;
    model->format = VRAM_MODEL_SAFETENSORS;
    return VRAM_OK;
}

static vram_status read_shards(struct reading *reading) {
    const struct vr_shards *shards = &reading->shards;
    vram_status status = read_neighbour(reading);
    const char *name = NULL; /* of the first that is missing */
    uint32_t missing = 0;
    for (uint32_t i = 0; i < shards->count; i++) {
        if (!path_ends(shards->names[i], ".safetensors") ||
            !path_beside(reading->path, shards->names[i], reading->other) ||
            !file_exists(reading->other)) {
            name = name ? name : shards->names[i];
            missing++;
        }
    }
    if (status == VRAM_OK && missing > 0) {
        return read_total(reading, missing, name);
    }
    for (uint32_t i = 0; i < shards->count && status == VRAM_OK; i++) {
        status =
            path_beside(reading->path, shards->names[i], reading->other)
                ? read_shard(reading, reading->other)
                : vr_fail(VRAM_ERR_INVALID, "the path of a file that the index names is too long");
    }
    if (status == VRAM_OK && shards->tensors != reading->model.tensors) {
        status = vr_fail(VRAM_ERR_CORRUPT, "the index names %llu tensors, its files hold %llu",
                         (unsigned long long)shards->tensors,
                         (unsigned long long)reading->model.tensors);
    }
    return status == VRAM_OK ? finish_safetensors(reading) : status;
}

/* Finds the weights in a folder, or in that of the current file if `folder` is "". */
static bool find_model(struct reading *reading, const char *folder, char file[VR_PATH_MAX]) {
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "pytorch_model.bin.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((folder[0] ? path_inside(folder, names[i], file)
                       : path_beside(reading->path, names[i], file)) &&
            file_exists(file)) {
            return true;
        }
    }
    return false;
}

/* A JSON file is an index if it has a weight_map, else a config. If the weights lie beside a
   config.json, they count: they are exact for every family. */
static vram_status read_json_model(struct reading *reading) {
    struct vr_source named = {.path = reading->path, .fd = -1};
    char *text = NULL, file[VR_PATH_MAX];
    size_t bytes = 0;
    bool index;
    vram_status status = read_json(reading->path, INDEX_MAX, &text, &bytes);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_shards_read(&named, text, bytes, &reading->shards, &index);
    if (status == VRAM_OK && !index && bytes > CONFIG_MAX) {
        status =
            vr_source_bad(&named, VRAM_ERR_CORRUPT, "the file has %zu bytes; at most %llu are read",
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
    if (path_ends(reading->path, "config.json") && !reading->weight_type &&
        find_model(reading, "", file)) {
        return read_path(reading, file);
    }
    status = set_shape(reading);
    reading->model.format = VRAM_MODEL_CONFIG;
    reading->model.files = 1;
    return status == VRAM_OK ? count_weights(reading) : status;
}

/* ------------------------------------------------------------------ anything */

/* Chooses the reader for a file. */
static vram_status read_file(struct reading *reading, struct vr_source *source) {
    uint8_t head[16] = {0};
    size_t bytes = source->bytes < sizeof head ? (size_t)source->bytes : sizeof head, at;
    vram_status status = vr_source_take(source, head, bytes);
    if (status != VRAM_OK) {
        return status;
    }
    at = vr_json_mark_bytes((const char *)head, bytes);
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
                         "this is not a model: neither GGUF, nor safetensors, nor config.json");
}

static vram_status read_folder(struct reading *reading, const char *path) {
    char file[VR_PATH_MAX];
    if (find_model(reading, path, file) ||
        (path_inside(path, "config.json", file) && file_exists(file))) {
        return read_path(reading, file);
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
        reading->model.missing_files == 0 && !vr_weight_sum_finish(&reading->sum)) {
        status = vr_fail(VRAM_ERR_OVERFLOW, "the weights do not fit in 64 bits");
    }
    if (status == VRAM_OK && taken.projector) {
        status = read_projector(reading, taken.projector);
    }
    if (status == VRAM_OK) {
        reading->model.size = sizeof reading->model;
        status = vr_info_give(model, &reading->model, sizeof *model, sizeof *model);
    }
    vr_mem_free(reading);
    return status;
}
