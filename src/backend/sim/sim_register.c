/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_register.c: memory of the program's own that is page-locked where it lies. The simulated
 * driver locks nothing and knows who did: what is registered twice, never registered or left behind
 * is a breach.
 */
#include "backend/sim/sim_machine.h"

#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

struct registered {
    struct vr_link link; /* in vr_sim_open.registered */
    uint64_t addr, bytes;
    bool refused; /* giving it back met a planned fault */
};

static struct registered *find(const struct vr_sim_open *open, uint64_t addr, uint64_t bytes) {
    for (struct vr_link *link = vr_list_first(&open->registered); link;
         link = vr_list_next(&open->registered, link)) {
        struct registered *found = VR_CONTAINER(link, struct registered, link);
        if (vr_overlap(addr, bytes, found->addr, found->bytes)) {
            return found;
        }
    }
    return NULL;
}

vram_status vr_sim_pinned_register(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_sim_call call;
    uint64_t page = vr_os_page_bytes();
    if (!vr_sim_begin(&call, device, VRAM_SIM_PINNED_REGISTER, addr, bytes)) {
        return vr_sim_end(&call);
    }
    if (!bytes || addr % page || bytes % page) {
        vr_sim_breach(&call, "[0x%llx, + %llu) is not made of whole pages",
                      (unsigned long long)addr, (unsigned long long)bytes);
    } else if (find(call.open, addr, bytes)) {
        vr_sim_breach(&call, "0x%llx is registered already", (unsigned long long)addr);
    } else {
        struct registered *fresh = vr_mem_alloc(1, sizeof *fresh, "pinned_register");
        if (vr_sim_system(&call, fresh ? VRAM_OK : VRAM_ERR_HOST_MEMORY)) {
            fresh->addr = addr;
            fresh->bytes = bytes;
            vr_list_append(&call.open->registered, &fresh->link);
            call.sim->live_handles++;
        }
    }
    return vr_sim_end(&call);
}

static void forget(struct vr_sim *sim, struct registered *found) {
    vr_link_remove(&found->link);
    vr_mem_free(found);
    sim->live_handles--;
}

vram_status vr_sim_pinned_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_sim_call call;
    bool going = vr_sim_begin_lost(&call, device, VRAM_SIM_PINNED_UNREGISTER, addr, bytes);
    struct registered *found = find(call.open, addr, 1);
    if (!going && found) {
        found->refused = true;
    } else if (going && (!found || found->addr != addr || found->bytes != bytes)) {
        vr_sim_breach(&call, "[0x%llx, + %llu) was not registered so", (unsigned long long)addr,
                      (unsigned long long)bytes);
    } else if (going) {
        forget(call.sim, found);
    }
    return vr_sim_end(&call);
}

void vr_sim_registered_sweep(struct vr_sim_call *call) {
    struct vr_link *link;
    while ((link = vr_list_first(&call->open->registered))) {
        struct registered *found = VR_CONTAINER(link, struct registered, link);
        if (!found->refused) {
            vr_sim_breach(call, "%llu registered bytes were never unregistered",
                          (unsigned long long)found->bytes);
        }
        forget(call->sim, found);
    }
}
