/* SPDX-License-Identifier: Apache-2.0 */
/* visibility_table.h: the tables behind vram/visibility.h, for the ring's own files and for
   tests. */
#ifndef VR_VISIBILITY_TABLE_H
#define VR_VISIBILITY_TABLE_H

#include "vram/visibility.h"

/* "unknown" for what is none. */
const char *vr_visibility_name(vram_visibility visibility);

/* What a device of that description has on a platform that has `most`; the reason goes to
   `reason`. */
vram_visibility vr_visibility_of_device(const struct vram_device_info *info, vram_visibility most,
                                        char reason[VRAM_VISIBILITY_REASON_MAX]);

/* The same for a device on this machine, whose kernel's text is `kernel_text` or
   /proc/version's. */
vram_visibility vr_visibility_here(const struct vram_device_info *info, const char *kernel_text,
                                   char reason[VRAM_VISIBILITY_REASON_MAX]);

#endif
