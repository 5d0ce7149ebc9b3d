/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hip_probe.c: tests, when a device is opened, features that some drivers report wrongly.
 *
 *   tested                                  if it does not work
 *   a stream writes a word                  a host function writes it
 *   a stream waits for a word               it waits for an event
 *   copies from and to pinned memory        the device has no VRAM_CAP_PINNED: pageable memory is
 *                                           copied before the call returns
 *   mapped memory can be used; each handle  the device has no VRAM_CAP_VMM
 *   is mapped and unmapped by itself
 *   one handle at two addresses             the device has no VRAM_CAP_ALIAS
 *
 * Running out of memory is not a result: what could not be tested is assumed to work. A device is
 * not opened if it is lost during a test, or if a queue has no way to tell how far its work is
 * complete. If work does not end, its queue and memory are not released.
 */
#include "backend/hip/hip_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"

#include <string.h>

#define TIMEOUT_NS  UINT64_C(2000000000) /* time for a few kilobytes */
#define SAMPLE      4096                 /* bytes copied and compared */
#define SAMPLE_SEED ((uint32_t)0x5EED5EED)

/* The result of a test. */
enum probe_result { PROBE_WORKS, PROBE_BROKEN, PROBE_SKIPPED };

struct hip_probe {
    struct vr_device *device;
    struct vr_queue queue;
    bool stuck;         /* the queue's work did not complete */
    vram_status failed; /* why the device cannot be opened; VRAM_OK if it can */
};

static enum probe_result probe_result_of(struct hip_probe *probe, vram_status status) {
    if (status == VRAM_OK) {
        return PROBE_WORKS;
    }
    if (status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_SHUTDOWN) {
        probe->failed = status;
    }
    return vr_status_is_exhausted(status) ? PROBE_SKIPPED : PROBE_BROKEN;
}

static void probe_warn(const struct hip_probe *probe, const char *what, const char *instead) {
    vr_log(VRAM_LOG_WARN, "hip: device %u: %s; %s", probe->device->index, what, instead);
}

/* Waits until the queue's word has the value, or until the time is over. If the driver refuses the
   poll, it may still write the word. */
static vram_status word_await(struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + TIMEOUT_NS;
    while (vr_load(queue->word, VR_ACQUIRE) < value) {
        vram_status status = queue->device->queue_ops->poll(queue);
        if (status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_SHUTDOWN) {
            return status;
        }
        if (vr_os_now() > end) {
            return VRAM_ERR_TIMEOUT;
        }
        vr_os_yield();
    }
    return VRAM_OK;
}

/* Waits for everything submitted so far. If a signal is refused, it is tried once more. */
static vram_status queue_drain(struct vr_queue *queue, bool *stuck) {
    const struct vr_queue_ops *ops = queue->device->queue_ops;
    uint64_t value = vr_load(queue->word, VR_ACQUIRE) + 1;
    vram_status first = ops->signal(queue, value), status = first;
    if (status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST && status != VRAM_ERR_SHUTDOWN) {
        status = ops->signal(queue, value);
    }
    status = status == VRAM_OK ? word_await(queue, value) : status;
    *stuck = status != VRAM_OK;
    return first == VRAM_OK ? status : first;
}

/* ------------------------------------------------------------------ streams */

/* A value that was not written is skipped: if it comes late, it comes before the next one. */
static void probe_word_writes(struct hip_probe *probe) {
    struct vr_cuda_device *cuda = probe->device->impl;
    uint64_t value = vr_load(probe->queue.word, VR_ACQUIRE) + 1;
    vram_status status = probe->device->queue_ops->signal(&probe->queue, value);
    if (probe_result_of(probe, status == VRAM_OK ? word_await(&probe->queue, value) : status) !=
            PROBE_BROKEN ||
        probe->failed) {
        return;
    }
    vr_store(&cuda->memory_ops, false, VR_RELAXED);
    probe_warn(probe, "a stream did not write a word", "host functions will");
    status = probe->device->queue_ops->signal(&probe->queue, value + 1);
    status = status == VRAM_OK ? word_await(&probe->queue, value + 1) : status;
    if (status != VRAM_OK) {
        probe->failed = vr_error_set(
            status == VRAM_ERR_TIMEOUT ? VRAM_ERR_BACKEND : status, "hip", "device_open", 0,
            "device %u does not tell how far a stream has come", probe->device->index);
    }
}

/* A queue whose work does not end can be neither finished nor destroyed. */
static void probe_queue_end(const struct hip_probe *probe, struct vr_queue *queue, bool stuck) {
    if (stuck && !probe->failed) {
        vr_cuda_events_end(queue->device->impl, queue->impl, queue->word, false, true);
        vr_mem_free(queue->impl);
    } else {
        vr_store(&queue->device->lost, probe->failed == VRAM_ERR_DEVICE_LOST, VR_RELEASE);
        queue->device->queue_ops->destroy(queue);
    }
}

