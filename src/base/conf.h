/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h: text of the form  key=value,key="value, with commas"  as VRAM_CONF has it. Blanks around
 * keys and values, and empty entries, do not count. A quoted value ends at the next quote; there is
 * no escape.
 */
#ifndef VR_CONF_H
#define VR_CONF_H

#include <stdbool.h>
#include <stddef.h>

/* One entry; the pointers lie in the text that was read, and nothing is terminated. */
struct vr_conf_entry {
    const char *key;
    size_t key_bytes;
    const char *value; /* without its quotes */
    size_t value_bytes;
    bool quoted;
    const char *problem; /* not NULL: the entry cannot be used, and why; the key is set */
};

/* Reads the entry at *cursor and moves the cursor behind it. False at the end of the text. */
bool vr_conf_next(const char **cursor, struct vr_conf_entry *entry);

#endif
