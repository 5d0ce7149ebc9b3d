/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_sleep [BACKEND [SIZE]]: how long a pool of SIZE (16 GiB) takes to fall asleep and to wake,
 * with its contents dropped, kept in ordinary and in page-locked host memory, and sealed before;
 * what the driver says is free meanwhile; and whether every word is what it was. On the best device
 * or on the first of a backend.
 */
#include "checked.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vram/vram.h>

#define MIB   (UINT64_C(1) << 20)
#define GIB   (UINT64_C(1) << 30)
#define BLOCK (64 * MIB)

static vram_context *context;
static vram_device *device;
static vram_queue *queue;

/* What the driver says is free, in GiB; below 0 where it does not tell. */
static double free_gib(void) {
    vram_memory_info info = {.size = sizeof info};
    must(vram_memory_info_get(device, &info), "vram_memory_info_get");
    return info.free_bytes.known ? (double)info.free_bytes.value / (double)GIB : -1;
}

static uint64_t wrong_words(const vram_addr *addrs, uint64_t count) {
    uint64_t wrong = 0;
    uint32_t *words = malloc(BLOCK);
    if (!words) {
        exit(2);
    }
    for (uint64_t i = 0; i < count; i++) {
        must(vram_queue_download(queue, words, addrs[i], BLOCK), "vram_queue_download");
        must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
        for (uint64_t j = 0; j < BLOCK / sizeof words[0]; j++) {
            wrong += words[j] != 0xA5000000u + i;
        }
    }
    free(words);
    return wrong;
}

static void run(const char *name, vram_sleep_contents contents, bool sealed, uint64_t count) {
    vram_pool *pool;
    vram_addr *addrs = calloc(count, sizeof *addrs);
    vram_sleep_options options = {.size = sizeof options, .contents = contents};
    must(vram_pool_create(device, NULL, &pool), "vram_pool_create");
    for (uint64_t i = 0; addrs && i < count; i++) {
        must(vram_alloc(pool, BLOCK, queue, &addrs[i]), "vram_alloc");
        must(vram_queue_fill(queue, addrs[i], (uint32_t)(0xA5000000u + i), 4, BLOCK),
             "vram_queue_fill");
    }
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
    if (sealed) {
        double start = seconds();
        must(vram_pool_seal(pool, NULL), "vram_pool_seal");
        printf("sealed once in %.1f ms\n", (seconds() - start) * 1e3);
    }
    for (int round = 0; addrs && round < 2; round++) {
        double before = free_gib(), start = seconds();
        must(vram_pool_sleep(pool, &options), "vram_pool_sleep");
        double slept = seconds() - start, asleep = free_gib();
        start = seconds();
        must(vram_pool_wake(pool, NULL), "vram_pool_wake");
        double woke = seconds() - start;
        printf("%-7s %7.1f GiB %10.1f ms %10.1f ms   free %8.2f -> %8.2f -> %8.2f GiB   ", name,
               (double)(count * BLOCK) / (double)GIB, slept * 1e3, woke * 1e3, before, asleep,
               free_gib());
        if (contents == VRAM_SLEEP_DROP) {
            printf("contents dropped\n");
        } else {
            uint64_t wrong = wrong_words(addrs, count);
            printf("%s\n", wrong ? "CONTENTS DIFFER" : "contents equal");
        }
        fflush(stdout);
    }
    must(vram_pool_destroy(pool), "vram_pool_destroy");
    free(addrs);
}

int main(int argc, char **argv) {
    vram_context_options options = {.size = sizeof options, .backends = argc > 1 ? argv[1] : NULL};
    uint64_t bytes = 16 * GIB;
    uint32_t best;
    if (argc > 2) {
        must(vram_size_parse(argv[2], &bytes), argv[2]);
    }
    must(vram_context_create(&options, &context), "vram_context_create");
    must(vram_device_best(context, &best), "vram_device_best");
    must(vram_device_open(context, best, &device), "vram_device_open");
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    printf("%-7s %11s %13s %13s   %s\n", "keeps", "pool", "sleep", "wake",
           "what the driver has free");
    run("nothing", VRAM_SLEEP_DROP, false, bytes / BLOCK);
    run("host", VRAM_SLEEP_HOST, false, bytes / BLOCK);
    run("pinned", VRAM_SLEEP_PINNED, false, bytes / BLOCK);
    run("sealed", VRAM_SLEEP_HOST, true, bytes / BLOCK);
    vram_queue_destroy(queue);
    vram_device_close(device);
    vram_context_destroy(context);
    return 0;
}
