/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_memory.c: device memory and pinned memory of the fake driver.
 *
 * Every device has one sparse file in memory. Memory is a place in that file; an address is a part
 * of the process's address space that nobody may touch. Only fake_access joins the two, for the
 * engine, so memory that is not mapped, or mapped without access, behaves as on a GPU.
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

static bool of_host(const struct fake_range *range) {
    return range->kind == PINNED || range->kind == MANAGED || range->kind == REGISTERED;
}

struct fake_range *fake_ranges;

/* ------------------------------------------------------------------- fake_ranges */

static uint64_t round_up(uint64_t bytes, uint64_t to) {
    return (bytes + to - 1) / to * to;
}

struct fake_range *fake_range_at(uint64_t addr, enum fake_range_kind kind) {
    struct fake_range *range = fake_ranges;
    while (range && (range->addr != addr || range->kind != kind)) {
        range = range->next;
    }
    return range;
}

struct fake_range *fake_range_make(enum fake_range_kind kind, uint64_t bytes, uint64_t align,
                                   int protection) {
    struct fake_range *range = calloc(1, sizeof *range);
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
    range->next = fake_ranges;
    fake_ranges = range;
    return range;
}

void fake_range_end(struct fake_range *range) {
    struct fake_range **link = &fake_ranges;
    while (*link != range) {
        link = &(*link)->next;
    }
    *link = range->next;
    if (range->pages) {
        munmap(range->pages, range->page_bytes);
    }
    free(range);
}

bool fake_device_take(struct fake_device *device, uint64_t bytes, uint64_t *offset) {
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

void fake_device_give(struct fake_device *device, uint64_t bytes, uint64_t offset) {
    device->used -= bytes;
    fake_machine_note(device);
    if (fallocate(device->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)bytes) != 0) {
        fake_violation("the file behind device memory cannot be punched");
    }
}

uint64_t fake_lie(uint64_t addr) {
    return fake_thread.lie == FAKE_CUDA_NULL         ? 0
           : fake_thread.lie == FAKE_CUDA_MISALIGNED ? addr + 8
                                                     : addr;
}

bool fake_is_pinned(const void *memory, uint64_t bytes) {
    uint64_t at = (uintptr_t)memory;
    for (struct fake_range *range = fake_ranges; range; range = range->next) {
        if (of_host(range) && at >= range->addr && at - range->addr < range->bytes) {
            return bytes <= range->bytes - (at - range->addr);
        }
    }
    return false;
}

/* Mappings are opened to devices one by one, allocations to all that a device is a peer of. */
static bool usable_by(const struct fake_range *range, const struct fake_device *device) {
    return of_host(range) || range->access >> device->ordinal & 1 ||
           (range->kind == ALLOCATION && device->peers >> range->device->ordinal & 1);
}

/* The part of one range that [addr, addr + bytes) begins with. */
static struct fake_range *range_touched(const struct fake_device *device, uint64_t addr) {
    for (struct fake_range *range = fake_ranges; range; range = range->next) {
        bool usable = usable_by(range, device);
        if (usable && addr >= range->addr && addr - range->addr < range->bytes) {
            return range;
        }
    }
    return NULL;
}

static int file_of(const struct fake_range *range) {
    bool own = range->physical && range->physical->file;
    return own ? range->physical->file - 1 : range->device->file;
}

