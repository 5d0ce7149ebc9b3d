/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_driver.h: copies as a program makes them without libvram, the measure of `vram bench copy`.
 * On CUDA the driver's own entry points are called; elsewhere the backend's bare copies stand in
 * for them, which add a check of addresses and nothing else.
 */
#ifndef COPY_DRIVER_H
#define COPY_DRIVER_H

#include "target.h"

enum { COPY_REASON_MAX = 256 };

/* One copy, begun and waited for, or what the driver takes for that. False: `reason` says why. */
struct copy_driver {
    const char *pageable_about[2]; /* what is called, to the device and back: for people */
    const char *pinned_about[2];
    const char *pair_about;
    void *state;
    char reason[COPY_REASON_MAX];
    bool (*to_device)(struct copy_driver *driver, vram_addr to, const void *from, uint64_t bytes,
                      bool pinned);
    bool (*to_host)(struct copy_driver *driver, void *to, vram_addr from, uint64_t bytes,
                    bool pinned);
    /* Waits until all copies so far have arrived: some that have returned are still on the bus.
       NULL: none are. */
    bool (*settle)(struct copy_driver *driver);
    /* Page-locks and gives back so many bytes. */
    bool (*pair)(struct copy_driver *driver, uint64_t bytes);
    void (*close)(struct copy_driver *driver);
};

/* The driver of the target's device; always one of them. */
void copy_driver_open(struct copy_driver *driver, const struct target *target, vram_device *device,
                      vram_queue *queue);

/* CUDA's; false with the reason where its driver cannot be loaded or asked. */
bool copy_driver_cuda(struct copy_driver *driver, uint32_t backend_index);

#endif
