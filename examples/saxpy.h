/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saxpy.h: y = a * x + y on a device, with memory from a pool: what the examples with a kernel have
 * in common. Each brings the kernel in the language of its backend. address_mask says which
 * arguments are addresses, so that they reach the kernel as whatever the backend has for a pointer
 * (docs/kernels.md).
 */
#ifndef SAXPY_H
#define SAXPY_H

#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

enum { COUNT = 1000, GROUP = 64 };

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

static void launch(vram_queue *queue, vram_kernel *kernel, vram_addr y, vram_addr x, float a) {
    uint32_t count = COUNT;
    vram_launch call = {.size = sizeof call,
                        .groups = {(COUNT + GROUP - 1) / GROUP, 1, 1},
                        .group_size = {GROUP, 1, 1},
                        .argument_count = 4,
                        .arguments = (const void *[]){&y, &x, &a, &count},
                        .argument_bytes = (size_t[]){sizeof y, sizeof x, sizeof a, sizeof count},
                        .address_mask = 1 << 0 | 1 << 1};
    must(vram_queue_launch(queue, kernel, &call));
}

/* Runs the kernel on the backend's best device; the exit code of the program. */
static int saxpy(const char *backend, const vram_kernel_source *source) {
    vram_context_options options = {.size = sizeof options, .backends = backend};
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_kernel *kernel;
    vram_addr x, y;
    uint32_t best;
    static float numbers[COUNT], results[COUNT];
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = (float)i;
    }

    must(vram_context_create(&options, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &pool));
    must(vram_kernel_create(device, source, &kernel));
    must(vram_alloc(pool, sizeof numbers, queue, &x));
    must(vram_alloc(pool, sizeof numbers, queue, &y));

    must(vram_queue_upload(queue, x, numbers, sizeof numbers));
    must(vram_queue_fill(queue, y, 0, 4, sizeof numbers));
    launch(queue, kernel, y, x, 2.0f); /* y = 2 x */
    launch(queue, kernel, y, x, 0.5f); /* y = 2.5 x */
    must(vram_queue_download(queue, results, y, sizeof results));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));

    printf("2.5 * 10 = %g, 2.5 * 999 = %g\n", results[10], results[999]);
    vram_context_destroy(context);
    return results[10] != 25.0f || results[999] != 2497.5f;
}

#endif
