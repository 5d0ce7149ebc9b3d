/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_block.c: blocks, which are memory, addresses, or both, and where both come from.
 *
 *   kind       memory of the device   contents          addresses
 *   ALLOC      yes                    vr_sim.file       synthetic, or real pages of the file
 *   PHYSICAL   unless imported        vr_sim.file, or   -
 *                                     one of its own
 *   MAPPING    no                     its physical's    those of its range
 *   RANGE      no                     -                 synthetic, or reserved pages
 *   PINNED     no                     host pages        the pages'
 *   MANAGED    no                     host pages        the pages'
 *
 * Synthetic addresses come in rising order from one counter of the process and are never given to
 * another device, so that an address has one meaning as long as the process lives. One opened
 * device reuses them, the newest first, as real drivers do: a library that removes an address from
 * its tables too late must fail here. There is a gap between two of them, so that a copy beyond the
 * end of its memory finds nothing.
 *
 *     0x5a10'0000'0000'0000 .. 0x5aff'ffff'ffff'ffff
 *
 * These are not addresses of user space: not canonical on x86_64, and on aarch64, which may ignore
 * the top byte, bits 52 to 55 are not all 0 either.
 */
#include "backend/sim/sim_backend.h"
#include "backend/sim/sim_config.h"

#include "base/atomic.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/size_text.h"

#define ADDRESS_FIRST UINT64_C(0x5a10000000000000)
#define ADDRESS_END   UINT64_C(0x5b00000000000000)
#define ADDRESS_GAP   UINT64_C(65536)
#define FILE_END      (UINT64_C(1) << 62)

/* ------------------------------------------------------------------- addresses */

/* New addresses; 0 if the range is used up. */
static uint64_t addresses_new(uint64_t bytes, uint64_t align) {
    static vr_atomic_u64 next = ADDRESS_FIRST;
    uint64_t seen = vr_load(&next, VR_RELAXED), base, end;
    do {
        if (!vr_round_up(seen, align, &base) || !vr_add(base, bytes, &end) ||
            !vr_add(end, ADDRESS_GAP, &end) || end > ADDRESS_END) {
            return 0;
        }
    } while (!vr_cas_weak(&next, &seen, end, VR_RELAXED));
    return base;
}

static uint64_t addresses_take(struct vr_sim_device *owner, uint64_t bytes, uint64_t align) {
    for (uint32_t i = 0; i < VR_SIM_SPARES_MAX; i++) {
        uint32_t slot = (owner->spare_next - 1 - i) % VR_SIM_SPARES_MAX;
        struct vr_sim_spare *spare = &owner->spares[slot];
        if (spare->bytes == bytes && spare->addr % align == 0) {
            uint64_t addr = spare->addr;
            spare->bytes = 0;
            return addr;
        }
    }
    return addresses_new(bytes, align);
}

/* The oldest of too many is never used again. */
static void addresses_give(struct vr_sim_device *owner, uint64_t addr, uint64_t bytes) {
    owner->spares[owner->spare_next++ % VR_SIM_SPARES_MAX] = (struct vr_sim_spare){addr, bytes};
}

/* --------------------------------------------------------------------- looking */

static struct vr_sim_block *map_block_at(const struct vr_sim_map *map, uint64_t addr) {
    struct vr_sim_block *block = vr_sim_map_below(map, addr);
    return block && addr - block->addr < block->bytes ? block : NULL;
}

struct vr_sim_block *vr_sim_range_at(struct vr_sim *sim, uint64_t addr) {
    return map_block_at(&sim->ranges, addr);
}

struct vr_sim_block *vr_sim_mapping_at(struct vr_sim *sim, uint64_t addr) {
    return map_block_at(&sim->mappings, addr);
}

/* ---------------------------------------------------------------------- making */

static bool block_has_memory(const struct vr_sim_block *block) {
    return block->kind == VR_SIM_KIND_ALLOC ||
           (block->kind == VR_SIM_KIND_PHYSICAL && !block->imported);
}

