/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_top_machine.c: devices and processes of `vram top` from live pages: which of them are one,
 * how many there may be; and what it writes for programs.
 */
#include "page_maker.h"
#include "printed_text.h"
#include "survey.h"
#include "top/top_output.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <vram/vram.h>

static char folder[64];

/* That of `vram info`, which would bring all devices with it. */
const char *uuid_format(const uint8_t uuid[16], char text[UUID_TEXT_MAX]) {
    snprintf(text, UUID_TEXT_MAX, "%02x", uuid[0]);
    return text;
}

/* Process 1 is the one of here, which always runs; the others are of another container, so that
   nothing asks whether they do. */
static uint64_t space_of(uint64_t pid) {
    struct stat about;
    return pid == 1 && stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 1;
}

static void page_write(const void *page, size_t bytes, uint64_t pid) {
    char path[128];
    snprintf(path, sizeof path, "%s/%llu-0-%llu.page", folder, (unsigned long long)pid,
             (unsigned long long)space_of(pid));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(page, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static struct page_maker page_of(uint64_t pid) {
    struct page_maker page;
    page_make(&page, pid, 0, space_of(pid));
    page.head.updated_ns = UINT64_MAX / 2;
    page.head.devices.count = page.head.devices.total = 1;
    page.head.sum.live_bytes = page.head.sum.held_bytes;
    snprintf(page.devices[0].backend, sizeof page.devices[0].backend, "cuda");
    page.devices[0].held_bytes = 100;
    page.devices[0].memory_bytes = VRAM_LIVE_PAGE_UNKNOWN;
    page.devices[0].free_bytes = VRAM_LIVE_PAGE_UNKNOWN;
    return page;
}

static struct machine machine_of(void) {
    struct machine machine;
    struct machine_sources sources = {.pages = folder, .pages_only = true};
    assert_true(machine_read(&sources, &machine));
    return machine;
}

/* ----------------------------------------------------------------------- devices */

/* Whether the devices of two processes are one. */
static bool are_one(const vram_live_page_device *one, const vram_live_page_device *other) {
    struct page_maker page = page_of(1);
    page.devices[0] = *one;
    page_write(&page, sizeof page, 1);
    page = page_of(2);
    page.devices[0] = *other;
    page_write(&page, sizeof page, 2);
    struct machine machine = machine_of();
    uint32_t count = machine.device_count;
    assert_in_range(count, 1, 2);
    assert_int_equal(machine.process_count, 2);
    assert_int_equal(machine.devices[0].held_bytes, count == 1 ? 200 : 100);
    machine_free(&machine);
    return count == 1;
}

TEST(the_same_hardware_is_one_device) {
    vram_live_page_device one = page_of(1).devices[0], other = one;
    assert_true(are_one(&one, &other));
    snprintf(other.name, sizeof other.name, "another");
    assert_false(are_one(&one, &other));
    snprintf(one.pci, sizeof one.pci, "0000:AB:00.0");
    assert_false(are_one(&one, &other)); /* one of them does not know where it is */
    assert_false(are_one(&other, &one));
    snprintf(other.pci, sizeof other.pci, "0000:ab:00.0");
    assert_true(are_one(&one, &other));
    one.uuid_known = 1;
    assert_true(are_one(&one, &other));
    other.uuid_known = 1;
    assert_true(are_one(&one, &other));
    other.uuid[3] = 1;
    assert_false(are_one(&one, &other));
    one.kind = VRAM_DEVICE_SIMULATED;
    assert_false(are_one(&one, &other));
    other = one;
    assert_false(are_one(&one, &other)); /* each process has its own */
}

TEST(simulated_devices_are_their_processes_own) {
    struct page_maker page = page_of(1);
    page.head.devices.count = page.head.devices.total = 2;
    page.devices[0].kind = page.devices[1].kind = VRAM_DEVICE_SIMULATED;
    page.devices[1] = page.devices[0];
    page_write(&page, sizeof page, 1);
    page.head.pid = 2;
    page.head.pid_space = space_of(2);
    page.devices[1].index = 1;
    page_write(&page, sizeof page, 2);
    struct machine machine = machine_of();
    assert_int_equal(machine.device_count, 3); /* rows of one device add up */
    assert_int_equal(machine.devices[0].owner, 1);
    assert_int_equal(machine.devices[0].held_bytes, 200);
    assert_int_equal(machine.devices[1].owner, 2);
    assert_string_equal(machine.devices[2].label, "cuda:1");
    assert_false(machine.cut);
    machine_free(&machine);
}

/* Rows of as many devices as a page may have. */
struct wide_page {
    vram_live_page head;
    vram_live_page_device devices[VRAM_LIVE_PAGE_DEVICES];
};

static void wide_page_write(uint64_t pid) {
    struct page_maker page = page_of(pid);
    struct wide_page wide = {.head = page.head};
    wide.head.page_bytes = sizeof wide;
    wide.head.devices.offset = offsetof(struct wide_page, devices);
    wide.head.devices.count = wide.head.devices.total = VRAM_LIVE_PAGE_DEVICES;
    wide.head.pools = wide.head.tags = wide.head.refusals = (vram_live_page_table){0};
    for (uint32_t i = 0; i < VRAM_LIVE_PAGE_DEVICES; i++) {
        wide.devices[i] = page.devices[0];
        wide.devices[i].kind = VRAM_DEVICE_SIMULATED;
        wide.devices[i].index = i;
    }
    page_write(&wide, sizeof wide, pid);
}

static void proc_write(const char *name, const char *text) {
    char path[256], part[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (const char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        (void)mkdir(part, 0700);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void proc_link(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink("/dev/dri/card0", path), 0);
}

TEST(devices_are_bounded) {
    for (uint64_t pid = 1; pid <= 17; pid++) {
        wide_page_write(pid);
    }
    proc_write("proc/1/fd/none", "");
    proc_link("proc/1/fd/3");
    proc_write("proc/1/fdinfo/3", "drm-driver:\tx\ndrm-pdev:\t0000:0c:00.0\n");
    struct machine machine;
    struct machine_sources sources = {.pages = folder, .root = folder};
    assert_true(machine_read(&sources, &machine));
    assert_int_equal(machine.device_count, MACHINE_DEVICES_MAX);
    assert_int_equal(machine.process_count, 17);
    assert_true(machine.cut);
    uint32_t uses = 0;
    for (uint32_t i = 0; i < machine.process_count; i++) {
        uses += machine.processes[i].use_count;
    }
    assert_int_equal(uses, MACHINE_DEVICES_MAX);
    machine_free(&machine);
}

/* The driver knows a process of which there is a page, on a device more than it has room for; and
   devices that are known by their place on the bus, or not at all. */
TEST(drivers_add_to_pages) {
    struct machine machine;
    struct machine_sources sources = {.pages = folder, .root = folder};
    wide_page_write(1);
    struct page_maker page = page_of(8);
    page.devices[0].memory_bytes = 1000;
    page.devices[0].free_bytes = 2000; /* a lie */
    page.devices[0].uuid_known = 1;
    proc_write("sys/bus/pci/devices/0000:0d:00.0/mem_info_vram_total", "5");
    snprintf(page.devices[0].pci, sizeof page.devices[0].pci, "0000:0C:00.0");
    page_write(&page, sizeof page, 8);
    proc_write("proc/1/fd/none", "");
    proc_link("proc/1/fd/3");
    proc_write("proc/8/fd/none", "");
    proc_link("proc/8/fd/3");
    proc_write("proc/8/fdinfo/3", "drm-driver:\tx\ndrm-pdev:\t0000:0d:00.0\ndrm-memory-vram:\t7\n");
    proc_write("proc/9/fd/none", "");
    proc_link("proc/9/fd/3");
    proc_link("proc/9/fd/4");
    proc_write("proc/9/fdinfo/3", "drm-driver:\tx\ndrm-pdev:\t0000:0c:00.0\ndrm-memory-vram:\t5\n");
    proc_write("proc/9/fdinfo/4", "drm-driver:\tx\ndrm-pdev:\t0000:0d:00.0\n");
    proc_write("proc/9/cmdline", "   ");
    proc_write("proc/1/fdinfo/3", "drm-driver:\tx\ndrm-pdev:\t0000:0d:00.0\ndrm-memory-vram:\t6\n");
    assert_true(machine_read(&sources, &machine));
    assert_true(machine.cut); /* the device of process 1 that it has no room for */
    assert_int_equal(machine.device_count, 18);
    assert_int_equal(machine.process_count, 4); /* 8 is another one in another container */
    for (uint32_t i = 0; i < 4; i++) {
        const struct machine_process *process = &machine.processes[i];
        if (process->pid == 9) {
            assert_string_equal(process->command, "");
            assert_true(process->user_known);
            assert_int_equal(process->use_count, 2);
            assert_int_equal(process->held_bytes, 5);
        } else if (process->pid == 1) {
            assert_int_equal(process->driver_bytes, 6);
            assert_int_equal(process->use_count, USES_MAX);
        } else if (process->paged) {
            assert_int_equal(process->driver_bytes, VRAM_LIVE_PAGE_UNKNOWN);
        }
    }
    assert_string_equal(machine.devices[0].label, "0000:0d:00.0");
    assert_string_equal(machine.devices[1].label, "cuda:0");
    assert_true(machine_used(&machine.devices[1]) == UNKNOWN);
    assert_true(machine_others(&machine.devices[1]) == UNKNOWN);
    machine.devices[1].free_bytes = UNKNOWN;
    assert_true(machine_used(&machine.devices[1]) == UNKNOWN);
    machine_free(&machine);
}

/* --------------------------------------------------------------------- processes */

TEST(figures_of_processes) {
    static const struct {
        uint64_t held, live, ratio;
    } cases[] = {{300, 100, 300},
                 {UNKNOWN, 100, UNKNOWN},
                 {100, UNKNOWN, UNKNOWN},
                 {100, 0, UNKNOWN},
                 {UINT64_C(1) << 56, 1, UNKNOWN}}; /* not one that means something */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct page_maker page = page_of(3);
        page.head.user = i == 0 ? UINT32_MAX : 0;
        page.head.sum.held_bytes = cases[i].held;
        page.head.sum.live_bytes = cases[i].live;
        page.head.tags.count = page.head.tags.total = i == 1 ? 0 : 2;
        page.pools[1].pressure_level = VRAM_PRESSURE_HIGH;
        page_write(&page, sizeof page, 3);
        struct machine machine = machine_of();
        const struct machine_process *process = &machine.processes[0];
        char user[USER_TEXT_MAX];
        assert_int_equal(machine.process_count, 1);
        assert_true(process->ratio_hundreds == cases[i].ratio);
        assert_int_equal(process->level, VRAM_PRESSURE_HIGH);
        assert_string_equal(process->top_tag, i == 1 ? "" : "tag/0");
        assert_string_equal(user_format(process, user), i == 0 ? "-" : "root");
        machine_free(&machine);
    }
}

TEST(users_have_names_or_numbers) {
    char text[USER_TEXT_MAX];
    struct machine_process process = {.user = 4000000000u, .user_known = true};
    assert_string_equal(user_format(&process, text), "4000000000");
    process.user = 4000000064u; /* in the same place of the table of names */
    assert_string_equal(user_format(&process, text), "4000000064");
    assert_string_equal(user_format(&process, text), "4000000064");
}

/* ------------------------------------------------------------------------ output */

static struct view view;

static void output_of(const struct machine *machine, bool json) {
    memset(&view, 0, sizeof view);
    view_arrange(&view, machine);
    printed_begin();
    if (json) {
        assert_true(top_json(&view, machine));
    } else {
        top_csv(&view, machine, true);
        top_csv(&view, machine, false);
    }
    printed_end();
}

TEST(programs_get_what_is_known) {
    struct machine_device devices[2] = {
        {.label = "cuda:0", .name = "A", .total_bytes = 100, .free_bytes = 40},
        {.label = "0000:0c:00.0", .pci = "0000:0c:00.0", .total_bytes = UNKNOWN}};
    struct machine_process processes[4] = {
        {.pid = 1,
         .user_known = true,
         .paged = true,
         .level = VRAM_PRESSURE_HIGH,
         .command = "=1+1",
         .top_tag = "a,b",
         .ratio_hundreds = 105,
         .alloc_rate = 1500,
         .use_count = 1},
        {.pid = 2, .command = "say \"x\"", .top_tag = "-", .ratio_hundreds = UNKNOWN},
        {.pid = 3, .top_tag = "", .alloc_rate = UNKNOWN, .live_bytes = UNKNOWN, .paged = true},
        {.pid = 4, .top_tag = "@", .command = "@x"},
    };
    processes[0].view.head.sizes[3] = (vram_live_page_size){.blocks = 2, .bytes = 16};
    processes[0].view.head.origin = VRAM_LIVE_PAGE_RUN;
    processes[0].uses[0] = (struct machine_use){.device = 1, .held_bytes = 5};
    struct machine machine = {
        .devices = devices, .device_count = 2, .processes = processes, .process_count = 4};
    output_of(&machine, false);
    printed_has("time_ns,pid,user,device,");
    assert_ptr_equal(strstr(printed, "time_ns"), printed);
    assert_null(strstr(printed + 1, "time_ns")); /* once */
    printed_has(",1,root,0000:0c:00.0,0,0,0,1.05,0,0,high,1.500,\"a,b\",\"'=1+1\"\n");
    printed_has(",2,,,0,0,0,,0,0,,0.000,-,\"say \"\"x\"\"\"\n");
    printed_has(",3,,,0,,0,0.00,0,0,,,,\n");
    printed_has(",@,\"'@x\"\n");
    output_of(&machine, true);
    printed_has("\"complete\": true");
    printed_has("\"origin\": \"driver\"");
    printed_has("\"origin\": \"run\"");
    printed_has("\"origin\": \"library\"");
    printed_has("\"up_to_bytes\": 8,");
    printed_has("\"name\": null");
    printed_has("\"user\": null");
    printed_has("\"command\": null");
    machine.cut = true;
    output_of(&machine, true);
    printed_has("\"complete\": false");
    machine.cut = false;
    machine.silent = true;
    output_of(&machine, true);
    printed_has("\"complete\": false");
}

static int folder_begin(void) {
    snprintf(folder, sizeof folder, "/tmp/vram_top_machine_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int folder_end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

EACH_TEST(folder_begin, folder_end)
