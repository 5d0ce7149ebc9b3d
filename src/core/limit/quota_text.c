/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota_text.c: reads the option `quotas`, and decides which of two quotas is in force.
 */
#include "core/limit/limit.h"

#include "base/error.h"
#include "base/size_text.h"

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

static vram_status quota_unreadable(const char *text, size_t bytes, const char *why) {
    return vr_fail(
        VRAM_ERR_INVALID,
        "option quotas: \"%.*s\" %s; write tenant=4G:6G,tenant/model=2G, where 4G is the soft "
        "quota",
        (int)(bytes < 48 ? bytes : 48), text, why);
}

/* "4G:6G" or "6G". */
static bool read_sizes(char *text, uint64_t *soft, uint64_t *hard) {
    char *second = strchr(text, ':');
    *soft = 0;
    if (second) {
        *second++ = '\0';
        if (vr_size_read(text, soft) != VRAM_OK) {
            return false;
        }
    }
    return vr_size_read(second ? second : text, hard) == VRAM_OK;
}

static vram_status read_quota(struct vr_ledger *ledger, const char *entry, size_t bytes) {
    char text[VR_TAG_BYTES * 2];
    uint64_t soft, hard;
    struct vr_tag *tag;
    size_t name = 0;
    while (name < bytes && entry[name] != '=') {
        name++;
    }
    if (name == bytes || bytes >= sizeof text) {
        return quota_unreadable(entry, bytes, "has no quota");
    }
    memcpy(text, entry, bytes);
    text[name] = text[bytes] = '\0';
    if (!read_sizes(text + name + 1, &soft, &hard)) {
        return quota_unreadable(entry, bytes, "has an unreadable size");
    }
    vram_status status = vr_quota_check(soft, hard);
    if (status == VRAM_OK) {
        status = vr_tag_get(ledger, text, &tag);
    }
    if (status == VRAM_OK) {
        tag->env_soft = lesser_limit(tag->env_soft, soft);
        tag->env_hard = lesser_limit(tag->env_hard, hard);
        vr_quota_enforce(tag);
    }
    return status;
}

vram_status vr_quotas_read(struct vr_ledger *ledger, const char *text) {
    vram_status status = VRAM_OK;
    while (*text && status == VRAM_OK) {
        size_t bytes = strcspn(text, ",");
        status = read_quota(ledger, text, bytes);
        text += bytes + (text[bytes] == ',');
    }
    /* `recent` has the addresses of a buffer that is gone. Entries are checked when used, but these
       are useless. */
    for (size_t i = 0; i < VR_TAG_RECENT; i++) {
        vr_store(&ledger->tags.recent[i], NULL, VR_RELAXED);
    }
    return status;
}
