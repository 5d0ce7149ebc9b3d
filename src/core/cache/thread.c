/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.c: the list of threads that have caches.
 *
 *  (1) A state is in the list from its first use until its thread ends; then its memory is reused
 *      for a later thread. It is in type-stable memory.
 *  (2) Only the holder of the list's lock sets and clears `revoked`. While it is set, and after
 *      `busy` was read as 0 behind a barrier, the holder owns the thread's caches.
 *  (3) The protocol, where B is a barrier or, on the thread's side, a compiler fence that the
 *      revoker's process-wide barrier completes:
 *          thread:   busy = 1;    B;  if (revoked) keep out
 *          revoker:  revoked = 1; B;  while (busy) wait
 *      In any order, at least one of them sees the other.
 *  (4) After a fork only the calling thread exists. The states of the others are dropped, not
 *      visited. If forks cannot be detected there are no states, hence no caches: a child must not
 *      have hits in them. The memory of the states is wiped in a child, so that this holds even if
 *      clone created it without the C library, and no fork handler has run.
 */
#include "core/cache/thread.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/stable.h"

#include <assert.h>
#include <string.h>

_Thread_local struct vr_thread_state *vr_thread_current __attribute__((tls_model("initial-exec")));
vr_atomic_bool vr_thread_biased;

static struct vr_once once = VR_ONCE_INIT;
static struct vr_mutex list_lock = VR_MUTEX_INIT(VR_RANK_THREAD);
static struct vr_list list;
static struct vr_stable states = VR_STABLE_INIT_WIPED(struct vr_thread_state);
static uint64_t process;       /* whose threads are in the list; under its lock */
static bool forks_are_noticed; /* set once, as vr_thread_biased is */
static void (*on_end)(struct vr_thread_state *thread); /* under the list's lock */

/* The thread ends: drops its caches and makes its state available to the next thread. */
static void thread_ended(void *memory) {
    struct vr_thread_state *thread = memory;
    vr_mutex_lock(&list_lock); /* a pool that is destroyed meanwhile waits here */
    if (on_end) {
        on_end(thread);
    }
    vr_link_remove(&thread->link);
    vr_mutex_unlock(&list_lock);
    vr_thread_current = NULL;
    vr_stable_give(&states, thread);
}

/* Keeps (4): lock.c holds the lock across the fork, so the list is consistent. */
static void forget_others(void) {
    vr_list_init(&list);
    process = vr_os_process_generation();
    if (vr_thread_current) {
        /* Forgets the caches: their pools belong to the parent. */
        memset(vr_thread_current, 0, sizeof *vr_thread_current);
        vr_list_append(&list, &vr_thread_current->link);
        vr_thread_current->listed = true;
    }
}

/* Locks the list. After a clone without fork handlers it is still the parent's: then resets it. */
static void list_enter(void) {
    vr_mutex_lock(&list_lock);
    if (process != vr_os_process_generation()) {
        forget_others();
    }
}

static void threads_init(void) {
    vr_list_init(&list);
    process = vr_os_process_generation();
    vr_store(&vr_thread_biased, vr_os_barrier_start(), VR_RELAXED);
    /* If this fails, caches of ended threads stay until their pools are destroyed. */
    (void)vr_os_thread_end_start(thread_ended);
    forks_are_noticed = vr_os_at_fork(NULL, NULL, forget_others) == VRAM_OK;
}

struct vr_thread_state *vr_thread_get(void) {
    struct vr_thread_state *thread = vr_thread_current;
    if (thread && thread->listed) {
        return thread;
    }
    vr_once(&once, threads_init);
    if (thread) { /* wiped; */
        list_enter();
        vr_mutex_unlock(&list_lock);
        return thread;
    }
    thread = forks_are_noticed ? vr_stable_take(&states, vr_operation()) : NULL;
    if (!thread) {
        return NULL;
    }
    memset(thread, 0, sizeof *thread);
    vr_os_thread_end_set(thread);
    list_enter();
    vr_list_append(&list, &thread->link);
    thread->listed = true;
    vr_mutex_unlock(&list_lock);
    vr_thread_current = thread;
    return thread;
}

void vr_thread_on_end(void (*end)(struct vr_thread_state *thread)) {
    vr_mutex_lock(&list_lock); /* a pool may be created while another thread ends */
    on_end = end;
    vr_mutex_unlock(&list_lock);
}

