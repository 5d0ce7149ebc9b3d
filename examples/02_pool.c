/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 02_pool: a program that allocates in every step, as most do. The first step takes memory from the
 * driver; the later ones reuse it, and nobody waits: a free counts in the order of its queue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

enum { STEPS = 100, BLOCKS = 16 };

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* Blocks of 64 KiB to 1 MiB, written to and freed at once: the queue still works on them then. */
static void step(vram_pool *pool, vram_queue *queue) {
    vram_addr blocks[BLOCKS];
    for (uint64_t i = 0; i < BLOCKS; i++) {
        uint64_t bytes = (i + 1) << 16;
        must(vram_alloc(pool, bytes, queue, &blocks[i]));
        must(vram_queue_fill(queue, blocks[i], (uint32_t)i, 1, bytes));
    }
    for (int i = 0; i < BLOCKS; i++) {
        must(vram_free(blocks[i], queue));
    }
}

/* Calls of the driver that took, mapped or gave back memory. */
static uint64_t memory_calls(vram_pool *pool, vram_pool_stats *stats) {
    must(vram_pool_stats_get(pool, stats));
    return stats->driver_creates + stats->driver_maps + stats->driver_accesses +
           stats->driver_unmaps + stats->driver_releases + stats->driver_allocs +
           stats->driver_frees;
}

int main(void) {
    vram_pool_stats stats = {.size = sizeof stats};
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    uint32_t best;

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &pool));

    step(pool, queue);
    uint64_t first = memory_calls(pool, &stats);
    for (int i = 1; i < STEPS; i++) {
        step(pool, queue);
    }
    uint64_t later = memory_calls(pool, &stats) - first;

    printf("the driver was asked for memory in the first step: %s\n", first > 0 ? "yes" : "no");
    printf("its calls for memory in all later steps: %llu\n", (unsigned long long)later);
    printf("blocks handed out: %llu, live now: %llu\n", (unsigned long long)stats.allocs,
           (unsigned long long)stats.live_blocks);
    vram_context_destroy(context);
    return 0;
}
