/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_estimate.c: models laid out over devices, held against sums worked out by hand; what
 * fits; and what makes no sense.
 */
#include "byte_units.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static vram_model model;
static vram_estimate estimate;
static vram_fit fit;

static int fresh(void **state) {
    (void)state;
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    estimate.size = sizeof estimate;
    fit.size = sizeof fit;
    return 0;
}

static void read_config(const char *name) {
    char path[1024];
    fresh(NULL);
    snprintf(path, sizeof path, "%s/%s.json", MODEL_CONFIGS, name);
    assert_int_equal(vram_model_read(path, NULL, &model), VRAM_OK);
}

/* Ten layers of 1000 bytes; a token caches 4 + 4 numbers in each. */
static void toy(void) {
    fresh(NULL);
    model.format = VRAM_MODEL_SAFETENSORS;
    model.layer_count = 10;
    model.kv_known = true;
    model.hidden = 16;
    model.vocabulary = 100;
    model.heads = 4;
    model.kv_heads = 1;
    model.head_elements = 4;
    model.intermediate = 32;
    model.context_most = 8192;
    model.input_bytes = 5000;
    model.output_bytes = 7000;
    for (uint32_t i = 0; i < 10; i++) {
        model.layers[i] =
            (vram_model_layer){.weight_bytes = 1000, .k_elements = 4, .v_elements = 4};
    }
    model.weight_bytes = 10 * 1000 + 5000 + 7000;
}

static vram_estimate_options on(const vram_estimate_device *devices, uint32_t count) {
    return (vram_estimate_options){.size = sizeof(vram_estimate_options),
                                   .context = 100,
                                   .micro_batch = 10,
                                   .devices = devices,
                                   .device_count = count};
}

static void get(const vram_estimate_options *options) {
    assert_int_equal(vram_estimate_get(&model, options, &estimate), VRAM_OK);
    uint64_t total = estimate.host.total_bytes;
    uint32_t layers = estimate.host.layers;
    for (uint32_t i = 0; i < estimate.device_count; i++) {
        const vram_estimate_part *part = &estimate.devices[i];
        assert_int_equal(part->total_bytes, part->weight_bytes + part->kv_bytes +
                                                part->compute_bytes + part->overhead_bytes);
        total += part->total_bytes;
        layers += part->layers;
    }
    assert_int_equal(estimate.total_bytes, total);
    assert_int_equal(layers, model.layer_count);
}

#define NONE                                                                                       \
    { 0, true }

/* ---------------------------------------------------------------------- sums */

/* u = 10 tokens at once, 4 bytes, 100 tokens back. */
enum {
    TOY_MASK = 10 * 100 * 2,
    TOY_ATTENTION = TOY_MASK + 10 * 4 * (2 * 16 + 16 + 8),
    TOY_FEED = TOY_MASK + 10 * 4 * (2 * 16 + 2 * 32),
    TOY_OUTPUT = 10 * 4 * 100 + 10 * 4 * 16
};

static void one_device_has_it_all(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = GIB};
    vram_estimate_options options = on(&device, 1);
    toy();
    get(&options);
    const vram_estimate_part *part = &estimate.devices[0];
    assert_true(estimate.fits && part->fits && part->has_input && part->has_output);
    assert_int_equal(part->weight_bytes, model.weight_bytes);
    assert_int_equal(part->kv_bytes, 10 * 100 * 8 * 2);
    assert_int_equal(part->compute_bytes, TOY_FEED > TOY_OUTPUT ? TOY_FEED : TOY_OUTPUT);
    assert_int_equal(part->overhead_bytes, 512 * MIB); /* as nothing was told */
    assert_int_equal(estimate.host.total_bytes, 0);
    assert_int_equal(estimate.token_bytes, 10 * 8 * 2);
    assert_int_equal(estimate.layers_on_devices, 10);
}

static void attention_without_flash_has_its_scores(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    options.no_flash_attention = true;
    get(&options);
    assert_int_equal(estimate.compute_bytes,
                     10 * 100 * 4 + 10 * 4 * (2 * 16 + 16 + 8) + 10 * 100 * 4 * 4);
    options.sequences = 4; /* each of them looks back at 25 tokens */
    get(&options);
    assert_int_equal(estimate.compute_bytes,
                     10 * 25 * 4 + 10 * 4 * (2 * 16 + 16 + 8) + 10 * 25 * 4 * 4);
    options.no_flash_attention = false;
    get(&options);
    assert_int_equal(estimate.compute_bytes, TOY_OUTPUT);
    options.outputs = 1;
    options.activation_bytes = 2;
    get(&options);
    assert_int_equal(estimate.compute_bytes, 10 * 25 * 2 + 10 * 2 * (2 * 16 + 2 * 32));
}

