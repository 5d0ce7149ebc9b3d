/* SPDX-License-Identifier: Apache-2.0 */
/* Item 28 of the acceptance list: the deprecated names compile with a warning each, and work. */
#include <vram/compat.h>
#include <vram/vram.h>

#include <stdio.h>

static int failures;
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("line %d: %s: %s\n", __LINE__, #what, vram_error_get()->text);                  \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_buffer_info info = {.size = sizeof info};
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_buffer *halves, *floats;
    vram_addr first, second;

    MUST(vram_context_create(&options, &context) == VRAM_OK);
    MUST(vram_device_open(context, 0, &device) == VRAM_OK);
    MUST(vram_pool_create(device, NULL, &pool) == VRAM_OK);

    MUST(vram_get_buffer(pool, 64, VRAM_PRECISION_FP16, &halves) == VRAM_OK);
    MUST(vram_buffer_info_get(halves, &info) == VRAM_OK);
    MUST(info.capacity_bytes == 128 && info.elements == 64);
    MUST(vram_get_or_create(pool, 64, &floats) == VRAM_OK);
    MUST(vram_buffer_info_get(floats, &info) == VRAM_OK);
    MUST(info.capacity_bytes == 256 && info.precision == VRAM_PRECISION_FP32);
    MUST(vram_return_buffer(halves) == VRAM_OK);
    MUST(vram_return_buffer(halves) == VRAM_ERR_STALE);
    MUST(vram_return_buffer(floats) == VRAM_OK);
    MUST(vram_return_buffer(NULL) == VRAM_OK);

    MUST(vram_acquire(pool, 600, &first) == VRAM_OK);
    MUST(vram_release(pool, first) == VRAM_OK);
    MUST(vram_release(pool, first) == VRAM_ERR_INVALID);
    MUST(vram_acquire(pool, 600, &second) == VRAM_OK);
    MUST(second == first); /* reused */
    MUST(vram_release(pool, second) == VRAM_OK);
    MUST(vram_release(pool, 0) == VRAM_OK);

    MUST(vram_pool_stats_get(pool, &stats) == VRAM_OK);
    MUST(stats.live_blocks == 0 && stats.hits > 0);
    vram_context_destroy(context);
    printf("compat: %s\n", failures == 0 ? "good" : "failed");
    return failures != 0;
}
