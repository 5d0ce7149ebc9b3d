/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async_record.h: the record behind a vram_async that is pending or has failed, and the interface
 * for producers of such records.
 *
 * A producer begins a record, returns the vram_async to its caller, and keeps the pointer to the
 * record, which is a reference. It must call exactly one of vr_async_finish, vr_async_finish_value
 * and vr_async_follow, from any thread and with no lock held. That call takes the reference. A
 * producer that only has a point calls vr_async_of_value instead.
 *
 *     producer does the work:   vr_async_begin ... vr_async_finish(record, status)
 *     a queue completes it:     vr_async_begin ... vr_async_follow(record, queue, value)
 *     only a point:             vr_async_of_value
 *
 * The words of a vram_async:
 *
 *     0 queue of the point   1 its number   2 handle of the record   3 the result, if it is known
 *
 * If the handle of the record is no longer valid, the work is complete or the vram_async was ended.
 * The point then answers the rest.
 */
#ifndef VR_ASYNC_RECORD_H
#define VR_ASYNC_RECORD_H

#include "device/objects.h"
#include "vram/async.h"

struct vr_async;
struct vr_transfer_count;

enum { VR_ASYNC_QUEUE = 0, VR_ASYNC_VALUE = 1, VR_ASYNC_RECORD = 2, VR_ASYNC_RESULT = 3 };

/* Begins work on a device that the caller has pinned, under the name of the current operation of
   the thread. vram_async_result_get returns `result`, unless vr_async_finish_value sets another.
   VRAM_ERR_HOST_MEMORY, VRAM_ERR_LIMIT, or VRAM_ERR_SHUTDOWN when the device is closing. */
vram_status vr_async_begin(struct vr_device_object *device, uint64_t result, vram_async *async,
                           struct vr_async **record);

/* Ends the work. A failure takes its text from the calling thread's error record, if that has the
   same status. Runs callbacks. */
void vr_async_finish(struct vr_async *record, vram_status status);
/* Ends the work successfully with a result. Such a record stays until its handle is ended. */
void vr_async_finish_value(struct vr_async *record, uint64_t result);
/* The work is complete when this point of the queue has passed. */
void vr_async_follow(struct vr_async *record, uint64_t queue, uint64_t value);

/* A handle for a point of a queue that the caller has pinned. */
vram_status vr_async_of_value(struct vr_queue_object *queue, uint64_t value, uint64_t result,
                              vram_async *async);

/* Makes waits for the handle sleep `ns` between two polls, without spinning first. */
void vr_async_poll_interval(const vram_async *async, uint64_t ns);

/* Counts the transfer behind the handle until it is settled; ends the count at once if it is
   settled already. Takes the count over. */
void vr_async_count(const vram_async *async, struct vr_transfer_count *count);

/* What vram_async_poll does; async.c. */
vram_status vr_async_poll(const vram_async *async);

/* The pinned record of a handle, for async.c. VRAM_OK with *record NULL: it has none any more, and
   its point, if it has one, answers. */
vram_status vr_async_enter(const vram_async *async, struct vr_async **record);
void vr_async_leave(struct vr_async *record);
/* VRAM_OK, VRAM_ERR_NOT_READY, or the failure, recorded. Runs callbacks. */
vram_status vr_async_check(struct vr_async *record);
/* The same after waiting for at most `timeout`; VRAM_TIMEOUT_DEFAULT is the context's. */
vram_status vr_async_wait(struct vr_async *record, uint64_t timeout);
/* When a wait for the record that begins now and has this timeout ends. */
uint64_t vr_async_deadline(const struct vr_async *record, uint64_t timeout);
/* The error of a settled record, or VRAM_OK in its status. */
void vr_async_error(struct vr_async *record, struct vram_error *error);
uint64_t vr_async_result(struct vr_async *record);
/* Adds a callback. *over: the work is settled, and the caller must make the call itself. */
vram_status vr_async_then(struct vr_async *record, vram_async_fn *call, void *user, bool *over);
void vr_async_end(struct vr_async *record);
/* Polls all pending records of a device. Returns how many are pending. */
uint64_t vr_async_check_all(struct vr_device_object *device);

#endif
