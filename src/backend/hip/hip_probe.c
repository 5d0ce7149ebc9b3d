/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hip_trial.c: tries, when a device is opened, what its drivers have been found to promise wrongly.
 *
 *   tried                                   when it does not hold
 *   a stream writes a word                  a host function of ours writes it
 *   a stream awaits a word                  it awaits an event
 *   copies from and to pinned memory        the device has no VRAM_CAP_PINNED: pageable memory is
 *                                           copied before the call returns
 *   mapped memory can be used, each handle  the device has no VRAM_CAP_VMM
 *   mapped and unmapped by itself
 *   one handle at two addresses             the device has no VRAM_CAP_ALIAS
 *
 * Want of memory is no answer: what cannot be tried for that is believed. A device that is lost in
 * a trial, or has no way at all to tell how far a queue has come, is not opened. What work that
 * does not end may still use, queue and memory, is left to the driver.
 */
#include "backend/hip/hip_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"

#include <string.h>

#define PATIENCE   UINT64_C(2000000000) /* ns that a few kilobytes may take */
#define SAMPLE     4096                 /* bytes that are copied and compared */
#define SAMPLE_FOR ((uint32_t)0x5EED5EED)

/* What came of a trial. */
enum verdict { HOLDS, BROKEN, UNTRIED };

struct trial {
    struct vr_device *device;
    struct vr_queue queue;
    bool stuck;         /* the queue's work did not end */
    vram_status failed; /* why the device cannot be opened; VRAM_OK when it can */
};

static enum verdict judge(struct trial *trial, vram_status status) {
    if (status == VRAM_OK) {
        return HOLDS;
    }
    if (status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_SHUTDOWN) {
        trial->failed = status;
    }
    return vr_status_is_exhausted(status) ? UNTRIED : BROKEN;
}

static void blame(const struct trial *trial, const char *what, const char *instead) {
    vr_log(VRAM_LOG_WARN, "hip: device %u: %s; %s", trial->device->index, what, instead);
}

