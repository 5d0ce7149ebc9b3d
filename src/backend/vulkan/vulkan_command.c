/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_command.c: command buffers: recording, submitting, reusing.
 *
 * Invariants
 *  (1) Each submission of a queue raises its timeline by one, in order. So a command buffer or
 *      staging memory with value v is free once the timeline has reached v.
 *  (2) Every command buffer begins with a barrier: it waits, on the device, for all work submitted
 *      to the native queue before it, and sees its writes. Vulkan starts submissions in order but
 *      lets them overlap; a queue of libvram is in order. Queues that share a native queue wait for
 *      each other, which is slow but correct.
 *  (3) A submission that the driver refuses has not happened: the timeline is not raised, and the
 *      command buffer is reused.
 *
 * The native queue is locked while a command buffer is recorded, because Vulkan allows only one
 * thread at a time to use a command pool. Staging memory that becomes free is given back after the
 * unlock.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/memory.h"

struct vr_vulkan_command_buffer {
    struct vr_link link; /* in queue->busy or ->idle */
    struct vr_vk_commands *commands;
    uint64_t value; /* of the timeline, when it is complete */
};

/* ---------------------------------------------------------------- recycling */

static struct vr_vulkan_command_buffer *command_buffer_of(struct vr_link *link) {
    return VR_CONTAINER(link, struct vr_vulkan_command_buffer, link);
}

/* Makes reusable what the timeline has passed. If the driver fails, it is asked another time; a
   lost device will be noticed by the submission. */
static void command_buffers_recycle(struct vr_vulkan_queue *queue, struct vr_list *freed) {
    uint64_t passed = 0;
    struct vr_link *link;
    vr_vk_result code = queue->device->api.vkGetSemaphoreCounterValue(
        queue->device->handle, queue->timeline->semaphore, &passed);
    if (code != VR_VK_SUCCESS) {
        return;
    }
    while ((link = vr_list_first(&queue->busy)) && command_buffer_of(link)->value <= passed) {
        vr_link_remove(link);
        vr_list_append(&queue->idle, link);
    }
    while ((link = vr_list_first(&queue->staging_busy))) {
        struct vr_vulkan_memory *memory = vr_vulkan_memory_of(link);
        if (memory->own.value > passed) {
            break;
        }
        vr_link_remove(link);
        vr_list_append(freed, link);
        queue->staging_busy_bytes -= memory->own.bytes;
    }
}

static vram_status command_buffer_make(struct vr_vulkan_queue *queue,
                                       struct vr_vulkan_command_buffer **made) {
    struct vr_vulkan_device *device = queue->device;
    const struct vr_vk_commands_info info = {
        .head = {VR_VK_TYPE_COMMANDS, NULL}, .pool = queue->pool, .count = 1};
    struct vr_vulkan_command_buffer *command_buffer =
        vr_mem_alloc(1, sizeof *command_buffer, "vkAllocateCommandBuffers");
    if (!command_buffer) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = VR_VULKAN(device, vkAllocateCommandBuffers, device->handle, &info,
                                   &command_buffer->commands);
    if (status == VRAM_OK && !command_buffer->commands) {
        status = vr_vulkan_bad_result("vkAllocateCommandBuffers", 0);
    }
    if (status != VRAM_OK) {
        vr_mem_free(command_buffer);
        return status;
    }
    *made = command_buffer;
    return VRAM_OK;
}

static vram_status command_buffer_take(struct vr_vulkan_queue *queue, struct vr_list *freed,
                                       struct vr_vulkan_command_buffer **command_buffer) {
    if (vr_list_empty(&queue->idle)) {
        command_buffers_recycle(queue, freed);
    }
    struct vr_link *link = vr_list_first(&queue->idle);
    if (!link) {
        return command_buffer_make(queue, command_buffer);
    }
    vr_link_remove(link);
    *command_buffer = command_buffer_of(link);
    return VRAM_OK;
}

void vr_vulkan_command_buffers_end(struct vr_vulkan_queue *queue, bool lost) {
    struct vr_list *const lists[] = {&queue->busy, &queue->idle};
    struct vr_link *link;
    for (int i = 0; i < 2; i++) {
        while ((link = vr_list_first(lists[i]))) {
            vr_link_remove(link);
            vr_mem_free(command_buffer_of(link));
        }
    }
    if (queue->chunk) {
        vr_list_append(&queue->staging_busy, &queue->chunk->own.link);
    }
    while ((link = vr_list_first(&queue->staging_busy))) {
        struct vr_vulkan_memory *memory = vr_vulkan_memory_of(link);
        vr_link_remove(link);
        if (lost) {
            vr_vulkan_memory_end(queue->device, memory, true);
        } else {
            vr_vulkan_staging_give(queue->device, memory);
        }
    }
    if (!lost) {
        queue->device->api.vkDestroyCommandPool(queue->device->handle, queue->pool, NULL);
    }
}

/* ---------------------------------------------------------------- recording */

void vr_vulkan_barrier(const struct vr_vulkan_recording *recording) {
    static const struct vr_vk_barrier barrier = {.head = {VR_VK_TYPE_BARRIER, NULL},
                                                 .from_access = VR_VK_ACCESS_MEMORY_WRITE,
                                                 .to_access = VR_VK_ACCESS_MEMORY_READ |
                                                              VR_VK_ACCESS_MEMORY_WRITE};
    recording->queue->device->api.vkCmdPipelineBarrier(recording->commands, VR_VK_PIPE_ALL,
                                                       VR_VK_PIPE_ALL | VR_VK_PIPE_HOST, 0, 1,
                                                       &barrier, 0, NULL, 0, NULL);
}

