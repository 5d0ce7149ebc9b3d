/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smallest_backend.c: what a backend cannot do without, and nothing more.
 *
 * One device with memory from the operating system, queues that do their work inside the call, no
 * optional group. It is the skeleton to begin a backend with: docs/backend-guide.md, step by step.
 * `vram check` passes on it, which proves that the rest is really optional.
 *
 * Work done inside the call is in order, so a signal writes its word at once, and whatever a queue
 * is told to wait for has happened already. Several threads may submit to one queue: a lock lets
 * their work happen one after the other, as a device would.
 */
#include "smallest.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <stdio.h>
#include <string.h>

enum { MEMORY = 64 << 20 };

struct smallest_plan smallest_plan;

/* What hangs on a device. */
struct smallest {
    vr_atomic_u64 used;   /* bytes of MEMORY that are taken */
    struct vr_mutex work; /* one piece of work at a time */
};

/* ------------------------------------------------------------------ backend */

static vram_status start(struct vr_backend *backend, const struct vram_context_options *options) {
    (void)options;
    snprintf(backend->version, sizeof backend->version, "1");
    return VRAM_OK;
}

static void stop(struct vr_backend *backend) {
    (void)backend;
}

static uint32_t count(struct vr_backend *backend) {
    (void)backend;
    return 1;
}

static vram_status describe(struct vr_backend *backend, uint32_t index,
                            struct vram_device_info *info) {
    const struct smallest_plan *plan = &smallest_plan;
    (void)backend;
    (void)index;
    info->kind = VRAM_DEVICE_CPU;
    snprintf(info->name, sizeof info->name, "Smallest");
    info->caps = VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_HOST_ACCESS | VRAM_CAP_MEMORY_INFO | plan->caps;
    info->caps_known = UINT32_MAX & ~plan->caps_unknown;
    info->memory_bytes = (struct vram_value){MEMORY, true};
    info->alloc_granule = plan->alloc_granule.value ? plan->alloc_granule
                                                    : (struct vram_value){vr_os_page_bytes(), true};
    info->vmm_granule = plan->vmm_granule;
    return VRAM_OK;
}

/* ------------------------------------------------------------------- memory */

static void device_close(struct vr_device *device) {
    struct smallest *smallest = device->impl;
    vr_mutex_destroy(&smallest->work);
    vr_mem_free(smallest);
}

static vram_status memory_info(struct vr_device *device, vram_value *free, vram_value *total) {
    struct smallest *smallest = device->impl;
    *free = (struct vram_value){MEMORY - vr_load(&smallest->used, VR_RELAXED), true};
    *total = (struct vram_value){MEMORY, true};
    return VRAM_OK;
}

/* Takes the bytes off the account first: two threads must not both get the last ones. */
static vram_status memory_alloc(struct vr_device *device, uint64_t bytes, vram_addr *addr) {
    struct smallest *smallest = device->impl;
    uint64_t used = vr_load(&smallest->used, VR_RELAXED);
    void *pages;
    do {
        if (bytes > MEMORY - used) {
            return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "smallest", "alloc", 1,
                                "the device is full");
        }
    } while (!vr_cas_weak(&smallest->used, &used, used + bytes, VR_RELAXED));
    vram_status status = vr_os_pages_alloc(bytes, &pages);
    if (status != VRAM_OK) {
        vr_fetch_sub(&smallest->used, bytes, VR_RELAXED);
        return status;
    }
    *addr = (uintptr_t)pages;
    return VRAM_OK;
}

static vram_status memory_free(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    struct smallest *smallest = device->impl;
    vram_status status = vr_os_pages_free((void *)(uintptr_t)addr, bytes);
    if (status == VRAM_OK) {
        vr_fetch_sub(&smallest->used, bytes, VR_RELAXED);
    }
    return status;
}

/* ------------------------------------------------------------------- queues */

/* Nobody waits for a word later than it is written, so it may go with its queue. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    queue->word = vr_mem_alloc(1, sizeof *queue->word, "queue create");
    return queue->word ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

static void queue_destroy(struct vr_queue *queue) {
    vr_mem_free(queue->word);
}

static vram_status copy_bytes(struct vr_queue *queue, void *to, const void *from, uint64_t bytes) {
    struct smallest *smallest = queue->device->impl;
    vr_mutex_lock(&smallest->work);
    memcpy(to, from, bytes);
    vr_mutex_unlock(&smallest->work);
    return VRAM_OK;
}

static vram_status upload(struct vr_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    return copy_bytes(queue, (void *)(uintptr_t)to, from, bytes);
}

static vram_status download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    return copy_bytes(queue, to, (const void *)(uintptr_t)from, bytes);
}

static vram_status copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    return upload(queue, to, (const void *)(uintptr_t)from, bytes);
}

static vram_status fill(struct vr_queue *queue, vram_addr to, uint32_t pattern,
                        uint32_t pattern_bytes, uint64_t bytes) {
    struct smallest *smallest = queue->device->impl;
    unsigned char unit[sizeof pattern];
    for (uint32_t i = 0; i < pattern_bytes; i++) {
        unit[i] = (unsigned char)(pattern >> (8 * i));
    }
    vr_mutex_lock(&smallest->work);
    for (uint64_t at = 0; at < bytes; at += pattern_bytes) {
        memcpy((unsigned char *)(uintptr_t)to + at, unit, pattern_bytes);
    }
    vr_mutex_unlock(&smallest->work);
    return VRAM_OK;
}

static vram_status signal_word(struct vr_queue *queue, uint64_t value) {
    vr_atomic_max(queue->word, value); /* threads may come in the other order than they counted */
    return VRAM_OK;
}

static vram_status after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    (void)queue;
    (void)other;
    (void)value;
    return VRAM_OK;
}

static vram_status poll_queue(struct vr_queue *queue) {
    (void)queue;
    return VRAM_OK;
}

/* ------------------------------------------------------------------- tables */

static const struct vr_device_ops device_ops = {
    .close = device_close, .memory_info = memory_info, .alloc = memory_alloc, .free = memory_free};
static const struct vr_device_ops device_ops_without_info = {
    .close = device_close, .alloc = memory_alloc, .free = memory_free};

static const struct vr_queue_ops queue_ops = {
    .create = queue_create,
    .destroy = queue_destroy,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .signal = signal_word,
    .after = after,
    .poll = poll_queue,
};

static vram_status device_open(struct vr_device *device) {
    struct smallest *smallest = vr_mem_alloc(1, sizeof *smallest, "device open");
    if (!smallest) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_init(&smallest->work, VR_RANK_BACKEND);
    device->impl = smallest;
    device->ops = smallest_plan.no_memory_info ? &device_ops_without_info : &device_ops;
    device->queue_ops = &queue_ops;
    device->vmm = smallest_plan.vmm;
    device->kernel = smallest_plan.kernel;
    device->handles = smallest_plan.handles;
    return VRAM_OK;
}

const struct vr_backend_ops vr_smallest_backend = {
    .name = "smallest",
    .start = start,
    .stop = stop,
    .count = count,
    .describe = describe,
    .device_open = device_open,
};