static void probe_word_waits(struct hip_probe *probe) {
    struct vr_cuda_device *cuda = probe->device->impl;
    struct vr_queue other = {.device = probe->device};
    const struct vr_queue_ops *ops = probe->device->queue_ops;
    if (!vr_load(&cuda->memory_ops, VR_RELAXED) ||
        probe_result_of(probe, ops->create(&other, NULL)) != PROBE_WORKS) {
        return;
    }
    vram_status status = ops->after(&other, &probe->queue, vr_load(probe->queue.word, VR_ACQUIRE));
    bool stuck = false;
    vram_status finished = queue_drain(&other, &stuck);
    status = status == VRAM_OK ? finished : status;
    if (probe_result_of(probe, status) == PROBE_BROKEN) {
        vr_store(&cuda->stream_waits, false, VR_RELAXED);
        probe_warn(probe, "a stream did not await a word", "events will serve");
    }
    probe_queue_end(probe, &other, stuck);
}

/* ------------------------------------------------------------------- copies */

static void caps_remove(struct hip_probe *probe, uint32_t caps, const char *what) {
    struct vr_device *device = probe->device;
    device->info.caps &= ~caps;
    if (caps & VRAM_CAP_PINNED) {
        device->pinned = NULL;
    }
    if (caps & VRAM_CAP_VMM) {
        device->vmm = NULL;
        device->share = NULL;
        device->info.vmm_granule = (vram_value){0, false};
    }
    probe_warn(probe, what, "the device is used without that");
}

/* Bytes that differ from zeros, from each other and from what was there before. */
static void sample_write(unsigned char *bytes, uint32_t seed) {
    for (uint32_t i = 0; i < SAMPLE; i++) {
        bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
    }
}

/* Upload, copy and download, all submitted before any is complete. */
static vram_status copy_round_trip(struct hip_probe *probe, vram_addr memory, unsigned char *from,
                                   unsigned char *to) {
    const struct vr_queue_ops *ops = probe->device->queue_ops;
    sample_write(from, SAMPLE_SEED);
    memset(to, 0, SAMPLE);
    vram_status status = ops->upload(&probe->queue, memory, from, SAMPLE);
    if (status == VRAM_OK) {
        status = ops->copy(&probe->queue, memory + SAMPLE, memory, SAMPLE);
    }
    if (status == VRAM_OK) {
        status = ops->download(&probe->queue, to, memory + SAMPLE, SAMPLE);
    }
    vram_status finished = queue_drain(&probe->queue, &probe->stuck);
    return status == VRAM_OK ? finished : status;
}

static void probe_copies(struct hip_probe *probe) {
    struct vr_device *device = probe->device;
    uint64_t memory_bytes = UINT64_C(2) * SAMPLE;
    vram_addr memory = 0, host = 0;
    enum probe_result result =
        probe_result_of(probe, device->ops->alloc(device, memory_bytes, &memory));
    if (result == PROBE_WORKS) {
        result = probe_result_of(probe, device->pinned->alloc(device, memory_bytes, &host));
    }
    if (result == PROBE_WORKS) {
        unsigned char *from = (unsigned char *)(uintptr_t)host, *to = from + SAMPLE;
        result = probe_result_of(probe, copy_round_trip(probe, memory, from, to));
        if (result == PROBE_WORKS && memcmp(from, to, SAMPLE) != 0) {
            result = PROBE_BROKEN;
        }
    }
    bool leave = probe->failed || probe->stuck;
    if (host && !leave) {
        (void)probe_result_of(probe, device->pinned->free(device, host, memory_bytes));
    }
    if (memory && !leave) {
        (void)probe_result_of(probe, device->ops->free(device, memory, memory_bytes));
    }
    if (result == PROBE_BROKEN) {
        caps_remove(probe, VRAM_CAP_PINNED, "copies of pinned memory do not hold");
    }
}

/* ---------------------------------------------------------------------- vmm */

enum { HANDLES = 2, MAPPINGS = 3 }; /* the third mapping is the first handle again */

struct probe_mapping {
    vram_addr base;
    uint64_t granule;
    uint64_t handles[HANDLES];
    bool mapped[MAPPINGS];
};

static vram_addr probe_addr(const struct probe_mapping *mapping, int index) {
    return mapping->base + (uint64_t)index * mapping->granule;
}

static vram_status probe_map(struct hip_probe *probe, struct probe_mapping *mapping, int index) {
    const struct vr_vmm_ops *vmm = probe->device->vmm;
    vram_status status = vmm->map(probe->device, probe_addr(mapping, index),
                                  mapping->handles[index % HANDLES], mapping->granule);
    mapping->mapped[index] = status == VRAM_OK;
    return status;
}

