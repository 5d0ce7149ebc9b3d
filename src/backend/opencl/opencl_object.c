/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_object.c: buffers that the program created.
 *
 *      window   [ 0 ... offset )[ offset ... offset + bytes )   ->  record  ->  the program's
 *      cl_mem
 *                                ^ the address that is returned
 *
 *  (1) The window begins where the object does, so that an offset in the window is an offset in the
 *      object, as it is for buffers of the library. The part before `offset` has addresses, but the
 *      address map (src/device) does not contain them.
 *  (2) The object is retained while it has a window, so a program may release it too early.
 *  (3) The driver is asked about the object, as far as it can tell. It cannot tell whether the
 *      pointer is an object at all.
 */
#include "backend/opencl/opencl_backend.h"
#include "vram/buffer.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/window.h"

static vram_status object_error(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "opencl", "clGetMemObjectInfo", 0, "the cl_mem %s", why);
}

static bool object_query(const struct vr_opencl_device *opencl, struct vr_cl_memory *object,
                         vr_cl_uint what, void *value, size_t bytes, vram_status *status) {
    *status = VR_OPENCL(opencl, clGetMemObjectInfo, object, what, bytes, value, NULL);
    return *status == VRAM_OK;
}

/* Keeps (3). `end` is the end of the requested part. */
static vram_status object_check(const struct vr_opencl_device *opencl, struct vr_cl_memory *object,
                                uint64_t end, uint64_t *bytes) {
    struct vr_cl_context *context = NULL;
    vr_cl_uint type = 0;
    size_t size = 0;
    vram_status status;
    if (!object_query(opencl, object, VR_CL_MEM_TYPE, &type, sizeof type, &status) ||
        !object_query(opencl, object, VR_CL_MEM_CONTEXT, &context, sizeof context, &status) ||
        !object_query(opencl, object, VR_CL_MEM_SIZE, &size, sizeof size, &status)) {
        return status;
    }
    if (type != VR_CL_MEM_OBJECT_BUFFER) {
        return object_error("is an image or a pipe, not a buffer");
    }
    if (context != opencl->context) {
        return object_error("belongs to another context: make it in that of a queue of this device "
                            "(CL_QUEUE_CONTEXT of vram_queue_native), or give libvram the context "
                            "(vram/opencl.h)");
    }
    if (end > size) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clGetMemObjectInfo", 0,
                            "the cl_mem has %llu bytes, and not the %llu that the part asked for "
                            "ends at",
                            (unsigned long long)size, (unsigned long long)end);
    }
    *bytes = size;
    return VRAM_OK;
}

static vram_status object_retain(struct vr_opencl_device *opencl, struct vr_cl_memory *object) {
    vr_mutex_lock(&opencl->memory); /* keeps (3) of opencl_memory.c, here and below */
    vram_status status = VR_OPENCL(opencl, clRetainMemObject, object);
    vr_mutex_unlock(&opencl->memory);
    return status;
}

static void object_release(struct vr_opencl_device *opencl, struct vr_cl_memory *object) {
    vr_mutex_lock(&opencl->memory);
    vr_cl_int code = opencl->api->clReleaseMemObject(object);
    vr_mutex_unlock(&opencl->memory);
    vr_opencl_warn("clReleaseMemObject", code);
}

/* The whole pages that a window up to `end` needs. */
static uint64_t window_bytes(uint64_t end) {
    uint64_t page = vr_os_page_bytes();
    return (end + page - 1) / page * page;
}

static vram_status window_make(struct vr_opencl_device *opencl, struct vr_cl_memory *object,
                               uint64_t end, uint64_t size, vram_addr *base) {
    struct vr_opencl_memory *record = vr_opencl_record_take(opencl, size, "clRetainMemObject");
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_store(&record->buffer, object, VR_RELEASE);
    vram_status status =
        vr_window_open(window_bytes(end), vr_os_page_bytes(), record, "clRetainMemObject", base);
    if (status != VRAM_OK) {
        vr_opencl_record_give(record);
    }
    return status;
}

static vram_status object_adopt(struct vr_device *device, const struct vram_wrap *wrap,
                                vram_addr *addr) {
    struct vr_opencl_device *opencl = device->impl;
    struct vr_cl_memory *object = wrap->pointer;
    uint64_t end = 0, size = 0;
    vram_addr base;
    if (!vr_add(wrap->offset, wrap->bytes, &end)) {
        return object_error("has no such part: its end does not fit into 64 bits");
    }
    vram_status status = object_check(opencl, object, end, &size);
    if (status == VRAM_OK) {
        status = object_retain(opencl, object);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = window_make(opencl, object, end, size, &base);
    if (status != VRAM_OK) {
        object_release(opencl, object);
        return status;
    }
    *addr = base + wrap->offset;
    return VRAM_OK;
}

/* Commands that use the object retain it themselves until they are complete. */
static void object_give(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    uint64_t offset = 0;
    struct vr_opencl_memory *record = vr_opencl_buffer_at(addr, &offset);
    struct vr_cl_memory *object = vr_load(&record->buffer, VR_RELAXED);
    vr_window_close(addr - offset, window_bytes(offset + bytes));
    vr_opencl_record_give(record);
    if (!vr_load(&device->lost, VR_ACQUIRE)) {
        object_release(device->impl, object);
    }
}

const struct vr_object_ops vr_opencl_object_ops = {
    .adopt = object_adopt, .give = object_give, .native = vr_opencl_native};
