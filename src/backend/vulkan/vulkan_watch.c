/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_watch.c: words that the host writes, for devices that are the CPU.
 *
 * A GPU's write into coherent memory is seen whole and in order. A driver that runs on the CPU
 * copies as any program does, which another thread must not look at meanwhile. There a queue has a
 * thread that waits for its semaphore, in the order of the signals, and writes the word itself.
 */
#include "backend/vulkan/vulkan_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#define SLICE_NS UINT64_C(100000000) /* how long one wait may be deaf to the queue's end */
#define RETRY_NS UINT64_C(1000000)   /* until a driver that refused is asked again */

enum { GOING = 0, FINISHED = 1, GIVEN_UP = 2 };

/* A number that the word becomes when the clock has reached a value. */
struct mark {
    struct vr_link link;
    uint64_t word, value;
};

struct vr_vulkan_watch {
    struct vr_vulkan_device *device;
    struct vr_vulkan_clock *clock;
    struct vr_thread thread;
    struct vr_mutex lock; /* guards the rest */
    struct vr_cond wake;  /* a mark came, or the end */
    struct vr_list marks; /* in the order of the signals */
    bool ending;          /* the thread leaves when the list is empty */
    vr_atomic_u32 end;    /* how: what is left has happened, or never will */
};

/* From the moment that the process exits no driver is called any more. */
static vr_atomic_bool leaving;
static struct vr_once leaving_once = VR_ONCE_INIT;

static void leave(void) {
    vr_store(&leaving, true, VR_RELEASE);
}

/* Where the system has no room for it, the process leaves as it is. */
static void watch_exit(void) {
    vram_error error;
    vr_error_save(&error);
    (void)vr_os_at_exit(leave);
    vr_error_restore(&error);
}

/* ------------------------------------------------------------------- thread */

static struct mark *next_mark(struct vr_vulkan_watch *watch) {
    vr_mutex_lock(&watch->lock);
    while (vr_list_empty(&watch->marks) && !watch->ending) {
        vr_cond_wait(&watch->wake, &watch->lock, UINT64_MAX);
    }
    struct vr_link *link = vr_list_first(&watch->marks);
    if (link) {
        vr_link_remove(link);
    }
    vr_mutex_unlock(&watch->lock);
    return link ? VR_CONTAINER(link, struct mark, link) : NULL;
}

/* Whether the value was reached. A driver that cannot tell is asked again after a while; the
   queue's end knows without it. Not when the device is lost, or the queue ended unfinished. */
static bool reached(struct vr_vulkan_watch *watch, uint64_t value) {
    for (;;) {
        uint32_t end = vr_load(&watch->end, VR_ACQUIRE);
        if (end != GOING || vr_load(&leaving, VR_ACQUIRE)) {
            return end == FINISHED;
        }
        vram_status status = vr_vulkan_clock_wait(watch->device, watch->clock, value, SLICE_NS);
        if (status == VRAM_OK || status == VRAM_ERR_DEVICE_LOST) {
            return status == VRAM_OK;
        }
        if (status != VRAM_ERR_TIMEOUT) {
            vr_os_sleep(RETRY_NS);
        }
    }
}

static void run(void *argument) {
    struct vr_vulkan_watch *watch = argument;
    struct mark *mark;
    bool going = true;
    while ((mark = next_mark(watch))) {
        going = going && reached(watch, mark->value);
        if (going) {
            vr_atomic_max(watch->clock->word, mark->word);
        }
        vr_mem_free(mark);
    }
}

/* ---------------------------------------------------------- making and ending */

vram_status vr_vulkan_watch_make(struct vr_vulkan_device *device, struct vr_vulkan_clock *clock,
                                 struct vr_vulkan_watch **made) {
    struct vr_vulkan_watch *watch = vr_mem_alloc(1, sizeof *watch, "vulkan_queue_create");
    if (!watch) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_once(&leaving_once, watch_exit);
    watch->device = device;
    watch->clock = clock;
    vr_list_init(&watch->marks);
    vram_status status = vr_cond_init(&watch->wake);
    if (status != VRAM_OK) {
        vr_mem_free(watch);
        return status;
    }
    vr_mutex_init(&watch->lock, VR_RANK_BACKEND);
    status = vr_os_thread_start(&watch->thread, "vram-vulkan", run, watch);
    if (status != VRAM_OK) {
        vr_vulkan_watch_end(watch, false);
        return status;
    }
    *made = watch;
    return VRAM_OK;
}

void vr_vulkan_watch_end(struct vr_vulkan_watch *watch, bool finished) {
    if (!watch) {
        return;
    }
    vr_mutex_lock(&watch->lock);
    watch->ending = true;
    vr_store(&watch->end, finished ? FINISHED : GIVEN_UP, VR_RELEASE);
    vr_cond_broadcast(&watch->wake);
    vr_mutex_unlock(&watch->lock);
    vr_os_thread_join(&watch->thread);
    vr_mutex_destroy(&watch->lock);
    vr_cond_destroy(&watch->wake);
    vr_mem_free(watch);
}

/* -------------------------------------------------------------------- marks */

void *vr_vulkan_mark_take(void) {
    return vr_mem_alloc(1, sizeof(struct mark), "vulkan_signal");
}

void vr_vulkan_mark_give(void *mark) {
    vr_mem_free(mark);
}

void vr_vulkan_mark_set(struct vr_vulkan_watch *watch, void *taken, uint64_t word, uint64_t value) {
    struct mark *mark = taken;
    mark->word = word;
    mark->value = value;
    vr_mutex_lock(&watch->lock);
    vr_list_append(&watch->marks, &mark->link);
    vr_cond_broadcast(&watch->wake);
    vr_mutex_unlock(&watch->lock);
}
