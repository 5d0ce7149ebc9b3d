/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prices [BACKEND]: what each call of a driver costs through the public API, one row per call and
 * size, on the best device or on the first of a backend. baseline.c measures pairs and rates; this
 * takes them apart, so that it can be seen which call a pool must avoid.
 *
 * Every figure is the median of its rounds and includes libvram's own checks, some tens of ns.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vram/vram.h>

enum { ROUNDS = 51, HANDLES = 64 };
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static vram_context *context;
static vram_device *device;
static vram_queue *queue;

static void must(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "prices: %s: %s: %s\n", what, vram_status_name(status),
                vram_error_get()->text);
        exit(2);
    }
}

/* A row that this device has no room for is said, not guessed. */
static bool fits(vram_status status, const char *what, uint64_t bytes) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (!vram_status_is_exhausted(status)) {
        must(status, what);
        return true;
    }
    printf("%-34s %10s %15s\n", what, vram_size_format(bytes, size), "no room");
    return false;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void print_row(const char *what, uint64_t bytes, uint64_t *ns) {
    char size[VRAM_SIZE_TEXT_MAX];
    qsort(ns, ROUNDS, sizeof ns[0], compare);
    printf("%-34s %10s %12.3f us\n", what, bytes ? vram_size_format(bytes, size) : "",
           (double)ns[ROUNDS / 2] / 1e3);
}

/* Times one expression into ns[i]. */
#define TIMED(ns, i, expression)                                                                   \
    do {                                                                                           \
        uint64_t start_ = now();                                                                   \
        must(expression, #expression);                                                             \
        (ns)[i] = now() - start_;                                                                  \
    } while (0)

/* ------------------------------------------------------------------- memory */

static void price_memory(vram_memory_kind kind, const char *alloc, const char *give,
                         uint64_t bytes) {
    uint64_t taken[ROUNDS], given[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        vram_addr addr = 0;
        uint64_t start = now();
        vram_status status = vram_device_alloc(device, bytes, kind, &addr);
        taken[i] = now() - start;
        if (!fits(status, alloc, bytes)) {
            return;
        }
        TIMED(given, i, vram_device_free(device, addr));
    }
    print_row(alloc, bytes, taken);
    print_row(give, bytes, given);
}

static void price_info(void) {
    uint64_t ns[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        vram_memory_info info = {.size = sizeof info};
        TIMED(ns, i, vram_memory_info_get(device, &info));
    }
    print_row("memory info", 0, ns);
}

/* ---------------------------------------------------------------------- vmm */

static void price_range(uint64_t bytes) {
    uint64_t made[ROUNDS], ended[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        vram_addr base = 0;
        TIMED(made, i, vram_range_create(device, bytes, &base));
        TIMED(ended, i, vram_range_destroy(device, base));
    }
    print_row("range create", bytes, made);
    print_row("range destroy", bytes, ended);
}

static void price_physical(uint64_t bytes) {
    uint64_t made[ROUNDS], ended[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        vram_physical *physical = NULL;
        uint64_t start = now();
        vram_status status = vram_physical_create(device, bytes, &physical);
        made[i] = now() - start;
        if (!fits(status, "physical create", bytes)) {
            return;
        }
        TIMED(ended, i, vram_physical_destroy(physical));
    }
    print_row("physical create", bytes, made);
    print_row("physical destroy", bytes, ended);
}

/* Maps `count` handles of `bytes` each with one call, and unmaps them with one. */
static void price_mapping(uint32_t count, uint64_t bytes, const char *map, const char *unmap) {
    uint64_t mapped[ROUNDS], unmapped[ROUNDS];
    vram_physical *handles[HANDLES];
    vram_addr base = 0;
    must(vram_range_create(device, count * bytes, &base), "range create");
    for (uint32_t i = 0; i < count; i++) {
        must(vram_physical_create(device, bytes, &handles[i]), "physical create");
    }
    for (int i = 0; i < ROUNDS; i++) {
        TIMED(mapped, i, vram_range_map(device, base, handles, count));
        TIMED(unmapped, i, vram_range_unmap(device, base, count * bytes));
    }
    for (uint32_t i = 0; i < count; i++) {
        must(vram_physical_destroy(handles[i]), "physical destroy");
    }
    must(vram_range_destroy(device, base), "range destroy");
    print_row(map, count * bytes, mapped);
    print_row(unmap, count * bytes, unmapped);
}

/* ------------------------------------------------------------------- queues */

static void price_queues(void) {
    uint64_t made[ROUNDS], ended[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        vram_queue *other = NULL;
        TIMED(made, i, vram_queue_create(device, NULL, &other));
        uint64_t start = now();
        vram_queue_destroy(other);
        ended[i] = now() - start;
    }
    print_row("queue create", 0, made);
    print_row("queue destroy", 0, ended);
}

static void price_points(void) {
    uint64_t marked[ROUNDS], waited[ROUNDS], polled[ROUNDS], asked[ROUNDS], followed[ROUNDS];
    vram_queue *other = NULL;
    must(vram_queue_create(device, NULL, &other), "queue create");
    for (int i = 0; i < ROUNDS; i++) {
        vram_point point;
        TIMED(marked, i, vram_queue_mark(queue, &point));
        TIMED(followed, i, vram_queue_after(other, point));
        TIMED(waited, i, vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
        TIMED(polled, i, vram_point_poll(point));
        must(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT), "queue wait");
        TIMED(asked, i, vram_queue_poll(queue));
    }
    vram_queue_destroy(other);
    print_row("mark", 0, marked);
    print_row("after, on another queue", 0, followed);
    print_row("wait for it", 0, waited);
    print_row("poll a passed point", 0, polled);
    print_row("poll an idle queue", 0, asked);
}

static void price_submissions(void) {
    uint64_t up[ROUNDS], down[ROUNDS], across[ROUNDS], filled[ROUNDS];
    const uint64_t bytes = 4096;
    vram_addr memory = 0, pinned = 0;
    must(vram_device_alloc(device, 2 * MIB, VRAM_MEMORY_DEVICE, &memory), "alloc");
    must(vram_device_alloc(device, bytes, VRAM_MEMORY_PINNED, &pinned), "pinned alloc");
    void *host = (void *)(uintptr_t)pinned;
    for (int i = 0; i < ROUNDS; i++) {
        TIMED(up, i, vram_queue_upload(queue, memory, host, bytes));
        TIMED(down, i, vram_queue_download(queue, host, memory, bytes));
        TIMED(across, i, vram_queue_copy(queue, memory + MIB, memory, bytes));
        TIMED(filled, i, vram_queue_fill(queue, memory, 0, 4, bytes));
        must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "queue wait");
    }
    print_row("submit an upload, pinned", bytes, up);
    print_row("submit a download, pinned", bytes, down);
    print_row("submit a copy", bytes, across);
    print_row("submit a fill", bytes, filled);
    must(vram_device_free(device, pinned), "free");
    must(vram_device_free(device, memory), "free");
}

