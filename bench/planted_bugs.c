/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planted_bugs BUG: a kernel with a bug in memory of a pool, for compute-sanitizer to find, which
 * learns from the pool what its blocks are (docs/troubleshooting.md).
 *
 *   clean    none
 *   overrun  one byte past the end of a block; another block of the pool lies behind it
 *   freed    a block after its free
 *   fresh    memory that nobody has written since it was handed out, though an earlier owner did
 */
#include "checked.h"
#include "zero_block.h"

#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 1000 };

int main(int argc, char **argv) {
    const char *bug = argc == 2 ? argv[1] : "";
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_kernel *kernel;
    vram_addr counts, before, block, behind;
    if (strcmp(bug, "clean") != 0 && strcmp(bug, "overrun") != 0 && strcmp(bug, "freed") != 0 &&
        strcmp(bug, "fresh") != 0) {
        fprintf(stderr, "usage: planted_bugs clean|overrun|freed|fresh\n");
        return 2;
    }
    must(vram_context_create(&options, &context), "vram_context_create");
    must(vram_device_open(context, 0, &device), "vram_device_open");
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    must(vram_pool_create(device, NULL, &pool), "vram_pool_create");
    must(zero_look_create(device, "cuda", &kernel), "vram_kernel_create");
    must(vram_device_alloc(device, 512, VRAM_MEMORY_DEVICE, &counts), "vram_device_alloc");
    must(vram_queue_fill(queue, counts, 0, 4, 512), "vram_queue_fill");

    must(vram_alloc(pool, BYTES, queue, &before), "vram_alloc");
    must(vram_queue_fill(queue, before, 1, 4, BYTES), "vram_queue_fill");
    must(vram_free(before, queue), "vram_free");
    must(vram_alloc(pool, BYTES, queue, &block), "vram_alloc");
    must(vram_alloc(pool, BYTES, queue, &behind), "vram_alloc");
    if (strcmp(bug, "fresh") != 0) {
        must(vram_queue_fill(queue, block, 0, 4, BYTES), "vram_queue_fill");
    }
    if (strcmp(bug, "freed") == 0) {
        must(vram_free(block, queue), "vram_free");
    }
    uint64_t bytes = strcmp(bug, "overrun") == 0 ? BYTES + 1 : BYTES;
    must(zero_look_launch(queue, kernel, block, bytes, counts), "vram_queue_launch");
    vram_status status = vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    printf("%s: block at 0x%llx%s, the kernel %s\n", bug, (unsigned long long)block,
           block == before ? ", an earlier owner's" : "",
           status == VRAM_OK ? "ended" : "was stopped");
    vram_context_destroy(context);
    return 0;
}
