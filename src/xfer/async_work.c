/* SPDX-License-Identifier: Apache-2.0 */
/*
 * async_work.c: async handles for work that a library on top of libvram does.
 *
 *  (1) The producer's handle owns the producer's reference to the record. The thread that retires
 *      the handle finishes the record.
 */
#include "xfer/async_record.h"

#include "base/error.h"
#include "base/memory.h"
#include "vram/extension.h"

struct vr_async_work {
    struct vr_object object;
    struct vr_async *record;
};

static void work_free(void *memory) {
    vr_mem_free(memory);
}

/* Begins a record under the name of the program's or another library's operation. */
static vram_status record_begin(struct vr_device_object *device, const char *name,
                                vram_async *async, struct vr_async **record) {
    VR_OPERATION(name);
    return vr_async_begin(device, 0, async, record);
}

static vram_status work_begin(struct vr_device_object *device, const char *name, vram_async *async,
                              vram_async_work **out) {
    struct vr_async_work *work = vr_mem_alloc(1, sizeof *work, vr_operation());
    if (!work) {
        return VRAM_ERR_HOST_MEMORY;
    }
    work->object.process = vr_os_process_generation();
    vram_status status =
        vr_handle_publish(VR_KIND_ASYNC_WORK, work, work_free, &work->object.handle);
    if (status != VRAM_OK) {
        vr_mem_free(work);
        return status;
    }
    status = record_begin(device, name, async, &work->record);
    if (status != VRAM_OK) {
        uint64_t handle = work->object.handle;
        (void)vr_handle_retire(handle);
        vr_handle_unpin(handle);
        return status;
    }
    *out = (vram_async_work *)(uintptr_t)work->object.handle;
    return VRAM_OK;
}

vram_status vram_async_begin(vram_device *handle, const char *name, vram_async *async,
                             vram_async_work **work) {
    VR_CALL;
    void *device;
    if (!async || !work || !name) {
        return vr_fail(VRAM_ERR_INVALID, "%s is NULL",
                       !name    ? "the operation"
                       : !async ? "the pointer that receives the handle"
                                : "the pointer that receives the work");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status == VRAM_OK) {
        status = work_begin(device, name, async, work);
        vr_leave(device);
    }
    return status;
}

vram_status vram_async_finish(vram_async_work *handle, vram_status result) {
    VR_CALL;
    void *entered;
    vram_status status = vr_enter(VR_KIND_ASYNC_WORK, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_async_work *work = entered;
    if (vr_handle_retire(work->object.handle)) { /* keeps (1) */
        vr_async_finish(work->record, result);
        vr_handle_unpin(work->object.handle);
    } else {
        status = vr_fail(VRAM_ERR_STALE, "the work was finished already");
    }
    vr_leave(work);
    return status;
}
