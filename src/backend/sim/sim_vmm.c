/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_vmm.c: virtual memory management, as strict as the strictest driver: a handle is mapped and
 * unmapped whole, at one address unless `alias` is on, and nothing is released while something
 * depends on it.
 */
#include "backend/sim/sim_backend.h"

#include "base/os/os.h"
#include "base/size.h"

/* src/device rounds before it calls, so a wrong size is its mistake, not the user's. */
static bool sizes_check(struct vr_sim_call *call, uint64_t addr, uint64_t bytes) {
    uint64_t granule = call->sim->config.granule;
    if (bytes == 0 || bytes % granule || addr % granule) {
        return vr_sim_violation(call, "0x%llx and %llu are no multiples of the granule",
                                (unsigned long long)addr, (unsigned long long)bytes);
    }
    return true;
}

/* ---------------------------------------------------------------------- ranges */

static vram_status vmm_reserve(struct vr_device *device, uint64_t bytes, uint64_t align,
                               vram_addr *addr) {
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, device, VRAM_SIM_RESERVE, 0, bytes)) {
        return vr_sim_end(&call);
    }
    if (call.lie) {
        *addr = call.lie_addr;
    } else if (!vr_is_power_of_two(align)) {
        vr_sim_violation(&call, "an alignment of %llu", (unsigned long long)align);
    } else if (sizes_check(&call, align, bytes)) {
        struct vr_sim_block *block = vr_sim_block_make(&call, VR_SIM_KIND_RANGE, bytes, align);
        if (block) {
            *addr = call.addr = block->addr;
        }
    }
    return vr_sim_end(&call);
}

static vram_status vmm_unreserve(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_block_free(device, VRAM_SIM_UNRESERVE, VR_SIM_KIND_RANGE, addr, bytes);
}

/* --------------------------------------------------------------------- handles */

static vram_status vmm_create(struct vr_device *device, uint64_t bytes, uint64_t *handle) {
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, device, VRAM_SIM_CREATE, 0, bytes)) {
        return vr_sim_end(&call);
    }
    if (call.lie) {
        *handle = call.lie_addr;
    } else if (sizes_check(&call, 0, bytes)) {
        struct vr_sim_block *block = vr_sim_block_make(&call, VR_SIM_KIND_PHYSICAL, bytes, 0);
        if (block) {
            *handle = call.addr = block->handle;
        }
    }
    return vr_sim_end(&call);
}

/* A live handle of this device; mapped nowhere, unless `mapped` allows it. */
static struct vr_sim_block *handle_check(struct vr_sim_call *call, uint64_t handle, uint64_t bytes,
                                         bool mapped) {
    struct vr_sim_block *block = vr_sim_handle_find(call->sim, VR_SIM_KIND_PHYSICAL, handle);
    if (!block) {
        vr_sim_violation(call, "0x%llx is no handle, or was released before",
                         (unsigned long long)handle);
        return NULL;
    }
    if (block->mappings && !mapped) {
        vr_sim_violation(call, "handle 0x%llx is mapped", (unsigned long long)handle);
        return NULL;
    }
    return vr_sim_check_block(call, block, bytes) ? block : NULL;
}

static vram_status vmm_release(struct vr_device *device, uint64_t handle, uint64_t bytes) {
    struct vr_sim_call call;
    struct vr_sim_block *block;
    if (!vr_sim_begin_lost(&call, device, VRAM_SIM_RELEASE, handle, bytes)) {
        block = vr_sim_handle_find(call.sim, VR_SIM_KIND_PHYSICAL, handle);
        if (block && call.planned) {
            block->refused = true;
        }
        return vr_sim_end(&call);
    }
    block = handle_check(&call, handle, bytes, false);
    if (block) {
        (void)vr_sim_block_end(block); /* it has no pages of its own, so this cannot fail */
    }
    return vr_sim_end(&call);
}

/* -------------------------------------------------------------------- mappings */

/* The range that contains [addr, addr + bytes), with nothing mapped there. */
static struct vr_sim_block *range_check(struct vr_sim_call *call, uint64_t addr, uint64_t bytes) {
    struct vr_sim_block *range = vr_sim_range_at(call->sim, addr);
    if (!range || range->kind != VR_SIM_KIND_RANGE || range->device != call->device ||
        !vr_inside(addr, bytes, range->addr, range->bytes)) {
        vr_sim_violation(call, "0x%llx with %llu bytes lies in no reserved range of this device",
                         (unsigned long long)addr, (unsigned long long)bytes);
        return NULL;
    }
    /* The last mapping that begins before the end: none, or it ends before `addr`. */
    const struct vr_sim_block *last = vr_sim_map_below(&call->sim->mappings, addr + bytes - 1);
    if (last && last->addr + last->bytes > addr) {
        vr_sim_violation(call, "a handle is mapped in 0x%llx with %llu bytes already",
                         (unsigned long long)addr, (unsigned long long)bytes);
        return NULL;
    }
    return range;
}

