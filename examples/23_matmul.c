/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 23_matmul: a matrix product on the best device, without waiting for it. One call makes all that
 * the scheduler needs: context, device, pool and queues. Link libvram-compute.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/compute.h>
#include <vram/vram.h>

enum { SIDE = 64 };

static vram_scheduler *scheduler; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_scheduler_destroy(scheduler);
        exit(1);
    }
}

int main(void) {
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    vram_matmul product = {
        .size = sizeof product, .m = SIDE, .k = SIDE, .n = SIDE, .a = a, .b = b, .c = c};
    vram_async async;
    uint64_t result;

    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i % 7);
        b[i] = i / SIDE == i % SIDE ? 2 : 0; /* twice the identity */
    }
    must(vram_scheduler_create(NULL, NULL, &scheduler));
    must(vram_matmul_start(scheduler, &product, &async));
    vram_status status = vram_async_result_get(&async, &result); /* the product, if it is there */
    if (status == VRAM_ERR_NOT_READY) {
        must(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        status = vram_async_result_get(&async, &result);
    }
    must(status);
    const float *twice = (const float *)(uintptr_t)result;
    printf("c[5] = %g, twice a[5] = %g\n", (double)twice[5], 2.0 * (double)a[5]);
    vram_scheduler_destroy(scheduler);
    return 0;
}
