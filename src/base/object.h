/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.h: what all objects behind handles have in common: how a public call enters and leaves an
 * object, and how an object ends.
 */
#ifndef VR_OBJECT_H
#define VR_OBJECT_H

#include "base/handle.h"
#include "base/os/os.h"

/* The head of every object behind a handle. */
struct vr_object {
    uint64_t handle;  /* what users hold */
    uint64_t process; /* vr_os_process_generation of the process that made it */
};

/* --------------------------------------------- entering, leaving; process.c */

/* Fails if the process is exiting, pins the object behind `handle`, and fails in a forked child.
   After VRAM_OK the caller must call vr_leave. */
vram_status vr_enter(enum vr_kind kind, const void *handle, void **object);
void vr_leave(void *object);
/* The status of a call on an object that may have ended during the call. Something not found for
   that reason is not the caller's mistake, so VRAM_ERR_INVALID becomes VRAM_ERR_STALE. */
vram_status vr_stale_if_ended(enum vr_kind kind, uint64_t handle, vram_status status);

/* Whether the process is exiting: no driver is called from then on. */
static inline bool vr_exiting(void) {
    return vr_os_exiting();
}
/* Around each call into a backend: false, and nothing to leave, if the process is exiting. At exit
   the calls under way are waited for, a moment at most. */
bool vr_driver_enter(void);
void vr_driver_leave(void);
/* Makes vr_exiting true before the drivers' own exit handlers run. Called after the drivers were
   started. Bit i of `started`: row i of the registry was. */
vram_status vr_process_watch(uint32_t started);
/* Whether the object was made by a process of which this one is a fork. */
bool vr_forked(const struct vr_object *object);

/* ---------------------------------------- objects that end; object_end.c */

/* vr_enter for a call that ends the object. If *object is NULL there is nothing to do, and the
   status is the call's result. That is VRAM_OK for NULL, which every end accepts, and in a process
   that is exiting. It is VRAM_OK in a forked child too: there the handle is retired, and nothing of
   the parent's is destroyed. */
vram_status vr_end_enter(enum vr_kind kind, const void *handle, void **object);
/* Ends an object of one kind. Called once, when the handle is retired and the memory still valid.
   Its status is the result of the call that destroys the object. */
typedef vram_status vr_end_fn(void *object);
/* Retires the handle of an object that the caller has a reference to, calls `end` if it is not
   NULL, and drops the owner's reference. False: another thread has done so. */
bool vr_object_end(struct vr_object *object, vr_end_fn *end, vram_status *status);
/* A whole public call that destroys an object. The text of VRAM_ERR_STALE is "`already` already",
   such as "the batch is being destroyed already"; NULL: the text for every stale handle. */
vram_status vr_object_destroy(enum vr_kind kind, const void *handle, vr_end_fn *end,
                              const char *already);
/* The same for an object whose parent ends; keeps the error record. */
void vr_object_parent_ended(struct vr_object *object, vr_end_fn *end);

#endif
