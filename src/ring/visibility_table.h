/* SPDX-License-Identifier: Apache-2.0 */
/* visibility_table.h: the tables behind vram/visibility.h, for the ring's own files and for
   tests. */
#ifndef VR_VISIBILITY_TABLE_H
#define VR_VISIBILITY_TABLE_H

#include "vram/visibility.h"

/* "unknown" if the value is not a visibility. */
const char *vr_visibility_name(vram_visibility visibility);

/* The visibility of a device of that description on a platform with at most `most`; its reason is
   written to `reason`. */
vram_visibility vr_visibility_of_device(const struct vram_device_info *info, vram_visibility most,
                                        char reason[VRAM_VISIBILITY_REASON_MAX]);

/* The same for a device on this machine, whose kernel version text is `kernel_text`, or that of
   /proc/version if NULL. */
vram_visibility vr_visibility_here(const struct vram_device_info *info, const char *kernel_text,
                                   char reason[VRAM_VISIBILITY_REASON_MAX]);

#endif
