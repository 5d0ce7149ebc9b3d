/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tag.c: records of tags: look-up, creation, charges.
 */
#include "core/limit/tag.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/size_text.h"
#include "core/limit/limit.h"

#include <assert.h>
#include <string.h>

/* ------------------------------------------------------------------- look-up */

static uint32_t hash_of(const char *name, size_t bytes) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    }
    return hash;
}

static bool is_named(const struct vr_tag *tag, const char *name, size_t bytes) {
    return strncmp(tag->name, name, bytes) == 0 && tag->name[bytes] == '\0';
}

/* Keeps (1): chains only grow at their heads. */
static struct vr_tag *tag_find(struct vr_tags *tags, const char *name, size_t bytes,
                               uint32_t hash) {
    struct vr_tag *tag = vr_load(&tags->bins[hash % VR_TAG_BINS], VR_ACQUIRE);
    while (tag && !(tag->hash == hash && is_named(tag, name, bytes))) {
        tag = vr_load(&tag->chain, VR_ACQUIRE);
    }
    return tag;
}

static vr_atomic_ptr *recent_of(struct vr_tags *tags, const char *name) {
    uint64_t mixed = (uint64_t)(uintptr_t)name * UINT64_C(0x9E3779B97F4A7C15);
    return &tags->recent[mixed >> 58];
}

_Static_assert(VR_TAG_RECENT == 1 << (64 - 58), "recent_of takes that many bits");

struct vr_tag *vr_tag_find(struct vr_ledger *ledger, const char *name) {
    size_t bytes = strnlen(name, VR_TAG_BYTES);
    return bytes < VR_TAG_BYTES ? tag_find(&ledger->tags, name, bytes, hash_of(name, bytes)) : NULL;
}

bool vr_tag_is_within(const struct vr_tag *tag, const char *name) {
    while (tag && strcmp(tag->name, name) != 0) {
        tag = tag->parent;
    }
    return tag != NULL;
}

/* ------------------------------------------------------------------ creation */

static vram_status check_name(const char *name) {
    if (!vr_tag_name_is_valid(name, strnlen(name, VR_TAG_BYTES))) {
        return vr_fail(VRAM_ERR_INVALID,
                       "\"%.48s\" is not a valid tag: use 1 to %d parts separated by '/', at most "
                       "%d bytes in all",
                       name, VR_TAG_LEVELS, VR_TAG_BYTES - 1);
    }
    return VRAM_OK;
}

