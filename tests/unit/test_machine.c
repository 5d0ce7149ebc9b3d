/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine.c: names of the computer, its memory and its nodes, as read of /proc and /sys, most
   of them in trees made for the test. */
#include "base/os/machine.h"
#include "base/os/os.h"
#include "base/os/platform.h"
#include "base/size.h"
#include "rig/rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(this_machine_has_names) {
    struct vr_machine machine;
    memset(&machine, 'x', sizeof machine);
    vr_os_machine(&machine);
    assert_true(machine.cpu[0] != 0);
    assert_non_null(memchr(machine.cpu, 0, sizeof machine.cpu));
    assert_true(machine.architecture[0] != 0);
    assert_non_null(memchr(machine.architecture, 0, sizeof machine.architecture));
    assert_non_null(strchr(machine.system, ' '));
}

TEST(the_model_is_found) {
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: fpu\n", "Some CPU @ 2 GHz"},
        {"model name:no spaces", "no spaces"},
        {"model name\t:  \tx", "x"},
        {"model name\t: first\nmodel name\t: second\n", "first"},
        {"model name\t:\nmodel name\t: behind an empty one\n", "behind an empty one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64] = "untouched";
        assert_true(vr_machine_cpu_find(cases[i].text, strlen(cases[i].text), name, sizeof name));
        assert_string_equal(name, cases[i].name);
    }
}

TEST(other_text_names_nothing) {
    static const char *const cases[] = {
        "",
        "\n\n\n",
        "model name",
        "model name\t",
        "model name\t:",
        "model name\t: ",
        "model nam",
        "model names\t: x",
        " model name\t: x",
        "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64] = "untouched";
        assert_false(vr_machine_cpu_find(cases[i], strlen(cases[i]), name, sizeof name));
        assert_string_equal(name, "untouched");
    }
}

/* Every beginning of a text is read within its bounds, and a long name is cut. */
TEST(nothing_is_read_past_the_end) {
    static const char text[] = "vendor\t: v\nmodel name\t: 0123456789\n";
    for (size_t bytes = 0; bytes < sizeof text; bytes++) {
        char exact[sizeof text], name[6] = "";
        memset(exact, '#', sizeof exact); /* no terminator behind `bytes` */
        memcpy(exact, text, bytes);
        bool found = vr_machine_cpu_find(exact, bytes, name, sizeof name);
        size_t expected = bytes > 24 ? bytes - 24 : 0;
        assert_int_equal(found, expected > 0);
        assert_int_equal(strlen(name), expected < 5 ? expected : 5);
    }
}

/* ---------------------------------------------- /proc/meminfo and control groups */

#define MACHINE "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"

static char root[64];

static void run(const char *format, const char *argument) {
    char command[256];
    snprintf(command, sizeof command, format, root, argument);
    assert_int_equal(system(command), 0);
}

static int tree_make(void) {
    snprintf(root, sizeof root, "/tmp/vram-machine-XXXXXX");
    assert_non_null(mkdtemp(root));
    run("mkdir -p %s/proc/self%s", "");
    run("mkdir -p %s/sys/fs/cgroup/%s", "outer/inner");
    run("mkdir -p %s/sys/bus/pci/devices/%s", "0000:3b:00.0");
    return 0;
}

static int tree_remove(void) {
    run("rm -r %s%s", "");
    return 0;
}

