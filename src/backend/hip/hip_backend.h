/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hip_backend.h: what the files of the HIP backend share.
 *
 *   hip_driver.c  AMD's dialect of what backend/cuda does: its library, its devices, its codes
 *   hip_trial.c   tries, when a device is opened, what its drivers have been found to promise
 *                 wrongly
 *
 * It has not been run on hardware: only on the tests' runtime without a GPU.
 */
#ifndef VR_HIP_BACKEND_H
#define VR_HIP_BACKEND_H

#include "backend/cuda/cuda_backend.h"

extern const struct vr_cuda_dialect vr_hip_dialect;

/* See vr_cuda_dialect.trial. */
vram_status vr_hip_trial(struct vr_device *device);

#endif
