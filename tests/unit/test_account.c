/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_account.c: one GPU behind several backends is one account. The tests' drivers for CUDA and
 * HIP name the same GPUs, and the one for OpenCL does so when told.
 */
#include "byte_units.h"
#include "trims.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <stdlib.h>
#include <string.h>

/* A device of each backend for the first GPU, CUDA's for the second too, and a pool on each. */
enum { CUDA, HIP, OPENCL, SECOND, COUNT };

static struct gpu {
    vram_context *context;
    vram_device *devices[COUNT];
    vram_pool *pools[COUNT];
    vram_queue *queues[COUNT];
    uint32_t index[COUNT];
} gpu;

static uint32_t index_of(vram_context *context, const char *backend, uint32_t backend_index) {
    for (uint32_t i = 0; i < vram_device_count(context); i++) {
        vram_device_info info = {.size = sizeof info};
        assert_ok(vram_device_info_get(context, i, &info));
        if (strcmp(info.backend, backend) == 0 && info.backend_index == backend_index) {
            return i;
        }
    }
    fail_msg("%s:%u is not there", backend, backend_index);
    return 0;
}

/* With a limit of each GPU; NULL: none. */
static void open_gpu(const char *limit) {
    static const struct {
        const char *backend;
        uint32_t index;
    } rows[COUNT] = {{"cuda", 0}, {"hip", 0}, {"opencl", 0}, {"cuda", 1}};
    const vram_context_options options = {.size = sizeof options, .backends = "cuda,hip,opencl"};
    assert_ok(vram_option_set("device_limit", limit));
    assert_ok(vram_context_create(&options, &gpu.context));
    for (int i = 0; i < COUNT; i++) {
        gpu.index[i] = index_of(gpu.context, rows[i].backend, rows[i].index);
        assert_ok(vram_device_open(gpu.context, gpu.index[i], &gpu.devices[i]));
        assert_ok(vram_queue_create(gpu.devices[i], NULL, &gpu.queues[i]));
        assert_ok(vram_pool_create(gpu.devices[i], NULL, &gpu.pools[i]));
    }
}

static int set_up(void) {
    setenv("FAKE_CUDA_DEVICES", "2", 1);
    setenv("FAKE_OPENCL", "twin=1", 1);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("hip_library", FAKE_HIP_PATH));
    assert_ok(vram_option_set("opencl_library", FAKE_OPENCL_PATH));
    return 0;
}

static int tear_down(void) {
    assert_ok(vram_context_destroy(gpu.context));
    assert_int_equal(vram_host_bytes(), 0);
    return 0;
}

/* Frees a block, and waits until the work that it was freed behind is over. */
static void free_now(int which, vram_addr addr) {
    vram_point point;
    assert_ok(vram_free(addr, gpu.queues[which]));
    assert_ok(vram_pool_trim(gpu.pools[which], TRIM(.keep_bytes = UINT64_MAX), NULL));
    assert_ok(vram_queue_mark(gpu.queues[which], &point));
    assert_ok(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
}

static uint64_t reserved(vram_device *device) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_device_stats_get(device, &stats));
    return stats.reserved_bytes;
}

/* -------------------------------------------------------------------- limits */

TEST(one_limit_for_one_gpu) {
    vram_addr first, second, third;
    open_gpu("64M");
    assert_ok(vram_device_alloc(gpu.devices[CUDA], 40 * MIB, VRAM_MEMORY_DEVICE, &first));
    assert_int_equal(vram_device_alloc(gpu.devices[HIP], 40 * MIB, VRAM_MEMORY_DEVICE, &second),
                     VRAM_ERR_LIMIT);
    assert_int_equal(vram_device_alloc(gpu.devices[OPENCL], 40 * MIB, VRAM_MEMORY_DEVICE, &second),
                     VRAM_ERR_LIMIT);
    assert_ok(vram_device_alloc(gpu.devices[HIP], 16 * MIB, VRAM_MEMORY_DEVICE, &second));
    assert_int_equal(vram_device_alloc(gpu.devices[CUDA], 16 * MIB, VRAM_MEMORY_DEVICE, &third),
                     VRAM_ERR_LIMIT);
    /* The second GPU has 64 MiB of its own. */
    assert_ok(vram_device_alloc(gpu.devices[SECOND], 64 * MIB, VRAM_MEMORY_DEVICE, &third));
    /* Each device tells of its own, and the context of all. */
    assert_int_equal(reserved(gpu.devices[CUDA]), 40 * MIB);
    assert_int_equal(reserved(gpu.devices[HIP]), 16 * MIB);
    assert_int_equal(reserved(gpu.devices[OPENCL]), 0);
    vram_pool_stats all = {.size = sizeof all};
    assert_ok(vram_context_stats_get(gpu.context, &all));
    assert_int_equal(all.reserved_bytes, 120 * MIB);
    /* What one gives back another may have. */
    assert_ok(vram_device_free(gpu.devices[CUDA], first));
    assert_ok(vram_device_alloc(gpu.devices[OPENCL], 40 * MIB, VRAM_MEMORY_DEVICE, &first));
}

