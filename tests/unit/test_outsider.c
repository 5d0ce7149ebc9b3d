/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_outsider.c: memory of processes by /proc fdinfo, from a tree as AMD's and Intel's drivers
 * write it, and by NVIDIA's management library, from a fake of it; and how both join live pages.
 */
#include "page_maker.h"
#include "rig/rig.h"
#include "top/column.h"
#include "top/top_machine.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static int tree_begin(void) {
    snprintf(root, sizeof root, "/tmp/vram_outsider_XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tree_end(void) {
    char command[128];
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
TEST(fdinfo_is_read) {
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

TEST(nvml_is_read) {
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

/* Files that are none, or say nothing of use; more clients than a process may have. */
TEST(strange_fdinfo) {
    struct outsiders outsiders = {0};
    char info[256];
    make_descriptor(200, 1, "/dev/dri/card0", "drm-driver:\tx\ndrm-client-id:\t1\n"); /* no bus */
    make_descriptor(200, 2, "/dev/dri/card0", "drm-driver:\tx\ndrm-pdev:\t0000:03:00.0:too:long\n");
    make_descriptor(200, 3, "/dev/dri/card0", "drm-driver\n\ndrm-pdev:\t0000:09:00.0\n");
    make_descriptor(201, 3, "/dev/dri/card0",
                    AMD "drm-client-id:\t1\ndrm-memory-vram:\tKiB\ndrm-total-vram0:\t1 KiB\n"
                        "drm-total-vram1:\t2 MiB\ndrm-memory-gtt:\t -5 KiB\n");
    make_descriptor(201, 4, "/dev/dri/card1", INTEL "drm-client-id:\t1\ndrm-total-local0:\t7\n");
    make_file("proc/202/fd/3", ""); /* not a link */
    make_file("proc/203x/fd/3", "");
    make_file("proc/4294967296/fd/3", "");
    make_file("proc/204/fd/123456789012345678901", "");
    snprintf(info, sizeof info, "%s/proc/205/fd/3", root);
    make_folders(info);
    assert_int_equal(symlink("/dev/dri/card0", info), 0); /* and no fdinfo */
    make_file("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "1000");
    make_file("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used", "2000");
    make_file("sys/bus/pci/devices/0000:00:02.0/mem_info_vram_total", "1000");
    make_file("sys/bus/pci/devices/0000:00:02.0/mem_info_vram_used", "");
    fdinfo_read(root, &outsiders);
    assert_int_equal(outsiders.device_count, 2);
    assert_int_equal(outsiders.use_count, 2);
    for (size_t i = 0; i < 2; i++) { /* a folder lists files in any order */
        bool amd = strcmp(outsiders.devices[outsiders.uses[i].device].pci, "0000:03:00.0") == 0;
        assert_int_equal(outsiders.uses[i].pid, 201);
        assert_int_equal(outsiders.uses[i].bytes, amd ? (2 << 20) + 1024 : 7);
        assert_true(outsiders.uses[i].other_bytes == OUTSIDER_UNKNOWN);
        assert_true(outsiders.devices[outsiders.uses[i].device].free_bytes ==
                    (amd ? 0 : OUTSIDER_UNKNOWN));
    }
    outsiders_free(&outsiders);
}

/* What another library than NVIDIA's says: nothing is taken that cannot be. */
TEST(libraries_that_lie) {
    static const struct {
        const char *lie;
        size_t devices;
        bool cut, uuid, memory, uses;
    } rows[] = {{"devices", OUTSIDER_DEVICES_MAX, true, true, true, true},
                {"uuid", 1, false, false, true, true},
                {"memory", 1, false, true, false, true},
                {"list", 1, false, true, true, false},
                {"room", 1, true, true, true, false}};
    struct outsiders outsiders = {0};
    setenv("FAKE_NVML_PROCESSES", "11:1000", 1);
    struct nvml *nvml = nvml_open();
    assert_non_null(nvml);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("FAKE_NVML_LIE", rows[i].lie, 1);
        nvml_read(nvml, &outsiders);
        const struct outsider_device *first = &outsiders.devices[0];
        if (outsiders.device_count != rows[i].devices || outsiders.cut != rows[i].cut ||
            first->uuid_known != rows[i].uuid || outsiders.silent ||
            (first->total_bytes != OUTSIDER_UNKNOWN) != rows[i].memory ||
            (use_of(&outsiders, 11) != NULL) != rows[i].uses) {
            fail_msg("%s", rows[i].lie);
        }
        outsiders_free(&outsiders);
    }
    unsetenv("FAKE_NVML_LIE");
    nvml_close(nvml);
}

TEST(sums_have_bounds) {
    struct outsiders outsiders = {0};
    assert_int_equal(outsiders_device(&outsiders, ""), 0);
    assert_int_equal(outsiders_device(&outsiders, ""), 1); /* of unknown places there are many */
    assert_int_equal(outsiders_device(&outsiders, "0000:AB:00.0"), 2);
    assert_int_equal(outsiders_device(&outsiders, "0000:ab:00.0"), 2);
    outsiders_add(&outsiders, 0, 1, OUTSIDER_UNKNOWN, 5);
    outsiders_add(&outsiders, 0, 1, 7, OUTSIDER_UNKNOWN);
    outsiders_add(&outsiders, 0, 1, UINT64_MAX / 4, 1);
    assert_true(outsiders.uses[0].bytes == UINT64_MAX / 4);
    assert_int_equal(outsiders.uses[0].other_bytes, 6);
    outsiders_free(&outsiders);
}

TEST(identities_are_checked) {
    static const char *const bad[] = {"", "GPU-", "GPU-0102",
                                      "GPU-0102030g-0506-0708-090a-0b0c0d0e0f10",
                                      "GPU-01020304-0506-0708-090a-0b0c0d0e0f1"};
    uint8_t uuid[16];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(nvml_uuid_read(bad[i], uuid));
    }
    assert_true(nvml_uuid_read("GPU-01020304-0506-0708-090a-0b0c0d0e0f10", uuid));
    assert_int_equal(uuid[15], 16);
}

/* The page and the driver see one device and one process; a process of which only the driver knows
   has dashes. */
TEST(sources_join) {
    char pages[128], path[512], cell[CELL_BYTES];
    struct page_maker page;
    static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    struct stat space; /* of this process's ids: only there the driver's numbers mean the same */
    assert_int_equal(stat("/proc/self/ns/pid", &space), 0);
    page_make(&page, (uint64_t)getpid(), 0, space.st_ino);
    page.head.updated_ns = UINT64_MAX / 2;
    page.head.devices.count = page.head.devices.total = 1;
    memcpy(page.devices[0].uuid, uuid, sizeof uuid);
    snprintf(page.devices[0].backend, sizeof page.devices[0].backend, "cuda");
    page.devices[0].uuid_known = 1;
    page.devices[0].held_bytes = 5ull << 30;
    page.devices[0].memory_bytes = page.devices[0].free_bytes = 7;
    snprintf(pages, sizeof pages, "%s/pages", root);
    snprintf(path, sizeof path, "%s/%d-0-%llu.page", pages, (int)getpid(),
             (unsigned long long)space.st_ino);
    make_folders(path);
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(&page, 1, sizeof page, file), sizeof page);
    fclose(file);
    snprintf(cell, sizeof cell, "%d:6000000000,12:1000000000", (int)getpid());
    setenv("FAKE_NVML_PROCESSES", cell, 1);
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

/* The first look waits for a second, later ones do not; what is there again is read again. */
TEST(nvml_may_hang) {
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

static int begin_file(void) {
    setenv("VRAM_NVML_LIBRARY", FAKE_NVML_PATH, 1);
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(tree_begin, tree_end)
