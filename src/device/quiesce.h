/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quiesce.h: nothing is launched while page-locked memory is given back.
 *
 * Drivers wait for the work of a device when they take page-locked memory back, some for that of
 * all devices. A kernel that listens to a ring does not end by itself, so who gives back on its own
 * account would wait for ever, and perhaps every other call of the driver behind it. Therefore:
 *
 *  (1) Who gives back is entered in the context first, and looks at the queues of all devices of
 *      the backend then: work, a call that is giving some, or a queue that does not tell, and
 *      nothing is given back now.
 *  (2) A launch is counted in its queue first and looks for who gives back then: it waits for that,
 *      a call or two of the driver, for a pool that shrinks one for each segment. One of the two
 *      sees the other; only one of them waits, and never for the one that waits.
 *  (3) Who launches while it gives back itself, in a callback of the log, does not wait.
 *  (4) Nobody waits for who has been at it for VR_QUIESCE_NS. The driver may be waiting for a
 *      stream of the program's own, and that stream for what this launch is to start. The launch
 *      goes ahead: the driver serialises the two calls as it likes, and who gives back may have to
 *      wait for the kernel. The time runs from the moment that it was entered, so launches pay for
 *      one that hangs once, not each.
 *
 * The time is entered after the thread is. A launch that sees the thread with the time of an
 * earlier one goes ahead at once, and rightly: it was counted before the time was entered, hence
 * before the queues are looked at, by (1).
 *
 * Copies and fills end by themselves and do not wait. Work that the program gives its own streams,
 * or through another context, is not seen.
 */
#ifndef VR_STILLNESS_H
#define VR_STILLNESS_H

#include "device/objects.h"

/* A hundred times what page-locking a staging slot of 4 MiB and giving it back takes, so that a
   thread that had to wait for a processor is not overtaken; and little for a program that would
   hang. */
#define VR_QUIESCE_NS UINT64_C(200000000)

/* False: there is work, or another is at it. No lock held. */
bool vr_quiesce_begin(struct vr_device_object *device);
void vr_quiesce_end(struct vr_device_object *device);

/* Of a launch on a queue that it is counted in: until nobody gives back, or by (4). */
void vr_quiesce_await(struct vr_device_object *device);

#endif
