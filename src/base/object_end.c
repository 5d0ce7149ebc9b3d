/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_end.c: how an object behind a handle ends.
 *
 *  (1) The thread that retires the handle ends the object, once: either a call of the program that
 *      destroys it, or the end of its parent. The other one finds it stale.
 *  (2) The owner's reference is dropped after that, so the memory is freed when the last call
 *      inside leaves.
 */
#include "base/object.h"

#include "base/error.h"

vram_status vr_end_enter(enum vr_kind kind, const void *handle, void **object) {
    *object = NULL;
    if (!handle || vr_exiting()) {
        return VRAM_OK;
    }
    struct vr_object *found = vr_handle_pin(kind, handle);
    if (!found) {
        return vr_handle_error(kind, handle);
    }
    if (vr_forked(found)) {
        vr_handle_retire(
            found->handle); /* the references stay, so the parent's object is not destroyed here */
        return VRAM_OK;
    }
    *object = found;
    return VRAM_OK;
}

bool vr_object_end(struct vr_object *object, vr_end_fn *end, vram_status *status) {
    if (!vr_handle_retire(object->handle)) { /* keeps (1) */
        return false;
    }
    *status = end ? end(object) : VRAM_OK;
    vr_handle_unpin(object->handle); /* the owner's: keeps (2) */
    return true;
}

vram_status vr_object_destroy(enum vr_kind kind, const void *handle, vr_end_fn *end,
                              const char *already) {
    void *object;
    vram_status status = vr_end_enter(kind, handle, &object);
    if (!object) {
        return status;
    }
    if (!vr_object_end(object, end, &status)) {
        status = already ? vr_fail(VRAM_ERR_STALE, "%s already", already)
                         : vr_handle_error(kind, handle);
    }
    vr_leave(object);
    return status;
}

void vr_object_parent_ended(struct vr_object *object, vr_end_fn *end) {
    struct vram_error error;
    vram_status status;
    vr_error_save(&error);
    (void)vr_object_end(object, end, &status);
    vr_error_restore(&error);
}
