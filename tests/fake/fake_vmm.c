/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_vmm.c: virtual memory management of the fake driver: reservations, physical memory,
 * mappings, and handles for other processes.
 */
#include "fake/fake_range.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct fake_physical *physicals;
static vr_cu_memory next_id = 0x1000;

static bool granular(uint64_t value) {
    return value && value % FAKE_GRANULE == 0;
}

vr_cu_result fake_cuMemGetAllocationGranularity(size_t *bytes, const struct vr_cu_prop *prop,
                                                enum vr_cu_granularity which) {
    FAKE_ENTER(cuMemGetAllocationGranularity, FAKE_NEEDS_INIT);
    if (which != VR_CU_GRANULARITY_MINIMUM || prop->type != VR_CU_ALLOCATION_PINNED ||
        prop->location.type != VR_CU_LOCATION_DEVICE) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    *bytes = fake_thread.lie == FAKE_CUDA_TRUE   ? FAKE_GRANULE
             : fake_thread.lie == FAKE_CUDA_NULL ? 0
                                                 : 12345;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemAddressReserve(vr_cu_addr *addr, size_t bytes, size_t align, vr_cu_addr hint,
                                      unsigned long long flags) {
    FAKE_ENTER(cuMemAddressReserve, FAKE_NEEDS_CONTEXT);
    (void)hint;
    if (!granular(bytes) || (align & (align - 1)) || flags) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        *addr = 0;
        return fake_leave(VR_CU_SUCCESS);
    }
    struct fake_range *range =
        fake_range_make(RESERVATION, bytes, align > FAKE_GRANULE ? align : FAKE_GRANULE, PROT_NONE);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    range->addr = fake_lie(range->addr);
    fake.live.reservations++;
    *addr = range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

/* The first mapping that has a byte in [addr, addr + bytes). */
static struct fake_range *mapping_in(uint64_t addr, uint64_t bytes) {
    struct fake_range *range = fake_ranges;
    while (range && (range->kind != MAPPING || range->addr >= addr + bytes ||
                     addr >= range->addr + range->bytes)) {
        range = range->next;
    }
    return range;
}

vr_cu_result fake_cuMemAddressFree(vr_cu_addr addr, size_t bytes) {
    FAKE_ENTER(cuMemAddressFree, FAKE_NEEDS_CONTEXT);
    struct fake_range *range = fake_range_at(addr, RESERVATION);
    if (!range || range->bytes != bytes || mapping_in(addr, bytes)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    fake_range_end(range);
    fake.live.reservations--;
    return fake_leave(VR_CU_SUCCESS);
}

/* Memory for export lies in a file of its own: a descriptor gives access to a whole file. */
static bool own_file_make(struct fake_physical *physical, uint64_t bytes) {
    int file = memfd_create("fake-shared", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return false;
    }
    physical->file = file + 1;
    physical->offset = 0;
    return true;
}

static vr_cu_memory physical_add(struct fake_physical *physical, struct fake_device *device,
                                 uint64_t bytes) {
    physical->id = next_id++;
    physical->device = device;
    physical->bytes = bytes;
    physical->next = physicals;
    physicals = physical;
    fake.live.physicals++;
    return physical->id;
}

vr_cu_result fake_cuMemCreate(vr_cu_memory *handle, size_t bytes, const struct vr_cu_prop *prop,
                              unsigned long long flags) {
    FAKE_ENTER(cuMemCreate, FAKE_NEEDS_CONTEXT);
    struct fake_device *device = &fake.devices[prop->location.id];
    if (!granular(bytes) || flags || prop->type != VR_CU_ALLOCATION_PINNED ||
        (prop->flags.rdma_capable && fake_attribute(VR_CU_ATTRIBUTE_RDMA) <= 0) ||
        (prop->requested_handle_types &
         ~(VR_CU_HANDLE_DESCRIPTOR |
           (fake_attribute(VR_CU_ATTRIBUTE_FABRIC) > 0 ? VR_CU_HANDLE_FABRIC : 0))) ||
        prop->location.type != VR_CU_LOCATION_DEVICE) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        *handle = 0;
        return fake_leave(VR_CU_SUCCESS);
    }
    struct fake_physical *physical = calloc(1, sizeof *physical);
    if (!physical || !fake_device_take(device, bytes, &physical->offset)) {
        free(physical);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    if (prop->requested_handle_types && !own_file_make(physical, bytes)) {
        fake_device_give(device, bytes, physical->offset);
        free(physical);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    physical->fabric = prop->requested_handle_types & VR_CU_HANDLE_FABRIC;
    physical->rdma = prop->flags.rdma_capable;
    fake.live.rdma += physical->rdma;
    *handle = physical_add(physical, device, bytes);
    return fake_leave(VR_CU_SUCCESS);
}

static struct fake_physical **physical_at(vr_cu_memory id) {
    struct fake_physical **link = &physicals;
    while (*link && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

static void physical_end(struct fake_physical *physical) {
    if (physical->file) {
        close(physical->file - 1);
    }
    if (physical->file && !physical->imported) {
        physical->device->used -= physical->bytes;
        fake_machine_note(physical->device);
    } else if (!physical->imported) {
        fake_device_give(physical->device, physical->bytes, physical->offset);
    }
    free(physical);
}

/* The fabric of one machine: a process and its descriptor, for who may look at that. */
static void fabric_name(char name[64], const struct fake_physical *physical) {
    memset(name, 0, 64);
    snprintf(name, 64, "/proc/%d/fd/%d", (int)getpid(), physical->file - 1);
}

vr_cu_result fake_cuMemExportToShareableHandle(void *shareable, vr_cu_memory handle,
                                               enum vr_cu_handle_type type,
                                               unsigned long long flags) {
    FAKE_ENTER(cuMemExportToShareableHandle, FAKE_NEEDS_CONTEXT);
    const struct fake_physical *physical = *physical_at(handle);
    if (physical && physical->fabric && type == VR_CU_HANDLE_FABRIC && !flags) {
        fabric_name(shareable, physical);
        return fake_leave(VR_CU_SUCCESS);
    }
    if (!physical || !physical->file || type != VR_CU_HANDLE_DESCRIPTOR || flags) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    int file =
        fake_thread.lie == FAKE_CUDA_NULL ? -1 : fcntl(physical->file - 1, F_DUPFD_CLOEXEC, 0);
    if (file < 0 && fake_thread.lie != FAKE_CUDA_NULL) {
        return fake_leave(VR_CU_OPERATING_SYSTEM);
    }
    *(int *)shareable = file;
    unsigned us = fake.export_us;
    (void)fake_leave(VR_CU_SUCCESS);
    if (us) { /* without the lock: a driver is slow for its caller alone */
        (void)nanosleep(&(struct timespec){us / 1000000, (long)(us % 1000000) * 1000}, NULL);
    }
    return VR_CU_SUCCESS;
}

/* Memory behind a file, which is the driver's from now on. */
static vr_cu_result file_import(vr_cu_memory *handle, int file) {
    struct stat about;
    if (fstat(file, &about) != 0 || about.st_size <= 0 || !granular((uint64_t)about.st_size)) {
        close(file);
        return VR_CU_INVALID_VALUE;
    }
    struct fake_physical *physical =
        fake_thread.lie == FAKE_CUDA_NULL ? NULL : calloc(1, sizeof *physical);
    if (!physical) {
        close(file);
        *handle = 0;
        return fake_thread.lie == FAKE_CUDA_NULL ? VR_CU_SUCCESS : VR_CU_OPERATING_SYSTEM;
    }
    physical->file = file + 1;
    physical->imported = true;
    *handle = physical_add(physical, fake_current_device(), (uint64_t)about.st_size);
    return VR_CU_SUCCESS;
}

/* The driver keeps a reference of its own: the descriptor stays the caller's. */
vr_cu_result fake_cuMemImportFromShareableHandle(vr_cu_memory *handle, void *shareable,
                                                 enum vr_cu_handle_type type) {
    FAKE_ENTER(cuMemImportFromShareableHandle, FAKE_NEEDS_CONTEXT);
    bool fabric = type == VR_CU_HANDLE_FABRIC && fake_attribute(VR_CU_ATTRIBUTE_FABRIC) > 0;
    char name[64] = "";
    if (fabric) {
        memcpy(name, shareable, sizeof name - 1);
    } else if (type != VR_CU_HANDLE_DESCRIPTOR || fcntl((int)(intptr_t)shareable, F_GETFD) < 0) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    bool named = strncmp(name, "/proc/", 6) == 0;
    int file = !fabric ? fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0)
               : named ? open(name, O_RDWR | O_CLOEXEC)
                       : -1;
    if (file < 0) {
        return fake_leave(fabric ? VR_CU_INVALID_VALUE : VR_CU_OPERATING_SYSTEM);
    }
    return fake_leave(file_import(handle, file));
}

vr_cu_result fake_cuMemRelease(vr_cu_memory handle) {
    FAKE_ENTER(cuMemRelease, FAKE_NEEDS_CONTEXT);
    struct fake_physical **link = physical_at(handle), *physical = *link;
    if (!physical) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (physical->mapped) {
        fake_violation("cuMemRelease of mapped memory");
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    *link = physical->next;
    fake.live.rdma -= physical->rdma;
    physical_end(physical);
    fake.live.physicals--;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemMap(vr_cu_addr addr, size_t bytes, size_t offset, vr_cu_memory handle,
                           unsigned long long flags) {
    FAKE_ENTER(cuMemMap, FAKE_NEEDS_CONTEXT);
    struct fake_physical *physical = *physical_at(handle);
    struct fake_range *home = fake_ranges;
    while (home &&
           (home->kind != RESERVATION || addr < home->addr || addr - home->addr >= home->bytes ||
            bytes > home->bytes - (addr - home->addr))) {
        home = home->next;
    }
    if (!physical || !home || flags || mapping_in(addr, bytes)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (offset || bytes != physical->bytes) {
        fake_violation("cuMemMap of a part of a handle");
        return fake_leave(VR_CU_NOT_SUPPORTED);
    }
    struct fake_range *range = calloc(1, sizeof *range);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    *range = (struct fake_range){.next = fake_ranges,
                                 .kind = MAPPING,
                                 .addr = addr,
                                 .bytes = bytes,
                                 .device = physical->device,
                                 .offset = physical->offset,
                                 .physical = physical};
    fake_ranges = range;
    physical->mapped = true;
    fake.live.rdma_moved += physical->rdma && physical->was && physical->was != addr;
    physical->was = addr;
    fake.live.mappings++;
    return fake_leave(VR_CU_SUCCESS);
}

/* Whether [addr, addr + bytes) is made of whole mappings without a hole; `each` is done to them. */
static bool whole_mappings(uint64_t addr, uint64_t bytes, void (*each)(struct fake_range *)) {
    uint64_t end = addr + bytes;
    for (uint64_t at = addr; at < end;) {
        struct fake_range *range = fake_range_at(at, MAPPING);
        if (!range || range->bytes > end - at) {
            return false;
        }
        at += range->bytes;
    }
    for (uint64_t at = addr; each && at < end;) {
        struct fake_range *range = fake_range_at(at, MAPPING);
        at += range->bytes;
        each(range);
    }
    return true;
}

static uint64_t allowed; /* devices that a call opens mappings to */
static bool allowed_reads_only;

static void allow(struct fake_range *range) {
    range->access |= allowed;
    range->read_only = allowed_reads_only;
}

static void unmap(struct fake_range *range) {
    range->physical->mapped = false;
    fake_range_end(range);
    fake.live.mappings--;
}

vr_cu_result fake_cuMemSetAccess(vr_cu_addr addr, size_t bytes, const struct vr_cu_access *access,
                                 size_t count) {
    FAKE_ENTER(cuMemSetAccess, FAKE_NEEDS_CONTEXT);
    bool good = count > 0;
    allowed = 0;
    for (size_t i = 0; i < count; i++) {
        good =
            good && access[i].flags == access[0].flags &&
            (access[i].flags == VR_CU_ACCESS_READWRITE || access[i].flags == VR_CU_ACCESS_READ) &&
            access[i].location.type == VR_CU_LOCATION_DEVICE;
        allowed |= UINT64_C(1) << access[i].location.id;
    }
    allowed_reads_only = count && access[0].flags == VR_CU_ACCESS_READ;
    good = good && whole_mappings(addr, bytes, allow);
    return fake_leave(good ? VR_CU_SUCCESS : VR_CU_INVALID_VALUE);
}

vr_cu_result fake_cuMemUnmap(vr_cu_addr addr, size_t bytes) {
    FAKE_ENTER(cuMemUnmap, FAKE_NEEDS_CONTEXT);
    if (fake_in_use(addr, bytes)) {
        fake_violation("cuMemUnmap under unfinished work");
    }
    return fake_leave(whole_mappings(addr, bytes, unmap) ? VR_CU_SUCCESS : VR_CU_INVALID_VALUE);
}

void fake_vmm_reset(void) {
    while (physicals) {
        struct fake_physical *physical = physicals;
        physicals = physical->next;
        if (physical->file) {
            close(physical->file - 1);
        }
        free(physical);
    }
}
