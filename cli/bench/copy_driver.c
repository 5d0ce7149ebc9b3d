/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_driver.c: the backend's bare copies, and which driver a device has.
 */
#include "bench/copy_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bare {
    vram_device *device;
    vram_queue *queue;
};

static bool settle(struct copy_driver *driver, vram_status status) {
    if (status != VRAM_OK) {
        snprintf(driver->reason, sizeof driver->reason, "%s", failure_text(status));
    }
    return status == VRAM_OK;
}

static bool bare_to_device(struct copy_driver *driver, vram_addr to, const void *from,
                           uint64_t bytes, bool pinned) {
    const struct bare *bare = driver->state;
    (void)pinned;
    vram_status status = vram_queue_upload(bare->queue, to, from, bytes);
    return settle(driver,
                  status == VRAM_OK ? vram_queue_wait(bare->queue, VRAM_TIMEOUT_DEFAULT) : status);
}

static bool bare_to_host(struct copy_driver *driver, void *to, vram_addr from, uint64_t bytes,
                         bool pinned) {
    const struct bare *bare = driver->state;
    (void)pinned;
    vram_status status = vram_queue_download(bare->queue, to, from, bytes);
    return settle(driver,
                  status == VRAM_OK ? vram_queue_wait(bare->queue, VRAM_TIMEOUT_DEFAULT) : status);
}

static bool bare_pair(struct copy_driver *driver, uint64_t bytes) {
    const struct bare *bare = driver->state;
    vram_addr addr;
    vram_status status = vram_device_alloc(bare->device, bytes, VRAM_MEMORY_PINNED, &addr);
    return settle(driver, status == VRAM_OK ? vram_device_free(bare->device, addr) : status);
}

static void bare_close(struct copy_driver *driver) {
    free(driver->state);
}

void copy_driver_open(struct copy_driver *driver, const struct target *target, vram_device *device,
                      vram_queue *queue) {
    if (strcmp(target->info.backend, "cuda") == 0) {
        if (copy_driver_cuda(driver, target->info.backend_index)) {
            return;
        }
        say_warning("the backend's copies are used instead of the driver's: %s", driver->reason);
    }
    struct bare *bare = malloc(sizeof *bare);
    static const char up[] = "the backend's copy, waited for";
    static const char pair[] = "the driver's allocation and free";
    *driver = (struct copy_driver){.pageable_about = {up, up},
                                   .pinned_about = {up, up},
                                   .pair_about = pair,
                                   .state = bare,
                                   .to_device = bare_to_device,
                                   .to_host = bare_to_host,
                                   .pair = bare_pair,
                                   .close = bare_close};
    if (bare) {
        *bare = (struct bare){device, queue};
    }
}
