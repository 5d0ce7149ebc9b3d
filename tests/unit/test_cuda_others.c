/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_others.c: what other processes hold of a device, as NVIDIA's management library
   tells. */
#include "byte_units.h"
#include "unit/cuda_world.h"
#include "unit/report_text.h"
#include "unit/whole_device.h"
#include "vram/oom.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int setup_nvml(void) {
    assert_int_equal(vram_option_set("nvml_library", FAKE_NVML_PATH), VRAM_OK);
    unsetenv("FAKE_NVML_FAIL");
    return setup();
}

static int teardown_nvml(void) {
    assert_int_equal(vram_option_set("nvml_library", NULL), VRAM_OK);
    return teardown();
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

TEST(others_are_added_up) {
    vram_value bytes = others(rig_state, "12:1000,self:5,13:24");
    assert_true(bytes.known && bytes.value == 1024);
    bytes = others(rig_state, "self:123456");
    assert_true(bytes.known && bytes.value == 0);
}

TEST(what_is_not_told_is_unknown) {
    assert_false(others(rig_state, "").known);
    assert_false(others(rig_state, "12:1000").known); /* numbers of another namespace */
    assert_false(others(rig_state, "self:5,12:?").known);
    assert_true(others(rig_state, "self:?,12:7").known); /* our own size does not matter */
    assert_false(others(rig_state, "self:1,2:0x7fffffffffffffff,3:0x7fffffffffffffff").known);
    static const char *const calls[] = {"init", "device", "processes", "processes:3"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(setenv("FAKE_NVML_FAIL", calls[i], 1), 0);
        assert_false(others(rig_state, "self:5,12:1000").known);
    }
}

TEST(the_library_may_be_missing) {
    assert_int_equal(vram_option_set("nvml_library", "/nowhere/libnvidia-ml.so.1"), VRAM_OK);
    assert_false(others(rig_state, "self:5,12:1000").known);
    assert_int_equal(vram_option_set("nvml_library", "libc.so.6"), VRAM_OK);
    assert_false(others(rig_state, "self:5,12:1000").known);
}

TEST(other_devices_are_not_this_one) {
    struct world *world = rig_state;
    world->device.info.uuid[0]++;
    assert_false(others(world, "self:5,12:1000").known);
    world->device.info.uuid[0]--;
    world->device.info.uuid_known = false;
    assert_false(others(world, "self:5,12:1000").known);
    world->device.info.uuid_known = true;
    assert_true(others(world, "self:5,12:1000").known);
}

TEST(host_memory_may_run_out) {
    struct world *world = rig_state;
    vram_value bytes = {77, true};
    vr_mem_fail_at(1, false);
    assert_int_equal(world->device.ops->others(&world->device, &bytes), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_true(bytes.known && bytes.value == 77);
    vr_os_fail_at(1, false, EAGAIN); /* no thread to ask on: unknown, and no error */
    vram_error_clear();
    assert_int_equal(world->device.ops->others(&world->device, &bytes), VRAM_OK);
    assert_int_equal(vr_os_failed(), 1);
    vr_os_fail_at(0, false, 0);
    assert_false(bytes.known);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_true(others(world, "self:5,12:1000").known);
}

/* The library does not come back: whoever asks is answered all the same, and so are others. */
TEST(the_library_may_hang) {
    char path[] = "/tmp/vram-nvml-hang-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    assert_int_equal(setenv("FAKE_NVML_HANG", path, 1), 0);
    uint64_t began = vr_os_now();
    assert_false(others(rig_state, "self:5,12:1000").known);
    assert_true(vr_os_now() - began < 5 * FOR_EVER / 10);
    began = vr_os_now();
    assert_false(others(rig_state, "self:5,12:1000").known); /* it is not asked again */
    assert_true(vr_os_now() - began < FOR_EVER / 20);
    assert_int_equal(unlink(path), 0);
    unsetenv("FAKE_NVML_HANG");
    for (int i = 0; i < 5000 && !others(rig_state, "self:5,12:1000").known; i++) {
        vr_os_sleep(1000000);
    }
    assert_true(others(rig_state, "self:5,12:1000").known);
}

/* ----------------------------------------------------------- in a pool's report */

static int setup_report(void) {
    if (!fake) {
        fake = fake_open(FAKE_CUDA_PATH);
    }
    fake->reset();
    fake->devices(1);
    fake->capacity(64 * MIB);
    assert_int_equal(vram_option_set("cuda_library", FAKE_CUDA_PATH), VRAM_OK);
    assert_int_equal(vram_option_set("nvml_library", FAKE_NVML_PATH), VRAM_OK);
    unsetenv("FAKE_NVML_FAIL");
    return 0;
}

static int teardown_report(void) {
    assert_int_equal(vram_option_set("cuda_library", NULL), VRAM_OK);
    assert_int_equal(vram_option_set("nvml_library", NULL), VRAM_OK);
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* The report of a request that a pool could not serve. */
static vram_oom_report run_out(const char *processes) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    vram_oom_report report = {.size = sizeof report};
    assert_int_equal(setenv("FAKE_NVML_PROCESSES", processes, 1), 0);
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    assert_int_equal(vram_device_open(context, 0, &device), VRAM_OK);
    whole_device(device);
    assert_int_equal(vram_pool_create(device, NULL, &pool), VRAM_OK);
    assert_int_equal(vram_alloc(pool, 40 * MIB, NULL, &addr), VRAM_OK);
    assert_true(vram_status_is_exhausted(vram_alloc(pool, 40 * MIB, NULL, &addr)));
    assert_int_equal(vram_oom_report_get(pool, &report), VRAM_OK);
    vram_context_destroy(context);
    return report;
}

TEST_IN(setup_report, teardown_report, reports_tell_of_other_processes) {
    static struct report_text text;
    vram_oom_report report = run_out("self:5,12:1048576,13:2097152");
    assert_true(report.processes_bytes.known);
    assert_int_equal(report.processes_bytes.value, 3 * MIB);
    assert_int_equal(vram_oom_report_write(&report, VRAM_REPORT_TEXT, report_text_take, &text),
                     VRAM_OK);
    assert_true(text.bytes > 0);
    report = run_out("12:1000"); /* the library does not see this process: it cannot be trusted */
    assert_false(report.processes_bytes.known);
    assert_int_equal(setenv("FAKE_NVML_FAIL", "init", 1), 0);
    report = run_out("self:5,12:1048576");
    assert_false(report.processes_bytes.known);
}

EACH_TEST(setup_nvml, teardown_nvml)
