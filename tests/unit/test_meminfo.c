/* SPDX-License-Identifier: Apache-2.0 */
/* test_meminfo.c: what is read of /proc/meminfo and control groups, from trees made for the
   test. */
#include "base/os/platform.h"
#include "base/size.h"
#include "rig/rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MACHINE "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"

static char root[64];

static void run(const char *format, const char *argument) {
    char command[256];
    snprintf(command, sizeof command, format, root, argument);
    assert_int_equal(system(command), 0);
}

static int tree_make(void) {
    snprintf(root, sizeof root, "/tmp/vram-meminfo-XXXXXX");
    assert_non_null(mkdtemp(root));
    run("mkdir -p %s/proc/self%s", "");
    run("mkdir -p %s/sys/fs/cgroup/%s", "outer/inner");
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

EACH_TEST(tree_make, tree_remove)
