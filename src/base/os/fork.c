/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c: detects that the process is a forked child, and runs handlers at a fork.
 *
 * (1) The generation is a word that the kernel wipes in the child, also if the child was created by
 *     clone without the C library. A wiped word is replaced by the next number of `last`, which is
 *     ordinary memory and so copied: every number a child takes is above all that its parent took.
 * (2) Where there is no such word, generation and process id share one word of ordinary memory, and
 *     each query calls getpid. The fork handler covers a process id that is reused.
 * (3) A row of the handler table is written once, then marked ready, and never changes. The rows
 *     that a forking thread has prepared are thread-local: a row that becomes ready between prepare
 *     and the end of the fork is left out of both, and concurrent forks of several threads do not
 *     interfere. The child's only thread is a copy of the forking one.
 */
#include "base/error.h"
#include "base/os/platform.h"

#include <unistd.h>

#define ROWS 8

struct fork_row {
    void (*prepare)(void);
    void (*parent)(void);
    void (*child)(void);
    vr_atomic_bool ready;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static vr_atomic_ptr wiped_word; /* vr_atomic_u64 *: the generation, 0 after a fork; see (1) */
static vr_atomic_u64 last;       /* the last generation issued; see (1) */
static vr_atomic_u64 pid_word;   /* generation << 32 | process id; see (2) */
static int handlers_error;       /* errno of pthread_atfork; written inside `once` */

static struct fork_row rows[ROWS];
static vr_atomic_u32 rows_taken;
static _Thread_local uint32_t prepared; /* bits of rows; see (3) */

static void at_prepare(void) {
    prepared = 0;
    for (unsigned i = ROWS; i-- > 0;) {
        if (vr_load(&rows[i].ready, VR_ACQUIRE)) {
            prepared |= 1u << i;
            if (rows[i].prepare) {
                rows[i].prepare();
            }
        }
    }
}

static void at_parent(void) {
    for (unsigned i = 0; i < ROWS; i++) {
        if ((prepared >> i & 1) && rows[i].parent) {
            rows[i].parent();
        }
    }
}

static void at_child(void) {
    uint64_t seen = vr_load(&pid_word, VR_RELAXED);
    vr_store(&pid_word, seen >> 32 << 32, VR_RELAXED);
    for (unsigned i = 0; i < ROWS; i++) {
        if ((prepared >> i & 1) && rows[i].child) {
            rows[i].child();
        }
    }
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
    uint32_t row = vr_load(&rows_taken, VR_RELAXED);
    do {
        if (row >= ROWS) {
            return vr_error_set(VRAM_ERR_LIMIT, "os", "pthread_atfork", 0,
                                "all %d fork handlers are in use", ROWS);
        }
    } while (!vr_cas_weak(&rows_taken, &row, row + 1, VR_RELAXED));
    rows[row].prepare = prepare;
    rows[row].parent = parent;
    rows[row].child = child;
    vr_store(&rows[row].ready, true, VR_RELEASE);
    return VRAM_OK;
}