/* Whether the queue's word gets there in time. A driver that will not be asked may yet write it. */
static vram_status await(struct vr_queue *queue, uint64_t value) {
    uint64_t end = vr_os_now() + PATIENCE;
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

/* Everything submitted so far, done. A queue that takes no marker once may take the next. */
static vram_status finish(struct vr_queue *queue, bool *stuck) {
    const struct vr_queue_ops *ops = queue->device->queue_ops;
    uint64_t value = vr_load(queue->word, VR_ACQUIRE) + 1;
    vram_status first = ops->signal(queue, value), status = first;
    if (status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST && status != VRAM_ERR_SHUTDOWN) {
        status = ops->signal(queue, value);
    }
    status = status == VRAM_OK ? await(queue, value) : status;
    *stuck = status != VRAM_OK;
    return first == VRAM_OK ? status : first;
}

/* ------------------------------------------------------------------ streams */

/* The word that was not written is skipped: should it come late, it comes before the next one. */
static void try_writes(struct trial *trial) {
    struct vr_cuda_device *cuda = trial->device->impl;
    uint64_t value = vr_load(trial->queue.word, VR_ACQUIRE) + 1;
    vram_status status = trial->device->queue_ops->signal(&trial->queue, value);
    if (judge(trial, status == VRAM_OK ? await(&trial->queue, value) : status) != BROKEN ||
        trial->failed) {
        return;
    }
    vr_store(&cuda->memory_ops, false, VR_RELAXED);
    blame(trial, "a stream did not write a word", "host functions will");
    status = trial->device->queue_ops->signal(&trial->queue, value + 1);
    status = status == VRAM_OK ? await(&trial->queue, value + 1) : status;
    if (status != VRAM_OK) {
        trial->failed = vr_error_set(
            status == VRAM_ERR_TIMEOUT ? VRAM_ERR_BACKEND : status, "hip", "device_open", 0,
            "device %u does not tell how far a stream has come", trial->device->index);
    }
}

/* A queue whose work does not end can be neither finished nor destroyed. */
static void end_queue(const struct trial *trial, struct vr_queue *queue, bool stuck) {
    if (stuck && !trial->failed) {
        vr_cuda_marks_end(queue->device->impl, queue->impl, queue->word, false, true);
        vr_mem_free(queue->impl);
    } else {
        vr_store(&queue->device->lost, trial->failed == VRAM_ERR_DEVICE_LOST, VR_RELEASE);
        queue->device->queue_ops->destroy(queue);
    }
}

static void try_waits(struct trial *trial) {
    struct vr_cuda_device *cuda = trial->device->impl;
    struct vr_queue other = {.device = trial->device};
    const struct vr_queue_ops *ops = trial->device->queue_ops;
    if (!vr_load(&cuda->memory_ops, VR_RELAXED) ||
        judge(trial, ops->create(&other, NULL)) != HOLDS) {
        return;
    }
    vram_status status = ops->after(&other, &trial->queue, vr_load(trial->queue.word, VR_ACQUIRE));
    bool stuck = false;
    vram_status finished = finish(&other, &stuck);
    status = status == VRAM_OK ? finished : status;
    if (judge(trial, status) == BROKEN) {
        vr_store(&cuda->stream_waits, false, VR_RELAXED);
        blame(trial, "a stream did not await a word", "events will serve");
    }
    end_queue(trial, &other, stuck);
}

/* ------------------------------------------------------------------- copies */

static void take_away(struct trial *trial, uint32_t caps, const char *what) {
    struct vr_device *device = trial->device;
    device->info.caps &= ~caps;
    if (caps & VRAM_CAP_PINNED) {
        device->pinned = NULL;
    }
    if (caps & VRAM_CAP_VMM) {
        device->vmm = NULL;
        device->info.vmm_granule = (vram_value){0, false};
    }
    blame(trial, what, "the device is used without that");
}

/* Bytes that are told from zeros, from each other and from what was there before. */
static void write_sample(unsigned char *bytes, uint32_t seed) {
    for (uint32_t i = 0; i < SAMPLE; i++) {
        bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
    }
}

/* Up, across and down again, all in flight at once. */
static vram_status copy_around(struct trial *trial, vram_addr memory, unsigned char *from,
                               unsigned char *to) {
    const struct vr_queue_ops *ops = trial->device->queue_ops;
    write_sample(from, SAMPLE_FOR);
    memset(to, 0, SAMPLE);
    vram_status status = ops->upload(&trial->queue, memory, from, SAMPLE);
    if (status == VRAM_OK) {
        status = ops->copy(&trial->queue, memory + SAMPLE, memory, SAMPLE);
    }
    if (status == VRAM_OK) {
        status = ops->download(&trial->queue, to, memory + SAMPLE, SAMPLE);
    }
    vram_status finished = finish(&trial->queue, &trial->stuck);
    return status == VRAM_OK ? finished : status;
}

static void try_copies(struct trial *trial) {
    struct vr_device *device = trial->device;
    uint64_t memory_bytes = 2 * SAMPLE;
    vram_addr memory = 0, host = 0;
    enum verdict verdict = judge(trial, device->ops->alloc(device, memory_bytes, &memory));
    if (verdict == HOLDS) {
        verdict = judge(trial, device->pinned->alloc(device, memory_bytes, &host));
    }
    if (verdict == HOLDS) {
        unsigned char *from = (unsigned char *)(uintptr_t)host, *to = from + SAMPLE;
        verdict = judge(trial, copy_around(trial, memory, from, to));
        if (verdict == HOLDS && memcmp(from, to, SAMPLE) != 0) {
            verdict = BROKEN;
        }
    }
    bool leave = trial->failed || trial->stuck;
    if (host && !leave) {
        (void)judge(trial, device->pinned->free(device, host, memory_bytes));
    }
    if (memory && !leave) {
        (void)judge(trial, device->ops->free(device, memory, memory_bytes));
    }
    if (verdict == BROKEN) {
        take_away(trial, VRAM_CAP_PINNED, "copies of pinned memory do not hold");
    }
}

/* ---------------------------------------------------------------------- vmm */

enum { PIECES = 2, PLACES = 3 }; /* the third place is for the first piece once more */

struct patch {
    vram_addr base;
    uint64_t granule;
    uint64_t handles[PIECES];
    bool mapped[PLACES];
};

static vram_addr place(const struct patch *patch, int index) {
    return patch->base + (uint64_t)index * patch->granule;
}

static vram_status map_at(struct trial *trial, struct patch *patch, int index) {
    const struct vr_vmm_ops *vmm = trial->device->vmm;
    vram_status status = vmm->map(trial->device, place(patch, index),
                                  patch->handles[index % PIECES], patch->granule);
    patch->mapped[index] = status == VRAM_OK;
    return status;
}

static vram_status build(struct trial *trial, struct patch *patch) {
    struct vr_device *device = trial->device;
    const struct vr_vmm_ops *vmm = device->vmm;
    vram_status status =
        vmm->reserve(device, PLACES * patch->granule, patch->granule, &patch->base);
    for (int i = 0; i < PIECES && status == VRAM_OK; i++) {
        status = vmm->create(device, patch->granule, &patch->handles[i]);
    }
    for (int i = 0; i < PIECES && status == VRAM_OK; i++) {
        status = map_at(trial, patch, i);
    }
    return status == VRAM_OK ? vmm->access(device, patch->base, PIECES * patch->granule) : status;
}

/* Each handle is unmapped by itself: several at once are refused by some drivers. */
static vram_status tear_down(struct trial *trial, struct patch *patch) {
    struct vr_device *device = trial->device;
    const struct vr_vmm_ops *vmm = device->vmm;
    vram_status first = VRAM_OK, status;
    for (int i = 0; i < PLACES; i++) {
        status = patch->mapped[i] ? vmm->unmap(device, place(patch, i), patch->granule) : VRAM_OK;
        first = first == VRAM_OK ? status : first;
    }
    for (int i = 0; i < PIECES && first == VRAM_OK; i++) {
        first =
            patch->handles[i] ? vmm->release(device, patch->handles[i], patch->granule) : VRAM_OK;
    }
    if (first == VRAM_OK && patch->base) {
        first = vmm->unreserve(device, patch->base, PLACES * patch->granule);
    }
    return first;
}

/* Whether what is written at one place is read at another; across the seam of two pieces when they
   are the same. */
static vram_status write_and_read(struct trial *trial, vram_addr to, vram_addr from) {
    const struct vr_queue_ops *ops = trial->device->queue_ops;
    unsigned char sample[SAMPLE], found[SAMPLE] = {0};
    write_sample(sample, (uint32_t)to);
    vram_status status = ops->upload(&trial->queue, to, sample, SAMPLE);
    if (status == VRAM_OK) {
        status = ops->download(&trial->queue, found, from, SAMPLE);
    }
    vram_status finished = finish(&trial->queue, &trial->stuck);
    status = status == VRAM_OK ? finished : status;
    return status == VRAM_OK && memcmp(sample, found, SAMPLE) != 0 ? VRAM_ERR_CORRUPT : status;
}

static vram_status alias(struct trial *trial, struct patch *patch) {
    const struct vr_vmm_ops *vmm = trial->device->vmm;
    vram_status status = map_at(trial, patch, PIECES);
    if (status == VRAM_OK) {
        status = vmm->access(trial->device, place(patch, PIECES), patch->granule);
    }
    return status == VRAM_OK ? write_and_read(trial, place(patch, PIECES), place(patch, 0))
                             : status;
}

static void try_vmm(struct trial *trial) {
    struct patch patch = {.granule = trial->device->info.vmm_granule.value};
    enum verdict whole = judge(trial, build(trial, &patch)), twice = UNTRIED;
    if (whole == HOLDS) {
        vram_addr seam = place(&patch, 1) - SAMPLE / 2;
        whole = judge(trial, write_and_read(trial, seam, seam));
    }
    if (whole == HOLDS && trial->device->info.caps & VRAM_CAP_ALIAS) {
        twice = judge(trial, alias(trial, &patch));
    }
    if (!trial->failed && (trial->stuck || judge(trial, tear_down(trial, &patch)) != HOLDS)) {
        whole = BROKEN;
    }
    if (whole == BROKEN) {
        take_away(trial, VRAM_CAP_VMM | VRAM_CAP_ALIAS, "mapped memory does not hold");
    } else if (twice == BROKEN) {
        take_away(trial, VRAM_CAP_ALIAS, "memory mapped twice does not hold");
    }
}

/* --------------------------------------------------------------------- all */

vram_status vr_hip_trial(struct vr_device *device) {
    struct trial trial = {.device = device, .queue = {.device = device}};
    vram_error before;
    vr_error_save(&before);
    vram_status status = device->queue_ops->create(&trial.queue, NULL);
    if (status != VRAM_OK) {
        return status;
    }
    static void (*const steps[])(struct trial *) = {try_writes, try_waits, try_copies, try_vmm};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !trial.failed; i++) {
        if (!trial.stuck && (steps[i] != try_vmm || device->vmm)) {
            steps[i](&trial);
        }
    }
    end_queue(&trial, &trial.queue, trial.stuck);
    if (trial.failed == VRAM_OK) {
        vr_error_restore(&before); /* a device that opens has not failed */
    }
    return trial.failed;
}
