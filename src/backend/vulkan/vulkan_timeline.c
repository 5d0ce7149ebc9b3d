/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_timeline.c: words and timeline semaphores, which tell how far a queue's work is complete;
 * signals, waits and polls.
 *
 *      coherent memory, mapped
 *     +--------+--------+--------+-     -+--------+
 *     | word 0 | word 1 | word 2 |  ...  | word 63|     64 bytes each, one cache line
 *     +--------+--------+--------+-     -+--------+
 *
 * The host reads a word, which the device writes by a command after the work. With a semaphore
 * alone, every read would be a driver call. The semaphore counts submissions: other queues wait for
 * it on the device, and it tells which command buffers and staging memory are free. Both live until
 * the device is closed, so that later reads and waits find them. The next queue that uses them
 * continues counting: neither is ever reset.
 *
 * A GPU's write into coherent memory is seen whole and in order. A driver that runs on the CPU
 * copies with ordinary stores, which would be a data race with the reader. On such a device a queue
 * has a thread that waits for the semaphore, in the order of the signals, and writes the word
 * itself.
 *
 * A GPU need not write 64 bits at once, so the host might see one half of the old value and one of
 * the new. That matters only if the upper half changes, once in 2^32 signals. Then the word is
 * written in three steps, each of which leaves a value that is not too high: see word_record.
 *
 * The program submits to an adopted queue by itself. Only a submission can tell whether it is idle:
 * a poll submits an empty one, and if the one before is complete, waits for it for a short time.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

#define IDLE_CHECK_NS UINT64_C(200000)    /* for an empty submission on a queue that seems idle */
#define SLICE_NS      UINT64_C(100000000) /* longest wait until the end of the queue is seen */
#define RETRY_NS      UINT64_C(1000000)   /* until a refused call is repeated */

enum { RUNNING = 0, FINISHED = 1, ABANDONED = 2 };

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
        status = vr_vulkan_bad_result("vkCreateSemaphore", 0);
    }
    return status;
}

/* Adds a page of words, each with a timeline that has no semaphore yet. No lock is held across the
   driver's calls, so two threads may both add one; both will be used. */
static vram_status page_add(struct vr_vulkan_device *device) {
    struct vr_vulkan_memory *page;
    struct vr_vulkan_timeline *timelines =
        vr_mem_alloc(PAGE_WORDS, sizeof *timelines, "vulkan_queue_create");
    if (!timelines) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_vulkan_memory_make(device, PAGE_BYTES, VR_VULKAN_ON_HOST, &page);
    if (status != VRAM_OK) {
        vr_mem_free(timelines);
        return status;
    }
    memset(page->own.mapped, 0, PAGE_BYTES);
    for (int i = 0; i < PAGE_WORDS; i++) {
        timelines[i].page = page;
        timelines[i].offset = (uint64_t)i * WORD_STRIDE;
        timelines[i].word = (vr_atomic_u64 *)(void *)(page->own.mapped + timelines[i].offset);
        timelines[i].next = i + 1 < PAGE_WORDS ? &timelines[i + 1] : NULL;
    }
    vr_mutex_lock(&device->lock);
    timelines[PAGE_WORDS - 1].next = device->timelines;
    device->timelines = timelines;
    vr_list_append(&device->pages, &page->own.link);
    vr_mutex_unlock(&device->lock);
    return VRAM_OK;
}

/* A timeline that no queue uses, or NULL. */
static struct vr_vulkan_timeline *timeline_find_free(struct vr_vulkan_device *device) {
    vr_mutex_lock(&device->lock);
    struct vr_vulkan_timeline *timeline = device->timelines;
    while (timeline && timeline->taken) {
        timeline = timeline->next;
    }
    if (timeline) {
        timeline->taken = true;
    }
    vr_mutex_unlock(&device->lock);
    return timeline;
}

void vr_vulkan_timeline_give(struct vr_vulkan_device *device, struct vr_vulkan_timeline *timeline) {
    vr_mutex_lock(&device->lock);
    timeline->taken = false;
    vr_mutex_unlock(&device->lock);
}

