/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_world.h: what the tests of bad moments and bad drivers share.
 *
 * A rig is a context with opened devices. A hook stands in the place of some operations of a
 * device's tables: it runs what a second thread could do meanwhile, or answers what a driver could
 * answer. The simulated driver is the judge: a breach of its protocol that it logs fails the test,
 * as does whatever is left at the end.
 */
#ifndef TEST_DEVICE_WORLD_H
#define TEST_DEVICE_WORLD_H

#include "byte_units.h"
#include "device/objects.h"
#include "device/ops.h"
#include "unit/assert_ok.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdatomic.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

/* A context with a device and a queue, or two of each on simulations with two devices. */
struct rig {
    vram_context *context;
    vram_device *device, *other;
    vram_queue *queue, *other_queue;
};

static inline struct rig rig_make(const char *backend, const char *sim) {
    struct rig rig = {0};
    vram_context_options options = {.size = sizeof options, .backends = backend, .sim = sim};
    assert_ok(vram_context_create(&options, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    if (vram_device_count(rig.context) > 1) {
        assert_ok(vram_device_open(rig.context, 1, &rig.other));
        assert_ok(vram_queue_create(rig.other, NULL, &rig.other_queue));
    }
    return rig;
}

/* "sim:memory=64M" or "host": what TEST(name, world) opens. */
static inline struct rig rig_world(const char *world) {
    size_t bytes = strcspn(world, ":");
    char backend[16] = "";
    assert_true(bytes < sizeof backend);
    memcpy(backend, world, bytes);
    return rig_make(backend, world[bytes] == ':' ? world + bytes + 1 : NULL);
}

/* The simulated driver saw no breach so far. */
static inline void expect_protocol(struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    char text[200] = "";
    assert_ok(vram_sim_state_get(rig->context, &state));
    vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(state.violations, 0);
}

static inline vram_sim_state sim_state(struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state;
}

static inline void expect_no_record(void) {
    assert_string_equal(vram_error_get()->text, "");
    assert_int_equal(vram_error_get()->status, VRAM_OK);
}

/* Nothing is held by the simulated driver, no breach was seen. */
static inline void rig_end_clean(struct rig *rig) {
    vram_device_close(rig->device);
    vram_device_close(rig->other);
    expect_protocol(rig);
    assert_int_equal(sim_state(rig).live_bytes, 0);
    assert_int_equal(sim_state(rig).live_handles, 0);
    vram_context_destroy(rig->context);
}

static inline void fault(struct rig *rig, vram_sim_call call, uint64_t nth, bool for_ever,
                         int32_t code) {
    vram_sim_fault plan = {
        .size = sizeof plan, .call = call, .nth = nth, .for_ever = for_ever, .code = code};
    assert_ok(vram_sim_fault_set(rig->context, &plan));
}

/* Errors of the library and breaches of the simulated driver's protocol, also those that nobody can
   ask for any more because the context is gone. That a device was lost is news, not a complaint. */
static atomic_int complaints;
static uint64_t bytes_before, handles_before,
    locks_before; /* what a test that failed has left is not ours */

static inline void on_log(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    if (!strstr(text, "was lost")) {
        atomic_fetch_add(&complaints, 1);
        print_error("logged: %s\n", text);
    }
}

static inline int start(void) {
    atomic_store(&complaints, 0);
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    vram_error_clear();
    bytes_before = vr_mem_live_bytes();
    handles_before = vr_handle_live(0);
    locks_before = vr_locks_live();
    return 0;
}

static inline int nothing_left(void) {
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    vr_option_reset();
    int64_t bytes = (int64_t)(vr_mem_live_bytes() - bytes_before);
    int64_t handles = (int64_t)(vr_handle_live(0) - handles_before);
    int64_t locks = (int64_t)(vr_locks_live() - locks_before);
    if (bytes || handles || locks || atomic_load(&complaints)) {
        print_error("left: %lld bytes, %lld handles, %lld locks, %d complaints\n", (long long)bytes,
                    (long long)handles, (long long)locks, atomic_load(&complaints));
        return -1;
    }
    return 0;
}

EACH_TEST_ELSE(start, nothing_left)

/* ----------------------------------------------------------------- the hook */

/* What happens inside a hooked call, once. */
typedef void hook_call(void *argument);

/* Tables that replace the device's own. Fields that a hooked call changes are atomic, since a
   second thread may be in one too. */
static struct {
    const struct vr_queue_ops *queue;
    const struct vr_vmm_ops *vmm;
    const struct vr_peer_ops *peer;
    const struct vr_device_ops *ops;
    struct vr_device_ops ops_copy;
    struct vr_queue_ops queue_copy;
    struct vr_vmm_ops vmm_copy;
    struct vr_peer_ops peer_copy;
    _Atomic(hook_call *) meanwhile;        /* inside the next hooked call, ... */
    _Atomic(hook_call *) alloc_meanwhile;  /* ... the next allocation, ... */
    _Atomic(hook_call *) map_meanwhile;    /* ... the next mapping, ... */
    _Atomic(hook_call *) signal_meanwhile; /* ... and the next signal, before it is submitted */
    void *argument;
    _Atomic(vram_status) signal_answer; /* not OK: what signals return */
    atomic_uint signals_left;           /* signals until one is refused; 0: none is */
    atomic_uint refusals;               /* how many are refused then */
    _Atomic(vram_status) release_answer;
    /* Not OK: what polls return; the device makes no progress then. */
    _Atomic(vram_status) poll_answer;
} hook;

static inline void hook_run(_Atomic(hook_call *) *next) {
    hook_call *meanwhile = atomic_exchange(next, NULL);
    if (meanwhile) {
        meanwhile(hook.argument);
    }
}

static inline vram_status hooked_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    hook_run(&hook.alloc_meanwhile);
    return hook.ops->alloc(device, bytes, addr);
}

static inline vram_status hooked_upload(struct vr_queue *queue, vram_addr to, const void *from,
                                        uint64_t bytes) {
    hook_run(&hook.meanwhile);
    return hook.queue->upload(queue, to, from, bytes);
}

static inline vram_status hooked_signal(struct vr_queue *queue, uint64_t value) {
    hook_run(&hook.signal_meanwhile);
    bool refuse = hook.signals_left == 1 && hook.refusals;
    hook.refusals -= refuse;
    hook.signals_left -= hook.signals_left > 1;
    vram_status answer = refuse ? VRAM_ERR_HOST_MEMORY : hook.signal_answer;
    if (answer != VRAM_OK) {
        return vr_error_set(answer, "hook", "signal", 1, "refused");
    }
    return hook.queue->signal(queue, value);
}

static inline vram_status hooked_poll(struct vr_queue *queue) {
    vram_status answer = hook.poll_answer;
    vram_status status = answer != VRAM_OK ? answer : hook.queue->poll(queue);
    hook_run(&hook.meanwhile);
    return status;
}

static inline vram_status hooked_map(struct vr_device *device, vram_addr addr, uint64_t handle,
                                     uint64_t bytes) {
    hook_run(&hook.map_meanwhile);
    return hook.vmm->map(device, addr, handle, bytes);
}

static inline vram_status hooked_unmap(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    hook_run(&hook.meanwhile);
    return hook.vmm->unmap(device, addr, bytes);
}

static inline vram_status hooked_release(struct vr_device *device, uint64_t handle,
                                         uint64_t bytes) {
    vram_status answer = hook.release_answer;
    if (answer != VRAM_OK) {
        return vr_error_set(answer, "hook", "release", 1, "refused");
    }
    return hook.vmm->release(device, handle, bytes);
}

static inline vram_status hooked_peer_copy(struct vr_queue *queue, vram_addr to,
                                           struct vr_device *peer, vram_addr from, uint64_t bytes) {
    hook_run(&hook.meanwhile);
    return hook.peer->copy(queue, to, peer, from, bytes);
}

static inline void hook_set(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    assert_non_null(device);
    memset(&hook, 0, sizeof hook);
    hook.ops = device->base.ops;
    hook.ops_copy = *hook.ops;
    hook.ops_copy.alloc = hooked_alloc;
    device->base.ops = &hook.ops_copy;
    hook.queue = device->base.queue_ops;
    hook.queue_copy = *hook.queue;
    hook.queue_copy.upload = hooked_upload;
    hook.queue_copy.signal = hooked_signal;
    hook.queue_copy.poll = hooked_poll;
    device->base.queue_ops = &hook.queue_copy;
    hook.vmm = device->base.vmm;
    hook.vmm_copy = *hook.vmm;
    hook.vmm_copy.map = hooked_map;
    hook.vmm_copy.unmap = hooked_unmap;
    hook.vmm_copy.release = hooked_release;
    device->base.vmm = &hook.vmm_copy;
    if (device->base.peer) {
        hook.peer = device->base.peer;
        hook.peer_copy = *hook.peer;
        hook.peer_copy.copy = hooked_peer_copy;
        device->base.peer = &hook.peer_copy;
    }
    vr_leave(device);
}

#endif
