/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda.c: loading the CUDA driver: why it may be absent, which symbols it can live without,
 * and what it says of its devices.
 */
#include "unit/cuda_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Starts the backend on the library that the option names; what it answered. */
static vram_status start_with(const char *path, struct vr_backend *backend) {
    *backend = (struct vr_backend){.ops = &vr_cuda_backend};
    assert_int_equal(vram_option_set("cuda_library", path), VRAM_OK);
    vram_error_clear();
    vram_status status = backend->ops->start(backend, NULL);
    assert_int_equal(vram_option_set("cuda_library", NULL), VRAM_OK);
    if (status != VRAM_OK) {
        assert_null(backend->impl);
        assert_string_equal(backend->version, "");
        assert_int_equal(vram_error_get()->status, status);
        assert_null(strchr(vram_error_get()->text, '\n'));
    }
    return status;
}

static void assert_absent(const char *path, vram_status expected, const char *words) {
    struct vr_backend backend;
    uint64_t blocks = vr_mem_live_blocks();
    assert_int_equal(start_with(path, &backend), expected);
    if (!strstr(vram_error_get()->text, words)) {
        fail_msg("\"%s\" does not say \"%s\"", vram_error_get()->text, words);
    }
    assert_int_equal(vr_mem_live_blocks(), blocks);
}

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

/* ------------------------------------------------------------------ symbols */

static const struct {
    const char *name, *symbol, *fallback;
    bool optional;
} symbols[] = {
#define ROW(name, symbol, fallback, optional, parameters) {#name, #symbol, fallback, optional},
    VR_CUDA_FUNCTIONS(ROW)
#undef ROW
};

/* Takes a name out of a library's table of symbols by misspelling it: whoever looks it up by its
   hash finds another name there. */
static void misspell(char *image, size_t bytes, const char *name) {
    size_t length = strlen(name) + 2, found = 0;
    char needle[96];
    snprintf(needle, sizeof needle, "%c%s", 0, name);
    memcpy(needle + 1, name, length - 1);
    for (size_t at = 0; at + length <= bytes; at++) {
        if (memcmp(image + at, needle, length) == 0) {
            image[at + 1] = '#';
            found++;
        }
    }
    assert_true(found > 0);
}

/* A copy of the fake driver without some symbols, at `path`. */
static void make_variant(const char *first, const char *second, char *path, size_t path_bytes) {
    const char *folder = getenv("TMPDIR");
    snprintf(path, path_bytes, "%s/fake_cuda_XXXXXX", folder && *folder ? folder : "/tmp");
    FILE *from = fopen(FAKE_CUDA_PATH, "rb");
    int file = mkstemp(path);
    assert_non_null(from);
    assert_true(file >= 0);
    fseek(from, 0, SEEK_END);
    size_t bytes = (size_t)ftell(from);
    rewind(from);
    char *image = malloc(bytes);
    assert_non_null(image);
    assert_int_equal(fread(image, 1, bytes, from), bytes);
    fclose(from);
    misspell(image, bytes, first);
    if (second) {
        misspell(image, bytes, second);
    }
    assert_int_equal(write(file, image, bytes), bytes);
    free(image);
    close(file);
}

/* Uses everything that must work whatever optional symbol is absent. */
static void smoke(struct vr_backend *backend) {
    struct vr_device device;
    struct vr_queue first, second;
    char text[8] = "";
    open_device(backend, 0, &device);
    vram_addr addr = take_memory(&device, GRANULE);
    make_queue(&device, &first);
    assert_int_equal(adopt(&device, first.native, &second), VRAM_OK);
    assert_int_equal(device.queue_ops->upload(&first, addr, "libvram", 8), VRAM_OK);
    assert_int_equal(device.queue_ops->signal(&first, 1), VRAM_OK);
    assert_int_equal(device.queue_ops->after(&second, &first, 1), VRAM_OK);
    assert_int_equal(device.queue_ops->download(&second, text, addr, 8), VRAM_OK);
    settle(&second);
    assert_string_equal(text, "libvram");
    assert_int_equal(device.queue_ops->poll(&first), VRAM_OK);
    end_queue(&second);
    end_queue(&first);
    give_memory(&device, addr, GRANULE);
    assert_true(!device.vmm == !(device.info.caps & VRAM_CAP_VMM));
    device.ops->close(&device);
}

