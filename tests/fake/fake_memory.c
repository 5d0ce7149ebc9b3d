/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_memory.c: device memory, pinned memory and virtual memory management of the fake driver.
 *
 * Every device has one sparse file in memory. Memory is a place in that file; an address is a part
 * of the process's address space that nobody may touch. Only fake_access joins the two, for the
 * engine, so memory that is not mapped, or mapped without access, behaves as on a GPU.
 */
#include "fake/fake_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum kind { ALLOCATION, PINNED, MANAGED, RESERVATION, MAPPING, REGISTERED };

struct physical {
    struct physical *next;
    vr_cu_memory id;
    struct fake_device *device;
    uint64_t bytes, offset; /* in the device's file, or in its own */
    int file;               /* of memory that other processes import, + 1; 0: none */
    bool imported;          /* takes no memory of the device */
    bool fabric;            /* has a fabric handle, too */
    bool mapped;
    bool rdma;    /* network cards can register it */
    uint64_t was; /* where it was mapped last; 0: nowhere */
};

struct range {
    struct range *next;
    enum kind kind;
    uint64_t addr, bytes;
    void *pages; /* what mmap gave, and how much */
    uint64_t page_bytes;
    struct fake_device *device;
    uint64_t offset; /* in the device's file */
    struct physical *physical;
    uint64_t access; /* bit i: device i may touch it */
    bool read_only;  /* for all of them */
};

static bool of_host(const struct range *range) {
    return range->kind == PINNED || range->kind == MANAGED || range->kind == REGISTERED;
}

static struct range *ranges;
static struct physical *physicals;
static vr_cu_memory next_id = 0x1000;

/* ------------------------------------------------------------------- ranges */

static uint64_t round_up(uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) / to * to;
}

static struct range *range_at(uint64_t addr, enum kind kind) {
    struct range *range = ranges;
    while (range && (range->addr != addr || range->kind != kind)) {
        range = range->next;
    }
    return range;
}

/* A new range with addresses of its own, `align`ed; NULL when the system has none. */
static struct range *range_make(enum kind kind, uint64_t bytes, uint64_t align, int protection) {
    struct range *range = calloc(1, sizeof *range);
    uint64_t whole = bytes + align;
    if (!range || whole < bytes) {
        free(range);
        return NULL;
    }
    void *pages = mmap(NULL, whole, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        free(range);
        return NULL;
    }
    range->kind = kind;
    range->bytes = bytes;
    range->pages = pages;
    range->page_bytes = whole;
    range->addr = round_up((uintptr_t)pages, align);
    range->next = ranges;
    ranges = range;
    return range;
}

static void range_end(struct range *range) {
    struct range **link = &ranges;
    while (*link != range) {
        link = &(*link)->next;
    }
    *link = range->next;
    if (range->pages) {
        munmap(range->pages, range->page_bytes);
    }
    free(range);
}

/* Takes a place in the device's file; false when the device is full. */
static bool device_take(struct fake_device *device, uint64_t bytes, uint64_t *offset) {
    if (bytes > fake.capacity || device->used > fake.capacity - bytes ||
        ftruncate(device->file, (off_t)(device->next + bytes)) != 0) {
        return false;
    }
    *offset = device->next;
    device->next += bytes;
    device->used += bytes;
    fake_machine_note(device);
    return true;
}

static void device_give(struct fake_device *device, uint64_t bytes, uint64_t offset) {
    device->used -= bytes;
    fake_machine_note(device);
    if (fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)bytes) != 0) {
        fake_violation("the file behind device memory cannot be punched");
    }
}

static uint64_t lie_about(uint64_t addr) {
    return fake_thread.lie == FAKE_CUDA_NULL         ? 0
           : fake_thread.lie == FAKE_CUDA_MISALIGNED ? addr + 8
                                                     : addr;
}

bool fake_is_pinned(const void *memory, uint64_t bytes) {
    uint64_t at = (uintptr_t)memory;
    for (struct range *range = ranges; range; range = range->next) {
        if (of_host(range) && at >= range->addr && at - range->addr < range->bytes) {
            return bytes <= range->bytes - (at - range->addr);
        }
    }
    return false;
}

/* Mappings are opened to devices one by one, allocations to all that a device is a peer of. */
static bool usable_by(const struct range *range, const struct fake_device *device) {
    return of_host(range) || range->access >> device->ordinal & 1 ||
           (range->kind == ALLOCATION && device->peers >> range->device->ordinal & 1);
}

