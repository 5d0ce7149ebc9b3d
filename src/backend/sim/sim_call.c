/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_call.c: begin and end of every call of the simulated driver.
 *
 * The order is fixed, because results must be repeatable:
 *  (1) the call is counted and written into the journal;
 *  (2) work that is due completes, whether the call itself will succeed or not;
 *  (3) the protocol is checked, then loss, then the fault plan;
 *  (4) the call is made, as if all of it happened at its beginning, so that its cost cannot hide
 *      that work was still running; what it submits starts at its end;
 *  (5) the clock advances by its cost, and its code is stored.
 */
#include "backend/sim/sim_backend.h"
#include "backend/sim/sim_config.h"

#include "base/error.h"
#include "base/log.h"
#include "base/size.h"
#include "base/text.h"

/* -------------------------------------------------------------------- entering */

/* Rule (1). */
static void call_count(struct vr_sim_call *call, uint64_t bytes) {
    struct vr_sim *sim = call->sim;
    call->number = ++sim->calls;
    sim->ticks++;
    call->gpu->calls++;
    if (sim->config.journal) {
        sim->journal[call->number % sim->config.journal] =
            (struct vram_sim_entry){.number = call->number,
                                    .clock_ns = sim->clock_ns,
                                    .device = call->gpu->index,
                                    .call = call->kind,
                                    .addr = call->addr,
                                    .bytes = bytes};
    }
    call->cost_ns = vr_sim_call_ns(sim->config.profile, call->kind, bytes);
}

static void call_enter(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                       uint64_t addr) {
    struct vr_sim_device *owner = device->impl;
    struct vr_sim *sim = owner ? owner->sim : device->backend->impl;
    call->sim = sim;
    call->device = owner;
    call->gpu = &sim->gpus[device->index];
    call->kind = kind;
    call->number = 0;
    call->cost_ns = 0;
    call->addr = addr;
    call->code = VRAM_SIM_SUCCESS;
    call->status = VRAM_OK;
    call->planned = false;
    call->lie = VRAM_SIM_LIE_NONE;
    call->text[0] = call->log_text[0] = 0;
    vr_mutex_lock(&sim->lock);
}

static bool loss_is_due(const struct vr_sim_call *call) {
    const struct vr_sim_config *config = &call->sim->config;
    return config->lose && call->gpu->calls >= config->lose &&
           (config->lose_device == VR_SIM_DEVICES_MAX || config->lose_device == call->gpu->index);
}

bool vr_sim_begin(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                  uint64_t addr, uint64_t bytes) {
    unsigned held = vr_locks_held();
    call_enter(call, device, kind, addr);
    call_count(call, bytes);
    bool lost_now = loss_is_due(call);
    vr_sim_advance(call->sim); /* (2) */
    if (held) {
        return vr_sim_violation(call, "called with %u locks of the library held", held);
    }
    if (call->sim->stopped) {
        call->code = VRAM_SIM_DEINITIALIZED;
        return vr_sim_violation(call, "called after the backend was stopped");
    }
    if (lost_now && !call->gpu->lost) {
        vr_sim_gpu_lose(call->sim, call->gpu, "lose= planned it");
    }
    if (call->gpu->lost) {
        return vr_sim_lost_result(call);
    }
    return !vr_sim_fault_inject(call);
}

bool vr_sim_begin_lost(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                       uint64_t addr, uint64_t bytes) {
    bool going = true;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        call_enter(call, device, kind, addr);
        vr_sim_gpu_lose(call->sim, call->gpu, "src/device counts it as lost");
    } else {
        going = vr_sim_begin(call, device, kind, addr, bytes);
    }
    /* Work of other devices may still use memory of a lost one; and after a signal or a poll has
       failed, the library cannot know what is complete. In both cases the driver waits instead. */
    if (call->number == 0 || call->sim->refused) {
        vr_sim_finish_all(call->sim);
    }
    return going;
}

/* --------------------------------------------------------------------- leaving */

