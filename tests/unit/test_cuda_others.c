/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_others.c: what other processes hold of a device, as NVIDIA's management library tells:
 * in the report of a request that a pool could not serve.
 */
#include "byte_units.h"
#include "unit/cuda_world.h"
#include "unit/report_text.h"
#include "unit/whole_device.h"
#include "vram/oom.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int begin(void) {
    fake = fake ? fake : fake_open(FAKE_CUDA_PATH);
    fake->reset();
    fake->devices(1);
    fake->capacity(64 * MIB);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("nvml_library", FAKE_NVML_PATH));
    unsetenv("FAKE_NVML_FAIL");
    return 0;
}

static int end(void) {
    vr_os_fail_at(0, false, 0);
    assert_ok(vram_option_set("cuda_library", NULL));
    assert_ok(vram_option_set("nvml_library", NULL));
    assert_int_equal(live_total(), 0);
    assert_clean();
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* Asks with a list of processes: once for each device. */
static uint64_t fails_at; /* the system call that does; 0: none */
static bool struck;       /* there was one */

static vram_value others(const char *processes) {
    static struct report_text text;
    vram_oom_report report = {.size = sizeof report};
    const vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    assert_int_equal(setenv("FAKE_NVML_PROCESSES", processes, 1), 0);
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &device));
    whole_device(device);
    assert_ok(vram_pool_create(device, NULL, &pool));
    assert_ok(vram_alloc(pool, 40 * MIB, NULL, &addr));
    vr_os_fail_at(fails_at, false, EAGAIN);
    vram_status status = vram_alloc(pool, 40 * MIB, NULL, &addr);
    assert_int_equal(vram_status_is_exhausted(status), true);
    struck = vr_os_failed() > 0;
    vr_os_fail_at(0, false, 0);
    assert_ok(vram_oom_report_get(pool, &report));
    text = (struct report_text){.bytes = 0};
    assert_ok(vram_oom_report_write(&report, VRAM_REPORT_TEXT, report_text_take, &text));
    assert_true(text.bytes > 0);
    assert_true(report.processes_bytes.known || report.processes_bytes.value == 0);
    vram_context_destroy(context);
    return report.processes_bytes;
}

TEST(others_are_added_up) {
    static const struct {
        const char *processes, *fails; /* a call of the library */
        bool known;
        uint64_t bytes;
    } rows[] = {
        {"12:1000,self:5,13:24", NULL, true, 1024},
        {"self:123456", NULL, true, 0},
        {"self:?,12:7", NULL, true, 7}, /* our own size does not matter */
        {"", NULL, false, 0},
        {"12:1000", NULL, false, 0}, /* numbers of another namespace: it does not see us */
        {"self:5,12:?", NULL, false, 0},
        {"self:1,2:0x7fffffffffffffff,3:0x7fffffffffffffff", NULL, false, 0},
        {"self:5,12:1000", "init", false, 0},
        {"self:5,12:1000", "device", false, 0},
        {"self:5,12:1000", "processes", false, 0},
        {"self:5,12:1000", "processes:3", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsetenv("FAKE_NVML_FAIL");
        if (rows[i].fails) {
            assert_int_equal(setenv("FAKE_NVML_FAIL", rows[i].fails, 1), 0);
        }
        vram_value found = others(rows[i].processes);
        if (found.known != rows[i].known || found.value != rows[i].bytes) {
            fail_msg("%s: %llu", rows[i].processes, (unsigned long long)found.value);
        }
    }
}

TEST(the_library_may_be_missing) {
    assert_ok(vram_option_set("nvml_library", "/nowhere/libnvidia-ml.so.1"));
    assert_false(others("self:5,12:1000").known);
    assert_ok(vram_option_set("nvml_library", "libc.so.6"));
    assert_false(others("self:5,12:1000").known);
}

/* No thread to ask on: unknown, and asked again the next time. */
TEST(a_thread_may_be_refused) {
    int unknown = 0;
    for (fails_at = 1, struck = true; struck; fails_at++) {
        unknown += !others("self:5,12:1000").known;
    }
    assert_int_equal(unknown, 1);
    fails_at = 0;
    assert_true(others("self:5,12:1000").known);
}

/* The library does not come back: whoever asks is answered all the same, and so are others. */
TEST(the_library_may_hang) {
    char path[] = "/tmp/vram-nvml-hang-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    assert_int_equal(setenv("FAKE_NVML_HANG", path, 1), 0);
    uint64_t began = vr_os_now();
    assert_false(others("self:5,12:1000").known);
    assert_true(vr_os_now() - began < 5 * FOR_EVER / 10);
    began = vr_os_now();
    assert_false(others("self:5,12:1000").known); /* it is not asked again */
    assert_true(vr_os_now() - began < FOR_EVER / 20);
    assert_int_equal(unlink(path), 0);
    unsetenv("FAKE_NVML_HANG");
    for (int i = 0; i < 5000 && !others("self:5,12:1000").known; i++) {
        vr_os_sleep(1000000);
    }
    assert_true(others("self:5,12:1000").known);
}

EACH_TEST(begin, end)
