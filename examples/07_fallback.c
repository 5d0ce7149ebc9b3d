/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 07_fallback: more data than the device may hold. What does not fit lies in host memory, and is
 * moved to the device when it is needed; the least recently used data makes room for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

enum { LAYERS = 6, FIT = 2 };
static const uint64_t layer_bytes = 2 << 20;

static vram_context *context; /* all else goes with it, also when something fails */

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

static void moved(void *user, const vram_buffer_event *event) {
    unsigned *counts = user; /* by vram_move_cause */
    counts[event->cause]++;
}

/* Brings a layer to the device. */
static void bring(vram_pool *pool, vram_buffer *layer, vram_queue *queue) {
    vram_status status = vram_buffer_promote(layer, queue);
    if (vram_status_is_exhausted(status)) {
        must(vram_pool_demote(pool, layer_bytes, queue, NULL));
        status = vram_buffer_promote(layer, queue);
    }
    must(status);
}

int main(void) {
    unsigned counts[3] = {0}, wrong = 0;
    vram_limits limits = {.size = sizeof limits, .hard_bytes = FIT * layer_bytes};
    vram_pool_options wish = {.size = sizeof wish, .limits = &limits};
    vram_buffer_options options = {
        .size = sizeof options, .kind = VRAM_BUFFER_FALLBACK, .moved = moved, .user = counts};
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_buffer *layers[LAYERS];
    uint32_t best;

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, &wish, &pool));
    for (unsigned i = 0; i < LAYERS; i++) {
        void *host;
        must(vram_buffer_create(pool, layer_bytes, queue, &options, &layers[i]));
        must(vram_buffer_map(layers[i], 0, 4, VRAM_MAP_WRITE, NULL, &host));
        *(unsigned *)host = i;
        must(vram_buffer_unmap(layers[i]));
    }
    printf("%d layers, room for %d; fell back: %u\n", LAYERS, FIT, counts[VRAM_MOVE_FALLBACK]);

    for (unsigned i = 0; i < 2 * LAYERS; i++) {
        unsigned number;
        vram_span first = {layers[i % LAYERS], 0, sizeof number};
        bring(pool, layers[i % LAYERS], queue); /* and here a kernel would use it */
        must(vram_span_download(queue, &number, first));
        must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
        wrong += number != i % LAYERS;
    }
    printf("each layer was on the device twice, wrong: %u\n", wrong);
    printf("moved there: %u, moved away: %u\n", counts[VRAM_MOVE_PROMOTE],
           counts[VRAM_MOVE_DEMOTE]);
    vram_context_destroy(context);
    return 0;
}
