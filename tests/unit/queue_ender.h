/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_ender.h: destroys a queue on a second thread from inside a driver's copy, so that the end
 * of the queue meets a call of the library at the same place every time.
 */
#ifndef TEST_QUEUE_ENDER_H
#define TEST_QUEUE_ENDER_H

#include "unit/device_world.h"

#include <pthread.h>
#include <unistd.h>

enum queue_ender_when { BEFORE_COPY, AFTER_COPY };

static struct {
    const struct vr_queue_ops *plain; /* the driver's own */
    struct vr_queue_ops hooked;
    enum queue_ender_when when;  /* relative to the driver's copy */
    _Atomic(vram_queue *) queue; /* destroyed by the next copy; NULL: none */
    pthread_t thread;
} ender;

static inline void *queue_destroy_thread(void *queue) {
    vram_queue_destroy(queue);
    return NULL;
}

/* Begins to destroy the queue on a thread and returns when it takes no more calls. */
static inline void queue_destroy_begin(vram_queue *handle, pthread_t *thread) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
    assert_non_null(queue);
    assert_int_equal(pthread_create(thread, NULL, queue_destroy_thread, handle), 0);
    while (vr_queue_is_open(queue)) {
        usleep(100);
    }
    vr_leave(queue);
}

/* The queue cannot end before the call that is in the driver now. */
static inline void ender_begin(enum queue_ender_when when) {
    vram_queue *queue = ender.when == when ? atomic_exchange(&ender.queue, NULL) : NULL;
    if (queue) {
        queue_destroy_begin(queue, &ender.thread);
    }
}

static inline vram_status ender_upload(struct vr_queue *queue, vram_addr to, const void *from,
                                       uint64_t bytes) {
    ender_begin(BEFORE_COPY);
    vram_status status = ender.plain->upload(queue, to, from, bytes);
    ender_begin(AFTER_COPY);
    return status;
}

static inline vram_status ender_download(struct vr_queue *queue, void *to, vram_addr from,
                                         uint64_t bytes) {
    ender_begin(BEFORE_COPY);
    vram_status status = ender.plain->download(queue, to, from, bytes);
    ender_begin(AFTER_COPY);
    return status;
}

static inline vram_status ender_copy(struct vr_queue *queue, vram_addr to, vram_addr from,
                                     uint64_t bytes) {
    ender_begin(BEFORE_COPY);
    vram_status status = ender.plain->copy(queue, to, from, bytes);
    ender_begin(AFTER_COPY);
    return status;
}

/* The next copy of the device destroys `queue`, which may be another device's. */
static inline void ender_set(vram_device *handle, vram_queue *queue, enum queue_ender_when when) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    assert_non_null(device);
    ender.plain = device->base.queue_ops;
    ender.hooked = *ender.plain;
    ender.hooked.upload = ender_upload;
    ender.hooked.download = ender_download;
    ender.hooked.copy = ender_copy;
    ender.when = when;
    ender.queue = queue;
    device->base.queue_ops = &ender.hooked;
    vr_leave(device);
}

/* There was such a copy, and the queue is gone now. */
static inline void ender_join(void) {
    assert_null(ender.queue);
    assert_int_equal(pthread_join(ender.thread, NULL), 0);
}

#endif
