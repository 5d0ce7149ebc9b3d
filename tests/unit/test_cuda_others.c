/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_others.c: what other processes hold of a device, as NVIDIA's management library tells. */
#include "unit/cuda_world.h"

#include <stdlib.h>

static int setup_nvml(void **state) {
    assert_int_equal(vram_option_set("nvml_library", FAKE_NVML_PATH), VRAM_OK);
    unsetenv("FAKE_NVML_FAIL");
    return setup(state);
}

static int teardown_nvml(void **state) {
    assert_int_equal(vram_option_set("nvml_library", NULL), VRAM_OK);
    return teardown(state);
}

/* Asks with a list of processes, and looks that a start or an answer leaves no error behind. */
static vram_value others(struct world *world, const char *processes) {
    vram_value bytes = {77, true};
    assert_int_equal(setenv("FAKE_NVML_PROCESSES", processes, 1), 0);
    vram_error_clear();
    assert_int_equal(world->device.ops->others(&world->device, &bytes), VRAM_OK);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_true(bytes.known || bytes.value == 0);
    return bytes;
}

static void others_are_added_up(void **state) {
    vram_value bytes = others(*state, "12:1000,self:5,13:24");
    assert_true(bytes.known && bytes.value == 1024);
    bytes = others(*state, "self:123456");
    assert_true(bytes.known && bytes.value == 0);
}

static void what_is_not_told_is_unknown(void **state) {
    assert_false(others(*state, "").known);
    assert_false(others(*state, "12:1000").known); /* numbers of another namespace */
    assert_false(others(*state, "self:5,12:?").known);
    assert_true(others(*state, "self:?,12:7").known); /* our own size does not matter */
    assert_false(others(*state, "self:1,2:0x7fffffffffffffff,3:0x7fffffffffffffff").known);
    static const char *const calls[] = {"init", "device", "processes"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(setenv("FAKE_NVML_FAIL", calls[i], 1), 0);
        assert_false(others(*state, "self:5,12:1000").known);
    }
}

static void the_library_may_be_missing(void **state) {
    assert_int_equal(vram_option_set("nvml_library", "/nowhere/libnvidia-ml.so.1"), VRAM_OK);
    assert_false(others(*state, "self:5,12:1000").known);
    assert_int_equal(vram_option_set("nvml_library", "libc.so.6"), VRAM_OK);
    assert_false(others(*state, "self:5,12:1000").known);
}

static void other_devices_are_not_this_one(void **state) {
    struct world *world = *state;
    world->device.info.uuid[0]++;
    assert_false(others(world, "self:5,12:1000").known);
    world->device.info.uuid[0]--;
    world->device.info.uuid_known = false;
    assert_false(others(world, "self:5,12:1000").known);
    world->device.info.uuid_known = true;
    assert_true(others(world, "self:5,12:1000").known);
}

static void host_memory_may_run_out(void **state) {
    struct world *world = *state;
    vram_value bytes = {77, true};
    vr_mem_fail_at(1, false);
    assert_int_equal(world->device.ops->others(&world->device, &bytes), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_true(bytes.known && bytes.value == 77);
}

#define NVML(test) cmocka_unit_test_setup_teardown(test, setup_nvml, teardown_nvml)

int main(void) {
    const struct CMUnitTest tests[] = {
        NVML(others_are_added_up),        NVML(what_is_not_told_is_unknown),
        NVML(the_library_may_be_missing), NVML(other_devices_are_not_this_one),
        NVML(host_memory_may_run_out),
    };
    return cmocka_run_group_tests_name("cuda_others", tests, NULL, NULL);
}
