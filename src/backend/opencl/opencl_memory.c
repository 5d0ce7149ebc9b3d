/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opencl_memory.c: device, pinned and managed memory.
 *
 *      buffers    [ window: addresses without memory ]  ->  record  ->  cl_mem  ->  sub-buffers
 *      pointers   [ memory at its own address        ]  ->  record  ->  the driver's pointer
 *
 * Invariants
 *  (1) While its memory is live, a record is in exactly one of two maps: the windows
 *      (base/window.h) for buffers, `pointers` in this file for the rest.
 *  (2) A buffer is used once before it is returned. Drivers allocate memory at the first use, and
 *      that failure would otherwise occur in a later submission, after a successful allocation.
 *  (3) Only one thread at a time allocates or frees memory of a device: NVIDIA's driver fails or
 *      crashes if several do, although the specification allows it.
 *  (4) Allocations are counted against the device's memory: some drivers promise more than there
 *      is.
 *
 * OpenCL aligns shared virtual memory only to the size of its largest type, 128 bytes; the library
 * needs pages. So a granule more is allocated if the driver's own pointer is not aligned.
 */
#include "backend/opencl/opencl_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/radix.h"
#include "base/size.h"
#include "base/stable.h"
#include "base/window.h"

static struct vr_stable record_memory = VR_STABLE_INIT(struct vr_opencl_memory);
static struct vr_radix pointers = VR_RADIX_INIT; /* (1) */

static struct vr_stable scratch_memory = VR_STABLE_INIT(struct vr_opencl_scratch);

struct vr_opencl_scratch *vr_opencl_scratch_take(void) {
    return vr_stable_take(&scratch_memory, "opencl_device_open");
}

void vr_opencl_scratch_give(struct vr_opencl_scratch *scratch) {
    vr_stable_give(&scratch_memory, scratch);
}

struct vr_opencl_memory *vr_opencl_record_take(struct vr_opencl_device *device, uint64_t bytes,
                                               const char *operation) {
    struct vr_opencl_memory *record = vr_stable_take(&record_memory, operation);
    if (record) {
        vr_store(&record->device, device, VR_RELEASE);
        vr_store(&record->buffer, NULL, VR_RELEASE);
        vr_store(&record->bytes, bytes, VR_RELEASE);
        record->raw = NULL;
        record->subbuffer_count = 0;
        record->sweep_at = 64;
        vr_list_init(&record->subbuffers);
    }
    return record;
}

void vr_opencl_record_give(struct vr_opencl_memory *record) {
    vr_stable_give(&record_memory, record);
}

/* keeps (4) */
static vram_status memory_charge(struct vr_opencl_device *device, uint64_t bytes,
                                 const char *operation) {
    uint64_t used = vr_load(&device->used_bytes, VR_RELAXED);
    do {
        if (bytes > device->memory_bytes - used) { /* never more than all are used */
            return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "opencl", operation,
                                VR_CL_MEM_OBJECT_ALLOCATION_FAILURE,
                                "%llu bytes more are not in the device's %llu, of which %llu are "
                                "taken",
                                (unsigned long long)bytes, (unsigned long long)device->memory_bytes,
                                (unsigned long long)used);
        }
    } while (!vr_cas_weak(&device->used_bytes, &used, used + bytes, VR_RELAXED));
    return VRAM_OK;
}

static void memory_uncharge(struct vr_opencl_device *device, uint64_t bytes) {
    vr_fetch_sub(&device->used_bytes, bytes, VR_RELAXED);
}

/* ------------------------------------------------------------------ buffers */

static vram_status buffer_new(struct vr_opencl_device *device, vr_cl_bits flags, uint64_t bytes,
                              struct vr_cl_memory **buffer) {
    vr_cl_int code = VR_CL_SUCCESS;
    vr_mutex_lock(&device->memory); /* keeps (3), here and below */
    struct vr_cl_memory *made =
        device->api->clCreateBuffer(device->context, flags, bytes, NULL, &code);
    vr_mutex_unlock(&device->memory);
    vram_status status = vr_opencl_check("clCreateBuffer", code);
    if (status == VRAM_OK && !made) {
        status = vr_opencl_bad_result("clCreateBuffer", 0);
    }
    if (status == VRAM_OK) {
        *buffer = made;
    }
    return status;
}

