/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_queue.c: queues: making, signals, waits.
 *
 * A queue is a clock, a pool of command buffers and a place on a native queue, which it shares with
 * others when there are more queues than the driver has: new ones go to the line with the fewest.
 *
 * A signal is a batch that writes the word, or, on the CPU, one that a thread waits for which
 * writes it (vulkan_watch.c). 64 bits are not promised to be written at once, so the host might see
 * one half of the old value and one of the new; that matters only where the upper half changes,
 * once in four thousand million signals, and there the word is written in three steps, each of
 * which leaves a value that is true: see write_word.
 *
 * The program submits to an adopted queue behind our back. Whether it is idle only a submission can
 * tell: a poll sends an empty one, and when the one before has passed gives this one a moment.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"

#define FINISH_NS UINT64_C(60000000000) /* longest wait of a queue that ends */
enum { FINISHES = 3 };                  /* how often one that was refused is repeated */
#define MOMENT_NS UINT64_C(200000)      /* for an empty batch on a queue that seems idle */

/* ------------------------------------------------------------------ signals */

static void write_part(const struct vr_vulkan_recording *recording, uint64_t offset, uint64_t bytes,
                       const void *value) {
    const struct vr_vulkan_queue *queue = recording->queue;
    queue->device->api.vkCmdUpdateBuffer(recording->commands, queue->clock->page->own.buffer,
                                         queue->clock->offset + offset, bytes, value);
    vr_vulkan_order(recording); /* for the host, and for the next part */
}

/* Lower half to 0, then the upper half, then the lower one: the word is lower than it was, then at
   most what it becomes. Vulkan's hosts are little-endian. */
static void write_word(struct vr_vulkan_recording *recording, uint64_t value) {
    uint32_t high = (uint32_t)(value >> 32), none = 0;
    if (high != recording->queue->word_high) {
        write_part(recording, 0, sizeof none, &none);
        write_part(recording, sizeof none, sizeof high, &high);
    }
    write_part(recording, 0, sizeof value, &value);
}

static vram_status queue_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_recording recording;
    void *mark = impl->watch ? vr_vulkan_mark_take() : NULL;
    if (impl->watch && !mark) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_vulkan_begin(&recording, impl);
    if (status == VRAM_OK) {
        if (!impl->watch) {
            write_word(&recording, value);
        }
        recording.signals = true;
        recording.word = value;
        recording.mark = mark;
        status = vr_vulkan_submit(&recording, NULL, NULL);
    }
    if (status != VRAM_OK) {
        vr_vulkan_mark_give(mark);
    }
    return status;
}

/* The clock's value behind which the word is at least `word`: that of the oldest signal that is
   known to be high enough, else all that was submitted, which includes it. */
static uint64_t value_behind(struct vr_vulkan_queue *queue, uint64_t word) {
    vr_vulkan_line_lock(queue->line);
    uint64_t value = vr_load(&queue->clock->submitted, VR_RELAXED);
    uint32_t kept =
        queue->signal_count < VR_VULKAN_SIGNALS ? queue->signal_count : VR_VULKAN_SIGNALS;
    for (uint32_t i = 0; i < kept; i++) {
        if (queue->signals[i].word >= word && queue->signals[i].value < value) {
            value = queue->signals[i].value;
        }
    }
    vr_vulkan_line_unlock(queue->line);
    return value;
}

static vram_status queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    struct vr_vulkan_queue *impl = queue->impl, *source = other->impl;
    if (impl->device != source->device) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "vkQueueSubmit", 0,
                            "queues of two Vulkan devices cannot wait for each other; wait on the "
                            "host");
    }
    return vr_vulkan_submit_wait(impl, source->clock, value_behind(source, value), NULL);
}

/* --------------------------------------------------------------------- poll */

/* Whether the program's own work is done, too. */
static vram_status poll_adopted(struct vr_vulkan_queue *impl) {
    uint64_t passed = 0, asked;
    vram_error error;
    vram_status status = vr_vulkan_clock_read(impl->device, impl->clock, &passed);
    if (status != VRAM_OK) {
        return status;
    }
    vr_vulkan_line_lock(impl->line);
    asked = impl->asked;
    vr_vulkan_line_unlock(impl->line);
    if (passed < asked || passed < vr_load(&impl->clock->submitted, VR_ACQUIRE)) {
        return VRAM_ERR_NOT_READY;
    }
    status = vr_vulkan_submit_wait(impl, NULL, 0, &asked);
    if (status != VRAM_OK) {
        return status;
    }
    vr_vulkan_line_lock(impl->line);
    impl->asked = asked > impl->asked ? asked : impl->asked;
    vr_vulkan_line_unlock(impl->line);
    vr_error_save(&error);
    status = vr_vulkan_clock_wait(impl->device, impl->clock, asked, MOMENT_NS);
    if (status == VRAM_ERR_TIMEOUT) {
        vr_error_restore(&error);
    }
    return status == VRAM_ERR_TIMEOUT ? VRAM_ERR_NOT_READY : status;
}

static vram_status queue_poll(struct vr_queue *queue) {
    struct vr_vulkan_queue *impl = queue->impl;
    uint64_t passed = 0, submitted = vr_load(&impl->clock->submitted, VR_ACQUIRE);
    if (vr_load(&impl->device->lost, VR_ACQUIRE)) { /* another thread or handle has seen it */
        return vr_vulkan_check("vkGetSemaphoreCounterValue", VR_VK_DEVICE_LOST,
                               VRAM_ERR_DEVICE_MEMORY);
    }
    if (queue->adopted) {
        return poll_adopted(impl);
    }
    vram_status status = vr_vulkan_clock_read(impl->device, impl->clock, &passed);
    return status == VRAM_OK && passed < submitted ? VRAM_ERR_NOT_READY : status;
}

