/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 22_limit: at most 6 GB, in one call, and given back when it is lowered. A simulated device of
 * 8 GiB stands in for a GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

#define GB UINT64_C(1000000000)

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "memory=8G"};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 6 * GB};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_addr blocks[8];
    vram_device *device;
    vram_pool *pool;
    vram_status status;
    int count = 0;

    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_pool_create(device, NULL, &pool));
    must(vram_pool_limits_set(pool, &limits)); /* at most 6 GB */

    while ((status = vram_alloc(pool, GB, NULL, &blocks[count])) == VRAM_OK) {
        count++;
    }
    printf("%d blocks of 1 GB, then %s\n", count, vram_status_name(status));

    for (int i = 0; i < count; i++) {
        must(vram_free(blocks[i], NULL));
    }
    limits.cached_bytes = 1 * GB; /* and keep at most 1 GB for later */
    must(vram_pool_limits_set(pool, &limits));
    must(vram_pool_stats_get(pool, &stats));
    printf("held after all is freed: %s\n", stats.reserved_bytes <= GB ? "1 GB at most" : "more");
    vram_context_destroy(context);
    return 0;
}
