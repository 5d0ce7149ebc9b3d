/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_ring.c: the cleanup function of rings, for the cleanup attribute.
 */
#include "base/quiet.h"
#include "ring/ring_object.h"
#include "vram/auto.h"

VR_QUIET_HANDLE(vram_ring, (void)vr_ring_destroy(*object))
