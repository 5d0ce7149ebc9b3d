/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vulkan_kernel.c: what the Vulkan backend reads in the code of a shader: which entry points
 * it has, and whether the size of a group is part of it. The code is that of saxpy, changed.
 */
#include "unit/vulkan_world.h"

enum {
    WORDS = sizeof saxpy_spirv / 4,
    ENTRY_POINT = 18,    /* OpEntryPoint GLCompute %4 "main" ... */
    EXECUTION_MODE = 25, /* OpExecutionMode %4 LocalSize 1 1 1 */
    NOP = 0x00010000,
    DECORATE = 0x00040047, /* ... %60 BuiltIn WorkgroupSize: the size is a constant */
    BUILT_IN = 11,
    GROUP_SIZE = 25
};

static uint32_t words[WORDS];
static struct vram_kernel_source source;

static int begin(void) {
    memcpy(words, saxpy_spirv, sizeof words);
    assert_int_equal(words[ENTRY_POINT], 7 << 16 | 15);
    assert_int_equal(words[EXECUTION_MODE], 6 << 16 | 16);
    source = saxpy_source;
    source.code = words;
    stage_open();
    return 0;
}

static vram_status load(vram_kernel **kernel) {
    return vram_kernel_create(stage.device, &source, kernel);
}

/* ----------------------------------------------------------------- what is refused */

static void other_format(void) {
    source.format = VRAM_KERNEL_PTX;
}

static void shorter_name(void) {
    source.entry = "mai";
}

static void longer_name(void) {
    source.entry = "main_and_many_more_letters_than_there_are_words";
}

static void vertex_shader(void) {
    words[ENTRY_POINT + 1] = 0;
}

static void no_name(void) {
    words[ENTRY_POINT] = 3 << 16 | 15; /* and what followed says nothing */
    for (int i = 3; i < 7; i++) {
        words[ENTRY_POINT + i] = NOP;
    }
}

static void no_whole_words(void) {
    source.code_bytes -= 2;
}

static void no_words(void) {
    source.code_bytes = 20; /* a head and nothing else */
}

static void no_end(void) {
    source.code_bytes -= 4; /* OpFunctionEnd */
}

static void no_length(void) {
    words[5] = 0x00000011;
}

static void beyond_the_end(void) {
    words[5] = 0xFFFF0011;
}

static void no_magic(void) {
    words[0] = 0;
}

/* Bad code never reaches the driver. */
TEST(code_is_looked_at) {
    static const struct {
        void (*change)(void);
        vram_status status;
        const char *why;
    } rows[] = {{other_format, VRAM_ERR_UNSUPPORTED, ""},
                {shorter_name, VRAM_ERR_INVALID, "no compute shader of the name mai"},
                {longer_name, VRAM_ERR_INVALID, "no compute shader of the name main_and"},
                {vertex_shader, VRAM_ERR_INVALID, "no compute shader of the name main"},
                {no_name, VRAM_ERR_INVALID, "no compute shader of the name main"},
                {no_end, VRAM_ERR_INVALID, "cut off"},
                {no_whole_words, VRAM_ERR_INVALID, ""},
                {no_words, VRAM_ERR_INVALID, ""},
                {no_length, VRAM_ERR_INVALID, ""},
                {beyond_the_end, VRAM_ERR_INVALID, ""},
                {no_magic, VRAM_ERR_INVALID, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_kernel *kernel = NULL;
        memcpy(words, saxpy_spirv, sizeof words);
        source = saxpy_source;
        source.code = words;
        rows[i].change();
        assert_int_equal(load(&kernel), rows[i].status);
        assert_non_null(strstr(vram_error_get()->text, rows[i].why));
        assert_null(kernel);
    }
    assert_int_equal(shim->calls("vkCreateShaderModule"), 0);
}

TEST(launches_keep_to_the_limits) {
    static const struct {
        uint32_t arguments, groups[3], size[3];
        vram_status status;
    } rows[] = {{32, {1, 1, 1}, {32, 1, 1}, VRAM_ERR_LIMIT},
                {0, {1, 1, 1}, {UINT32_MAX, 1, 1}, VRAM_ERR_LIMIT},
                {0, {1, 1, 1}, {1000, 1000, 1}, VRAM_ERR_LIMIT},
                {0, {1, 1, UINT32_MAX}, {1, 1, 1}, VRAM_ERR_LIMIT},
                {0, {1, 1, 1}, {1, 1, 1}, VRAM_OK}}; /* count is 0 */
    const uint64_t number = 0;
    const void *arguments[32];
    size_t bytes[32];
    vram_kernel *kernel = NULL;
    for (int i = 0; i < 32; i++) {
        arguments[i] = &number;
        bytes[i] = sizeof number;
    }
    assert_ok(load(&kernel));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_launch launch = {.size = sizeof launch,
                              .argument_count = rows[i].arguments,
                              .arguments = arguments,
                              .argument_bytes = bytes};
        memcpy(launch.groups, rows[i].groups, sizeof launch.groups);
        memcpy(launch.group_size, rows[i].size, sizeof launch.group_size);
        assert_int_equal(vram_queue_launch(stage.queue, kernel, &launch), rows[i].status);
    }
    finish();
    vram_kernel_destroy(kernel);
}

