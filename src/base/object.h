/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.h: what all objects behind handles have in common: the way into a public call and out of
 * it, and how an object ends.
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

/* Refuses after exit, pins the object behind `handle`, refuses in a forked child. On VRAM_OK the
   caller owes a vr_leave. */
vram_status vr_enter(enum vr_kind kind, const void *handle, void **object);
void vr_leave(void *object);
/* The status of a call on an object that may have ended during it. What the call then did not find
   is not the caller's mistake, so VRAM_ERR_INVALID becomes VRAM_ERR_STALE. */
vram_status vr_stale_if_ended(enum vr_kind kind, uint64_t handle, vram_status status);

/* Whether the process is exiting: from then on no driver is called. */
static inline bool vr_exiting(void) {
    return vr_os_exiting();
}
/* Sees to it that vr_exiting becomes true before the drivers' own exit handlers run. Called after
   the drivers were started; bit i of `started`: row i of the registry was. */
vram_status vr_process_watch(uint32_t started);
/* Whether the object was made by a process of which this one is a fork. */
bool vr_forked(const struct vr_object *object);

/* ---------------------------------------- objects that end; object_end.c */

/* vr_enter for a call that ends the object. *object NULL: there is nothing to do, and the status is
   the call's. That is VRAM_OK for NULL, which every end accepts, for a process that is exiting, and
   in a forked child: there the handle dies, and nothing of the parent's is torn down. */
vram_status vr_end_enter(enum vr_kind kind, const void *handle, void **object);
/* Ends an object of one kind: called once, with the handle retired, the memory kept. What it
   returns is the answer of the call that destroys the object. */
typedef vram_status vr_end_fn(void *object);
/* Retires the handle of an object that the caller has a reference to, calls `end`, if it is not
   NULL, and drops the owner's reference; false: another thread has. */
bool vr_object_end(struct vr_object *object, vr_end_fn *end, vram_status *status);
/* A whole public call that destroys an object. VRAM_ERR_STALE says "`already` already", such as
   "the batch is being destroyed already"; NULL: what it says of every stale handle. */
vram_status vr_object_destroy(enum vr_kind kind, const void *handle, vr_end_fn *end,
                              const char *already);
/* The same for an object whose parent ends; the error record stays as it is. */
void vr_object_parent_ended(struct vr_object *object, vr_end_fn *end);

#endif
