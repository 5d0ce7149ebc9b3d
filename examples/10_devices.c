/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 10_devices: two GPUs, simulated here. The first that has room for a model gets it; when its
 * memory is used up the next model goes to the other one, and data goes from one to the other
 * without the host.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/vram.h>

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* A pool on the first device with room for a model, and the model in it. */
static vram_device *place(uint64_t bytes, vram_pool **pool, vram_queue **queue, vram_addr *model) {
    vram_select_options needs = {.size = sizeof needs, .bytes = bytes};
    vram_device_info info = {.size = sizeof info};
    vram_device *device;
    uint32_t index;
    must(vram_device_select(context, &needs, &index));
    must(vram_device_open(context, index, &device));
    must(vram_device_describe(device, &info));
    must(vram_queue_create(device, NULL, queue));
    must(vram_pool_create(device, NULL, pool));
    must(vram_alloc(*pool, bytes, *queue, model));
    printf("a model of %llu MiB is on %s:%u\n", (unsigned long long)(bytes >> 20), info.backend,
           info.backend_index);
    return device;
}

int main(void) {
    vram_context_options options = {
        .size = sizeof options, .backends = "sim", .sim = "devices=2,memory=1G,real=on"};
    vram_device *first, *second;
    vram_pool *pools[2];
    vram_queue *queues[2];
    vram_addr models[2];
    vram_point written;
    char sent[] = "from one GPU to the other", received[sizeof sent] = "";

    must(vram_context_create(&options, &context));
    first = place(600 << 20, &pools[0], &queues[0], &models[0]);
    second = place(600 << 20, &pools[1], &queues[1], &models[1]);

    must(vram_device_peer_enable(second, first)); /* the second may read the first's memory */
    must(vram_queue_upload(queues[0], models[0], sent, sizeof sent));
    must(vram_queue_mark(queues[0], &written));
    must(vram_queue_after(queues[1], written)); /* its device waits, the host does not */
    must(vram_queue_copy(queues[1], models[1], models[0], sizeof sent));
    must(vram_queue_download(queues[1], received, models[1], sizeof received));
    must(vram_queue_wait(queues[1], VRAM_TIMEOUT_DEFAULT));
    printf("received: %s\n", received);

    vram_context_destroy(context);
    return strcmp(sent, received) != 0;
}
