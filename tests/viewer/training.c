/* SPDX-License-Identifier: Apache-2.0 */
/*
 * training.c: a program whose trace has everything that the page shows: tags, call stacks, several
 * streams, a loss that is kept at each step, and two requests that are refused: one that is larger
 * than the limit, and one for which the whole ladder is run. Arguments: steps (40).
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

#define MIB (UINT64_C(1) << 20)

enum { LAYERS = 12, STREAMS = 2 };

static vram_context *context;
static vram_pool *pool;
static vram_queue *queues[STREAMS];
static vram_addr last_loss;
static int losses;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(1);
    }
}

__attribute__((noinline)) static vram_addr take(uint64_t bytes, const char *tag, int stream) {
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    vram_addr addr;
    must(vram_alloc_with(pool, bytes, queues[stream], &options, &addr));
    return addr;
}

__attribute__((noinline)) static void load_weights(void) {
    for (int i = 0; i < LAYERS; i++) {
        take((uint64_t)(8 + i) * MIB, "model/weights", 0);
    }
}

__attribute__((noinline)) static void forward(vram_addr *activations, int step) {
    for (int i = 0; i < LAYERS; i++) {
        vram_addr workspace = take((uint64_t)(4 + step % 5) * MIB, "workspace", 1);
        activations[i] = take((uint64_t)(6 + (i * step) % 7) * MIB, "model/activations", 0);
        must(vram_free(workspace, queues[1]));
    }
}

__attribute__((noinline)) static void backward(const vram_addr *activations) {
    vram_addr gradient = 0;
    for (int i = LAYERS - 1; i >= 0; i--) {
        vram_addr next = take((uint64_t)(8 + i) * MIB, "model/gradients", 0);
        if (gradient) {
            must(vram_free(gradient, queues[0]));
        }
        gradient = next;
        must(vram_free(activations[i], queues[0]));
    }
    must(vram_free(gradient, queues[0]));
}

__attribute__((noinline)) static void keep_loss(void) {
    losses++;
    last_loss = take(MIB, "loss", 0); /* the leak that the page must show */
    losses += last_loss == 0;         /* no tail call, so that the stack has this function */
}

__attribute__((noinline)) static void refuse(uint64_t bytes) {
    vram_addr refused;
    if (vram_alloc(pool, bytes, queues[0], &refused) == VRAM_OK) {
        fprintf(stderr, "a large request was not refused\n");
        exit(1);
    }
}

int main(int count, char **words) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "memory=2G"};
    vram_limits limits = {
        .size = sizeof limits, .tracking = VRAM_SWITCH_ON, .hard_bytes = 700 * MIB};
    vram_pool_options tracked = {.size = sizeof tracked, .name = "training", .limits = &limits};
    int steps = count > 1 ? atoi(words[1]) : 40;
    vram_device *device;
    vram_addr activations[LAYERS];

    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_pool_create(device, &tracked, &pool));
    for (int i = 0; i < STREAMS; i++) {
        must(vram_queue_create(device, NULL, &queues[i]));
    }
    load_weights();
    for (int step = 0; step < steps; step++) {
        forward(activations, step);
        keep_loss();
        backward(activations);
        uint64_t large = step == steps / 2 ? 900 * MIB : step == steps / 3 ? 600 * MIB : 0;
        if (large > 0) {
            refuse(large);
        }
    }
    vram_context_destroy(context);
    return 0;
}