static void buffer_end(struct vr_opencl_device *device, struct vr_cl_memory *buffer) {
    vr_mutex_lock(&device->memory);
    vr_cl_int code = device->api->clReleaseMemObject(buffer);
    vr_mutex_unlock(&device->memory);
    vr_opencl_warn("clReleaseMemObject", code);
}

/* keeps (2). The read changes nothing, so it may run at any later time. That the driver accepts it
   shows that the memory exists. */
static vram_status buffer_touch(struct vr_opencl_device *device, struct vr_cl_memory *buffer) {
    vr_mutex_lock(&device->memory);
    vram_status status = VR_OPENCL(device, clEnqueueMigrateMemObjects, device->service, 1, &buffer,
                                   0, 0, NULL, NULL);
    if (status == VRAM_OK) {
        status = VR_OPENCL(device, clEnqueueReadBuffer, device->service, buffer, 0, 0, 1,
                           device->scratch->bytes, 0, NULL, NULL);
    }
    if (status == VRAM_OK) {
        status = VR_OPENCL(device, clFlush, device->service);
    }
    vr_mutex_unlock(&device->memory);
    return status;
}

static vram_status buffer_alloc(struct vr_opencl_device *device, uint64_t bytes, uint64_t granule,
                                vram_addr *addr) {
    struct vr_opencl_memory *record = vr_opencl_record_take(device, bytes, "clCreateBuffer");
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    struct vr_cl_memory *buffer;
    vram_status status = buffer_new(device, VR_CL_MEM_READ_WRITE, bytes, &buffer);
    if (status == VRAM_OK) {
        vr_store(&record->buffer, buffer, VR_RELEASE);
        status = buffer_touch(device, buffer);
        if (status == VRAM_OK) {
            status = vr_window_open(bytes, granule, record, "clCreateBuffer", addr);
        }
        if (status != VRAM_OK) {
            buffer_end(device, buffer);
        }
    }
    if (status != VRAM_OK) {
        vr_opencl_record_give(record);
    }
    return status;
}

struct vr_opencl_memory *vr_opencl_buffer_at(vram_addr addr, uint64_t *offset) {
    return vr_window_find(addr, offset);
}

/* ----------------------------------------------------------------- pointers */

/* How memory of one kind is allocated and freed. */
struct memory_source {
    const char *operation;
    vram_status (*alloc)(struct vr_opencl_device *device, uint64_t bytes,
                         struct vr_opencl_memory *record);
    vram_status (*free)(struct vr_opencl_device *device, struct vr_opencl_memory *record);
};

static vram_status svm_take(struct vr_opencl_device *device, vr_cl_bits flags, uint64_t bytes,
                            struct vr_opencl_memory *record) {
    vr_mutex_lock(&device->memory);
    record->raw = device->api->clSVMAlloc(device->context, flags, bytes, 0);
    vr_mutex_unlock(&device->memory);
    return record->raw ? VRAM_OK
                       : vr_error_set(VRAM_ERR_DEVICE_MEMORY, "opencl", "clSVMAlloc", 0,
                                      "clSVMAlloc has no %llu bytes", (unsigned long long)bytes);
}

static vram_status svm_alloc(struct vr_opencl_device *device, uint64_t bytes,
                             struct vr_opencl_memory *record) {
    return svm_take(device, VR_CL_MEM_READ_WRITE, bytes, record);
}

static vram_status svm_alloc_fine(struct vr_opencl_device *device, uint64_t bytes,
                                  struct vr_opencl_memory *record) {
    return svm_take(device, VR_CL_MEM_READ_WRITE | VR_CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes, record);
}

/* clSVMFree neither waits nor fails. */
static vram_status svm_free(struct vr_opencl_device *device, struct vr_opencl_memory *record) {
    vr_mutex_lock(&device->memory);
    device->api->clSVMFree(device->context, record->raw);
    vr_mutex_unlock(&device->memory);
    return VRAM_OK;
}

