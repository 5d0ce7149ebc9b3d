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

static struct world world;
static uint32_t words[WORDS];
static struct vram_kernel_source source;

static int open_shim(void) {
    shim_open();
    return 0;
}

static int begin(void) {
    memcpy(words, saxpy_spirv, sizeof words);
    assert_int_equal(words[ENTRY_POINT], 7 << 16 | 15);
    assert_int_equal(words[EXECUTION_MODE], 6 << 16 | 16);
    source = saxpy_source;
    source.code = words;
    world = (struct world){.device.impl = NULL};
    world_open(&world);
    return 0;
}

static int end(void) {
    world_close(&world);
    return 0;
}

static vram_status load(void **kernel) {
    return world.device.kernel->load(&world.device, &source, kernel);
}

static void assert_refused(const char *why) {
    void *kernel = NULL;
    assert_int_equal(load(&kernel), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, why));
    assert_null(kernel);
    assert_int_equal(shim->calls("vkCreateShaderModule"), 0);
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

/* --------------------------------------------------------------- entry points */

TEST(names_longer_than_the_instruction_are_none) {
    source.entry = "main_and_many_more_letters_than_there_are_words";
    assert_refused("no compute shader of the name main_and");
}

TEST(shaders_of_other_kinds_are_none) {
    words[ENTRY_POINT + 1] = 0; /* a vertex shader */
    assert_refused("no compute shader of the name main");
}

TEST(entry_points_without_a_name_are_none) {
    words[ENTRY_POINT] = 3 << 16 | 15; /* and what followed says nothing */
    for (int i = 3; i < 7; i++) {
        words[ENTRY_POINT + i] = NOP;
    }
    assert_refused("no compute shader of the name main");
}

TEST(code_that_is_cut_off_is_refused) {
    source.code_bytes -= 4; /* OpFunctionEnd */
    assert_refused("cut off");
}

/* ---------------------------------------------------------------- group sizes */

/* y = a x + y over 64 floats in groups of 32. */
static vram_status run(void *kernel, uint32_t group) {
    struct vr_native natives[2];
    float x[64], y[64], a = 2;
    uint32_t count = 64;
    vram_addr addr = 0;
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    const struct vr_queue_ops *ops = world.device.queue_ops;
    const struct vr_handle_ops *handles = world.device.handles;
    assert_int_equal(world.device.ops->alloc(&world.device, GRANULE, &addr), VRAM_OK);
    assert_int_equal(ops->upload(&world.queue, addr, y, sizeof y), VRAM_OK);
    assert_int_equal(ops->upload(&world.queue, addr + 4096, x, sizeof x), VRAM_OK);
    assert_int_equal(handles->native(&world.device, addr, 0, &natives[0]), VRAM_OK);
    assert_int_equal(handles->native(&world.device, addr + 4096, 0, &natives[1]), VRAM_OK);
    const struct vram_launch launch = {
        .size = sizeof launch,
        .groups = {64 / group, 1, 1},
        .group_size = {group, 1, 1},
        .argument_count = 4,
        .arguments = (const void *[]){&natives[0], &natives[1], &a, &count},
        .argument_bytes = (size_t[]){sizeof natives[0], sizeof natives[1], 4, 4},
        .address_mask = 3};
    vram_status status = world.device.kernel->launch(&world.queue, kernel, &launch);
    assert_int_equal(ops->download(&world.queue, y, addr, sizeof y), VRAM_OK);
    for (int i = 0; i < 64; i++) {
        assert_true(y[i] == (status == VRAM_OK ? 2.0f * (float)i + 1 : 1));
    }
    assert_int_equal(world.device.ops->free(&world.device, addr, GRANULE), VRAM_OK);
    return status;
}

/* A size that is part of the code is the only one that the kernel is launched with. */
TEST(sizes_of_the_code_are_kept_to) {
    void *kernel = NULL;
    erase(group_size_decoration());
    words[EXECUTION_MODE + 3] = 32;
    assert_int_equal(load(&kernel), VRAM_OK);
    assert_int_equal(run(kernel, 16), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "groups of 32 x 1 x 1"));
    assert_int_equal(run(kernel, 32), VRAM_OK);
    world.device.kernel->unload(&world.device, kernel);
}

/* By constants: a pipeline for each size, which the next launch finds again. */
TEST(every_size_has_a_pipeline) {
    static const uint32_t sizes[] = {16, 32, 64, 16, 32};
    void *kernel = NULL;
    assert_int_equal(load(&kernel), VRAM_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run(kernel, sizes[i]), VRAM_OK);
    }
    assert_int_equal(shim->calls("vkCreateComputePipelines"), 3);
    world.device.kernel->unload(&world.device, kernel);
}

/* Modes of other entry points, and other modes, are not the size. */
TEST(other_modes_are_no_size) {
    static const struct {
        int word;
        uint32_t value;
    } changes[] = {{1, 5}, {2, 18}, {0, 3 << 16 | 16}}; /* of %5; LocalSizeHint; without a size */
    for (int i = 0; i < 3; i++) {
        void *kernel = NULL;
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
        world.device.kernel->unload(&world.device, kernel);
    }
}

WHOLE_FILE(open_shim, NULL)
EACH_TEST(begin, end)
