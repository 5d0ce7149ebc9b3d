/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_call.c: the door of the simulated driver. Every operation enters by vr_sim_begin and leaves
 * by vr_sim_end, whatever it does in between.
 *
 * The order inside the door is fixed, since results must repeat:
 *  (1) the call is counted and written into the journal;
 *  (2) work that is due finishes, whether the call itself will succeed or not: a device does not
 *      stop because the host asked something silly;
 *  (3) the protocol is checked, then loss, then the fault plan;
 *  (4) the call is made, as if all of it happened at its beginning, so that its price cannot hide
 *      that work was still under way; what it submits starts at its end;
 *  (5) the clock moves by its price, and its code is written down.
 */
#include "backend/sim/sim_config.h"
#include "backend/sim/sim_machine.h"

#include "base/error.h"
#include "base/log.h"
#include "base/size.h"
#include "base/text.h"

/* -------------------------------------------------------------------- entering */

/* Rule (1). */
static void count(struct vr_sim_call *call, uint64_t bytes) {
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

static void enter(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                  uint64_t addr) {
    struct vr_sim_open *open = device->impl;
    struct vr_sim *sim = open ? open->sim : device->backend->impl;
    call->sim = sim;
    call->open = open;
    call->gpu = &sim->gpus[device->index];
    call->kind = kind;
    call->number = 0;
    call->cost_ns = 0;
    call->addr = addr;
    call->code = VRAM_SIM_SUCCESS;
    call->status = VRAM_OK;
    call->planned = false;
    call->lie = VRAM_SIM_LIE_NONE;
    call->text[0] = call->news[0] = 0;
    vr_mutex_lock(&sim->lock);
}

static bool is_lost_now(const struct vr_sim_call *call) {
    const struct vr_sim_config *config = &call->sim->config;
    return config->lose && call->gpu->calls >= config->lose &&
           (config->lose_device == VR_SIM_DEVICES_MAX || config->lose_device == call->gpu->index);
}

bool vr_sim_begin(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                  uint64_t addr, uint64_t bytes) {
    unsigned held = vr_locks_held();
    enter(call, device, kind, addr);
    count(call, bytes);
    bool lost_now = is_lost_now(call);
    vr_sim_advance(call->sim); /* (2) */
    if (held) {
        return vr_sim_breach(call, "called with %u locks of the library held", held);
    }
    if (call->sim->stopped) {
        call->code = VRAM_SIM_DEINITIALIZED;
        return vr_sim_breach(call, "called after the backend was stopped");
    }
    if (lost_now && !call->gpu->lost) {
        vr_sim_lose(call->sim, call->gpu, "lose= planned it");
    }
    if (call->gpu->lost) {
        return vr_sim_lost_answer(call);
    }
    return !vr_sim_strike(call);
}

bool vr_sim_begin_lost(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                       uint64_t addr, uint64_t bytes) {
    bool going = true;
    if (vr_load(&device->lost, VR_ACQUIRE)) {
        enter(call, device, kind, addr);
        vr_sim_lose(call->sim, call->gpu, "src/device counts it as lost");
    } else {
        going = vr_sim_begin(call, device, kind, addr, bytes);
    }
    /* Work of other devices may still touch memory of a lost one; and after a signal or a poll has
       failed the library cannot know what is done. In both cases the driver waits instead. */
    if (call->number == 0 || call->sim->refused) {
        vr_sim_settle(call->sim);
    }
    return going;
}

/* --------------------------------------------------------------------- leaving */

/* Says what happened to the log, which is the user's code: no lock is held, and the record is as
   before. */
static void tell(const struct vr_sim_call *call) {
    vram_error before;
    vr_error_save(&before);
    vr_log(call->news_level, "simulated driver: %s", call->news);
    vr_error_restore(&before);
}

static void leave(struct vr_sim_call *call) {
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
    if (call->news[0]) {
        tell(call);
    }
}

vram_status vr_sim_end(struct vr_sim_call *call) {
    leave(call);
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
    if (call->code != VRAM_SIM_SUCCESS && !call->news[0]) {
        call->news_level = VRAM_LOG_WARN;
        vr_text_format(call->news, sizeof call->news, "%s answered %s; it is done all the same",
                       vr_sim_call_name(call->kind), vr_sim_code_text(call->code));
    }
    leave(call);
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

bool vr_sim_breach(struct vr_sim_call *call, const char *format, ...) {
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
    if (!call->news[0]) {
        call->news_level = VRAM_LOG_ERROR;
        vr_text_format(call->news, sizeof call->news, "protocol: %s", text);
    }
    if (call->code == VRAM_SIM_SUCCESS) {
        call->code = VRAM_SIM_INVALID_VALUE;
    }
    return false;
}