TEST(limits_are_set_through_any_device) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 48 * MIB},
                got = {.size = sizeof got};
    vram_addr addr, more;
    open_gpu(NULL);
    assert_ok(vram_device_limits_set(gpu.devices[OPENCL], &limits));
    assert_ok(vram_device_limits_get(gpu.devices[CUDA], &got));
    assert_int_equal(got.hard_bytes, 48 * MIB);
    assert_ok(vram_device_limits_get(gpu.devices[SECOND], &got));
    assert_int_equal(got.hard_bytes, VRAM_LIMIT_NONE);
    assert_ok(vram_alloc(gpu.pools[CUDA], 32 * MIB, gpu.queues[CUDA], &addr));
    assert_int_equal(vram_alloc(gpu.pools[HIP], 32 * MIB, gpu.queues[HIP], &more), VRAM_ERR_LIMIT);
    assert_int_equal(vram_alloc(gpu.pools[OPENCL], 32 * MIB, gpu.queues[OPENCL], &more),
                     VRAM_ERR_LIMIT);
    assert_ok(vram_alloc(gpu.pools[SECOND], 64 * MIB, gpu.queues[SECOND], &more));
    /* A lower limit takes what is free from the pools of every backend. */
    free_now(CUDA, addr);
    assert_true(reserved(gpu.devices[CUDA]) >= 32 * MIB);
    limits.hard_bytes = 16 * MIB;
    assert_ok(vram_device_limits_set(gpu.devices[HIP], &limits));
    assert_true(reserved(gpu.devices[CUDA]) <= 16 * MIB);
}

/* Memory that a pool of another backend keeps for later is given back before a request is
   refused. */
static void pool_yields_to(int other) {
    vram_addr addr;
    open_gpu("48M");
    assert_ok(vram_alloc(gpu.pools[CUDA], 32 * MIB, gpu.queues[CUDA], &addr));
    free_now(CUDA, addr);
    assert_true(reserved(gpu.devices[CUDA]) >= 32 * MIB);
    assert_ok(vram_alloc(gpu.pools[other], 40 * MIB, gpu.queues[other], &addr));
    assert_true(reserved(gpu.devices[CUDA]) <= 8 * MIB);
}

TEST(a_pool_yields_to_hip) {
    pool_yields_to(HIP);
}

TEST(a_pool_yields_to_opencl) {
    pool_yields_to(OPENCL);
}

/* ---------------------------------------------------------------- what is kept */

TEST(a_quota_is_the_gpus) {
    vram_addr addr, more;
    vram_alloc_options options = {.size = sizeof options, .tag = "tenant"};
    open_gpu(NULL);
    assert_ok(vram_tag_quota_set(gpu.devices[CUDA], "tenant", 0, 8 * MIB));
    assert_ok(vram_alloc_with(gpu.pools[CUDA], 6 * MIB, gpu.queues[CUDA], &options, &addr));
    assert_int_equal(vram_alloc_with(gpu.pools[HIP], 6 * MIB, gpu.queues[HIP], &options, &more),
                     VRAM_ERR_LIMIT);
    assert_ok(vram_alloc_with(gpu.pools[SECOND], 6 * MIB, gpu.queues[SECOND], &options, &more));
    free_now(CUDA, addr);
    assert_ok(vram_alloc_with(gpu.pools[HIP], 6 * MIB, gpu.queues[HIP], &options, &addr));
    vram_tag_info info = {.size = sizeof info};
    assert_ok(vram_tag_info_get(gpu.devices[OPENCL], "tenant", &info));
    assert_true(info.used_bytes >= 6 * MIB && info.used_bytes < 8 * MIB);
}

/* Statistics are the device's own, scopes of peaks too. */
TEST(peaks_are_each_devices_own) {
    vram_addr addr;
    vram_peaks peaks = {.size = sizeof peaks};
    open_gpu(NULL);
    assert_ok(vram_device_peaks_begin(gpu.devices[CUDA]));
    assert_int_equal(vram_device_peaks_end(gpu.devices[HIP], &peaks), VRAM_ERR_INVALID);
    assert_ok(vram_device_peaks_begin(gpu.devices[HIP]));
    assert_ok(vram_device_alloc(gpu.devices[HIP], 16 * MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_device_peaks_end(gpu.devices[HIP], &peaks));
    assert_int_equal(peaks.reserved_bytes, 16 * MIB);
    assert_ok(vram_device_peaks_end(gpu.devices[CUDA], &peaks));
    assert_int_equal(peaks.reserved_bytes, 0);
}

/* What the program itself holds through another backend is not said to be other programs'. */
TEST(a_report_knows_ones_own) {
    vram_addr addr, more;
    vram_oom_report report = {.size = sizeof report};
    open_gpu("64M");
    assert_ok(vram_device_alloc(gpu.devices[CUDA], 40 * MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_int_equal(vram_alloc(gpu.pools[HIP], 40 * MIB, gpu.queues[HIP], &more), VRAM_ERR_LIMIT);
    assert_ok(vram_oom_report_get(gpu.pools[HIP], &report));
    assert_int_equal(report.process_bytes, 40 * MIB);
}

TEST(selection_counts_once) {
    vram_addr addr;
    uint32_t index = 99;
    vram_select_options options = {.size = sizeof options, .bytes = 40 * MIB, .order = "hip"};
    open_gpu("64M");
    assert_ok(vram_device_select(gpu.context, &options, &index));
    assert_int_equal(index, gpu.index[HIP]);
    assert_ok(vram_device_alloc(gpu.devices[CUDA], 40 * MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_int_equal(vram_device_select(gpu.context, &options, &index), VRAM_ERR_DEVICE_MEMORY);
    options.order = "hip,opencl,cuda:1";
    assert_ok(vram_device_select(gpu.context, &options, &index));
    assert_int_equal(index, gpu.index[SECOND]);
}

EACH_TEST(set_up, tear_down)