static vram_status usm_check(const char *operation, vr_cl_int code, const void *raw) {
    vram_status status = vr_opencl_check(operation, code);
    return status == VRAM_OK && !raw ? vr_opencl_bad_result(operation, 0) : status;
}

static vram_status usm_alloc(struct vr_opencl_device *device, uint64_t bytes,
                             struct vr_opencl_memory *record) {
    vr_cl_int code = VR_CL_SUCCESS;
    record->raw = device->physical->usm.clDeviceMemAllocINTEL(device->context, device->physical->id,
                                                              NULL, bytes, 0, &code);
    return usm_check("clDeviceMemAllocINTEL", code, record->raw);
}

static vram_status usm_alloc_shared(struct vr_opencl_device *device, uint64_t bytes,
                                    struct vr_opencl_memory *record) {
    vr_cl_int code = VR_CL_SUCCESS;
    record->raw = device->physical->usm.clSharedMemAllocINTEL(device->context, device->physical->id,
                                                              NULL, bytes, 0, &code);
    return usm_check("clSharedMemAllocINTEL", code, record->raw);
}

static vram_status usm_free(struct vr_opencl_device *device, struct vr_opencl_memory *record) {
    return vr_opencl_check("clMemFreeINTEL",
                           device->physical->usm.clMemFreeINTEL(device->context, record->raw));
}

/* In a call for host memory, "out of memory" means host memory. */
static vram_status host_memory_status(vram_status status) {
    vram_error error;
    if (status == VRAM_ERR_DEVICE_MEMORY) {
        vr_error_save(&error);
        error.status = status = VRAM_ERR_HOST_MEMORY;
        vr_error_restore(&error);
    }
    return status;
}

/* A buffer in memory that the device reads at full speed, mapped for its whole life. */
static vram_status mapped_alloc(struct vr_opencl_device *device, uint64_t bytes,
                                struct vr_opencl_memory *record) {
    vr_cl_int code = VR_CL_SUCCESS;
    struct vr_cl_memory *buffer;
    vram_status status =
        buffer_new(device, VR_CL_MEM_READ_WRITE | VR_CL_MEM_ALLOC_HOST_PTR, bytes, &buffer);
    if (status != VRAM_OK) {
        return host_memory_status(status);
    }
    vr_store(&record->buffer, buffer, VR_RELEASE);
    vr_mutex_lock(&device->memory);
    record->raw = device->api->clEnqueueMapBuffer(device->service, buffer, 1,
                                                  VR_CL_MAP_READ | VR_CL_MAP_WRITE, 0, bytes, 0,
                                                  NULL, NULL, &code);
    vr_mutex_unlock(&device->memory);
    status = host_memory_status(usm_check("clEnqueueMapBuffer", code, record->raw));
    if (status != VRAM_OK) {
        buffer_end(device, buffer);
    }
    return status;
}

static vram_status mapped_free(struct vr_opencl_device *device, struct vr_opencl_memory *record) {
    struct vr_cl_memory *buffer = vr_load(&record->buffer, VR_RELAXED);
    vr_cl_int flushed = VR_CL_SUCCESS;
    vr_mutex_lock(&device->memory);
    vram_status status = VR_OPENCL(device, clEnqueueUnmapMemObject, device->service, buffer,
                                   record->raw, 0, NULL, NULL);
    if (status == VRAM_OK) {
        flushed = device->api->clFlush(device->service);
    }
    vr_mutex_unlock(&device->memory);
    if (status != VRAM_OK) {
        return status;
    }
    vr_opencl_warn("clFlush", flushed);
    buffer_end(device, buffer); /* it is freed when the unmap is complete */
    return VRAM_OK;
}

static const struct memory_source svm_source = {"clSVMAlloc", svm_alloc, svm_free};
static const struct memory_source usm_source = {"clDeviceMemAllocINTEL", usm_alloc, usm_free};
static const struct memory_source svm_fine_source = {"clSVMAlloc", svm_alloc_fine, svm_free};
static const struct memory_source usm_shared_source = {"clSharedMemAllocINTEL", usm_alloc_shared,
                                                       usm_free};
