/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_memory.c: allocating and freeing of device, pinned and managed memory. The three differ in
 * the kind of block and in nothing else.
 */
#include "backend/sim/sim_machine.h"

#include "base/os/os.h"

/* ---------------------------------------------------------------------- taking */

static vram_status take(struct vr_device *device, vram_sim_call kind, enum vr_sim_kind block_kind,
                        uint64_t bytes, vram_addr *addr) {
    struct vr_sim_call call;
    uint64_t granule = vr_os_page_bytes();
    if (!vr_sim_begin(&call, device, kind, 0, bytes)) {
        return vr_sim_end(&call);
    }
    if (call.lie) {
        *addr = call.lie_addr;
    } else if (bytes == 0 || bytes % granule) {
        vr_sim_breach(&call, "%llu bytes are no multiple of the granule",
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
    return take(device, VRAM_SIM_ALLOC, VR_SIM_KIND_ALLOC, bytes, addr);
}

static vram_status pinned_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return take(device, VRAM_SIM_PINNED_ALLOC, VR_SIM_KIND_PINNED, bytes, addr);
}

static vram_status managed_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    return take(device, VRAM_SIM_MANAGED_ALLOC, VR_SIM_KIND_MANAGED, bytes, addr);
}

/* -------------------------------------------------------------------- giving back */

bool vr_sim_check_block(struct vr_sim_call *call, const struct vr_sim_block *block,
                        uint64_t bytes) {
    if (block->open != call->open) {
        return vr_sim_breach(call, "0x%llx belongs to another device",
                             (unsigned long long)call->addr);
    }
    if (block->bytes != bytes) {
        return vr_sim_breach(call, "0x%llx has %llu bytes, not %llu",
                             (unsigned long long)call->addr, (unsigned long long)block->bytes,
                             (unsigned long long)bytes);
    }
    if (block->busy) {
        return vr_sim_breach(call, "0x%llx is in use by unfinished work",
                             (unsigned long long)call->addr);
    }
    return true;
}

/* Whether `block`, found at the call's address, is what the call says it is. */
static bool check_found(struct vr_sim_call *call, const struct vr_sim_block *block,
                        enum vr_sim_kind kind, uint64_t bytes) {
    if (!block || block->addr != call->addr || block->kind != kind) {
        return vr_sim_breach(call, "0x%llx was not given out so, or was given back before",
                             (unsigned long long)call->addr);
    }
    if (!vr_sim_check_block(call, block, bytes)) {
        return false;
    }
    if (block->mappings) {
        return vr_sim_breach(call, "%u handles are still mapped in 0x%llx", block->mappings,
                             (unsigned long long)call->addr);
    }
    return true;
}

/* A misaligned lie may be given back: that is a kindness of the library's, and changes nothing. */
vram_status vr_sim_give_back(struct vr_device *device, vram_sim_call kind,
                             enum vr_sim_kind block_kind, uint64_t addr, uint64_t bytes) {
    struct vr_sim_call call;
    bool going = vr_sim_begin_lost(&call, device, kind, addr, bytes);
    struct vr_sim_block *block = vr_sim_range_at(call.sim, addr);
    if (going && !vr_sim_lied(call.open, addr) && check_found(&call, block, block_kind, bytes)) {
        going = vr_sim_system(&call, vr_sim_block_end(block));
    }
    if (block && !going && (call.planned || call.status != VRAM_OK)) {
        block->refused = true; /* the library tried */
    }
    return vr_sim_end(&call);
}

static vram_status memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_give_back(device, VRAM_SIM_FREE, VR_SIM_KIND_ALLOC, addr, bytes);
}

static vram_status pinned_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_give_back(device, VRAM_SIM_PINNED_FREE, VR_SIM_KIND_PINNED, addr, bytes);
}

static vram_status managed_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    return vr_sim_give_back(device, VRAM_SIM_MANAGED_FREE, VR_SIM_KIND_MANAGED, addr, bytes);
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
    .register_pages = vr_sim_pinned_register,
    .unregister_pages = vr_sim_pinned_unregister,
};

const struct vr_managed_ops vr_sim_managed_ops = {
    .alloc = managed_alloc,
    .free = managed_free,
    .prefetch = vr_sim_prefetch,
};
