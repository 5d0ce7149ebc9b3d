/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_fault.c: planned faults and lies, lost devices, and control of the simulation.
 *
 * There is one plan at a time. A code makes a call fail before it does anything. A lie applies to
 * calls that return an address, which then do nothing either: what they claim to have allocated was
 * never allocated, so a library that notices the lie has nothing to free.
 */
#include "backend/sim/sim_backend.h"

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

#include <string.h>

/* ------------------------------------------------------------------------ lies */

/* The address or handle of something in use; 0 if there is nothing. */
static uint64_t lie_overlapping(const struct vr_sim_call *call) {
    const struct vr_list *blocks = &call->device->blocks;
    for (struct vr_link *link = vr_list_first(blocks); link; link = vr_list_next(blocks, link)) {
        const struct vr_sim_block *block = VR_CONTAINER(link, struct vr_sim_block, link);
        bool is_handle = block->kind == VR_SIM_KIND_PHYSICAL;
        if (is_handle == (call->kind == VRAM_SIM_CREATE)) {
            return is_handle ? block->handle : block->addr;
        }
    }
    return 0;
}

/* Stores a wrong address, over the oldest: freeing it is not a violation. */
static void lie_remember(struct vr_sim_device *owner, uint64_t addr) {
    memmove(&owner->lies[1], &owner->lies[0], sizeof owner->lies - sizeof owner->lies[0]);
    owner->lies[0] = addr;
}

bool vr_sim_lie_take(struct vr_sim_device *owner, uint64_t addr) {
    for (unsigned i = 0; addr && i < VR_SIM_LIES_MAX; i++) {
        if (owner->lies[i] == addr) {
            owner->lies[i] = 0;
            return true;
        }
    }
    return false;
}

/* Applies the lie; false if it is not possible here. */
static bool lie_tell(struct vr_sim_call *call, vram_sim_lie kind) {
    call->lie_addr = 0;
    if (kind == VRAM_SIM_LIE_OVERLAP) {
        call->lie_addr = lie_overlapping(call);
    } else if (kind == VRAM_SIM_LIE_MISALIGNED && call->kind != VRAM_SIM_CREATE) {
        /* Behind all synthetic addresses, so that it overlaps nothing. */
        call->lie_addr = UINT64_C(0x5b10000000000000) + call->number * 65536 + 256;
        lie_remember(call->device, call->lie_addr);
    }
    if (kind != VRAM_SIM_LIE_NULL && call->lie_addr == 0) {
        return false;
    }
    call->lie = kind;
    call->addr = call->lie_addr;
    return true;
}

/* ---------------------------------------------------------------------- striking */

/* Whether the plan counts this call. A lie counts only calls that can lie, so that "the third of
   any" is the third that could. */
static bool plan_counts(const struct vram_sim_fault *plan, vram_sim_call call) {
    if (plan->lie && !vr_sim_call_can_lie(call)) {
        return false;
    }
    return plan->nth && (plan->call == VRAM_SIM_ANY || plan->call == call);
}

bool vr_sim_fault_inject(struct vr_sim_call *call) {
    struct vr_sim *sim = call->sim;
    const struct vram_sim_fault *plan = &sim->plan;
    if (!plan_counts(plan, call->kind)) {
        return false;
    }
    sim->plan_seen++;
    if (sim->plan_seen < plan->nth || (sim->plan_seen > plan->nth && !plan->for_ever)) {
        return false;
    }
    if (plan->lie) {
        sim->faults += lie_tell(call, plan->lie);
        return false; /* a lying call succeeds */
    }
    sim->faults++;
    call->planned = true;
    call->code = plan->code;
    if (plan->code == VRAM_SIM_DEVICE_LOST) {
        vr_sim_gpu_lose(sim, call->gpu, "a fault planned it");
        return !vr_sim_lost_result(call);
    }
    return true;
}

/* -------------------------------------------------------------------------- loss */

/* No work can be submitted to the device any more, and submitted work will not complete. Its blocks
   stay: the library frees them, without a call. */
void vr_sim_gpu_lose(struct vr_sim *sim, struct vr_sim_gpu *gpu, const char *why) {
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
            vr_sim_stream_clear(sim, stream);
        }
    }
}

/* A thread that got the result once has set vr_device.lost, so its next call is a violation.
   Another thread may have read that flag just before it was set: it gets the result once, too.
   Threads are identified by the address of their error record. */
static bool thread_was_told(struct vr_sim_device *owner) {
    const void *thread = vr_error_get();
    for (unsigned i = 0; i < VR_SIM_THREADS_MAX; i++) {
        if (owner->told[i] == thread) {
            return true;
        }
        if (!owner->told[i]) {
            owner->told[i] = thread;
            return false;
        }
    }
    return false;
}

/* Whether the caller gets the result at all. */
static bool call_has_result(const struct vr_sim_call *call) {
    return call->device && call->kind != VRAM_SIM_QUEUE_DESTROY &&
           call->kind != VRAM_SIM_KERNEL_UNLOAD && call->kind != VRAM_SIM_DEVICE_CLOSE;
}

bool vr_sim_lost_result(struct vr_sim_call *call) {
    call->code = VRAM_SIM_DEVICE_LOST;
    if (call_has_result(call) && thread_was_told(call->device)) {
        return vr_sim_violation(call, "called on a device known to be lost");
    }
    return vr_sim_refuse(call, VRAM_SIM_DEVICE_LOST, "%s", call->gpu->lost_text);
}

/* ---------------------------------------------------------------------- control */

static vram_status fault_plan(struct vr_backend *backend, const struct vram_sim_fault *fault) {
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

static void state_read(struct vr_backend *backend, struct vram_sim_state *state) {
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

/* Counts as a call for work that the last call submitted: it may complete now. */
static void time_advance(struct vr_backend *backend, uint64_t ns) {
    struct vr_sim *sim = backend->impl;
    vr_mutex_lock(&sim->lock);
    sim->ticks++;
    if (!vr_add(sim->clock_ns, ns, &sim->clock_ns)) {
        sim->clock_ns = UINT64_MAX;
    }
    vr_sim_advance(sim);
    vr_mutex_unlock(&sim->lock);
}

static vram_status journal_read(struct vr_backend *backend, uint64_t back,
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

static vram_status violation_read(struct vr_backend *backend, uint64_t index, char *text,
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

static vram_status others_set(struct vr_backend *backend, uint32_t device, uint64_t bytes) {
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
    .fault = fault_plan,
    .state = state_read,
    .advance = time_advance,
    .journal = journal_read,
    .violation = violation_read,
    .others = others_set,
};
