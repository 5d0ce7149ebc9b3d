/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_host.c: the host as a device: what the system refuses is absent as a whole, the memory that
 * it has, and what it locks and gives back. What all backends do is in the suite of `vram check`.
 */
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))

static vram_context *context;
static vram_device *device;

static vram_status host_create(void) {
    const vram_context_options options = {.size = sizeof options, .backends = "host"};
    return vram_context_create(&options, &context);
}

static vram_device_info host_open(void) {
    vram_device_info info = {.size = sizeof info};
    assert_ok(host_create());
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_device_describe(device, &info));
    return info;
}

static int host_end(void) {
    system_fails(0, false, 0);
    assert_ok(vram_context_destroy(context));
    context = NULL;
    return vram_option_set("host_memory", NULL) || vram_option_set("system_root", NULL);
}

static vram_memory_info memory_now(void) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(device, &info));
    return info;
}

/* ------------------------------------------------------------- what is refused */

/* Locked pages and files in memory are tried at the start. */
TEST(refusals_take_capabilities) {
    const uint32_t both = VRAM_CAP_PINNED | VRAM_CAP_VMM;
    uint32_t without_pinned = 0, without_vmm = 0;
    bool struck = true;
    if ((host_open().caps & both) != both) {
        skip(); /* on this machine they are refused always */
    }
    for (uint64_t nth = 1; struck; nth++) {
        vram_addr addr, base;
        assert_ok(vram_context_destroy(context));
        vram_error_clear();
        system_fails(nth, false, EPERM);
        vram_status status = host_create();
        struck = system_failed() > 0;
        system_fails(0, false, 0);
        if (status == VRAM_ERR_HOST_MEMORY) { /* pages for the library's own records */
            context = NULL;
            continue;
        }
        assert_ok(status);
        assert_int_equal(vram_error_get()->status, VRAM_OK);
        assert_ok(vram_device_open(context, 0, &device));
        vram_device_info info = {.size = sizeof info};
        assert_ok(vram_device_describe(device, &info));
        bool pinned = info.caps & VRAM_CAP_PINNED, vmm = info.caps & VRAM_CAP_VMM;
        assert_int_equal(vram_device_alloc(device, PAGE, VRAM_MEMORY_PINNED, &addr),
                         pinned ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
        assert_int_equal(vram_range_create(device, MIB, &base),
                         vmm ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
        without_pinned += !pinned && vmm;
        without_vmm += !vmm && pinned;
    }
    assert_int_equal(without_pinned, 2); /* the page, and the lock */
    assert_int_equal(without_vmm, 2);    /* the file, and its size */
}

TEST(pinned_memory_is_locked_up_to_the_limit) {
    static const int codes[] = {ENOMEM, EAGAIN, EPERM};
    vram_addr addr, more = 99;
    assert_ok(vram_option_set("host_memory", "8M"));
    if (!(host_open().caps & VRAM_CAP_PINNED)) {
        skip();
    }
    assert_ok(vram_device_alloc(device, PAGE, VRAM_MEMORY_PINNED, &addr));
    memset((void *)(uintptr_t)addr, 1, PAGE);
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        system_fails(2, false, codes[i]); /* the pages come, the lock does not */
        assert_int_equal(vram_device_alloc(device, PAGE, VRAM_MEMORY_PINNED, &more),
                         VRAM_ERR_LIMIT);
        assert_string_equal(vram_error_get()->operation, "mlock");
        assert_int_equal(vram_error_get()->native_code, codes[i]);
        assert_int_equal(memory_now().held_bytes, PAGE);
        assert_int_equal(memory_now().free_bytes.value, 8 * MIB - PAGE);
        assert_int_equal(more, 99);
    }
}

/* ---------------------------------------------------------------------- memory */

TEST(the_set_size_is_kept) {
    vram_addr first, second = 99;
    assert_ok(vram_option_set("host_memory", "8M"));
    assert_int_equal(host_open().memory_bytes.value, 8 * MIB);
    assert_ok(vram_device_alloc(device, 6 * MIB, VRAM_MEMORY_DEVICE, &first));
    assert_true(memory_now().free_bytes.known && memory_now().free_bytes.value == 2 * MIB);
    assert_true(memory_now().total_bytes.known && memory_now().total_bytes.value == 8 * MIB);
    assert_int_equal(vram_device_alloc(device, 2 * MIB + PAGE, VRAM_MEMORY_DEVICE, &second),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(vram_error_get()->text, "host_memory"));
    assert_int_equal(second, 99);
    assert_ok(vram_device_alloc(device, 2 * MIB, VRAM_MEMORY_DEVICE, &second));
    assert_ok(vram_device_free(device, first));
    assert_int_equal(memory_now().free_bytes.value, 6 * MIB);
}

TEST(the_machine_bounds_what_nobody_set) {
    vram_addr addr = 99;
    uint64_t total = host_open().memory_bytes.value;
    assert_true(memory_now().total_bytes.value == total);
    assert_true(memory_now().free_bytes.known && memory_now().free_bytes.value <= total);
    assert_int_equal(
        vram_device_alloc(device, total / PAGE * PAGE + PAGE, VRAM_MEMORY_DEVICE, &addr),
        VRAM_ERR_DEVICE_MEMORY);
    assert_null(strstr(vram_error_get()->text, "host_memory"));
    assert_int_equal(addr, 99);
}

TEST(unknown_memory_is_unknown) {
    assert_ok(vram_option_set("system_root", "/nowhere"));
    assert_false(host_open().memory_bytes.known);
    assert_true(!memory_now().total_bytes.known && memory_now().total_bytes.value == 0);
}

/* Bytes of files in memory that this process has open. */
static uint64_t file_bytes(void) {
    uint64_t bytes = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char path[300], target[64] = "";
        struct stat file;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "memfd:vram") &&
            stat(path, &file) == 0) {
            bytes += (uint64_t)file.st_blocks * 512;
        }
    }
    if (folder) {
        closedir(folder);
    }
    return bytes;
}

/* Memory of a physical handle is the system's again when the handle ends. */
TEST(released_memory_is_gone) {
    vram_physical *physical;
    vram_addr base;
    vram_device_info info = host_open();
    uint64_t granule = info.vmm_granule.value, before = file_bytes();
    if (!(info.caps & VRAM_CAP_VMM)) {
        skip();
    }
    assert_ok(vram_range_create(device, granule, &base));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_physical_create(device, granule, &physical));
        assert_ok(vram_range_map(device, base, &physical, 1));
        assert_int_equal(*(unsigned char *)(uintptr_t)base, 0); /* not what was there before */
        memset((void *)(uintptr_t)base, 0xee, granule);
        assert_ok(vram_range_unmap(device, base, granule));
        assert_int_equal(file_bytes() - before, granule);
        assert_ok(vram_physical_destroy(physical));
        assert_int_equal(file_bytes(), before);
    }
}

EACH_TEST(NULL, host_end)
