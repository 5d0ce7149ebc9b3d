/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaking.c: the part of holding.c, compiled with debug information, that leaks a block on each of
 * two lines, which it prints. See lines_test.py.
 */
#include <stdio.h>
#include <vram/vram.h>

static vram_pool *pool;

__attribute__((noinline)) static int leak_twice(void) {
    vram_addr addr;
    int failed = vram_alloc(pool, 4096, NULL, &addr) != VRAM_OK;
    failed += vram_alloc(pool, 8192, NULL, &addr) != VRAM_OK;
    printf("%d\n", __LINE__ - 2);
    return failed;
}

int leaking(void);
int leaking(void) {
    vram_context_options options = {.size = sizeof options, .backends = "sim"};
    vram_context *context;
    vram_device *device;
    if (vram_context_create(&options, &context) != VRAM_OK ||
        vram_device_open(context, 0, &device) != VRAM_OK ||
        vram_pool_create(device, NULL, &pool) != VRAM_OK) {
        return 1;
    }
    int failed = leak_twice();
    return vram_context_destroy(context) != VRAM_OK || failed != 0;
}