/* The instruction becomes so many that say nothing. */
static void erase(size_t at) {
    for (uint32_t i = 0, count = words[at] >> 16; i < count; i++) {
        words[at + i] = NOP;
    }
}

static size_t group_size_decoration(void) {
    size_t at = 0;
    while (words[at] != DECORATE || words[at + 2] != BUILT_IN || words[at + 3] != GROUP_SIZE) {
        assert_true(++at + 3 < WORDS);
    }
    return at;
}

/* ---------------------------------------------------------------- group sizes */

/* y = a x + y over 64 floats in groups of 32. */
static vram_status run(vram_kernel *kernel, uint32_t group) {
    float x[64], y[64], a = 2;
    uint32_t count = 64;
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    vram_addr of_y = take(sizeof y), of_x = take(sizeof x);
    assert_ok(vram_queue_upload(stage.queue, of_y, y, sizeof y));
    assert_ok(vram_queue_upload(stage.queue, of_x, x, sizeof x));
    const vram_launch launch = {.size = sizeof launch,
                                .groups = {64 / group, 1, 1},
                                .group_size = {group, 1, 1},
                                .argument_count = 4,
                                .arguments = (const void *[]){&of_y, &of_x, &a, &count},
                                .argument_bytes = (size_t[]){8, 8, 4, 4},
                                .address_mask = 3};
    vram_status status = vram_queue_launch(stage.queue, kernel, &launch);
    assert_ok(vram_queue_download(stage.queue, y, of_y, sizeof y));
    finish();
    for (int i = 0; i < 64; i++) {
        assert_true(y[i] == (status == VRAM_OK ? 2.0f * (float)i + 1 : 1));
    }
    give(of_y);
    give(of_x);
    return status;
}

/* A size that is part of the code is the only one that the kernel is launched with. */
TEST(sizes_of_the_code_are_kept_to) {
    vram_kernel *kernel = NULL;
    erase(group_size_decoration());
    words[EXECUTION_MODE + 3] = 32;
    assert_int_equal(load(&kernel), VRAM_OK);
    assert_int_equal(run(kernel, 16), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "groups of 32 x 1 x 1"));
    assert_int_equal(run(kernel, 32), VRAM_OK);
    vram_kernel_destroy(kernel);
}

/* By constants: a pipeline for each size, which the next launch finds again. */
TEST(every_size_has_a_pipeline) {
    static const uint32_t sizes[] = {16, 32, 64, 16, 32};
    vram_kernel *kernel = NULL;
    assert_int_equal(load(&kernel), VRAM_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run(kernel, sizes[i]), VRAM_OK);
    }
    assert_int_equal(shim->calls("vkCreateComputePipelines"), 3);
    vram_kernel_destroy(kernel);
}

/* Modes of other entry points, and other modes, are not the size. */
TEST(other_modes_are_no_size) {
    static const struct {
        int word;
        uint32_t value;
    } changes[] = {{1, 5}, {2, 18}, {0, 3 << 16 | 16}}; /* of %5; LocalSizeHint; without a size */
    for (int i = 0; i < 3; i++) {
        vram_kernel *kernel = NULL;
        memcpy(words, saxpy_spirv, sizeof words);
        erase(group_size_decoration());
        words[EXECUTION_MODE + changes[i].word] = changes[i].value;
        for (int j = 3; i == 2 && j < 6; j++) {
            words[EXECUTION_MODE + j] = NOP;
        }
        assert_int_equal(load(&kernel), VRAM_OK);
        shim->refuse("vkCreateComputePipelines", 1, VR_VK_UNKNOWN, false);
        assert_int_equal(run(kernel, 16), VRAM_ERR_BACKEND); /* any size is handed to the driver */
        assert_int_equal(shim->struck(), 1);
        vram_kernel_destroy(kernel);
    }
}

WHOLE_FILE(shim_open, NULL)
EACH_TEST(begin, stage_end)
