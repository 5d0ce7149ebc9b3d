/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_word.c: how far a queue has come, and waiting for it on the device's side.
 *
 *  (1) A word only rises. Its worker alone writes it, and queue_destroy once that is gone.
 *  (2) A command that waits holds a reference, so a queue may end under those who wait for it. It
 *      then leaves UINT64_MAX behind: all its points have passed, and nobody waits for ever.
 *  (3) Whoever changes what waiters look at (a word, a stop flag) changes it first, then calls
 *      vr_host_wake. Waiters look with host->lock held and sleep in the same breath. So a change
 *      is seen, or its wake-up arrives: none is lost.
 *
 * One condition serves all queues of the backend. A worker that waits for another queue's word must
 * also hear that its own queue was given up, and with one condition it need not sleep on two. The
 * price is that a signal wakes every worker inside a wait; those look once and sleep again.
 */
#include "backend/host/host.h"

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

/* Two threads that signal one queue may submit in the other order than they counted. */
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
