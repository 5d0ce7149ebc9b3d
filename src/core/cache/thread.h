/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h: the state of each thread, and how other threads get access to it.
 *
 * A thread sets `busy` while it works on its own caches, with plain stores: a hit needs no locked
 * instruction. Another thread that needs those caches (to drain them, or to free a table that a
 * reader may be using) revokes: it sets `revoked`, makes the stores of all threads visible
 * (membarrier on Linux), and waits until the thread is not busy. That takes a microsecond at most,
 * because a busy thread never waits for a lock, and calls neither a driver nor user code. It may
 * hold a pool's lock that was free (shortcut.c).
 *
 * If the system has no such barrier or refuses it later, and under ThreadSanitizer, which does not
 * know it, both sides use sequentially consistent stores and loads instead.
 */
#ifndef VR_THREAD_H
#define VR_THREAD_H

#include "base/atomic.h"
#include "base/list.h"
#include "vram/base.h"

struct vr_cache;

/* Aligned to two cache lines: its first words are written at every hit, and processors prefetch
   lines in pairs. */
struct vr_thread_state {
    _Alignas(128) vr_atomic_u32 busy; /* the thread is inside its own caches */
    vr_atomic_u32 revoked;            /* another thread needs them: keep out */
    struct vr_cache *recent;          /* the last used cache of a pool that is not watched */
    struct vr_cache *watched;         /* the last used cache of one that is (cache.h) */
    struct vr_cache **caches;         /* hashed by pool and queue */
    uint32_t cache_mask;              /* slots in it, a power of two, minus 1; 0: none */
    uint32_t cache_count;
    vr_atomic_u64 short_of; /* handle of the pool whose memory it waits for; ladder_wait.c */
    bool listed;            /* in the list of threads; false again in a forked child */
    struct vr_link link;    /* in that list; under its lock */
};

extern _Thread_local struct vr_thread_state *vr_thread_current
    __attribute__((tls_model("initial-exec")));

/* Whether plain stores suffice. Set before any thread state exists; it can only become false. */
extern vr_atomic_bool vr_thread_biased;

/* The calling thread's state, created on first use; NULL if there can be none. */
struct vr_thread_state *vr_thread_get(void);

/* Whether the thread may work on its caches now. False: it is inside them already (a signal handler
   interrupted it), or another thread reads them; see vr_thread_let_in. Pairs with
   vr_thread_leave. */
static inline bool vr_thread_enter(struct vr_thread_state *thread) {
    if (__builtin_expect(vr_load(&thread->busy, VR_RELAXED) != 0, 0)) {
        return false;
    }
    if (__builtin_expect(vr_load(&vr_thread_biased, VR_RELAXED), 1)) {
        vr_store(&thread->busy, 1, VR_RELAXED);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        vr_store(&thread->busy, 1, VR_SEQ_CST);
    }
    if (__builtin_expect(vr_load(&thread->revoked, VR_SEQ_CST) != 0, 0)) {
        vr_store(&thread->busy, 0, VR_RELEASE);
        return false;
    }
    return true;
}

/* After vr_thread_enter failed: waits until the thread that reads the caches is done; the caller
   tries again, so that which memory a program gets does not depend on who looks. False: the thread
   is inside them already. No lock held. */
bool vr_thread_let_in(struct vr_thread_state *thread);

static inline bool vr_thread_enter_wait(struct vr_thread_state *thread) {
    while (!vr_thread_enter(thread)) {
        if (!vr_thread_let_in(thread)) {
            return false;
        }
    }
    return true;
}

static inline void vr_thread_leave(struct vr_thread_state *thread) {
    vr_store(&thread->busy, 0, VR_RELEASE);
}

/*
 * Calls `visit` for the state of every thread, including the calling one, while that thread is kept
 * out of it. Must not be called while busy.
 */
void vr_thread_visit_all(void (*visit)(struct vr_thread_state *thread, void *user), void *user);

/* The same, unless a thread is inside its caches for longer than a microsecond, perhaps because it
   has lost its processor: then it visits none and returns false. For readers that can wait. */
bool vr_thread_visit_idle(void (*visit)(struct vr_thread_state *thread, void *user), void *user);

/* Returns when every thread has been outside its caches at least once since the call: what was
   unlinked before can be freed. */
void vr_thread_quiesce(void);

/* Sets the function that drops the caches of a thread that ends. */
void vr_thread_on_end(void (*end)(struct vr_thread_state *thread));

#endif
