/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explored_driver.c: see explore_driver.h; and what else the explored sources need of src/device.
 */
#include "explore_driver.h"
#include "explore_scenario.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/device_calls.h"
#include "device/ops.h"

static struct vr_context context = {.wait_ns = 1};
static struct vr_device native_device;
static struct vr_device_object device = {.context = &context};
static vr_atomic_u64 words[2];

struct vr_queue_object driver_queues[2];
struct explored_driver driver;

/* ------------------------------------------------------------------- driver */

/* Keeps point.c (7): once a device waits for a number, no lower one is written. */
vram_status vr_queue_signal(struct vr_queue *queue, uint64_t value) {
    vr_mutex_lock(&driver.lock);
    bool refused = driver.refuses || (driver.refusals > 0 && driver.written >> value & 1);
    bool done = driver.runs && !driver.stuck;
    driver.refusals -= refused && !driver.refuses;
    if (!refused) {
        CHECK(value >= driver.awaited);
        driver.last = value;
        driver.written |= 1u << value;
    }
    vr_mutex_unlock(&driver.lock);
    if (!refused && done) {
        vr_store(queue->word, value, VR_RELEASE);
    }
    return refused ? VRAM_ERR_BACKEND : VRAM_OK;
}

void driver_work(void) {
    vr_mutex_lock(&driver.lock);
    driver.stuck = true;
    vr_mutex_unlock(&driver.lock);
}

vram_status vr_queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    (void)queue;
    (void)other;
    vr_mutex_lock(&driver.lock);
    CHECK(driver.last >= value); /* or the device would wait until the next mark */
    driver.awaited = value;
    vr_mutex_unlock(&driver.lock);
    return VRAM_OK;
}

vram_status vr_queue_poll(struct vr_queue *queue) {
    (void)queue;
    return vr_load(&driver.idle, VR_ACQUIRE) ? VRAM_OK : VRAM_ERR_NOT_READY;
}

vram_status vr_check_lost(const struct vr_device *lost, const char *operation) {
    (void)lost;
    (void)operation;
    return VRAM_OK;
}

/* -------------------------------------------------------------- the library */

vram_status vr_enter(enum vr_kind kind, const void *handle, void **object) {
    *object = vr_handle_pin(kind, handle);
    return *object ? VRAM_OK : VRAM_ERR_STALE;
}

void vr_leave(void *object) {
    vr_handle_unpin(((struct vr_object *)object)->handle);
}

bool vr_submit_begin(struct vr_queue_object *queue) {
    (void)queue;
    return true;
}

void vr_submit_end(struct vr_queue_object *queue) {
    (void)queue;
}

bool vr_queue_is_open(const struct vr_queue_object *queue) {
    (void)queue;
    return true;
}

bool vr_queue_hold(struct vr_queue_object *queue) {
    (void)queue;
    return true;
}

void vr_queue_release(struct vr_queue_object *queue) {
    (void)queue;
}

void vr_native_ref(struct vr_device_object *kept) {
    (void)kept;
}

void *vr_mem_resize(void *memory, size_t count, size_t bytes, const char *operation) {
    (void)memory;
    return vr_mem_alloc(count, bytes, operation);
}

/* A wait without time looks once. The others have as much as they need. */
uint64_t vr_deadline_in(uint64_t ns) {
    return ns;
}

bool vr_deadline_passed(uint64_t deadline) {
    return deadline == 0;
}

uint64_t vr_deadline_left(uint64_t deadline) {
    return deadline;
}

void vr_clock_sleep(uint64_t ns) {
    vr_os_sleep(ns);
}

uint32_t vr_os_processors(void) {
    return 2;
}

/* ------------------------------------------------------------------- set_up */

static void queue_destroy(void *object) {
    (void)object;
}

void driver_queues_make(void) {
    vr_mutex_init(&driver.lock, VR_RANK_DRIVER);
    for (int i = 0; i < 2; i++) {
        struct vr_queue_object *queue = &driver_queues[i];
        queue->base.word = &words[i];
        queue->base.device = &native_device;
        queue->device = &device;
        CHECK(vr_handle_publish(VR_KIND_QUEUE, queue, queue_destroy, &queue->object.handle) ==
              VRAM_OK);
    }
}
