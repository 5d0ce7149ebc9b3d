/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_list.h: the list of things that a scope, batch or manager of names owns, oldest first.
 *
 * The list has no lock: its owner guards it. Releasing a thing may call a driver, so the owner
 * takes it off the list first and releases it without a lock.
 */
#ifndef VR_OWNED_LIST_H
#define VR_OWNED_LIST_H

#include "vram/pool.h"

enum vr_owned_kind {
    VR_OWNED_BLOCK = 1,  /* number: its address */
    VR_OWNED_BUFFER = 2, /* number: its handle */
    VR_OWNED_SCOPE = 3   /* number: its handle; released by scope.c itself */
};

struct vr_owned {
    uint64_t number;
    uint64_t bytes; /* of a block, as asked for */
    uint64_t queue; /* handle: a block is freed in the order of this queue; 0: no work uses it */
    uint64_t pool;  /* handle, of a block */
    enum vr_owned_kind kind;
};

struct vr_owned_list {
    struct vr_owned *items; /* oldest first */
    size_t count, capacity;
};

/* Reserves capacity for `more` items, so that adding them cannot fail. */
vram_status vr_owned_list_reserve(struct vr_owned_list *owned, size_t more);
vram_status vr_owned_list_add(struct vr_owned_list *owned, const struct vr_owned *item);
/* Finds the newest of that kind and number; NULL: none. */
const struct vr_owned *vr_owned_list_find(const struct vr_owned_list *owned,
                                          enum vr_owned_kind kind, uint64_t number);
/* Removes it from the list; false: it is not there. */
bool vr_owned_list_remove(struct vr_owned_list *owned, enum vr_owned_kind kind, uint64_t number,
                          struct vr_owned *item);
/* Removes the newest; false: the list is empty. */
bool vr_owned_list_pop(struct vr_owned_list *owned, struct vr_owned *item);
void vr_owned_list_free(struct vr_owned_list *owned);

/* Frees a block or destroys a buffer that is on no list any more. If the pool has ended, or the
   buffer was destroyed before, that is not a failure. A block whose queue was destroyed is reused
   when the work of that queue is complete. No lock held. */
vram_status vr_owned_release(const struct vr_owned *item);
/* Releases everything on the list, newest first, and the list itself. Returns the first failure,
   with its error. */
vram_status vr_owned_list_release(struct vr_owned_list *owned);

#endif
