/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda.c: loading the CUDA driver: why it may be absent and what it says of its devices.
 */
#include "unit/cuda_world.h"

static int reset(void **state) {
    (void)state;
    if (!fake) {
        fake = fake_open(FAKE_CUDA_PATH);
    }
    fake->reset();
    return 0;
}

/* ------------------------------------------------------------------ absence */

static void missing_library_has_a_reason(void **state) {
    (void)state;
    assert_absent("/nowhere/libcuda.so.1", VRAM_ERR_NO_DRIVER, "/nowhere/libcuda.so.1");
    assert_absent("/nowhere/libcuda.so.1", VRAM_ERR_NO_DRIVER, "VRAM_CUDA_LIBRARY");
    assert_absent("/dev/null", VRAM_ERR_NO_DRIVER, "/dev/null");
}

static void another_library_is_not_a_driver(void **state) {
    (void)state;
    assert_absent("libc.so.6", VRAM_ERR_NO_DRIVER, "cuInit");
}

static void init_failures_have_reasons(void **state) {
    (void)state;
    static const struct {
        vr_cu_result code;
        vram_status status;
        const char *words;
    } rows[] = {
        {VR_CU_STUB_LIBRARY, VRAM_ERR_NO_DRIVER, "stub"},
        {VR_CU_NO_DEVICE, VRAM_ERR_NO_DEVICE, "CUDA_VISIBLE_DEVICES"},
        {VR_CU_SYSTEM_NOT_READY, VRAM_ERR_NO_DRIVER, "nvidia-fabricmanager"},
        {VR_CU_DRIVER_MISMATCH, VRAM_ERR_NO_DRIVER, "restart the machine"},
        {VR_CU_UNKNOWN, VRAM_ERR_NO_DRIVER, "CUDA_ERROR_UNKNOWN, 999"},
        {VR_CU_INVALID_VALUE, VRAM_ERR_NO_DRIVER, "CUDA_ERROR_INVALID_VALUE, 1"},
        {VR_CU_OUT_OF_MEMORY, VRAM_ERR_NO_DRIVER, "out of memory"},
        {-77, VRAM_ERR_NO_DRIVER, "-77"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake->refuse("cuInit", 1, rows[i].code, false);
        assert_absent(FAKE_CUDA_PATH, rows[i].status, rows[i].words);
        assert_cuda_error(rows[i].status, "cuInit", rows[i].code);
    }
}

static void old_drivers_are_refused(void **state) {
    (void)state;
    struct vr_backend backend;
    fake->version(10020);
    assert_absent(FAKE_CUDA_PATH, VRAM_ERR_NO_DRIVER, "CUDA 10.2, libvram needs 11.0");
    fake->version(11000);
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    assert_string_equal(backend.version, "11.0");
    backend.ops->stop(&backend);
    fake->version(12080);
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    assert_string_equal(backend.version, "12.8");
    backend.ops->stop(&backend);
}

static void no_devices_is_no_device(void **state) {
    (void)state;
    fake->devices(0);
    assert_absent(FAKE_CUDA_PATH, VRAM_ERR_NO_DEVICE, "nvidia-smi");
    fake->devices(1);
    struct vr_backend backend;
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    backend.ops->stop(&backend);
    /* A driver that starts and then counts none, or fewer. */
    for (int lie = FAKE_CUDA_NULL; lie <= FAKE_CUDA_MISALIGNED; lie++) {
        fake->lie("cuDeviceGetCount", 1, (enum fake_cuda_lie)lie, false);
        assert_absent(FAKE_CUDA_PATH, VRAM_ERR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE");
    }
    fake->refuse("cuDeviceGetCount", 1, VR_CU_UNKNOWN, false);
    assert_absent(FAKE_CUDA_PATH, VRAM_ERR_NO_DRIVER, "cuDeviceGetCount");
    fake->refuse("cuDriverGetVersion", 1, VR_CU_UNKNOWN, false);
    assert_absent(FAKE_CUDA_PATH, VRAM_ERR_NO_DRIVER, "cuDriverGetVersion");
}

static void host_memory_may_run_out(void **state) {
    (void)state;
    struct vr_backend backend;
    vr_mem_fail_at(1, false);
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
}

/* --------------------------------------------------------------- describing */

static void devices_are_described(void **state) {
    (void)state;
    struct vr_backend backend;
    struct vram_device_info info = {.size = sizeof info};
    fake->devices(3);
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    assert_string_equal(backend.version, "13.0");
    assert_int_equal(backend.ops->count(&backend), 3);
    assert_int_equal(backend.ops->describe(&backend, 1, &info), VRAM_OK);
    assert_string_equal(info.name, "Fake GPU 1");
    assert_string_equal(info.architecture, "sm_90");
    assert_int_equal(info.kind, VRAM_DEVICE_GPU);
    assert_true(info.uuid_known && info.uuid[0] == 17 && info.uuid[15] == 32);
    assert_true(info.pci_known);
    assert_string_equal(info.pci, "0000:3c:00.0");
    assert_true(info.memory_bytes.known && info.memory_bytes.value == UINT64_C(4) << 30);
    assert_true(info.alloc_granule.known && info.alloc_granule.value == GRANULE);
    assert_true(info.vmm_granule.known && info.vmm_granule.value == GRANULE);
    assert_false(info.alloc_max.known);
    assert_int_equal(info.caps, VRAM_CAP_VMM | VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS |
                                    VRAM_CAP_MEMORY_INFO | VRAM_CAP_ADOPT | VRAM_CAP_ALIAS |
                                    VRAM_CAP_MANAGED | VRAM_CAP_PEERS | VRAM_CAP_KERNELS |
                                    VRAM_CAP_RDMA);
    /* What is not there is known not to be. */
    uint32_t absent = VRAM_CAP_HOST_ACCESS | VRAM_CAP_SIMULATED | VRAM_CAP_HANDLES;
    assert_int_equal(info.caps_known & absent, absent);
    assert_int_equal(backend.ops->describe(&backend, 3, &info), VRAM_ERR_NO_DRIVER);
    assert_cuda_error(VRAM_ERR_NO_DRIVER, "cuDeviceGet", VR_CU_INVALID_DEVICE);
    backend.ops->stop(&backend);
}

/* What the driver does not tell is unknown, never 0. */
static void what_is_not_told_is_unknown(void **state) {
    (void)state;
    struct vr_backend backend;
    struct vram_device_info info = {.size = sizeof info};
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    fake->refuse("cuDeviceTotalMem", 1, VR_CU_UNKNOWN, false);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
    assert_false(info.memory_bytes.known);
    info = (struct vram_device_info){.size = sizeof info};
    fake->attribute(VR_CU_ATTRIBUTE_MINOR, -1);
    fake->attribute(VR_CU_ATTRIBUTE_VMM, -1);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
    assert_string_equal(info.architecture, "");
    assert_false((info.caps | info.caps_known) & VRAM_CAP_VMM);
    info = (struct vram_device_info){.size = sizeof info};
    fake->attribute(VR_CU_ATTRIBUTE_VMM, 0);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
    assert_true(!(info.caps & VRAM_CAP_VMM) && (info.caps_known & VRAM_CAP_VMM));
    backend.ops->stop(&backend);
}

static void granules_that_cannot_be_are_unknown(void **state) {
    (void)state;
    struct vr_backend backend;
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    for (int lie = FAKE_CUDA_NULL; lie <= FAKE_CUDA_MISALIGNED; lie++) {
        struct vram_device_info info = {.size = sizeof info};
        fake->lie("cuMemGetAllocationGranularity", 1, (enum fake_cuda_lie)lie, false);
        assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
        assert_int_equal(fake->struck(), 1);
        assert_false((info.caps | info.caps_known) & VRAM_CAP_VMM);
        assert_false(info.vmm_granule.known);
    }
    backend.ops->stop(&backend);
}

static void devices_without_unified_addressing_are_refused(void **state) {
    (void)state;
    struct vr_backend backend;
    struct vram_device_info info = {.size = sizeof info};
    assert_int_equal(start_with(FAKE_CUDA_PATH, &backend), VRAM_OK);
    fake->attribute(VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING, 0);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_ERR_NO_DEVICE);
    assert_non_null(strstr(vram_error_get()->text, "unified addressing"));
    fake->attribute(VR_CU_ATTRIBUTE_UNIFIED_ADDRESSING, -1);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_ERR_NO_DRIVER);
    backend.ops->stop(&backend);
}

