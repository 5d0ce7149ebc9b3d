/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: messages for a callback or, if VRAM_LOG asks for it, standard error. Silent otherwise. */
#ifndef VR_LOG_H
#define VR_LOG_H

#include "base/option.h"

extern vr_atomic_u32 vr_log_threshold; /* log.c (1) */
extern vr_atomic_u64 vr_log_seen;      /* vr_option_changes that it takes into account */

/* False: no message of this level is delivered. True also while nobody has asked for the level
   since it may have changed. */
static inline bool vr_log_maybe(vram_log_level level) {
    return vr_load(&vr_log_seen, VR_ACQUIRE) != vr_load(&vr_option_changes, VR_RELAXED) ||
           (uint32_t)level <= vr_load(&vr_log_threshold, VR_RELAXED); /* in this order: log.c (5) */
}

/* Costs three loads when the level is off. Must not be called with a lock held: the callback
   is the user's code. */
void vr_log(vram_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a message of this level would be delivered. */
bool vr_log_enabled(vram_log_level level);

/* Logs what vram_option_problem returns, at warn level: once in the process, at the first call for
   which the level is enabled. Must not be called with a lock held. */
void vr_log_option_problems(void);

#endif
