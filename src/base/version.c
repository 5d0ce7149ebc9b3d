/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c: the version of the loaded library. A program compares it with the header's
 * VRAM_VERSION to detect that it runs with another library than it was built against; so these are
 * functions, not macros.
 */
#include "vram/base.h"

uint32_t vram_version(void) {
    return VRAM_VERSION;
}

const char *vram_version_text(void) {
    return VRAM_VERSION_TEXT;
}
