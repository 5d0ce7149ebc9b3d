/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_list.h: a list of things that somebody has and lets go of, in the order in which they came.
 *
 * The list has no lock of its own: whoever has it guards it. Letting go of a thing may call a
 * driver and is done without a lock, after the thing has left the list.
 */
#ifndef VR_OWNED_LIST_H
#define VR_OWNED_LIST_H

#include "vram/pool.h"

enum vr_owned_kind {
    VR_OWNED_BLOCK = 1,  /* number: its address */
    VR_OWNED_BUFFER = 2, /* number: its handle */
    VR_OWNED_SCOPE = 3   /* the same; let go of by scope.c itself */
};

struct vr_owned {
    uint64_t number;
    uint64_t bytes; /* of a block, as asked for */
    uint64_t queue; /* handle, of a block: it is freed in its time; 0: no work uses it */
    uint64_t pool;  /* handle, of a block */
    enum vr_owned_kind kind;
};

struct vr_owned_list {
    struct vr_owned *items; /* oldest first */
    size_t count, room;
};

/* Makes room for that many more, so that adding them cannot fail. */
vram_status vr_owned_list_reserve(struct vr_owned_list *owned, size_t more);
vram_status vr_owned_list_add(struct vr_owned_list *owned, const struct vr_owned *item);
/* Looks for the newest of that kind and number; NULL: it is not there. */
const struct vr_owned *vr_owned_list_find(const struct vr_owned_list *owned,
                                          enum vr_owned_kind kind, uint64_t number);
/* Takes it off the list; false: it is not there. */
bool vr_owned_list_remove(struct vr_owned_list *owned, enum vr_owned_kind kind, uint64_t number,
                          struct vr_owned *item);
/* Takes the newest off; false: the list is empty. */
bool vr_owned_list_pop(struct vr_owned_list *owned, struct vr_owned *item);
void vr_owned_list_free(struct vr_owned_list *owned);

/* Frees a block or destroys a buffer that is on no list any more. A pool that has ended took it
   with it, and a buffer may have been destroyed before: that is no failure. A block whose queue was
   destroyed is used again when the work of that queue has ended. No lock held. */
vram_status vr_owned_release(const struct vr_owned *item);
/* Lets go of all that is on the list, newest first, and of the list. Returns the first answer that
   is not OK, with its error. */
vram_status vr_owned_list_release(struct vr_owned_list *owned);

#endif
