/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_inference.c: the memory of a model from its dimensions, and the device that has room for it.
 */
#include "byte_units.h"
#include "rig/rig.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <string.h>

static const vram_inference_shape mistral = {.size = sizeof mistral,
                                             .hidden = 4096,
                                             .intermediate = 14336,
                                             .layers = 32,
                                             .vocabulary = 32000,
                                             .heads = 32,
                                             .kv_heads = 8,
                                             .tokens = 4096,
                                             .element_bytes = 4};

static vram_inference_memory estimate(vram_inference_shape shape) {
    vram_inference_memory memory = {.size = sizeof memory};
    assert_int_equal(vram_inference_estimate(&shape, &memory), VRAM_OK);
    return memory;
}

/* The word that the text of a refusal must hold. */
static void refused(vram_inference_shape shape, vram_status status, const char *word) {
    vram_inference_memory memory = {.size = sizeof memory, .total_bytes = 77};
    assert_int_equal(vram_inference_estimate(&shape, &memory), status);
    assert_int_equal(memory.total_bytes, 77);
    assert_non_null(strstr(vram_error_get()->text, word));
}

/* ------------------------------------------------- item 8 of the acceptance list */

TEST(acceptance_08_golden_numbers_in_fp32) {
    vram_inference_memory memory = estimate(mistral);
    assert_int_equal(memory.parameters, UINT64_C(7241732096));
    assert_int_equal(memory.active_parameters, UINT64_C(7241732096));
    assert_int_equal(memory.model_bytes, UINT64_C(28966928384));
    assert_int_equal(memory.kv_bytes, UINT64_C(1073741824));
    assert_int_equal(memory.activation_bytes, UINT64_C(262144));
    assert_int_equal(memory.total_bytes, UINT64_C(30040932352));
    assert_float_equal(memory.total_gb, 27.9778, 0.0001);
    assert_float_equal(memory.model_mb / 1024, 26.9776, 0.0001);
    assert_float_equal(memory.kv_mb, 1024.0, 0.0);
    assert_float_equal(memory.activation_mb, 0.25, 0.0);
}

TEST(acceptance_08_golden_numbers_in_fp16) {
    vram_inference_shape shape = mistral;
    shape.element_bytes = 2;
    vram_inference_memory memory = estimate(shape);
    assert_int_equal(memory.model_bytes, UINT64_C(14483464192));
    assert_int_equal(memory.kv_bytes, UINT64_C(536870912));
    assert_int_equal(memory.activation_bytes, UINT64_C(131072));
    assert_int_equal(memory.total_bytes, UINT64_C(15020466176));
    assert_float_equal(memory.total_gb, 13.9889, 0.0001);
}

/* Each dimension at its largest, alone: no sum may wrap around into something small. */
TEST(acceptance_08_overflow_is_refused) {
    static const size_t fields[] = {
        offsetof(vram_inference_shape, hidden), offsetof(vram_inference_shape, intermediate),
        offsetof(vram_inference_shape, layers), offsetof(vram_inference_shape, vocabulary),
        offsetof(vram_inference_shape, tokens), offsetof(vram_inference_shape, element_bytes),
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (unsigned bit = 63; bit >= 50; bit--) {
            vram_inference_shape shape = mistral;
            uint64_t value = UINT64_MAX >> (63 - bit);
            memcpy((char *)&shape + fields[i], &value, sizeof value);
            refused(shape, VRAM_ERR_OVERFLOW, "64 bits");
        }
    }
    vram_inference_shape shape =
        mistral; /* the last sum alone: weights and cache fit, each by itself */
    shape.tokens = UINT64_MAX / (UINT64_C(32) * 8 * 128 * 2 * 4);
    refused(shape, VRAM_ERR_OVERFLOW, "64 bits");
}

TEST(acceptance_08_no_heads_and_other_zeros) {
    static const struct {
        size_t field;
        const char *name;
    } needed[] = {
        {offsetof(vram_inference_shape, heads), "heads is 0"},
        {offsetof(vram_inference_shape, kv_heads), "kv_heads is 0"},
        {offsetof(vram_inference_shape, hidden), "hidden is 0"},
        {offsetof(vram_inference_shape, intermediate), "intermediate is 0"},
        {offsetof(vram_inference_shape, layers), "layers is 0"},
        {offsetof(vram_inference_shape, vocabulary), "vocabulary is 0"},
        {offsetof(vram_inference_shape, element_bytes), "element_bytes is 0"},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        vram_inference_shape shape = mistral;
        memset((char *)&shape + needed[i].field, 0, sizeof(uint64_t));
        refused(shape, VRAM_ERR_INVALID, needed[i].name);
    }
    vram_inference_shape shape = mistral;
    shape.tokens = 0;
    assert_int_equal(estimate(shape).kv_bytes, 0);
}

/* ------------------------------------------------------------------- experts */

/* Worked out by hand: attention 2*64*64 + 2*64*(2*16) + 2*64 = 12416; dense 12416 + 3*64*96 =
   30848; expert layer 12416 + 8*64 + (8+1)*3*64*32 = 68224; active 12416 + 8*64 + (2+1)*3*64*32 =
   31360. */
