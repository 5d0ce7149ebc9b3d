/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_memory.c: allocating and freeing of device, pinned and managed memory, which differ only in
 * the kind of block; and memory of the program that is page-locked in place. The simulated driver
 * locks nothing, but records it: to register twice, to unregister what is not registered and to
 * leave something registered are violations.
 */
#include "backend/sim/sim_backend.h"

#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

/* ---------------------------------------------------------------------- taking */

static vram_status block_alloc(struct vr_device *device, vram_sim_call kind,
                               enum vr_sim_kind block_kind, uint64_t bytes, vram_addr *addr) {
    struct vr_sim_call call;
    uint64_t granule = vr_os_page_bytes();
    if (!vr_sim_begin(&call, device, kind, 0, bytes)) {
        return vr_sim_end(&call);
    }
    if (call.lie) {
        *addr = call.lie_addr;
    } else if (bytes == 0 || bytes % granule) {
        vr_sim_violation(&call, "%llu bytes are no multiple of the granule",
                         (unsigned long long)bytes);
    } else {
        struct vr_sim_block *block = vr_sim_block_make(&call, block_kind, bytes, granule);
        if (block) {
            *addr = call.addr = block->addr;
        }
    }
    return vr_sim_end(&call);
}

static vram_status memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return block_alloc(device, VRAM_SIM_ALLOC, VR_SIM_KIND_ALLOC, bytes, addr);
}

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return block_alloc(device, VRAM_SIM_PINNED_ALLOC, VR_SIM_KIND_PINNED, bytes, addr);
}

static vram_status managed_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return block_alloc(device, VRAM_SIM_MANAGED_ALLOC, VR_SIM_KIND_MANAGED, bytes, addr);
}

/* -------------------------------------------------------------------- giving back */

bool vr_sim_check_block(struct vr_sim_call *call, const struct vr_sim_block *block,
                        uint64_t bytes) {
    if (block->device != call->device) {
        return vr_sim_violation(call, "0x%llx belongs to another device",
                                (unsigned long long)call->addr);
    }
    if (block->bytes != bytes) {
        return vr_sim_violation(call, "0x%llx has %llu bytes, not %llu",
                                (unsigned long long)call->addr, (unsigned long long)block->bytes,
                                (unsigned long long)bytes);
    }
    if (block->busy) {
        return vr_sim_violation(call, "0x%llx is in use by unfinished work",
                                (unsigned long long)call->addr);
    }
    return true;
}

/* Whether `block`, found at the call's address, is what the call says. */
static bool block_check_found(struct vr_sim_call *call, const struct vr_sim_block *block,
                              enum vr_sim_kind kind, uint64_t bytes) {
    if (!block || block->addr != call->addr || block->kind != kind) {
        return vr_sim_violation(call, "0x%llx was not given out so, or was given back before",
                                (unsigned long long)call->addr);
    }
    if (!vr_sim_check_block(call, block, bytes)) {
        return false;
    }
    if (block->mappings) {
        return vr_sim_violation(call, "%u handles are still mapped in 0x%llx", block->mappings,
                                (unsigned long long)call->addr);
    }
    return true;
}

/* The library may free a misaligned lie; that changes nothing. */
vram_status vr_sim_block_free(struct vr_device *device, vram_sim_call kind,
                              enum vr_sim_kind block_kind, uint64_t addr, uint64_t bytes) {
    struct vr_sim_call call;
    bool going = vr_sim_begin_lost(&call, device, kind, addr, bytes);
    struct vr_sim_block *block = vr_sim_range_at(call.sim, addr);
    if (going && !vr_sim_lie_take(call.device, addr) &&
        block_check_found(&call, block, block_kind, bytes)) {
        going = vr_sim_system(&call, vr_sim_block_end(block));
    }
    if (block && !going && (call.planned || call.status != VRAM_OK)) {
        block->refused = true; /* the library tried to free it */
    }
    return vr_sim_end(&call);
}

