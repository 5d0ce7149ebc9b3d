/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_memory.c: device, pinned and managed memory, which here are all pages of the process.
 *
 * The system overcommits memory and later kills a process if it runs out. A device must refuse at
 * once, so every byte is counted against host->total before it is requested:
 *
 *     held = device + pinned + managed + physical (host_vmm.c)  <=  total
 */
#include "backend/host/host_backend.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size_text.h"

/* --------------------------------------------------------------- accounting */

vram_status vr_host_charge(struct vr_host *host, uint64_t bytes, const char *operation) {
    uint64_t held = vr_load(&host->held, VR_RELAXED);
    do {
        if (bytes > host->total - held) {
            char asked[VRAM_SIZE_TEXT_MAX], left[VRAM_SIZE_TEXT_MAX], all[VRAM_SIZE_TEXT_MAX];
            return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "host", operation, 0,
                                "%s asked for, %s left of %s%s", vr_size_format(bytes, asked),
                                vr_size_format(host->total - held, left),
                                vr_size_format(host->total, all),
                                host->limited ? "; the option host_memory sets that" : "");
        }
    } while (!vr_cas_weak(&host->held, &held, held + bytes, VR_RELAXED));
    return VRAM_OK;
}

void vr_host_uncharge(struct vr_host *host, uint64_t bytes) {
    vr_fetch_sub(&host->held, bytes, VR_RELAXED);
}

/* If the option host_memory sets the size, all memory that is not in use is free. Otherwise other
   programs share the memory, and the system's figure counts if it is lower. */
vram_status vr_host_memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    struct vr_host *host = device->impl;
    uint64_t left = host->total - vr_load(&host->held, VR_RELAXED);
    bool known = host->total != UINT64_MAX;
    vram_value machine, available;
    vr_os_memory(&machine, &available);
    if (host->limited || !available.known || (known && left < available.value)) {
        available = (vram_value){known ? left : 0, known};
    }
    *free = available;
    *total = (vram_value){known ? host->total : 0, known};
    return VRAM_OK;
}

/* -------------------------------------------------------------------- pages */

vram_status vr_host_memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct vr_host *host = device->impl;
    vram_status status = vr_host_charge(host, bytes, "alloc");
    if (status != VRAM_OK) {
        return status;
    }
    void *pages;
    if (vr_os_pages_alloc(bytes, &pages) != VRAM_OK) {
        status = vr_host_error(VRAM_ERR_DEVICE_MEMORY, "no pages");
        vr_host_uncharge(host, bytes);
        return status;
    }
    *addr = (vram_addr)(uintptr_t)pages;
    return VRAM_OK;
}

/* Unmapping also unlocks locked pages, so this serves all three kinds. */
vram_status vr_host_memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    if (vr_os_pages_free(vr_host_pointer(addr), bytes) != VRAM_OK) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, "pages not given back");
    }
    vr_host_uncharge(device->impl, bytes);
    return VRAM_OK;
}

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    vram_addr pages = 0;
    vram_status status = vr_host_memory_alloc(device, bytes, &pages);
    if (status != VRAM_OK) {
        return status;
    }
    if (vr_os_pages_lock(vr_host_pointer(pages), bytes) != VRAM_OK) {
        status = vr_host_error(VRAM_ERR_DEVICE_MEMORY, "pages not locked; see ulimit -l");
        vram_error why;
        vr_error_save(&why);
        vr_host_memory_free(device, pages, bytes);
        vr_error_restore(&why);
        return status;
    }
    *addr = pages;
    return VRAM_OK;
}

static vram_status pinned_register(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    return vr_os_pages_lock(vr_host_pointer(addr), bytes) == VRAM_OK
               ? VRAM_OK
               : vr_host_error(VRAM_ERR_LIMIT, "pages not locked; see ulimit -l");
}

static vram_status pinned_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    (void)device;
    vr_os_pages_unlock(vr_host_pointer(addr), bytes);
    return VRAM_OK;
}

/* Nothing is moved. An empty command keeps the order, which is all that a program can observe. */
static vram_status managed_prefetch(struct vr_queue *queue, vram_addr addr, uint64_t bytes,
                                    int32_t target) {
    (void)addr, (void)bytes, (void)target;
    struct vr_host_command *command = vr_host_command_create(sizeof *command, "prefetch");
    if (!command) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_host_command_submit(queue, command);
    return VRAM_OK;
}

const struct vr_pinned_ops vr_host_pinned_ops = {
    .alloc = pinned_alloc,
    .free = vr_host_memory_free,
    .register_pages = pinned_register,
    .unregister_pages = pinned_unregister,
};

const struct vr_managed_ops vr_host_managed_ops = {
    .alloc = vr_host_memory_alloc,
    .free = vr_host_memory_free,
    .prefetch = managed_prefetch,
};
