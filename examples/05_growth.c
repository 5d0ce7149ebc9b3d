/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 05_growth: a simulation whose number of nodes is not known before it runs. Its buffer grows by a
 * policy, in place as long as the memory behind it can be had: then the address stays and nothing
 * is copied. What it contained is there after each step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

enum { NODES = 1000000 };

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* New nodes get numbers; all of them are added up. */
static uint64_t add_nodes(vram_queue *queue, vram_addr addr, uint64_t from, uint64_t to) {
    static uint32_t numbers[NODES];
    uint64_t sum = 0;
    for (uint64_t i = from; i < to; i++) {
        numbers[i] = (uint32_t)i;
    }
    must(vram_queue_upload(queue, addr + from * 4, numbers + from, (to - from) * 4));
    must(vram_queue_download(queue, numbers, addr, to * 4));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < to; i++) {
        sum += numbers[i];
    }
    return sum;
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "sim"};
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_buffer *nodes;
    vram_growth growth = {.size = sizeof growth, /* half as much again, 4 bytes a node */
                          .policy = VRAM_GROWTH_FACTOR,
                          .factor_ppm = 1500000,
                          .min_bytes = 4096,
                          .max_bytes = UINT64_C(1) << 30,
                          .element_bytes = 4};
    vram_addr addr;
    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &pool));
    must(vram_buffer_create(pool, 0, queue, NULL, &nodes));
    must(vram_buffer_growth_set(nodes, &growth));

    uint64_t count = 0;
    for (uint64_t next = 1000; next <= NODES; count = next, next *= 10) {
        must(vram_buffer_resize_elements(nodes, next, queue));
        must(vram_buffer_addr(nodes, &addr)); /* it may have moved */
        uint64_t sum = add_nodes(queue, addr, count, next);
        printf("%7llu nodes, %s\n", (unsigned long long)next,
               sum == next * (next - 1) / 2 ? "all of them right" : "and some are wrong");
    }

    vram_growth_info info = {.size = sizeof info};
    must(vram_buffer_growth_get(nodes, &info));
    printf("resized %llu times: %llu in place, %llu by a copy\n",
           (unsigned long long)(info.in_place + info.copies), (unsigned long long)info.in_place,
           (unsigned long long)info.copies);
    must(vram_buffer_destroy(nodes));
    vram_context_destroy(context);
    return 0;
}