/* Writes to the log, which calls code of the user: no lock is held, and the error record is
   restored. */
static void call_log(const struct vr_sim_call *call) {
    vram_error before;
    vr_error_save(&before);
    vr_log(call->log_level, "simulated driver: %s", call->log_text);
    vr_error_restore(&before);
}

static void call_leave(struct vr_sim_call *call) {
    struct vr_sim *sim = call->sim;
    if (!vr_add(sim->clock_ns, call->cost_ns, &sim->clock_ns)) {
        sim->clock_ns = UINT64_MAX;
    }
    if (call->number && sim->config.journal) {
        struct vram_sim_entry *entry = &sim->journal[call->number % sim->config.journal];
        if (entry->number == call->number) {
            entry->addr = call->addr;
            entry->code = call->code;
        }
    }
    bool answered = call->code == VRAM_SIM_SUCCESS ||
                    (call->kind == VRAM_SIM_POLL && call->code == VRAM_SIM_NOT_READY);
    if ((call->kind == VRAM_SIM_SIGNAL || call->kind == VRAM_SIM_POLL) &&
        (!answered || call->planned)) {
        sim->refused = true;
    }
    vr_mutex_unlock(&sim->lock);
    if (call->log_text[0]) {
        call_log(call);
    }
}

vram_status vr_sim_end(struct vr_sim_call *call) {
    call_leave(call);
    if (call->status != VRAM_OK || call->code == VRAM_SIM_SUCCESS) {
        return call->status;
    }
    vram_status status = vr_sim_status_of(call->code);
    if (call->kind == VRAM_SIM_POLL && status == VRAM_ERR_NOT_READY) {
        return status;
    }
    return vr_error_set(status, "sim", vr_sim_call_name(call->kind), call->code,
                        "simulated device %u: %s answered %s%s%s%s", call->gpu->index,
                        vr_sim_call_name(call->kind), vr_sim_code_text(call->code),
                        call->planned ? ", as planned" : "", call->text[0] ? ": " : "", call->text);
}

void vr_sim_end_void(struct vr_sim_call *call) {
    if (call->code != VRAM_SIM_SUCCESS && !call->log_text[0]) {
        call->log_level = VRAM_LOG_WARN;
        vr_text_format(call->log_text, sizeof call->log_text,
                       "%s answered %s; it is done all the same", vr_sim_call_name(call->kind),
                       vr_sim_code_text(call->code));
    }
    call_leave(call);
}

/* --------------------------------------------------------------------- failing */

bool vr_sim_refuse(struct vr_sim_call *call, int32_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(call->text, sizeof call->text, format, arguments);
    va_end(arguments);
    call->code = code;
    return false;
}

bool vr_sim_system(struct vr_sim_call *call, vram_status status) {
    if (status != VRAM_OK) {
        call->status = status;
        call->code = VRAM_SIM_HOST_MEMORY;
    }
    return status == VRAM_OK;
}

bool vr_sim_violation(struct vr_sim_call *call, const char *format, ...) {
    struct vr_sim *sim = call->sim;
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(call->text, sizeof call->text, format, arguments);
    va_end(arguments);
    char text[VR_SIM_TEXT_MAX];
    vr_text_format(text, sizeof text, "call %llu, device %u, %s: %s",
                   (unsigned long long)sim->calls, call->gpu->index, vr_sim_call_name(call->kind),
                   call->text);
    if (sim->violations < VR_SIM_TEXTS_MAX) {
        vr_text_copy(sim->texts[sim->violations], VR_SIM_TEXT_MAX, text);
    }
    sim->violations++;
    if (!call->log_text[0]) {
        call->log_level = VRAM_LOG_ERROR;
        vr_text_format(call->log_text, sizeof call->log_text, "protocol: %s", text);
    }
    if (call->code == VRAM_SIM_SUCCESS) {
        call->code = VRAM_SIM_INVALID_VALUE;
    }
    return false;
}
