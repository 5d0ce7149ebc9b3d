/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.c: mutexes with ranks, conditions, once, and what a fork does with mutexes.
 *
 * At a fork:
 *  (1) `registered` lists every static mutex that was ever locked: a mutex is added before it is
 *      locked for the first time. The list's own lock, `registered_lock`, is the last in the order:
 *      its holder waits for nothing.
 *  (2) The forking thread takes all listed mutexes in rising rank, as every thread does, then
 *      registered_lock. If the list has changed meanwhile, it releases them and starts again.
 *      Otherwise nothing can be added before registered_lock is released, so no static mutex is
 *      held by another thread at the moment of the fork.
 *  (3) Mutexes of one rank are taken in the list's order. No thread holds two of one rank
 *      otherwise, so this cannot make a cycle.
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

enum {
    SPINS = 64,    /* polls of a locked mutex, a few microseconds in total */
    TRY_SPINS = 16 /* by vr_mutex_try, a part of a microsecond */
};

/* ------------------------------------------------------------- order of locks */

#ifdef VR_DEBUG

#define HELD_MAX 16

static _Thread_local struct {
    const struct vr_mutex *mutex[HELD_MAX]; /* in the order they were taken */
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

static vr_atomic_u64 live; /* mutexes and conditions */

uint64_t vr_locks_live(void) {
    return vr_load(&live, VR_RELAXED);
}

static void count_live(uint64_t change) {
    vr_fetch_add(&live, change, VR_RELAXED);
}

bool vr_mutex_is_held(const struct vr_mutex *mutex) {
    unsigned i = held.count;
    while (i > 0 && held.mutex[i - 1] != mutex) {
        i--;
    }
    return i > 0;
}

static void violation_report(const char *what, int rank, int other) {
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

/* Called before waiting for the mutex, so that an order that would deadlock is reported instead. */
static void check_order(const struct vr_mutex *mutex) {
    for (unsigned i = 0; i < held.count; i++) {
        if (held.mutex[i]->rank >= mutex->rank) {
            violation_report("lock taken out of order", (int)mutex->rank, (int)held.mutex[i]->rank);
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
    violation_report("mutex unlocked that is not held", (int)mutex->rank, 0);
}

static void check_none_held(void) {
    if (held.count) {
        violation_report("fork with a lock held", 0, (int)held.mutex[0]->rank);
    }
}

#else

void vr_lock_violation_set(void (*report)(const char *text)) {
    (void)report;
}

unsigned vr_locks_held(void) {
    return 0;
}

uint64_t vr_locks_live(void) {
    return 0;
}

static void count_live(uint64_t change) {
    (void)change;
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

static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vr_mutex *registered[VR_MUTEX_STATIC_MAX]; /* in rising rank; see (1) */
static unsigned registered_count;
static uint64_t registered_changes;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void) {
    struct vr_mutex *taken[VR_MUTEX_STATIC_MAX];
    check_none_held();
    for (;;) {
        pthread_mutex_lock(&registered_lock);
        uint64_t changes = registered_changes;
        unsigned count = registered_count;
        memcpy(taken, registered, sizeof taken);
        pthread_mutex_unlock(&registered_lock);
        for (unsigned i = 0; i < count; i++) {
            pthread_mutex_lock(&taken[i]->native);
        }
        pthread_mutex_lock(&registered_lock);
        if (changes == registered_changes) {
            return; /* keeps (2): all are held, registered_lock too */
        }
        pthread_mutex_unlock(&registered_lock);
        for (unsigned i = count; i-- > 0;) {
            pthread_mutex_unlock(&taken[i]->native);
        }
    }
}

static void fork_end(void) {
    for (unsigned i = registered_count; i-- > 0;) {
        pthread_mutex_unlock(&registered[i]->native);
    }
    pthread_mutex_unlock(&registered_lock);
}

/* If registering the handlers fails because memory ran out, a fork is as unsafe as without them.
   The caller cannot act on it, so its error record is restored. */
static void fork_start(void) {
    vram_error before;
    vr_error_save(&before);
    if (vr_os_at_fork(fork_prepare, fork_end, fork_end) != VRAM_OK) {
        vr_error_restore(&before);
    }
}

/* Adds a static mutex to the list, after those of lower or equal rank. */
static void mutex_register(struct vr_mutex *mutex) {
    pthread_once(&fork_once, fork_start);
    pthread_mutex_lock(&registered_lock);
    bool fits = registered_count < VR_MUTEX_STATIC_MAX;
    assert(fits);
    if (fits && vr_load(&mutex->at_fork, VR_RELAXED) == VR_MUTEX_NEW) {
        unsigned at = registered_count++;
        for (; at > 0 && registered[at - 1]->rank > mutex->rank; at--) {
            registered[at] = registered[at - 1];
        }
        registered[at] = mutex;
        registered_changes++;
        vr_store(&mutex->at_fork, VR_MUTEX_REGISTERED, VR_RELAXED);
    }
    pthread_mutex_unlock(&registered_lock);
}

static void mutex_unregister(const struct vr_mutex *mutex) {
    pthread_mutex_lock(&registered_lock);
    for (unsigned i = 0; i < registered_count; i++) {
        if (registered[i] == mutex) {
            registered_changes++;
            for (registered_count--; i < registered_count; i++) {
                registered[i] = registered[i + 1];
            }
            break;
        }
    }
    pthread_mutex_unlock(&registered_lock);
}

/* -------------------------------------------------------------------- mutexes */

void vr_mutex_init(struct vr_mutex *mutex, enum vr_rank rank) {
    /* With default attributes this only fills the struct on every known system. */
    int error = pthread_mutex_init(&mutex->native, NULL);
    assert(error == 0);
    (void)error;
    mutex->rank = rank;
    vr_store(&mutex->at_fork, VR_MUTEX_LEFT, VR_RELAXED);
    count_live(1);
}

void vr_mutex_destroy(struct vr_mutex *mutex) {
    uint32_t at_fork = vr_load(&mutex->at_fork, VR_RELAXED);
    if (at_fork == VR_MUTEX_REGISTERED) {
        mutex_unregister(mutex);
    } else if (at_fork == VR_MUTEX_LEFT) {
        count_live(UINT64_MAX); /* one less */
    }
    (void)pthread_mutex_destroy(&mutex->native);
}

/* The code under our mutexes takes less time than a sleep and a wake-up, so a thread polls for a
   while before it sleeps. */
static bool poll_native(pthread_mutex_t *native, int spins) {
    for (int i = 0; i < spins; i++) {
        vr_os_pause();
        if (pthread_mutex_trylock(native) == 0) {
            return true;
        }
    }
    return false;
}

void vr_mutex_lock(struct vr_mutex *mutex) {
    if (vr_load(&mutex->at_fork, VR_RELAXED) == VR_MUTEX_NEW) {
        mutex_register(mutex);
    }
    check_order(mutex);
    VR_DELAY_POINT("lock");
    if (pthread_mutex_trylock(&mutex->native) != 0 && !poll_native(&mutex->native, SPINS)) {
        pthread_mutex_lock(&mutex->native);
    }
    note_locked(mutex);
}

bool vr_mutex_try(struct vr_mutex *mutex) {
    assert(vr_load(&mutex->at_fork, VR_RELAXED) == VR_MUTEX_LEFT);
    check_order(mutex);
    VR_DELAY_POINT("lock");
    if (pthread_mutex_trylock(&mutex->native) != 0 && !poll_native(&mutex->native, TRY_SPINS)) {
        return false;
    }
    note_locked(mutex);
    return true;
}

void vr_mutex_unlock(struct vr_mutex *mutex) {
    note_unlocked(mutex);
    pthread_mutex_unlock(&mutex->native);
    VR_DELAY_POINT("unlock");
}

/* ----------------------------------------------------------------- conditions */

vram_status vr_cond_init(struct vr_cond *cond) {
    int error = vr_os_cond_init(&cond->native);
    count_live(!error);
    return error ? vr_os_error(error, "pthread_cond_init", 0) : VRAM_OK;
}

void vr_cond_destroy(struct vr_cond *cond) {
    count_live(UINT64_MAX);
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
