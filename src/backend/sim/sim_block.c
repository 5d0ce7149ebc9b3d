/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_block.c: blocks, which are memory, addresses, or both, and where both come from.
 *
 *   kind       memory of the device   contents          addresses
 *   ALLOC      yes                    vr_sim.file       synthetic, or real pages of the file
 *   PHYSICAL   yes                    vr_sim.file       -
 *   MAPPING    no                     its physical's    those of the range it lies in
 *   RANGE      no                     -                 synthetic, or reserved pages
 *   PINNED     no                     host pages        the pages'
 *   MANAGED    no                     host pages        the pages'
 *
 * Synthetic addresses are taken in rising order from one counter of the process and are never given
 * to another device, so that an address means one thing as long as the process lives. Within one
 * opened device they are used again, the newest first, as real drivers do: a library that forgets
 * an address too late must notice here. Between two of them lies a gap, so that a copy that runs
 * over the end of its memory meets nothing.
 *
 *     0x5a10'0000'0000'0000 .. 0x5aff'ffff'ffff'ffff
 *
 * These are no addresses of user space: not canonical on x86_64, and on aarch64, which may ignore
 * the top byte, bits 52 to 55 are not all 0 either.
 */
#include "backend/sim/sim_config.h"
#include "backend/sim/sim_machine.h"

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

