/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak_tags.c: see leak_tags.h.
 */
#include "track/leak_tags.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { TAGS_SHOWN = 3 };

struct vr_leak_tag {
    const char *tag; /* NULL: none */
    uint64_t bytes;
};

/* The entry of a tag; NULL: memory ran out. Blocks of one tag often come in a row, so the search
   begins with the newest entry. */
static struct vr_leak_tag *entry_of(struct vr_leak_tags *tags, const char *tag) {
    for (uint32_t i = tags->count; i-- > 0;) {
        if (tags->all[i].tag == tag) {
            return &tags->all[i];
        }
    }
    if (tags->count == tags->capacity) {
        uint32_t capacity = tags->capacity ? 2 * tags->capacity : 16;
        void *all = vr_mem_resize(tags->all, capacity, sizeof *tags->all, vr_operation());
        if (!all) {
            return NULL;
        }
        tags->all = all;
        tags->capacity = capacity;
    }
    tags->all[tags->count] = (struct vr_leak_tag){.tag = tag};
    return &tags->all[tags->count++];
}

void vr_leak_tags_add(struct vr_leak_tags *tags, const char *tag, uint64_t blocks, uint64_t bytes) {
    struct vr_leak_tag *entry = entry_of(tags, tag);
    if (entry) {
        entry->bytes += bytes;
    }
    tags->blocks += blocks;
    tags->bytes += bytes;
}

static int by_bytes(const void *one, const void *other) {
    const struct vr_leak_tag *a = one, *b = other;
    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

void vr_leak_tags_text(struct vr_leak_tags *tags, char *text, size_t text_bytes) {
    uint64_t left = tags->bytes;
    vr_text_format(text, text_bytes, "%llu bytes in %llu block%s never freed",
                   (unsigned long long)tags->bytes, (unsigned long long)tags->blocks,
                   tags->blocks == 1 ? " was" : "s were");
    if (tags->count) {
        qsort(tags->all, tags->count, sizeof *tags->all, by_bytes);
    }
    for (uint32_t i = 0; i < tags->count && i < TAGS_SHOWN; i++) {
        const struct vr_leak_tag *entry = &tags->all[i];
        size_t used = strlen(text);
        vr_text_format(text + used, text_bytes - used, "%s %llu %s%s%s", i ? "," : ":",
                       (unsigned long long)entry->bytes, entry->tag ? "tagged \"" : "without a tag",
                       entry->tag ? entry->tag : "", entry->tag ? "\"" : "");
        left -= entry->bytes;
    }
    if (left) {
        size_t used = strlen(text);
        vr_text_format(text + used, text_bytes - used, ", %llu with other tags",
                       (unsigned long long)left);
    }
}

void vr_leak_tags_free(struct vr_leak_tags *tags) {
    vr_mem_free(tags->all);
    *tags = (struct vr_leak_tags){0};
}
