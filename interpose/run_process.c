/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_process.c: see run_process.h.
 *
 *  (1) The slot and the trace are this process's as long as `generation` is that of the process. A
 *      forked child finds another one and starts anew; it closes nothing of its parent.
 *  (2) A trace is closed when the process exits, while other threads may still run: they enter
 *      before they write, and the closing thread waits until all have left. If one of them stays,
 *      as a thread that was cancelled inside may, the file stays open: it is whole without its end.
 */
#include "run_process.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"
#include "base/text.h"
#include "run_frames.h"
#include "run_live.h"
#include "track/trace_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { POOLS = (RUN_DEVICES + 1) * RUN_KINDS, POOL_WORDS = POOLS / 64 + 1, LEAVE_MS = 200 };

/* ---------------------------------------------------------------------- state */

static struct vr_mutex lock = VR_MUTEX_INIT(VR_RANK_SHARE); /* guards changes of the state */
static struct {
    vr_atomic_u64 generation;        /* of the process that the rest belongs to; written last */
    vr_atomic_ptr slot;              /* struct run_slot *; own_slot: none was free */
    vr_atomic_ptr writer;            /* struct vr_trace_writer *; NULL: none, or no longer */
    vr_atomic_u32 inside;            /* threads that write */
    vr_atomic_u64 begun[POOL_WORDS]; /* pools of the trace, by number */
    vr_atomic_u64 ended[POOLS];      /* how often */
} state;

/* What a process counts in that finds no free slot: it is not recorded, but limited. */
static struct run_slot own_slot;

