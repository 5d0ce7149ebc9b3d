/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c: detects that the process is a forked child, and runs handlers at a fork.
 *
 * (1) The generation is a word that the kernel wipes in the child, also if the child was created by
 *     clone without the C library. A wiped word is replaced by the next number of `last`, which is
 *     ordinary memory and so copied: every number a child takes is above all that its parent took.
 * (2) Where there is no such word, generation and process id share one word of ordinary memory, and
 *     each query calls getpid. The fork handler covers a process id that is reused.
 * (3) Rows are added and never change. From the end of at_prepare to the end of the fork rows_lock
 *     is held, so that no row is added meanwhile: the thread that adds the row of a lock takes that
 *     lock only afterwards, and no child inherits it locked. rows_lock is taken last, since a row
 *     may be added with locks held. If rows were added while others were prepared, all begin again.
 */
#include "base/error.h"
#include "base/os/platform.h"

#include <unistd.h>

#define ROWS 8

struct fork_row {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static vr_atomic_ptr wiped_word; /* vr_atomic_u64 *: the generation, 0 after a fork; see (1) */
static vr_atomic_u64 last;       /* the last generation issued; see (1) */
static vr_atomic_u64 pid_word;   /* generation << 32 | process id; see (2) */
static int handlers_error;       /* errno of pthread_atfork; written inside `once` */

static struct fork_row rows[ROWS];
static pthread_mutex_t rows_lock = PTHREAD_MUTEX_INITIALIZER; /* held from at_prepare on; see (3) */
static uint32_t rows_count;                                   /* under rows_lock */

static void rows_run_parent(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].parent) {
            rows[i].parent();
        }
    }
}

/* Keeps (3): rows_lock is the last of all locks, and no row is added while it is held. */
static void at_prepare(void) {
    for (;;) {
        pthread_mutex_lock(&rows_lock);
        uint32_t count = rows_count;
        pthread_mutex_unlock(&rows_lock);
        for (uint32_t i = count; i-- > 0;) {
            if (rows[i].prepare) {
                rows[i].prepare();
            }
        }
        pthread_mutex_lock(&rows_lock);
        if (count == rows_count) {
            return;
        }
        pthread_mutex_unlock(&rows_lock);
        rows_run_parent(count);
    }
}

static void at_parent(void) {
    rows_run_parent(rows_count);
    pthread_mutex_unlock(&rows_lock);
}

static void at_child(void) {
    uint64_t seen = vr_load(&pid_word, VR_RELAXED);
    vr_store(&pid_word, seen >> 32 << 32, VR_RELAXED);
    for (uint32_t i = 0; i < rows_count; i++) {
        if (rows[i].child) {
            rows[i].child();
        }
    }
    pthread_mutex_unlock(&rows_lock);
}

static void handlers_start(void) {
    handlers_error = pthread_atfork(at_prepare, at_parent, at_child);
    vr_store(&wiped_word, (void *)vr_os_fork_word(), VR_RELEASE);
}

static uint64_t generation_by_pid(void) {
    uint64_t seen = vr_load(&pid_word, VR_RELAXED);
    uint64_t pid = (uint32_t)getpid();
    while ((uint32_t)seen != pid) {
        uint64_t next = ((seen >> 32) + 1) << 32 | pid;
        if (vr_cas(&pid_word, &seen, next, VR_RELAXED)) {
            seen = next;
        }
    }
    return seen >> 32;
}

/* The first query of a process, or every query where no word is wiped. */
static uint64_t generation_slow(void) {
    pthread_once(&once, handlers_start);
    vr_atomic_u64 *word = vr_load(&wiped_word, VR_ACQUIRE);
    if (!word) {
        return generation_by_pid();
    }
    uint64_t seen = 0;
    uint64_t next = vr_fetch_add(&last, 1, VR_RELAXED) + 1;
    return vr_cas(word, &seen, next, VR_RELAXED) ? next : seen;
}

uint64_t vr_os_process_generation(void) {
    vr_atomic_u64 *word = vr_load(&wiped_word, VR_ACQUIRE);
    uint64_t generation = word ? vr_load(word, VR_RELAXED) : 0;
    return generation ? generation : generation_slow();
}

vram_status vr_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    pthread_once(&once, handlers_start);
    if (handlers_error) {
        return vr_os_error(handlers_error, "pthread_atfork", 0);
    }
    pthread_mutex_lock(&rows_lock);
    bool fits = rows_count < ROWS;
    if (fits) {
        rows[rows_count++] = (struct fork_row){prepare, parent, child};
    }
    pthread_mutex_unlock(&rows_lock);
    return fits ? VRAM_OK
                : vr_error_set(VRAM_ERR_LIMIT, "os", "pthread_atfork", 0,
                               "all %d fork handlers are in use", ROWS);
}
