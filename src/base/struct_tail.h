/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct_tail.h: structs of callers with an older or newer header, which begin with their own size.
 *
 * An option struct of a newer caller may be longer than this version's. All bytes after this
 * version's fields must be 0: anything else requests something that this version cannot do.
 */
#ifndef VR_STRUCT_TAIL_H
#define VR_STRUCT_TAIL_H

#include "vram/base.h"

#include <string.h>

/* Whether the struct, which begins with its own size, is all zeros after its first `bytes`
   bytes. */
static inline bool vr_tail_is_zero(const void *from, size_t bytes) {
    const unsigned char *at = from;
    size_t size;
    memcpy(&size, from, sizeof size);
    while (bytes < size && at[bytes] == 0) {
        bytes++;
    }
    return bytes >= size;
}

/* Copies the fields of an info struct that the caller's struct has, which may be shorter or longer.
   VRAM_ERR_INVALID for NULL and for sizes that no version had. */
vram_status vr_info_give(void *to, const void *from, size_t bytes, size_t oldest);
/* Reads an option struct of any version into `to`, which is zeroed first. VRAM_ERR_INVALID for a
   size that no version had, and for a longer struct with a non-zero byte after the known fields. */
vram_status vr_options_take(void *to, size_t bytes, const void *from);

#endif
