/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.h: mutexes with a rank, conditions and once. The enum documents all locks of the library: a
 * thread takes locks in rising rank only, and holds none across a driver call or a user's callback.
 * Debug builds (VR_DEBUG) check both; release builds contain none of the checks.
 *
 * Forking. A mutex of static storage is one initialised by VR_MUTEX_INIT. At a fork the calling
 * thread takes all of these in rising rank, and releases them in parent and child. So none is left
 * locked in the child, and the data they guard is consistent there. They register themselves. A
 * mutex made by vr_mutex_init belongs to an object and is not touched: in the child it may stay
 * locked for ever. So the child must find out by vr_os_process_generation that the object is not
 * its own before it touches the lock.
 */
#ifndef VR_LOCK_H
#define VR_LOCK_H

#include "base/atomic.h"
#include "vram/base.h"

#include <pthread.h>

enum vr_rank {
    VR_RANK_REMOTE = 1,   /* commands, marks and memory of a remote (adapters/ucx); a leaf */
    VR_RANK_LEASE = 2,    /* a lease, or the list of hosted brokers; a leaf in practice */
    VR_RANK_SHARE = 3,    /* the servers of shared memory, their exports and readers */
    VR_RANK_RING = 4,     /* whether a ring's thread is to stop, and what it failed with */
    VR_RANK_MONITOR = 5,  /* whether a monitor is to stop; a leaf in practice */
    VR_RANK_SCOPE = 6,    /* what a scope, a batch or a manager of names owns */
    VR_RANK_STAGING = 7,  /* a device's slots for copies of pageable memory */
    VR_RANK_COPY = 8,     /* copies that threads share; a leaf in practice */
    VR_RANK_LIVE = 9,     /* the contexts of the live page, and the page's file */
    VR_RANK_CONTEXT = 10, /* a context's devices */
    VR_RANK_DEVICE = 20,  /* a device's children, memory records, ranges */
    VR_RANK_SHORT = 21,   /* threads that wait for other threads to free memory */
    VR_RANK_THREAD = 22,  /* the list of threads with caches */
    VR_RANK_POOL = 24,    /* a pool: its space, central cache and table */
    VR_RANK_BUFFER = 25,  /* one buffer: its address and its users */
    VR_RANK_LEDGER = 26,  /* a device's limits, tags and quotas */
    VR_RANK_TRACK = 28,   /* memory for records of live blocks; listeners of pools */
    VR_RANK_ASYNC = 29,   /* pending work on a device, and its completion callbacks */
    VR_RANK_QUEUE = 30,   /* a queue's own state */
    VR_RANK_SLOTS = 32,   /* frames of a readback, blocks of a feed; a leaf */
    VR_RANK_DRIVER = 36,  /* calls that a driver takes one at a time */
    VR_RANK_BACKEND = 40, /* inside one backend: host queues, the simulation's state */
    VR_RANK_RADIX = 50,   /* changes of the address map */
    VR_RANK_HANDLE = 60,  /* changes of the handle table */
    VR_RANK_OPTION = 70,  /* the options table */
    VR_RANK_TRACE = 75,   /* a trace's writer: its tables */
    VR_RANK_PLACES = 76,  /* a trace's file: where its chunks are */
    VR_RANK_LOG = 80,     /* the log callback's registration */
    VR_RANK_REPORT = 85,  /* the latest out-of-memory reports */
    VR_RANK_DISK = 88,    /* which files are open and locked */
    VR_RANK_STABLE = 90   /* free lists of type-stable memory; a leaf */
};

/* How a fork treats a mutex. */
enum vr_mutex_fork {
    VR_MUTEX_LEFT = 0,       /* not at all */
    VR_MUTEX_NEW = 1,        /* static, not yet locked for the first time */
    VR_MUTEX_REGISTERED = 2, /* static, taken at a fork */
};

struct vr_mutex {
    pthread_mutex_t native;
    enum vr_rank rank;
    vr_atomic_u32 at_fork; /* enum vr_mutex_fork */
};

/* Only for variables of static storage: a fork at any later time touches the mutex. */
#define VR_MUTEX_INIT(rank)                                                                        \
    { PTHREAD_MUTEX_INITIALIZER, rank, VR_MUTEX_NEW }
#define VR_MUTEX_STATIC_MAX 64 /* mutexes of static storage that a fork can take */

void vr_mutex_init(struct vr_mutex *mutex, enum vr_rank rank);
void vr_mutex_destroy(struct vr_mutex *mutex);
void vr_mutex_lock(struct vr_mutex *mutex);
void vr_mutex_unlock(struct vr_mutex *mutex);
/* Locks a mutex that is not static if that is possible within a microsecond. */
bool vr_mutex_try(struct vr_mutex *mutex);

/* A condition on the monotonic clock. */
struct vr_cond {
    pthread_cond_t native;
};

vram_status vr_cond_init(struct vr_cond *cond);
void vr_cond_destroy(struct vr_cond *cond);
void vr_cond_broadcast(struct vr_cond *cond);
/* Waits at most `ns`; false on timeout. Spurious wake-ups happen. Real time, not vr_clock.
   UINT64_MAX: without a limit in practice. */
bool vr_cond_wait(struct vr_cond *cond, struct vr_mutex *mutex, uint64_t ns);

/* Runs `fn` once in the process. */
struct vr_once {
    pthread_once_t native;
};
#define VR_ONCE_INIT                                                                               \
    { PTHREAD_ONCE_INIT }
void vr_once(struct vr_once *once, void (*fn)(void));

/* How many locks of the library the calling thread holds; always 0 without VR_DEBUG. */
unsigned vr_locks_held(void);
/* How many mutexes and conditions were initialized and not destroyed, other than static mutexes;
   always 0 without VR_DEBUG. */
uint64_t vr_locks_live(void);
/* Whether the calling thread holds the mutex. For asserts: always true without VR_DEBUG. */
bool vr_mutex_is_held(const struct vr_mutex *mutex);

/* Debug builds: called, with a description, when a rank is taken out of order, a mutex is unlocked
   that is not held, or a fork is made with one held. NULL restores the default, which prints and
   aborts (an assertion on ourselves, never compiled into releases). Does nothing in releases. */
void vr_lock_violation_set(void (*report)(const char *text));

#endif
