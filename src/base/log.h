/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: messages for a callback or, if VRAM_LOG asks for it, standard error. Silent otherwise. */
#ifndef VR_LOG_H
#define VR_LOG_H

#include "vram/base.h"

/* Costs two loads when the level is off. Must not be called with a lock held: the callback
   is the user's code. */
void vr_log(vram_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a message of this level would be delivered. */
bool vr_log_enabled(vram_log_level level);

/* Logs what vram_option_problem returns, at warn level: once in the process, at the first call for
   which the level is enabled. Must not be called with a lock held. */
void vr_log_option_problems(void);

#endif
