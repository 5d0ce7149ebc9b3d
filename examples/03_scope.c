/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 03_scope: memory that goes with the part of the program that needed it, whichever way that part
 * is left. What outlives it is taken out of the scope.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* Two blocks to work with and one for the result, which is all that is left if there is room for
   it. */
static vram_status compute(vram_scope *scope, vram_queue *queue, uint64_t bytes,
                           vram_addr *result) {
    vram_addr left, right, sum;
    vram_status status = vram_scope_alloc(scope, 1 << 20, queue, &left);
    if (status == VRAM_OK) {
        status = vram_scope_alloc(scope, 1 << 20, queue, &right);
    }
    if (status == VRAM_OK) {
        status = vram_scope_alloc(scope, bytes, queue, &sum);
    }
    if (status == VRAM_OK) {
        status = vram_scope_take(scope, sum);
    }
    if (status == VRAM_OK) {
        *result = sum;
    }
    return status;
}

static vram_status step(vram_pool *pool, vram_queue *queue, uint64_t bytes, vram_addr *result) {
    vram_scope *scope;
    must(vram_scope_begin(pool, NULL, &scope));
    vram_status status = compute(scope, queue, bytes, result);
    must(vram_scope_end(scope)); /* in the order of the queue: nobody waits */
    return status;
}

static void print_live(vram_pool *pool, const char *when) {
    vram_pool_stats stats = {.size = sizeof stats};
    must(vram_pool_stats_get(pool, &stats));
    printf("%s: %llu live\n", when, (unsigned long long)stats.live_blocks);
}

int main(void) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 << 20};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr result = 0;
    uint32_t best;

    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &best));
    must(vram_device_open(context, best, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, &options, &pool));

    must(step(pool, queue, 1 << 20, &result));
    print_live(pool, "after a step, its result");
    must(vram_free(result, queue));
    printf("a result that does not fit: %s\n",
           vram_status_name(step(pool, queue, 256 << 20, &result)));
    print_live(pool, "after the step that failed");
    vram_context_destroy(context);
    return 0;
}
