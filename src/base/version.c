/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c: the version of the library that is loaded. A program compares it with the header's
 * VRAM_VERSION to find out that it runs with another library than it was built against; for that
 * reason these are calls and not macros.
 */
#include "vram/base.h"

uint32_t vram_version(void) {
    return VRAM_VERSION;
}

const char *vram_version_text(void) {
    return VRAM_VERSION_TEXT;
}
