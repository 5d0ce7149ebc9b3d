/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hip_backend.h: what the files of the HIP backend share.
 *
 *   hip_driver.c  AMD's dialect of backend/cuda: its library, its devices, its codes
 *   hip_probe.c   tests, when a device is opened, features that some drivers report wrongly
 *
 * It has not been run on hardware, only on the tests' runtime without a GPU.
 */
#ifndef VR_HIP_BACKEND_H
#define VR_HIP_BACKEND_H

#include "backend/cuda/cuda_backend.h"

extern const struct vr_cuda_dialect vr_hip_dialect;

/* See vr_cuda_dialect.probe. */
vram_status vr_hip_probe(struct vr_device *device);

#endif
