/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model_estimate.c: models laid out over devices, held against sums worked out by hand; what
 * fits; and what makes no sense.
 */
#include "byte_units.h"
#include "rig/rig.h"
#include "vram/model.h"
#include "vram/vram.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static vram_model model;
static vram_estimate estimate;
static vram_fit fit;

static int fresh(void) {
    memset(&model, 0, sizeof model);
    model.size = sizeof model;
    estimate.size = sizeof estimate;
    fit.size = sizeof fit;
    return 0;
}

static void read_config(const char *name) {
    char path[1024];
    fresh();
    snprintf(path, sizeof path, "%s/%s.json", MODEL_CONFIGS, name);
    assert_int_equal(vram_model_read(path, NULL, &model), VRAM_OK);
}

/* Ten layers of 1000 bytes; a token caches 4 + 4 numbers in each. */
static void toy(void) {
    fresh();
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
                                   .context = 1024,
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

/* u = 10 tokens at once, 4 bytes, 1024 tokens back. */
enum {
    TOY_MASK = 10 * 1024 * 2,
    TOY_ATTENTION = TOY_MASK + 10 * 4 * (2 * 16 + 16 + 8),
    TOY_FEED = TOY_MASK + 10 * 4 * (2 * 16 + 2 * 32),
    TOY_OUTPUT = 10 * 4 * 100 + 10 * 4 * 16
};

TEST(one_device_has_it_all) {
    const vram_estimate_device device = {.free_bytes = GIB};
    vram_estimate_options options = on(&device, 1);
    toy();
    get(&options);
    const vram_estimate_part *part = &estimate.devices[0];
    assert_true(estimate.fits && part->fits && part->has_input && part->has_output);
    assert_int_equal(part->weight_bytes, model.weight_bytes);
    assert_int_equal(part->kv_bytes, 10 * 1024 * 8 * 2);
    assert_int_equal(part->compute_bytes, TOY_FEED > TOY_OUTPUT ? TOY_FEED : TOY_OUTPUT);
    assert_int_equal(part->overhead_bytes, 512 * MIB); /* as nothing was told */
    assert_int_equal(estimate.host.total_bytes, 0);
    assert_int_equal(estimate.token_bytes, 10 * 8 * 2);
    assert_int_equal(estimate.layers_on_devices, 10);
}

TEST(attention_without_flash_has_its_scores) {
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    options.no_flash_attention = true;
    get(&options);
    assert_int_equal(estimate.compute_bytes,
                     10 * 1024 * 4 + 10 * 4 * (2 * 16 + 16 + 8) + 10 * 1024 * 4 * 4);
    options.sequences = 4; /* each of them looks back at 256 tokens */
    get(&options);
    assert_int_equal(estimate.compute_bytes,
                     10 * 256 * 4 + 10 * 4 * (2 * 16 + 16 + 8) + 10 * 256 * 4 * 4);
    options.no_flash_attention = false;
    get(&options);
    assert_int_equal(estimate.compute_bytes, 10 * 256 * 2 + 10 * 4 * (2 * 16 + 2 * 32));
    options.activation_bytes = 1;
    get(&options);
    assert_int_equal(estimate.compute_bytes, 10 * 256 * 2 + 10 * (2 * 16 + 2 * 32));
    options.context = 256; /* of which each sequence still has 256 */
    options.sequences = 1;
    model.vocabulary = 1000;
    get(&options);
    assert_int_equal(estimate.compute_bytes, 10 * 4 * 1000 + 10 * 16);
    options.outputs = 1;
    get(&options);
    assert_int_equal(estimate.compute_bytes, 10 * 256 * 2 + 10 * (2 * 16 + 2 * 32));
}

/* llama.cpp rounds up to 256 tokens: those of a sequence, and those that a window stores. */
TEST(windows_and_states) {
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    model.layers[0].window = 20;  /* 20 + 10 tokens, rounded up */
    model.layers[1].window = 500; /* 510 */
    model.layers[2] = (vram_model_layer){.weight_bytes = 1000, .state_elements = 33};
    get(&options);
    assert_int_equal(estimate.kv_bytes, (256 + 512 + 7 * 1024) * 8 * 2 + 33 * 4);
    options.sequences = 2; /* 512 tokens each */
    get(&options);
    assert_int_equal(estimate.kv_bytes, 2 * ((256 + 512 + 7 * 512) * 8 * 2 + 33 * 4));
    options.sequences = 3; /* 341 tokens each, rounded up to 512 */
    get(&options);
    assert_int_equal(estimate.kv_bytes, 3 * ((256 + 512 + 7 * 512) * 8 * 2 + 33 * 4));
    options.sequences = 4; /* 256 tokens each: no window is reached */
    get(&options);
    assert_int_equal(estimate.kv_bytes, 4 * (9 * 256 * 8 * 2 + 33 * 4));
    options.sequences = 1;
    options.micro_batch = 13; /* 500 + 13 is more than 512 */
    get(&options);
    assert_int_equal(estimate.kv_bytes, (256 + 768 + 7 * 1024) * 8 * 2 + 33 * 4);
    options.swa_full = true;
    get(&options);
    assert_int_equal(estimate.kv_bytes, 9 * 1024 * 8 * 2 + 33 * 4);
    options.swa_full = false;
    options.context = 1000; /* rounded up as well */
    options.micro_batch = 10;
    get(&options);
    assert_int_equal(estimate.kv_bytes, (256 + 512 + 7 * 1024) * 8 * 2 + 33 * 4);
    assert_int_equal(estimate.context, 1000);
}

TEST(caches_by_type) {
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

TEST(layers_are_split_in_order) {
    /* A layer takes 1000 and its cache; the input 5000; compute TOY_FEED. */
    const uint64_t layer = 1000 + 1024 * 8 * 2;
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

/* -ngl of llama.cpp: the output is the last layer of all. */
TEST(some_layers_stay_on_the_host) {
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    options.layers = (vram_value){1, true};
    get(&options);
    assert_true(estimate.devices[0].has_output);
    assert_int_equal(estimate.devices[0].layers, 0);
    assert_int_equal(estimate.devices[0].weight_bytes, 7000 + 5000);
    assert_int_equal(estimate.host.layers, 10);
    assert_false(estimate.host.has_output);
    options.layers.value = 4; /* the output and the last three */
    get(&options);
    assert_int_equal(estimate.devices[0].first_layer, 7);
    assert_int_equal(estimate.devices[0].layers, 3);
    assert_int_equal(estimate.devices[0].weight_bytes, 3000 + 7000 + 5000);
    assert_int_equal(estimate.host.layers, 7);
    assert_int_equal(estimate.host.weight_bytes, 7000);
    assert_true(estimate.devices[0].has_output && estimate.host.fits);
    options.layers.value = 10; /* all but the first */
    get(&options);
    assert_int_equal(estimate.devices[0].first_layer, 1);
    assert_int_equal(estimate.host.weight_bytes, 1000);
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
    assert_true(estimate.host.has_output);
    options.device_count = 0;
    options.host_free_bytes.known = false;
    get(&options);
    assert_true(estimate.fits);
    assert_int_equal(estimate.host.weight_bytes, model.weight_bytes);
}

/* -ts of llama.cpp: device i has the layers whose place among all, the output included, is below
   the sum of the shares up to it. */
TEST(layers_are_split_by_shares) {
    static const struct {
        double shares[3];
        uint32_t layers[3], ngl;
        uint32_t output;
    } rows[] = {
        {{3, 1, 0}, {9, 1, 0}, 11, 1}, /* 11 places: 0 to 8 are below 3/4 */
        {{1, 1, 1}, {4, 4, 2}, 11, 2},
        {{0, 1, 1}, {0, 6, 4}, 11, 2},
        {{1, 0, 1}, {6, 0, 4}, 11, 2},
        {{1, 1, 0}, {2, 1, 0}, 4, 1}, /* four places: three layers and the output */
        {{5, 0, 0}, {10, 0, 0}, 11, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_estimate_device devices[3];
        for (uint32_t k = 0; k < 3; k++) {
            devices[k] = (vram_estimate_device){
                .free_bytes = 10, .overhead_bytes = NONE, .share = rows[i].shares[k]};
        }
        vram_estimate_options options = on(devices, 3);
        toy();
        model.format = VRAM_MODEL_GGUF; /* the input is on the host */
        options.layers = (vram_value){rows[i].ngl, true};
        get(&options);
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(estimate.devices[k].layers, rows[i].layers[k]);
            assert_int_equal(estimate.devices[k].has_output, k == rows[i].output);
        }
        assert_false(estimate.fits); /* no other device takes what does not fit */
    }
}

/* -ncmoe of llama.cpp. */
TEST(experts_may_stay_on_the_host) {
    const vram_estimate_device device = {.free_bytes = GIB, .overhead_bytes = NONE};
    vram_estimate_options options = on(&device, 1);
    toy();
    for (uint32_t i = 2; i < 10; i++) {
        model.layers[i].expert_bytes = 900; /* the first two layers are dense */
    }
    options.host_expert_layers = 4;
    get(&options);
    assert_int_equal(estimate.host.weight_bytes, 2 * 900);
    assert_int_equal(estimate.host.expert_layers, 2);
    assert_int_equal(estimate.host.layers, 0);
    assert_int_equal(estimate.devices[0].weight_bytes, model.weight_bytes - 2 * 900);
    assert_int_equal(estimate.devices[0].kv_bytes, 10 * 1024 * 8 * 2);
    options.layers = (vram_value){7, true}; /* the first four layers are on the host as a whole */
    get(&options);
    assert_int_equal(estimate.host.weight_bytes, 4 * 1000);
    assert_int_equal(estimate.host.expert_layers, 0);
    options.host_expert_layers = UINT64_MAX;
    get(&options);
    assert_int_equal(estimate.host.weight_bytes, 4 * 1000 + 6 * 900);
    assert_int_equal(estimate.host.expert_layers, 6);
}

/* llama.cpp has it on the first device even if no layer is on one. */
TEST(projector_is_on_the_first_device) {
    const vram_estimate_device devices[] = {{.free_bytes = GIB, .overhead_bytes = NONE},
                                            {.free_bytes = GIB, .overhead_bytes = NONE}};
    vram_estimate_options options = on(devices, 2);
    toy();
    model.format = VRAM_MODEL_GGUF;
    model.other_bytes = 330;
    model.projector_bytes = 300;
    model.weight_bytes += 330;
    options.layers = (vram_value){0, true};
    get(&options);
    assert_int_equal(estimate.devices[0].weight_bytes, 300);
    assert_int_equal(estimate.devices[1].weight_bytes, 0);
    assert_int_equal(estimate.host.weight_bytes, model.weight_bytes - 300);
    options.layers.known = false;
    get(&options);
    assert_int_equal(estimate.devices[0].weight_bytes, 330 + 10 * 1000 + 7000);
    assert_int_equal(estimate.host.weight_bytes, 5000);
    options.device_count = 0;
    get(&options);
    assert_int_equal(estimate.host.weight_bytes, model.weight_bytes);
}

/* GGUF: llama.cpp keeps the input on the host, and copies a tied one for the output. */
TEST(input_is_where_the_engine_has_it) {
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
    const vram_estimate_device two[] = {{.free_bytes = 50000, .overhead_bytes = NONE},
                                        {.free_bytes = GIB, .overhead_bytes = NONE}};
    options = on(two, 2);
    get(&options);
    assert_true(estimate.devices[0].has_input && estimate.devices[1].has_output);
    assert_int_equal(estimate.weight_bytes, model.weight_bytes + 5000);
}

/* -------------------------------------------------------------------- solving */

TEST(largest_context_and_most_layers) {
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
TEST(more_never_takes_less) {
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

TEST(options_that_make_no_sense) {
    const vram_estimate_device device = {.free_bytes = GIB};
    vram_estimate_options options = on(&device, 1);
    toy();
    options.device_count = 17;
    refused(&options, VRAM_ERR_INVALID, "17 devices");
    options = on(NULL, 1);
    refused(&options, VRAM_ERR_INVALID, "devices is NULL");
    options = on(&device, 1);
    options.sequences = 1025;
    refused(&options, VRAM_ERR_INVALID, "1025 sequences cannot share a context of 1024 tokens");
    vram_estimate_device shared = {.free_bytes = GIB, .share = -1};
    options = on(&shared, 1);
    refused(&options, VRAM_ERR_INVALID, "the share of device 0");
    shared.share = NAN;
    refused(&options, VRAM_ERR_INVALID, "the share of device 0");
    shared.share = INFINITY;
    refused(&options, VRAM_ERR_INVALID, "the share of device 0");
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
    snprintf(model.architecture, sizeof model.architecture, "abc");
    refused(&options, VRAM_ERR_UNSUPPORTED, "what a layer of \"abc\" caches is not known");
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

EACH_TEST(fresh, NULL)
