/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_clock.c: words and timeline semaphores that tell how far a queue has come.
 *
 *      a block of coherent memory, mapped
 *     +--------+--------+--------+-     -+--------+
 *     | word 0 | word 1 | word 2 |  ...  | word 63|     64 bytes each, one cache line
 *     +--------+--------+--------+-     -+--------+
 *
 * The host reads a word, which the device writes by a command behind the work (on the CPU a thread
 * of ours does, vulkan_watch.c). The driver need not be asked then, which a semaphore alone would
 * need. The semaphore counts submissions; other queues wait for it on the device, and the backend
 * learns from it which command buffers and staging are free.
 *
 * Both live until the device is closed, so that whoever still looks or waits finds them. The next
 * queue that takes them goes on counting: neither is ever set back.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

enum { PAGE_BYTES = 4096, WORD_STRIDE = 64, PAGE_WORDS = PAGE_BYTES / WORD_STRIDE };

/* ---------------------------------------------------------- taking, giving */

static vram_status semaphore_make(struct vr_vulkan_device *device,
                                  struct vr_vk_semaphore **semaphore) {
    struct vr_vk_semaphore_type type = {.head = {VR_VK_TYPE_SEMAPHORE_TYPE, NULL},
                                        .type = VR_VK_SEMAPHORE_TIMELINE};
    const struct vr_vk_semaphore_info info = {.head = {VR_VK_TYPE_SEMAPHORE, &type}};
    vram_status status =
        VR_VULKAN(device, vkCreateSemaphore, device->handle, &info, NULL, semaphore);
    if (status == VRAM_OK && !*semaphore) {
        status = vr_vulkan_lied("vkCreateSemaphore", 0);
    }
    return status;
}

/* One more page of words, each with a clock that has no semaphore yet. No lock is held across the
   driver's calls, so two threads may both add one: both will be used in time. */
static vram_status page_add(struct vr_vulkan_device *device) {
    struct vr_vulkan_block *page;
    struct vr_vulkan_clock *clocks =
        vr_mem_alloc(PAGE_WORDS, sizeof *clocks, "vulkan_queue_create");
    if (!clocks) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_vulkan_block_make(device, PAGE_BYTES, VR_VULKAN_ON_HOST, &page);
    if (status != VRAM_OK) {
        vr_mem_free(clocks);
        return status;
    }
    memset(page->own.mapped, 0, PAGE_BYTES);
    for (int i = 0; i < PAGE_WORDS; i++) {
        clocks[i].page = page;
        clocks[i].offset = (uint64_t)i * WORD_STRIDE;
        clocks[i].word = (vr_atomic_u64 *)(void *)(page->own.mapped + clocks[i].offset);
        clocks[i].next = i + 1 < PAGE_WORDS ? &clocks[i + 1] : NULL;
    }
    vr_mutex_lock(&device->lock);
    clocks[PAGE_WORDS - 1].next = device->clocks;
    device->clocks = clocks;
    vr_list_append(&device->pages, &page->own.link);
    vr_mutex_unlock(&device->lock);
    return VRAM_OK;
}

/* A clock that nobody has, or NULL. */
static struct vr_vulkan_clock *find_free(struct vr_vulkan_device *device) {
    vr_mutex_lock(&device->lock);
    struct vr_vulkan_clock *clock = device->clocks;
    while (clock && clock->taken) {
        clock = clock->next;
    }
    if (clock) {
        clock->taken = true;
    }
    vr_mutex_unlock(&device->lock);
    return clock;
}

void vr_vulkan_clock_give(struct vr_vulkan_device *device, struct vr_vulkan_clock *clock) {
    vr_mutex_lock(&device->lock);
    clock->taken = false;
    vr_mutex_unlock(&device->lock);
}

vram_status vr_vulkan_clock_take(struct vr_vulkan_device *device, struct vr_vulkan_clock **clock) {
    struct vr_vulkan_clock *found;
    while (!(found = find_free(device))) {
        vram_status status = page_add(device);
        if (status != VRAM_OK) {
            return status;
        }
    }
    if (!found->semaphore) {
        vram_status status = semaphore_make(device, &found->semaphore);
        if (status != VRAM_OK) {
            found->semaphore = NULL;
            vr_vulkan_clock_give(device, found);
            return status;
        }
    }
    *clock = found;
    return VRAM_OK;
}

/* The clocks of a page are one array, which begins with that of its first word. */
void vr_vulkan_clocks_end(struct vr_vulkan_device *device, bool lost) {
    struct vr_vulkan_clock *next;
    struct vr_link *link;
    for (struct vr_vulkan_clock *clock = device->clocks; clock; clock = clock->next) {
        if (clock->semaphore && !lost) {
            device->api.vkDestroySemaphore(device->handle, clock->semaphore, NULL);
        }
    }
    for (struct vr_vulkan_clock *clock = device->clocks; clock; clock = next) {
        next = clock[PAGE_WORDS - 1].next;
        vr_mem_free(clock);
    }
    device->clocks = NULL;
    while ((link = vr_list_first(&device->pages))) {
        vr_link_remove(link);
        vr_vulkan_block_end(device, vr_vulkan_block_of(link), lost);
    }
}

/* -------------------------------------------------------- reading, waiting */

vram_status vr_vulkan_clock_read(struct vr_vulkan_device *device,
                                 const struct vr_vulkan_clock *clock, uint64_t *value) {
    return VR_VULKAN(device, vkGetSemaphoreCounterValue, device->handle, clock->semaphore, value);
}

vram_status vr_vulkan_clock_wait(struct vr_vulkan_device *device,
                                 const struct vr_vulkan_clock *clock, uint64_t value, uint64_t ns) {
    const struct vr_vk_semaphore_wait info = {.head = {VR_VK_TYPE_SEMAPHORE_WAIT, NULL},
                                              .count = 1,
                                              .semaphores = &clock->semaphore,
                                              .values = &value};
    vr_vk_result code = device->api.vkWaitSemaphores(device->handle, &info, ns);
    return code == VR_VK_TIMEOUT
               ? vr_error_set(VRAM_ERR_TIMEOUT, "vulkan", "vkWaitSemaphores", code,
                              "the work was not done within %llu ms",
                              (unsigned long long)(ns / 1000000))
               : vr_vulkan_device_check(device, "vkWaitSemaphores", code, VRAM_ERR_DEVICE_MEMORY);
}
