/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_batch.c: command buffers on their way to a native queue and back.
 *
 * Invariants
 *  (1) Submissions of one queue count its clock up by one each, in order. So a command buffer or a
 *      block of staging that carries value v is free once the clock has reached v.
 *  (2) Every batch begins by waiting, on the device, for all that went to the native queue before
 *      it, and sees what that wrote. Vulkan starts submissions in order but lets them overlap; a
 *      queue of libvram is in order. Queues that share a native one wait for each other, which is
 *      slow but right.
 *  (3) A submission that the driver refuses has not happened: the clock is not counted up, and the
 *      batch is used again.
 *
 * The line is locked while a batch is written, since Vulkan wants the pool of command buffers to
 * one thread. What comes back free meanwhile is given away after the lock.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/memory.h"

struct vr_vulkan_batch {
    struct vr_link link; /* in queue->busy or ->idle */
    struct vr_vk_commands *commands;
    uint64_t value; /* of the clock, behind it */
};

/* ---------------------------------------------------------------- recycling */

static struct vr_vulkan_batch *batch_of(struct vr_link *link) {
    return VR_CONTAINER(link, struct vr_vulkan_batch, link);
}

/* Moves what the clock has passed to where it is used again. A driver that does not answer is asked
   another time; what it has lost will be noticed by the submission. */
static void recycle(struct vr_vulkan_queue *queue, struct vr_list *freed) {
    uint64_t passed = 0;
    struct vr_link *link;
    vr_vk_result code = queue->device->api.vkGetSemaphoreCounterValue(
        queue->device->handle, queue->clock->semaphore, &passed);
    if (code != VR_VK_SUCCESS) {
        return;
    }
    while ((link = vr_list_first(&queue->busy)) && batch_of(link)->value <= passed) {
        vr_link_remove(link);
        vr_list_append(&queue->idle, link);
    }
    while ((link = vr_list_first(&queue->spent))) {
        struct vr_vulkan_block *block = vr_vulkan_block_of(link);
        if (block->own.value > passed) {
            break;
        }
        vr_link_remove(link);
        vr_list_append(freed, link);
        queue->spent_bytes -= block->own.bytes;
    }
}

static vram_status batch_make(struct vr_vulkan_queue *queue, struct vr_vulkan_batch **made) {
    struct vr_vulkan_device *device = queue->device;
    const struct vr_vk_commands_info info = {
        .head = {VR_VK_TYPE_COMMANDS, NULL}, .pool = queue->pool, .count = 1};
    struct vr_vulkan_batch *batch = vr_mem_alloc(1, sizeof *batch, "vkAllocateCommandBuffers");
    if (!batch) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status =
        VR_VULKAN(device, vkAllocateCommandBuffers, device->handle, &info, &batch->commands);
    if (status == VRAM_OK && !batch->commands) {
        status = vr_vulkan_lied("vkAllocateCommandBuffers", 0);
    }
    if (status != VRAM_OK) {
        vr_mem_free(batch);
        return status;
    }
    *made = batch;
    return VRAM_OK;
}

static vram_status batch_take(struct vr_vulkan_queue *queue, struct vr_list *freed,
                              struct vr_vulkan_batch **batch) {
    if (vr_list_empty(&queue->idle)) {
        recycle(queue, freed);
    }
    struct vr_link *link = vr_list_first(&queue->idle);
    if (!link) {
        return batch_make(queue, batch);
    }
    vr_link_remove(link);
    *batch = batch_of(link);
    return VRAM_OK;
}

void vr_vulkan_batches_end(struct vr_vulkan_queue *queue, bool lost) {
    struct vr_list *const lists[] = {&queue->busy, &queue->idle};
    struct vr_link *link;
    for (int i = 0; i < 2; i++) {
        while ((link = vr_list_first(lists[i]))) {
            vr_link_remove(link);
            vr_mem_free(batch_of(link));
        }
    }
    if (queue->chunk) {
        vr_list_append(&queue->spent, &queue->chunk->own.link);
    }
    while ((link = vr_list_first(&queue->spent))) {
        struct vr_vulkan_block *block = vr_vulkan_block_of(link);
        vr_link_remove(link);
        if (lost) {
            vr_vulkan_block_end(queue->device, block, true);
        } else {
            vr_vulkan_staging_give(queue->device, block);
        }
    }
    if (queue->pool && !lost) {
        queue->device->api.vkDestroyCommandPool(queue->device->handle, queue->pool, NULL);
    }
}

/* ---------------------------------------------------------------- recording */

void vr_vulkan_order(const struct vr_vulkan_recording *recording) {
    static const struct vr_vk_barrier barrier = {.head = {VR_VK_TYPE_BARRIER, NULL},
                                                 .from_access = VR_VK_ACCESS_MEMORY_WRITE,
                                                 .to_access = VR_VK_ACCESS_MEMORY_READ |
                                                              VR_VK_ACCESS_MEMORY_WRITE};
    recording->queue->device->api.vkCmdPipelineBarrier(recording->commands, VR_VK_PIPE_ALL,
                                                       VR_VK_PIPE_ALL | VR_VK_PIPE_HOST, 0, 1,
                                                       &barrier, 0, NULL, 0, NULL);
}

static void leave(struct vr_vulkan_recording *recording) {
    vr_vulkan_line_unlock(recording->queue->line);
    vr_vulkan_staging_give_all(recording->queue->device, &recording->freed);
}

