/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: messages for a callback or, when VRAM_LOG asks, standard error. Silent otherwise. */
#ifndef VR_LOG_H
#define VR_LOG_H

#include "vram/base.h"

/* Costs two loads when the level is off. Must not be called with a lock held: the callback
   is the user's code. */
void vr_log(vram_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a message of this level would reach anyone. */
bool vr_log_enabled(vram_log_level level);

/* Logs, at warn level, what vram_option_problem tells: once in the process, at the first call that
   finds somebody listening. Must not be called with a lock held. */
void vr_log_option_problems(void);

#endif
