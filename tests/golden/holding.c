/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding.c: a program that holds blocks, says so, and waits until its standard input ends. With
 * the argument "threads" it goes on allocating. See attach_test.py. With "leak" it is what
 * leaking.c says.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <vram/vram.h>

static vram_pool *pool;
static atomic_bool stop;

__attribute__((noinline)) static int hold_blocks(void) {
    vram_alloc_options options = {.size = sizeof options, .tag = "model/weights"};
    vram_addr addr;
    int failed = vram_alloc_with(pool, 3 << 20, NULL, &options, &addr) != VRAM_OK;
    for (int i = 0; i < 10; i++) {
        failed += vram_alloc(pool, 4096, NULL, &addr) != VRAM_OK;
    }
    return failed;
}

static void *churn(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        vram_addr addr;
        if (vram_alloc(pool, 1000, NULL, &addr) == VRAM_OK) {
            vram_free(addr, NULL);
        }
    }
    return NULL;
}

int leaking(void);

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "leak") == 0) {
        return leaking();
    }
    vram_context_options options = {.size = sizeof options, .backends = "sim"};
    vram_pool_options named = {.size = sizeof named, .name = "main"};
    vram_context *context;
    vram_device *device;
    pthread_t thread;
    if (vram_context_create(&options, &context) != VRAM_OK ||
        vram_device_open(context, 0, &device) != VRAM_OK ||
        vram_pool_create(device, &named, &pool) != VRAM_OK) {
        return 1;
    }
    int failed = hold_blocks();
    bool threads = count > 1 && strcmp(words[1], "threads") == 0 &&
                   pthread_create(&thread, NULL, churn, NULL) == 0;
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    atomic_store(&stop, true);
    if (threads) {
        pthread_join(thread, NULL);
    }
    return vram_context_destroy(context) != VRAM_OK || failed != 0;
}