/* The part of one range that [addr, addr + bytes) begins with. */
static struct range *range_touched(const struct fake_device *device, uint64_t addr) {
    for (struct range *range = ranges; range; range = range->next) {
        bool usable = usable_by(range, device);
        if (usable && addr >= range->addr && addr - range->addr < range->bytes) {
            return range;
        }
    }
    return NULL;
}

static int file_of(const struct range *range) {
    bool own = range->physical && range->physical->file;
    return own ? range->physical->file - 1 : range->device->file;
}

bool fake_access(struct fake_device *device, uint64_t addr, void *buffer, uint64_t bytes,
                 bool write) {
    for (char *at = buffer; bytes;) {
        struct range *range = range_touched(device, addr);
        if (!range || (write && range->read_only)) {
            return false;
        }
        uint64_t inside = addr - range->addr;
        uint64_t part = bytes < range->bytes - inside ? bytes : range->bytes - inside;
        off_t offset = (off_t)(range->offset + inside);
        if (of_host(range)) {
            memcpy(write ? (char *)(uintptr_t)addr : at, write ? at : (char *)(uintptr_t)addr,
                   part);
        } else if ((write ? pwrite(file_of(range), at, part, offset)
                          : pread(file_of(range), at, part, offset)) != (ssize_t)part) {
            return false;
        }
        at += part;
        addr += part;
        bytes -= part;
    }
    return true;
}

/* ------------------------------------------------------------ device memory */

