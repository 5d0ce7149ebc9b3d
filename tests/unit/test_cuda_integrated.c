/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_integrated.c: a machine of 128 GiB that host and GPU share, as fake_machine.c plays it.
 * Programs of the host hold 60 GiB and the page cache 60, which the driver counts as used. Pools
 * get all but what the host needs, never make it swap, and do not take host memory for more.
 */
#include "byte_units.h"
#include "unit/cuda_world.h"
#include "unit/report_text.h"
#include "vram/buffer.h"
#include "vram/limits.h"
#include "vram/oom.h"
#include "vram/pool.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef WORLD_HIP
#define FAKE(name) "FAKE_HIP_" name
#else
#define FAKE(name) "FAKE_CUDA_" name
#endif

#define TOTAL     (128 * GIB)
#define HOST      (60 * GIB)
#define CACHE     (60 * GIB)
#define AVAILABLE (TOTAL - HOST)
#define LEFT      (TOTAL / 16) /* that pools leave to the host */

static char root[64];
static vram_context *context;
static vram_device *device;
static vram_pool *pool;

/* ------------------------------------------------------------------ machine */

static void put(const char *path, const char *text) {
    char full[128];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_memory(uint64_t total, uint64_t available) {
    char text[128];
    snprintf(text, sizeof text, "MemTotal: %llu kB\nMemAvailable: %llu kB\n",
             (unsigned long long)total / 1024, (unsigned long long)available / 1024);
    put("proc/meminfo", text);
}

static void folder(const char *path) {
    char full[128];
    snprintf(full, sizeof full, "%s/%s", root, path);
    assert_int_equal(mkdir(full, 0700), 0);
}

static void set_bytes(const char *name, uint64_t bytes) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    assert_int_equal(setenv(name, text, 1), 0);
}

static int machine_make(void) {
    char path[128];
    snprintf(root, sizeof root, "/tmp/vram-integrated-XXXXXX");
    assert_non_null(mkdtemp(root));
    folder("proc");
    folder("proc/self");
    folder("sys");
    folder("sys/fs");
    folder("sys/fs/cgroup");
    put_memory(TOTAL, AVAILABLE);
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    assert_int_equal(setenv(FAKE("MEMINFO"), path, 1), 0);
    assert_int_equal(setenv(FAKE("INTEGRATED"), "1", 1), 0);
    set_bytes(FAKE("MEMORY"), TOTAL);
    set_bytes(FAKE("CACHE"), CACHE);
    set_bytes(FAKE("HOST"), HOST);
    fake = fake ? fake : fake_open(WORLD_PATH);
    fake->reset();
    assert_ok(vram_option_set(WORLD_OPTION, WORLD_PATH));
    assert_ok(vram_option_set("system_root", root));
    assert_ok(vram_option_set("memory_sample", "0"));
    return 0;
}

/* Programs of the host take all but so much. */
static void host_leaves(uint64_t bytes) {
    set_bytes(FAKE("HOST"), TOTAL - bytes);
    fake->reset();
    put_memory(TOTAL, bytes);
}

static void device_open(void) {
    vram_context_options options = {.size = sizeof options, .backends = WORLD_NAME};
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_pool_create(device, NULL, &pool));
}

static int machine_end(void) {
    char command[128];
    assert_ok(vram_context_destroy(context));
    context = NULL;
    assert_clean(); /* the machine never swapped */
    assert_ok(vram_option_set("memory_sample", NULL));
    assert_ok(vram_option_set("system_root", NULL));
    assert_ok(vram_option_set(WORLD_OPTION, NULL));
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

static uint64_t free_bytes(void) {
    vram_memory_info memory = {.size = sizeof memory};
    assert_ok(vram_memory_info_get(device, &memory));
    assert_true(memory.free_bytes.known && memory.total_bytes.value == TOTAL);
    return memory.free_bytes.value;
}

static bool is_integrated(void) {
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_describe(device, &info));
    return info.caps & info.caps_known & VRAM_CAP_INTEGRATED;
}

/* Takes memory until there is no more; how much there was. */
static uint64_t fill(vram_status *refused) {
    const uint64_t step = 4 * GIB;
    vram_addr addr;
    uint64_t bytes = 0;
    while ((*refused = vram_alloc(pool, step, NULL, &addr)) == VRAM_OK) {
        bytes += step;
    }
    return bytes;
}

/* --------------------------------------------------------------- how much is free */

TEST(page_cache_is_free) {
    device_open();
    assert_true(is_integrated());
    assert_int_equal(free_bytes(), AVAILABLE);
}

TEST(a_group_limits_it) {
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "8589934592\n");
    device_open();
    assert_int_equal(free_bytes(), 8 * GIB);
}

/* More than there is, as with several GPUs on one host; and a system that does not tell. */
TEST(other_figures) {
    device_open();
    put_memory(4 * TOTAL, 3 * TOTAL);
    assert_int_equal(free_bytes(), TOTAL);
    put("proc/meminfo", "");
    assert_int_equal(free_bytes(), AVAILABLE - CACHE);
}

TEST(a_driver_that_does_not_know) {
    vram_device_info info = {.size = sizeof info};
    fake->attribute(VR_CU_ATTRIBUTE_INTEGRATED, -1);
    device_open();
    assert_ok(vram_device_describe(device, &info));
    assert_false((info.caps | info.caps_known) & VRAM_CAP_INTEGRATED);
    assert_int_equal(free_bytes(), AVAILABLE - CACHE);
}