static vram_status probe_mapping_make(struct hip_probe *probe, struct probe_mapping *mapping) {
    struct vr_device *device = probe->device;
    const struct vr_vmm_ops *vmm = device->vmm;
    vram_status status =
        vmm->reserve(device, MAPPINGS * mapping->granule, mapping->granule, &mapping->base);
    for (int i = 0; i < HANDLES && status == VRAM_OK; i++) {
        status = vmm->create(device, mapping->granule, &mapping->handles[i]);
    }
    for (int i = 0; i < HANDLES && status == VRAM_OK; i++) {
        status = probe_map(probe, mapping, i);
    }
    return status == VRAM_OK ? vmm->access(device, mapping->base, HANDLES * mapping->granule)
                             : status;
}

/* Each handle is unmapped by itself: some drivers refuse several at once. */
static vram_status probe_mapping_end(struct hip_probe *probe, struct probe_mapping *mapping) {
    struct vr_device *device = probe->device;
    const struct vr_vmm_ops *vmm = device->vmm;
    vram_status first = VRAM_OK, status;
    for (int i = 0; i < MAPPINGS; i++) {
        status = mapping->mapped[i] ? vmm->unmap(device, probe_addr(mapping, i), mapping->granule)
                                    : VRAM_OK;
        first = first == VRAM_OK ? status : first;
    }
    for (int i = 0; i < HANDLES && first == VRAM_OK; i++) {
        first = mapping->handles[i] ? vmm->release(device, mapping->handles[i], mapping->granule)
                                    : VRAM_OK;
    }
    if (first == VRAM_OK && mapping->base) {
        first = vmm->unreserve(device, mapping->base, MAPPINGS * mapping->granule);
    }
    return first;
}

/* Whether data written at one address is read at the other. If both are the same, it spans two
   handles. */
static vram_status map_round_trip(struct hip_probe *probe, vram_addr to, vram_addr from) {
    const struct vr_queue_ops *ops = probe->device->queue_ops;
    unsigned char sample[SAMPLE], found[SAMPLE] = {0};
    sample_write(sample, (uint32_t)to);
    vram_status status = ops->upload(&probe->queue, to, sample, SAMPLE);
    if (status == VRAM_OK) {
        status = ops->download(&probe->queue, found, from, SAMPLE);
    }
    vram_status finished = queue_drain(&probe->queue, &probe->stuck);
    status = status == VRAM_OK ? finished : status;
    return status == VRAM_OK && memcmp(sample, found, SAMPLE) != 0 ? VRAM_ERR_CORRUPT : status;
}

static vram_status probe_alias(struct hip_probe *probe, struct probe_mapping *mapping) {
    const struct vr_vmm_ops *vmm = probe->device->vmm;
    vram_status status = probe_map(probe, mapping, HANDLES);
    if (status == VRAM_OK) {
        status = vmm->access(probe->device, probe_addr(mapping, HANDLES), mapping->granule);
    }
    return status == VRAM_OK
               ? map_round_trip(probe, probe_addr(mapping, HANDLES), probe_addr(mapping, 0))
               : status;
}

static void probe_vmm(struct hip_probe *probe) {
    struct probe_mapping mapping = {.granule = probe->device->info.vmm_granule.value};
    enum probe_result whole = probe_result_of(probe, probe_mapping_make(probe, &mapping)),
                      twice = PROBE_SKIPPED;
    if (whole == PROBE_WORKS) {
        vram_addr seam = probe_addr(&mapping, 1) - SAMPLE / 2;
        whole = probe_result_of(probe, map_round_trip(probe, seam, seam));
    }
    if (whole == PROBE_WORKS) {
        twice = probe_result_of(probe, probe_alias(probe, &mapping));
    }
    if (!probe->failed &&
        (probe->stuck ||
         probe_result_of(probe, probe_mapping_end(probe, &mapping)) != PROBE_WORKS)) {
        whole = PROBE_BROKEN;
    }
    if (whole == PROBE_BROKEN) {
        caps_remove(probe, VRAM_CAP_VMM | VRAM_CAP_ALIAS, "mapped memory does not hold");
    } else if (twice == PROBE_BROKEN) {
        caps_remove(probe, VRAM_CAP_ALIAS, "memory mapped twice does not hold");
    }
}

/* --------------------------------------------------------------------- all */

vram_status vr_hip_probe(struct vr_device *device) {
    struct hip_probe probe = {.device = device, .queue = {.device = device}};
    vram_error before;
    vr_error_save(&before);
    vram_status status = device->queue_ops->create(&probe.queue, NULL);
    if (status != VRAM_OK) {
        return status;
    }
    static void (*const steps[])(struct hip_probe *) = {probe_word_writes, probe_word_waits,
                                                        probe_copies, probe_vmm};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !probe.failed; i++) {
        if (!probe.stuck && (steps[i] != probe_vmm || device->vmm)) {
            steps[i](&probe);
        }
    }
    probe_queue_end(&probe, &probe.queue, probe.stuck);
    if (probe.failed == VRAM_OK) {
        vr_error_restore(&before); /* a device that opens has not failed */
    }
    return probe.failed;
}
