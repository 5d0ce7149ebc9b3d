/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async_record.h: what stands behind a vram_async that is pending or in error, and the door for
 * those who make one.
 *
 * A producer begins a record, hands the vram_async to its caller, and keeps the record's pointer,
 * which is a reference. It owes exactly one of vr_async_finish, vr_async_finish_value and
 * vr_async_follow, from any thread and with no lock held, and has no pointer any more afterwards.
 * Who only has a point calls vr_async_of_value and owes nothing.
 *
 *     producer works:      vr_async_begin ... vr_async_finish(record, status)
 *     device ends it:      vr_async_begin ... vr_async_follow(record, queue, value)
 *     a point is all:      vr_async_of_value
 *
 * The words of a vram_async:
 *
 *     0 queue of the point   1 its number   2 handle of the record   3 the result, if it is known
 *
 * A number of a record that was one and is none any more says that the work was done, or the handle
 * was ended: the point says the rest.
 */
#ifndef VR_ASYNC_RECORD_H
#define VR_ASYNC_RECORD_H

#include "device/objects.h"
#include "vram/async.h"

struct vr_async;
struct vr_transfer_count;

enum { VR_ASYNC_QUEUE = 0, VR_ASYNC_VALUE = 1, VR_ASYNC_RECORD = 2, VR_ASYNC_RESULT = 3 };

/* Begins work on a device that the caller has pinned, under the name of the operation that the
   thread is inside. `result` is what vram_async_result_get will tell, unless vr_async_finish_value
   says otherwise. VRAM_ERR_HOST_MEMORY, VRAM_ERR_LIMIT, or VRAM_ERR_SHUTDOWN when the device is
   closing. */
vram_status vr_async_begin(struct vr_device_object *device, uint64_t result, vram_async *async,
                           struct vr_async **record);

/* It is over. A failure takes its text from the calling thread's error record, when that is of this
   status. Runs callbacks. */
void vr_async_finish(struct vr_async *record, vram_status status);
/* It is done, with this result. Such a record stays until its handle is ended. */
void vr_async_finish_value(struct vr_async *record, uint64_t result);
/* From now on it is done when this number of the queue has passed. */
void vr_async_follow(struct vr_async *record, uint64_t queue, uint64_t value);

/* A handle for a number of a queue that the caller has pinned. */
vram_status vr_async_of_value(struct vr_queue_object *queue, uint64_t value, uint64_t result,
                              vram_async *async);

/* Has waits for the handle sleep `ns` between two looks in the place of spinning first. */
void vr_async_pace(const vram_async *async, uint64_t ns);

/* Has the transfer behind the handle counted until it is settled; at once when it is. Takes the
   count over. */
void vr_async_count(const vram_async *async, struct vr_transfer_count *count);

/* The pinned record of a handle, for async.c. VRAM_OK with *record NULL: nothing is behind it any
   more, and its point, if it has one, tells all. */
vram_status vr_async_enter(const vram_async *async, struct vr_async **record);
void vr_async_leave(struct vr_async *record);
/* VRAM_OK, VRAM_ERR_NOT_READY, or the failure, recorded. Runs callbacks. */
vram_status vr_async_look(struct vr_async *record);
/* The same after waiting until the deadline, which is the context's own for
   VRAM_TIMEOUT_DEFAULT. */
vram_status vr_async_wait(struct vr_async *record, uint64_t timeout);
/* What it failed with, or VRAM_OK in its status; of one that is over. */
void vr_async_error(struct vr_async *record, struct vram_error *error);
uint64_t vr_async_result(struct vr_async *record);
/* Adds a callback; *over when the work is over and the caller is to make the call itself. */
vram_status vr_async_then(struct vr_async *record, vram_async_fn *call, void *user, bool *over);
void vr_async_end(struct vr_async *record);
/* Looks at all that is pending on a device. */
uint64_t vr_async_look_all(struct vr_device_object *device);

#endif
