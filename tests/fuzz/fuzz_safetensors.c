/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_safetensors.c: whatever is called a safetensors file, or an index of several, is refused
 * with a reason, or has tensors that are exactly its data. Only the header is copied.
 */
#include "model_expect.h"

#include "model/model_file.h"

const char *const fuzz_words[] = {"{\"a\":",
                                  "\"dtype\":\"BF16\"",
                                  "\"shape\":[",
                                  "\"data_offsets\":[0,",
                                  "__metadata__",
                                  "model.layers.3.self_attn.k_proj.weight",
                                  "\"weight_map\":{",
                                  "\"metadata\":{\"total_size\":",
                                  "Infinity",
                                  "F4",
                                  "],",
                                  "}",
                                  "\\u0041",
                                  "[[[[[[[[",
                                  NULL};

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
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
