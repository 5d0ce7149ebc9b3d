/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak.h: writes a report of leaked blocks, as text or JSON.
 *
 * Blocks are grouped by tag and stack, the group with the most bytes first; in a group they are in
 * the order of their ids. The caller holds no lock: the writer may be the program's.
 */
#ifndef VR_LEAK_H
#define VR_LEAK_H

#include "base/writer.h"
#include "track/leak_tags.h"
#include "track/suppress.h"
#include "track/tracks.h"
#include "vram/stats.h"

/* The report. `title`: its subject, one line. `writer` NULL: only the summary. `tags` receives the
   leaks by tag, unless NULL; the caller frees it. VRAM_ERR_IO: the writer refused;
   VRAM_ERR_HOST_MEMORY. */
vram_status vr_leaks_report(const struct vr_tracks *tracks, const struct vr_live_filter *filter,
                            const struct vr_suppressions *but, const char *title,
                            vram_report_format format, struct vr_writer *writer,
                            struct vram_leak_summary *summary, struct vr_leak_tags *tags);

#endif
