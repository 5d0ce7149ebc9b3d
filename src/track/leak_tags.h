/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak_tags.h: leaked bytes by tag, for the one line that the log has for a pool.
 */
#ifndef VR_LEAK_TAGS_H
#define VR_LEAK_TAGS_H

#include "vram/base.h"

struct vr_leak_tags {
    struct vr_leak_tag *all; /* one entry per tag, in no order */
    uint32_t count, capacity;
    uint64_t bytes, blocks; /* of all, also of tags without an entry because memory ran out */
};

/* Adds blocks of a tag; NULL: without one. Tags are compared by address. May set the error. */
void vr_leak_tags_add(struct vr_leak_tags *tags, const char *tag, uint64_t blocks, uint64_t bytes);

/* "3000 bytes in 2 blocks were never freed: 2000 tagged \"a\", 1000 without a tag", with the three
   tags that have most; always terminated. Sorts the entries. */
void vr_leak_tags_text(struct vr_leak_tags *tags, char *text, size_t text_bytes);

void vr_leak_tags_free(struct vr_leak_tags *tags);

#endif