/* The firmware of AMD's machines may give most of the memory to the GPU: MemTotal is the rest. */
TEST(memory_that_is_set_aside) {
    put_memory(TOTAL / 4, TOTAL / 8);
    device_open();
#ifdef WORLD_HIP
    assert_false(is_integrated());
    assert_int_equal(free_bytes(), AVAILABLE - CACHE);
#else
    assert_true(is_integrated());
    assert_int_equal(free_bytes(), TOTAL / 8);
#endif
}

/* ------------------------------------------------------------------- limits */

TEST(the_page_cache_is_not_in_the_way) {
    vram_limits limits = {.size = sizeof limits};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_addr addr;
    device_open();
    assert_ok(vram_pool_limits_get(pool, &limits));
    assert_int_equal(limits.min_free_bytes, LEFT);
    assert_int_equal(limits.cpu_fallback, VRAM_SWITCH_OFF);
    for (int i = 0; i < 4; i++) { /* the driver says that 8 GiB are free */
        assert_ok(vram_alloc(pool, 4 * GIB, NULL, &addr));
    }
    assert_ok(vram_pool_stats_get(pool, &stats));
    assert_true(stats.budget_bytes.known);
    assert_int_equal(stats.budget_bytes.value, AVAILABLE - LEFT);
    assert_int_equal(free_bytes(), AVAILABLE - stats.reserved_bytes);
}

/* Pools take all but what the host needs, and the machine does not swap. */
TEST(what_the_host_uses_counts) {
    vram_status refused;
    host_leaves(LEFT + 8 * GIB);
    device_open();
    assert_int_equal(fill(&refused), 8 * GIB);
    assert_int_equal(refused, VRAM_ERR_LIMIT);
    assert_int_equal(free_bytes(), LEFT);
}

/* ----------------------------------------------------------------- fallbacks */

static vram_error_answer fall_back(void *user, const vram_error_event *event) {
    (void)event;
    ++*(int *)user;
    return VRAM_ERROR_FALL_BACK;
}

TEST(host_memory_is_no_fallback) {
    const vram_limits limits = {.size = sizeof limits, .cpu_fallback = VRAM_SWITCH_ON};
    const vram_ladder_options ladder = {.size = sizeof ladder,
                                        .fallback = VRAM_FALLBACK_MANAGED | VRAM_FALLBACK_PINNED |
                                                    VRAM_FALLBACK_HOST};
    const vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_FALLBACK};
    vram_oom_report report = {.size = sizeof report};
    static struct report_text text;
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status refused;
    vram_buffer *buffer;
    int asked = 0;
    host_leaves(LEFT + 4 * GIB);
    device_open();
    assert_ok(vram_pool_limits_set(pool, &limits));
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    assert_ok(vram_error_handler_set(context, fall_back, &asked));
    fill(&refused);
    assert_int_equal(refused, VRAM_ERR_LIMIT);
    assert_int_equal(asked, 1);
    assert_int_equal(vram_buffer_create(pool, GIB, NULL, &options, &buffer), VRAM_ERR_LIMIT);
    assert_ok(vram_pool_stats_get(pool, &stats));
    assert_int_equal(stats.fallbacks, 0);
    assert_ok(vram_oom_report_get(pool, &report));
    assert_true(report.integrated);
    assert_false(report.processes_bytes.known);
    assert_ok(vram_oom_report_write(&report, VRAM_REPORT_TEXT, report_text_take, &text));
    assert_non_null(strstr(text.text, "fallback - (host memory is the device's)"));
    assert_null(strstr(report.advice, "vram_ladder_options.fallback"));
}

TEST(a_demotion_would_free_nothing) {
    const vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_FALLBACK};
    vram_buffer *buffer;
    uint64_t bytes = 7;
    device_open();
    assert_ok(vram_buffer_create(pool, GIB, NULL, &options, &buffer));
    assert_int_equal(vram_buffer_demote(buffer, NULL), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(vram_pool_demote(pool, GIB, NULL, &bytes), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(bytes, 7);
}

/* --------------------------------------------------------------------- sleep */

TEST(sleep_keeps_nothing_in_host_memory) {
    vram_sleep_options options = {.size = sizeof options};
    char out[64], in[64];
    vram_queue *queue;
    vram_addr addr;
    device_open();
    assert_ok(vram_queue_create(device, NULL, &queue));
    assert_ok(vram_alloc(pool, GIB, queue, &addr));
    memset(out, 'a', sizeof out);
    assert_ok(vram_queue_upload(queue, addr, out, sizeof out));
    for (int contents = VRAM_SLEEP_HOST; contents <= VRAM_SLEEP_PINNED; contents++) {
        options.contents = (vram_sleep_contents)contents;
        assert_int_equal(vram_pool_sleep(pool, &options), VRAM_ERR_UNSUPPORTED);
        assert_non_null(strstr(vram_error_get()->text, "shares its memory with the host"));
    }
    assert_ok(vram_queue_download(queue, in, addr, sizeof in));
    assert_ok(vram_queue_wait(queue, FOR_EVER));
    assert_memory_equal(in, out, sizeof in); /* it is awake, with its contents */
    options.contents = VRAM_SLEEP_DROP;
    assert_ok(vram_pool_sleep(pool, &options));
    assert_int_equal(free_bytes(), AVAILABLE); /* that frees memory */
    assert_ok(vram_pool_wake(pool, NULL));
}

EACH_TEST(machine_make, machine_end)
