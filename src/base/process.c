/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c: process exit and fork, and how every public call enters and leaves an object.
 *
 * At exit the drivers shut themselves down in an order that the library does not control. So the
 * library raises a flag first, makes no driver call from then on, and leaves everything to the
 * system. Calls that other threads have under way then are waited for, since one may make several
 * calls of the driver, but not longer than EXIT_WAIT: a call that blocks keeps no process alive. In
 * a forked child a context of the parent is refused: its threads do not exist there, and its driver
 * state belongs to the parent.
 */
#include "base/object.h"

#include "base/error.h"

static vr_atomic_u32 watched; /* backends started before the last handler was registered; WATCHED */

#define WATCHED   (UINT32_C(1) << 31) /* any handler was registered */
#define EXIT_WAIT UINT64_C(20000000)  /* ns */

static vr_atomic_u32 calls_inside; /* driver calls under way, of all threads */
static vr_atomic_u64 counted_in;   /* the process that counts them: a forked child does not */

bool vr_driver_enter(void) {
    vr_fetch_add(&calls_inside, 1, VR_SEQ_CST);
    if (!vr_load(&vr_os_exit_began, VR_SEQ_CST)) {
        return true;
    }
    vr_driver_leave();
    return false;
}

void vr_driver_leave(void) {
    vr_fetch_sub(&calls_inside, 1, VR_RELEASE);
}

static void exit_begins(void) {
    vr_os_exit_begins();
    uint64_t end = vr_os_now() + EXIT_WAIT;
    while (vr_load(&calls_inside, VR_SEQ_CST) && vr_os_now() < end &&
           vr_load(&counted_in, VR_RELAXED) == vr_os_process_generation()) {
        vr_os_sleep(50000);
    }
}

/* Exit handlers run in reverse order of registration, so a handler registered after the drivers
   were started runs before theirs. A later context may start another driver, and then registers the
   handler again; raising the flag twice is harmless. */
vram_status vr_process_watch(uint32_t started) {
    uint32_t seen = vr_load(&watched, VR_ACQUIRE);
    uint32_t wanted = started | WATCHED;
    if ((wanted & ~seen) == 0) {
        return VRAM_OK;
    }
    uint64_t nobody = 0;
    (void)vr_cas(&counted_in, &nobody, vr_os_process_generation(), VR_RELAXED);
    vram_status status = vr_os_at_exit(exit_begins);
    while (status == VRAM_OK && !vr_cas_weak(&watched, &seen, seen | wanted, VR_ACQ_REL)) {
    }
    return status;
}

bool vr_forked(const struct vr_object *object) {
    return object->process != vr_os_process_generation();
}

vram_status vr_enter(enum vr_kind kind, const void *handle, void **object) {
    if (vr_exiting()) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the process is exiting");
    }
    struct vr_object *found = vr_handle_pin(kind, handle);
    if (!found) {
        return vr_handle_error(kind, handle);
    }
    if (vr_forked(found)) {
        /* A live handle has its owner's reference, which the child never drops: no destructor of
           the parent's objects runs here. */
        vr_leave(found);
        return vr_fail(VRAM_ERR_FORKED,
                       "the context belongs to the parent process; create one in this process");
    }
    *object = found;
    return VRAM_OK;
}

vram_status vr_stale_if_ended(enum vr_kind kind, uint64_t handle, vram_status status) {
    const void *number = (const void *)(uintptr_t)handle;
    return status == VRAM_ERR_INVALID && vr_handle_was(kind, number) ? vr_handle_error(kind, number)
                                                                     : status;
}

void vr_leave(void *object) {
    vr_handle_unpin(((struct vr_object *)object)->handle);
}
