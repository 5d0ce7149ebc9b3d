/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_queue.c: command buffers from submission to completion, and the time they tell.
 *
 *  (1) Each submission is one command buffer and one entry. Entries stand in the order of their
 *      commits.
 *  (2) Metal tells of the end of a command buffer on a thread of its own, perhaps not in order. The
 *      word is raised, and downloads are copied to their places, entry by entry in their order: so
 *      neither runs ahead of the truth.
 *  (3) The queue's shared event gets each value that the word gets, on the device, for queues that
 *      wait there. Values that come too late to raise it are left out: an event must not fall.
 *  (4) A command buffer that failed spoils its queue: the word stays, polls answer with the reason,
 *      and nothing more is taken.
 *  (5) An entry keeps the queue's record. On a device that is lost Metal may never call back; then
 *      record and entry stay, rather than be written to later.
 *  (6) The program commits to an adopted queue behind our back, and nothing tells how far that is:
 *      whether the queue is idle only a command buffer of ours at its end can tell.
 *
 * Concurrency: `submission` orders commits and is held while a command buffer is made, which waits
 * for nobody; `lock` guards the entries and is held across no call of Metal's.
 */
#include "backend/metal/metal_backend.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

/* Command buffers that may be under way at once; when that many are, Metal itself waits. */
enum { BUFFERS_MAX = 8192 };

#define MOMENT_NS UINT64_C(200000) /* for an empty command buffer on a queue that seems idle */

/* What a queue counts with. Type-stable: a wait may look at it after the queue has gone. */
struct word {
    void *unused; /* the first word is the free list's */
    vr_atomic_u64 value;
};

static struct vr_stable words = VR_STABLE_INIT(struct word);

/* vr_queue.impl */
struct vr_metal_queue {
    struct vr_metal_device *device;
    struct vr_metal_api api;    /* of its own, for ends that outlast the device: (5) */
    vr_mtl_id queue, event;     /* retained */
    struct vr_mutex submission; /* keeps (1), and guards the next */
    uint64_t signalled;         /* highest value that the event will get */
    struct vr_mutex lock;       /* guards the rest */
    struct vr_cond done;        /* an entry has gone */
    struct vr_list entries;     /* submitted, not seen to have ended */
    int64_t failed;             /* code of the first that failed; 0: none */
    bool advancing;             /* a thread is taking entries off the front */
    uint32_t keepers;           /* the queue itself, and its entries */
    struct word *word;
};

struct vr_metal_entry {
    struct vr_link link;
    struct vr_metal_queue *queue;
    bool done, failed; /* its command buffer has ended; badly */
    uint64_t signal;   /* value for the word; 0: none */
    void *to;          /* of a download: where its bytes go; NULL: none */
    const void *from;
    uint64_t bytes;
    vr_mtl_id staging; /* released when done; NULL: none */
};

/* --------------------------------------------------------------- completion */

static void queue_free(struct vr_metal_queue *queue) {
    vr_cond_destroy(&queue->done);
    vr_mutex_destroy(&queue->submission);
    vr_mutex_destroy(&queue->lock);
    vr_stable_give(&words, queue->word);
    vr_mem_free(queue);
}

/* What is left to do for an entry that has ended. */
static void finish(const struct vr_metal_api *api, const struct vr_metal_entry *entry) {
    if (entry->to && !entry->failed) {
        memcpy(entry->to, entry->from, entry->bytes);
    }
    if (entry->staging) {
        VR_TELL(api, release, entry->staging);
    }
}

/* Takes the ended entries off the front, one after the other and one thread at a time: keeps (2),
   (4). With the lock held, which is open in between. */