static void windows_and_states(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    model.layers[0].window = 20; /* keeps 20 + 10 tokens */
    model.layers[1].window = 95; /* would keep more than there are */
    model.layers[2] = (vram_model_layer){.weight_bytes = 1000, .state_elements = 33};
    get(&options);
    assert_int_equal(estimate.kv_bytes, (30 + 100 + 7 * 100) * 8 * 2 + 33 * 4);
    options.sequences = 2; /* 50 tokens each */
    get(&options);
    assert_int_equal(estimate.kv_bytes, (2 * 30 + 100 + 7 * 100) * 8 * 2 + 2 * 33 * 4);
    options.sequences = 10; /* 10 tokens each: no window is reached */
    get(&options);
    assert_int_equal(estimate.kv_bytes, 9 * 100 * 8 * 2 + 10 * 33 * 4);
}

static void caches_by_type(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = 200 * GIB};
    vram_estimate_options options = on(&device, 1);
    read_config("llama3_8b");
    options.context = 8192;
    get(&options);
    assert_int_equal(estimate.kv_bytes, GIB);
    options.k_type = "q8_0";
    options.v_type = "q4_0";
    get(&options);
    assert_int_equal(estimate.kv_bytes, UINT64_C(8192) * 32 * (1024 / 32 * 34 + 1024 / 32 * 18));
    options.context = VRAM_CONTEXT_MOST;
    get(&options);
    assert_int_equal(estimate.context, 8192);
    options.context = 0;
    get(&options);
    assert_int_equal(estimate.context, 4096);
}

/* ------------------------------------------------------------------- devices */

static void layers_are_split_in_order(void **state) {
    (void)state;
    /* A layer takes 1000 and 1600 of cache; the input 5000; compute TOY_FEED. */
    const uint64_t layer = 1000 + 1600;
    const vram_estimate_device devices[] = {
        {.free_bytes = 5000 + TOY_FEED + 3 * layer, .overhead_bytes = NONE},
        {.free_bytes = 10, .overhead_bytes = NONE},
        {.free_bytes = 100 + TOY_FEED + 6 * layer, .overhead_bytes = {100, true}},
        {.free_bytes = MIB, .overhead_bytes = NONE},
    };
    vram_estimate_options options = on(devices, 4);
    toy();
    get(&options);
    assert_true(estimate.fits);
    assert_int_equal(estimate.devices[0].layers, 3);
    assert_true(estimate.devices[0].has_input);
    assert_int_equal(estimate.devices[0].total_bytes, devices[0].free_bytes);
    assert_int_equal(estimate.devices[1].total_bytes, 0);
    assert_true(estimate.devices[1].fits);
    assert_int_equal(estimate.devices[2].first_layer, 3);
    assert_int_equal(estimate.devices[2].layers, 6);
    assert_int_equal(estimate.devices[2].total_bytes, devices[2].free_bytes);
    assert_int_equal(estimate.devices[3].layers, 1);
    assert_true(estimate.devices[3].has_output);
    options.device_count = 3; /* the last one gets what is left, and is too small for it */
    get(&options);
    assert_false(estimate.fits);
    assert_true(estimate.devices[0].fits);
    assert_false(estimate.devices[2].fits);
    assert_int_equal(estimate.devices[2].layers, 7);
}

