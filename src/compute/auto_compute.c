/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_compute.c: what the cleanup attribute calls for schedulers, weights and caches of labels.
 */
#include "base/quiet.h"
#include "vram/compute.h"

VR_QUIET_HANDLE(vram_scheduler, (void)vram_scheduler_destroy(*object))
VR_QUIET_HANDLE(vram_weights, (void)vram_weights_destroy(*object))
VR_QUIET_HANDLE(vram_labels, (void)vram_labels_destroy(*object))