uint64_t run_pid_space(void) {
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

static struct run_slot *slot_claim(int64_t pid, unsigned *earlier) {
    struct run_page *page = run_page_attach();
    *earlier = 0;
    for (unsigned i = 0; i < RUN_SLOTS; i++) {
        int64_t free = 0;
        struct run_slot *slot = &page->slots[i];
        if (atomic_compare_exchange_strong(&slot->pid, &free, pid)) {
            slot->pid_space = run_pid_space();
            return slot;
        }
        *earlier += free == pid; /* the program that this one replaced by exec */
    }
    atomic_fetch_add(&page->slotless, 1);
    memset(&own_slot, 0, sizeof own_slot);
    return &own_slot;
}

/* ------------------------------------------------------------------- the trace */

/* Writes the path with %p and %h replaced. A process that is not the first gets a file of its own
   also if the pattern has no %p. False: it does not fit. */
static bool trace_path(const char *pattern, int64_t pid, unsigned earlier, char *path,
                       size_t bytes) {
    char host[256] = "localhost";
    int64_t root = run_page_get()->settings.root;
    size_t used = 0;
    bool numbered = false;
    (void)gethostname(host, sizeof host - 1);
    for (const char *at = pattern; *at; at++) {
        int more = at[0] == '%' && at[1] == 'p'
                       ? snprintf(path + used, bytes - used, "%lld", (long long)pid)
                   : at[0] == '%' && at[1] == 'h' ? snprintf(path + used, bytes - used, "%s", host)
                                                  : snprintf(path + used, bytes - used, "%c", *at);
        bool replaced = at[0] == '%' && (at[1] == 'p' || at[1] == 'h');
        numbered = numbered || (replaced && at[1] == 'p');
        at += replaced;
        used += (size_t)more;
        if (more < 0 || used >= bytes) {
            return false;
        }
    }
    int more = 0;
    if (!numbered && pid != root) {
        more = snprintf(path + used, bytes - used, ".%lld", (long long)pid);
        used += (size_t)more;
    }
    if (more >= 0 && used < bytes && earlier) {
        more = snprintf(path + used, bytes - used, ".%u", earlier);
        used += (size_t)more;
    }
    return more >= 0 && used < bytes;
}

static void frame_describe(uint64_t frame, char *text, size_t bytes) {
    (void)bytes; /* VR_FRAME_TEXT */
    run_frame_text(frame, text);
}

/* Opens the trace and says in the slot where it is, or why there is none. Under the lock. */
static struct vr_trace_writer *trace_open(struct run_slot *slot, int64_t pid, unsigned earlier) {
    const struct vr_trace_stacks stacks = {run_frames, frame_describe};
    static char path[RUN_PATH]; /* that in the slot may be another one the next moment */
    struct vr_trace_writer *writer = NULL;
    const struct run_settings *settings = &run_page_get()->settings;
    const char *wanted = run_trace_wanted();
    if (!wanted || (pid != settings->root && !settings->follow)) {
        return NULL;
    }
    vram_status status = VRAM_ERR_INVALID;
    if (trace_path(wanted, pid, earlier, path, sizeof path)) {
        (void)vr_text_copy(slot->trace, sizeof slot->trace, path);
        status = vr_trace_writer_open(path, 0, &stacks, &writer);
    }
    if (status != VRAM_OK) {
        (void)vr_text_format(slot->problem, sizeof slot->problem, "%s",
                             status == VRAM_ERR_INVALID ? "the path is no plain file, or too long"
                                                        : vram_error_get()->text);
    }
    atomic_store(&slot->recorded, status == VRAM_OK ? 1 : 2);
    return writer;
}

/* What the program is called, for the report. */
static void slot_describe(struct run_slot *slot) {
    char path[RUN_PATH];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    path[bytes > 0 ? bytes : 0] = 0;
    const char *file = strrchr(path, '/');
    (void)vr_text_copy(slot->command, sizeof slot->command, file ? file + 1 : path);
}

/* Under the lock. Keeps (1). */
static void state_renew(uint64_t generation) {
    unsigned earlier;
    int64_t pid = getpid();
    struct run_slot *slot = slot_claim(pid, &earlier);
    run_live_clear();
    vr_store(&state.writer, NULL, VR_RELAXED);
    vr_store(&state.inside, 0, VR_RELAXED);
    for (unsigned i = 0; i < POOL_WORDS; i++) {
        vr_store(&state.begun[i], 0, VR_RELAXED);
    }
    if (slot != &own_slot) {
        slot_describe(slot);
        vr_store(&state.writer, trace_open(slot, pid, earlier), VR_RELAXED);
        atomic_store(&slot->state, RUN_STARTED);
    }
    vr_store(&state.slot, slot, VR_RELAXED);
    vr_store(&state.generation, generation, VR_RELEASE);
}

bool run_slot_has(void) {
    return vr_load(&state.generation, VR_ACQUIRE) == vr_os_process_generation();
}

struct run_slot *run_slot_get(void) {
    uint64_t generation = vr_os_process_generation();
    if (vr_load(&state.generation, VR_ACQUIRE) != generation) {
        struct vram_error error;
        if (!run_page_attach()) {
            return NULL;
        }
        vr_error_save(&error);
        vr_mutex_lock(&lock);
        if (vr_load(&state.generation, VR_RELAXED) != generation) {
            state_renew(generation);
        }
        vr_mutex_unlock(&lock);
        vr_error_restore(&error);
    }
    return vr_load(&state.slot, VR_RELAXED);
}

struct vr_trace_writer *run_trace_enter(void) {
    if (!run_slot_get()) {
        return NULL;
    }
    vr_fetch_add(&state.inside, 1, VR_SEQ_CST);
    struct vr_trace_writer *writer = vr_load(&state.writer, VR_SEQ_CST);
    if (!writer) {
        vr_fetch_sub(&state.inside, 1, VR_RELEASE);
    }
    return writer;
}

void run_trace_leave(void) {
    vr_fetch_sub(&state.inside, 1, VR_RELEASE);
}

/* Keeps (2). */
void run_trace_end(void) {
    if (!run_slot_has()) {
        return; /* nothing was recorded, or it was by the parent */
    }
    struct vr_trace_writer *writer = vr_exchange(&state.writer, NULL, VR_SEQ_CST);
    for (unsigned ms = 0; vr_load(&state.inside, VR_SEQ_CST) && ms < LEAVE_MS; ms++) {
        vr_os_sleep(1000000);
    }
    if (!vr_load(&state.inside, VR_SEQ_CST)) {
        vr_trace_writer_close(writer);
    }
    struct run_slot *slot = vr_load(&state.slot, VR_RELAXED);
    if (slot) {
        atomic_store(&slot->state, RUN_ENDED);
    }
}

void run_pool_once(uint32_t pool, void (*begin)(void *user), void *user) {
    uint64_t bit = UINT64_C(1) << pool % 64;
    vr_atomic_u64 *word = &state.begun[pool / 64 % POOL_WORDS];
    if (vr_load(word, VR_ACQUIRE) & bit) {
        return;
    }
    vr_mutex_lock(&lock);
    if (!(vr_load(word, VR_RELAXED) & bit)) {
        begin(user);
        vr_fetch_or(word, bit, VR_RELEASE);
    }
    vr_mutex_unlock(&lock);
}

uint64_t run_pool_handle(uint32_t pool) {
    uint64_t times = vr_load(&state.ended[pool % POOLS], VR_ACQUIRE);
    return times * POOLS + pool + 1;
}

void run_pool_ended(uint32_t pool) {
    vr_fetch_add(&state.ended[pool % POOLS], 1, VR_RELEASE);
    vr_fetch_and(&state.begun[pool / 64 % POOL_WORDS], ~(UINT64_C(1) << pool % 64), VR_ACQ_REL);
}