bool fake_access(struct fake_device *device, uint64_t addr, void *buffer, uint64_t bytes,
                 bool write) {
    for (char *at = buffer; bytes;) {
        struct fake_range *range = range_touched(device, addr);
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
    if (rounded < bytes || !fake_device_take(device, rounded, &offset)) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    struct fake_range *range = fake_range_make(ALLOCATION, rounded, FAKE_GRANULE, PROT_NONE);
    if (!range) {
        fake_device_give(device, rounded, offset);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    range->device = device;
    range->offset = offset;
    range->access = UINT64_C(1) << device->ordinal;
    range->addr = fake_lie(range->addr);
    fake.live.allocations++;
    *addr = range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemFree(vr_cu_addr addr) {
    FAKE_ENTER(cuMemFree, FAKE_NEEDS_SAFETY);
    struct fake_range *range = fake_range_at(addr, ALLOCATION);
    range = range ? range : fake_range_at(addr, MANAGED);
    if (!range) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_in_use(addr, range->bytes)) {
        fake_violation("cuMemFree under unfinished work");
    }
    *(range->kind == MANAGED ? &fake.live.managed : &fake.live.allocations) -= 1;
    fake_device_give(range->device, range->bytes, range->offset);
    fake_range_end(range);
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
    if (!fake_device_take(device, bytes, &offset)) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    struct fake_range *range = fake_range_make(MANAGED, bytes, 4096, PROT_READ | PROT_WRITE);
    if (!range) {
        fake_device_give(device, bytes, offset);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    range->device = device;
    range->offset = offset;
    range->addr = fake_lie(range->addr);
    fake.live.managed++;
    *addr = range->addr;
    return fake_leave(VR_CU_SUCCESS);
}

bool fake_reaches(int device, uint64_t addr) {
    return range_touched(&fake.devices[device], addr) != NULL;
}

bool fake_is_managed(uint64_t addr, uint64_t bytes) {
    for (struct fake_range *range = fake_ranges; range; range = range->next) {
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
    struct fake_range *range = fake_range_make(PINNED, bytes, 4096, PROT_READ | PROT_WRITE);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    /* The page that alignment costs leaves room behind the block. */
    range->device = fake_current_device();
    range->addr = fake_lie((uintptr_t)range->pages);
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
    struct fake_range *range = fake_range_at((uintptr_t)memory, PINNED);
    if (!range) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if (fake_in_use(range->addr, range->bytes)) {
        fake_violation("cuMemFreeHost under unfinished work");
        range->pages = NULL; /* the engine will still touch it: left mapped, so as to report this */
    }
    fake_range_end(range);
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
    for (struct fake_range *range = fake_ranges; range; range = range->next) {
        if (of_host(range) && at < range->addr + range->bytes && range->addr < at + bytes) {
            return fake_leave(VR_CU_HOST_REGISTERED);
        }
    }
    struct fake_range *range = calloc(1, sizeof *range);
    if (!range) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    *range = (struct fake_range){.next = fake_ranges,
                                 .kind = REGISTERED,
                                 .device = fake_current_device(),
                                 .addr = at,
                                 .bytes = bytes};
    fake_ranges = range;
    fake.live.pinned++;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuMemHostUnregister(void *memory) {
    FAKE_ENTER(cuMemHostUnregister, FAKE_NEEDS_SAFETY);
    struct fake_range *range = fake_range_at((uintptr_t)memory, REGISTERED);
    if (!range) {
        return fake_leave(VR_CU_HOST_NOT_REGISTERED);
    }
    if (fake_in_use(range->addr, range->bytes)) {
        fake_violation("cuMemHostUnregister under unfinished work");
    }
    fake_range_end(range);
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

void fake_device_reset(struct fake_device *device) {
    struct fake_range *next;
    device->primary.alive = false;
    device->primary.was_reset = true;
    for (struct fake_range *range = fake_ranges; range; range = next) {
        next = range->next;
        if (range->device == device && range->kind == REGISTERED) {
            fake_range_end(range);
            fake.live.pinned--;
        } else if (range->device == device && range->kind == PINNED &&
                   mprotect(range->pages, range->page_bytes, PROT_NONE) != 0) {
            fake_violation("page-locked memory cannot be taken away");
        }
    }
}

void fake_memory_reset(void) {
    while (fake_ranges) {
        fake_range_end(fake_ranges);
    }
    fake_vmm_reset();
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        struct fake_device *device = &fake.devices[i];
        device->used = device->next = 0;
        if (device->file >= 0 && ftruncate(device->file, 0) != 0) {
            fake_violation("the file behind device memory cannot be emptied");
        }
    }
}
