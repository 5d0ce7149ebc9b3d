/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard_cost [BACKEND]: what safety modes cost: the median time of an allocation and a free of 4
 * KiB and of 1 MiB, for each mode and with pooling off, on the best device or on the first of a
 * backend.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vram/vram.h>

enum { PAIRS = 501 };

static void must(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "guard_cost: %s: %s\n", what, vram_error_get()->text);
        exit(2);
    }
}

static double now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double pair_us(vram_device *device, vram_queue *queue, uint32_t flags, uint64_t bytes) {
    static double times[PAIRS];
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    vram_pool *pool;
    must(vram_pool_create(device, &options, &pool), "vram_pool_create");
    for (int i = 0; i < PAIRS; i++) {
        vram_addr addr;
        double start = now_us();
        must(vram_alloc(pool, bytes, queue, &addr), "vram_alloc");
        must(vram_free(addr, queue), "vram_free");
        times[i] = now_us() - start;
    }
    must(vram_pool_destroy(pool), "vram_pool_destroy");
    qsort(times, PAIRS, sizeof times[0], compare);
    return times[PAIRS / 2];
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        uint32_t flags;
        const char *pool;
    } rows[] = {
        {"none", 0, "on"},
        {"deterministic", VRAM_POOL_DETERMINISTIC, "on"},
        {"zero_alloc", VRAM_POOL_ZERO_ALLOC, "on"},
        {"zero_free", VRAM_POOL_ZERO_FREE, "on"},
        {"poison", VRAM_POOL_POISON, "on"},
        {"red_zones", VRAM_POOL_RED_ZONES, "on"},
        {"pool off", 0, "off"},
    };
    vram_context_options wanted = {.size = sizeof wanted, .backends = argc > 1 ? argv[1] : NULL};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    uint32_t best;
    must(vram_context_create(&wanted, &context), "vram_context_create");
    must(vram_device_best(context, &best), "vram_device_best");
    must(vram_device_open(context, best, &device), "vram_device_open");
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    printf("%-14s %14s %14s\n", "mode", "4 KiB", "1 MiB");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must(vram_option_set("pool", rows[i].pool), "vram_option_set");
        double small = pair_us(device, queue, rows[i].flags, UINT64_C(4) << 10);
        double large = pair_us(device, queue, rows[i].flags, UINT64_C(1) << 20);
        printf("%-14s %11.3f us %11.3f us\n", rows[i].name, small, large);
    }
    vram_context_destroy(context);
    return 0;
}
