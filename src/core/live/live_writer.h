/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_writer.h: the thread that writes the live page of the process (docs/live-page.md).
 *
 *  (1) It runs while a context has had a pool and has not ended. A forked child has none until it
 *      creates a pool of its own.
 *  (2) It never makes another call fail: what it cannot do is logged once, and it ends.
 *  (3) Its share of a processor is at most VR_LIVE_CPU_SHARE: after a costly turn it waits longer.
 */
#ifndef VR_LIVE_WRITER_H
#define VR_LIVE_WRITER_H

#include "device/objects.h"

enum { VR_LIVE_CPU_SHARE = 1000 }; /* one part in so many */

/* Time between two updates; for tests, which set it before the first pool. */
extern uint64_t vr_live_interval_ns;

/* A pool of the context was created. No lock held. */
void vr_live_note(struct vr_context *context);

#endif