vram_status vr_vulkan_timeline_take(struct vr_vulkan_device *device,
                                    struct vr_vulkan_timeline **timeline) {
    struct vr_vulkan_timeline *found;
    while (!(found = timeline_find_free(device))) {
        vram_status status = page_add(device);
        if (status != VRAM_OK) {
            return status;
        }
    }
    if (!found->semaphore) {
        vram_status status = semaphore_make(device, &found->semaphore);
        if (status != VRAM_OK) {
            found->semaphore = NULL;
            vr_vulkan_timeline_give(device, found);
            return status;
        }
    }
    *timeline = found;
    return VRAM_OK;
}

/* The timelines of a page are one array, which begins with that of its first word. */
void vr_vulkan_timelines_end(struct vr_vulkan_device *device, bool lost) {
    struct vr_vulkan_timeline *next;
    struct vr_link *link;
    for (struct vr_vulkan_timeline *timeline = device->timelines; timeline;
         timeline = timeline->next) {
        if (timeline->semaphore && !lost) {
            device->api.vkDestroySemaphore(device->handle, timeline->semaphore, NULL);
        }
    }
    for (struct vr_vulkan_timeline *timeline = device->timelines; timeline; timeline = next) {
        next = timeline[PAGE_WORDS - 1].next;
        vr_mem_free(timeline);
    }
    device->timelines = NULL;
    while ((link = vr_list_first(&device->pages))) {
        vr_link_remove(link);
        vr_vulkan_memory_end(device, vr_vulkan_memory_of(link), lost);
    }
}

/* -------------------------------------------------------- reading, waiting */

vram_status vr_vulkan_timeline_read(struct vr_vulkan_device *device,
                                    const struct vr_vulkan_timeline *timeline, uint64_t *value) {
    return VR_VULKAN(device, vkGetSemaphoreCounterValue, device->handle, timeline->semaphore,
                     value);
}

vram_status vr_vulkan_timeline_wait(struct vr_vulkan_device *device,
                                    const struct vr_vulkan_timeline *timeline, uint64_t value,
                                    uint64_t ns) {
    const struct vr_vk_semaphore_wait info = {.head = {VR_VK_TYPE_SEMAPHORE_WAIT, NULL},
                                              .count = 1,
                                              .semaphores = &timeline->semaphore,
                                              .values = &value};
    vr_vk_result code = device->api.vkWaitSemaphores(device->handle, &info, ns);
    return code == VR_VK_TIMEOUT
               ? vr_error_set(VRAM_ERR_TIMEOUT, "vulkan", "vkWaitSemaphores", code,
                              "the work was not done within %llu ms",
                              (unsigned long long)(ns / 1000000))
               : vr_vulkan_device_check(device, "vkWaitSemaphores", code, VRAM_ERR_DEVICE_MEMORY);
}

/* ------------------------------------------------------------- word threads */

/* A pending write: the word becomes `word` when the timeline has reached `value`. */
struct vulkan_word_write {
    struct vr_link link;
    uint64_t word, value;
};

struct vr_vulkan_word_thread {
    struct vr_vulkan_device *device;
    struct vr_vulkan_timeline *timeline;
    struct vr_thread thread;
    struct vr_mutex lock;  /* guards the rest */
    struct vr_cond wake;   /* a write was added, or the end */
    struct vr_list writes; /* in the order of the signals */
    bool ending;           /* the thread exits when the list is empty */
    vr_atomic_u32 end;     /* RUNNING, FINISHED or ABANDONED */
};

/* Once the process exits, no driver call is made. */
static vr_atomic_bool exiting;
static struct vr_once exiting_once = VR_ONCE_INIT;

static void exit_note(void) {
    vr_store(&exiting, true, VR_RELEASE);
}

/* If the handler cannot be registered, the process exits without it. */
static void exit_watch(void) {
    vram_error error;
    vr_error_save(&error);
    (void)vr_os_at_exit(exit_note);
    vr_error_restore(&error);
}

static struct vulkan_word_write *word_write_next(struct vr_vulkan_word_thread *word_thread) {
    vr_mutex_lock(&word_thread->lock);
    while (vr_list_empty(&word_thread->writes) && !word_thread->ending) {
        vr_cond_wait(&word_thread->wake, &word_thread->lock, UINT64_MAX);
    }
    struct vr_link *link = vr_list_first(&word_thread->writes);
    if (link) {
        vr_link_remove(link);
    }
    vr_mutex_unlock(&word_thread->lock);
    return link ? VR_CONTAINER(link, struct vulkan_word_write, link) : NULL;
}

