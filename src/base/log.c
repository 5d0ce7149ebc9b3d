/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c: who hears what the library has to say.
 *
 *  (1) `threshold` is the highest level that anyone wants. It is read without a lock, and so is the
 *      number of changes of options: a message above it costs these two loads.
 *  (2) UNKNOWN lets every message into the slow path, where the option `log` is read. It stands at
 *      the start, after the callback was taken away, and after an option changed.
 *  (3) `change` counts changes. Who reads the option notes it first and publishes a threshold only
 *      if nothing changed meanwhile, so an old answer never replaces a new one. The option's own
 *      lock ranks below ours and is therefore taken outside of it.
 *  (4) The callback runs with no lock held, guarded against itself by a flag of its thread.
 */
#include "base/log.h"

#include "base/atomic.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    UNKNOWN = 255,   /* see (2); above every level */
    LINE_BYTES = 512 /* of one message, the final 0 included */
};

static struct {
    struct vr_mutex lock;
    vram_log_fn *log; /* NULL: standard error, as far as the option says */
    void *user;
    uint64_t change; /* see (3) */
} sink = {.lock = VR_MUTEX_INIT(VR_RANK_LOG)};

static vr_atomic_u32 threshold = UNKNOWN;
static vr_atomic_u64 seen;        /* vr_option_changes that `threshold` takes into account */
static _Thread_local bool inside; /* this thread is in the callback */

/* The levels by number; the option's choices have the same order. */
static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};

void vram_log_set(vram_log_fn *log, void *user, vram_log_level level) {
    /* A level out of range means the nearest that exists: there is no status to return. */
    int number = (int)level < VRAM_LOG_OFF     ? VRAM_LOG_OFF
                 : (int)level > VRAM_LOG_DEBUG ? VRAM_LOG_DEBUG
                                               : (int)level;
    vr_mutex_lock(&sink.lock);
    sink.log = log;
    sink.user = user;
    sink.change++;
    vr_store(&threshold, log ? (uint32_t)number : UNKNOWN, VR_RELAXED);
    vr_mutex_unlock(&sink.lock);
}

/* The threshold as far as it is known: UNKNOWN when the option may have changed. */
static uint32_t current_threshold(void) {
    uint64_t changes = vr_option_changes();
    if (vr_load(&seen, VR_RELAXED) != changes) {
        vr_mutex_lock(&sink.lock);
        if (!sink.log) {
            sink.change++;
            vr_store(&threshold, UNKNOWN, VR_RELAXED);
        }
        vr_store(&seen, changes, VR_RELAXED);
        vr_mutex_unlock(&sink.lock);
    }
    return vr_load(&threshold, VR_RELAXED);
}

/* The threshold, found out first where it is not known. Keeps (3). */
static uint32_t known_threshold(void) {
    uint32_t found = current_threshold();
    while (found == UNKNOWN) {
        vr_mutex_lock(&sink.lock);
        uint64_t before = sink.change;
        vr_mutex_unlock(&sink.lock);
        uint32_t asked = (uint32_t)vr_option_number(VR_OPTION_LOG);
        vr_mutex_lock(&sink.lock);
        if (sink.change == before) {
            vr_store(&threshold, asked, VR_RELAXED);
        }
        found = vr_load(&threshold, VR_RELAXED);
        vr_mutex_unlock(&sink.lock);
    }
    return found;
}

/* Where a message of `level` goes now; false when nowhere. Both parts are read together, so a
   callback never gets another one's user pointer, nor a level it did not ask for. */
static bool receiver(vram_log_level level, vram_log_fn **log, void **user) {
    uint32_t found;
    do {
        if ((uint32_t)level > known_threshold()) {
            return false;
        }
        vr_mutex_lock(&sink.lock);
        found = vr_load(&threshold, VR_RELAXED);
        *log = sink.log;
        *user = sink.user;
        vr_mutex_unlock(&sink.lock);
    } while (found == UNKNOWN);
    return (uint32_t)level <= found;
}

bool vr_log_enabled(vram_log_level level) {
    return (uint32_t)level <= known_threshold();
}

static void write_stderr(vram_log_level level, const char *text) {
    char line[LINE_BYTES + 16];
    int bytes = snprintf(line, sizeof line, "vram: %s: %s\n", level_names[level], text);
    vr_os_stderr(line, (size_t)bytes);
}

/* What the callback does to this thread's error record stays inside: a message must not change what
   the failing call around it is about to report. */
static void deliver(vram_log_fn *log, void *user, vram_log_level level, const char *text) {
    VR_UNCANCELLED;
    vram_error record;
    vr_error_save(&record);
    inside = true;
    log(user, level, text);
    inside = false;
    vr_error_restore(&record);
}

void vr_log(vram_log_level level, const char *format, ...) {
    vram_log_fn *log;
    void *user;
    assert(level > VRAM_LOG_OFF && level <= VRAM_LOG_DEBUG);
    if ((uint32_t)level > current_threshold() || inside) {
        return;
    }
    assert(vr_locks_held() == 0 && "the callback is the user's code");
    if (!receiver(level, &log, &user)) {
        return;
    }
    char text[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (log) {
        deliver(log, user, level, text);
    } else {
        write_stderr(level, text);
    }
}

void vr_log_option_problems(void) {
    char text[LINE_BYTES];
    if (vr_log_enabled(VRAM_LOG_WARN) && vr_option_problems_claim()) {
        for (size_t i = 0; i < vr_option_problem(i, text, sizeof text); i++) {
            vr_log(VRAM_LOG_WARN, "%s", text);
        }
    }
}