/* Fresh addresses; 0 when the window is used up. */
static uint64_t fresh_addresses(uint64_t bytes, uint64_t align) {
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

static uint64_t take_addresses(struct vr_sim_open *open, uint64_t bytes, uint64_t align) {
    for (uint32_t i = 0; i < VR_SIM_SPARES_MAX; i++) {
        uint32_t slot = (open->spare_next - 1 - i) % VR_SIM_SPARES_MAX;
        struct vr_sim_spare *spare = &open->spares[slot];
        if (spare->bytes == bytes && spare->addr % align == 0) {
            uint64_t addr = spare->addr;
            spare->bytes = 0;
            return addr;
        }
    }
    return fresh_addresses(bytes, align);
}

/* The oldest of too many is forgotten for good. */
static void give_addresses(struct vr_sim_open *open, uint64_t addr, uint64_t bytes) {
    open->spares[open->spare_next++ % VR_SIM_SPARES_MAX] = (struct vr_sim_spare){addr, bytes};
}

/* --------------------------------------------------------------------- looking */

static struct vr_sim_block *block_at(const struct vr_sim_map *map, uint64_t addr) {
    struct vr_sim_block *block = vr_sim_map_below(map, addr);
    return block && addr - block->addr < block->bytes ? block : NULL;
}

struct vr_sim_block *vr_sim_range_at(struct vr_sim *sim, uint64_t addr) {
    return block_at(&sim->ranges, addr);
}

struct vr_sim_block *vr_sim_mapping_at(struct vr_sim *sim, uint64_t addr) {
    return block_at(&sim->mappings, addr);
}

/* ---------------------------------------------------------------------- making */

static bool has_memory(const struct vr_sim_block *block) {
    return block->kind == VR_SIM_KIND_ALLOC || block->kind == VR_SIM_KIND_PHYSICAL;
}

uint64_t vr_sim_free_bytes(const struct vr_sim *sim, const struct vr_sim_gpu *gpu) {
    uint64_t left = sim->config.memory_bytes - gpu->used_bytes;
    return left > gpu->others ? left - gpu->others : 0;
}

/* Memory of the device and a place for its contents. */
static bool take_memory(struct vr_sim_call *call, struct vr_sim_block *block) {
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
    block->written = sim->config.real; /* the host writes as it likes */
    sim->file_next += block->bytes;
    call->gpu->used_bytes += block->bytes;
    sim->live_bytes += block->bytes;
    return true;
}

/* Real addresses: reserved pages and, for plain memory, the file mapped there. */
static bool take_pages(struct vr_sim_call *call, struct vr_sim_block *block, uint64_t align) {
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

/* Gives back what take_place took. */
static vram_status give_place(struct vr_sim_block *block) {
    if (block->kind == VR_SIM_KIND_PHYSICAL) {
        vr_sim_ticket_give(block->open->sim, block->ticket);
    } else if (block->pages) {
        return vr_os_pages_free(block->pages, block->bytes);
    } else if (block->addr) {
        give_addresses(block->open, block->addr, block->bytes);
    }
    return VRAM_OK;
}

/* A handle's number, or addresses, which are then known to the machine. */
static bool take_place(struct vr_sim_call *call, struct vr_sim_block *block, uint64_t align) {
    bool taken = true;
    if (block->kind == VR_SIM_KIND_PHYSICAL) {
        block->ticket = vr_sim_ticket_take(call->sim, VR_SIM_KIND_PHYSICAL, block);
        return vr_sim_system(call, block->ticket ? VRAM_OK : VRAM_ERR_HOST_MEMORY);
    }
    if (block->kind == VR_SIM_KIND_PINNED || block->kind == VR_SIM_KIND_MANAGED) {
        taken = vr_sim_system(call, vr_os_pages_alloc(block->bytes, &block->pages));
    } else if (call->sim->config.real) {
        taken = take_pages(call, block, align);
    } else {
        block->addr = take_addresses(block->open, block->bytes, align);
        if (!block->addr) {
            taken = vr_sim_refuse(call, VRAM_SIM_OUT_OF_MEMORY, "no addresses are left");
        }
    }
    if (!taken) {
        return false;
    }
    block->addr = block->pages ? (uintptr_t)block->pages : block->addr;
    if (!vr_sim_map_insert(&call->sim->ranges, block->addr, block)) {
        (void)give_place(block);
        return vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
    }
    return true;
}

static void give_memory(struct vr_sim_block *block) {
    struct vr_sim *sim = block->open->sim;
    if (block->written) {
        /* Should this fail, the host's memory is held until the simulation ends; the place is never
           used again, so nobody can see the old contents. */
        (void)vr_os_file_punch(sim->file, block->offset, block->bytes);
    }
    block->open->gpu->used_bytes -= block->bytes;
    sim->live_bytes -= block->bytes;
}

struct vr_sim_block *vr_sim_block_make(struct vr_sim_call *call, enum vr_sim_kind kind,
                                       uint64_t bytes, uint64_t align) {
    struct vr_sim_block *block = vr_mem_alloc(1, sizeof *block, vr_sim_call_name(call->kind));
    if (!block) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        return NULL;
    }
    block->open = call->open;
    block->kind = kind;
    block->bytes = bytes;
    if (has_memory(block) && !take_memory(call, block)) {
        goto fail;
    }
    if (!take_place(call, block, align)) {
        goto fail_memory;
    }
    vr_list_append(&call->open->blocks, &block->link);
    call->sim->live_handles++;
    return block;
fail_memory:
    if (has_memory(block)) {
        block->written = false;
        give_memory(block);
    }
fail:
    vr_mem_free(block);
    return NULL;
}

/* ---------------------------------------------------------------------- ending */

struct vr_sim_block *vr_sim_block_map(struct vr_sim_block *memory, struct vr_sim_block *range,
                                      uint64_t addr) {
    struct vr_sim_block *mapping = vr_mem_alloc(1, sizeof *mapping, "map");
    if (!mapping || !vr_sim_map_insert(&memory->open->sim->mappings, addr, mapping)) {
        vr_mem_free(mapping);
        return NULL;
    }
    mapping->open = memory->open;
    mapping->kind = VR_SIM_KIND_MAPPING;
    mapping->addr = addr;
    mapping->bytes = memory->bytes;
    mapping->memory = memory;
    mapping->range = range;
    memory->mappings++;
    range->mappings++;
    vr_list_append(&memory->open->blocks, &mapping->link);
    return mapping;
}

void vr_sim_mapping_forget(struct vr_sim_block *mapping) {
    vr_sim_map_remove(&mapping->open->sim->mappings, mapping->addr);
    mapping->memory->mappings--;
    mapping->range->mappings--;
    vr_link_remove(&mapping->link);
    vr_mem_free(mapping);
}

vram_status vr_sim_block_unmap(struct vr_sim_block *mapping) {
    if (mapping->open->sim->config.real) {
        vram_status status = vr_os_pages_unmap((void *)(uintptr_t)mapping->addr, mapping->bytes);
        if (status != VRAM_OK) {
            return status;
        }
    }
    vr_sim_mapping_forget(mapping);
    return VRAM_OK;
}

vram_status vr_sim_block_end(struct vr_sim_block *block) {
    struct vr_sim *sim = block->open->sim;
    vram_status status = give_place(block);
    if (status != VRAM_OK) {
        return status;
    }
    if (block->kind != VR_SIM_KIND_PHYSICAL) {
        vr_sim_map_remove(&sim->ranges, block->addr);
    }
    if (has_memory(block)) {
        give_memory(block);
    }
    vr_link_remove(&block->link);
    sim->live_handles--;
    vr_mem_free(block);
    return VRAM_OK;
}
