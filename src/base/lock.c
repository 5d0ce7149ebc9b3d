/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.c: mutexes with ranks, conditions, once, and what a fork does with mutexes.
 *
 * At a fork:
 *  (1) `known` lists every static mutex that was ever locked: a mutex enters it before it is locked
 *      for the first time. Its own lock, `known_lock`, is the last in the order: whoever holds it
 *      waits for nothing.
 *  (2) The forking thread takes all listed mutexes in rising rank, as every thread does, then
 *      known_lock. If the list has changed meanwhile it lets go and begins again; otherwise nothing
 *      can enter the list before known_lock is let go, so no static mutex is held by another thread
 *      at the moment of the fork.
 *  (3) Mutexes of one rank are taken in the list's order. No thread holds two of one rank
 *      otherwise, so that this cannot make a cycle.
 */
#include "base/lock.h"

#include "base/delay.h"
#include "base/error.h"
#include "base/os/platform.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS = 64 }; /* looks at a mutex that is taken, a few microseconds together */

/* ------------------------------------------------------------- order of locks */

#ifdef VR_DEBUG

#define HELD_MAX 16

static _Thread_local struct {
    const struct vr_mutex *mutex[HELD_MAX]; /* in the order of taking */
    unsigned count;
} held;

typedef void report_fn(const char *text);
static _Atomic(report_fn *) reporter;

void vr_lock_violation_set(void (*report)(const char *text)) {
    vr_store(&reporter, report, VR_RELEASE);
}

unsigned vr_locks_held(void) {
    return held.count;
}

bool vr_mutex_is_held(const struct vr_mutex *mutex) {
    unsigned i = held.count;
    while (i > 0 && held.mutex[i - 1] != mutex) {
        i--;
    }
    return i > 0;
}

static void violation(const char *what, int rank, int other) {
    char text[128];
    int length =
        snprintf(text, sizeof text - 1, "libvram: %s (rank %d, held %d)", what, rank, other);
    report_fn *report = vr_load(&reporter, VR_ACQUIRE);
    if (report) {
        report(text);
        return;
    }
    text[length] = '\n';
    vr_os_stderr(text, (size_t)length + 1);
    abort();
}

/* Called before waiting for the mutex, so that an order that would deadlock is told, not met. */
static void check_order(const struct vr_mutex *mutex) {
    for (unsigned i = 0; i < held.count; i++) {
        if (held.mutex[i]->rank >= mutex->rank) {
            violation("lock taken out of order", (int)mutex->rank, (int)held.mutex[i]->rank);
            return;
        }
    }
}

static void note_locked(const struct vr_mutex *mutex) {
    assert(held.count < HELD_MAX);
    if (held.count < HELD_MAX) {
        held.mutex[held.count++] = mutex;
    }
}

static void note_unlocked(const struct vr_mutex *mutex) {
    for (unsigned i = held.count; i-- > 0;) {
        if (held.mutex[i] == mutex) {
            for (held.count--; i < held.count; i++) {
                held.mutex[i] = held.mutex[i + 1];
            }
            return;
        }
    }
    violation("mutex unlocked that is not held", (int)mutex->rank, 0);
}

static void check_none_held(void) {
    if (held.count) {
        violation("fork with a lock held", 0, (int)held.mutex[0]->rank);
    }
}

#else

void vr_lock_violation_set(void (*report)(const char *text)) {
    (void)report;
}

unsigned vr_locks_held(void) {
    return 0;
}

bool vr_mutex_is_held(const struct vr_mutex *mutex) {
    (void)mutex;
    return true;
}

static void check_order(const struct vr_mutex *mutex) {
    (void)mutex;
}

static void note_locked(const struct vr_mutex *mutex) {
    (void)mutex;
}

static void note_unlocked(const struct vr_mutex *mutex) {
    (void)mutex;
}

static void check_none_held(void) {}

#endif

/* ---------------------------------------------------------------------- fork */

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vr_mutex *known[VR_MUTEX_STATIC_MAX]; /* in rising rank; see (1) */
static unsigned known_count;
static uint64_t known_changes;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void) {
    struct vr_mutex *taken[VR_MUTEX_STATIC_MAX];
    check_none_held();
    for (;;) {
        pthread_mutex_lock(&known_lock);
        uint64_t changes = known_changes;
        unsigned count = known_count;
        memcpy(taken, known, sizeof taken);
        pthread_mutex_unlock(&known_lock);
        for (unsigned i = 0; i < count; i++) {
            pthread_mutex_lock(&taken[i]->native);
        }
        pthread_mutex_lock(&known_lock);
        if (changes == known_changes) {
            return; /* keeps (2): all are held, known_lock too */
        }
        pthread_mutex_unlock(&known_lock);
        for (unsigned i = count; i-- > 0;) {
            pthread_mutex_unlock(&taken[i]->native);
        }
    }
}

