/* SPDX-License-Identifier: Apache-2.0 */
/* 01_hello: sends a text to the best device that is there and gets it back. */
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

int main(void) {
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_device_info info = {.size = sizeof info};
    vram_addr addr;
    uint32_t best;
    char sent[] = "hello, device", received[sizeof sent] = "";

    must(vram_context_create(NULL, &context)); /* finds all drivers and devices */
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_device_describe(device, &info));
    must(vram_queue_create(device, NULL, &queue)); /* work on it runs in order */
    must(vram_pool_create(device, NULL, &pool));   /* memory is taken from it */
    must(vram_alloc(pool, sizeof sent, queue, &addr));
    must(vram_queue_upload(queue, addr, sent, sizeof sent));
    must(vram_queue_download(queue, received, addr, sizeof received));
    must(vram_free(addr, queue)); /* in the order of the queue: no need to wait */
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    vram_context_destroy(context); /* and everything that was made in it */

    printf("sent to %s: %s\nreceived: %s\n", info.backend, sent, received);
    return strcmp(sent, received) != 0;
}
