/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_fault.c: planned faults and lies, lost devices, and what the simulation tells about itself.
 *
 * There is one plan at a time. A code strikes before the call does anything; a lie strikes calls
 * that answer with an address, which then do nothing either: what they claim to have given was
 * never taken, so a library that notices the lie has nothing to give back.
 */
#include "backend/sim/sim_machine.h"

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

#include <string.h>

/* ----------------------------------------------------------------------- codes */

static const struct {
    int32_t code;
    const char *text;
    vram_status status;
} codes[] = {
#define ROW(NAME, name, status) {VRAM_SIM_##NAME, name, status},
    VR_SIM_CODE_MAP(ROW)
#undef ROW
};

enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

vram_status vr_sim_status_of(int32_t code) {
    for (unsigned i = 0; i < CODE_COUNT; i++) {
        if (codes[i].code == code) {
            return codes[i].status;
        }
    }
    return VRAM_ERR_BACKEND;
}

const char *vr_sim_code_text(int32_t code) {
    for (unsigned i = 0; i < CODE_COUNT; i++) {
        if (codes[i].code == code) {
            return codes[i].text;
        }
    }
    return "an unknown code";
}

/* ------------------------------------------------------------------------ lies */

/* The address or handle of something that is in use; 0 when nothing is. */
static uint64_t in_use(const struct vr_sim_call *call) {
    const struct vr_list *blocks = &call->open->blocks;
    for (struct vr_link *link = vr_list_first(blocks); link; link = vr_list_next(blocks, link)) {
        const struct vr_sim_block *block = VR_CONTAINER(link, struct vr_sim_block, link);
        bool is_handle = block->kind == VR_SIM_KIND_PHYSICAL;
        if (is_handle == (call->kind == VRAM_SIM_CREATE)) {
            return is_handle ? block->ticket : block->addr;
        }
    }
    return 0;
}

/* Remembers a wrong address, over the oldest: giving it back is no breach. */
static void remember_lie(struct vr_sim_open *open, uint64_t addr) {
    memmove(&open->lies[1], &open->lies[0], sizeof open->lies - sizeof open->lies[0]);
    open->lies[0] = addr;
}

bool vr_sim_lied(struct vr_sim_open *open, uint64_t addr) {
    for (unsigned i = 0; addr && i < VR_SIM_LIES_MAX; i++) {
        if (open->lies[i] == addr) {
            open->lies[i] = 0;
            return true;
        }
    }
    return false;
}

/* Whether there is such a lie to tell here. */
static bool lie(struct vr_sim_call *call, vram_sim_lie kind) {
    call->lie_addr = 0;
    if (kind == VRAM_SIM_LIE_OVERLAP) {
        call->lie_addr = in_use(call);
    } else if (kind == VRAM_SIM_LIE_MISALIGNED && call->kind != VRAM_SIM_CREATE) {
        /* Behind all synthetic addresses, so that it overlaps nothing. */
        call->lie_addr = UINT64_C(0x5b10000000000000) + call->number * 65536 + 256;
        remember_lie(call->open, call->lie_addr);
    }
    if (kind != VRAM_SIM_LIE_NULL && call->lie_addr == 0) {
        return false;
    }
    call->lie = kind;
    call->addr = call->lie_addr;
    return true;
}

/* ---------------------------------------------------------------------- striking */

/* Whether a call is one of those that the plan counts. A lie counts only calls that can lie, so
   that "the third of any" is the third that could strike. */
static bool plan_means(const struct vram_sim_fault *plan, vram_sim_call call) {
    if (plan->lie && !vr_sim_call_can_lie(call)) {
        return false;
    }
    return plan->nth && (plan->call == VRAM_SIM_ANY || plan->call == call);
}

bool vr_sim_strike(struct vr_sim_call *call) {
    struct vr_sim *sim = call->sim;
    const struct vram_sim_fault *plan = &sim->plan;
    if (!plan_means(plan, call->kind)) {
        return false;
    }
    sim->plan_seen++;
    if (sim->plan_seen < plan->nth || (sim->plan_seen > plan->nth && !plan->for_ever)) {
        return false;
    }
    if (plan->lie) {
        sim->faults += lie(call, plan->lie);
        return false; /* a lying call succeeds */
    }
    sim->faults++;
    call->planned = true;
    call->code = plan->code;
    if (plan->code == VRAM_SIM_DEVICE_LOST) {
        vr_sim_lose(sim, call->gpu, "a fault planned it");
        return !vr_sim_lost_answer(call);
    }
    return true;
}

/* -------------------------------------------------------------------------- loss */

/* Nothing can be done on the device any more, and nothing that was begun will end. Its blocks stay:
   they are the library's to give back, without a call. */
void vr_sim_lose(struct vr_sim *sim, struct vr_sim_gpu *gpu, const char *why) {
    if (gpu->lost) {
        return;
    }
    gpu->lost = true;
    vr_text_format(gpu->lost_text, sizeof gpu->lost_text, "lost at call %llu: %s",
                   (unsigned long long)sim->calls, why);
    struct vr_link *link = vr_list_first(&sim->streams);
    while (link) {
        struct vr_sim_stream *stream = VR_CONTAINER(link, struct vr_sim_stream, link);
        link = vr_list_next(&sim->streams, link);
        if (stream->gpu == gpu) {
            vr_sim_vanish(sim, stream);
        }
    }
}