static void fork_end(void) {
    for (unsigned i = known_count; i-- > 0;) {
        pthread_mutex_unlock(&known[i]->native);
    }
    pthread_mutex_unlock(&known_lock);
}

/* Should the handlers be refused for want of memory, a fork is as unsafe as without them: there is
   nobody here to whom it could be told, and the error record stays the caller's. */
static void fork_start(void) {
    vram_error before;
    vr_error_save(&before);
    if (vr_os_at_fork(fork_prepare, fork_end, fork_end) != VRAM_OK) {
        vr_error_restore(&before);
    }
}

/* Enters a static mutex into the list, behind those of lower or equal rank. */
static void know(struct vr_mutex *mutex) {
    pthread_once(&fork_once, fork_start);
    pthread_mutex_lock(&known_lock);
    bool room = known_count < VR_MUTEX_STATIC_MAX;
    assert(room);
    if (room && vr_load(&mutex->at_fork, VR_RELAXED) == VR_MUTEX_NEW) {
        unsigned at = known_count++;
        for (; at > 0 && known[at - 1]->rank > mutex->rank; at--) {
            known[at] = known[at - 1];
        }
        known[at] = mutex;
        known_changes++;
        vr_store(&mutex->at_fork, VR_MUTEX_KNOWN, VR_RELAXED);
    }
    pthread_mutex_unlock(&known_lock);
}

static void forget(const struct vr_mutex *mutex) {
    pthread_mutex_lock(&known_lock);
    for (unsigned i = 0; i < known_count; i++) {
        if (known[i] == mutex) {
            known_changes++;
            for (known_count--; i < known_count; i++) {
                known[i] = known[i + 1];
            }
            break;
        }
    }
    pthread_mutex_unlock(&known_lock);
}

/* -------------------------------------------------------------------- mutexes */

void vr_mutex_init(struct vr_mutex *mutex, enum vr_rank rank) {
    /* With default attributes this only fills the struct on every system we know. */
    int error = pthread_mutex_init(&mutex->native, NULL);
    assert(error == 0);
    (void)error;
    mutex->rank = rank;
    vr_store(&mutex->at_fork, VR_MUTEX_LEFT, VR_RELAXED);
}

void vr_mutex_destroy(struct vr_mutex *mutex) {
    if (vr_load(&mutex->at_fork, VR_RELAXED) == VR_MUTEX_KNOWN) {
        forget(mutex);
    }
    (void)pthread_mutex_destroy(&mutex->native);
}

/* What our mutexes guard takes less time than going to sleep and being woken, so that a thread
   looks again for a while first. */
static void wait_native(pthread_mutex_t *native) {
    for (int i = 0; i < SPINS; i++) {
        vr_os_pause();
        if (pthread_mutex_trylock(native) == 0) {
            return;
        }
    }
    pthread_mutex_lock(native);
}

void vr_mutex_lock(struct vr_mutex *mutex) {
    if (vr_load(&mutex->at_fork, VR_RELAXED) == VR_MUTEX_NEW) {
        know(mutex);
    }
    check_order(mutex);
    VR_DELAY_POINT("lock");
    if (pthread_mutex_trylock(&mutex->native) != 0) {
        wait_native(&mutex->native);
    }
    note_locked(mutex);
}

void vr_mutex_unlock(struct vr_mutex *mutex) {
    note_unlocked(mutex);
    pthread_mutex_unlock(&mutex->native);
    VR_DELAY_POINT("unlock");
}

/* ----------------------------------------------------------------- conditions */

vram_status vr_cond_init(struct vr_cond *cond) {
    int error = vr_os_cond_init(&cond->native);
    return error ? vr_os_error(error, "pthread_cond_init", 0) : VRAM_OK;
}

void vr_cond_destroy(struct vr_cond *cond) {
    (void)pthread_cond_destroy(&cond->native);
}

void vr_cond_broadcast(struct vr_cond *cond) {
    (void)pthread_cond_broadcast(&cond->native);
}

bool vr_cond_wait(struct vr_cond *cond, struct vr_mutex *mutex, uint64_t ns) {
    VR_UNCANCELLED;
    return vr_os_cond_wait(&cond->native, &mutex->native, ns) != ETIMEDOUT;
}

/* ----------------------------------------------------------------------- once */

void vr_once(struct vr_once *once, void (*fn)(void)) {
    (void)pthread_once(&once->native, fn);
}
