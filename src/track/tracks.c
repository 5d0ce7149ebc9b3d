/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracks.c: several tracks at once, and the blocks in them. See tracks.h.
 */
#include "track/tracks.h"

#include "base/error.h"
#include "base/memory.h"
#include "track/track_table.h"

#include <string.h>

bool vr_tracks_find(const struct vr_tracks_filter *filter, struct vr_tracks *tracks) {
    *tracks = (struct vr_tracks){0};
    uint32_t capacity = vr_tracks_collect(filter, NULL, 0);
    for (;;) {
        tracks->all = vr_mem_alloc(capacity ? capacity : 1, sizeof *tracks->all, vr_operation());
        if (!tracks->all) {
            return false;
        }
        uint32_t count = vr_tracks_collect(filter, tracks->all, capacity);
        tracks->count = count < capacity ? count : capacity;
        if (count <= capacity) {
            return true;
        }
        vr_tracks_let_go(tracks);
        capacity = count;
    }
}

void vr_tracks_let_go(struct vr_tracks *tracks) {
    for (uint32_t i = 0; i < tracks->count; i++) {
        vr_track_free(tracks->all[i]);
    }
    vr_mem_free(tracks->all);
    vr_mem_free(tracks->foreign);
    *tracks = (struct vr_tracks){0};
}

/* --------------------------------------------------------------- collecting */

/* Whether a tag is `name` or below it. */
static bool is_within(const char *tag, const char *name) {
    size_t bytes = strlen(name);
    return tag && strncmp(tag, name, bytes) == 0 && (tag[bytes] == '\0' || tag[bytes] == '/');
}

bool vr_live_is(const struct vr_live_filter *filter, const struct vr_track_view *view) {
    bool tagged = !filter->tag ||
                  (*filter->tag ? is_within(view->site.tag, filter->tag) : view->site.tag == NULL);
    return tagged && view->time_ns <= filter->before_ns &&
           (!filter->stack || filter->stack == view->site.stack);
}

struct ref_list {
    struct vr_live_ref *refs;
    uint64_t count, capacity;
};

static bool ref_add(struct ref_list *to, uint32_t track, const struct vr_track_view *view) {
    if (to->count == to->capacity) {
        uint64_t capacity = to->capacity ? 2 * to->capacity : 256;
        struct vr_live_ref *refs = vr_mem_resize(to->refs, capacity, sizeof *refs, vr_operation());
        if (!refs) {
            return false;
        }
        to->refs = refs;
        to->capacity = capacity;
    }
    to->refs[to->count++] =
        (struct vr_live_ref){.id = view->id, .track = track, .number = view->number};
    return true;
}

bool vr_live_gather(const struct vr_tracks *tracks, const struct vr_live_filter *filter,
                    struct vr_live_ref **refs, uint64_t *count) {
    struct ref_list to = {0};
    struct vr_track_view views[16];
    bool good = true;
    for (uint32_t i = 0; i < tracks->count && good; i++) {
        uint32_t at = 0;
        do {
            uint32_t found = vr_track_list(tracks->all[i], &at, views, 16);
            for (uint32_t k = 0; k < found && good; k++) {
                good = !vr_live_is(filter, &views[k]) || ref_add(&to, i, &views[k]);
            }
        } while (at && good);
    }
    for (uint32_t i = 0; i < tracks->foreign_count && good; i++) {
        good = !vr_live_is(filter, &tracks->foreign[i]) ||
               ref_add(&to, VR_TRACK_FOREIGN, &tracks->foreign[i]);
    }
    if (!good) {
        vr_mem_free(to.refs);
        to = (struct ref_list){0};
    }
    *refs = to.refs;
    *count = to.count;
    return good;
}

bool vr_live_look(const struct vr_tracks *tracks, const struct vr_live_ref *ref,
                  struct vr_track_view *view) {
    if (ref->track == VR_TRACK_FOREIGN) {
        *view = tracks->foreign[ref->number];
        return true;
    }
    return vr_track_look(tracks->all[ref->track], ref->number, view) && view->id == ref->id;
}

const struct vr_track_config *vr_live_about(const struct vr_tracks *tracks,
                                            const struct vr_live_ref *ref) {
    return ref->track == VR_TRACK_FOREIGN ? NULL : vr_track_about(tracks->all[ref->track]);
}
