/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 11_points: two queues, one order. A producer fills memory, a consumer copies it; a point in time
 * tells the consumer's queue when to start. The device waits, the host does not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

#define BYTES (UINT64_C(4) << 20)

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
    vram_queue *producer, *consumer;
    vram_addr draft, copy;
    vram_point filled, copied;
    uint32_t best;
    static unsigned char result[BYTES];

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &producer));
    must(vram_queue_create(device, NULL, &consumer));
    must(vram_device_alloc(device, BYTES, VRAM_MEMORY_DEVICE, &draft));
    must(vram_device_alloc(device, BYTES, VRAM_MEMORY_DEVICE, &copy));

    must(vram_queue_fill(producer, draft, 42, 1, BYTES));
    must(vram_queue_mark(producer, &filled)); /* a point behind the fill */

    must(vram_queue_after(consumer, filled)); /* what follows starts when it has passed */
    must(vram_queue_copy(consumer, copy, draft, BYTES));
    must(vram_queue_download(consumer, result, copy, BYTES));
    must(vram_queue_mark(consumer, &copied));

    must(vram_point_wait(copied, VRAM_TIMEOUT_DEFAULT));
    size_t wrong = 0;
    for (size_t i = 0; i < BYTES; i++) {
        wrong += result[i] != 42;
    }
    printf("bytes copied too early: %zu\n", wrong);
    printf("the producer's point has passed: %s\n",
           vram_point_poll(filled) == VRAM_OK ? "yes" : "no");

    vram_context_destroy(context);
    return wrong != 0;
}
