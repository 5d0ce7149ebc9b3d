/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf.h: text of the form  key=value,key="value, with commas"  as in VRAM_CONF. Blanks around keys
 * and values, and empty entries, are ignored. A quoted value ends at the next quote; there is no
 * escape.
 */
#ifndef VR_CONF_H
#define VR_CONF_H

#include <stdbool.h>
#include <stddef.h>

/* One entry; the pointers point into the text that was read and are not terminated. */
struct vr_conf_entry {
    const char *key;
    size_t key_bytes;
    const char *value; /* without its quotes */
    size_t value_bytes;
    bool quoted;
    const char *problem; /* why the entry cannot be used, with the key set; NULL: it can */
};

/* Reads the entry at *cursor and moves the cursor behind it. False at the end of the text. */
bool vr_conf_next(const char **cursor, struct vr_conf_entry *entry);

#endif
