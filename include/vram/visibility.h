/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/visibility.h: how far the writes of a running kernel and of the host reach each other.
 *
 * A kernel that runs for long and talks to the host all the while needs memory that both see at once, and
 * fences that reach from one to the other. Where there is no such thing, a device sees what the host has
 * written when a kernel starts, or only what was copied to it. The answer depends on the operating system
 * (WSL and macOS promise less than Linux and Windows) and on the device, and decides which strategies a
 * ring can have (vram/ring.h).
 */
#ifndef VRAM_VISIBILITY_H
#define VRAM_VISIBILITY_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** From least to most. */
typedef enum vram_visibility {
    VRAM_VISIBILITY_AUTO = 0,   /* in options: what vram_visibility_detect says */
    VRAM_VISIBILITY_DMA = 1,    /* explicit copies only */
    VRAM_VISIBILITY_DEVICE = 2, /* fences reach over the device; host and kernel meet where a kernel
                                   starts and ends */
    VRAM_VISIBILITY_SYSTEM = 3  /* a running kernel and the host see each other's writes */
} vram_visibility;

/** "auto", "dma", "device", "system"; "unknown" for a number that is none. Static storage. */
VRAM_API const char *vram_visibility_name(vram_visibility visibility);

typedef enum vram_platform {
    VRAM_PLATFORM_UNKNOWN = 0,
    VRAM_PLATFORM_LINUX = 1,
    VRAM_PLATFORM_WINDOWS = 2,
    VRAM_PLATFORM_MACOS = 3
} vram_platform;

/** The platform that this library was built for. */
VRAM_API vram_platform vram_platform_here(void);

/**
 * The most that a platform allows: Linux and Windows SYSTEM, Linux under WSL and macOS DEVICE, any other DMA.
 * `kernel_text` is what Linux has in /proc/version: WSL 1 and 2 have "microsoft" (in any case) or "WSL" in it.
 * NULL: it could not be read, and the kernel counts as Linux's own. VRAM_ERR_INVALID for a number that is no
 * platform.
 */
VRAM_API vram_status vram_visibility_of_platform(vram_platform platform, const char *kernel_text,
                                                 vram_visibility *visibility);

enum { VRAM_VISIBILITY_REASON_MAX = 160 }; /* bytes of a reason, the final 0 included */

/**
 * What this machine and `device` have together, and, if asked (NULL: not asked for), why it is no more than
 * that: "" for SYSTEM. `kernel_text` stands in the place of /proc/version; NULL: that file itself is read.
 */
VRAM_API vram_status vram_visibility_detect(vram_device *device, const char *kernel_text,
                                            vram_visibility *visibility,
                                            char reason[VRAM_VISIBILITY_REASON_MAX]);

#ifdef __cplusplus
}
#endif

#endif
