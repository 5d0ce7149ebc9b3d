/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c: filters messages by level and delivers them to the callback or to standard error.
 *
 *  (1) vr_log_threshold is the highest level that is delivered. It is read without a lock, and so
 *      are the numbers of option changes: a message above it costs these loads.
 *  (2) UNKNOWN lets every message into the slow path, where the option `log` is read. It is the
 *      value at the start, after the callback was removed, and after an option changed.
 *  (3) `change` counts changes. A thread that reads the option notes the count first and publishes
 *      a threshold only if nothing changed meanwhile, so an old value never replaces a new one. The
 *      option's lock ranks below this file's, so it is not taken while this file's lock is held.
 *  (4) The callback runs with no lock held. A thread-local flag prevents it from calling itself.
 *  (5) vr_log_seen is stored after the threshold that goes with it, and loaded before the
 *      threshold. So a thread that has changed the option and finds its change seen does not find
 *      an older threshold.
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
    vram_log_fn *log; /* NULL: standard error, filtered by the option */
    void *user;
    uint64_t change; /* see (3) */
} sink = {.lock = VR_MUTEX_INIT(VR_RANK_LOG)};

vr_atomic_u32 vr_log_threshold = UNKNOWN;
vr_atomic_u64 vr_log_seen;
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
    vr_store(&vr_log_threshold, log ? (uint32_t)number : UNKNOWN, VR_RELAXED);
    vr_mutex_unlock(&sink.lock);
}

/* The current threshold; UNKNOWN if the option may have changed. */
static uint32_t current_threshold(void) {
    uint64_t changes = vr_load(&vr_option_changes, VR_RELAXED); /* the option has a lock */
    if (vr_load(&vr_log_seen, VR_ACQUIRE) != changes) {
        vr_mutex_lock(&sink.lock);
        if (!sink.log) {
            sink.change++;
            vr_store(&vr_log_threshold, UNKNOWN, VR_RELAXED);
        }
        vr_store(&vr_log_seen, changes, VR_RELEASE); /* keeps (5) */
        vr_mutex_unlock(&sink.lock);
    }
    return vr_load(&vr_log_threshold, VR_RELAXED);
}

/* The threshold, read from the option if it is unknown. Keeps (3). */
static uint32_t known_threshold(void) {
    uint32_t found = current_threshold();
    while (found == UNKNOWN) {
        vr_mutex_lock(&sink.lock);
        uint64_t before = sink.change;
        vr_mutex_unlock(&sink.lock);
        uint32_t asked = (uint32_t)vr_option_number(VR_OPTION_LOG);
        vr_mutex_lock(&sink.lock);
        if (sink.change == before) {
            vr_store(&vr_log_threshold, asked, VR_RELAXED);
        }
        found = vr_load(&vr_log_threshold, VR_RELAXED);
        vr_mutex_unlock(&sink.lock);
    }
    return found;
}

/* The callback and user pointer for a message of `level`; false if it is not delivered. Both are
   read together, so a callback never gets another one's user pointer, nor a level it did not ask
   for. */
static bool receiver_find(vram_log_level level, vram_log_fn **log, void **user) {
    uint32_t found;
    do {
        if ((uint32_t)level > known_threshold()) {
            return false;
        }
        vr_mutex_lock(&sink.lock);
        found = vr_load(&vr_log_threshold, VR_RELAXED);
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

/* Restores this thread's error record after the callback: a message must not change what the
   failing call around it is about to report. */
static void message_deliver(vram_log_fn *log, void *user, vram_log_level level, const char *text) {
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
    if (!vr_log_maybe(level) || inside) {
        return;
    }
    assert(vr_locks_held() == 0 && "the callback is the user's code");
    if (!receiver_find(level, &log, &user)) {
        return;
    }
    char text[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (log) {
        message_deliver(log, user, level, text);
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
