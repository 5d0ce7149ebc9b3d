/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct_tail.h: option structs from callers with a newer header. They may be longer than this
 * version's, and all bytes behind this version's fields must be 0: anything else asks for something
 * that this version cannot do.
 */
#ifndef VR_STRUCT_TAIL_H
#define VR_STRUCT_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether the struct, which begins with its own size, has nothing but zeros behind its first
   `bytes` bytes. */
static inline bool vr_tail_is_zero(const void *from, size_t bytes) {
    const unsigned char *at = from;
    size_t size;
    memcpy(&size, from, sizeof size);
    while (bytes < size && at[bytes] == 0) {
        bytes++;
    }
    return bytes >= size;
}

#endif