/* Waits for the value. If the driver refuses the wait, it is asked again later; the end of the
   queue tells without it. False if the device is lost or the queue ended unfinished. */
static bool timeline_reached(struct vr_vulkan_word_thread *word_thread, uint64_t value) {
    for (;;) {
        uint32_t end = vr_load(&word_thread->end, VR_ACQUIRE);
        if (end != RUNNING || vr_load(&exiting, VR_ACQUIRE)) {
            return end == FINISHED;
        }
        vram_status status =
            vr_vulkan_timeline_wait(word_thread->device, word_thread->timeline, value, SLICE_NS);
        if (status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST) {
            return status == VRAM_OK;
        }
        if (status != VRAM_ERR_TIMEOUT) {
            vr_os_sleep(RETRY_NS);
        }
    }
}

static void word_thread_run(void *argument) {
    struct vr_vulkan_word_thread *word_thread = argument;
    struct vulkan_word_write *write;
    bool reached = true;
    while ((write = word_write_next(word_thread))) {
        reached = reached && timeline_reached(word_thread, write->value);
        if (reached) {
            vr_atomic_max(word_thread->timeline->word, write->word);
        }
        vr_mem_free(write);
    }
}

vram_status vr_vulkan_word_thread_start(struct vr_vulkan_device *device,
                                        struct vr_vulkan_timeline *timeline,
                                        struct vr_vulkan_word_thread **made) {
    struct vr_vulkan_word_thread *word_thread =
        vr_mem_alloc(1, sizeof *word_thread, "vulkan_queue_create");
    if (!word_thread) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_once(&exiting_once, exit_watch);
    word_thread->device = device;
    word_thread->timeline = timeline;
    vr_list_init(&word_thread->writes);
    vram_status status = vr_cond_init(&word_thread->wake);
    if (status != VRAM_OK) {
        vr_mem_free(word_thread);
        return status;
    }
    vr_mutex_init(&word_thread->lock, VR_RANK_BACKEND);
    status = vr_os_thread_start(&word_thread->thread, "vram-vulkan", word_thread_run, word_thread);
    if (status != VRAM_OK) {
        vr_vulkan_word_thread_end(word_thread, false);
        return status;
    }
    *made = word_thread;
    return VRAM_OK;
}

void vr_vulkan_word_thread_end(struct vr_vulkan_word_thread *word_thread, bool finished) {
    if (!word_thread) {
        return;
    }
    vr_mutex_lock(&word_thread->lock);
    word_thread->ending = true;
    vr_store(&word_thread->end, finished ? FINISHED : ABANDONED, VR_RELEASE);
    vr_cond_broadcast(&word_thread->wake);
    vr_mutex_unlock(&word_thread->lock);
    vr_os_thread_join(&word_thread->thread);
    vr_mutex_destroy(&word_thread->lock);
    vr_cond_destroy(&word_thread->wake);
    vr_mem_free(word_thread);
}

static void *word_write_take(void) {
    return vr_mem_alloc(1, sizeof(struct vulkan_word_write), "vulkan_signal");
}

static void word_write_give(void *write) {
    vr_mem_free(write);
}

void vr_vulkan_word_write_add(struct vr_vulkan_word_thread *word_thread, void *taken, uint64_t word,
                              uint64_t value) {
    struct vulkan_word_write *write = taken;
    write->word = word;
    write->value = value;
    vr_mutex_lock(&word_thread->lock);
    vr_list_append(&word_thread->writes, &write->link);
    vr_cond_broadcast(&word_thread->wake);
    vr_mutex_unlock(&word_thread->lock);
}

/* -------------------------------------------------- signals, waits and polls */

static void word_part_record(const struct vr_vulkan_recording *recording, uint64_t offset,
                             uint64_t bytes, const void *value) {
    const struct vr_vulkan_queue *queue = recording->queue;
    queue->device->api.vkCmdUpdateBuffer(recording->commands, queue->timeline->page->own.buffer,
                                         queue->timeline->offset + offset, bytes, value);
    vr_vulkan_barrier(recording); /* for the host, and for the next part */
}