vr_cu_result fake_cuMemGetInfo(size_t *free_bytes, size_t *total) {
    FAKE_ENTER(cuMemGetInfo, FAKE_NEEDS_CONTEXT);
    *free_bytes = fake_machine_free(fake_current_device(), true);
    *total = fake.capacity;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemAlloc(vr_cu_addr *addr, size_t bytes) {
    FAKE_ENTER(cuMemAlloc, FAKE_NEEDS_SAFETY);
    struct fake_device *device = fake_current_device();
    uint64_t rounded = round_up(bytes, FAKE_GRANULE), offset;
    if (!bytes) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        *addr = 0;
        return fake_leave(VR_CU_SUCCESS);
    }
    if (rounded < bytes || !device_take(device, rounded, &offset)) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    struct range *range = range_make(ALLOCATION, rounded, FAKE_GRANULE, PROT_NONE);
    if (!range) {
        device_give(device, rounded, offset);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    range->device = device;
    range->offset = offset;
    range->access = UINT64_C(1) << device->ordinal;
    range->addr = lie_about(range->addr);
    fake.live.allocations++;
    *addr = range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemFree(vr_cu_addr addr) {
    FAKE_ENTER(cuMemFree, FAKE_NEEDS_SAFETY);
    struct range *range = range_at(addr, ALLOCATION);
    range = range ? range : range_at(addr, MANAGED);
    if (!range) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_in_use(addr, range->bytes)) {
        fake_violation("cuMemFree under unfinished work");
    }
    *(range->kind == MANAGED ? &fake.live.managed : &fake.live.allocations) -= 1;
    device_give(range->device, range->bytes, range->offset);
    range_end(range);
    return fake_leave(VR_CU_SUCCESS);
}

/* -------------------------------------------------- managed memory, peers */

/* It takes the device's memory and lies in the host's. */
vr_cu_result fake_cuMemAllocManaged(vr_cu_addr *addr, size_t bytes, unsigned flags) {
    FAKE_ENTER(cuMemAllocManaged, FAKE_NEEDS_SAFETY);
    struct fake_device *device = fake_current_device();
    uint64_t offset;
    if (!bytes || flags != VR_CU_MANAGED_GLOBAL) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        *addr = 0;
        return fake_leave(VR_CU_SUCCESS);
    }
    if (!device_take(device, bytes, &offset)) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    struct range *range = range_make(MANAGED, bytes, 4096, PROT_READ | PROT_WRITE);
    if (!range) {
        device_give(device, bytes, offset);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    range->device = device;
    range->offset = offset;
    range->addr = lie_about(range->addr);
    fake.live.managed++;
    *addr = range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

bool fake_reaches(int device, uint64_t addr) {
    return range_touched(&fake.devices[device], addr) != NULL;
}

bool fake_is_managed(uint64_t addr, uint64_t bytes) {
    for (struct range *range = ranges; range; range = range->next) {
        if (range->kind == MANAGED && addr >= range->addr && addr - range->addr < range->bytes) {
            return bytes <= range->bytes - (addr - range->addr);
        }
    }
    return false;
}

/* ------------------------------------------------------------ pinned memory */

vr_cu_result fake_cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    FAKE_ENTER(cuMemHostAlloc, FAKE_NEEDS_SAFETY);
    unsigned known = fake_speaks_hip() ? 0xE0000007u : 7u;
    if (!bytes || (flags & ~known)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_thread.lie == FAKE_CUDA_NULL) {
        *memory = NULL;
        return fake_leave(VR_CU_SUCCESS);
    }
    struct range *range = range_make(PINNED, bytes, 4096, PROT_READ | PROT_WRITE);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    /* The page that alignment costs leaves room behind the block. */
    range->device = fake_current_device();
    range->addr = lie_about((uintptr_t)range->pages);
    if (bytes < FAKE_GRANULE) {
        range->addr += fake.pinned_offset;
    }
    memset((void *)(uintptr_t)range->addr, 0xA5, bytes < 4096 ? bytes : 4096);
    fake.live.pinned++;
    *memory = (void *)(uintptr_t)range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

/* With the lock, which is open meanwhile. */
static void free_slowly(void) {
    while (fake.free_held) {
        pthread_cond_wait(&fake.changed, &fake.lock);
    }
    if (fake.free_waits) {
        pthread_mutex_unlock(&fake.lock);
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
        pthread_mutex_lock(&fake.lock);
        if (fake_kernels_run()) {
            fake_violation("page-locked memory is given back beside a kernel");
        }
        while (fake_kernels_run()) {
            pthread_cond_wait(&fake.changed, &fake.lock);
        }
    }
}

vr_cu_result fake_cuMemFreeHost(void *memory) {
    FAKE_ENTER(cuMemFreeHost, FAKE_NEEDS_SAFETY);
    free_slowly();
    struct range *range = range_at((uintptr_t)memory, PINNED);
    if (!range) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_in_use(range->addr, range->bytes)) {
        fake_violation("cuMemFreeHost under unfinished work");
        range->pages = NULL; /* the engine will still touch it: left mapped, so as to report this */
    }
    range_end(range);
    fake.live.pinned--;
    return fake_leave(VR_CU_SUCCESS);
}

/* Memory of the program's: a range without pages of its own. */
vr_cu_result fake_cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
    FAKE_ENTER(cuMemHostRegister, FAKE_NEEDS_SAFETY);
    if (!memory || !bytes || (flags & ~15u)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    uint64_t at = (uintptr_t)memory;
    for (struct range *range = ranges; range; range = range->next) {
        if (of_host(range) && at < range->addr + range->bytes && range->addr < at + bytes) {
            return fake_leave(VR_CU_HOST_REGISTERED);
        }
    }
    struct range *range = calloc(1, sizeof *range);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    *range = (struct range){.next = ranges,
                            .kind = REGISTERED,
                            .device = fake_current_device(),
                            .addr = at,
                            .bytes = bytes};
    ranges = range;
    fake.live.pinned++;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemHostUnregister(void *memory) {
    FAKE_ENTER(cuMemHostUnregister, FAKE_NEEDS_SAFETY);
    struct range *range = range_at((uintptr_t)memory, REGISTERED);
    if (!range) {
        return fake_leave(VR_CU_HOST_NOT_REGISTERED);
    }
    if (fake_in_use(range->addr, range->bytes)) {
        fake_violation("cuMemHostUnregister under unfinished work");
    }
    range_end(range);
    fake.live.pinned--;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemHostGetFlags(unsigned *flags, void *memory) {
    FAKE_ENTER(cuMemHostGetFlags, FAKE_NEEDS_CONTEXT);
    if (!fake_is_pinned(memory, 1)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    *flags = 1;
    return fake_leave(VR_CU_SUCCESS);
}

/* ----------------------------------------------- virtual memory management */

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
    struct range *range =
        range_make(RESERVATION, bytes, align > FAKE_GRANULE ? align : FAKE_GRANULE, PROT_NONE);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    range->addr = lie_about(range->addr);
    fake.live.reservations++;
    *addr = range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

/* The first mapping that has a byte in [addr, addr + bytes). */
static struct range *mapping_in(uint64_t addr, uint64_t bytes) {
    struct range *range = ranges;
    while (range && (range->kind != MAPPING || range->addr >= addr + bytes ||
                     addr >= range->addr + range->bytes)) {
        range = range->next;
    }
    return range;
}

vr_cu_result fake_cuMemAddressFree(vr_cu_addr addr, size_t bytes) {
    FAKE_ENTER(cuMemAddressFree, FAKE_NEEDS_CONTEXT);
    struct range *range = range_at(addr, RESERVATION);
    if (!range || range->bytes != bytes || mapping_in(addr, bytes)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    range_end(range);
    fake.live.reservations--;
    return fake_leave(VR_CU_SUCCESS);
}

/* Memory for export lies in a file of its own: a descriptor gives access to a whole file. */
static bool own_file_make(struct physical *physical, uint64_t bytes) {
    int file = memfd_create("fake-shared", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return false;
    }
    physical->file = file + 1;
    physical->offset = 0;
    return true;
}

static vr_cu_memory physical_add(struct physical *physical, struct fake_device *device,
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
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical || !device_take(device, bytes, &physical->offset)) {
        free(physical);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    if (prop->requested_handle_types && !own_file_make(physical, bytes)) {
        device_give(device, bytes, physical->offset);
        free(physical);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    physical->fabric = prop->requested_handle_types & VR_CU_HANDLE_FABRIC;
    physical->rdma = prop->flags.rdma_capable;
    fake.live.rdma += physical->rdma;
    *handle = physical_add(physical, device, bytes);
    return fake_leave(VR_CU_SUCCESS);
}

static struct physical **physical_at(vr_cu_memory id) {
    struct physical **link = &physicals;
    while (*link && (*link)->id != id) {
        link = &(*link)->next;
    }
    return link;
}

static void physical_end(struct physical *physical) {
    if (physical->file) {
        close(physical->file - 1);
    }
    if (physical->file && !physical->imported) {
        physical->device->used -= physical->bytes;
        fake_machine_note(physical->device);
    } else if (!physical->imported) {
        device_give(physical->device, physical->bytes, physical->offset);
    }
    free(physical);
}

/* The fabric of one machine: a process and its descriptor, for who may look at that. */
static void fabric_name(char name[64], const struct physical *physical) {
    memset(name, 0, 64);
    snprintf(name, 64, "/proc/%d/fd/%d", (int)getpid(), physical->file - 1);
}

vr_cu_result fake_cuMemExportToShareableHandle(void *shareable, vr_cu_memory handle,
                                               enum vr_cu_handle_type type,
                                               unsigned long long flags) {
    FAKE_ENTER(cuMemExportToShareableHandle, FAKE_NEEDS_CONTEXT);
    const struct physical *physical = *physical_at(handle);
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
    struct physical *physical =
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
    struct physical **link = physical_at(handle), *physical = *link;
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
    struct physical *physical = *physical_at(handle);
    struct range *home = ranges;
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
    struct range *range = calloc(1, sizeof *range);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    *range = (struct range){.next = ranges,
                            .kind = MAPPING,
                            .addr = addr,
                            .bytes = bytes,
                            .device = physical->device,
                            .offset = physical->offset,
                            .physical = physical};
    ranges = range;
    physical->mapped = true;
    fake.live.rdma_moved += physical->rdma && physical->was && physical->was != addr;
    physical->was = addr;
    fake.live.mappings++;
    return fake_leave(VR_CU_SUCCESS);
}

/* Whether [addr, addr + bytes) is made of whole mappings without a hole; `each` is done to them. */
static bool whole_mappings(uint64_t addr, uint64_t bytes, void (*each)(struct range *)) {
    uint64_t end = addr + bytes;
    for (uint64_t at = addr; at < end;) {
        struct range *range = range_at(at, MAPPING);
        if (!range || range->bytes > end - at) {
            return false;
        }
        at += range->bytes;
    }
    for (uint64_t at = addr; each && at < end;) {
        struct range *range = range_at(at, MAPPING);
        at += range->bytes;
        each(range);
    }
    return true;
}

static uint64_t allowed; /* devices that a call opens mappings to */
static bool allowed_reads_only;

static void allow(struct range *range) {
    range->access |= allowed;
    range->read_only = allowed_reads_only;
}

static void unmap(struct range *range) {
    range->physical->mapped = false;
    range_end(range);
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

void fake_device_reset(struct fake_device *device) {
    struct range *next;
    device->primary.alive = false;
    device->primary.was_reset = true;
    for (struct range *range = ranges; range; range = next) {
        next = range->next;
        if (range->device == device && range->kind == REGISTERED) {
            range_end(range);
            fake.live.pinned--;
        } else if (range->device == device && range->kind == PINNED &&
                   mprotect(range->pages, range->page_bytes, PROT_NONE) != 0) {
            fake_violation("page-locked memory cannot be taken away");
        }
    }
}

void fake_memory_reset(void) {
    while (ranges) {
        range_end(ranges);
    }
    while (physicals) {
        struct physical *physical = physicals;
        physicals = physical->next;
        if (physical->file) {
            close(physical->file - 1);
        }
        free(physical);
    }
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        struct fake_device *device = &fake.devices[i];
        device->used = device->next = 0;
        if (device->file >= 0 && ftruncate(device->file, 0) != 0) {
            fake_violation("the file behind device memory cannot be emptied");
        }
    }
}
