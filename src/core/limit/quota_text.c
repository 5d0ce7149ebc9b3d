/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota_text.c: applies the option `quotas`, and decides which of two quotas is in force.
 */
#include "core/limit/limit.h"

#include "base/error.h"
#include "base/quota_list.h"

#include <string.h>

/* The smaller of two limits, where 0 is no limit. */
static uint64_t lesser_limit(uint64_t a, uint64_t b) {
    return !a || (b && b < a) ? b : a;
}

/* Puts the program's quotas in force, with the environment's as ceilings. Under the ledger's
   lock. */
void vr_quota_enforce(struct vr_tag *tag) {
    vr_store(&tag->soft, lesser_limit(tag->set_soft, tag->env_soft), VR_RELAXED);
    vr_store(&tag->hard, lesser_limit(tag->set_hard, tag->env_hard), VR_RELAXED);
}

vram_status vr_quota_check(uint64_t soft, uint64_t hard) {
    if (hard && soft > hard) {
        return vr_fail(VRAM_ERR_INVALID,
                       "a soft quota of %llu bytes is above the hard quota of %llu bytes and would "
                       "never be crossed",
                       (unsigned long long)soft, (unsigned long long)hard);
    }
    return VRAM_OK;
}

static vram_status read_quota(struct vr_ledger *ledger, const struct vr_quota_entry *entry) {
    char name[VR_TAG_BYTES * 2];
    struct vr_tag *tag;
    size_t bytes = entry->name_bytes < sizeof name ? entry->name_bytes : sizeof name - 1;
    memcpy(name, entry->name, bytes); /* vr_tag_get refuses one that is too long */
    name[bytes] = '\0';
    vram_status status = vr_tag_get(ledger, name, &tag);
    if (status == VRAM_OK) {
        tag->env_soft = lesser_limit(tag->env_soft, entry->soft);
        tag->env_hard = lesser_limit(tag->env_hard, entry->hard);
        vr_quota_enforce(tag);
    }
    return status;
}

vram_status vr_quotas_read(struct vr_ledger *ledger, const char *text) {
    vram_status status = VRAM_OK;
    struct vr_quota_entry entry;
    const char *why; /* the options table refuses unreadable lists */
    while (status == VRAM_OK && vr_quota_next(&text, &entry, &why)) {
        status = read_quota(ledger, &entry);
    }
    /* `recent` has the addresses of a buffer that is gone. Entries are checked when used, but these
       are useless. */
    for (size_t i = 0; i < VR_TAG_RECENT; i++) {
        vr_store(&ledger->tags.recent[i], NULL, VR_RELAXED);
    }
    return status;
}