static void advance(struct vr_metal_queue *queue) {
    struct vr_link *link;
    queue->advancing = true;
    while ((link = vr_list_first(&queue->entries)) &&
           VR_CONTAINER(link, struct vr_metal_entry, link)->done) {
        struct vr_metal_entry *entry = VR_CONTAINER(link, struct vr_metal_entry, link);
        vr_mutex_unlock(&queue->lock);
        finish(&queue->api, entry);
        vr_mutex_lock(&queue->lock);
        vr_link_remove(link);
        if (entry->signal && !queue->failed) {
            vr_atomic_max(&queue->word->value, entry->signal);
        }
        vr_mem_free(entry);
        queue->keepers--;
    }
    queue->advancing = false;
    vr_cond_broadcast(&queue->done);
}

/* Metal calls this when a command buffer has ended, on whatever thread. */
static void completed(struct vr_mtl_block *block, vr_mtl_id buffer) {
    struct vr_metal_entry *entry = block->data;
    struct vr_metal_queue *queue = entry->queue;
    const struct vr_metal_api *api = &queue->api;
    if (vr_os_exiting()) {
        return; /* Metal is not asked for anything any more */
    }
    vr_mtl_id error = VR_TELL(api, buffer_error, buffer);
    int64_t code = error ? VR_TELL(api, error_code, error) : 0;
    vr_mutex_lock(&queue->lock);
    entry->failed = error != NULL;
    entry->done = true;
    if (error && !queue->failed) {
        queue->failed = code ? code : VR_MTL_INTERNAL;
    }
    if (!queue->advancing) {
        advance(queue);
    }
    bool last = queue->keepers == 0;
    vr_mutex_unlock(&queue->lock);
    if (last) {
        queue_free(queue);
    }
}

/* --------------------------------------------------------------- submission */

static int64_t failure_of(struct vr_metal_queue *queue) {
    vr_mutex_lock(&queue->lock);
    int64_t code = queue->failed;
    vr_mutex_unlock(&queue->lock);
    return code;
}

vram_status vr_metal_begin(struct vr_queue *queue, const char *operation,
                           struct vr_metal_work *work) {
    struct vr_metal_queue *impl = queue->impl;
    int64_t code = failure_of(impl);
    if (code) {
        return vr_metal_status(code); /* keeps (4) */
    }
    *work = (struct vr_metal_work){.queue = impl, .device = impl->device};
    work->entry = vr_mem_alloc(1, sizeof *work->entry, operation);
    if (!work->entry) {
        return VRAM_ERR_HOST_MEMORY;
    }
    work->entry->queue = impl;
    work->pool = impl->device->api->objc_autoreleasePoolPush();
    vr_mutex_lock(&impl->submission);
    work->buffer = VR_TELL(impl->device->api, command_buffer, impl->queue);
    if (!work->buffer) {
        vr_metal_abandon(work);
        return vr_metal_nothing(VRAM_ERR_HOST_MEMORY, "commandBuffer");
    }
    return VRAM_OK;
}

void vr_metal_when_done(struct vr_metal_work *work, void *to, const void *from, uint64_t bytes,
                        vr_mtl_id staging) {
    work->entry->to = to;
    work->entry->from = from;
    work->entry->bytes = bytes;
    work->entry->staging = staging;
}

static void leave(struct vr_metal_work *work) {
    vr_mutex_unlock(&work->queue->submission);
    work->device->api->objc_autoreleasePoolPop(work->pool);
}

void vr_metal_commit(struct vr_metal_work *work) {
    static const struct vr_mtl_block_descriptor descriptor = {0, sizeof(struct vr_mtl_block)};
    const struct vr_metal_api *api = work->device->api;
    struct vr_mtl_block block = {.isa = api->_NSConcreteStackBlock,
                                 .invoke = completed,
                                 .descriptor = &descriptor,
                                 .data = work->entry};
    VR_SEND(api, add_completed, work->buffer, &block); /* which copies it */
    vr_mutex_lock(&work->queue->lock);
    vr_list_append(&work->queue->entries, &work->entry->link);
    work->queue->keepers++; /* keeps (5) */
    vr_mutex_unlock(&work->queue->lock);
    VR_TELL(api, commit, work->buffer);
    leave(work);
}

