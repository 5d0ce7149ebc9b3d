/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_outsider.c: memory of processes by /proc fdinfo, from a tree as AMD's and Intel's drivers
 * write it, and by NVIDIA's management library, from a fake of it; and how both join live pages.
 */
#include "page_maker.h"
#include "top/column.h"
#include "top/top_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static void make_folders(const char *path) {
    char part[256];
    for (const char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        (void)mkdir(part, 0700);
    }
}

static void make_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    make_folders(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* An open file of a process, with what the kernel says of it. */
static void make_descriptor(int pid, int number, const char *target, const char *info) {
    char path[256], name[64];
    snprintf(path, sizeof path, "%s/proc/%d/fd/%d", root, pid, number);
    make_folders(path);
    assert_int_equal(symlink(target, path), 0);
    snprintf(name, sizeof name, "proc/%d/fdinfo/%d", pid, number);
    make_file(name, info);
}

static int tree_begin(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/vram_outsider_XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tree_end(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static const struct outsider_use *use_of(const struct outsiders *outsiders, uint64_t pid) {
    const struct outsider_use *found = NULL;
    for (size_t i = 0; i < outsiders->use_count; i++) {
        found = outsiders->uses[i].pid == pid ? &outsiders->uses[i] : found;
    }
    return found;
}

#define AMD   "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n"
#define INTEL "drm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\n"

/* Files of one client count once; other files and other drivers do not. */
static void fdinfo_is_read(void **state) {
    (void)state;
    struct outsiders outsiders = {0};
    make_descriptor(100, 3, "/dev/dri/renderD128",
                    "pos:\t0\n" AMD "drm-client-id:\t7\ndrm-memory-vram:\t1024 KiB\n"
                    "drm-memory-gtt:\t8 KiB\ndrm-memory-cpu:\t9 KiB\n");
    make_descriptor(100, 4, "/dev/dri/renderD128",
                    AMD "drm-client-id:\t7\ndrm-memory-vram:\t1024 KiB\n");
    make_descriptor(100, 5, "/dev/dri/renderD128",
                    AMD "drm-client-id:\t8\ndrm-memory-vram:\t2 MiB\n");
    make_descriptor(100, 6, "/tmp/file", AMD "drm-client-id:\t9\ndrm-memory-vram:\t99 MiB\n");
    make_descriptor(101, 3, "/dev/dri/card0",
                    INTEL "drm-client-id:\t1\ndrm-total-local0:\t900 KiB\n"
                          "drm-resident-local0:\t500 KiB\ndrm-resident-system0:\t4096\n");
    make_descriptor(102, 3, "/dev/dri/card0", INTEL "drm-client-id:\t2\n");
    make_descriptor(103, 3, "/dev/dri/card0", "drm-memory-vram:\t-5 KiB\nno colon\n:\n");
    make_descriptor(104, 3, "/dev/dri/card0",
                    AMD "drm-client-id:\t3\ndrm-memory-vram:\t"
                        "99999999999999999999 KiB\n");
    make_file("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "17163091968\n");
    make_file("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used", "63091968\n");
    fdinfo_read(root, &outsiders);
    assert_int_equal(outsiders.device_count, 2);
    assert_int_equal(outsiders.use_count, 4);
    assert_int_equal(use_of(&outsiders, 100)->bytes, 3 << 20);
    assert_int_equal(use_of(&outsiders, 100)->other_bytes, 8 << 10);
    assert_int_equal(use_of(&outsiders, 101)->bytes, 500 << 10);
    assert_int_equal(use_of(&outsiders, 101)->other_bytes, 4096);
    assert_true(use_of(&outsiders, 102)->bytes == OUTSIDER_UNKNOWN);
    assert_null(use_of(&outsiders, 103));
    assert_true(use_of(&outsiders, 104)->bytes == OUTSIDER_UNKNOWN);
    const struct outsider_device *amd = &outsiders.devices[use_of(&outsiders, 100)->device];
    assert_string_equal(amd->pci, "0000:03:00.0");
    assert_int_equal(amd->total_bytes, 17163091968);
    assert_int_equal(amd->free_bytes, 17100000000);
    assert_true(outsiders.devices[use_of(&outsiders, 101)->device].total_bytes == OUTSIDER_UNKNOWN);
    outsiders_free(&outsiders);
    fdinfo_read("/nonexistent", &outsiders);
    assert_int_equal(outsiders.use_count, 0);
}

static void nvml_is_read(void **state) {
    (void)state;
    struct outsiders outsiders = {0};
    setenv("FAKE_NVML_PROCESSES", "11:1000,12:?", 1);
    struct nvml *nvml = nvml_open();
    assert_non_null(nvml);
    nvml_read(nvml, &outsiders);
    assert_int_equal(outsiders.device_count, 1);
    assert_string_equal(outsiders.devices[0].name, "Fake GPU");
    assert_string_equal(outsiders.devices[0].pci, "0000:3b:00.0");
    assert_true(outsiders.devices[0].uuid_known && outsiders.devices[0].uuid[15] == 16);
    assert_int_equal(outsiders.devices[0].free_bytes, 60ull << 30);
    assert_int_equal(outsiders.use_count, 2); /* though it is in both lists */
    assert_int_equal(use_of(&outsiders, 11)->bytes, 1000);
    assert_true(use_of(&outsiders, 12)->bytes == OUTSIDER_UNKNOWN);
    outsiders_free(&outsiders);
    static const char *const calls[] = {"count", "device", "name",     "uuid",
                                        "pci",   "memory", "processes"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        setenv("FAKE_NVML_FAIL", calls[i], 1);
        nvml_read(nvml, &outsiders);
        bool none = i < 2;
        assert_int_equal(outsiders.device_count, none ? 0 : 1);
        outsiders_free(&outsiders);
    }
    nvml_close(nvml);
    setenv("FAKE_NVML_FAIL", "init", 1);
    assert_null(nvml_open());
    unsetenv("FAKE_NVML_FAIL");
}

/* The first look waits for a second, later ones do not; what is there again is read again. */
static void nvml_may_hang(void **state) {
    (void)state;
    char path[128];
    struct machine machine;
    snprintf(path, sizeof path, "%s/hang", root);
    make_file("hang", "");
    setenv("FAKE_NVML_HANG", path, 1);
    setenv("FAKE_NVML_PROCESSES", "12:1000000000", 1);
    struct machine_sources sources = {.nvml = nvml_open(), .root = root, .pages = root};
    time_t begin = time(NULL);
    for (int i = 0; i < 20; i++) {
        assert_true(machine_read(&sources, &machine));
        assert_true(machine.silent);
        assert_int_equal(machine.device_count, 0);
        machine_free(&machine);
    }
    assert_true(time(NULL) - begin < 15);
    unlink(path);
    bool silent = true;
    for (int i = 0; i < 5000 && silent; i++) {
        assert_true(machine_read(&sources, &machine));
        silent = machine.silent;
        assert_int_equal(machine.device_count, silent ? 0 : 1);
        machine_free(&machine);
        usleep(1000);
    }
    assert_false(silent);
    make_file("hang", "");
    assert_true(machine_read(&sources, &machine));
    nvml_close(
        sources.nvml); /* its thread is left behind, and reads the environment: the last test */
    machine_free(&machine);
    unlink(path);
}

/* The page and the driver see one device and one process; a process of which only the driver knows
   has dashes. */
static void sources_join(void **state) {
    (void)state;
    char pages[128], path[512], cell[CELL_BYTES];
    struct page_maker page;
    static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    page_make(&page, 11, 110, 1);
    page.head.updated_ns = UINT64_MAX / 2;
    page.head.devices.count = page.head.devices.total = 1;
    memcpy(page.devices[0].uuid, uuid, sizeof uuid);
    snprintf(page.devices[0].backend, sizeof page.devices[0].backend, "cuda");
    page.devices[0].uuid_known = 1;
    page.devices[0].held_bytes = 5ull << 30;
    page.devices[0].memory_bytes = page.devices[0].free_bytes = 7;
    snprintf(pages, sizeof pages, "%s/pages", root);
    snprintf(path, sizeof path, "%s/11-110-1.page", pages);
    make_folders(path);
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(&page, 1, sizeof page, file), sizeof page);
    fclose(file);
    setenv("FAKE_NVML_PROCESSES", "11:6000000000,12:1000000000", 1);
    make_file("proc/12/cmdline", "");
    snprintf(path, sizeof path, "%s/proc/12/cmdline", root);
    file = fopen(path, "w");
    fwrite("./other\0-x\0", 1, 11, file);
    fclose(file);
    struct machine machine;
    struct machine_sources sources = {.nvml = nvml_open(), .root = root, .pages = pages};
    assert_true(machine_read(&sources, &machine));
    assert_int_equal(machine.device_count, 1);
    const struct machine_device *device = &machine.devices[0];
    assert_string_equal(device->label, "cuda:0");
    assert_int_equal(device->total_bytes, 80ull << 30); /* the driver's figure is the newer one */
    assert_int_equal(machine_used(device), 20ull << 30);
    assert_int_equal(machine_others(device), 15ull << 30);
    machine.devices[0].held_bytes = 30ull << 30; /* more than the driver knew when it was asked */
    assert_int_equal(machine_used(device), 30ull << 30);
    assert_int_equal(machine_others(device), 0);
    assert_int_equal(machine.process_count, 2);
    const struct machine_process *ours = &machine.processes[0], *other = &machine.processes[1];
    assert_true(ours->paged && !other->paged);
    assert_int_equal(ours->held_bytes, 6 << 20);
    assert_int_equal(ours->driver_bytes, 6000000000);
    assert_int_equal(other->held_bytes, 1000000000);
    assert_string_equal(other->command, "./other -x");
    assert_string_equal(column_format(&machine, other, COLUMN_LIVE, cell), "-");
    assert_string_equal(column_format(&machine, other, COLUMN_RATIO, cell), "-");
    assert_string_equal(column_format(&machine, other, COLUMN_PRESSURE, cell), "-");
    assert_string_equal(column_format(&machine, other, COLUMN_RATE, cell), "-");
    assert_string_equal(column_format(&machine, other, COLUMN_HELD, cell), "954M");
    nvml_close(sources.nvml);
    machine_free(&machine);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, tree_begin, tree_end)

int main(void) {
    setenv("VRAM_NVML_LIBRARY", FAKE_NVML_PATH, 1);
    const struct CMUnitTest tests[] = {HERE(fdinfo_is_read), HERE(nvml_is_read), HERE(sources_join),
                                       HERE(nvml_may_hang)};
    return cmocka_run_group_tests_name("outsider", tests, NULL, NULL);
}