static vram_status memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_block_free(device, VRAM_SIM_FREE, VR_SIM_KIND_ALLOC, addr, bytes);
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_block_free(device, VRAM_SIM_PINNED_FREE, VR_SIM_KIND_PINNED, addr, bytes);
}

static vram_status managed_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_block_free(device, VRAM_SIM_MANAGED_FREE, VR_SIM_KIND_MANAGED, addr, bytes);
}

/* ------------------------------------------------------------------ registered memory */

struct sim_registered {
    struct vr_link link; /* in vr_sim_device.registered */
    uint64_t addr, bytes;
    bool refused; /* unregistering it met a planned fault */
};

static struct sim_registered *registered_find(const struct vr_sim_device *owner, uint64_t addr,
                                              uint64_t bytes) {
    for (struct vr_link *link = vr_list_first(&owner->registered); link;
         link = vr_list_next(&owner->registered, link)) {
        struct sim_registered *found = VR_CONTAINER(link, struct sim_registered, link);
        if (vr_overlap(addr, bytes, found->addr, found->bytes)) {
            return found;
        }
    }
    return NULL;
}

static vram_status pinned_register(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_sim_call call;
    uint64_t page = vr_os_page_bytes();
    if (!vr_sim_begin(&call, device, VRAM_SIM_PINNED_REGISTER, addr, bytes)) {
        return vr_sim_end(&call);
    }
    if (!bytes || addr % page || bytes % page) {
        vr_sim_violation(&call, "[0x%llx, + %llu) is not made of whole pages",
                         (unsigned long long)addr, (unsigned long long)bytes);
    } else if (registered_find(call.device, addr, bytes)) {
        vr_sim_violation(&call, "0x%llx is registered already", (unsigned long long)addr);
    } else {
        struct sim_registered *fresh = vr_mem_alloc(1, sizeof *fresh, "pinned_register");
        if (!fresh) {
            vr_sim_system(&call, VRAM_ERR_HOST_MEMORY);
        } else {
            fresh->addr = addr;
            fresh->bytes = bytes;
            vr_list_append(&call.device->registered, &fresh->link);
            call.sim->live_handles++;
        }
    }
    return vr_sim_end(&call);
}

static void registered_remove(struct vr_sim *sim, struct sim_registered *found) {
    vr_link_remove(&found->link);
    vr_mem_free(found);
    sim->live_handles--;
}

static vram_status pinned_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_sim_call call;
    bool going = vr_sim_begin_lost(&call, device, VRAM_SIM_PINNED_UNREGISTER, addr, bytes);
    struct sim_registered *found = registered_find(call.device, addr, 1);
    if (!going && found) {
        found->refused = true;
    } else if (going && (!found || found->addr != addr || found->bytes != bytes)) {
        vr_sim_violation(&call, "[0x%llx, + %llu) was not registered so", (unsigned long long)addr,
                         (unsigned long long)bytes);
    } else if (going) {
        registered_remove(call.sim, found);
    }
    return vr_sim_end(&call);
}

void vr_sim_registered_sweep(struct vr_sim_call *call) {
    struct vr_link *link;
    while ((link = vr_list_first(&call->device->registered))) {
        struct sim_registered *found = VR_CONTAINER(link, struct sim_registered, link);
        if (!found->refused) {
            vr_sim_violation(call, "%llu registered bytes were never unregistered",
                             (unsigned long long)found->bytes);
        }
        registered_remove(call->sim, found);
    }
}

/* ---------------------------------------------------------------------- the tables */

const struct vr_device_ops vr_sim_device_ops = {
    .close = vr_sim_device_close,
    .memory_info = vr_sim_memory_info,
    .alloc = memory_alloc,
    .free = memory_free,
    .others = vr_sim_memory_others,
};

const struct vr_pinned_ops vr_sim_pinned_ops = {
    .alloc = pinned_alloc,
    .free = pinned_free,
    .register_pages = pinned_register,
    .unregister_pages = pinned_unregister,
};

const struct vr_managed_ops vr_sim_managed_ops = {
    .alloc = managed_alloc,
    .free = managed_free,
    .prefetch = vr_sim_prefetch,
};
