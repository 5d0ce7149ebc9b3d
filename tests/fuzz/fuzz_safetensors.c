/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_safetensors.c: whatever is called a safetensors file, or an index of several, is refused
 * with a reason, or has tensors that are exactly its data. Only the header is copied.
 */
#include "model_expect.h"

#include "model/model_file.h"

static const char fuzz_words[] =
    " {\"a\": \"dtype\":\"BF16\" \"shape\":[ \"data_offsets\":[0, __metadata__"
    " model.layers.3.self_attn.k_proj.weight \"weight_map\":{ \"metadata\":{\"total_size\":"
    " Infinity F4 ], } \\u0041 [[[[[[[[";

static void read_index(const uint8_t *data, size_t bytes) {
    static struct vr_shards shards;
    struct vr_source source;
    bool found;
    shards.count = 0;
    shards.tensors = 0;
    shards.total_size = shards.parameters = (vram_value){0, false};
    memset(shards.slots, 0, sizeof shards.slots);
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_shards_read(&source, (const char *)data, bytes, &shards, &found);
    FUZZ_EXPECT(shards.count <= shards.tensors || status != VRAM_OK);
    FUZZ_EXPECT(status != VRAM_OK || found || shards.count == 0);
    for (uint32_t i = 0; i < shards.count; i++) {
        FUZZ_EXPECT(shards.names[i][0] && !strchr(shards.names[i], '/'));
    }
    if (status != VRAM_OK) {
        expect_refusal(status);
    }
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static vram_model model;
    struct vr_weight_sum sum = {.model = &model};
    struct vr_source source;
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_safetensors_read(&source, &sum);
    FUZZ_EXPECT(vr_mem_live_bytes() == 0);
    if (status != VRAM_OK) {
        expect_refusal(status);
    } else {
        FUZZ_EXPECT(vr_weight_sum_finish(&sum));
        FUZZ_EXPECT(model.weight_bytes == bytes - source.at);
        model.kv_known = true;
        expect_model(&model);
    }
    read_index(data, bytes);
    return 0;
}

/* ---------------------------------------------------------------- structure */

enum { LENGTH = 8 }; /* bytes before the header */

/* The end of the header: of the object that begins it. */
static size_t header_end(const uint8_t *data, size_t bytes) {
    bool quoted = false;
    int depth = 0;
    for (size_t at = LENGTH; at < bytes; at++) {
        if (quoted) {
            at += data[at] == '\\';
            quoted = at < bytes && data[at] != '"';
        } else if (data[at] == '"') {
            quoted = true;
        } else if (data[at] == '{') {
            depth++;
        } else if (data[at] == '}' && --depth <= 0) {
            return at + 1;
        }
    }
    return 0;
}

/* Makes the length of the header right, and gives the data as many bytes as its offsets say. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    static const char key[] = "\"data_offsets\":[";
    size_t end = header_end(data, bytes), most = 0;
    if (end == 0 || bytes < LENGTH) {
        return bytes;
    }
    for (size_t at = LENGTH; at + sizeof key < end; at++) {
        if (memcmp(data + at, key, sizeof key - 1) == 0) {
            char number[24] = "";
            const uint8_t *comma = memchr(data + at, ',', end - at);
            size_t left = comma ? (size_t)(data + end - comma - 1) : 0;
            memcpy(number, comma ? comma + 1 : data, left < 20 ? left : 20);
            size_t last = (size_t)strtoull(number, NULL, 10);
            most = last > most && last < capacity ? last : most;
        }
    }
    fuzz_put(data, end - LENGTH, LENGTH);
    if (most > capacity - end) {
        return bytes;
    }
    memset(data + end, 0, most);
    return end + most;
}

FUZZ_TARGET(safetensors, .split = fuzz_split_json, .mend = mend)
