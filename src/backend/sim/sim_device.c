/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_device.c: opening and closing devices. Two handles on one device share its memory and its
 * loss, and nothing else. Closing checks that the library has released everything.
 */
#include "backend/sim/sim_backend.h"

#include "base/memory.h"
#include "base/os/os.h"

/* --------------------------------------------------------------------- opening */

/* The file of all contents, created when the first device is opened. */
static bool file_make(struct vr_sim_call *call) {
    struct vr_sim *sim = call->sim;
    return sim->file >= 0 || vr_sim_system(call, vr_os_file_create("vram-sim", &sim->file));
}

static struct vr_sim_device *device_make(struct vr_sim_call *call) {
    struct vr_sim_device *owner = vr_mem_alloc(1, sizeof *owner, "device_open");
    if (!owner) {
        vr_sim_system(call, VRAM_ERR_HOST_MEMORY);
        return NULL;
    }
    owner->sim = call->sim;
    owner->gpu = call->gpu;
    vr_list_init(&owner->blocks);
    vr_list_init(&owner->queues);
    vr_list_init(&owner->kernels);
    vr_list_init(&owner->words);
    vr_list_init(&owner->registered);
    call->sim->devices_open++;
    call->sim->live_handles++;
    return owner;
}

vram_status vr_sim_device_open(struct vr_device *device) {
    struct vr_sim_call call;
    device->impl = NULL;
    if (!vr_sim_begin(&call, device, VRAM_SIM_DEVICE_OPEN, device->index, 0) || !file_make(&call)) {
        return vr_sim_end(&call);
    }
    const struct vr_sim_config *config = &call.sim->config;
    device->impl = device_make(&call);
    if (device->impl) {
        device->ops = &vr_sim_device_ops;
        device->queue_ops = &vr_sim_queue_ops;
        device->pinned = &vr_sim_pinned_ops;
        device->managed = &vr_sim_managed_ops;
        device->vmm = config->vmm ? &vr_sim_vmm_ops : NULL;
        device->share = config->vmm ? &vr_sim_share_ops : NULL;
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

/* Not a call of the driver: this information comes from elsewhere. */
vram_status vr_sim_memory_others(struct vr_device *device, vram_value *bytes) {
    struct vr_sim_device *owner = device->impl;
    vr_mutex_lock(&owner->sim->lock);
    bool known = owner->sim->config.info;
    *bytes = (vram_value){known ? owner->sim->gpus[device->index].others : 0, known};
    vr_mutex_unlock(&owner->sim->lock);
    return VRAM_OK;
}

/* ----------------------------------------------------------------------- closing */

/* The kind of a block, in a leak report. A mapping is reported with its handle. */
static const char *block_kind_text(enum vr_sim_kind kind) {
    static const char *const texts[] = {"memory", "pinned memory", "managed memory",
                                        "a reserved range", "a physical handle"};
    return texts[kind];
}

/* If the system refuses to unmap, the record is removed all the same. */
static void mappings_sweep(struct vr_sim_device *owner) {
    struct vr_link *link = vr_list_first(&owner->blocks);
    while (link) {
        struct vr_sim_block *block = VR_CONTAINER(link, struct vr_sim_block, link);
        link = vr_list_next(&owner->blocks, link);
        if (block->kind == VR_SIM_KIND_MAPPING && vr_sim_block_unmap(block) != VRAM_OK) {
            vr_sim_mapping_forget(block);
        }
    }
}

/* Frees all blocks that the library left. A leak is a violation, unless a planned fault prevented
   the free. */
static void blocks_sweep(struct vr_sim_call *call) {
    struct vr_list *blocks = &call->device->blocks;
    struct vr_link *link = vr_list_first(blocks);
    while (link) {
        struct vr_sim_block *block = VR_CONTAINER(link, struct vr_sim_block, link);
        link = vr_list_next(blocks, link);
        if (!block->refused) {
            vr_sim_violation(call, "%s of %llu bytes was never given back",
                             block_kind_text(block->kind), (unsigned long long)block->bytes);
        }
        if (vr_sim_block_end(block) != VRAM_OK) {
            block->pages = NULL; /* the system keeps the pages; the record is removed */
            (void)vr_sim_block_end(block);
        }
    }
}

/* Releases everything that is left, users before what they use. */
static void device_sweep(struct vr_sim_call *call) {
    struct vr_sim_device *owner = call->device;
    struct vr_link *link;
    if (!vr_list_empty(&owner->queues)) {
        vr_sim_finish_all(call->sim);
    }
    while ((link = vr_list_first(&owner->queues))) {
        struct vr_sim_queue *queue = VR_CONTAINER(link, struct vr_sim_queue, link);
        vr_sim_violation(call, "a queue was never destroyed");
        vr_sim_stream_clear(call->sim, queue->stream); /* what could not complete */
        vr_sim_queue_free(queue);
    }
    while ((link = vr_list_first(&owner->kernels))) {
        vr_sim_violation(call, "a kernel was never unloaded");
        vr_sim_kernel_free(VR_CONTAINER(link, struct vr_sim_kernel, link));
    }
    mappings_sweep(owner);
    blocks_sweep(call);
    vr_sim_registered_sweep(call);
}

static void device_free(struct vr_sim_device *owner) {
    struct vr_link *link;
    while ((link = vr_list_first(&owner->words))) {
        vr_link_remove(link);
        vr_mem_free(VR_CONTAINER(link, struct vr_sim_word, link));
    }
    vr_mem_free(owner);
}

/* Done even if a fault applies or the machine was stopped: nobody could try again. */
void vr_sim_device_close(struct vr_device *device) {
    struct vr_sim_device *owner = device->impl;
    struct vr_sim *sim = owner->sim;
    struct vr_sim_call call;
    (void)vr_sim_begin_lost(&call, device, VRAM_SIM_DEVICE_CLOSE, device->index, 0);
    device_sweep(&call);
    sim->devices_open--;
    sim->live_handles--;
    bool last = sim->stopped && sim->devices_open == 0;
    vr_sim_end_void(&call);
    device_free(owner);
    device->impl = NULL;
    if (last) {
        vr_sim_free(sim);
    }
}