TEST(experts_are_counted_and_those_used_are) {
    vram_inference_shape shape = {.size = sizeof shape,
                                  .hidden = 64,
                                  .intermediate = 96,
                                  .layers = 5,
                                  .vocabulary = 1000,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .element_bytes = 2,
                                  .experts = 8,
                                  .shared_experts = 1,
                                  .experts_used = 2,
                                  .expert_intermediate = 32,
                                  .first_expert_layer = 1};
    const uint64_t ends = 2 * 1000 * 64 + 64;
    vram_inference_memory memory = estimate(shape);
    assert_int_equal(memory.parameters, 30848 + 4 * 68224 + ends);
    assert_int_equal(memory.active_parameters, 30848 + 4 * 31360 + ends);
    assert_int_equal(memory.model_bytes, 2 * memory.parameters);
    shape.experts_used = 8;
    assert_int_equal(estimate(shape).active_parameters, memory.parameters);
}

TEST(shapes_that_make_no_sense) {
    vram_inference_shape shape = mistral;
    shape.kv_heads = 33;
    refused(shape, VRAM_ERR_INVALID, "kv_heads is 33, more than heads, 32");
    shape = mistral;
    shape.heads = 5000;
    refused(shape, VRAM_ERR_INVALID, "a head would be 0 wide");
    shape = mistral;
    shape.experts_used = 2;
    refused(shape, VRAM_ERR_INVALID, "experts is 0");
    shape.experts = 8;
    refused(shape, VRAM_ERR_INVALID, "expert_intermediate is 0");
    shape.expert_intermediate = 64;
    shape.experts_used = 9;
    refused(shape, VRAM_ERR_INVALID, "1 to 8");
    shape.experts_used = 0;
    refused(shape, VRAM_ERR_INVALID, "1 to 8");
    shape.experts_used = 1;
    shape.first_expert_layer = 33;
    refused(shape, VRAM_ERR_INVALID, "33 of 32 layers");
    shape = mistral;
    shape.size = 4;
    refused(shape, VRAM_ERR_INVALID, "size field");
    vram_inference_memory memory = {.size = sizeof memory};
    assert_int_equal(vram_inference_estimate(NULL, &memory), VRAM_ERR_INVALID);
    assert_int_equal(vram_inference_estimate(&mistral, NULL), VRAM_ERR_INVALID);
    memory.size = 3;
    assert_int_equal(vram_inference_estimate(&mistral, &memory), VRAM_ERR_INVALID);
}

/* ------------------------------------------------- item 9 of the acceptance list */

static vram_context *context_make(const char *sim) {
    vram_context_options options = {.size = sizeof options, .backends = "sim,host", .sim = sim};
    vram_context *context;
    assert_int_equal(vram_option_set("host_memory", "32G"), VRAM_OK);
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    return context;
}

static vram_status place_bytes(vram_context *context, uint64_t bytes, vram_model_place *place) {
    vram_model_select_options options = {.size = sizeof options, .bytes = bytes};
    *place = (vram_model_place){.size = sizeof *place, .device = 99};
    return vram_model_select(context, &options, place);
}

TEST(acceptance_09_a_gpu_has_room) {
    vram_context *context = context_make("devices=2,memory=16G");
    vram_model_place place = {.size = sizeof place};
    vram_inference_shape half = mistral;
    half.element_bytes = 2;
    vram_model_select_options options = {.size = sizeof options, .shape = &half};
    assert_int_equal(vram_model_select(context, &options, &place), VRAM_OK);
    assert_string_equal(place.backend, "sim");
    assert_int_equal(place.backend_index, 0);
    assert_int_equal(place.device, 0);
    assert_int_equal(place.bytes, UINT64_C(15020466176));
    vram_context_destroy(context);
}

TEST(acceptance_09_the_second_gpu) {
    vram_context *context = context_make("devices=2,memory=16G");
    vram_model_place place;
    assert_int_equal(vram_sim_others_set(context, 0, 8 * GIB), VRAM_OK);
    assert_int_equal(place_bytes(context, 12 * GIB, &place), VRAM_OK);
    assert_string_equal(place.backend, "sim");
    assert_int_equal(place.backend_index, 1);
    assert_int_equal(place.device, 1);
    vram_context_destroy(context);
}

TEST(acceptance_09_only_the_cpu) {
    vram_context *context = context_make("devices=2,memory=64M");
    vram_model_place place;
    assert_int_equal(place_bytes(context, 65 << 20, &place), VRAM_OK);
    assert_string_equal(place.backend, "host");
    assert_int_equal(place.device, 2);
    vram_context_destroy(context);
}

TEST(acceptance_09_none) {
    vram_context *context = context_make("devices=2,memory=16G");
    vram_model_place place;
    assert_int_equal(place_bytes(context, UINT64_C(1) << 50, &place), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(place.device, 99);
    assert_non_null(strstr(vram_error_get()->text, "No backend has enough memory"));
    vram_context_destroy(context);
}

TEST(selections_that_make_no_sense) {
    vram_context *context = context_make("devices=1,memory=16G");
    vram_model_place place = {.size = sizeof place};
    vram_model_select_options options = {.size = sizeof options};
    assert_int_equal(vram_model_select(context, NULL, &place), VRAM_ERR_INVALID);
    assert_int_equal(vram_model_select(context, &options, &place), VRAM_ERR_INVALID);
    options.bytes = 1;
    assert_int_equal(vram_model_select(context, &options, NULL), VRAM_ERR_INVALID);
    options.order = "nonsense";
    assert_int_equal(vram_model_select(context, &options, &place), VRAM_ERR_INVALID);
    options.order = NULL;
    options.shape = &mistral;
    assert_int_equal(vram_model_select(context, &options, &place), VRAM_ERR_INVALID);
    options.bytes = 0;
    vram_inference_shape no_heads = mistral;
    no_heads.heads = 0;
    options.shape = &no_heads;
    assert_int_equal(vram_model_select(context, &options, &place), VRAM_ERR_INVALID);
    vram_context_destroy(context);
}