static void some_layers_stay_on_the_host(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    options.layers =
        (vram_value){4, true}; /* the last four, as llama.cpp does it; not the output */
    get(&options);
    assert_int_equal(estimate.devices[0].first_layer, 6);
    assert_int_equal(estimate.devices[0].layers, 4);
    assert_int_equal(estimate.devices[0].weight_bytes, 4000 + 5000);
    assert_int_equal(estimate.host.layers, 6);
    assert_int_equal(estimate.host.weight_bytes, 6000 + 7000);
    assert_true(estimate.host.has_output && estimate.host.fits);
    options.layers.value = 11;
    get(&options);
    assert_true(estimate.devices[0].has_output);
    assert_int_equal(estimate.host.total_bytes, 0);
    options.host_free_bytes = (vram_value){1000, true};
    options.layers.value = 0;
    get(&options);
    assert_false(estimate.fits);
    assert_int_equal(estimate.devices[0].total_bytes, 0);
    assert_int_equal(estimate.host.layers, 10);
    options.device_count = 0;
    options.host_free_bytes.known = false;
    get(&options);
    assert_true(estimate.fits);
    assert_int_equal(estimate.host.weight_bytes, model.weight_bytes);
}

/* GGUF: llama.cpp keeps the input on the host, and copies a tied one for the output. */
static void input_is_where_the_engine_has_it(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    model.format = VRAM_MODEL_GGUF;
    get(&options);
    assert_int_equal(estimate.devices[0].weight_bytes, 10 * 1000 + 7000);
    assert_int_equal(estimate.host.weight_bytes, 5000);
    model.tied = true;
    get(&options);
    assert_int_equal(estimate.devices[0].weight_bytes, 10 * 1000 + 7000 + 5000);
    assert_int_equal(estimate.host.weight_bytes, 5000);
    options.input = VRAM_INPUT_ON_DEVICE;
    get(&options);
    assert_int_equal(estimate.devices[0].weight_bytes, 10 * 1000 + 7000 + 5000);
    assert_int_equal(estimate.host.total_bytes, 0);
    model.format = VRAM_MODEL_CONFIG;
    options.input = VRAM_INPUT_ON_HOST;
    get(&options);
    assert_int_equal(estimate.host.weight_bytes, 5000);
    /* input on the first of two devices, a copy of it on the second */
    const vram_estimate_device two[] = {{.free_bytes = 13000, .overhead_bytes = NONE},
                                        {.free_bytes = GIB, .overhead_bytes = NONE}};
    options = on(two, 2);
    get(&options);
    assert_true(estimate.devices[0].has_input && estimate.devices[1].has_output);
    assert_int_equal(estimate.weight_bytes, model.weight_bytes + 5000);
}

/* -------------------------------------------------------------------- solving */

static void largest_context_and_most_layers(void **state) {
    (void)state;
    vram_estimate_device device = {.free_bytes = 20 * GIB};
    vram_estimate_options options = on(&device, 1);
    read_config("llama3_70b");
    options.context = 4096;
    assert_int_equal(vram_fit_get(&model, &options, &fit), VRAM_OK);
    assert_int_equal(fit.context, 0);
    assert_true(fit.layers.known);
    options.layers = fit.layers;
    get(&options);
    assert_true(estimate.fits);
    options.layers.value++;
    get(&options);
    assert_false(estimate.fits);
    read_config("qwen3_8b"); /* 16.4 GB of weights, 147456 bytes a token, 40960 tokens */
    options = on(&device, 1);
    assert_int_equal(vram_fit_get(&model, &options, &fit), VRAM_OK);
    assert_int_equal(fit.layers.value, 37);
    assert_int_equal(fit.context % 256, 0);
    options.context = fit.context;
    get(&options);
    assert_true(estimate.fits);
    options.context += 256;
    get(&options);
    assert_false(estimate.fits);
    device.free_bytes = 100 * GIB; /* all that it was made for */
    assert_int_equal(vram_fit_get(&model, &options, &fit), VRAM_OK);
    assert_int_equal(fit.context, 40960);
    device.free_bytes = 0; /* with nothing on the device it is the host's matter */
    assert_int_equal(vram_fit_get(&model, &options, &fit), VRAM_OK);
    assert_int_equal(fit.context, 0);
    assert_true(fit.layers.known);
    assert_int_equal(fit.layers.value, 0);
    options.host_free_bytes = (vram_value){1, true};
    assert_int_equal(vram_fit_get(&model, &options, &fit), VRAM_OK);
    assert_false(fit.layers.known);
}

