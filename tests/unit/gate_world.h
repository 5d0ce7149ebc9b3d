/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_world.h: what the tests of work under way share: a kernel on the host that holds its queue
 * up until the test opens it, so that what is behind it is pending for as long as the test likes.
 */
#ifndef TEST_GATE_WORLD_H
#define TEST_GATE_WORLD_H

#include "unit/device_world.h"
#include "vram/async.h"

struct gate {
    vr_atomic_bool entered, open;
};

static inline void pass_gate(const vram_kernel_call *call) {
    struct gate *gate = *(struct gate *const *)call->arguments[0];
    vr_store(&gate->entered, true, VR_RELEASE);
    while (!vr_load(&gate->open, VR_ACQUIRE)) {
        vr_os_sleep(50000);
    }
}

/* Shuts the queue, which a device with kernels in C has. */
static inline void gate_shut(vram_device *device, vram_queue *queue, struct gate *gate) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)pass_gate,
                                 .entry = "gate"};
    const void *const arguments[] = {&gate};
    const size_t bytes = sizeof gate;
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = arguments,
                          .argument_bytes = &bytes};
    vram_kernel *kernel;
    vr_store(&gate->open, false, VR_RELAXED);
    vr_store(&gate->entered, false, VR_RELAXED);
    assert_ok(vram_kernel_create(device, &source, &kernel));
    assert_ok(vram_queue_launch(queue, kernel, &launch));
    while (!vr_load(&gate->entered, VR_ACQUIRE)) {
        vr_os_yield();
    }
}

static inline void gate_open(struct gate *gate) {
    vr_store(&gate->open, true, VR_RELEASE);
}

/* How long the call took, in nanoseconds, must lie between the two. */
#define assert_took(call, least, most)                                                             \
    do {                                                                                           \
        uint64_t began_ = vr_os_now();                                                             \
        call;                                                                                      \
        uint64_t took_ = vr_os_now() - began_;                                                     \
        assert_in_range(took_, least, most);                                                       \
    } while (0)

/* What a callback was told. */
struct told {
    vr_atomic_u32 times;
    vr_atomic_u32 order; /* the value of `next` when it was called */
    vram_status status;
    char text[VRAM_ERROR_TEXT_MAX];
};

static vr_atomic_u32 next_told;

static inline void tell(void *user, vram_status status) {
    struct told *told = user;
    told->status = status;
    memcpy(told->text, vram_error_get()->text, sizeof told->text);
    vr_store(&told->order, vr_fetch_add(&next_told, 1, VR_RELAXED), VR_RELAXED);
    vr_fetch_add(&told->times, 1, VR_RELEASE);
}

static inline uint32_t times(const struct told *told) {
    return vr_load(&told->times, VR_ACQUIRE);
}

static inline vram_async_state state_of(const vram_async *async) {
    vram_async_state found;
    assert_ok(vram_async_state_get(async, &found));
    return found;
}

#endif
