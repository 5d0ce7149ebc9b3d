/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size_text.h: sizes and durations as text, for callers that write their own error text. All
 * arithmetic is on integers and independent of the locale: "1.5" is the same everywhere.
 */
#ifndef VR_SIZE_TEXT_H
#define VR_SIZE_TEXT_H

#include "vram/base.h"

/*
 * What vram_size_parse reads, without recording an error: VRAM_ERR_INVALID or VRAM_ERR_OVERFLOW.
 */
vram_status vr_size_read(const char *text, uint64_t *bytes);

/* The same for durations: a number followed by ns, us, ms, s or min; 0 needs no unit. */
vram_status vr_duration_read(const char *text, uint64_t *ns);

#define VR_NUMBER_TEXT_MAX 32

/* Exact short texts that read back as the same number: "64K", "1500M"; "500ms", "60min". */
const char *vr_size_write(uint64_t bytes, char text[VR_NUMBER_TEXT_MAX]);
const char *vr_duration_write(uint64_t ns, char text[VR_NUMBER_TEXT_MAX]);

/* For people: "512 B", "2.00 MiB", "79.10 GiB". */
const char *vr_size_format(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]);

#endif
