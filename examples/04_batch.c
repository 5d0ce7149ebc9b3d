/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 04_batch: buffers of several precisions that come together, side by side in one block and filled
 * from the host; or not at all, when there is no room for the last of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

static void print_live(vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    must(vram_pool_stats_get(pool, &stats));
    printf("blocks of the pool: %llu\n", (unsigned long long)stats.live_blocks);
}

int main(void) {
    static const float weights[300] = {1.5f};
    const size_t size = sizeof(vram_batch_item);
    const vram_batch_item layer[] = {
        {.size = size,
         .name = "weights",
         .elements = 300,
         .precision = VRAM_PRECISION_FP32,
         .host = weights,
         .host_bytes = sizeof weights},
        {.size = size, .name = "scales", .elements = 300, .precision = VRAM_PRECISION_FP16},
        {.size = size, .name = "codes", .elements = 300, .precision = VRAM_PRECISION_INT8},
        {.size = size, .name = "huge", .elements = 1 << 30, .precision = VRAM_PRECISION_INT8},
    };
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 << 20};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_buffer_info info = {.size = sizeof info};
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_batch *batch;
    vram_buffer *buffer;
    vram_addr begin = 0;
    uint32_t best, first;

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, &options, &pool));
    must(vram_batch_create(pool, queue, NULL, &batch));

    printf("with one too many: %s\n", vram_status_name(vram_batch_add(batch, layer, 4, &first)));
    print_live(pool);
    must(vram_batch_add(batch, layer, 3, &first));
    for (uint32_t i = 0; i < 3; i++) {
        must(vram_batch_get(batch, first + i, &buffer));
        must(vram_buffer_info_get(buffer, &info));
        begin = i == 0 ? info.addr : begin;
        printf("%s: %llu bytes at %llu\n", info.name, (unsigned long long)info.capacity_bytes,
               (unsigned long long)(info.addr - begin));
    }
    print_live(pool);
    must(vram_batch_destroy(batch)); /* all of them, in the order of the queue */
    print_live(pool);
    vram_context_destroy(context);
    return 0;
}
