/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 09_tracker: knowing every block. A tracked pool tells which blocks are live, whose they are, what
 * was live at its peak, and which one nobody has freed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

#define MIB (UINT64_C(1) << 20)

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

static vram_addr take(vram_pool *pool, uint64_t bytes, const char *tag, const char *name) {
    vram_alloc_options options = {
        .size = sizeof options, .tag = tag, .name = name, .elements = bytes / 4};
    vram_addr addr;
    must(vram_alloc_with(pool, bytes, NULL, &options, &addr));
    return addr;
}

static bool show_block(void *user, const vram_live_block *block) {
    (void)user;
    printf("  %-10s %4llu MiB  %-16s %llu elements\n", block->name,
           (unsigned long long)(block->requested_bytes / MIB), block->tag,
           (unsigned long long)block->elements);
    return true;
}

static bool show_group(void *user, const vram_live_group *group) {
    (void)user;
    printf("  %-16s %4llu MiB at the peak, %4llu MiB now\n", group->tag,
           (unsigned long long)(group->peak_bytes / MIB),
           (unsigned long long)(group->live_bytes / MIB));
    return true;
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "memory=8G"};
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options tracked = {.size = sizeof tracked, .name = "model", .limits = &limits};
    vram_live_stats stats = {.size = sizeof stats};
    vram_device *device;
    vram_pool *pool;

    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_pool_create(device, &tracked, &pool));
    vram_addr weights = take(pool, 512 * MIB, "model/weights", "layers");
    vram_addr scratch = take(pool, 128 * MIB, "model/scratch", "attention");
    must(vram_free(scratch, NULL));
    take(pool, 32 * MIB, "model/cache", "forgotten");

    vram_live_query query = {.size = sizeof query, .pool = pool, .order = VRAM_LIVE_LARGEST};
    printf("live, the largest first:\n");
    must(vram_live_visit(&query, show_block, NULL));
    must(vram_live_stats_get(&query, &stats));
    printf("peak: %llu MiB in %llu blocks:\n", (unsigned long long)(stats.peak_bytes / MIB),
           (unsigned long long)stats.peak_blocks);
    must(vram_live_groups(&query, VRAM_LIVE_BY_TAG, show_group, NULL));
    must(vram_free(weights, NULL));
    must(vram_live_stats_get(&query, &stats));
    printf("never freed: %llu block of %llu MiB:\n", (unsigned long long)stats.live_blocks,
           (unsigned long long)(stats.live_bytes / MIB));
    must(vram_live_visit(&query, show_block, NULL));
    vram_context_destroy(context); /* VRAM_LEAKS=text has the same on standard error */
    return 0;
}
