/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota_list.h: names of tags, and the text of the option `quotas`: "tenant=4G:6G,tenant/model=2G",
 * where 4G is the soft quota.
 */
#ifndef VR_QUOTA_LIST_H
#define VR_QUOTA_LIST_H

#include "vram/base.h"

enum {
    VR_TAG_BYTES = 256, /* of a tag's name, the final 0 included */
    VR_TAG_LEVELS = 16  /* parts of a name */
};

/* Whether the first `bytes` bytes are a tag: parts of at least one byte, separated by '/', without
   control characters. */
bool vr_tag_name_is_valid(const char *name, size_t bytes);

struct vr_quota_entry {
    const char *name; /* of the tag, name_bytes long, inside the text */
    size_t name_bytes;
    uint64_t soft, hard; /* bytes; soft 0: none */
};

/* Reads the entry at *text and moves *text behind it. False: there is none (*why NULL), or it is
   unreadable: then *why is a clause that follows the entry in a message, and name and name_bytes
   cover the whole entry. */
bool vr_quota_next(const char **text, struct vr_quota_entry *entry, const char **why);

/* Whether all of the text can be read; otherwise writes a clause that says what is wrong. */
bool vr_quota_list_check(const char *text, char *clause, size_t clause_bytes);

#endif
