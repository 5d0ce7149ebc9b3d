/* SPDX-License-Identifier: Apache-2.0 */
/*
 * living.c: a program whose memory moves while it is watched, for `vram report --serve`: tags,
 * stacks, a loss that is kept each tenth of a second, and a request that is refused now and then.
 * It says "ready", and goes on until its standard input ends. With the argument "steady" it holds
 * what it has.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vram/vram.h>

#define MIB (UINT64_C(1) << 20)

enum { LAYERS = 8, STEP_MS = 100, REFUSED_EVERY = 30 };

static vram_pool *pool;
static vram_addr last_loss;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(1);
    }
}

__attribute__((noinline)) static vram_addr take(uint64_t bytes, const char *tag) {
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    vram_addr addr;
    must(vram_alloc_with(pool, bytes, NULL, &options, &addr));
    return addr;
}

__attribute__((noinline)) static void load_weights(void) {
    for (int i = 0; i < LAYERS; i++) {
        last_loss = take((uint64_t)(16 + i) * MIB, "model/weights");
    }
}

__attribute__((noinline)) static void keep_loss(void) {
    last_loss = take(MIB / 4, "loss");
}

/* Waits for the end of a step. False: standard input has ended. */
static bool step_wait(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&input, 1, STEP_MS) <= 0 || read(STDIN_FILENO, &byte, 1) > 0;
}

int main(int count, char **words) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "memory=2G"};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 900 * MIB};
    vram_pool_options named = {.size = sizeof named, .name = "training", .limits = &limits};
    bool steady = count > 1 && strcmp(words[1], "steady") == 0;
    vram_addr activations[LAYERS] = {0}, refused;
    vram_context *context;
    vram_device *device;

    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_pool_create(device, &named, &pool));
    load_weights();
    printf("ready\n");
    fflush(stdout);
    for (int step = 0; step_wait(); step++) {
        if (steady) {
            continue;
        }
        int layer = step % LAYERS;
        if (activations[layer]) {
            must(vram_free(activations[layer], NULL));
        }
        activations[layer] = take((uint64_t)(4 + step * 7 % 40) * MIB, "model/activations");
        keep_loss();
        if (step % REFUSED_EVERY == 5 && vram_alloc(pool, 1000 * MIB, NULL, &refused) == VRAM_OK) {
            fprintf(stderr, "1000 MiB were not refused\n");
            return 1;
        }
    }
    vram_context_destroy(context);
    return 0;
}