/* A thread that was told once has set vr_device.lost, so its next call is a breach. Another thread
   may have looked at that flag just before it was set: it is told once, too. Threads are known by
   the address of their error record. */
static bool was_told(struct vr_sim_open *open) {
    const void *thread = vr_error_get();
    for (unsigned i = 0; i < VR_SIM_THREADS_MAX; i++) {
        if (open->told[i] == thread) {
            return true;
        }
        if (!open->told[i]) {
            open->told[i] = thread;
            return false;
        }
    }
    return false;
}

/* Whether the caller sees the answer at all. */
static bool answers(const struct vr_sim_call *call) {
    return call->open && call->kind != VRAM_SIM_QUEUE_DESTROY &&
           call->kind != VRAM_SIM_KERNEL_UNLOAD && call->kind != VRAM_SIM_DEVICE_CLOSE;
}

bool vr_sim_lost_answer(struct vr_sim_call *call) {
    call->code = VRAM_SIM_DEVICE_LOST;
    if (answers(call) && was_told(call->open)) {
        return vr_sim_breach(call, "called on a device known to be lost");
    }
    return vr_sim_refuse(call, VRAM_SIM_DEVICE_LOST, "%s", call->gpu->lost_text);
}

/* ---------------------------------------------------------------------- control */

static vram_status plan_fault(struct vr_backend *backend, const struct vram_sim_fault *fault) {
    struct vr_sim *sim = backend->impl;
    struct vram_sim_fault plan = {0};
    if (fault) {
        vram_status status = vr_sim_fault_check(fault);
        if (status != VRAM_OK) {
            return status;
        }
        plan = *fault;
    }
    vr_mutex_lock(&sim->lock);
    sim->plan = plan;
    sim->plan_seen = 0;
    vr_mutex_unlock(&sim->lock);
    return VRAM_OK;
}

static void read_state(struct vr_backend *backend, struct vram_sim_state *state) {
    struct vr_sim *sim = backend->impl;
    vr_mutex_lock(&sim->lock);
    state->calls = sim->calls;
    state->faults = sim->faults;
    state->violations = sim->violations;
    state->live_bytes = sim->live_bytes;
    state->live_handles = sim->live_handles;
    state->clock_ns = sim->clock_ns;
    vr_mutex_unlock(&sim->lock);
}

/* Counts as a call for work that was submitted by the last one: it may be done now, in its turn. */
static void pass_time(struct vr_backend *backend, uint64_t ns) {
    struct vr_sim *sim = backend->impl;
    vr_mutex_lock(&sim->lock);
    sim->ticks++;
    if (!vr_add(sim->clock_ns, ns, &sim->clock_ns)) {
        sim->clock_ns = UINT64_MAX;
    }
    vr_sim_advance(sim);
    vr_mutex_unlock(&sim->lock);
}

static vram_status read_journal(struct vr_backend *backend, uint64_t back,
                                struct vram_sim_entry *entry) {
    struct vr_sim *sim = backend->impl;
    vr_mutex_lock(&sim->lock);
    bool remembered = back < sim->calls && back < sim->config.journal;
    if (remembered) {
        *entry = sim->journal[(sim->calls - back) % sim->config.journal];
    }
    vr_mutex_unlock(&sim->lock);
    return remembered
               ? VRAM_OK
               : vr_fail_in(VRAM_ERR_INVALID, "vram_sim_journal_get",
                            "the journal has no call that long ago; journal=N makes it longer");
}

static vram_status read_violation(struct vr_backend *backend, uint64_t index, char *text,
                                  size_t text_bytes) {
    struct vr_sim *sim = backend->impl;
    vr_mutex_lock(&sim->lock);
    bool kept = index < sim->violations && index < VR_SIM_TEXTS_MAX;
    if (kept) {
        vr_text_copy(text, text_bytes, sim->texts[index]);
    }
    vr_mutex_unlock(&sim->lock);
    return kept ? VRAM_OK
                : vr_fail_in(VRAM_ERR_INVALID, "vram_sim_violation", "no violation %llu was kept",
                             (unsigned long long)index);
}

static vram_status set_others(struct vr_backend *backend, uint32_t device, uint64_t bytes) {
    static const char operation[] = "vram_sim_others_set";
    struct vr_sim *sim = backend->impl;
    if (device >= sim->config.devices) {
        return vr_fail_in(VRAM_ERR_NO_DEVICE, operation,
                          "there are %u simulated devices, no number %u", sim->config.devices,
                          device);
    }
    if (bytes > sim->config.memory_bytes) {
        return vr_fail_in(VRAM_ERR_INVALID, operation, "%llu bytes are more than the device's %llu",
                          (unsigned long long)bytes, (unsigned long long)sim->config.memory_bytes);
    }
    vr_mutex_lock(&sim->lock);
    sim->gpus[device].others = bytes;
    vr_mutex_unlock(&sim->lock);
    return VRAM_OK;
}

const struct vr_sim_ops vr_sim_control_ops = {
    .fault = plan_fault,
    .state = read_state,
    .advance = pass_time,
    .journal = read_journal,
    .violation = read_violation,
    .others = set_others,
};
