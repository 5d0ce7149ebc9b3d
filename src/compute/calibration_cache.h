/* SPDX-License-Identifier: Apache-2.0 */
/* calibration_cache.h: measured rates in a file of the user; see calibration_cache.c. */
#ifndef VR_CALIBRATION_CACHE_H
#define VR_CALIBRATION_CACHE_H

#include "compute/scheduler_object.h"

/* Where the rates of a scheduler are stored, and everything that they depend on. */
struct vr_calibration_place {
    char path[768];
    char key[2048]; /* lines */
};

/* False: there is no folder for it, or the option disables it. */
bool vr_calibration_place(const struct vr_scheduler *scheduler,
                          const struct vr_arithmetic *arithmetic,
                          struct vr_calibration_place *place);

/* False: there is no valid file. No error is recorded. */
bool vr_calibration_read(const struct vr_calibration_place *place, struct vram_calibration *rates);
void vr_calibration_keep(const struct vr_calibration_place *place,
                         const struct vram_calibration *rates);

/* Rounds to the numbers that a file holds, so that all programs use the same. */
void vr_calibration_round(struct vram_calibration *rates);

/* The rates in a file's text, if all of it is valid. */
bool vr_calibration_parse(const char *key, const char *text, size_t bytes,
                          struct vram_calibration *rates);

#endif