/* A larger context, batch or number of sequences never takes less. */
static void more_never_takes_less(void **state) {
    (void)state;
    static const char *const names[] = {"llama3_8b",   "gemma3_4b",      "deepseek_v3",
                                        "gpt_oss_20b", "qwen3_next_80b", "falcon_7b"};
    const vram_estimate_device devices[] = {{.free_bytes = 8 * GIB}, {.free_bytes = 800 * GIB}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint64_t last = 0;
        read_config(names[i]);
        for (uint64_t context = 64; context < 1 << 20; context += context / 3) {
            vram_estimate_options options = on(devices, 2);
            options.context = context;
            options.micro_batch = 512;
            get(&options);
            assert_true(estimate.kv_bytes >= last);
            last = estimate.kv_bytes;
            uint64_t total = estimate.total_bytes;
            options.micro_batch = 1024;
            get(&options);
            assert_true(estimate.total_bytes >= total);
            options.sequences = 3;
            get(&options);
            assert_true(estimate.kv_bytes + 64 * MIB >= last);
        }
    }
}

/* ------------------------------------------------------------------ bad input */

static void refused(const vram_estimate_options *options, vram_status status, const char *word) {
    assert_int_equal(vram_estimate_get(&model, options, &estimate), status);
    if (!strstr(vram_error_get()->text, word)) {
        fail_msg("\"%s\" is not in \"%s\"", word, vram_error_get()->text);
    }
    assert_int_equal(vram_fit_get(&model, options, &fit),
                     status == VRAM_ERR_OVERFLOW ? VRAM_OK : status);
}

static void options_that_make_no_sense(void **state) {
    (void)state;
    const vram_estimate_device device = {.free_bytes = GIB};
    vram_estimate_options options = on(&device, 1);
    toy();
    options.device_count = 17;
    refused(&options, VRAM_ERR_INVALID, "17 devices");
    options = on(NULL, 1);
    refused(&options, VRAM_ERR_INVALID, "devices is NULL");
    options = on(&device, 1);
    options.sequences = 101;
    refused(&options, VRAM_ERR_INVALID, "101 sequences share 100 tokens");
    options = on(&device, 1);
    options.k_type = "q6_K";
    refused(&options, VRAM_ERR_INVALID, "q6_K");
    options.k_type = "q8_0"; /* blocks of 32, and 4 keys */
    refused(&options, VRAM_ERR_INVALID, "layer 0 caches 4 and 4");
    options = on(&device, 1);
    options.input = (vram_input_place)7;
    refused(&options, VRAM_ERR_INVALID, "place of the input");
    options = on(&device, 1);
    options.context = UINT64_MAX - 1;
    refused(&options, VRAM_ERR_OVERFLOW, "64 bits");
    options.context = 100;
    options.outputs = UINT64_MAX;
    refused(&options, VRAM_ERR_OVERFLOW, "64 bits");
    options = on(&device, 1);
    options.context = VRAM_CONTEXT_MOST;
    model.context_most = 0;
    refused(&options, VRAM_ERR_INVALID, "does not say");
    options.size = 1;
    refused(&options, VRAM_ERR_INVALID, "size field");
    model.kv_known = false;
    options = on(&device, 1);
    refused(&options, VRAM_ERR_UNSUPPORTED, "config.json");
    model.layer_count = VRAM_MODEL_LAYERS_MAX + 1;
    refused(&options, VRAM_ERR_INVALID, "the model is NULL or invalid");
    assert_int_equal(vram_estimate_get(NULL, &options, &estimate), VRAM_ERR_INVALID);
    assert_int_equal(vram_fit_get(NULL, &options, &fit), VRAM_ERR_INVALID);
    toy();
    assert_int_equal(vram_estimate_get(&model, &options, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_fit_get(&model, &options, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_estimate_get(&model, NULL, &estimate), VRAM_OK); /* all on the host */
    assert_int_equal(estimate.device_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_device_has_it_all, fresh),
        cmocka_unit_test_setup(attention_without_flash_has_its_scores, fresh),
        cmocka_unit_test_setup(windows_and_states, fresh),
        cmocka_unit_test_setup(caches_by_type, fresh),
        cmocka_unit_test_setup(layers_are_split_in_order, fresh),
        cmocka_unit_test_setup(some_layers_stay_on_the_host, fresh),
        cmocka_unit_test_setup(input_is_where_the_engine_has_it, fresh),
        cmocka_unit_test_setup(largest_context_and_most_layers, fresh),
        cmocka_unit_test_setup(more_never_takes_less, fresh),
        cmocka_unit_test_setup(options_that_make_no_sense, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
