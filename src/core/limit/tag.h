/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tag.h: who has how much of a device's memory, and how much they may have.
 *
 * A tag is a path, "tenant/model/layer". Each of its parts is a record of the device's ledger, made
 * when it is first named and there until the context ends; a block of "a/b" is counted for "a/b"
 * and for "a".
 *
 *  (1) Records are never freed or renamed while somebody may look, so they are found without a
 *      lock. Only making one takes the ledger's.
 *  (2) A tagged allocation is charged before memory is looked for, all levels or none, and released
 *      when the block is freed or ends with its pool. A block that nobody has carries no charge.
 *  (3) An untagged allocation touches nothing here.
 */
#ifndef VR_TAG_H
#define VR_TAG_H

#include "base/atomic.h"
#include "vram/limits.h"

struct vr_device_object;
struct vr_ledger;
struct vr_pool;
struct vr_request;

enum {
    VR_TAG_BYTES = 256,   /* of a name, the final 0 included */
    VR_TAG_LEVELS = 16,   /* parts of a name */
    VR_TAGS_MOST = 65536, /* records of a device */
    VR_TAG_BINS = 1024,   /* chains of them, by hash; a power of two */
    VR_TAG_RECENT = 64    /* records found by the address of the name; a power of two */
};

struct vr_tag {
    struct vr_tag *parent;   /* NULL: the first part */
    vr_atomic_ptr chain;     /* the next record in its bin; written once */
    struct vr_tag *older;    /* the one made before it; all of the ledger's records hang on this */
    uint32_t hash;           /* of the name */
    vr_atomic_u64 used;      /* bytes of live blocks, rounded, of the tag and of all below it */
    vr_atomic_u64 peak;      /* most that this was */
    vr_atomic_u64 soft;      /* above this somebody is told; 0: never */
    vr_atomic_u64 hard;      /* above this nothing is given; 0: no such limit */
    vr_atomic_u64 own;       /* of `used`, what is the tag's own */
    vr_atomic_u64 requested; /* the same as asked for */
    vr_atomic_u64 allocs, frees;
    vr_atomic_u64 crossings, refusals; /* of soft, and by hard */
    uint64_t set_soft, set_hard;       /* what the program said; the ledger's lock */
    uint64_t outer_soft, outer_hard;   /* what the environment said; 0: nothing; written once */
    char name[];
};

struct vr_tags {
    vr_atomic_ptr bins[VR_TAG_BINS];     /* newest first */
    vr_atomic_ptr recent[VR_TAG_RECENT]; /* by address of the text: a guess that is checked */
    vr_atomic_ptr newest;                /* of all, by `older` */
    uint32_t count;                      /* the ledger's lock, as what follows */
    vram_tag_fn *handler;
    void *handler_user;
};

/* NULL for no tag. */
static inline const char *vr_tag_name(const struct vr_tag *tag) {
    return tag ? tag->name : NULL;
}

/* The record of that name, made with those above it if need be. VRAM_ERR_INVALID: it is no name. */
vram_status vr_tag_get(struct vr_ledger *ledger, const char *name, struct vr_tag **tag);
/* The same if it was asked for by the same text just now; else NULL. */
struct vr_tag *vr_tag_recent(struct vr_ledger *ledger, const char *name);
/* The same if it is there already; NULL: nobody has named it. */
struct vr_tag *vr_tag_find(struct vr_ledger *ledger, const char *name);
void vr_tags_free(struct vr_tags *tags);

/* Whether the tag is `name` or lies below it. */
bool vr_tag_is_within(const struct vr_tag *tag, const char *name);

/* Around the life of a tagged block. VRAM_ERR_LIMIT with the error set, and *full, name the tag
   whose quota is in the way. *crossed has a bit for each level that went above its soft quota, 1
   for the tag itself, 2 for its parent. */
vram_status vr_tag_charge(struct vr_tag *tag, uint64_t bytes, uint64_t requested, uint32_t *crossed,
                          struct vr_tag **full);
/* Whether a level has a quota; and the same as vr_tag_charge where none has. */
bool vr_tag_has_quota(const struct vr_tag *tag);
void vr_tag_charge_free(struct vr_tag *tag, uint64_t bytes, uint64_t requested);
void vr_tag_release(struct vr_tag *tag, uint64_t bytes, uint64_t requested);
/* There is memory for what was charged: peaks follow. What is refused for want of memory raises
   none. */
void vr_tag_confirm(struct vr_tag *tag);
/* Takes a charge back for which no block was found after all. */
void vr_tag_cancel(struct vr_tag *tag, uint64_t bytes, uint64_t requested);
/* What was charged last is part of a block that was there, which confirms it; and one has become
   smaller, modulo 2^64. */
void vr_tag_join(struct vr_tag *tag);
void vr_tag_shrink(struct vr_tag *tag, uint64_t bytes, uint64_t requested);

/* Tells the program of soft quotas that were crossed, by a block of the pool or, with NULL, by
   memory of no pool. No lock held; not from inside such a call. */
void vr_tag_notify(struct vr_device_object *device, struct vr_pool *pool, struct vr_tag *tag,
                   uint32_t crossed);

/* Whether a quota makes sense; puts in force what the program and the environment have set, under
   the ledger's lock; quota_text.c. */
vram_status vr_quota_check(uint64_t soft, uint64_t hard);
void vr_quota_enforce(struct vr_tag *tag);
/* Reads the option `quotas` into a new ledger. */
vram_status vr_quotas_read(struct vr_ledger *ledger, const char *text);

/* Up to `room` tags of a device with the most bytes, most first, without host memory; how many
   there are in `infos`. */
uint32_t vr_tags_top(const struct vr_device_object *device, struct vram_tag_info *infos,
                     uint32_t capacity);
/* What is live of a tag and all below it (NULL: of all tags of the device), after rounding. */
void vr_tags_live(const struct vr_device_object *device, const char *name, uint64_t *bytes,
                  uint64_t *blocks);

#endif
