/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h: what the library keeps for each thread, and how others may look into it.
 *
 * A thread marks itself busy while it works on its own caches, with plain stores: no locked
 * instruction on the way of a hit. Another thread that needs those caches (to drain them, to free a
 * table that a reader may be inside) revokes: it raises a flag, makes the stores of all threads
 * visible at once (membarrier on Linux), and waits until the thread is not busy, which takes
 * nanoseconds, since nobody is busy across a lock, a driver call or user code.
 *
 * Where the system has no such barrier or refuses it later, and under ThreadSanitizer, which does
 * not know it, both sides use sequentially consistent stores and loads instead.
 */
#ifndef VR_THREAD_H
#define VR_THREAD_H

#include "base/atomic.h"
#include "base/list.h"
#include "vram/base.h"

struct vr_cache;

/* Two cache lines to itself: its first words are written at every hit, and processors fetch lines
   in pairs. */
struct vr_thread_state {
    _Alignas(128) vr_atomic_u32 busy; /* the thread is inside its own caches */
    vr_atomic_u32 revoked;            /* somebody else needs them: keep out */
    struct vr_cache *recent;          /* the cache used last; the thread's own, as the next */
    struct vr_cache *tracked;         /* the last one of a pool that tells; pool_tracking.h */
    struct vr_cache **caches; /* hashed by pool and queue; the thread's own, or a revoker's */
    uint32_t cache_mask;      /* slots in it, a power of two, minus 1; 0: none */
    uint32_t cache_count;
    vr_atomic_u64 short_of; /* handle of the pool that it waits for memory of; ladder_wait.c */
    bool listed;            /* in the list of threads, as the thread knows; not in a child */
    struct vr_link link;    /* in that list; its lock's */
};

extern _Thread_local struct vr_thread_state *vr_thread_current
    __attribute__((tls_model("initial-exec")));

/* Whether plain stores suffice. Set before any thread state exists; it can only become false. */
extern vr_atomic_bool vr_thread_biased;

/* The calling thread's state, made on first use; NULL when there can be none. */
struct vr_thread_state *vr_thread_get(void);

/* Waits until the revoker is done; then the caller tries again. */
void vr_thread_wait_revoked(struct vr_thread_state *thread);

/* Whether the thread may work on its caches now. False: it is inside them already (a signal handler
   interrupted it), or another thread is; see vr_thread_rest. Pairs with vr_thread_leave. */
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

static inline void vr_thread_leave(struct vr_thread_state *thread) {
    vr_store(&thread->busy, 0, VR_RELEASE);
}

/*
 * Runs `visit` for every thread's state while that thread is kept out of it, one after the other,
 * the calling thread's own included. Must not be called while busy.
 */
void vr_thread_visit_all(void (*visit)(struct vr_thread_state *thread, void *user), void *user);

/* Returns when every thread has been seen outside its caches since the call: whatever was unlinked
   before can be freed. */
void vr_thread_quiesce(void);

/* What a thread that ends does with its caches; set by the cache module. */
void vr_thread_on_end(void (*end)(struct vr_thread_state *thread));

#endif
