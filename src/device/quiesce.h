/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce.h: nothing is launched while page-locked memory is freed.
 *
 * Drivers wait for the work of a device when they free page-locked memory, some for that of all
 * devices. A kernel that polls a ring does not end by itself, so a thread that frees would wait for
 * ever, and perhaps every other driver call behind it. Therefore:
 *
 *  (1) A thread that is about to free page-locked memory first registers itself in the context.
 *      Then it checks the queues of all devices of the backend: if one has work, is getting work,
 *      or cannot tell, nothing is freed now.
 *  (2) A launch is first counted in its queue. Then it checks for a registered thread and waits for
 *      it: one or two driver calls, or one per segment for a pool that shrinks. One of the two sees
 *      the other. Only one of them waits, and never for a thread that waits.
 *  (3) A thread that launches while it frees itself, in a log callback, does not wait.
 *  (4) No launch waits longer than VR_QUIESCE_NS for one registered thread. The driver may be
 *      waiting for a stream of the program, and that stream for what this launch is to start. The
 *      launch proceeds; the driver serialises the two calls, and the thread that frees may have to
 *      wait for the kernel. The time runs from the registration, so only one launch waits that long
 *      for a thread that hangs.
 *
 * The time is stored after the thread. A launch that sees the new thread with the time of an
 * earlier one may proceed at once. That is correct: it was counted before the time was stored,
 * hence before the queues are checked, by (1).
 *
 * Copies and fills end by themselves and do not wait. Work that the program submits to its own
 * streams, or through another context, is not seen.
 */
#ifndef VR_QUIESCE_H
#define VR_QUIESCE_H

#include "device/objects.h"

/* A hundred times what page-locking and freeing a staging slot of 4 MiB takes, so that a launch
   does not overtake a thread that waits for a processor; and a short delay for a program that would
   otherwise hang. */
#define VR_QUIESCE_NS UINT64_C(200000000)

/* False: there is work, or another thread is registered. No lock held. */
bool vr_quiesce_begin(struct vr_device_object *device);
void vr_quiesce_end(struct vr_device_object *device);

/* For a launch on a queue that it is counted in: waits until no thread is registered, or by (4). */
void vr_quiesce_await(struct vr_device_object *device);

#endif