/* ----------------------------------------------------------------- revoking */

/*
 * The system may refuse the barrier later: programs forbid themselves system calls after their
 * start (seccomp). From then on both sides use sequentially consistent stores and loads. If a
 * thread enters by the old rule at this very moment, its store becomes visible long before the
 * sleep is over, also if it is descheduled.
 */
static void process_barrier(void) {
    if (vr_load(&vr_thread_biased, VR_RELAXED) && !vr_os_barrier()) {
        vr_store(&vr_thread_biased, false, VR_RELAXED);
        vr_os_sleep(10000000);
    }
}

/* A busy thread that was descheduled needs a processor. Yielding does not give it one if the caller
   has a higher priority; sleeping does. */
static void wait_until_idle(const struct vr_thread_state *thread) {
    for (unsigned round = 0; vr_load(&thread->busy, VR_SEQ_CST); round++) {
        if (round < 64) {
            vr_os_pause();
        } else if (round < 128) {
            vr_os_yield();
        } else {
            vr_os_sleep(50000);
        }
    }
}

/* The revoking thread holds the list's lock. After some rounds the wait blocks on that lock, for
   the same reason. What that thread did is visible after vr_thread_enter, which loads again. */
bool vr_thread_let_in(struct vr_thread_state *thread) {
    if (vr_load(&thread->busy, VR_RELAXED)) {
        return false;
    }
    for (unsigned round = 0; vr_load(&thread->revoked, VR_RELAXED); round++) {
        if (round < 64) {
            vr_os_yield();
        } else {
            vr_mutex_lock(&list_lock);
            vr_mutex_unlock(&list_lock);
        }
    }
    return true;
}

void vr_thread_visit_all(void (*visit)(struct vr_thread_state *thread, void *user), void *user) {
    assert(!vr_thread_current ||
           !vr_load(&vr_thread_current->busy, VR_RELAXED)); /* it would wait for itself */
    vr_once(&once, threads_init);
    list_enter();
    for (struct vr_link *link = vr_list_first(&list); link; link = vr_list_next(&list, link)) {
        vr_store(&VR_CONTAINER(link, struct vr_thread_state, link)->revoked, 1, VR_SEQ_CST);
    }
    process_barrier(); /* one for all threads; keeps (3) */
    for (struct vr_link *link = vr_list_first(&list); link; link = vr_list_next(&list, link)) {
        struct vr_thread_state *thread = VR_CONTAINER(link, struct vr_thread_state, link);
        wait_until_idle(thread);
        if (visit) {
            visit(thread, user);
        }
        vr_store(&thread->revoked, 0, VR_RELEASE);
    }
    vr_mutex_unlock(&list_lock);
}

/* Revoking ends here without access to any cache if a thread does not leave: keeps (2). */
static bool all_are_idle(void) {
    for (struct vr_link *link = vr_list_first(&list); link; link = vr_list_next(&list, link)) {
        const struct vr_thread_state *thread = VR_CONTAINER(link, struct vr_thread_state, link);
        bool idle = !vr_load(&thread->busy, VR_SEQ_CST);
        for (unsigned round = 0; !idle && round < 64; round++) {
            vr_os_pause();
            idle = !vr_load(&thread->busy, VR_ACQUIRE); /* the first load kept (3) */
        }
        if (!idle) {
            return false;
        }
    }
    return true;
}

bool vr_thread_visit_idle(void (*visit)(struct vr_thread_state *thread, void *user), void *user) {
    vr_once(&once, threads_init);
    list_enter();
    for (struct vr_link *link = vr_list_first(&list); link; link = vr_list_next(&list, link)) {
        vr_store(&VR_CONTAINER(link, struct vr_thread_state, link)->revoked, 1, VR_SEQ_CST);
    }
    process_barrier();
    bool idle = all_are_idle();
    for (struct vr_link *link = vr_list_first(&list); link; link = vr_list_next(&list, link)) {
        struct vr_thread_state *thread = VR_CONTAINER(link, struct vr_thread_state, link);
        if (idle) {
            visit(thread, user);
        }
        vr_store(&thread->revoked, 0, VR_RELEASE);
    }
    vr_mutex_unlock(&list_lock);
    return idle;
}

void vr_thread_quiesce(void) {
    vr_thread_visit_all(NULL, NULL);
}
