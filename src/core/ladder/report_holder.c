/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_holder.c: which tags hold memory of the device, by their accounts; see report.h.
 *
 * A tag includes the tags below it, so "tenant" comes before "tenant/model". A tag that holds only
 * what one tag below it holds is left out. Blocks without a tag are one entry: everything live in
 * pools that no tag has.
 */
#include "core/ladder/report.h"

#include "base/text.h"
#include "core/limit/tag.h"

#include <string.h>

enum { TAGS = 64 }; /* the largest, from which the list is made */

/* Whether a tag after `tag`, which are not larger, lies below it and holds as much. */
static bool is_redundant(const struct vram_tag_info *tag, const struct vram_tag_info *end) {
    size_t bytes = strlen(tag->name);
    for (const struct vram_tag_info *other = tag + 1;
         other < end && other->used_bytes == tag->used_bytes; other++) {
        if (strncmp(other->name, tag->name, bytes) == 0 && other->name[bytes] == '/') {
            return true;
        }
    }
    return false;
}

static void holder_add(struct vram_oom_report *report, const char *tag, uint64_t bytes,
                       uint64_t blocks) {
    if (bytes && report->holder_count < VRAM_OOM_LIST_MAX) {
        struct vram_oom_holder *to = &report->holders[report->holder_count++];
        to->bytes = bytes;
        to->blocks = blocks;
        vr_text_format(to->tag, sizeof to->tag, "%s", tag);
    }
}

/* Removes the failed request's own charge from the account of a tag. */
static void subtract_charge(struct vram_tag_info *tag, const struct vr_request *charged) {
    if (charged && vr_tag_is_within(charged->tag, tag->name)) {
        tag->used_bytes -= charged->bytes < tag->used_bytes ? charged->bytes : tag->used_bytes;
    }
}

/* Reads the largest tags, ordered by size after that correction. */
static uint32_t read_tags(const struct vr_live *live, struct vram_tag_info *tags) {
    uint32_t count = vr_tags_top(live->device, tags, TAGS);
    for (uint32_t i = 0; i < count; i++) {
        struct vram_tag_info tag = tags[i];
        uint32_t at = i;
        subtract_charge(&tag, live->charged);
        for (; at > 0 && tags[at - 1].used_bytes < tag.used_bytes; at--) {
            tags[at] = tags[at - 1];
        }
        tags[at] = tag;
    }
    return count;
}

/* Blocks of a tag and of all tags below it. */
static uint64_t blocks_of(const struct vr_live *live, const char *tag) {
    uint64_t bytes, blocks;
    vr_tags_live(live->device, tag, &bytes, &blocks);
    return blocks - (blocks && live->charged && vr_tag_is_within(live->charged->tag, tag));
}

/* Clamps at 0: other threads change the sums while they are read. */
static uint64_t untagged_rest(uint64_t all, uint64_t tagged, uint64_t charged) {
    tagged = tagged > charged ? tagged - charged : 0;
    return all > tagged ? all - tagged : 0;
}

void vr_report_holders(struct vram_oom_report *report, const struct vr_live *live) {
    struct vram_tag_info tags[TAGS];
    uint32_t count = read_tags(live, tags);
    uint64_t bytes, blocks;
    vr_tags_live(live->device, NULL, &bytes, &blocks);
    bytes = untagged_rest(live->bytes, bytes, live->charged ? live->charged->bytes : 0);
    blocks = untagged_rest(live->blocks, blocks, live->charged != NULL);
    for (uint32_t i = 0; i < count && report->holder_count < VRAM_OOM_LIST_MAX; i++) {
        if (bytes > tags[i].used_bytes) {
            holder_add(report, "", bytes, blocks);
            bytes = 0;
        }
        if (!is_redundant(&tags[i], &tags[count])) {
            holder_add(report, tags[i].name, tags[i].used_bytes, blocks_of(live, tags[i].name));
        }
    }
    holder_add(report, "", bytes, blocks);
}