uint64_t vr_sim_free_bytes(const struct vr_sim *sim, const struct vr_sim_gpu *gpu) {
    uint64_t left = sim->config.memory_bytes - gpu->used_bytes;
    return left > gpu->others ? left - gpu->others : 0;
}

/* Takes memory of the device and space for its contents. */
static bool block_take_memory(struct vr_sim_call *call, struct vr_sim_block *block) {
    struct vr_sim *sim = call->sim;
    uint64_t left = vr_sim_free_bytes(sim, call->gpu);
    if (block->bytes > left || block->bytes > FILE_END - sim->file_next) {
        char asked[VRAM_SIZE_TEXT_MAX], room[VRAM_SIZE_TEXT_MAX];
        return vr_sim_refuse(call, VRAM_SIM_OUT_OF_MEMORY, "%s asked, %s free",
                             vr_size_format(block->bytes, asked), vr_size_format(left, room));
    }
    if (sim->config.real &&
        !vr_sim_system(call, vr_sim_file_reach(sim, sim->file_next, block->bytes))) {
        return false;
    }
    block->offset = sim->file_next;
    block->written = sim->config.real; /* the host may write it at any time */
    sim->file_next += block->bytes;
    call->gpu->used_bytes += block->bytes;
    sim->live_bytes += block->bytes;
    return true;
}

/* Takes real addresses: reserved pages and, for plain memory, the file mapped there. */
static bool block_take_pages(struct vr_sim_call *call, struct vr_sim_block *block, uint64_t align) {
    int file = call->sim->file;
    vram_status status = vr_os_pages_reserve(block->bytes, align, &block->pages);
    if (status != VRAM_OK) {
        return vr_sim_system(call, status);
    }
    if (block->kind == VR_SIM_KIND_ALLOC) {
        status = vr_os_file_map(file, block->offset, block->pages, block->bytes);
        if (status == VRAM_OK) {
            status = vr_os_pages_access(block->pages, block->bytes);
        }
        if (status != VRAM_OK) {
            vr_os_pages_free(block->pages, block->bytes);
            block->pages = NULL;
        }
    }
    return vr_sim_system(call, status);
}

/* Undoes block_take_address. */
static vram_status block_give_address(struct vr_sim_block *block) {
    if (block->kind == VR_SIM_KIND_PHYSICAL) {
        vr_sim_handle_give(block->device->sim, block->handle);
    } else if (block->pages) {
        return vr_os_pages_free(block->pages, block->bytes);
    } else if (block->addr) {
        addresses_give(block->device, block->addr, block->bytes);
    }
    return VRAM_OK;
}

/* Takes a handle, or addresses, which are then in the machine's map. */
static bool block_take_address(struct vr_sim_call *call, struct vr_sim_block *block,
                               uint64_t align) {
    bool taken = true;
    if (block->kind == VR_SIM_KIND_PHYSICAL) {
        block->handle = vr_sim_handle_take(call->sim, VR_SIM_KIND_PHYSICAL, block);
        return vr_sim_system(call, block->handle ? VRAM_OK : VRAM_ERR_HOST_MEMORY);
    }
    if (block->kind == VR_SIM_KIND_PINNED || block->kind == VR_SIM_KIND_MANAGED) {
        taken = vr_sim_system(call, vr_os_pages_alloc(block->bytes, &block->pages));
    } else if (call->sim->config.real) {
        taken = block_take_pages(call, block, align);
    } else {
        block->addr = addresses_take(block->device, block->bytes, align);
        if (!block->addr) {
            taken = vr_sim_refuse(call, VRAM_SIM_OUT_OF_MEMORY, "no addresses are left");
        }
    }
    if (!taken) {
        return false;
    }
    block->addr = block->pages ? (uintptr_t)block->pages : block->addr;
    if (!vr_sim_map_insert(&call->sim->ranges, block->addr, block)) {
        (void)block_give_address(block);
        return vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
    }
    return true;
}

