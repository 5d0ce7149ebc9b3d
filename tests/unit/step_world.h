/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_world.h: what a second thread does between two steps of a call. A step is each of the
 * functions below that the testing thread calls while it holds no lock; the program that includes
 * this is linked with --wrap for them (STEPS in CMakeLists.txt). Before step number `at` the second
 * thread runs, and the testing thread waits until it is done, or until it is clear that it waits
 * for the testing thread.
 */
#ifndef TEST_STEP_WORLD_H
#define TEST_STEP_WORLD_H

#include "device/address.h"
#include "unit/device_world.h"

#include <pthread.h>

enum { STEP_PATIENCE_NS = 3000000 };

typedef void step_fn(void *world);

static struct {
    step_fn *meanwhile;
    void *world;
    uint64_t left; /* steps before it runs; 0: it does not, or has */
    bool ran;
    atomic_bool done;
    pthread_t thread;
} step;
static _Thread_local bool step_counts; /* the testing thread, inside the call */
static _Thread_local unsigned step_locks;

static void *step_run(void *argument) {
    (void)argument;
    step.meanwhile(step.world);
    atomic_store(&step.done, true);
    return NULL;
}

static void step_pass(void) {
    if (!step_counts || step_locks || !step.left || --step.left) {
        return;
    }
    step_counts = false;
    step.ran = true;
    assert_int_equal(pthread_create(&step.thread, NULL, step_run, NULL), 0);
    uint64_t until = vr_os_now() + STEP_PATIENCE_NS;
    while (!atomic_load(&step.done) && vr_os_now() < until) {
        vr_os_sleep(20000);
    }
}

void __real_vr_mutex_lock(struct vr_mutex *mutex);
void __wrap_vr_mutex_lock(struct vr_mutex *mutex);
void __wrap_vr_mutex_lock(struct vr_mutex *mutex) {
    step_pass();
    __real_vr_mutex_lock(mutex);
    step_locks++;
}

bool __real_vr_mutex_try(struct vr_mutex *mutex);
bool __wrap_vr_mutex_try(struct vr_mutex *mutex);
bool __wrap_vr_mutex_try(struct vr_mutex *mutex) {
    step_pass();
    bool locked = __real_vr_mutex_try(mutex);
    step_locks += locked;
    return locked;
}

void __real_vr_mutex_unlock(struct vr_mutex *mutex);
void __wrap_vr_mutex_unlock(struct vr_mutex *mutex);
void __wrap_vr_mutex_unlock(struct vr_mutex *mutex) {
    __real_vr_mutex_unlock(mutex);
    step_locks--;
}

vram_status __real_vr_enter(enum vr_kind kind, const void *handle, void **object);
vram_status __wrap_vr_enter(enum vr_kind kind, const void *handle, void **object);
vram_status __wrap_vr_enter(enum vr_kind kind, const void *handle, void **object) {
    step_pass();
    return __real_vr_enter(kind, handle, object);
}

void *__real_vr_handle_pin(enum vr_kind kind, const void *handle);
void *__wrap_vr_handle_pin(enum vr_kind kind, const void *handle);
void *__wrap_vr_handle_pin(enum vr_kind kind, const void *handle) {
    step_pass();
    return __real_vr_handle_pin(kind, handle);
}

bool __real_vr_handle_retire(uint64_t handle);
bool __wrap_vr_handle_retire(uint64_t handle);
bool __wrap_vr_handle_retire(uint64_t handle) {
    step_pass();
    return __real_vr_handle_retire(handle);
}

vram_status __real_vr_submit_enter(const vram_queue *handle, void **entered);
vram_status __wrap_vr_submit_enter(const vram_queue *handle, void **entered);
vram_status __wrap_vr_submit_enter(const vram_queue *handle, void **entered) {
    step_pass();
    return __real_vr_submit_enter(handle, entered);
}

bool __real_vr_address_find(vram_addr addr, struct vr_address_info *place);
bool __wrap_vr_address_find(vram_addr addr, struct vr_address_info *place);
bool __wrap_vr_address_find(vram_addr addr, struct vr_address_info *place) {
    step_pass();
    return __real_vr_address_find(addr, place);
}

/* Makes `call` while `meanwhile` runs before step number `at`. Whether there was such a step. */
static inline bool step_call(step_fn *call, step_fn *meanwhile, void *world, uint64_t at) {
    step.meanwhile = meanwhile;
    step.world = world;
    step.left = at;
    step.ran = false;
    atomic_store(&step.done, false);
    step_counts = true;
    call(world);
    step_counts = false;
    step.left = 0;
    if (step.ran) {
        assert_int_equal(pthread_join(step.thread, NULL), 0);
    }
    return step.ran;
}

#endif