void vr_metal_abandon(struct vr_metal_work *work) {
    vr_mem_free(work->entry);
    leave(work);
}

vr_mtl_id vr_metal_blit(const struct vr_metal_work *work) {
    vr_mtl_id encoder = VR_TELL(work->device->api, blit_encoder, work->buffer);
    if (!encoder) {
        vr_metal_nothing(VRAM_ERR_HOST_MEMORY, "blitCommandEncoder");
    }
    return encoder;
}

vr_mtl_id vr_metal_compute(const struct vr_metal_work *work) {
    vr_mtl_id encoder = VR_TELL(work->device->api, compute_encoder, work->buffer);
    if (!encoder) {
        vr_metal_nothing(VRAM_ERR_HOST_MEMORY, "computeCommandEncoder");
    }
    return encoder;
}

/* --------------------------------------------------------------------- life */

static vram_status refuse_queue(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "metal", "vram_queue_adopt", 0, "%s", why);
}

/* The program's queue, retained. One of another GPU could not use this device's memory; of one GPU
   there may be several device objects. */
static vram_status retain_queue(struct vr_metal_queue *impl, vr_mtl_id native) {
    const struct vr_metal_api *api = impl->device->api;
    if (!native) {
        return refuse_queue("Metal has no default queue: NULL cannot be adopted");
    }
    if (!VR_SEND(api, responds, native, api->selectors[VR_METAL_command_buffer])) {
        return refuse_queue("the object is no MTLCommandQueue");
    }
    vr_mtl_id device = VR_TELL(api, queue_device, native);
    uint64_t id = device ? VR_TELL(api, registry_id, device) : 0;
    if (!id || id != VR_TELL(api, registry_id, impl->device->device)) {
        return refuse_queue("the queue was made by another device than this one; "
                            "vram_context_options.metal takes that up");
    }
    impl->queue = VR_TELL(api, retain, native);
    return VRAM_OK;
}

static vram_status make_objects(struct vr_metal_queue *impl, const struct vr_queue *queue) {
    const struct vr_metal_api *api = impl->device->api;
    if (queue->adopted) {
        vram_status status = retain_queue(impl, queue->native);
        if (status != VRAM_OK) {
            return status;
        }
    } else {
        impl->queue = VR_SEND(api, queue_create, impl->device->device, (unsigned long)BUFFERS_MAX);
    }
    if (!impl->queue) {
        return vr_metal_nothing(VRAM_ERR_LIMIT, "newCommandQueueWithMaxCommandBufferCount:");
    }
    impl->event = VR_TELL(api, event_create, impl->device->device);
    if (!impl->event) {
        VR_TELL(api, release, impl->queue);
        return vr_metal_nothing(VRAM_ERR_LIMIT, "newSharedEvent");
    }
    return VRAM_OK;
}

/* Makes the native queue, or takes up the program's. */
static vram_status queue_make(struct vr_queue *queue) {
    struct vr_metal_device *metal = queue->device->impl;
    struct vr_metal_queue *impl = vr_mem_alloc(1, sizeof *impl, "metal_queue_create");
    if (!impl) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = VRAM_ERR_HOST_MEMORY;
    impl->device = metal;
    impl->api = *metal->api;
    impl->keepers = 1;
    impl->word = vr_stable_take(&words, "metal_queue_create");
    if (!impl->word) {
        goto fail;
    }
    status = vr_cond_init(&impl->done);
    if (status != VRAM_OK) {
        goto fail_word;
    }
    void *pool = metal->api->objc_autoreleasePoolPush();
    status = make_objects(impl, queue);
    metal->api->objc_autoreleasePoolPop(pool);
    if (status != VRAM_OK) {
        goto fail_cond;
    }
    vr_mutex_init(&impl->submission, VR_RANK_QUEUE);
    vr_mutex_init(&impl->lock, VR_RANK_BACKEND);
    vr_list_init(&impl->entries);
    queue->impl = impl;
    queue->native = impl->queue;
    queue->word = &impl->word->value;
    return VRAM_OK;

fail_cond:
    vr_cond_destroy(&impl->done);
fail_word:
    vr_stable_give(&words, impl->word);
fail:
    vr_mem_free(impl);
    return status;
}

