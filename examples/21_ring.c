/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 21_ring: a kernel that is launched once and answers messages until it is told to end. On a CUDA
 * device it is shaders/ring_double.cu; elsewhere the host runs the same lines in C.
 */
#include "ring_load.h"

#include <stdio.h>
#include <stdlib.h>

enum { MESSAGES = 10000 };
static vram_context *context; /* all else goes with it, also when something fails */
static vram_ring *ring;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        (void)vram_ring_stop(ring); /* the kernel waits for that */
        vram_context_destroy(context);
        exit(1);
    }
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda,host"};
    vram_ring_options ring_options = {.size = sizeof ring_options, .message_bytes = 8};
    vram_ring_info info = {.size = sizeof info};
    vram_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
    vram_pool *pool;
    uint32_t best;
    uint64_t sent = 0, received = 0, answer, wrong = 0;

    must(vram_context_create(&options, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &pool));
    must(vram_ring_create(pool, &ring_options, &ring));
    must(vram_ring_info_get(ring, &info));
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = (const void *[]){&info.control},
                          .argument_bytes = (size_t[]){sizeof info.control}};
    must(ring_load(device, &kernel));
    must(vram_queue_launch(queue, kernel, &launch)); /* once: it stays */

    while (received < MESSAGES) {
        while (sent < MESSAGES && vram_ring_send(ring, &sent, sizeof sent, 0, 0) == VRAM_OK) {
            sent++; /* until the ring is full */
        }
        must(vram_ring_receive(ring, &answer, sizeof answer, VRAM_TIMEOUT_DEFAULT, NULL));
        wrong += answer != 2 * received++;
    }
    must(vram_ring_stop(ring));
    must(vram_ring_join(ring, VRAM_TIMEOUT_DEFAULT));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    printf("%d messages there and back, %d wrong\n", MESSAGES, (int)wrong);
    vram_context_destroy(context);
    return wrong != 0;
}