static void put(const char *path, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* UINT64_MAX stands for unknown. */
static void expect(uint64_t total_kib, uint64_t available_kib) {
    vram_value total = {7, true}, available = {7, true};
    vr_os_memory_under(root, &total, &available);
    assert_int_equal(total.known, total_kib != UINT64_MAX);
    assert_int_equal(total.value, total.known ? total_kib * VR_KIB : 0);
    assert_int_equal(available.known, available_kib != UINT64_MAX);
    assert_int_equal(available.value, available.known ? available_kib * VR_KIB : 0);
}

TEST_IN(NULL, NULL, this_machine_has_memory) {
    vram_value total, available;
    vr_os_memory(&total, &available);
    assert_true(total.known && total.value > 16 * VR_MIB);
    assert_true(available.known && available.value <= total.value);
}

TEST(nothing_to_read_is_unknown) {
    expect(UINT64_MAX, UINT64_MAX);
    put("proc/meminfo", "");
    expect(UINT64_MAX, UINT64_MAX);
    put("proc/meminfo", "MemTotal: many kB\nMemAvailable:\n");
    expect(UINT64_MAX, UINT64_MAX);
    put("proc/meminfo",
        "MemTotal: 99999999999999999999999 kB\nMemAvailable: 18446744073709551615 kB");
    expect(UINT64_MAX, UINT64_MAX);
    put("proc/meminfo", "MemTotal: 5 kB\n");
    expect(5, UINT64_MAX);
}

TEST(without_groups_the_machine_counts) {
    put("proc/meminfo", MACHINE);
    expect(1000, 600);
    put("proc/self/cgroup", "4:memory:/version/one\n");
    put("sys/fs/cgroup/memory.max", "1024");
    expect(1000, 600);
    put("proc/self/cgroup", "");
    expect(1000, 600);
}

TEST(a_group_bounds) {
    put("proc/meminfo", MACHINE);
    put("proc/self/cgroup", "1:cpu:/\n0::/outer/inner\n");
    put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    put("sys/fs/cgroup/outer/memory.max", "409600\n"); /* 400 KiB, of the group above */
    expect(400, 400);
    put("sys/fs/cgroup/outer/memory.current", "307200\n"); /* 300 KiB used ... */
    expect(400, 100);
    put("sys/fs/cgroup/outer/memory.stat", "anon 5\ninactive_file 51200\nfile 9\n"); /* 50 idle */
    expect(400, 150);
    put("sys/fs/cgroup/outer/memory.stat", "inactive_file 999999999\n"); /* more than is used */
    expect(400, 400);
    put("sys/fs/cgroup/outer/memory.stat", "inactive_file 0\n");
    put("sys/fs/cgroup/outer/memory.current", "500000\n"); /* over the limit */
    expect(400, 0);
    put("sys/fs/cgroup/outer/inner/memory.max", "102400\n"); /* the tightest of all counts */
    expect(100, 0);
}

TEST(the_root_of_a_namespace_bounds) {
    put("proc/meminfo", MACHINE);
    put("sys/fs/cgroup/memory.max", "204800\n");
    put("proc/self/cgroup", "0::/\n");
    expect(200, 200);
    put("proc/self/cgroup", "0::/../elsewhere\n");
    expect(200, 200);
    put("sys/fs/cgroup/memory.max", "9999999999999\n"); /* more than there is */
    expect(1000, 600);
}

TEST(long_names_are_survived) {
    char text[3000];
    memset(text, 'x', sizeof text);
    memcpy(text, "0::/", 4);
    text[sizeof text - 1] = 0;
    put("proc/meminfo", MACHINE);
    put("proc/self/cgroup", text);
    expect(1000, 600);
    /* A root longer than any path: nothing can be there. */
    vram_value total = {7, true}, available = {7, true};
    vr_os_memory_under(text, &total, &available);
    assert_false(total.known || available.known);
    char *big = calloc(1, 20001);
    snprintf(big, 20001, "%s", MACHINE);
    memset(big + strlen(MACHINE), 'a', 20000 - strlen(MACHINE));
    put("proc/meminfo", big);
    free(big);
    expect(1000, 600);
}

/* ------------------------------------------------- nodes of devices and of pages */

static void write_node(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:3b:00.0/numa_node", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect_node(const char *pci, bool known, uint64_t node) {
    vram_value found = vr_os_numa_of_device(root, pci);
    assert_int_equal(found.known, known);
    assert_int_equal(found.value, node);
}

/* What cannot be read, or makes no sense, is unknown. */
TEST(nodes_of_devices) {
    static const char *const strange[] = {"-1\n", "", "x\n", "1x\n", "99999999999\n", "1024\n"};
    expect_node("0000:3b:00.0", false, 0); /* no such file */
    write_node("1\n");
    expect_node("0000:3b:00.0", true, 1);
    expect_node("0000:3b:00.1", false, 0);
    write_node("0");
    expect_node("0000:3b:00.0", true, 0);
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        write_node(strange[i]);
        expect_node("0000:3b:00.0", false, 0);
    }
    write_node("1\n");
    expect_node("", false, 0);
    expect_node("..", false, 0);
    expect_node("0000:3b:00.0/../0000:3b:00.0", false, 0);
}

