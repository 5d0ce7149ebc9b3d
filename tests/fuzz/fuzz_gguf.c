/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_gguf.c: whatever is called a GGUF file is refused with a reason, or is a model whose weights
 * are no more than the bytes of the file. Nothing is allocated for it.
 */
#include "model_expect.h"

#include "model/model_file.h"

static const char fuzz_words[] =
    " GGUF general.architecture general.alignment llama.block_count llama.attention.head_count_kv"
    " llama.attention.sliding_window llama.ssm.state_size split.count tokenizer.ggml.tokens"
    " blk.1.ffn_up_exps.weight token_embd.weight \x09 \x08 \xff\xff\xff\xff\xff\xff\xff\xff"
    " qwen3next gemma4 nemotron_h clip gemma4.attention.sliding_window_pattern"
    " gemma4.attention.shared_kv_layers llama.nextn_predict_layers"
    " llama.attention.recurrent_layers llama.kda.head_dim";

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static vram_model model;
    struct vr_weight_sum sum = {.model = &model};
    struct vr_gguf_split split;
    struct vr_source source;
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    uint64_t calls = vr_mem_calls();
    vr_source_memory(&source, data, bytes);
    vram_status status = vr_gguf_read(&source, &sum, VR_GGUF_MODEL, &split);
    FUZZ_EXPECT(vr_mem_calls() == calls);
    FUZZ_EXPECT(source.at <= bytes);
    if (status != VRAM_OK) {
        expect_refusal(status);
        return 0;
    }
    FUZZ_EXPECT(vr_weight_sum_finish(&sum));
    FUZZ_EXPECT(model.weight_bytes <= bytes);
    expect_model(&model);
    return 0;
}

/* ---------------------------------------------------------------- structure */

enum { HEAD = 24, AT_TENSORS = 8, AT_PAIRS = 16, ARRAY = 9, TEXT = 8 };

/* The end of a text that begins here; 0: there is none. */
static size_t text_end(const uint8_t *data, size_t bytes, size_t at) {
    uint64_t length = at > 0 && at + 8 <= bytes ? fuzz_get(data + at, 8) : UINT64_MAX;
    return at + 8 <= bytes && length <= bytes - at - 8 ? at + 8 + (size_t)length : 0;
}

static size_t value_end(const uint8_t *data, size_t bytes, size_t at, uint64_t type) {
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == TEXT) {
        return text_end(data, bytes, at);
    }
    if (type == ARRAY && at + 12 <= bytes) {
        uint64_t of = fuzz_get(data + at, 4), count = fuzz_get(data + at + 4, 8);
        at += 12;
        for (uint64_t i = 0; of == TEXT && i < count && at > 0; i++) {
            at = text_end(data, bytes, at);
        }
        size_t size = of < sizeof sizes / sizeof sizes[0] ? sizes[of] : 0;
        return count <= bytes && at + count * size <= bytes ? at + (size_t)count * size : 0;
    }
    size_t size = type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
    return size > 0 && at + size <= bytes ? at + size : 0;
}

/* The end of the pair or tensor that begins here; tensors are those that have the usual names. */
static size_t part_end(const uint8_t *data, size_t bytes, size_t at, bool *tensor) {
    size_t name = text_end(data, bytes, at);
    if (name == 0 || name + 4 > bytes) {
        return 0;
    }
    *tensor = name - at >= 8 + 6 && (memcmp(data + name - 6, "weight", 6) == 0 ||
                                     memcmp(data + name - 4, "bias", 4) == 0);
    uint64_t number = fuzz_get(data + name, 4);
    if (!*tensor) {
        return value_end(data, bytes, name + 4, number);
    }
    size_t end = name + 4 + (size_t)(number <= 4 ? number : 4) * 8 + 4 + 8;
    return end <= bytes ? end : 0;
}

static size_t split(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0, at = HEAD, end;
    bool tensor;
    while (count < FUZZ_PARTS_MAX && (end = part_end(data, bytes, at, &tensor)) > 0) {
        parts[count++] = (struct fuzz_part){at, end - at};
        at = end;
    }
    return count;
}

/* Makes the counts those of what is there. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    uint64_t counts[2] = {0, 0};
    size_t at = HEAD, end;
    bool tensor;
    (void)capacity;
    while ((end = part_end(data, bytes, at, &tensor)) > 0) {
        counts[tensor]++;
        at = end;
    }
    if (counts[0] + counts[1] > 0) {
        fuzz_put(data + AT_TENSORS, counts[1], 8);
        fuzz_put(data + AT_PAIRS, counts[0], 8);
    }
    return bytes;
}

FUZZ_TARGET(gguf, .split = split, .mend = mend)
