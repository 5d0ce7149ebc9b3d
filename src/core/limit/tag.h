/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tag.h: accounts of a device's memory by tag, and their quotas.
 *
 * A tag is a path, "tenant/model/layer". Each of its parts is a record of the device's ledger,
 * created when it is first named and kept until the context ends. A block of "a/b" is counted for
 * "a/b" and for "a".
 *
 *  (1) Records are neither freed nor renamed while the context lives, so they are found without a
 *      lock. Only creating one takes the ledger's lock.
 *  (2) A tagged allocation is charged before the search for memory, to all levels or to none. The
 *      charge ends when the block is freed or its pool ends. Only live blocks have a charge.
 *  (3) An untagged allocation touches nothing here.
 */
#ifndef VR_TAG_H
#define VR_TAG_H

#include "base/atomic.h"
#include "base/quota_list.h"
#include "vram/limits.h"

struct vr_device_object;
struct vr_ledger;
struct vr_pool;
struct vr_request;

enum {
    VR_TAGS_MOST = 65536, /* records of a device */
    VR_TAG_BINS = 1024,   /* chains of them, by hash; a power of two */
    VR_TAG_RECENT = 64    /* records found by the address of the name; a power of two */
};

struct vr_tag {
    struct vr_tag *parent;   /* NULL: the first part */
    vr_atomic_ptr chain;     /* the next record in its bin; written once */
    struct vr_tag *older;    /* created before it; links all records of the ledger */
    uint32_t hash;           /* of the name */
    vr_atomic_u64 used;      /* bytes of live blocks, rounded, of the tag and of all below it */
    vr_atomic_u64 peak;      /* most that this was */
    vr_atomic_u64 soft;      /* above this the handler is called; 0: never */
    vr_atomic_u64 hard;      /* above this allocations are refused; 0: no such limit */
    vr_atomic_u64 own;       /* of `used`, without the tags below */
    vr_atomic_u64 requested; /* the same, as requested */
    vr_atomic_u64 allocs, frees;
    vr_atomic_u64 crossings, refusals; /* of soft; by hard */
    uint64_t set_soft, set_hard;       /* set by the program; the ledger's lock */
    uint64_t env_soft, env_hard;       /* set by the environment; 0: not set; written once */
    char name[];
};

struct vr_tags {
    vr_atomic_ptr bins[VR_TAG_BINS];     /* newest first */
    vr_atomic_ptr recent[VR_TAG_RECENT]; /* by address of the text: a guess that is checked */
    vr_atomic_ptr newest;                /* of all, by `older` */
    uint32_t count;                      /* from here on: the ledger's lock */
    vram_tag_fn *handler;
    void *handler_user;
};

/* NULL for no tag. */
static inline const char *vr_tag_name(const struct vr_tag *tag) {
    return tag ? tag->name : NULL;
}

/* The record of that name, created with its parents if necessary. VRAM_ERR_INVALID: not a valid
   name. */
vram_status vr_tag_get(struct vr_ledger *ledger, const char *name, struct vr_tag **tag);
/* The same if a recent call used the same text pointer; else NULL. */
struct vr_tag *vr_tag_recent(struct vr_ledger *ledger, const char *name);
/* The same if it exists; else NULL. */
struct vr_tag *vr_tag_find(struct vr_ledger *ledger, const char *name);
void vr_tags_free(struct vr_tags *tags);

/* Whether the tag is `name` or lies below it. */
bool vr_tag_is_within(const struct vr_tag *tag, const char *name);

/* Charges a tagged block. VRAM_ERR_LIMIT with the error set: *full is the tag whose quota refuses
   it. *crossed has a bit for each level that rose above its soft quota, 1 for the tag itself, 2 for
   its parent. */
vram_status vr_tag_charge(struct vr_tag *tag, uint64_t bytes, uint64_t requested, uint32_t *crossed,
                          struct vr_tag **full);
/* Whether a level has a quota; and vr_tag_charge if none has. */
bool vr_tag_has_quota(const struct vr_tag *tag);
void vr_tag_charge_unlimited(struct vr_tag *tag, uint64_t bytes, uint64_t requested);
void vr_tag_release(struct vr_tag *tag, uint64_t bytes, uint64_t requested);
/* Updates the peaks once the charged memory was found. A request that fails raises no peak. */
void vr_tag_confirm(struct vr_tag *tag);
/* Removes a charge for which no memory was found. */
void vr_tag_cancel(struct vr_tag *tag, uint64_t bytes, uint64_t requested);
/* The last charge becomes part of an existing block and is confirmed; and a block has become
   smaller, modulo 2^64. */
void vr_tag_join(struct vr_tag *tag);
void vr_tag_shrink(struct vr_tag *tag, uint64_t bytes, uint64_t requested);

/* Calls the handler for soft quotas that were crossed, by a block of the pool or, with NULL, by
   memory of no pool. No lock held; not from inside the handler. */
void vr_tag_notify(struct vr_device_object *device, struct vr_pool *pool, struct vr_tag *tag,
                   uint32_t crossed);

/* Whether a quota is valid; and puts the quotas of program and environment in force, under the
   ledger's lock; quota_text.c. */
vram_status vr_quota_check(uint64_t soft, uint64_t hard);
void vr_quota_enforce(struct vr_tag *tag);
/* Reads the option `quotas` into a new ledger. */
vram_status vr_quotas_read(struct vr_ledger *ledger, const char *text);

/* Writes up to `capacity` tags of a device with the most bytes to `infos`, largest first; returns
   how many. Allocates no host memory. */
uint32_t vr_tags_top(const struct vr_device_object *device, struct vram_tag_info *infos,
                     uint32_t capacity);
/* What is live of a tag and all tags below it (NULL: of all tags of the device), rounded sizes. */
void vr_tags_live(const struct vr_device_object *device, const char *name, uint64_t *bytes,
                  uint64_t *blocks);

#endif
