/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulation.c: the public calls of vram/sim.h on a context's simulation.
 */
#include "device/objects.h"

#include "base/error.h"

/* The context and its running simulation; VRAM_ERR_UNSUPPORTED if it has none. */
static vram_status enter_sim(vram_context *handle, void **context, struct vr_backend **sim) {
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, context);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_context *entered = *context;
    for (uint32_t i = 0; i < entered->backend_count; i++) {
        if (entered->backends[i].started && entered->backends[i].base.ops->sim) {
            *sim = &entered->backends[i].base;
            return VRAM_OK;
        }
    }
    vr_leave(entered);
    return vr_fail(VRAM_ERR_UNSUPPORTED, "this context has no simulated devices");
}

vram_status vram_sim_fault_set(vram_context *handle, const vram_sim_fault *fault) {
    VR_CALL;
    struct vram_sim_fault taken;
    struct vr_backend *sim;
    void *context;
    vram_status status = enter_sim(handle, &context, &sim);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, fault);
    if (status == VRAM_OK && fault &&
        ((unsigned)taken.call >= VRAM_SIM_CALL_COUNT || taken.nth == 0 ||
         (unsigned)taken.lie > VRAM_SIM_LIE_OVERLAP || (taken.code == 0) != (taken.lie != 0))) {
        status = vr_fail(VRAM_ERR_INVALID,
                         "a fault needs a known call, nth >= 1, and either a code or a lie");
    }
    if (status == VRAM_OK) {
        status = sim->ops->sim->fault(sim, fault ? &taken : NULL);
    }
    vr_leave(context);
    return status;
}

vram_status vram_sim_state_get(vram_context *handle, vram_sim_state *state) {
    VR_CALL;
    struct vram_sim_state full = {.size = sizeof full};
    struct vr_backend *sim;
    void *context;
    vram_status status = enter_sim(handle, &context, &sim);
    if (status == VRAM_OK) {
        sim->ops->sim->state(sim, &full);
        status = vr_info_give(state, &full, sizeof full, sizeof full);
        vr_leave(context);
    }
    return status;
}

vram_status vram_sim_clock_advance(vram_context *handle, uint64_t ns) {
    VR_CALL;
    struct vr_backend *sim;
    void *context;
    vram_status status = enter_sim(handle, &context, &sim);
    if (status == VRAM_OK) {
        sim->ops->sim->advance(sim, ns);
        vr_leave(context);
    }
    return status;
}

vram_status vram_sim_others_set(vram_context *handle, uint32_t device, uint64_t bytes) {
    VR_CALL;
    struct vr_backend *sim;
    void *context;
    vram_status status = enter_sim(handle, &context, &sim);
    if (status == VRAM_OK) {
        status = sim->ops->sim->others(sim, device, bytes);
        vr_leave(context);
    }
    return status;
}

vram_status vram_sim_journal_get(vram_context *handle, uint64_t back, vram_sim_entry *entry) {
    VR_CALL;
    struct vr_backend *sim;
    void *context;
    if (!entry) {
        return vr_fail(VRAM_ERR_INVALID, "the entry to fill is NULL");
    }
    vram_status status = enter_sim(handle, &context, &sim);
    if (status == VRAM_OK) {
        status = sim->ops->sim->journal(sim, back, entry);
        vr_leave(context);
    }
    return status;
}

vram_status vram_sim_violation(vram_context *handle, uint64_t index, char *text,
                               size_t text_bytes) {
    VR_CALL;
    struct vr_backend *sim;
    void *context;
    if (!text || text_bytes == 0) {
        return vr_fail(VRAM_ERR_INVALID, "the buffer for the text is NULL or empty");
    }
    vram_status status = enter_sim(handle, &context, &sim);
    if (status == VRAM_OK) {
        status = sim->ops->sim->violation(sim, index, text, text_bytes);
        vr_leave(context);
    }
    return status;
}
