/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_timeline.c: words, which tell how far a queue's work is complete; completion, signals,
 * waits and polls.
 *
 *  (1) Each submission is one command buffer and one entry. Entries are in commit order.
 *  (2) Metal reports the completion of a command buffer on a thread of its own, perhaps out of
 *      order. The word is raised, and downloads are copied to their destination, entry by entry in
 *      order: so neither is ever ahead of the completed work.
 *  (3) The queue's shared event gets each value of the word, on the device, for queues that wait
 *      there. Values that come too late to raise it are left out: an event must not fall.
 *  (4) After a command buffer has failed, its queue has failed: the word stays, polls return the
 *      reason, and no more work is accepted.
 *  (5) An entry keeps the record of its queue. On a lost device Metal may never call back; then
 *      record and entry are never freed, because Metal may still write to them.
 *  (6) The program commits to an adopted queue by itself, and nothing tells how far that work is.
 *      Only a command buffer of the library at its end can tell whether the queue is idle.
 */
#include "backend/metal/metal_backend.h"

#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

#define IDLE_CHECK_NS UINT64_C(200000) /* for an empty command buffer on a queue that seems idle */

/* --------------------------------------------------------------- completion */

/* Finishes an entry whose command buffer has ended. */
static void entry_finish(const struct vr_metal_api *api, const struct vr_metal_entry *entry) {
    if (entry->to && !entry->failed) {
        memcpy(entry->to, entry->from, entry->bytes);
    }
    if (entry->staging) {
        VR_SEND0(api, release, entry->staging);
    }
}

/* Removes ended entries from the front, one after the other and one thread at a time: keeps (2),
   (4). The caller holds the lock, which is released in between. */
static void entries_advance(struct vr_metal_queue *queue) {
    struct vr_link *link;
    queue->advancing = true;
    while ((link = vr_list_first(&queue->entries)) &&
           VR_CONTAINER(link, struct vr_metal_entry, link)->done) {
        struct vr_metal_entry *entry = VR_CONTAINER(link, struct vr_metal_entry, link);
        vr_mutex_unlock(&queue->lock);
        entry_finish(&queue->api, entry);
        vr_mutex_lock(&queue->lock);
        vr_link_remove(link);
        if (entry->signal && !queue->failed) {
            vr_atomic_max(&queue->word->value, entry->signal);
        }
        vr_mem_free(entry);
        queue->refs--;
    }
    queue->advancing = false;
    vr_cond_broadcast(&queue->done);
}

void vr_metal_completed(struct vr_mtl_block *block, vr_mtl_id buffer) {
    struct vr_metal_entry *entry = block->data;
    struct vr_metal_queue *queue = entry->queue;
    const struct vr_metal_api *api = &queue->api;
    if (vr_os_exiting()) {
        return; /* no more calls of Metal */
    }
    vr_mtl_id error = VR_SEND0(api, buffer_error, buffer);
    int64_t code = error ? VR_SEND0(api, error_code, error) : 0;
    vr_mutex_lock(&queue->lock);
    entry->failed = error != NULL;
    entry->done = true;
    if (error && !queue->failed) {
        queue->failed = code ? code : VR_MTL_INTERNAL;
    }
    if (!queue->advancing) {
        entries_advance(queue);
    }
    bool last = queue->refs == 0;
    vr_mutex_unlock(&queue->lock);
    if (last) {
        vr_metal_queue_free(queue);
    }
}

/* -------------------------------------------------- signals, waits and polls */

vram_status vr_metal_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_metal_recording recording;
    vram_status status = vr_metal_begin(queue, "encodeSignalEvent:value:", &recording);
    if (status != VRAM_OK) {
        return status;
    }
    recording.entry->signal = value;
    if (value > recording.queue->signalled) { /* keeps (3) */
        recording.queue->signalled = value;
        VR_SEND(recording.device->api, encode_signal, recording.buffer, recording.queue->event,
                value);
    }
    vr_metal_commit(&recording);
    return VRAM_OK;
}

vram_status vr_metal_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    const struct vr_metal_queue *awaited = other->impl;
    struct vr_metal_recording recording;
    vram_status status = vr_metal_begin(queue, "encodeWaitForEvent:value:", &recording);
    if (status == VRAM_OK) {
        VR_SEND(recording.device->api, encode_wait, recording.buffer, awaited->event, value);
        vr_metal_commit(&recording);
    }
    return status;
}

/* Whether all entries have ended, after at most `ns`. */
static vram_status entries_poll(struct vr_metal_queue *impl, uint64_t ns) {
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
vram_status vr_metal_poll(struct vr_queue *queue) {
    struct vr_metal_queue *impl = queue->impl;
    struct vr_metal_recording recording;
    vram_status status = entries_poll(impl, 0);
    if (status != VRAM_OK || !queue->adopted) {
        return status;
    }
    status = vr_metal_begin(queue, "commandBuffer", &recording);
    if (status == VRAM_OK) {
        vr_metal_commit(&recording);
        status = entries_poll(impl, IDLE_CHECK_NS);
    }
    return status;
}