static const struct memory_source mapped_source = {"clEnqueueMapBuffer", mapped_alloc, mapped_free};

static const struct memory_source *device_source(const struct vr_opencl_device *device) {
    return device->physical->memory_kind == VR_OPENCL_USM ? &usm_source : &svm_source;
}

static const struct memory_source *managed_source(const struct vr_opencl_device *device) {
    return device->physical->memory_kind == VR_OPENCL_USM ? &usm_shared_source : &svm_fine_source;
}

/* Frees memory that nobody got. If the driver refuses, that is only logged. */
static void source_drop(struct vr_opencl_device *device, const struct memory_source *source,
                        struct vr_opencl_memory *record) {
    vram_error error;
    vr_error_save(&error);
    if (source->free(device, record) != VRAM_OK) {
        vr_log(VRAM_LOG_WARN, "opencl: memory is lost: %s", vr_error_get()->text);
    }
    vr_error_restore(&error);
}

/* Allocates exactly `bytes` first: the driver's pointer is often page-aligned anyway. */
static vram_status source_take(struct vr_opencl_device *device, const struct memory_source *source,
                               uint64_t bytes, uint64_t align, struct vr_opencl_memory *record) {
    uint64_t more;
    vram_status status = source->alloc(device, bytes, record);
    if (status != VRAM_OK || (uintptr_t)record->raw % align == 0) {
        return status;
    }
    source_drop(device, source, record);
    if (!vr_add(bytes, align, &more)) {
        return vr_error_set(VRAM_ERR_OVERFLOW, "opencl", source->operation, 0,
                            "%llu bytes cannot be aligned", (unsigned long long)bytes);
    }
    return source->alloc(device, more, record);
}

static vram_status pointer_alloc(struct vr_opencl_device *device,
                                 const struct memory_source *source, uint64_t bytes, uint64_t align,
                                 vram_addr *addr) {
    struct vr_opencl_memory *record = vr_opencl_record_take(device, bytes, source->operation);
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = source_take(device, source, bytes, align, record);
    if (status == VRAM_OK) {
        uint64_t base = ((uintptr_t)record->raw + align - 1) & ~(align - 1);
        status = vr_radix_insert(&pointers, base, bytes, record);
        if (status == VRAM_OK) {
            *addr = base;
            return VRAM_OK;
        }
        if (status == VRAM_ERR_BUSY) { /* not ours to free */
            status = vr_opencl_bad_result(source->operation, base);
        } else {
            source_drop(device, source, record);
        }
    }
    vr_opencl_record_give(record);
    return status;
}

static vram_status pointer_free(struct vr_device *device, const struct memory_source *source,
                                vram_addr addr) {
    struct vr_opencl_memory *record = vr_radix_find(&pointers, addr);
    vram_status status = VRAM_OK;
    if (!record) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", source->operation, 0,
                            "0x%llx is no memory of this device", (unsigned long long)addr);
    }
    uint64_t bytes = vr_load(&record->bytes, VR_RELAXED);
    (void)vr_radix_remove(&pointers, addr, bytes, record); /* the driver may reuse it */
    if (!vr_load(&device->lost, VR_ACQUIRE)) {
        status = source->free(device->impl, record);
    }
    if (status != VRAM_OK) {
        vram_error error;
        vr_error_save(&error);
        (void)vr_radix_insert(&pointers, addr, bytes, record);
        vr_error_restore(&error);
        return status;
    }
    vr_opencl_record_give(record);
    return VRAM_OK;
}

/* ------------------------------------------------------------ device memory */

vram_status vr_opencl_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_opencl_device *opencl = device->impl;
    uint64_t granule = device->info.alloc_granule.value;
    vram_status status = memory_charge(opencl, bytes, "clCreateBuffer");
    if (status != VRAM_OK) {
        return status;
    }
    status = opencl->physical->memory_kind == VR_OPENCL_BUFFERS
                 ? buffer_alloc(opencl, bytes, granule, addr)
                 : pointer_alloc(opencl, device_source(opencl), bytes, granule, addr);
    if (status != VRAM_OK) {
        memory_uncharge(opencl, bytes);
    }
    return status;
}

