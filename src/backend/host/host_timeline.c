/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_timeline.c: the word of a queue, which tells how far its work is complete; signals, waits
 * and polls.
 *
 *  (1) A word only rises. Only the queue's worker writes it, and queue_destroy after the worker has
 *      ended.
 *  (2) A waiting command holds a reference, so a queue may end while other queues wait for it. It
 *      then leaves UINT64_MAX in the word: all its points have passed, and nobody waits forever.
 *  (3) Whoever changes what waiters check (a word, a stop flag) changes it first, then calls
 *      vr_host_wake. Waiters check with host->lock held and sleep in the same step. So a change is
 *      either seen or its wake-up arrives; none is lost.
 *
 * One condition variable serves all queues of the backend. A worker that waits for another queue's
 * word must also notice that its own queue is abandoned, and with one condition it need not sleep
 * on two. The cost is that a signal wakes every waiting worker; each checks once and sleeps again.
 */
#include "backend/host/host_backend.h"

#include "base/memory.h"

struct vr_host_word *vr_host_word_create(const char *operation) {
    struct vr_host_word *word = vr_mem_alloc(1, sizeof *word, operation);
    if (word) {
        vr_store(&word->refs, 1, VR_RELAXED);
    }
    return word;
}

struct vr_host_word *vr_host_word_ref(struct vr_host_word *word) {
    vr_fetch_add(&word->refs, 1, VR_RELAXED);
    return word;
}

void vr_host_word_unref(struct vr_host_word *word) {
    if (word && vr_fetch_sub(&word->refs, 1, VR_ACQ_REL) == 1) {
        vr_mem_free(word);
    }
}

/* Two threads that signal one queue may submit in another order than they counted. */
void vr_host_word_raise(struct vr_host_word *word, uint64_t value) {
    if (value > vr_load(&word->value, VR_RELAXED)) { /* keeps (1) */
        vr_store(&word->value, value, VR_RELEASE);
    }
}

void vr_host_word_wait(struct vr_host *host, const struct vr_host_word *word, uint64_t value,
                       const vr_atomic_bool *stop) {
    vr_mutex_lock(&host->lock);
    while (vr_load(&word->value, VR_ACQUIRE) < value && !vr_load(stop, VR_ACQUIRE)) {
        vr_cond_wait(&host->moved, &host->lock, UINT64_MAX);
    }
    vr_mutex_unlock(&host->lock);
}

void vr_host_wake(struct vr_host *host) {
    vr_mutex_lock(&host->lock);
    vr_cond_broadcast(&host->moved);
    vr_mutex_unlock(&host->lock);
}

/* -------------------------------------------------- signals, waits and polls */

vram_status vr_host_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_host_command *command = vr_host_command_create(sizeof *command, "signal");
    if (!command) {
        return VRAM_ERR_HOST_MEMORY;
    }
    command->signal = value;
    vr_host_command_submit(queue, command);
    return VRAM_OK;
}

vram_status vr_host_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    struct vr_host_worker *awaited = other->impl;
    struct vr_host_command *command = vr_host_command_create(sizeof *command, "after");
    if (!command) {
        return VRAM_ERR_HOST_MEMORY;
    }
    command->after = vr_host_word_ref(awaited->word);
    command->after_value = value;
    vr_host_command_submit(queue, command);
    return VRAM_OK;
}

/* The worker makes progress by itself, and this device cannot be lost. */
vram_status vr_host_poll(struct vr_queue *queue) {
    struct vr_host_worker *worker = queue->impl;
    vr_mutex_lock(&worker->lock);
    bool idle = !worker->busy && vr_list_empty(&worker->commands);
    vr_mutex_unlock(&worker->lock);
    return idle ? VRAM_OK : VRAM_ERR_NOT_READY;
}
