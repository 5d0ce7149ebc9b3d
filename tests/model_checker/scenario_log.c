/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_log.c: messages beside a change of the option that says which are delivered
 * (base/log.c). A thread that has set the option gets every message that it asks for.
 */
#include "explore_scenario.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/text.h"

static struct vr_mutex option_lock;
static uint64_t option_level;
static _Thread_local unsigned delivered; /* messages of this thread */

vr_atomic_u64 vr_option_changes;

/* ------------------------------------------------------ what log.c calls */

uint64_t vr_option_number(enum vr_option option) {
    (void)option;
    vr_mutex_lock(&option_lock);
    uint64_t level = option_level;
    vr_mutex_unlock(&option_lock);
    return level;
}

void vr_os_stderr(const char *text, size_t bytes) {
    (void)text;
    (void)bytes;
    delivered++;
}

bool vr_text_format_list(char *to, size_t to_bytes, const char *format, va_list arguments) {
    (void)to_bytes;
    (void)format;
    (void)arguments;
    to[0] = 0;
    return true;
}

/* ---------------------------------------------------------------- scenarios */

/* As vram_option_set does it. */
static void option_set(vram_log_level level) {
    vr_mutex_lock(&option_lock);
    option_level = level;
    vr_mutex_unlock(&option_lock);
    vr_fetch_add(&vr_option_changes, 1, VR_RELAXED);
}

static void errors_are_delivered(void) {
    vr_mutex_init(&option_lock, VR_RANK_OPTION);
    option_set(VRAM_LOG_ERROR);
    CHECK(vr_log_enabled(VRAM_LOG_ERROR) && !vr_log_maybe(VRAM_LOG_WARN));
}

static void warnings_are_wanted(void) {
    option_set(VRAM_LOG_WARN);
    vr_log(VRAM_LOG_WARN, "now");
    CHECK(delivered == 1);
}

static void debugging_is_wanted(void) {
    option_set(VRAM_LOG_DEBUG);
    vr_log(VRAM_LOG_WARN, "at least");
    CHECK(delivered == 1);
}

static void warning(void) {
    vr_log(VRAM_LOG_WARN, "perhaps");
}

static void warning_is_delivered(void) {
    CHECK(vr_log_enabled(VRAM_LOG_WARN));
}

const struct scenario log_scenarios[] = {{"log",
                                          "an option beside a message",
                                          errors_are_delivered,
                                          {warnings_are_wanted, warning},
                                          warning_is_delivered,
                                          false},
                                         {"log",
                                          "two options",
                                          errors_are_delivered,
                                          {warnings_are_wanted, debugging_is_wanted},
                                          warning_is_delivered,
                                          true},
                                         {.name = NULL}};