/* Writes 0 to the lower half, then the upper half, then the lower half: the word is lower than
   before, then at most the new value. Vulkan's hosts are little-endian. */
static void word_record(struct vr_vulkan_recording *recording, uint64_t value) {
    uint32_t high = (uint32_t)(value >> 32), none = 0;
    if (high != recording->queue->word_high) {
        word_part_record(recording, 0, sizeof none, &none);
        word_part_record(recording, sizeof none, sizeof high, &high);
    }
    word_part_record(recording, 0, sizeof value, &value);
}

vram_status vr_vulkan_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_vulkan_queue *impl = queue->impl;
    struct vr_vulkan_recording recording;
    void *write = impl->word_thread ? word_write_take() : NULL;
    if (impl->word_thread && !write) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_vulkan_begin(&recording, impl);
    if (status == VRAM_OK) {
        if (!impl->word_thread) {
            word_record(&recording, value);
        }
        recording.signals = true;
        recording.word = value;
        recording.write = write;
        status = vr_vulkan_submit(&recording, NULL, NULL);
    }
    if (status != VRAM_OK) {
        word_write_give(write);
    }
    return status;
}

/* The timeline's value after which the word is at least `word`: that of the oldest signal known to
   be high enough, else all that was submitted, which includes it. */
static uint64_t timeline_value_of(struct vr_vulkan_queue *queue, uint64_t word) {
    vr_vulkan_native_queue_lock(queue->native_queue);
    uint64_t value = vr_load(&queue->timeline->submitted, VR_RELAXED);
    uint32_t kept =
        queue->signal_count < VR_VULKAN_SIGNALS ? queue->signal_count : VR_VULKAN_SIGNALS;
    for (uint32_t i = 0; i < kept; i++) {
        if (queue->signals[i].word >= word && queue->signals[i].value < value) {
            value = queue->signals[i].value;
        }
    }
    vr_vulkan_native_queue_unlock(queue->native_queue);
    return value;
}

vram_status vr_vulkan_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    struct vr_vulkan_queue *impl = queue->impl, *source = other->impl;
    if (impl->device != source->device) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "vulkan", "vkQueueSubmit", 0,
                            "queues of two Vulkan devices cannot wait for each other; wait on the "
                            "host");
    }
    return vr_vulkan_submit_wait(impl, source->timeline, timeline_value_of(source, value), NULL);
}

/* Whether the program's own work is complete, too. */
static vram_status adopted_poll(struct vr_vulkan_queue *impl) {
    uint64_t passed = 0, submitted;
    vram_error error;
    vram_status status = vr_vulkan_timeline_read(impl->device, impl->timeline, &passed);
    if (status != VRAM_OK) {
        return status;
    }
    if (passed < vr_load(&impl->timeline->submitted, VR_ACQUIRE)) { /* by a poll, or by us */
        return VRAM_ERR_NOT_READY;
    }
    status = vr_vulkan_submit_wait(impl, NULL, 0, &submitted);
    if (status != VRAM_OK) {
        return status;
    }
    vr_error_save(&error);
    status = vr_vulkan_timeline_wait(impl->device, impl->timeline, submitted, IDLE_CHECK_NS);
    if (status == VRAM_ERR_TIMEOUT) {
        vr_error_restore(&error);
    }
    return status == VRAM_ERR_TIMEOUT ? VRAM_ERR_NOT_READY : status;
}

vram_status vr_vulkan_poll(struct vr_queue *queue) {
    struct vr_vulkan_queue *impl = queue->impl;
    uint64_t passed = 0, submitted = vr_load(&impl->timeline->submitted, VR_ACQUIRE);
    if (vr_load(&impl->device->lost, VR_ACQUIRE)) { /* another thread or handle has noticed it */
        return vr_vulkan_check("vkGetSemaphoreCounterValue", VR_VK_DEVICE_LOST,
                               VRAM_ERR_DEVICE_MEMORY);
    }
    if (queue->adopted) {
        return adopted_poll(impl);
    }
    vram_status status = vr_vulkan_timeline_read(impl->device, impl->timeline, &passed);
    return status == VRAM_OK && passed < submitted ? VRAM_ERR_NOT_READY : status;
}
