/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_contents.c: the contents of simulated memory.
 *
 * A range of addresses may cover several mapped handles, so everything is done span by span: the
 * part that lies in one block. Blocks that were never written read as zeros without a read, and
 * zeros written to them are not stored: an 80 GB buffer uses only the memory that is written.
 */
#include "backend/sim/sim_backend.h"

#include "base/os/os.h"
#include "base/size.h"

#include <string.h>

bool vr_sim_span_at(struct vr_sim *sim, uint64_t addr, uint64_t bytes, struct vr_sim_span *span) {
    struct vr_sim_block *block = vr_sim_range_at(sim, addr);
    if (block && block->kind == VR_SIM_KIND_RANGE) {
        block = vr_sim_mapping_at(sim, addr);
        if (block && !block->accessible) {
            block = NULL;
        }
    }
    if (!block) {
        return false;
    }
    span->block = block;
    span->at = addr - block->addr;
    uint64_t left = block->bytes - span->at;
    span->bytes = bytes < left ? bytes : left;
    return true;
}

/* Finds the same blocks when work is submitted and when it ends, by rule (3) of sim_backend.h. */
void vr_sim_busy_add(struct vr_sim *sim, uint64_t addr, uint64_t bytes, int change) {
    struct vr_sim_span span;
    for (; bytes && vr_sim_span_at(sim, addr, bytes, &span); bytes -= span.bytes) {
        span.block->busy += (uint32_t)change;
        addr += span.bytes;
    }
}

/* ------------------------------------------------------------------------ spans */

/* The block that has the contents. */
static struct vr_sim_block *span_memory(const struct vr_sim_span *span) {
    return span->block->memory ? span->block->memory : span->block;
}

static bool block_is_host(const struct vr_sim_block *block) {
    return block->kind == VR_SIM_KIND_PINNED || block->kind == VR_SIM_KIND_MANAGED;
}

int vr_sim_block_file(const struct vr_sim_block *block) {
    return block->shared ? block->file : block->device->sim->file;
}

vram_status vr_sim_file_reach(struct vr_sim *sim, uint64_t offset, uint64_t bytes) {
    if (offset + bytes <= sim->file_bytes) {
        return VRAM_OK;
    }
    vram_status status = vr_os_file_resize(sim->file, offset + bytes);
    if (status == VRAM_OK) {
        sim->file_bytes = offset + bytes;
    }
    return status;
}

/* The first write makes the file long enough for the whole block, so that later reads never reach
   its end, wherever in the block they begin. */
static vram_status span_write(struct vr_sim *sim, const struct vr_sim_span *span,
                              const void *from) {
    struct vr_sim_block *block = span_memory(span);
    if (block_is_host(block)) {
        memcpy((char *)block->pages + span->at, from, span->bytes);
        return VRAM_OK;
    }
    vram_status status =
        block->shared ? VRAM_OK : vr_sim_file_reach(sim, block->offset, block->bytes);
    if (status == VRAM_OK) {
        block->written = true;
        status =
            vr_os_file_write(vr_sim_block_file(block), block->offset + span->at, from, span->bytes);
    }
    return status;
}

static vram_status span_read(const struct vr_sim_span *span, void *to) {
    const struct vr_sim_block *block = span_memory(span);
    if (block_is_host(block)) {
        memcpy(to, (const char *)block->pages + span->at, span->bytes);
        return VRAM_OK;
    }
    if (!block->written) {
        memset(to, 0, span->bytes);
        return VRAM_OK;
    }
    return vr_os_file_read(vr_sim_block_file(block), block->offset + span->at, to, span->bytes);
}

/* Whether it reads as zeros because it was never written. */
static bool span_is_blank(const struct vr_sim_span *span) {
    return !block_is_host(span->block) && !span_memory(span)->written;
}

/* -------------------------------------------------------------------- transfers */

vram_status vr_sim_write(struct vr_sim *sim, uint64_t addr, const void *from, uint64_t bytes) {
    struct vr_sim_span span;
    vram_status status = VRAM_OK;
    const char *at = from;
    while (bytes && status == VRAM_OK && vr_sim_span_at(sim, addr, bytes, &span)) {
        status = span_write(sim, &span, at);
        addr += span.bytes;
        at += span.bytes;
        bytes -= span.bytes;
    }
    return status;
}

vram_status vr_sim_read(struct vr_sim *sim, void *to, uint64_t addr, uint64_t bytes) {
    struct vr_sim_span span;
    vram_status status = VRAM_OK;
    char *at = to;
    while (bytes && status == VRAM_OK && vr_sim_span_at(sim, addr, bytes, &span)) {
        status = span_read(&span, at);
        addr += span.bytes;
        at += span.bytes;
        bytes -= span.bytes;
    }
    return status;
}

/* Between two blank spans nothing is moved; everything else goes through the bounce buffer, piece
   by piece. */
vram_status vr_sim_copy(struct vr_sim *sim, uint64_t to, uint64_t from, uint64_t bytes) {
    struct vr_sim_span target, source;
    vram_status status = VRAM_OK;
    while (bytes && status == VRAM_OK && vr_sim_span_at(sim, to, bytes, &target) &&
           vr_sim_span_at(sim, from, target.bytes, &source)) {
        uint64_t some = source.bytes;
        if (!span_is_blank(&source) || !span_is_blank(&target)) {
            some = some < VR_SIM_BOUNCE ? some : VR_SIM_BOUNCE;
            source.bytes = target.bytes = some;
            status = span_read(&source, sim->bounce);
            if (status == VRAM_OK) {
                status = span_write(sim, &target, sim->bounce);
            }
        }
        to += some;
        from += some;
        bytes -= some;
    }
    return status;
}

/* Repeats the pattern over the first `bytes` of the bounce buffer. */
static void pattern_repeat(struct vr_sim *sim, uint32_t pattern, uint32_t pattern_bytes,
                           uint64_t bytes) {
    uint64_t done = pattern_bytes;
    for (uint32_t i = 0; i < pattern_bytes; i++) {
        sim->bounce[i] = (uint8_t)(pattern >> 8 * i);
    }
    for (uint64_t some; done < bytes; done += some) { /* twice as much each time */
        some = done < bytes - done ? done : bytes - done;
        memcpy(sim->bounce + done, sim->bounce, some);
    }
}

vram_status vr_sim_fill(struct vr_sim *sim, uint64_t to, uint32_t pattern, uint32_t pattern_bytes,
                        uint64_t bytes) {
    struct vr_sim_span span;
    vram_status status = VRAM_OK;
    bool zero = pattern << 8 * (4 - pattern_bytes) == 0;
    pattern_repeat(sim, pattern, pattern_bytes, bytes < VR_SIM_BOUNCE ? bytes : VR_SIM_BOUNCE);
    /* Sizes of blocks and bounce buffer are multiples of 4, so every span begins with the
       pattern. */
    while (bytes && status == VRAM_OK && vr_sim_span_at(sim, to, bytes, &span)) {
        if (!zero || !span_is_blank(&span)) {
            span.bytes = span.bytes < VR_SIM_BOUNCE ? span.bytes : VR_SIM_BOUNCE;
            status = span_write(sim, &span, sim->bounce);
        }
        to += span.bytes;
        bytes -= span.bytes;
    }
    return status;
}