/* What a device can still do and tell without an optional symbol. */
static void assert_without(const struct vram_device_info *info, const char *name) {
    static const char *const vmm[] = {"cuMemGetAllocationGranularity",
                                      "cuMemAddressReserve",
                                      "cuMemAddressFree",
                                      "cuMemCreate",
                                      "cuMemRelease",
                                      "cuMemMap",
                                      "cuMemSetAccess",
                                      "cuMemUnmap"};
    bool of_vmm = false;
    for (size_t i = 0; i < sizeof vmm / sizeof vmm[0]; i++) {
        of_vmm = of_vmm || strcmp(name, vmm[i]) == 0;
    }
    assert_int_equal(!(info->caps & VRAM_CAP_VMM), of_vmm);
    assert_true(info->caps_known & VRAM_CAP_VMM);
    assert_int_equal(info->vmm_granule.known, !of_vmm);
    assert_int_equal(info->uuid_known, strcmp(name, "cuDeviceGetUuid") != 0);
    assert_int_equal(info->pci_known, strcmp(name, "cuDeviceGetPCIBusId") != 0);
}

static void each_symbol_missing_in_turn(void **state) {
    (void)state;
    const struct fake_cuda_control *all = fake;
    unsigned required = 0, optional = 0;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        char path[256];
        struct vr_backend backend;
        struct vram_device_info info = {.size = sizeof info};
        make_variant(symbols[i].symbol, symbols[i].fallback, path, sizeof path);
        if (!symbols[i].optional) {
            assert_absent(path, VRAM_ERR_NO_DRIVER, symbols[i].symbol);
            required++;
        } else {
            fake = fake_open(path);
            fake->reset();
            assert_int_equal(start_with(path, &backend), VRAM_OK);
            assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
            assert_without(&info, symbols[i].name);
            smoke(&backend);
            backend.ops->stop(&backend);
            assert_int_equal(live_total(), 0);
            assert_clean();
            fake = all;
            optional++;
        }
        unlink(path);
    }
    assert_true(required > 25 && optional > 12);
}

static void older_names_are_found(void **state) {
    (void)state;
    const struct fake_cuda_control *all = fake;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        char path[256];
        struct vr_backend backend;
        struct vram_device_info info = {.size = sizeof info};
        if (!symbols[i].fallback) {
            continue;
        }
        make_variant(symbols[i].symbol, NULL, path, sizeof path);
        fake = fake_open(path);
        assert_int_equal(start_with(path, &backend), VRAM_OK);
        assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
        assert_true(info.uuid_known);
        fake->refuse(NULL, 0, 0, false);
        smoke(&backend);
        backend.ops->stop(&backend);
        assert_true(fake->calls(symbols[i].name) > 0 || strstr(symbols[i].name, "Uuid"));
        unlink(path);
        fake = all;
    }
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
                                    VRAM_CAP_MEMORY_INFO | VRAM_CAP_ADOPT | VRAM_CAP_ALIAS);
    /* Thin, and honest about it: what is not there is known not to be. */
    uint32_t later = VRAM_CAP_MANAGED | VRAM_CAP_PEERS | VRAM_CAP_KERNELS | VRAM_CAP_HOST_ACCESS |
                     VRAM_CAP_SIMULATED;
    assert_int_equal(info.caps_known & later, later);
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
        assert_int_equal(vr_cuda_status(lost[i]), VRAM_ERR_DEVICE_LOST);
    }
    for (vr_cu_result code = 900; code <= 908; code++) {
        assert_int_equal(vr_cuda_status(code), VRAM_ERR_CAPTURE);
    }
    assert_int_equal(vr_cuda_status(0), VRAM_OK);
    assert_int_equal(vr_cuda_status(2), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vr_cuda_status(4), VRAM_ERR_SHUTDOWN);
    assert_int_equal(vr_cuda_status(600), VRAM_ERR_NOT_READY);
    assert_int_equal(vr_cuda_status(801), VRAM_ERR_UNSUPPORTED);
    /* Only those that say so are successes, exhaustions or losses. */
    unsigned okay = 0, exhausted = 0, gone = 0;
    for (vr_cu_result code = -1000; code < 100000; code++) {
        vram_status status = vr_cuda_status(code);
        okay += status == VRAM_OK;
        exhausted += vram_status_is_exhausted(status);
        gone += status == VRAM_ERR_DEVICE_LOST;
    }
    assert_int_equal(okay, 1);
    assert_int_equal(exhausted, 1);
    assert_int_equal(gone, sizeof lost / sizeof lost[0]);
    assert_int_equal(vr_cuda_status(INT32_MIN), VRAM_ERR_BACKEND);
    assert_int_equal(vr_cuda_status(INT32_MAX), VRAM_ERR_BACKEND);
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
        TEST(each_symbol_missing_in_turn),
        TEST(older_names_are_found),
        TEST(devices_are_described),
        TEST(what_is_not_told_is_unknown),
        TEST(granules_that_cannot_be_are_unknown),
        TEST(devices_without_unified_addressing_are_refused),
        TEST(every_code_has_one_status),
    };
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
