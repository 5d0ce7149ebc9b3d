/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap.c: buffers over memory that the program owns.
 *
 * A device address gets a record in the address map, so that copies, fills and launches accept it
 * like memory of the library. The record names the pool as its owner, which keeps vram_device_free
 * and vram_free from passing it to a driver; only the buffer removes it. Memory that is in the map
 * already needs no record. Host pointers are in no map: copies accept any. A driver object is
 * imported by its backend, which finds an address for it. Its record keeps the device alive, since
 * the backend releases the object when the buffer is destroyed, however late that is.
 */
#include "mem/buffer_object.h"

#include "base/error.h"
#include "base/size.h"
#include "device/ops.h"

static vram_status fail_unsupported(struct vr_pool *pool, const char *why) {
    const struct vram_device_info *info = &pool->device->base.info;
    return vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u %s", info->backend, info->backend_index,
                   why);
}

/* Adds the memory at memory->addr to the map. */
static vram_status publish_record(struct vr_pool *pool, const struct vram_wrap *wrap,
                                  struct vr_buffer_memory *memory) {
    struct vr_record *record = vr_record_take();
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_store(&record->pool, pool->object.handle, VR_RELEASE);
    vr_store(&record->object, wrap->kind == VRAM_WRAP_HANDLE, VR_RELEASE);
    vram_status status = vr_record_publish(record, memory->addr, wrap->bytes,
                                           pool->device->object.handle, VRAM_MEMORY_DEVICE, false);
    if (status != VRAM_OK) {
        vr_record_give(record);
        return status == VRAM_ERR_CORRUPT
                   ? vr_fail(VRAM_ERR_INVALID, "a part of 0x%llx + %llu bytes is other live memory",
                             (unsigned long long)memory->addr, (unsigned long long)wrap->bytes)
                   : status;
    }
    memory->foreign = record;
    return VRAM_OK;
}

/* Wraps an address that is in no map. */
static vram_status adopt_address(struct vr_pool *pool, const struct vram_wrap *wrap,
                                 struct vr_buffer_memory *memory) {
    if (!(pool->device->base.info.caps & VRAM_CAP_TRUE_ADDRESS)) {
        return fail_unsupported(
            pool, "has addresses that only the library knows: it cannot use an address "
                  "of another library");
    }
    return publish_record(pool, wrap, memory);
}

static vram_status adopt_object(struct vr_pool *pool, const struct vram_wrap *wrap,
                                struct vr_buffer_memory *memory) {
    struct vr_device_object *device = pool->device;
    struct vram_error error;
    if (!device->base.objects) {
        return fail_unsupported(
            pool, "cannot adopt a driver object: its driver has no such objects, or not "
                  "for this device");
    }
    vram_status status = vr_object_adopt(&device->base, wrap, &memory->addr);
    if (status != VRAM_OK) {
        return status;
    }
    status = publish_record(pool, wrap, memory);
    if (status != VRAM_OK) {
        vr_error_save(&error);
        vr_object_give(&device->base, memory->addr, wrap->bytes);
        vr_error_restore(&error);
        return status;
    }
    vr_handle_ref(device->object.handle);
    memory->keeper = device;
    return VRAM_OK;
}

static vram_status adopt_memory(struct vr_pool *pool, const struct vram_wrap *wrap,
                                struct vr_buffer_memory *memory) {
    struct vram_error error;
    *memory = (struct vr_buffer_memory){.wrapped = true};
    switch (wrap->kind) {
    case VRAM_WRAP_HOST:
        memory->addr = (uintptr_t)wrap->pointer;
        memory->kind = VRAM_MEMORY_HOST;
        return VRAM_OK;
    case VRAM_WRAP_ADDRESS:
        memory->addr = wrap->address;
        vr_error_save(&error);
        if (vr_span_check(pool->device, wrap->address, wrap->bytes) == VRAM_OK) {
            return VRAM_OK; /* memory of the library, allocated by any part of the program */
        }
        vr_error_restore(&error);
        return adopt_address(pool, wrap, memory);
    case VRAM_WRAP_HANDLE:
    default:
        return adopt_object(pool, wrap, memory);
    }
}

static vram_status wrap_check(const struct vram_wrap *wrap,
                              const struct vram_buffer_options *options) {
    uint64_t first = wrap->kind == VRAM_WRAP_ADDRESS ? wrap->address : (uintptr_t)wrap->pointer;
    uint64_t end;
    if ((unsigned)wrap->kind > VRAM_WRAP_HANDLE) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_wrap_kind", (int)wrap->kind);
    }
    if (!first || !wrap->bytes) {
        return vr_fail(VRAM_ERR_INVALID, "there is no memory to wrap");
    }
    if (wrap->kind != VRAM_WRAP_HANDLE && wrap->offset) {
        return vr_fail(VRAM_ERR_INVALID, "an offset is only valid for a driver object");
    }
    if (wrap->kind != VRAM_WRAP_HANDLE && !vr_add(first, wrap->bytes, &end)) {
        return vr_fail(VRAM_ERR_OVERFLOW, "0x%llx + %llu bytes pass the end of memory",
                       (unsigned long long)first, (unsigned long long)wrap->bytes);
    }
    if (options->kind || options->flags || options->moved || options->provider) {
        return vr_fail(VRAM_ERR_INVALID, "wrapped memory keeps its kind: kind, flags, moved and "
                                         "provider must be 0");
    }
    return vr_buffer_options_check(options, wrap->bytes);
}

static vram_status wrap_entered(struct vr_pool *pool, const struct vram_wrap *wrap,
                                vram_queue *queue, struct vram_buffer_options *options,
                                vram_buffer **out) {
    struct vr_buffer *buffer;
    options->kind = wrap->kind == VRAM_WRAP_HOST ? VRAM_BUFFER_PINNED : VRAM_BUFFER_DEVICE;
    vram_status status = vr_buffer_make(pool, wrap->bytes, queue, options, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer_memory memory;
    status = adopt_memory(pool, wrap, &memory);
    if (status != VRAM_OK) {
        vr_buffer_free(buffer);
        return status;
    }
    buffer->memory = memory;
    return vr_buffer_publish(pool, buffer, out);
}

vram_status vram_buffer_wrap(vram_pool *handle, const vram_wrap *wrap, vram_queue *queue_handle,
                             const vram_buffer_options *options, vram_buffer **buffer) {
    VR_CALL;
    struct vram_wrap memory;
    struct vram_buffer_options taken;
    struct vr_pool *pool;
    struct vr_queue_object *queue;
    if (!wrap || !buffer) {
        return vr_fail(VRAM_ERR_INVALID, "the %s is NULL",
                       wrap ? "place for the buffer" : "memory to wrap");
    }
    vram_status status = vr_options_take(&memory, sizeof memory, wrap);
    if (status == VRAM_OK) {
        status = vr_options_take(&taken, sizeof taken, options);
    }
    if (status == VRAM_OK) {
        status = wrap_check(&memory, &taken);
    }
    if (status == VRAM_OK) {
        status = vr_pool_enter(handle, queue_handle, &pool, &queue);
    }
    if (status == VRAM_OK) {
        status = wrap_entered(pool, &memory, queue_handle, &taken, buffer);
        vr_pool_leave(pool, queue);
    }
    return status;
}
