/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracks.h: all tracks of the process, for queries about more than one pool, and with them the
 * records of foreign memory (vram/foreign.h), which belong to no pool.
 */
#ifndef VR_TRACKS_H
#define VR_TRACKS_H

#include "track/track.h"

/* Selects tracks; fields that are 0 are ignored. */
struct vr_tracks_filter {
    uint64_t pool, group, context; /* as in vr_track_config */
};

/* A list of tracks, in the order of their creation, which stay valid until it is released. */
struct vr_tracks {
    struct vr_track **all;
    uint32_t count;
    struct vr_track_view *foreign; /* copies, owned by the list; `number` is the index */
    uint32_t foreign_count;
};

#define VR_TRACK_FOREIGN UINT32_MAX /* vr_live_ref.track of a record of foreign memory */

/* Only tracks of this process, not of the one it was forked from. False: memory ran out, with the
   error set. */
bool vr_tracks_find(const struct vr_tracks_filter *filter, struct vr_tracks *tracks);
void vr_tracks_let_go(struct vr_tracks *tracks);

/* A reference to a block, whose record is read later. */
struct vr_live_ref {
    uint64_t id, key; /* key: the sort key */
    uint32_t track;   /* index in the list, or VR_TRACK_FOREIGN */
    uint32_t number;  /* of its record */
};

/* Selects blocks of them. */
struct vr_live_filter {
    const char *tag;    /* this and below; "": none; NULL: all */
    uint64_t before_ns; /* allocated at this time or earlier; UINT64_MAX: all */
    uint32_t stack;     /* 0: all */
};

bool vr_live_is(const struct vr_live_filter *filter, const struct vr_track_view *view);

/* All blocks and foreign records of the list that the filter selects, in no order; NULL with *count
   0 if there are none. False: memory ran out. */
bool vr_live_gather(const struct vr_tracks *tracks, const struct vr_live_filter *filter,
                    struct vr_live_ref **refs, uint64_t *count);

/* The block of a reference, if it is still live. */
bool vr_live_look(const struct vr_tracks *tracks, const struct vr_live_ref *ref,
                  struct vr_track_view *view);

/* The pool of a reference; NULL: foreign memory. */
const struct vr_track_config *vr_live_about(const struct vr_tracks *tracks,
                                            const struct vr_live_ref *ref);

#endif