/* The mapping is recorded before the system call, because recording may fail and removing
   cannot. */
static vram_status vmm_map(struct vr_device *device, vram_addr addr, uint64_t handle,
                           uint64_t bytes) {
    struct vr_sim_call call;
    struct vr_sim_block *memory, *range, *mapping;
    if (!vr_sim_begin(&call, device, VRAM_SIM_MAP, addr, bytes) ||
        !sizes_check(&call, addr, bytes) ||
        !(memory = handle_check(&call, handle, bytes, call.sim->config.alias)) ||
        !(range = range_check(&call, addr, bytes))) {
        return vr_sim_end(&call);
    }
    mapping = vr_sim_block_map(memory, range, addr);
    if (!mapping) {
        vr_sim_system(&call, VRAM_ERR_HOST_MEMORY);
    } else if (call.sim->config.real &&
               !vr_sim_system(&call, vr_os_file_map(vr_sim_block_file(memory), memory->offset,
                                                    (void *)(uintptr_t)addr, bytes))) {
        vr_sim_mapping_forget(mapping); /* the system has mapped nothing */
    }
    return vr_sim_end(&call);
}

/* The mapping at exactly `addr`. */
static struct vr_sim_block *mapping_check(struct vr_sim_call *call, uint64_t addr) {
    struct vr_sim_block *block = vr_sim_mapping_at(call->sim, addr);
    if (!block || block->addr != addr || block->device != call->device) {
        vr_sim_violation(call, "no handle of this device is mapped at 0x%llx",
                         (unsigned long long)addr);
        return NULL;
    }
    return block;
}

/* Counts the handles in [addr, addr + bytes); 0 after a violation. */
static uint64_t mapping_count_handles(struct vr_sim_call *call, uint64_t addr, uint64_t bytes) {
    uint64_t count = 0;
    for (; bytes; count++) {
        struct vr_sim_block *block = mapping_check(call, addr);
        if (!block) {
            return 0;
        }
        if (block->bytes > bytes) {
            vr_sim_violation(call, "the end of the range splits the handle at 0x%llx",
                             (unsigned long long)addr);
            return 0;
        }
        addr += block->bytes;
        bytes -= block->bytes;
    }
    return count;
}

/* mapping_count_handles has checked that the range consists of whole handles. */
static void mapping_make_accessible(struct vr_sim *sim, uint64_t addr, uint64_t bytes,
                                    bool read_only) {
    for (uint64_t at = addr; at - addr < bytes;) {
        struct vr_sim_block *block = vr_sim_mapping_at(sim, at);
        block->accessible = true;
        block->read_only = read_only;
        at += block->bytes;
    }
}

static vram_status vmm_protect(struct vr_device *device, vram_addr addr, uint64_t bytes,
                               bool read_only) {
    vram_status (*protect)(void *pages, uint64_t bytes) =
        read_only ? vr_os_pages_read_only : vr_os_pages_access;
    struct vr_sim_call call;
    if (!vr_sim_begin(&call, device, VRAM_SIM_ACCESS, addr, bytes) ||
        !sizes_check(&call, addr, bytes)) {
        return vr_sim_end(&call);
    }
    uint64_t handles = mapping_count_handles(&call, addr, bytes);
    if (handles) {
        call.cost_ns *= handles; /* drivers need time per handle, not per call */
        if (!call.sim->config.real ||
            vr_sim_system(&call, protect((void *)(uintptr_t)addr, bytes))) {
            mapping_make_accessible(call.sim, addr, bytes, read_only);
        }
    }
    return vr_sim_end(&call);
}

static vram_status vmm_access(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vmm_protect(device, addr, bytes, false);
}

/* A refused unmap keeps handle and range alive, which is not a leak of the library. */
static void mapping_note_refused(struct vr_sim *sim, uint64_t addr) {
    struct vr_sim_block *block = vr_sim_mapping_at(sim, addr);
    if (block) {
        block->memory->refused = block->range->refused = true;
    }
}

static vram_status vmm_unmap(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_sim_call call;
    bool going = vr_sim_begin_lost(&call, device, VRAM_SIM_UNMAP, addr, bytes);
    struct vr_sim_block *block = going ? mapping_check(&call, addr) : NULL;
    if (block && vr_sim_check_block(&call, block, bytes)) {
        vr_sim_system(&call, vr_sim_block_unmap(block));
    }
    if (call.planned || call.status != VRAM_OK) {
        mapping_note_refused(call.sim, addr);
    }
    return vr_sim_end(&call);
}

const struct vr_vmm_ops vr_sim_vmm_ops = {
    .reserve = vmm_reserve,
    .unreserve = vmm_unreserve,
    .create = vmm_create,
    .release = vmm_release,
    .map = vmm_map,
    .access = vmm_access,
    .protect = vmm_protect,
    .unmap = vmm_unmap,
};
