/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 06_pinned: host memory that the device copies by itself. Two page-locked buffers take turns:
 * while the device copies one, the host fills the other, and a point tells when each may be written
 * again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

enum { CHUNKS = 8, FLOATS = 1 << 16 };

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* A buffer of floats of that kind. PAGEABLE: ordinary memory if the system cannot lock pages. */
static vram_buffer *floats(vram_pool *pool, uint64_t count, vram_buffer_kind kind,
                           vram_queue *queue) {
    vram_buffer_options options = {.size = sizeof options, .kind = kind};
    vram_buffer *buffer;
    options.flags = kind == VRAM_BUFFER_PINNED ? VRAM_BUFFER_PAGEABLE : 0;
    must(vram_buffer_create_elements(pool, count, VRAM_PRECISION_FP32, queue, &options, &buffer));
    return buffer;
}

int main(void) {
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_buffer *stage[2];
    vram_point copied[2] = {{0}};
    uint32_t best;

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &pool));
    stage[0] = floats(pool, FLOATS, VRAM_BUFFER_PINNED, queue);
    stage[1] = floats(pool, FLOATS, VRAM_BUFFER_PINNED, queue);
    vram_buffer *all = floats(pool, (uint64_t)CHUNKS * FLOATS, VRAM_BUFFER_DEVICE, queue);

    for (int i = 0; i < CHUNKS; i++) {
        float *host;
        vram_span part;
        must(vram_buffer_host(stage[i % 2], (void **)&host));
        must(vram_point_wait(copied[i % 2], VRAM_TIMEOUT_DEFAULT));
        for (int at = 0; at < FLOATS; at++) {
            host[at] = (float)(i * FLOATS + at);
        }
        must(vram_buffer_span(all, (uint64_t)i * FLOATS * 4, (uint64_t)FLOATS * 4, &part));
        must(vram_span_upload(queue, part, host));
        must(vram_queue_mark(queue, &copied[i % 2]));
    }

    float *seen;
    int wrong = 0;
    must(vram_buffer_map(all, 0, (uint64_t)CHUNKS * FLOATS * 4, VRAM_MAP_READ, NULL,
                         (void **)&seen));
    for (int at = 0; at < CHUNKS * FLOATS; at++) {
        wrong += seen[at] != (float)at;
    }
    must(vram_buffer_unmap(all));
    printf("%d floats went through two buffers of %d, wrong: %d\n", CHUNKS * FLOATS, FLOATS, wrong);
    vram_context_destroy(context); /* takes everything with it */
    return 0;
}
