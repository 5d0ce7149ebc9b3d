/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_symbols.c: drivers that lack a symbol. Each that is required makes the backend absent,
 * and the reason names it; without an optional one the device can do less and the rest works.
 */
#include "unit/cuda_world.h"

#include WORLD_TABLE

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ENTRIES = sizeof WORLD_ENTRIES / sizeof WORLD_ENTRIES[0] };

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
    snprintf(path, path_bytes, "%s/fake_driver_XXXXXX", folder && *folder ? folder : "/tmp");
    FILE *from = fopen(WORLD_PATH, "rb");
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

/* Every second letter of the text at `addr`, as rows of one: by the driver, or refused because the
   driver lacks the call. */
static void copy_letters(struct vr_queue *queue, vram_addr addr, bool by_driver) {
    char letters[4] = "";
    const struct vr_rectangle rectangle = {.to = (uintptr_t)letters,
                                           .from = addr,
                                           .to_pitch = 1,
                                           .from_pitch = 2,
                                           .row_bytes = 1,
                                           .rows = 3,
                                           .to_host = true};
    assert_int_equal(queue->device->queue_ops->copy_rows(queue, &rectangle),
                     by_driver ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
    settle(queue);
    assert_string_equal(letters, by_driver ? "lbr" : "");
}

/* Hints for managed memory may be ignored, and are by a driver that lacks the calls. */
static void hint(struct vr_queue *queue) {
    const struct vr_managed_ops *managed = queue->device->managed;
    vram_addr addr;
    if (!managed) {
        return;
    }
    assert_int_equal(managed->alloc(queue->device, PAGE, &addr), VRAM_OK);
    assert_int_equal(managed->prefetch(queue, addr, PAGE, VRAM_TARGET_HOST), VRAM_OK);
    assert_int_equal(
        managed->advise(queue->device, addr, PAGE, VRAM_ADVICE_READ_MOSTLY, VRAM_TARGET_HOST),
        VRAM_OK);
    settle(queue);
    assert_int_equal(managed->free(queue->device, addr, PAGE), VRAM_OK);
}

/* Memory of the program's that is page-locked where it lies, and what is known of it. */
static void lock_pages(struct vr_queue *queue, const char *without) {
    static _Alignas(1 << 16) char pages[1 << 16];
    struct vr_device *device = queue->device;
    bool registers = strcmp(without, "registration") != 0;
    bool tells = strcmp(without, "pinned_flags") != 0;
    vram_addr host = (uintptr_t)pages, addr = take_memory(device, GRANULE);
    vram_value pinned = {0, false};
    assert_int_equal(device->pinned->register_pages(device, host, sizeof pages),
                     registers ? VRAM_OK : VRAM_ERR_UNSUPPORTED);
    assert_int_equal(device->pinned->check(device, host, &pinned), VRAM_OK);
    assert_int_equal(pinned.known, tells);
    assert_int_equal(pinned.value, tells && registers);
    fake->refuse(WORLD_UPLOAD, 1, VR_CU_INVALID_VALUE, false); /* all pages are alike: no retry */
    assert_int_equal(device->queue_ops->upload(queue, addr, pages, sizeof pages), VRAM_ERR_INVALID);
    fake->refuse(NULL, 0, 0, false);
    if (registers) {
        assert_int_equal(device->pinned->unregister_pages(device, host, sizeof pages), VRAM_OK);
    }
    give_memory(device, addr, GRANULE);
}

/* Uses everything that must work whatever optional symbol is absent. */
static void smoke(struct vr_backend *backend, const char *without) {
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
    copy_letters(&first, addr, strcmp(without, "copies of rows") != 0);
    hint(&first);
    lock_pages(&first, without);
    assert_int_equal(device.queue_ops->poll(&first), VRAM_OK);
    end_queue(&second);
    end_queue(&first);
    give_memory(&device, addr, GRANULE);
    assert_true(!device.vmm == !(device.info.caps & VRAM_CAP_VMM));
    assert_true(device.vmm || !device.share);
    device.ops->close(&device);
}

/* What a device can still do and tell without an optional symbol: the table says what is
   missing. */
static void assert_without(const struct vram_device_info *info, const struct driver_entry *entry) {
    bool of_vmm = strcmp(entry->without, "vmm") == 0;
    assert_int_equal(!(info->caps & VRAM_CAP_VMM), of_vmm);
    assert_true(info->caps_known & VRAM_CAP_VMM);
    assert_int_equal(info->vmm_granule.known, !of_vmm);
    assert_int_equal(!(info->caps & VRAM_CAP_MANAGED), strcmp(entry->without, "managed") == 0);
    assert_int_equal(!(info->caps & VRAM_CAP_KERNELS), strcmp(entry->without, "kernels") == 0);
    assert_int_equal(!(info->caps & VRAM_CAP_PEERS), strcmp(entry->without, "peers") == 0);
    assert_int_equal(info->uuid_known, strcmp(entry->twin, "cuDeviceGetUuid") != 0);
    assert_int_equal(info->pci_known, strcmp(entry->twin, "cuDeviceGetPCIBusId") != 0);
}

/* Starts the backend on a driver that lacks symbols, and uses it. */
static void use_variant(const struct driver_entry *entry, const char *path, bool without) {
    const struct fake_cuda_control *all = fake;
    struct vr_backend backend;
    struct vram_device_info info = {.size = sizeof info};
    fake = fake_open(path);
    fake->reset();
    fake->devices(2);
    assert_int_equal(start_with(path, &backend), VRAM_OK);
    assert_int_equal(backend.ops->describe(&backend, 0, &info), VRAM_OK);
    if (without) {
        assert_without(&info, entry);
    }
    smoke(&backend, without ? entry->without : "");
    backend.ops->stop(&backend);
    assert_int_equal(live_total(), 0);
    assert_clean();
    fake = all;
}

static void each_symbol_missing_in_turn(void **state) {
    (void)state;
    unsigned required = 0, optional = 0;
    for (int i = 0; i < ENTRIES; i++) {
        const struct driver_entry *entry = &WORLD_ENTRIES[i];
        char path[256];
        make_variant(entry->symbol, entry->older, path, sizeof path);
        if (entry->without) {
            use_variant(entry, path, true);
            optional++;
        } else {
            assert_absent(path, VRAM_ERR_NO_DRIVER, entry->symbol);
            required++;
        }
        unlink(path);
    }
    print_message("%s: each of %u required and %u optional symbols missing in turn\n", WORLD_NAME,
                  required, optional);
    assert_true(required > 25 && optional > 12);
}

static void older_names_are_found(void **state) {
    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        char path[256];
        if (WORLD_ENTRIES[i].older) {
            make_variant(WORLD_ENTRIES[i].symbol, NULL, path, sizeof path);
            use_variant(&WORLD_ENTRIES[i], path, false);
            unlink(path);
        }
    }
}

static int open_fake(void **state) {
    (void)state;
    fake = fake_open(WORLD_PATH);
    fake->reset();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_symbol_missing_in_turn),
        cmocka_unit_test(older_names_are_found),
    };
    return cmocka_run_group_tests_name(WORLD_NAME "_symbols", tests, open_fake, NULL);
}
