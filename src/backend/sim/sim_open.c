/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_open.c: devices from opening to closing. Two openings of one device share its memory and its
 * fate, and nothing else. Closing takes stock: what the library took must have been given back.
 */
#include "backend/sim/sim_machine.h"

#include "base/memory.h"
#include "base/os/os.h"

/* --------------------------------------------------------------------- opening */

/* The file of all contents, made when the first device is opened. */
static bool make_file(struct vr_sim_call *call) {
    struct vr_sim *sim = call->sim;
    return sim->file >= 0 || vr_sim_system(call, vr_os_file_create("vram-sim", &sim->file));
}

static struct vr_sim_open *open_make(struct vr_sim_call *call) {
    struct vr_sim_open *open = vr_mem_alloc(1, sizeof *open, "device_open");
    if (!open) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        return NULL;
    }
    open->sim = call->sim;
    open->gpu = call->gpu;
    vr_list_init(&open->blocks);
    vr_list_init(&open->queues);
    vr_list_init(&open->kernels);
    vr_list_init(&open->words);
    vr_list_init(&open->registered);
    call->sim->opens++;
    call->sim->live_handles++;
    return open;
}

vram_status vr_sim_device_open(struct vr_device *device) {
    struct vr_sim_call call;
    device->impl = NULL;
    if (!vr_sim_begin(&call, device, VRAM_SIM_DEVICE_OPEN, device->index, 0) || !make_file(&call)) {
        return vr_sim_end(&call);
    }
    const struct vr_sim_config *config = &call.sim->config;
    device->impl = open_make(&call);
    if (device->impl) {
        device->ops = &vr_sim_device_ops;
        device->queue_ops = &vr_sim_queue_ops;
        device->pinned = &vr_sim_pinned_ops;
        device->managed = &vr_sim_managed_ops;
        device->vmm = config->vmm ? &vr_sim_vmm_ops : NULL;
        device->peer = config->devices > 1 ? &vr_sim_peer_ops : NULL;
        device->kernel = config->real ? &vr_sim_kernel_ops : NULL;
    }
    return vr_sim_end(&call);
}

vram_status vr_sim_memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    struct vr_sim_call call;
    if (vr_sim_begin(&call, device, VRAM_SIM_MEMORY_INFO, 0, 0)) {
        uint64_t bytes = call.sim->config.memory_bytes;
        *total = (vram_value){bytes, true};
        *free = (vram_value){0};
        if (call.sim->config.info) {
            *free = (vram_value){vr_sim_free_bytes(call.sim, call.gpu), true};
        }
    }
    return vr_sim_end(&call);
}

/* No entry of the driver: who asks after other processes asks somebody beside it. */
vram_status vr_sim_memory_others(struct vr_device *device, vram_value *bytes) {
    struct vr_sim_open *open = device->impl;
    vr_mutex_lock(&open->sim->lock);
    bool known = open->sim->config.info;
    *bytes = (vram_value){known ? open->sim->gpus[device->index].others : 0, known};
    vr_mutex_unlock(&open->sim->lock);
    return VRAM_OK;
}

/* ----------------------------------------------------------------------- closing */

/* What a block is, in a report of a leak; a mapping is its handle's. */
static const char *kind_text(enum vr_sim_kind kind) {
    static const char *const texts[] = {"memory", "pinned memory", "managed memory",
                                        "a reserved range", "a physical handle"};
    return texts[kind];
}

/* What the system refuses to unmap it keeps; our record goes all the same. */
static void sweep_mappings(struct vr_sim_open *open) {
    struct vr_link *link = vr_list_first(&open->blocks);
    while (link) {
        struct vr_sim_block *block = VR_CONTAINER(link, struct vr_sim_block, link);
        link = vr_list_next(&open->blocks, link);
        if (block->kind == VR_SIM_KIND_MAPPING && vr_sim_block_unmap(block) != VRAM_OK) {
            vr_sim_mapping_forget(block);
        }
    }
}

/* Ends all blocks that the library left. A leak is a breach, unless a planned fault kept the
   library from giving it back. */
static void sweep_blocks(struct vr_sim_call *call) {
    struct vr_list *blocks = &call->open->blocks;
    struct vr_link *link = vr_list_first(blocks);
    while (link) {
        struct vr_sim_block *block = VR_CONTAINER(link, struct vr_sim_block, link);
        link = vr_list_next(blocks, link);
        if (!block->refused) {
            vr_sim_breach(call, "%s of %llu bytes was never given back", kind_text(block->kind),
                          (unsigned long long)block->bytes);
        }
        if (vr_sim_block_end(block) != VRAM_OK) {
            block->pages = NULL; /* the system keeps the pages; our record goes all the same */
            (void)vr_sim_block_end(block);
        }
    }
}

/* Everything that is left, users before what they use. */
static void sweep(struct vr_sim_call *call) {
    struct vr_sim_open *open = call->open;
    struct vr_link *link;
    if (!vr_list_empty(&open->queues)) {
        vr_sim_settle(call->sim);
    }
    while ((link = vr_list_first(&open->queues))) {
        struct vr_sim_queue *queue = VR_CONTAINER(link, struct vr_sim_queue, link);
        vr_sim_breach(call, "a queue was never destroyed");
        vr_sim_vanish(call->sim, queue->stream); /* what could not be finished */
        vr_sim_queue_free(queue);
    }
    while ((link = vr_list_first(&open->kernels))) {
        vr_sim_breach(call, "a kernel was never unloaded");
        vr_sim_kernel_free(VR_CONTAINER(link, struct vr_sim_kernel, link));
    }
    sweep_mappings(open);
    sweep_blocks(call);
    vr_sim_registered_sweep(call);
}

static void free_open(struct vr_sim_open *open) {
    struct vr_link *link;
    while ((link = vr_list_first(&open->words))) {
        vr_link_remove(link);
        vr_mem_free(VR_CONTAINER(link, struct vr_sim_word, link));
    }
    vr_mem_free(open);
}

/* Done even when a fault strikes it or the machine was stopped: there is nobody to try again. */
void vr_sim_device_close(struct vr_device *device) {
    struct vr_sim_open *open = device->impl;
    struct vr_sim *sim = open->sim;
    struct vr_sim_call call;
    (void)vr_sim_begin_lost(&call, device, VRAM_SIM_DEVICE_CLOSE, device->index, 0);
    sweep(&call);
    sim->opens--;
    sim->live_handles--;
    bool last = sim->stopped && sim->opens == 0;
    vr_sim_end_void(&call);
    free_open(open);
    device->impl = NULL;
    if (last) {
        vr_sim_free(sim);
    }
}