/* Sub-buffers are released first. If the driver then refuses the buffer, they are created again at
   the next request. */
static vram_status buffer_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_opencl_device *opencl = device->impl;
    uint64_t offset;
    struct vr_opencl_memory *record = vr_opencl_buffer_at(addr, &offset);
    bool lost = vr_load(&device->lost, VR_ACQUIRE);
    if (!record) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "clReleaseMemObject", 0,
                            "0x%llx is no memory of this device", (unsigned long long)addr);
    }
    vr_opencl_subbuffers_end(record, lost);
    if (!lost) {
        vr_mutex_lock(&opencl->memory);
        vram_status status =
            VR_OPENCL(opencl, clReleaseMemObject, vr_load(&record->buffer, VR_RELAXED));
        vr_mutex_unlock(&opencl->memory);
        if (status != VRAM_OK) {
            return status;
        }
    }
    vr_window_close(addr, bytes);
    vr_opencl_record_give(record);
    return VRAM_OK;
}

vram_status vr_opencl_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_opencl_device *opencl = device->impl;
    vram_status status = opencl->physical->memory_kind == VR_OPENCL_BUFFERS
                             ? buffer_free(device, addr, bytes)
                             : pointer_free(device, device_source(opencl), addr);
    if (status == VRAM_OK) {
        memory_uncharge(opencl, bytes);
    }
    return status;
}

/* The window is looked up before and after, so that the fields read in between belong together: the
   record may be reused for another buffer meanwhile. */
vram_status vr_opencl_native(struct vr_device *device, vram_addr addr, uint64_t bytes,
                             struct vr_native *found) {
    uint64_t offset = 0, again = 0;
    struct vr_opencl_memory *record = vr_opencl_buffer_at(addr, &offset);
    bool ours = record && vr_load(&record->device, VR_ACQUIRE) == device->impl;
    struct vr_cl_memory *handle = ours ? vr_load(&record->buffer, VR_ACQUIRE) : NULL;
    uint64_t all = ours ? vr_load(&record->bytes, VR_ACQUIRE) : 0;
    if (!handle || vr_opencl_buffer_at(addr, &again) != record || again != offset) {
        return vr_error_set(VRAM_ERR_INVALID, "opencl", "native", 0,
                            "no buffer of this device is at 0x%llx", (unsigned long long)addr);
    }
    bool part = bytes && bytes != all;
    if (part) {
        vram_status status = vr_opencl_subbuffer_get(record, addr, offset, bytes, &handle);
        if (status != VRAM_OK) {
            return status;
        }
    }
    *found = (struct vr_native){
        .handle = handle, .offset = part ? 0 : offset, .bytes = part ? bytes : all};
    return VRAM_OK;
}

const struct vr_handle_ops vr_opencl_handle_ops = {.native = vr_opencl_native};

/* ---------------------------------------------------------- pinned, managed */

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return pointer_alloc(device->impl, &mapped_source, bytes, vr_os_page_bytes(), addr);
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)bytes;
    return pointer_free(device, &mapped_source, addr);
}

const struct vr_pinned_ops vr_opencl_pinned_ops = {.alloc = pinned_alloc, .free = pinned_free};

static vram_status managed_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_opencl_device *opencl = device->impl;
    const struct memory_source *source = managed_source(opencl);
    vram_status status = memory_charge(opencl, bytes, source->operation);
    if (status == VRAM_OK) {
        status = pointer_alloc(opencl, source, bytes, vr_os_page_bytes(), addr);
        if (status != VRAM_OK) {
            memory_uncharge(opencl, bytes);
        }
    }
    return status;
}

static vram_status managed_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_opencl_device *opencl = device->impl;
    vram_status status = pointer_free(device, managed_source(opencl), addr);
    if (status == VRAM_OK) {
        memory_uncharge(opencl, bytes);
    }
    return status;
}

const struct vr_managed_ops vr_opencl_managed_ops = {
    .alloc = managed_alloc, .free = managed_free, .prefetch = vr_opencl_prefetch};
