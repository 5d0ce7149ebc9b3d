/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaks.h: what is reported when a pool or the process ends and blocks are still live.
 */
#ifndef VR_LEAKS_H
#define VR_LEAKS_H

#include "core/tracking/pool_tracking.h"

/* Reports the live blocks of a pool that has ended. Logs a warning and, for a tracked pool, writes
   what the option `leaks` asks for. No lock held; never fails. */
void vr_leaks_of_pool(struct vr_pool *pool);

/* Has leaks reported at the exit of the process if the option leak_exit asks for it. */
void vr_leaks_watch_exit(void);

#endif
