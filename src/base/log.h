/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: messages for a callback or, when VRAM_LOG asks, standard error. Silent otherwise. */
#ifndef VR_LOG_H
#define VR_LOG_H

#include "vram/base.h"

/* Costs one relaxed load when the level is off. Must not be called with a lock held: the callback
   is the user's code. */
void vr_log(vram_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a message of this level would reach anyone. */
bool vr_log_enabled(vram_log_level level);

/* Told by the options table that the option `log` may have changed. */
void vr_log_refresh(void);

#endif
