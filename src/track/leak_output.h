/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak_output.h: what is said of leaks at the end of a pool, a context or the process: one warning
 * in the log, and the report that the option `leaks` asks for. No lock held; nothing here fails.
 */
#ifndef VR_LEAK_OUTPUT_H
#define VR_LEAK_OUTPUT_H

#include "track/leak.h"

/* The suppressions of the file that the option names. One that cannot be read is logged and
   suppresses nothing. */
struct vr_suppressions vr_leaks_suppressed(void);

/* Logs one warning; details are in the report. `lost`: records. */
void vr_leaks_warn(const char *title, struct vr_leak_tags *tags, uint64_t lost);

/* Warns of everything in the list, if there is something that is not suppressed, and writes the
   report. */
void vr_leaks_tell(const struct vr_tracks *tracks, const char *title);

#endif
