/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holding.h: a list of things that somebody has and lets go of, in the order in which they came.
 *
 * The list has no lock of its own: whoever has it guards it. Letting go of a thing may call a driver and is
 * done without a lock, after the thing has left the list.
 */
#ifndef VR_HOLDING_H
#define VR_HOLDING_H

#include "vram/pool.h"

enum vr_thing_kind {
    VR_THING_BLOCK = 1,  /* number: its address */
    VR_THING_BUFFER = 2, /* number: its handle */
    VR_THING_SCOPE = 3   /* the same; let go of by scope.c itself */
};

struct vr_thing {
    uint64_t number;
    uint64_t bytes; /* of a block, as asked for */
    uint64_t queue; /* handle, of a block: it is freed in its time; 0: no work uses it */
    uint64_t pool;  /* handle, of a block */
    enum vr_thing_kind kind;
};

struct vr_holding {
    struct vr_thing *things; /* oldest first */
    size_t count, room;
};

/* Makes room for that many more, so that adding them cannot fail. */
vram_status vr_holding_reserve(struct vr_holding *holding, size_t more);
vram_status vr_holding_add(struct vr_holding *holding, const struct vr_thing *thing);
/* Looks for the newest of that kind and number; NULL: it is not there. */
const struct vr_thing *vr_holding_find(const struct vr_holding *holding, enum vr_thing_kind kind,
                                       uint64_t number);
/* Takes it off the list; false: it is not there. */
bool vr_holding_remove(struct vr_holding *holding, enum vr_thing_kind kind, uint64_t number,
                       struct vr_thing *thing);
/* Takes the newest off; false: the list is empty. */
bool vr_holding_pop(struct vr_holding *holding, struct vr_thing *thing);
void vr_holding_free(struct vr_holding *holding);

/* Frees a block or destroys a buffer that is on no list any more. A pool that has ended took it
   with it, and a buffer may have been destroyed before: that is no failure. A block whose queue was
   destroyed is used again when the work of that queue has ended. No lock held. */
vram_status vr_thing_release(const struct vr_thing *thing);
/* Lets go of all that is on the list, newest first, and of the list. Returns the first answer that is not OK,
   with its error. */
vram_status vr_holding_release(struct vr_holding *holding);

#endif
