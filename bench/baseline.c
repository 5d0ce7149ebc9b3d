/* SPDX-License-Identifier: Apache-2.0 */
/*
 * baseline: what the driver itself costs, on the best device. Pools are measured against this.
 *
 * Every row is the median of its rounds, so one interruption does not move it. A simulated device
 * is timed by its own virtual clock, and the heading says so: its figures are those of a model.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vram/vram.h>

enum { ROUNDS = 101 };
#define MIB (UINT64_C(1) << 20)

static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static bool simulated;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "baseline: %s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(2);
    }
}

/* Now in ns: of the world, or of the simulation. */
static uint64_t now(void) {
    if (simulated) {
        vram_sim_state state = {.size = sizeof state};
        must(vram_sim_state_get(context, &state));
        return state.clock_ns;
    }
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* What one round measures, and its size. */
typedef void round_fn(uint64_t bytes);

/* Median ns of a round; the first one warms up and is not counted. */
static uint64_t median_of(round_fn *round, uint64_t bytes) {
    uint64_t times[ROUNDS];
    round(bytes);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now();
        round(bytes);
        times[i] = now() - start;
    }
    qsort(times, ROUNDS, sizeof times[0], compare);
    return times[ROUNDS / 2];
}

static void print_time(const char *what, round_fn *round, uint64_t bytes) {
    char size[VRAM_SIZE_TEXT_MAX];
    printf("%-28s %10s %12.2f us\n", what, bytes ? vram_size_format(bytes, size) : "",
           (double)median_of(round, bytes) / 1e3);
}

static void print_rate(const char *what, round_fn *round, uint64_t bytes) {
    char size[VRAM_SIZE_TEXT_MAX];
    uint64_t ns = median_of(round, bytes);
    if (ns == 0) { /* a simulation without prices */
        printf("%-28s %10s %15s\n", what, vram_size_format(bytes, size), "no time");
        return;
    }
    printf("%-28s %10s %12.2f GB/s\n", what, vram_size_format(bytes, size),
           (double)bytes / (double)ns);
}

static void alloc_free(uint64_t bytes) {
    vram_addr addr;
    must(vram_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &addr));
    must(vram_device_free(device, addr));
}

static void mark_wait(uint64_t bytes) {
    (void)bytes;
    vram_point point;
    must(vram_queue_mark(queue, &point));
    must(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
}

static vram_physical *physical;
static vram_addr range;

static void map_unmap(uint64_t bytes) {
    must(vram_range_map(device, range, &physical, 1));
    must(vram_range_unmap(device, range, bytes));
}

static vram_addr target, source;
static void *host;

static void upload(uint64_t bytes) {
    must(vram_queue_upload(queue, target, host, bytes));
    mark_wait(0);
}

static void download(uint64_t bytes) {
    must(vram_queue_download(queue, host, source, bytes));
    mark_wait(0);
}

static void copy(uint64_t bytes) {
    must(vram_queue_copy(queue, target, source, bytes));
    mark_wait(0);
}

static void fill(uint64_t bytes) {
    must(vram_queue_fill(queue, target, 0, 4, bytes));
    mark_wait(0);
}

static void measure_vmm(const vram_device_info *info) {
    if (!(info->caps & VRAM_CAP_VMM)) {
        printf("%-28s %10s %15s\n", "map and unmap", "", "not supported");
        return;
    }
    uint64_t bytes = info->vmm_granule.value;
    must(vram_range_create(device, bytes, &range));
    must(vram_physical_create(device, bytes, &physical));
    print_time("map and unmap", map_unmap, bytes);
}

static void measure_copies(const vram_device_info *info) {
    const uint64_t bytes = 64 * MIB;
    bool pinned = info->caps & VRAM_CAP_PINNED;
    vram_addr staging;
    must(vram_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &target));
    must(vram_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &source));
    if (pinned && vram_device_alloc(device, bytes, VRAM_MEMORY_PINNED, &staging) == VRAM_OK) {
        host = (void *)(uintptr_t)staging;
    } else {
        pinned = false; /* locked memory is short on many machines: pageable then, and said so */
        host = calloc(1, bytes);
    }
    if (host == NULL) {
        fprintf(stderr, "baseline: out of host memory\n");
        exit(2);
    }
    /* Pages that nobody wrote are free to read: write all of them before the clock runs. */
    must(vram_queue_fill(queue, source, 1, 4, bytes));
    download(bytes);
    print_rate(pinned ? "upload, pinned" : "upload, pageable", upload, bytes);
    print_rate(pinned ? "download, pinned" : "download, pageable", download, bytes);
    print_rate("copy on the device", copy, bytes);
    print_rate("fill", fill, bytes);
    if (!pinned) {
        free(host);
    }
}

int main(void) {
    vram_device_info info = {.size = sizeof info};
    uint32_t best;
    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_device_describe(device, &info));
    must(vram_queue_create(device, NULL, &queue));
    simulated = info.kind == VRAM_DEVICE_SIMULATED;

    printf("libvram %s, %s: %s%s, median of %d\n", vram_version_text(), info.backend, info.name,
           simulated ? ", SIMULATED TIME" : "", ROUNDS);
    print_time("alloc and free, driver", alloc_free, 64 * 1024);
    print_time("alloc and free, driver", alloc_free, 2 * MIB);
    print_time("alloc and free, driver", alloc_free, 64 * MIB);
    measure_vmm(&info);
    print_time("mark and wait", mark_wait, 0);
    measure_copies(&info);
    vram_context_destroy(context);
    return 0;
}
