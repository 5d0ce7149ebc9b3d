/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 20_readback: a simulation whose state is copied to the host every step, while the next steps run.
 * The host feeds it, checks each frame, and waits only for the frame that it needs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/vram.h>

enum { STEPS = 100, BYTES = 1 << 16 };

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

int main(void) {
    vram_readback_options every = {.size = sizeof every, .policy = VRAM_READBACK_EVERY};
    vram_device *device;
    vram_stream_set *streams;
    vram_queue *compute;
    vram_readback *readback;
    vram_feed *feed;
    vram_addr state;
    uint32_t best, torn = 0, seen = 0;

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_stream_set_create(device, NULL, &streams)); /* compute, memory, analysis */
    must(vram_stream_set_get(streams, VRAM_STREAM_COMPUTE, &compute));
    must(vram_readback_create(device, &every, &readback));
    must(vram_feed_create(device, NULL, &feed));
    must(vram_device_alloc(device, BYTES, VRAM_MEMORY_DEVICE, &state));

    for (uint32_t step = 1; step <= STEPS + 1; step++) {
        if (step <= STEPS) { /* new state from the host, in the order of the queue */
            vram_feed_block block;
            must(vram_feed_begin(feed, BYTES, VRAM_TIMEOUT_DEFAULT, &block));
            memset(block.data, (int)step, BYTES);
            must(vram_feed_submit(feed, compute, state, block.number, BYTES, NULL));
            must(vram_readback_start(readback, compute, state, BYTES, NULL));
            must(vram_queue_fill(compute, state, 0xFF, 1, BYTES)); /* it changes at once */
        }
        if (step > 1) { /* the frame before, while this one is on its way */
            vram_frame frame;
            must(vram_readback_next(readback, VRAM_TIMEOUT_DEFAULT, &frame));
            const unsigned char *bytes = frame.data;
            bool whole = bytes[0] == (unsigned char)frame.number;
            torn += !whole || memcmp(bytes, bytes + 1, BYTES - 1) != 0;
            seen++;
            must(vram_readback_release(readback, frame.number));
        }
    }
    must(vram_stream_set_wait(streams, VRAM_TIMEOUT_DEFAULT));
    printf("frames seen: %u, torn: %u\n", seen, torn);
    vram_context_destroy(context);
    return torn != 0;
}