/* Metal knows no priorities of queues: options have no effect. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    return queue_make(queue);
}

static vram_status queue_adopt(struct vr_queue *queue) {
    return queue_make(queue);
}

/* Waits for what is under way, unless the device is lost: keeps (5). Of an adopted queue that is
   what we gave it. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_metal_queue *impl = queue->impl;
    const struct vr_metal_api *api = impl->device->api;
    bool lost = vr_load(&queue->device->lost, VR_ACQUIRE);
    vr_mtl_id native = impl->queue, event = impl->event;
    vr_mutex_lock(&impl->lock);
    while (!lost && !vr_list_empty(&impl->entries)) {
        vr_cond_wait(&impl->done, &impl->lock, UINT64_MAX);
    }
    bool last = --impl->keepers == 0;
    vr_mutex_unlock(&impl->lock);
    if (last) {
        queue_free(impl);
    }
    void *pool = api->objc_autoreleasePoolPush();
    VR_TELL(api, release, event);
    VR_TELL(api, release, native);
    api->objc_autoreleasePoolPop(pool);
    queue->impl = NULL;
}

/* --------------------------------------------------------------------- time */

static vram_status queue_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_metal_work work;
    vram_status status = vr_metal_begin(queue, "encodeSignalEvent:value:", &work);
    if (status != VRAM_OK) {
        return status;
    }
    work.entry->signal = value;
    if (value > work.queue->signalled) { /* keeps (3) */
        work.queue->signalled = value;
        VR_SEND(work.device->api, encode_signal, work.buffer, work.queue->event, value);
    }
    vr_metal_commit(&work);
    return VRAM_OK;
}

static vram_status queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    const struct vr_metal_queue *awaited = other->impl;
    struct vr_metal_work work;
    vram_status status = vr_metal_begin(queue, "encodeWaitForEvent:value:", &work);
    if (status == VRAM_OK) {
        VR_SEND(work.device->api, encode_wait, work.buffer, awaited->event, value);
        vr_metal_commit(&work);
    }
    return status;
}

/* Whether what it was given has ended, after at most `ns`. */
static vram_status look(struct vr_metal_queue *impl, uint64_t ns) {
    vr_mutex_lock(&impl->lock);
    bool waits = ns != 0;
    while (waits && !vr_list_empty(&impl->entries)) {
        waits = vr_cond_wait(&impl->done, &impl->lock, ns);
    }
    int64_t code = impl->failed;
    bool idle = vr_list_empty(&impl->entries);
    vr_mutex_unlock(&impl->lock);
    if (code) {
        return vr_metal_status(code);
    }
    return idle ? VRAM_OK : VRAM_ERR_NOT_READY;
}

/* Keeps (6). */
static vram_status queue_poll(struct vr_queue *queue) {
    struct vr_metal_queue *impl = queue->impl;
    struct vr_metal_work work;
    vram_status status = look(impl, 0);
    if (status != VRAM_OK || !queue->adopted) {
        return status;
    }
    status = vr_metal_begin(queue, "commandBuffer", &work);
    if (status == VRAM_OK) {
        vr_metal_commit(&work);
        status = look(impl, MOMENT_NS);
    }
    return status;
}

const struct vr_queue_ops vr_metal_queue_ops = {
    .create = queue_create,
    .adopt = queue_adopt,
    .destroy = queue_destroy,
    .upload = vr_metal_upload,
    .download = vr_metal_download,
    .copy = vr_metal_copy,
    .fill = vr_metal_fill,
    .signal = queue_signal,
    .after = queue_after,
    .poll = queue_poll,
};
