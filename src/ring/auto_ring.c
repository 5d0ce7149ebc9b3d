/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_ring.c: what the cleanup attribute calls for rings.
 */
#include "base/quiet.h"
#include "ring/ring_object.h"
#include "vram/auto.h"

VR_QUIET_HANDLE(vram_ring, (void)vr_ring_destroy(*object))
