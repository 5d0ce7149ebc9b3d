/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/visibility.h: when a running kernel and the host see each other's writes.
 *
 * A kernel that runs for long and talks to the host meanwhile needs memory that both see at once,
 * and fences that reach from one to the other. Without them a device sees what the host has written
 * when a kernel starts, or only what was copied to it. This depends on the operating system (WSL
 * and macOS guarantee less than Linux and Windows) and on the device. It decides which strategies a
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
    VRAM_VISIBILITY_AUTO = 0, /* in options: what vram_visibility_detect says */
    VRAM_VISIBILITY_DMA = 1,  /* explicit copies only */
    /* Fences cover the device alone; host and kernel see each other's writes when a kernel starts
       and when it ends. */
    VRAM_VISIBILITY_DEVICE = 2,
    VRAM_VISIBILITY_SYSTEM = 3 /* a running kernel and the host see each other's writes */
} vram_visibility;

/** "auto", "dma", "device", "system"; "unknown" for any other number. Static storage. */
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
 * The most that a platform allows: SYSTEM on Linux and Windows, DEVICE on Linux under WSL and on
 * macOS, DMA on any other. `kernel_text` is the content of Linux's /proc/version: under WSL 1 and 2
 * it contains "microsoft" (in any case) or "WSL". NULL: it could not be read, and the kernel is
 * taken for plain Linux. VRAM_ERR_INVALID for an unknown platform.
 */
VRAM_API vram_status vram_visibility_of_platform(vram_platform platform, const char *kernel_text,
                                                 vram_visibility *visibility);

enum { VRAM_VISIBILITY_REASON_MAX = 160 }; /* bytes of a reason, the final 0 included */

/**
 * What this machine and `device` offer together and, unless `reason` is NULL, why it is not more:
 * "" for SYSTEM. `kernel_text` replaces the content of /proc/version; NULL: the file is read.
 */
VRAM_API vram_status vram_visibility_detect(vram_device *device, const char *kernel_text,
                                            vram_visibility *visibility,
                                            char reason[VRAM_VISIBILITY_REASON_MAX]);

#ifdef __cplusplus
}
#endif

#endif