/* -------------------------------------------------------------------- codes */

static void every_code_has_one_status(void **state) {
    (void)state;
    static const vr_cu_result lost[] = {214, 220, 226, 700, 702, 709, 710, 714,
                                        715, 716, 717, 718, 719, 721, 810, 911};
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        assert_int_equal(vr_cuda_status(&vr_cuda_dialect, lost[i]), VRAM_ERR_DEVICE_LOST);
    }
    for (vr_cu_result code = 900; code <= 908; code++) {
        assert_int_equal(vr_cuda_status(&vr_cuda_dialect, code), VRAM_ERR_CAPTURE);
    }
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, 0), VRAM_OK);
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, 2), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, 4), VRAM_ERR_SHUTDOWN);
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, 600), VRAM_ERR_NOT_READY);
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, 801), VRAM_ERR_UNSUPPORTED);
    /* Only those that say so are successes, exhaustions or losses. */
    unsigned okay = 0, exhausted = 0, gone = 0;
    for (vr_cu_result code = -1000; code < 100000; code++) {
        vram_status status = vr_cuda_status(&vr_cuda_dialect, code);
        okay += status == VRAM_OK;
        exhausted += vram_status_is_exhausted(status);
        gone += status == VRAM_ERR_DEVICE_LOST;
    }
    assert_int_equal(okay, 1);
    assert_int_equal(exhausted, 1);
    assert_int_equal(gone, sizeof lost / sizeof lost[0]);
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, INT32_MIN), VRAM_ERR_BACKEND);
    assert_int_equal(vr_cuda_status(&vr_cuda_dialect, INT32_MAX), VRAM_ERR_BACKEND);
}

#define TEST(test) cmocka_unit_test_setup(test, reset)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(missing_library_has_a_reason),
        TEST(another_library_is_not_a_driver),
        TEST(init_failures_have_reasons),
        TEST(old_drivers_are_refused),
        TEST(no_devices_is_no_device),
        TEST(host_memory_may_run_out),
        TEST(devices_are_described),
        TEST(what_is_not_told_is_unknown),
        TEST(granules_that_cannot_be_are_unknown),
        TEST(devices_without_unified_addressing_are_refused),
        TEST(every_code_has_one_status),
    };
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
