/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracks.h: all tracks of the process, for those who ask about more than one pool.
 */
#ifndef VR_TRACKS_H
#define VR_TRACKS_H

#include "track/track.h"

/* Which tracks; what is 0 does not count. */
struct vr_tracks_filter {
    uint64_t pool, group, context; /* as vr_track_config has them */
};

/* A list of tracks that stay until it is let go, in the order in which they were made. */
struct vr_tracks {
    struct vr_track **all;
    uint32_t count;
};

/* Only those of this process, not of the one it was forked from. False: no memory, with the error
   set. */
bool vr_tracks_find(const struct vr_tracks_filter *filter, struct vr_tracks *tracks);
void vr_tracks_let_go(struct vr_tracks *tracks);

/* A block, to be looked up when its turn comes. */
struct vr_live_ref {
    uint64_t id, key; /* key: what they are sorted by */
    uint32_t track;   /* of the list */
    uint32_t number;  /* of its record */
};

/* Which blocks of them. */
struct vr_live_filter {
    const char *tag;    /* this and below; "": none; NULL: all */
    uint64_t before_ns; /* made at this time or earlier; UINT64_MAX: all */
    uint32_t stack;     /* 0: all */
};

bool vr_live_is(const struct vr_live_filter *filter, const struct vr_track_view *view);

/* All blocks of the list that pass, in no order; NULL with *count 0 when there are none. False: no
   memory. */
bool vr_live_gather(const struct vr_tracks *tracks, const struct vr_live_filter *filter,
                    struct vr_live_ref **refs, uint64_t *count);

/* The block of a ref, if it is still live. */
bool vr_live_look(const struct vr_tracks *tracks, const struct vr_live_ref *ref,
                  struct vr_track_view *view);

#endif