vram_status vr_vulkan_begin(struct vr_vulkan_recording *recording, struct vr_vulkan_queue *queue) {
    static const struct vr_vk_begin_info info = {.head = {VR_VK_TYPE_BEGIN, NULL},
                                                 .flags = VR_VK_BEGIN_ONCE};
    *recording = (struct vr_vulkan_recording){.queue = queue};
    vr_list_init(&recording->freed);
    vr_vulkan_line_lock(queue->line);
    vram_status status = batch_take(queue, &recording->freed, &recording->batch);
    if (status != VRAM_OK) {
        leave(recording);
        return status;
    }
    recording->commands = recording->batch->commands;
    status = VR_VULKAN(queue->device, vkBeginCommandBuffer, recording->commands, &info);
    if (status != VRAM_OK) {
        vr_vulkan_cancel(recording);
        return status;
    }
    vr_vulkan_order(recording); /* keeps (2) */
    return VRAM_OK;
}

void vr_vulkan_cancel(struct vr_vulkan_recording *recording) {
    vr_list_append(&recording->queue->idle, &recording->batch->link);
    leave(recording);
}

/* A chunk that is full has no use behind what was submitted so far. */
vram_status vr_vulkan_chunk_cut(struct vr_vulkan_recording *recording, uint64_t bytes,
                                struct vr_vk_buffer **buffer, uint64_t *offset, char **pointer) {
    struct vr_vulkan_queue *queue = recording->queue;
    if (!queue->chunk || queue->chunk->own.bytes - queue->chunk_used < bytes) {
        struct vr_vulkan_block *fresh;
        vram_status status = vr_vulkan_staging_take(queue->device, VR_VULKAN_SMALL, &fresh);
        if (status != VRAM_OK) {
            return status;
        }
        if (queue->chunk) {
            queue->chunk->own.value = vr_load(&queue->clock->submitted, VR_RELAXED);
            vr_list_append(&queue->spent, &queue->chunk->own.link);
            queue->spent_bytes += queue->chunk->own.bytes;
        }
        queue->chunk = fresh;
        queue->chunk_used = 0;
    }
    *buffer = queue->chunk->own.buffer;
    *offset = queue->chunk_used;
    *pointer = queue->chunk->own.mapped + queue->chunk_used;
    queue->chunk_used += (bytes + 15) / 16 * 16;
    return VRAM_OK;
}

/* --------------------------------------------------------------- submitting */

/* Hands work to the native queue, behind which the clock counts up by one; keeps (1) and (3). */
static vram_status hand_over(struct vr_vulkan_queue *queue, struct vr_vk_commands *commands,
                             const struct vr_vulkan_clock *other, uint64_t other_value,
                             uint64_t *value) {
    static const uint32_t stage = VR_VK_PIPE_ALL;
    uint64_t next = vr_load(&queue->clock->submitted, VR_RELAXED) + 1;
    struct vr_vk_timeline_submit timeline = {.head = {VR_VK_TYPE_TIMELINE_SUBMIT, NULL},
                                             .wait_count = other != NULL,
                                             .wait_values = &other_value,
                                             .signal_count = 1,
                                             .signal_values = &next};
    const struct vr_vk_submit submit = {.head = {VR_VK_TYPE_SUBMIT, &timeline},
                                        .wait_count = other != NULL,
                                        .waits = other ? &other->semaphore : NULL,
                                        .wait_stages = &stage,
                                        .commands_count = commands != NULL,
                                        .commands = &commands,
                                        .signal_count = 1,
                                        .signals = &queue->clock->semaphore};
    vram_status status =
        VR_VULKAN(queue->device, vkQueueSubmit, queue->line->handle, 1, &submit, NULL);
    if (status == VRAM_OK) {
        vr_store(&queue->clock->submitted, next, VR_RELEASE);
        *value = next;
    }
    return status;
}

vram_status vr_vulkan_submit(struct vr_vulkan_recording *recording, struct vr_vulkan_block *staging,
                             uint64_t *value) {
    struct vr_vulkan_queue *queue = recording->queue;
    struct vr_vulkan_batch *batch = recording->batch;
    vram_status status = VR_VULKAN(queue->device, vkEndCommandBuffer, recording->commands);
    if (status == VRAM_OK) {
        status = hand_over(queue, recording->commands, NULL, 0, &batch->value);
    }
    if (status != VRAM_OK) {
        if (staging) {
            vr_list_append(&recording->freed, &staging->own.link);
        }
        vr_vulkan_cancel(recording);
        return status;
    }
    if (value) {
        *value = batch->value;
    }
    if (recording->signals) {
        queue->word_high = (uint32_t)(recording->word >> 32);
        queue->signals[queue->signal_count++ % VR_VULKAN_SIGNALS] =
            (struct vr_vulkan_signal){recording->word, batch->value};
    }
    if (recording->mark) {
        vr_vulkan_mark_set(queue->watch, recording->mark, recording->word, batch->value);
    }
    if (staging) {
        staging->own.value = batch->value;
        vr_list_append(&queue->spent, &staging->own.link);
        queue->spent_bytes += staging->own.bytes;
    }
    vr_list_append(&queue->busy, &batch->link);
    leave(recording);
    return VRAM_OK;
}

vram_status vr_vulkan_submit_wait(struct vr_vulkan_queue *queue,
                                  const struct vr_vulkan_clock *other, uint64_t other_value,
                                  uint64_t *value) {
    uint64_t reached;
    vr_vulkan_line_lock(queue->line);
    vram_status status = hand_over(queue, NULL, other, other_value, &reached);
    if (status == VRAM_OK && value) {
        *value = reached;
    }
    vr_vulkan_line_unlock(queue->line);
    return status;
}