static void block_give_memory(struct vr_sim_block *block) {
    struct vr_sim *sim = block->device->sim;
    if (block->written && !block->shared) {
        /* If this fails, the host's memory stays in use until the simulation ends; the space is
           never reused, so nobody can see the old contents. */
        (void)vr_os_file_punch(sim->file, block->offset, block->bytes);
    }
    block->device->gpu->used_bytes -= block->bytes;
    sim->live_bytes -= block->bytes;
}

static struct vr_sim_block *block_build(struct vr_sim_call *call, enum vr_sim_kind kind,
                                        uint64_t bytes, uint64_t align, bool imported) {
    struct vr_sim_block *block = vr_mem_alloc(1, sizeof *block, vr_sim_call_name(call->kind));
    if (!block) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        return NULL;
    }
    block->device = call->device;
    block->kind = kind;
    block->bytes = bytes;
    block->imported = imported;
    if (block_has_memory(block) && !block_take_memory(call, block)) {
        goto fail;
    }
    if (!block_take_address(call, block, align)) {
        goto fail_memory;
    }
    vr_list_append(&call->device->blocks, &block->link);
    call->sim->live_handles++;
    return block;
fail_memory:
    if (block_has_memory(block)) {
        block->written = false;
        block_give_memory(block);
    }
fail:
    vr_mem_free(block);
    return NULL;
}

struct vr_sim_block *vr_sim_block_make(struct vr_sim_call *call, enum vr_sim_kind kind,
                                       uint64_t bytes, uint64_t align) {
    return block_build(call, kind, bytes, align, false);
}

struct vr_sim_block *vr_sim_block_import(struct vr_sim_call *call, uint64_t bytes, int file) {
    struct vr_sim_block *block = block_build(call, VR_SIM_KIND_PHYSICAL, bytes, 0, true);
    if (block) {
        vr_sim_block_share(block, file);
    }
    return block;
}

void vr_sim_block_share(struct vr_sim_block *block, int file) {
    block->shared = true;
    block->file = file;
    block->offset = 0;
    block->written = true; /* another process may write it at any time */
}

/* ---------------------------------------------------------------------- ending */

struct vr_sim_block *vr_sim_block_map(struct vr_sim_block *memory, struct vr_sim_block *range,
                                      uint64_t addr) {
    struct vr_sim_block *mapping = vr_mem_alloc(1, sizeof *mapping, "map");
    if (!mapping || !vr_sim_map_insert(&memory->device->sim->mappings, addr, mapping)) {
        vr_mem_free(mapping);
        return NULL;
    }
    mapping->device = memory->device;
    mapping->kind = VR_SIM_KIND_MAPPING;
    mapping->addr = addr;
    mapping->bytes = memory->bytes;
    mapping->memory = memory;
    mapping->range = range;
    memory->mappings++;
    range->mappings++;
    vr_list_append(&memory->device->blocks, &mapping->link);
    return mapping;
}

void vr_sim_mapping_forget(struct vr_sim_block *mapping) {
    vr_sim_map_remove(&mapping->device->sim->mappings, mapping->addr);
    mapping->memory->mappings--;
    mapping->range->mappings--;
    vr_link_remove(&mapping->link);
    vr_mem_free(mapping);
}

vram_status vr_sim_block_unmap(struct vr_sim_block *mapping) {
    if (mapping->device->sim->config.real) {
        vram_status status = vr_os_pages_unmap((void *)(uintptr_t)mapping->addr, mapping->bytes);
        if (status != VRAM_OK) {
            return status;
        }
    }
    vr_sim_mapping_forget(mapping);
    return VRAM_OK;
}

vram_status vr_sim_block_end(struct vr_sim_block *block) {
    struct vr_sim *sim = block->device->sim;
    vram_status status = block_give_address(block);
    if (status != VRAM_OK) {
        return status;
    }
    if (block->kind != VR_SIM_KIND_PHYSICAL) {
        vr_sim_map_remove(&sim->ranges, block->addr);
    }
    if (block_has_memory(block)) {
        block_give_memory(block);
    }
    if (block->shared) {
        vr_os_file_close(block->file);
    }
    vr_link_remove(&block->link);
    sim->live_handles--;
    vr_mem_free(block);
    return VRAM_OK;
}
