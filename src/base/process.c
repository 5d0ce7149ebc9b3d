/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c: the life of the process as the library sees it, and the way into and out of every
 * public call.
 *
 * At exit the drivers take themselves down in an order nobody controls, so the library raises a
 * flag first, makes no driver call from then on, and leaves everything to the system. In a forked
 * child a parent's context is refused: its threads are gone and its driver state belongs to the
 * parent.
 */
#include "base/object.h"

#include "base/error.h"

static vr_atomic_u32 watched; /* backends that our last handler was registered behind; WATCHED */

#define WATCHED (UINT32_C(1) << 31) /* a handler was registered at all */

/* Handlers run in the reverse order of their registration, so registering after the drivers were
   started makes ours run before theirs. A later context may start a driver that no earlier one did,
   and then registers once more; raising the flag twice is harmless. */
vram_status vr_process_watch(uint32_t started) {
    uint32_t seen = vr_load(&watched, VR_ACQUIRE);
    uint32_t wanted = started | WATCHED;
    if ((wanted & ~seen) == 0) {
        return VRAM_OK;
    }
    vram_status status = vr_os_at_exit(vr_os_exit_begins);
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
        /* A live handle has its owner's reference, which nobody drops in the child: no destructor
           of the parent's ever runs here. */
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
