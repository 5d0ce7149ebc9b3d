/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async_work.c: async handles for work that a library on top of libvram does.
 *
 * The producer's handle is that of the record, which lives as long as the producer's reference
 * does, also after the program has ended its own handle. `produced` says that the reference is
 * there: the thread that clears it finishes the record.
 */
#include "xfer/flight.h"

#include "base/error.h"
#include "vram/extension.h"

/* Begins a record under the name of the program's or another library's operation. */
static vram_status record_begin(struct vr_device_object *device, const char *name, uint64_t result,
                                vram_async *async, struct vr_async **record) {
    VR_OPERATION(name);
    return vr_async_begin(device, result, async, record);
}

/* Sets or clears `produced`; returns what it was. */
static bool produced_set(struct vr_async *record, bool produced) {
    vr_mutex_lock(&record->flight->lock);
    bool before = record->produced;
    record->produced = produced;
    vr_mutex_unlock(&record->flight->lock);
    return before;
}

vram_status vram_async_begin(vram_device *handle, const char *name, uint64_t result,
                             vram_async *async, vram_async_work **work) {
    VR_CALL;
    struct vr_async *record;
    void *device;
    if (!async || !work || !name) {
        return vr_fail(VRAM_ERR_INVALID, "%s is NULL",
                       !name    ? "the operation"
                       : !async ? "the pointer that receives the handle"
                                : "the pointer that receives the work");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = record_begin(device, name, result, async, &record);
    if (status == VRAM_OK) {
        (void)produced_set(record, true);
        *work = (vram_async_work *)(uintptr_t)record->object.handle;
    }
    vr_leave(device);
    return status;
}

vram_status vram_async_finish(vram_async_work *handle, vram_status result) {
    VR_CALL;
    if (vr_exiting()) {
        return vr_fail(VRAM_ERR_SHUTDOWN, "the process is exiting");
    }
    struct vr_async *record = vr_handle_hold(VR_KIND_ASYNC, handle);
    if (!record) {
        return vr_handle_error(VR_KIND_ASYNC, handle);
    }
    vram_status status = VRAM_OK;
    if (vr_forked(&record->object)) {
        status = vr_fail(VRAM_ERR_FORKED, "the work belongs to the parent process");
    } else if (produced_set(record, false)) {
        vr_async_finish(record, result);
    } else {
        status = vr_fail(VRAM_ERR_STALE, "the work was finished already");
    }
    vr_leave(record);
    return status;
}
