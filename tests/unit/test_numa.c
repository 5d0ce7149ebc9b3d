/* SPDX-License-Identifier: Apache-2.0 */
/* test_numa.c: the node of a device, read from trees made for the test, and of pages. */
#include "base/os/os.h"
#include "rig/rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];

static void run(const char *format, const char *argument) {
    char command[256];
    snprintf(command, sizeof command, format, root, argument);
    assert_int_equal(system(command), 0);
}

static int tree_make(void) {
    snprintf(root, sizeof root, "/tmp/vram-numa-XXXXXX");
    assert_non_null(mkdtemp(root));
    run("mkdir -p %s/sys/bus/pci/devices/%s", "0000:3b:00.0");
    return 0;
}

static int tree_remove(void) {
    run("rm -r %s%s", "");
    return 0;
}

static void write_node(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/0000:3b:00.0/numa_node", root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect(const char *pci, bool known, uint64_t node) {
    vram_value found = vr_os_numa_of_device(root, pci);
    assert_int_equal(found.known, known);
    assert_int_equal(found.value, node);
}

/* What cannot be read, or makes no sense, is unknown. */
TEST(nodes_of_devices) {
    static const char *const strange[] = {"-1\n", "", "x\n", "1x\n", "99999999999\n", "1024\n"};
    expect("0000:3b:00.0", false, 0); /* no such file */
    write_node("1\n");
    expect("0000:3b:00.0", true, 1);
    expect("0000:3b:00.1", false, 0);
    write_node("0");
    expect("0000:3b:00.0", true, 0);
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        write_node(strange[i]);
        expect("0000:3b:00.0", false, 0);
    }
    write_node("1\n");
    expect("", false, 0);
    expect("..", false, 0);
    expect("0000:3b:00.0/../0000:3b:00.0", false, 0);
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