/* ---------------------------------------------------------- making and ending */

/* The line with the fewest queues; one that runs kernels, as long as there is one. */
static struct vr_vulkan_line *line_choose(struct vr_vulkan_device *device) {
    struct vr_vulkan_line *best = &device->lines[0];
    vr_mutex_lock(&device->lock);
    for (uint32_t i = 1; i < device->line_count; i++) {
        struct vr_vulkan_line *line = &device->lines[i];
        if (line->compute != best->compute ? line->compute : line->users < best->users) {
            best = line;
        }
    }
    best->users++;
    vr_mutex_unlock(&device->lock);
    return best;
}

static void line_leave(struct vr_vulkan_device *device, struct vr_vulkan_line *line) {
    vr_mutex_lock(&device->lock);
    line->users--;
    vr_mutex_unlock(&device->lock);
}

static struct vr_vulkan_line *line_find(struct vr_vulkan_device *device, const void *native) {
    for (uint32_t i = 0; i < device->line_count; i++) {
        if ((void *)device->lines[i].handle == native) {
            vr_mutex_lock(&device->lock);
            device->lines[i].users++;
            vr_mutex_unlock(&device->lock);
            return &device->lines[i];
        }
    }
    return NULL;
}

static vram_status pool_make(struct vr_vulkan_queue *queue) {
    struct vr_vulkan_device *device = queue->device;
    const struct vr_vk_command_pool_info info = {.head = {VR_VK_TYPE_COMMAND_POOL, NULL},
                                                 .flags = VR_VK_POOL_TRANSIENT | VR_VK_POOL_RESET,
                                                 .family = queue->line->family};
    vram_status status =
        VR_VULKAN(device, vkCreateCommandPool, device->handle, &info, NULL, &queue->pool);
    if (status == VRAM_OK && !queue->pool) {
        status = vr_vulkan_lied("vkCreateCommandPool", 0);
    }
    return status;
}

static vram_status queue_make(struct vr_queue *queue, struct vr_vulkan_line *line) {
    struct vr_vulkan_device *device = queue->device->impl;
    struct vr_vulkan_queue *impl = vr_mem_alloc(1, sizeof *impl, "vulkan_queue_create");
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (!impl) {
        goto fail_line;
    }
    impl->device = device;
    impl->line = line;
    vr_list_init(&impl->busy);
    vr_list_init(&impl->idle);
    vr_list_init(&impl->spent);
    status = vr_vulkan_clock_take(device, &impl->clock);
    if (status != VRAM_OK) {
        goto fail_impl;
    }
    if (device->physical->properties.kind == VR_VK_KIND_CPU) {
        status = vr_vulkan_watch_make(device, impl->clock, &impl->watch);
    }
    if (status == VRAM_OK) {
        status = pool_make(impl);
    }
    if (status != VRAM_OK) {
        goto fail_clock;
    }
    impl->word_high = (uint32_t)(vr_load(impl->clock->word, VR_ACQUIRE) >> 32);
    queue->impl = impl;
    queue->native = line->handle;
    queue->word = impl->clock->word;
    return VRAM_OK;

fail_clock:
    vr_vulkan_watch_end(impl->watch, false);
    vr_vulkan_clock_give(device, impl->clock);
fail_impl:
    vr_mem_free(impl);
fail_line:
    line_leave(device, line);
    return status;
}

/* Vulkan has priorities for native queues only, which are given when the device is made. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    return queue_make(queue, line_choose(queue->device->impl));
}

static vram_status queue_adopt(struct vr_queue *queue) {
    struct vr_vulkan_line *line = line_find(queue->device->impl, queue->native);
    if (!line) {
        return vr_error_set(VRAM_ERR_INVALID, "vulkan", "vram_queue_adopt", 0,
                            "the VkQueue is not one of this device: name it, with its family, in "
                            "the adoption of the device (vram/vulkan.h)");
    }
    return queue_make(queue, line);
}

/* The memory under its work goes back next: a driver that refuses to wait is asked more than once.
   One that lost the device, or that has had its time, has given its answer. */
static bool queue_finish(const struct vr_vulkan_queue *impl) {
    uint64_t submitted = vr_load(&impl->clock->submitted, VR_ACQUIRE);
    vram_status status = VRAM_OK;
    for (int i = 0; submitted && i <= FINISHES; i++) {
        status = vr_vulkan_clock_wait(impl->device, impl->clock, submitted, FINISH_NS);
        if (status == VRAM_OK || status == VRAM_ERR_TIMEOUT || status == VRAM_ERR_DEVICE_LOST) {
            break;
        }
    }
    return status == VRAM_OK;
}

/* What does not finish keeps its clock and its command buffers: the driver may still use them. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_device *device = impl->device;
    bool lost = vr_load(&queue->device->lost, VR_ACQUIRE), finished = false;
    vram_error before;
    vr_error_save(&before);
    if (!lost) {
        finished = queue_finish(impl);
    }
    vr_vulkan_watch_end(impl->watch, finished);
    vr_vulkan_batches_end(impl, !finished);
    if (finished) {
        vr_vulkan_clock_give(device, impl->clock);
    }
    line_leave(device, impl->line);
    vr_error_restore(&before);
    vr_mem_free(impl);
    queue->impl = NULL;
}

const struct vr_queue_ops vr_vulkan_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_vulkan_upload,
    .download = vr_vulkan_download,
    .copy = vr_vulkan_copy,
    .fill = vr_vulkan_fill,
    .signal = queue_signal,
    .after = queue_after,
    .poll = queue_poll,
};