static void recording_leave(struct vr_vulkan_recording *recording) {
    vr_vulkan_native_queue_unlock(recording->queue->native_queue);
    vr_vulkan_staging_give_all(recording->queue->device, &recording->freed);
}

vram_status vr_vulkan_begin(struct vr_vulkan_recording *recording, struct vr_vulkan_queue *queue) {
    static const struct vr_vk_begin_info info = {.head = {VR_VK_TYPE_BEGIN, NULL},
                                                 .flags = VR_VK_BEGIN_ONCE};
    *recording = (struct vr_vulkan_recording){.queue = queue};
    vr_list_init(&recording->freed);
    vr_vulkan_native_queue_lock(queue->native_queue);
    vram_status status = command_buffer_take(queue, &recording->freed, &recording->command_buffer);
    if (status != VRAM_OK) {
        recording_leave(recording);
        return status;
    }
    recording->commands = recording->command_buffer->commands;
    status = VR_VULKAN(queue->device, vkBeginCommandBuffer, recording->commands, &info);
    if (status != VRAM_OK) {
        vr_vulkan_cancel(recording);
        return status;
    }
    vr_vulkan_barrier(recording); /* keeps (2) */
    return VRAM_OK;
}

void vr_vulkan_cancel(struct vr_vulkan_recording *recording) {
    vr_list_append(&recording->queue->idle, &recording->command_buffer->link);
    recording_leave(recording);
}

/* When a chunk is full, the work submitted so far is the last that uses it. */
vram_status vr_vulkan_chunk_cut(struct vr_vulkan_recording *recording, uint64_t bytes,
                                struct vr_vk_buffer **buffer, uint64_t *offset, char **pointer) {
    struct vr_vulkan_queue *queue = recording->queue;
    if (!queue->chunk || queue->chunk->own.bytes - queue->chunk_used < bytes) {
        struct vr_vulkan_memory *fresh;
        vram_status status = vr_vulkan_staging_take(queue->device, VR_VULKAN_SMALL, &fresh);
        if (status != VRAM_OK) {
            return status;
        }
        if (queue->chunk) {
            queue->chunk->own.value = vr_load(&queue->timeline->submitted, VR_RELAXED);
            vr_list_append(&queue->staging_busy, &queue->chunk->own.link);
            queue->staging_busy_bytes += queue->chunk->own.bytes;
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

/* Submits to the native queue and raises the timeline by one; keeps (1) and (3). */
static vram_status native_submit(struct vr_vulkan_queue *queue, struct vr_vk_commands *commands,
                                 const struct vr_vulkan_timeline *other, uint64_t other_value,
                                 uint64_t *value) {
    static const uint32_t stage = VR_VK_PIPE_ALL;
    uint64_t next = vr_load(&queue->timeline->submitted, VR_RELAXED) + 1;
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
                                        .signals = &queue->timeline->semaphore};
    vram_status status =
        VR_VULKAN(queue->device, vkQueueSubmit, queue->native_queue->handle, 1, &submit, NULL);
    if (status == VRAM_OK) {
        vr_store(&queue->timeline->submitted, next, VR_RELEASE);
        *value = next;
    }
    return status;
}

vram_status vr_vulkan_submit(struct vr_vulkan_recording *recording,
                             struct vr_vulkan_memory *staging, uint64_t *value) {
    struct vr_vulkan_queue *queue = recording->queue;
    struct vr_vulkan_command_buffer *command_buffer = recording->command_buffer;
    vram_status status = VR_VULKAN(queue->device, vkEndCommandBuffer, recording->commands);
    if (status == VRAM_OK) {
        status = native_submit(queue, recording->commands, NULL, 0, &command_buffer->value);
    }
    if (status != VRAM_OK) {
        if (staging) {
            vr_list_append(&recording->freed, &staging->own.link);
        }
        vr_vulkan_cancel(recording);
        return status;
    }
    if (value) {
        *value = command_buffer->value;
    }
    if (recording->signals) {
        queue->word_high = (uint32_t)(recording->word >> 32);
        queue->signals[queue->signal_count++ % VR_VULKAN_SIGNALS] =
            (struct vr_vulkan_signal){recording->word, command_buffer->value};
    }
    if (recording->write) {
        vr_vulkan_word_write_add(queue->word_thread, recording->write, recording->word,
                                 command_buffer->value);
    }
    if (staging) {
        staging->own.value = command_buffer->value;
        vr_list_append(&queue->staging_busy, &staging->own.link);
        queue->staging_busy_bytes += staging->own.bytes;
    }
    vr_list_append(&queue->busy, &command_buffer->link);
    recording_leave(recording);
    return VRAM_OK;
}

vram_status vr_vulkan_submit_wait(struct vr_vulkan_queue *queue,
                                  const struct vr_vulkan_timeline *other, uint64_t other_value,
                                  uint64_t *value) {
    uint64_t reached;
    vr_vulkan_native_queue_lock(queue->native_queue);
    vram_status status = native_submit(queue, NULL, other, other_value, &reached);
    if (status == VRAM_OK && value) {
        *value = reached;
    }
    vr_vulkan_native_queue_unlock(queue->native_queue);
    return status;
}