int main(int count, char **arguments) {
    const vram_context_options options = {.size = sizeof options,
                                          .backends = count > 1 ? arguments[1] : NULL};
    vram_device_info info = {.size = sizeof info};
    uint32_t best = 0;
    must(vram_context_create(&options, &context), "context");
    must(vram_device_best(context, &best), "device");
    must(vram_device_open(context, best, &device), "device");
    must(vram_device_describe(device, &info), "device");
    must(vram_queue_create(device, NULL, &queue), "queue");
    printf("libvram %s, %s: %s, median of %d\n", vram_version_text(), info.backend, info.name,
           ROUNDS);
    price_info();
    for (uint64_t bytes = 2 * MIB; bytes <= GIB; bytes *= bytes == 2 * MIB ? 32 : 16) {
        price_memory(VRAM_MEMORY_DEVICE, "alloc", "free", bytes);
    }
    if (info.caps & VRAM_CAP_PINNED) {
        price_memory(VRAM_MEMORY_PINNED, "pinned alloc", "pinned free", MIB);
        price_memory(VRAM_MEMORY_PINNED, "pinned alloc", "pinned free", 16 * MIB);
    }
    if (info.caps & VRAM_CAP_VMM) {
        uint64_t granule = info.vmm_granule.value;
        price_range(GIB);
        price_range(1024 * GIB);
        price_physical(granule);
        price_physical(64 * MIB);
        price_physical(256 * MIB);
        price_physical(GIB);
        price_mapping(1, granule, "map, 1 handle", "unmap, 1 handle");
        price_mapping(HANDLES, granule, "map, 64 handles", "unmap, 64 handles");
        price_mapping(1, 64 * MIB, "map, 1 large handle", "unmap, 1 large handle");
        price_mapping(1, 256 * MIB, "map, 1 large handle", "unmap, 1 large handle");
        price_mapping(1, GIB, "map, 1 large handle", "unmap, 1 large handle");
    }
    price_queues();
    price_points();
    price_submissions();
    vram_context_destroy(context);
    return 0;
}
