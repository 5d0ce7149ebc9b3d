/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 08_out_of_memory: what happens when memory runs out. A simulated device of 8 GiB is filled until
 * a request is refused; the report says why. Then a callback lets go of a cache, and the same
 * request succeeds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

#define GIB (UINT64_C(1) << 30)

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* What this program can do without. */
struct cache {
    vram_pool *pool;
    vram_addr blocks[3];
};

static uint64_t let_go(void *user, const vram_oom_event *event) {
    struct cache *cache = user;
    uint64_t bytes = 0;
    printf("callback: %llu MiB are needed\n", (unsigned long long)(event->bytes >> 20));
    for (int i = 0; i < 3 && bytes < event->bytes; i++) {
        if (cache->blocks[i] && vram_free(cache->blocks[i], NULL) == VRAM_OK) {
            cache->blocks[i] = 0;
            bytes += GIB;
        }
    }
    return bytes;
}

static bool print(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes;
}

static vram_status alloc(vram_pool *pool, uint64_t bytes, const char *tag, vram_addr *addr) {
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    return vram_alloc_with(pool, bytes, NULL, &options, addr);
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = "memory=8G"};
    vram_pool_options named = {.size = sizeof named, .name = "model"};
    vram_oom_report report = {.size = sizeof report};
    struct cache cache = {.pool = NULL};
    vram_device *device;
    vram_addr addr;
    uint64_t id;

    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_pool_create(device, &named, &cache.pool));
    for (int i = 0; i < 4; i++) {
        must(alloc(cache.pool, GIB, "weights", &addr));
    }
    for (int i = 0; i < 3; i++) {
        must(alloc(cache.pool, GIB, "cache", &cache.blocks[i]));
    }

    vram_status status = alloc(cache.pool, GIB, "activations", &addr);
    printf("%s\n", vram_status_name(status));
    must(vram_oom_report_get(cache.pool, &report));
    must(vram_oom_report_write(&report, VRAM_REPORT_TEXT, print, NULL));

    must(vram_oom_callback_add(device, let_go, &cache, &id));
    status = alloc(cache.pool, GIB, "activations", &addr);
    printf("with a callback: %s\n", vram_status_name(status));
    vram_context_destroy(context);
    return 0;
}