/* A thread's policy is as it was afterwards, and what was made under it lies where it said. */
TEST_IN(NULL, NULL, pages_lie_where_they_are_wanted) {
    struct vr_numa before, after;
    void *pages;
    assert_false(vr_os_numa_begin(UINT64_MAX, &before));
    if (!vr_os_numa_begin(0, &before)) {
        skip(); /* the system lets nobody */
    }
    assert_int_equal(vr_os_pages_alloc(vr_os_page_bytes(), &pages), VRAM_OK);
    memset(pages, 1, vr_os_page_bytes());
    vram_value node = vr_os_numa_of_page(pages);
    vr_os_numa_end(&before);
    assert_true(!node.known || node.value == 0);
    assert_true(vr_os_numa_begin(0, &after));
    vr_os_numa_end(&after);
    assert_int_equal(after.policy, before.policy);
    assert_memory_equal(after.nodes, before.nodes, sizeof after.nodes);
    assert_int_equal(vr_os_pages_free(pages, vr_os_page_bytes()), VRAM_OK);
    assert_false(vr_os_numa_of_page(NULL).known);
}

static void write_processors(const char *text) {
    char path[128];
    run("mkdir -p %s/sys/devices/system/node/%s", "node1");
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node1/cpulist", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void *run_there(void *argument) {
    static const char *const strange[] = {"",      "\n",    "x\n",     "0-\n",
                                          "3-1\n", "0;1\n", "99999\n", "0-99999\n"};
    uint32_t before = vr_os_processors();
    (void)argument;
    assert_true(before >= 1);
    vram_error_clear();
    assert_false(vr_os_numa_run(root, 1)); /* no such file */
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        write_processors(strange[i]);
        assert_false(vr_os_numa_run(root, 1));
    }
    assert_false(vr_os_numa_run(root, UINT64_MAX));
    assert_int_equal(vr_os_processors(), before);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    write_processors("0-1023\n");
    assert_true(vr_os_numa_run(root, 1));
    assert_int_equal(vr_os_processors(), before); /* never more than it may */
    write_processors("0,2-3,5\n");
    if (vr_os_numa_run(root, 1)) { /* where it may run on one of them */
        assert_true(vr_os_processors() <= 4);
    }
    return NULL;
}

/* In a thread of its own, whose processors nobody misses. */
TEST(threads_run_where_they_are_wanted) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_there, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Every byte at every alignment, and none beside. */
TEST_IN(NULL, NULL, copies_past_the_cache) {
    static const size_t sizes[] = {0, 1, 15, 63, 64, 65, 127, 1000, 4096, 70001};
    static uint8_t from[70001 + 256], to[70001 + 256];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t at = 0; at < 130; at += 7) {
            memset(to, 0xEE, sizeof to);
            vr_os_copy_nontemporal(to + at + 1, from + at / 2, sizes[s]);
            assert_memory_equal(to + at + 1, from + at / 2, sizes[s]);
            assert_int_equal(to[at], 0xEE);
            assert_int_equal(to[at + 1 + sizes[s]], 0xEE);
        }
    }
}

EACH_TEST(tree_make, tree_remove)
