/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaks.h: what is said when a pool ends, or the process, and blocks are still live.
 */
#ifndef VR_LEAKS_H
#define VR_LEAKS_H

#include "core/tracking/pool_tracking.h"

/* A pool with a track has ended: what is live now is lost. Warns, and writes what the option
   `leaks` asks for. No lock held; never fails. */
void vr_leaks_of_pool(struct vr_pool *pool);

/* Sees to it that the exit of the process is reported where the option leak_exit asks for it. */
void vr_leaks_watch_exit(void);

#endif
