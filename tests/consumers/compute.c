/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's program on libvram-compute: products end with their pool, and failures are in
   libvram's error record. */
#include <vram/auto.h>
#include <vram/compute.h>
#include <vram/vram.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed(const char *what) {
    printf("%s: %s\n", what, vram_error_get()->text);
    return 1;
}

static vram_status twice(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                         size_t room, size_t *mapped) {
    (void)user;
    for (size_t i = 0; i < count && i < room; i++) {
        mapping[i] = 2 * labels[i];
    }
    *mapped = count;
    return VRAM_OK;
}

/* A forked child is refused, and ends nothing of its parent's. */
static int forked(vram_scheduler *scheduler, const vram_matmul *product) {
    int code = 1;
    pid_t child = fork();
    if (child == 0) {
        bool good = vram_matmul_run(scheduler, product) == VRAM_ERR_FORKED &&
                    vram_error_get()->status == VRAM_ERR_FORKED &&
                    vram_scheduler_destroy(scheduler) == VRAM_OK;
        _exit(good ? 0 : 1);
    }
    return child > 0 && waitpid(child, &code, 0) == child ? code : 1;
}

/* Runs behind the libraries' own exit handlers: no driver is called any more. */
static vram_scheduler *at_exit_scheduler;
static void at_exit(void) {
    vram_scheduler_stats stats = {.size = sizeof stats};
    if (vram_scheduler_stats_get(at_exit_scheduler, &stats) != VRAM_ERR_SHUTDOWN) {
        _exit(3);
    }
}

int main(void) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_scheduler *scheduler;
    float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4] = {0};
    vram_matmul product = {.size = sizeof product, .m = 2, .k = 2, .n = 2, .a = a, .b = b, .c = c};
    vram_async async;
    atexit(at_exit); /* before the libraries': handlers run in the reverse order */
    if (vram_context_create(&options, &context) != VRAM_OK ||
        vram_device_open(context, 0, &device) != VRAM_OK ||
        vram_pool_create(device, NULL, &pool) != VRAM_OK ||
        vram_scheduler_create(pool, NULL, &scheduler) != VRAM_OK) {
        return failed("scheduler");
    }
    if (vram_matmul_run(scheduler, &product) != VRAM_OK || c[0] != 19 || c[3] != 50) {
        return failed("product");
    }
    product.place = VRAM_PLACE_DEVICE;
    memset(c, 0, sizeof c);
    if (vram_matmul_start(scheduler, &product, &async) != VRAM_OK ||
        vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT) != VRAM_OK || c[0] != 19 || c[3] != 50) {
        return failed("product on the device");
    }
    product.m = 0;
    if (vram_matmul_run(scheduler, &product) != VRAM_ERR_INVALID ||
        strcmp(vram_error_get()->operation, "vram_matmul_run") != 0) {
        return failed("bad product");
    }
    product.m = 2;
    if (forked(scheduler, &product) != 0) {
        return failed("a forked child");
    }
    {
        VRAM_AUTO(vram_labels) *labels = NULL;
        int32_t from[2] = {1, 2}, to[2];
        size_t count;
        if (vram_labels_create(NULL, &labels) != VRAM_OK ||
            vram_labels_get(labels, from, 2, twice, NULL, to, 2, &count) != VRAM_OK || to[1] != 4) {
            return failed("labels");
        }
    }
    if (vram_pool_destroy(pool) != VRAM_OK ||
        vram_matmul_run(scheduler, &product) != VRAM_ERR_STALE) {
        return failed("a scheduler whose pool has ended");
    }
    vram_context_destroy(context);
    if (vram_host_bytes() != 0) {
        return failed("memory is left");
    }
    if (vram_context_create(&options, &context) != VRAM_OK ||
        vram_device_open(context, 0, &device) != VRAM_OK ||
        vram_pool_create(device, NULL, &pool) != VRAM_OK ||
        vram_scheduler_create(pool, NULL, &at_exit_scheduler) != VRAM_OK) {
        return failed("a scheduler that is there at the exit");
    }
    printf("libvram %s, devices: 1\n", vram_version_text());
    return 0;
}
