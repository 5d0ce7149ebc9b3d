/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.c: the header of one safetensors file, and the index of several.
 *
 *   length of the header, 8 bytes | header, JSON: name -> dtype, shape, data_offsets | data
 *
 * (1) The header is read into memory; the format bounds it by 100 MB and the file by its length.
 * (2) The tensors fill the data exactly: each byte belongs to one tensor. This is checked in linear
 *     time without memory. A tensor is a step from its begin to its end, and steps only go forward.
 *     They cover the data once if and only if as many steps end at every offset, except the end of
 *     the data, as begin there. Both sides are summed as hashes (struct tensor_walk).
 */
#include "model/model_file.h"

#include "base/memory.h"
#include "model/json_reader.h"

#include <string.h>

#define HEADER_MAX UINT64_C(100000000)

enum { NAME_MAX_BYTES = 256 };

struct tensor_walk {
    uint64_t from, to; /* sums of the hashes of offsets */
};

/* Every bit of an offset changes half of the bits of its hash. */
static uint64_t hash_offset(uint64_t place) {
    place += UINT64_C(0x9E3779B97F4A7C15);
    place = (place ^ (place >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    place = (place ^ (place >> 27)) * UINT64_C(0x94D049BB133111EB);
    return place ^ (place >> 31);
}

static vram_status fail_json(const struct vr_source *source, const struct vr_json_reader *reader) {
    return vr_source_bad(source, VRAM_ERR_CORRUPT, "invalid JSON at byte %zu: %s", reader->at,
                         reader->problem ? reader->problem : "this value is not expected here");
}

/* ------------------------------------------------------------------- a tensor */

struct tensor_entry {
    struct vr_tensor tensor;
    uint64_t begin, end;
    bool has_shape, has_offsets;
};

/* Reads an array of numbers: their product and the first, or both offsets. */
static bool take_shape(struct vr_json_reader *reader, struct tensor_entry *entry) {
    struct vr_json_token token = vr_json_next(reader);
    uint64_t size, count = 0;
    entry->tensor.parameters = 1;
    entry->tensor.rows = 0;
    entry->has_shape = token.kind == VR_JSON_ARRAY;
    while (entry->has_shape && (token = vr_json_next(reader)).kind != VR_JSON_ARRAY_END) {
        if (!vr_json_unsigned_read(token, &size) ||
            !vr_mul(entry->tensor.parameters, size, &entry->tensor.parameters)) {
            return false;
        }
        entry->tensor.rows = count++ == 0 ? size : entry->tensor.rows;
    }
    return entry->has_shape;
}

static bool take_offsets(struct vr_json_reader *reader, struct tensor_entry *entry) {
    entry->has_offsets = vr_json_next(reader).kind == VR_JSON_ARRAY &&
                         vr_json_unsigned_read(vr_json_next(reader), &entry->begin) &&
                         vr_json_unsigned_read(vr_json_next(reader), &entry->end) &&
                         vr_json_next(reader).kind == VR_JSON_ARRAY_END;
    return entry->has_offsets;
}

/* Reads the object of a tensor. */
static bool take_entry(struct vr_json_reader *reader, struct tensor_entry *entry) {
    struct vr_json_token key;
    if (vr_json_next(reader).kind != VR_JSON_OBJECT) {
        return false;
    }
    while ((key = vr_json_next(reader)).kind == VR_JSON_KEY) {
        bool good;
        if (vr_json_is(key, "dtype")) {
            struct vr_json_token token = vr_json_next(reader);
            good = token.kind == VR_JSON_TEXT;
            entry->tensor.type = good ? vr_tensor_type_of_safetensors(token.at, token.bytes) : NULL;
        } else if (vr_json_is(key, "shape")) {
            good = take_shape(reader, entry);
        } else if (vr_json_is(key, "data_offsets")) {
            good = take_offsets(reader, entry);
        } else {
            good = vr_json_skip(reader, key);
        }
        if (!good) {
            return false;
        }
    }
    return key.kind == VR_JSON_OBJECT_END && entry->has_shape && entry->has_offsets;
}

static vram_status check_entry(const struct vr_source *source, struct tensor_entry *entry,
                               uint64_t data_bytes) {
    struct vr_tensor *tensor = &entry->tensor;
    if (!tensor->type) {
        return vr_source_bad(source, VRAM_ERR_UNSUPPORTED, "tensor %.80s has an unknown dtype",
                             tensor->name);
    }
    if (entry->begin > entry->end || entry->end > data_bytes) {
        return vr_source_bad(source, VRAM_ERR_CORRUPT,
                             "tensor %.80s lies at %llu to %llu of %llu bytes of data",
                             tensor->name, (unsigned long long)entry->begin,
                             (unsigned long long)entry->end, (unsigned long long)data_bytes);
    }
    if (!vr_tensor_type_bytes(tensor->type, tensor->parameters, 1, &tensor->bytes) ||
        tensor->bytes != entry->end - entry->begin) {
        return vr_source_bad(source, VRAM_ERR_CORRUPT,
                             "tensor %.80s has %llu elements of %s in %llu bytes", tensor->name,
                             (unsigned long long)tensor->parameters, tensor->type->name,
                             (unsigned long long)(entry->end - entry->begin));
    }
    return VRAM_OK;
}

static vram_status take_tensors(struct vr_source *source, struct vr_json_reader *reader,
                                struct vr_weight_sum *sum, uint64_t data_bytes) {
    struct tensor_walk walk = {hash_offset(data_bytes), hash_offset(0)};
    struct vr_json_token key;
    if (vr_json_next(reader).kind != VR_JSON_OBJECT) {
        return fail_json(source, reader);
    }
    while ((key = vr_json_next(reader)).kind == VR_JSON_KEY) {
        char name[NAME_MAX_BYTES];
        struct tensor_entry entry = {.tensor = {.name = name}};
        if (vr_json_is(key, "__metadata__")) {
            if (!vr_json_skip(reader, key)) {
                return fail_json(source, reader);
            }
            continue;
        }
        vr_json_copy(key, name, sizeof name); /* a tensor with a longer name is counted, too */
        if (!take_entry(reader, &entry)) {
            return fail_json(source, reader);
        }
        vram_status status = check_entry(source, &entry, data_bytes);
        if (status != VRAM_OK) {
            return status;
        }
        walk.from += hash_offset(entry.begin);
        walk.to += hash_offset(entry.end);
        if (!vr_weight_sum_add(sum, &entry.tensor)) {
            return vr_source_bad(source, VRAM_ERR_UNSUPPORTED,
                                 "tensor %.80s belongs to a layer beyond the %d that are supported",
                                 name, VRAM_MODEL_LAYERS_MAX);
        }
    }
    if (key.kind != VR_JSON_OBJECT_END || vr_json_next(reader).kind != VR_JSON_END) {
        return fail_json(source, reader);
    }
    /* keeps (2) */
    return walk.from == walk.to
               ? VRAM_OK
               : vr_source_bad(source, VRAM_ERR_CORRUPT,
                               "the tensors overlap, or do not cover all %llu bytes of data",
                               (unsigned long long)data_bytes);
}

vram_status vr_safetensors_read(struct vr_source *source, struct vr_weight_sum *sum) {
    struct vr_json_reader reader;
    uint64_t header;
    char *text;
    vram_status status = vr_source_u64(source, &header);
    if (status != VRAM_OK) {
        return status;
    }
    if (header > HEADER_MAX) {
        return vr_source_bad(source, VRAM_ERR_CORRUPT,
                             "the header has %llu bytes; at most %llu are allowed",
                             (unsigned long long)header, (unsigned long long)HEADER_MAX);
    }
    if ((status = vr_source_text(source, header, &text)) != VRAM_OK) {
        return status;
    }
    vr_json_begin(&reader, text, (size_t)header);
    status = take_tensors(source, &reader, sum, source->bytes - source->at);
    vr_mem_free(text);
    if (status == VRAM_OK) {
        sum->model->files++;
    }
    return status;
}

/* ----------------------------------------------------------------- the index */

/* A name without a path, so that it stays in the folder of the index. */
static bool is_plain_name(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static bool note_shard(struct vr_shards *shards, const char *name) {
    const uint32_t slots = sizeof shards->slots / sizeof shards->slots[0];
    uint64_t key = 0;
    for (const char *at = name; *at; at++) {
        key = hash_offset(key ^ (uint8_t)*at);
    }
    uint32_t slot = (uint32_t)(key % slots);
    while (shards->slots[slot]) {
        if (strcmp(shards->names[shards->slots[slot] - 1], name) == 0) {
            return true;
        }
        slot = (slot + 1) % slots;
    }
    if (shards->count == VR_SHARDS_MAX) {
        return false;
    }
    memcpy(shards->names[shards->count], name, strlen(name) + 1);
    shards->slots[slot] = (uint16_t)++shards->count;
    return true;
}

static vram_status take_map(struct vr_source *source, struct vr_json_reader *reader,
                            struct vr_shards *shards) {
    struct vr_json_token key;
    if (vr_json_next(reader).kind != VR_JSON_OBJECT) {
        return fail_json(source, reader);
    }
    while ((key = vr_json_next(reader)).kind == VR_JSON_KEY) {
        char name[VR_SHARD_NAME_MAX];
        struct vr_json_token token = vr_json_next(reader);
        if (token.kind != VR_JSON_TEXT) {
            return fail_json(source, reader);
        }
        if (!vr_json_copy(token, name, sizeof name) || !is_plain_name(name)) {
            return vr_source_bad(source, VRAM_ERR_CORRUPT,
                                 "the index names a file that is not in its folder");
        }
        if (!note_shard(shards, name)) {
            return vr_source_bad(source, VRAM_ERR_UNSUPPORTED, "the index names more than %d files",
                                 VR_SHARDS_MAX);
        }
        shards->tensors++;
    }
    return key.kind == VR_JSON_OBJECT_END ? VRAM_OK : fail_json(source, reader);
}

/* Reads "metadata", if it is an object. */
static bool take_metadata(struct vr_json_reader *reader, struct vr_shards *shards) {
    struct vr_json_token key, token = vr_json_next(reader);
    if (token.kind != VR_JSON_OBJECT) {
        return vr_json_skip(reader, token);
    }
    while ((key = vr_json_next(reader)).kind == VR_JSON_KEY) {
        vram_value *to = vr_json_is(key, "total_size")         ? &shards->total_size
                         : vr_json_is(key, "total_parameters") ? &shards->parameters
                                                               : NULL;
        token = vr_json_next(reader);
        if (to) {
            to->known = vr_json_unsigned_read(token, &to->value) && to->value > 0;
        }
        if (!vr_json_skip(reader, token)) {
            return false;
        }
    }
    return key.kind == VR_JSON_OBJECT_END;
}

vram_status vr_shards_read(struct vr_source *source, const char *text, size_t bytes,
                           struct vr_shards *shards, bool *found) {
    struct vr_json_reader reader;
    struct vr_json_token key;
    *found = false;
    vr_json_begin(&reader, text, bytes);
    if (vr_json_next(&reader).kind != VR_JSON_OBJECT) {
        return fail_json(source, &reader);
    }
    while ((key = vr_json_next(&reader)).kind == VR_JSON_KEY) {
        if (!*found && vr_json_is(key, "weight_map")) {
            vram_status status = take_map(source, &reader, shards);
            if (status != VRAM_OK) {
                return status;
            }
            *found = true;
        } else if (!(vr_json_is(key, "metadata") ? take_metadata(&reader, shards)
                                                 : vr_json_skip(&reader, key))) {
            return fail_json(source, &reader);
        }
    }
    return key.kind == VR_JSON_OBJECT_END && vr_json_next(&reader).kind == VR_JSON_END
               ? VRAM_OK
               : fail_json(source, &reader);
}