/* Under the ledger's lock, so that no two threads create the same record. */
static vram_status tag_make(struct vr_tags *tags, const char *name, size_t bytes,
                            struct vr_tag *parent, struct vr_tag **made) {
    uint32_t hash = hash_of(name, bytes);
    struct vr_tag *tag = tag_find(tags, name, bytes, hash);
    if (tag) {
        *made = tag;
        return VRAM_OK;
    }
    assert(!parent || strncmp(parent->name, name, strlen(parent->name)) == 0);
    if (tags->count == VR_TAGS_MOST) {
        return vr_fail(VRAM_ERR_LIMIT, "the device already has %d tags, which is the limit",
                       VR_TAGS_MOST);
    }
    tag = vr_mem_alloc(1, sizeof *tag + bytes + 1, vr_operation());
    if (!tag) {
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(tag->name, name, bytes);
    tag->hash = hash;
    tag->parent = parent;
    tag->older = vr_load(&tags->newest, VR_RELAXED);
    vr_atomic_ptr *bin = &tags->bins[hash % VR_TAG_BINS];
    vr_store(&tag->chain, vr_load(bin, VR_RELAXED), VR_RELAXED);
    vr_store(bin, tag, VR_RELEASE);
    vr_store(&tags->newest, tag, VR_RELEASE);
    tags->count++;
    *made = tag;
    return VRAM_OK;
}

/* Creates the records of a checked name, from its first part on. */
static vram_status make_path(struct vr_ledger *ledger, const char *name, struct vr_tag **tag) {
    vram_status status = VRAM_OK;
    struct vr_tag *at = NULL;
    vr_mutex_lock(&ledger->lock);
    for (size_t end = 0; status == VRAM_OK && (end == 0 || name[end]);) {
        end += end != 0;
        end += strcspn(name + end, "/");
        status = tag_make(&ledger->tags, name, end, at, &at);
    }
    vr_mutex_unlock(&ledger->lock);
    if (status == VRAM_OK) {
        *tag = at;
    }
    return status;
}

struct vr_tag *vr_tag_recent(struct vr_ledger *ledger, const char *name) {
    struct vr_tag *guess = vr_load(recent_of(&ledger->tags, name), VR_ACQUIRE);
    return guess && strcmp(guess->name, name) == 0 ? guess : NULL;
}

vram_status vr_tag_get(struct vr_ledger *ledger, const char *name, struct vr_tag **tag) {
    vr_atomic_ptr *recent = recent_of(&ledger->tags, name);
    struct vr_tag *guess = vr_tag_recent(ledger, name);
    if (guess) {
        *tag = guess;
        return VRAM_OK;
    }
    guess = vr_tag_find(ledger, name);
    if (!guess) {
        vram_status status = check_name(name);
        if (status == VRAM_OK) {
            status = make_path(ledger, name, &guess);
        }
        if (status != VRAM_OK) {
            return status;
        }
    }
    vr_store(recent, guess, VR_RELEASE);
    *tag = guess;
    return VRAM_OK;
}

void vr_tags_free(struct vr_tags *tags) {
    struct vr_tag *tag = vr_load(&tags->newest, VR_ACQUIRE);
    while (tag) {
        struct vr_tag *older = tag->older;
        vr_mem_free(tag);
        tag = older;
    }
}

/* ------------------------------------------------------------------ charging */

/* Charges one record; *before: what it had. False: its hard quota forbids it. */
static bool tag_add(struct vr_tag *tag, uint64_t bytes, uint64_t *before) {
    uint64_t hard = vr_load(&tag->hard, VR_RELAXED);
    if (!hard) {
        *before = vr_fetch_add(&tag->used, bytes, VR_RELAXED);
        return true;
    }
    *before = vr_load(&tag->used, VR_RELAXED);
    while (bytes <= hard && *before <= hard - bytes) {
        if (vr_cas_weak(&tag->used, before, *before + bytes, VR_RELAXED)) {
            return true;
        }
    }
    return false;
}

static vram_status tag_refuse(struct vr_tag *asked, struct vr_tag *full, uint64_t bytes) {
    VR_OPERATION("vram_alloc");
    char size[VRAM_SIZE_TEXT_MAX], used[VRAM_SIZE_TEXT_MAX], hard[VRAM_SIZE_TEXT_MAX];
    vr_fetch_add(&full->refusals, 1, VR_RELAXED);
    return vr_fail(
        VRAM_ERR_LIMIT,
        "%s for tag \"%.80s\" do not fit: the quota of tag \"%.80s\" is %s, and it has %s",
        vr_size_format(bytes, size), asked->name, full->name,
        vr_size_format(vr_load(&full->hard, VR_RELAXED), hard),
        vr_size_format(vr_load(&full->used, VR_RELAXED), used));
}

/* Keeps (2). */
vram_status vr_tag_charge(struct vr_tag *tag, uint64_t bytes, uint64_t requested, uint32_t *crossed,
                          struct vr_tag **full) {
    uint64_t before;
    uint32_t level = 1;
    *crossed = 0;
    for (struct vr_tag *at = tag; at; at = at->parent, level <<= 1) {
        if (!tag_add(at, bytes, &before)) {
            for (struct vr_tag *undo = tag; undo != at; undo = undo->parent) {
                vr_fetch_sub(&undo->used, bytes, VR_RELAXED);
            }
            *crossed = 0;
            *full = at;
            return tag_refuse(tag, at, bytes);
        }
        uint64_t soft = vr_load(&at->soft, VR_RELAXED);
        if (soft && before <= soft && before + bytes > soft) {
            *crossed |= level;
        }
    }
    vr_fetch_add(&tag->own, bytes, VR_RELAXED);
    vr_fetch_add(&tag->requested, requested, VR_RELAXED);
    vr_fetch_add(&tag->allocs, 1, VR_RELAXED);
    return VRAM_OK;
}

bool vr_tag_has_quota(const struct vr_tag *tag) {
    for (const struct vr_tag *at = tag; at; at = at->parent) {
        if (vr_load(&at->hard, VR_RELAXED) || vr_load(&at->soft, VR_RELAXED)) {
            return true;
        }
    }
    return false;
}

void vr_tag_charge_unlimited(struct vr_tag *tag, uint64_t bytes, uint64_t requested) {
    for (struct vr_tag *at = tag; at; at = at->parent) {
        vr_fetch_add(&at->used, bytes, VR_RELAXED);
    }
    vr_fetch_add(&tag->own, bytes, VR_RELAXED);
    vr_fetch_add(&tag->requested, requested, VR_RELAXED);
    vr_fetch_add(&tag->allocs, 1, VR_RELAXED);
}

void vr_tag_shrink(struct vr_tag *tag, uint64_t bytes, uint64_t requested) {
    uint64_t before = vr_fetch_sub(&tag->own, bytes, VR_RELAXED);
    assert(before >= bytes); /* the charge is removed once: tag.h (2) */
    vr_fetch_sub(&tag->requested, requested, VR_RELAXED);
    for (struct vr_tag *at = tag; at; at = at->parent) {
        before = vr_fetch_sub(&at->used, bytes, VR_RELAXED);
        assert(before >= bytes);
    }
    (void)before;
}

void vr_tag_confirm(struct vr_tag *tag) {
    for (struct vr_tag *at = tag; at; at = at->parent) {
        uint64_t used = vr_load(&at->used, VR_RELAXED);
        if (used > vr_load(&at->peak, VR_RELAXED)) {
            vr_atomic_max(&at->peak, used);
        }
    }
}

void vr_tag_join(struct vr_tag *tag) {
    vr_fetch_sub(&tag->allocs, 1, VR_RELAXED);
    vr_tag_confirm(tag);
}

void vr_tag_release(struct vr_tag *tag, uint64_t bytes, uint64_t requested) {
    vr_fetch_add(&tag->frees, 1, VR_RELAXED);
    vr_tag_shrink(tag, bytes, requested);
}

void vr_tag_cancel(struct vr_tag *tag, uint64_t bytes, uint64_t requested) {
    vr_fetch_sub(&tag->allocs, 1, VR_RELAXED);
    vr_tag_shrink(tag, bytes, requested);
}
