/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracks.c: the list of all tracks, and blocks gathered from several. See tracks.h.
 */
#include "track/tracks.h"

#include "base/memory.h"
#include "track/track_table.h"

#include <string.h>

static struct vr_mutex list_lock = VR_MUTEX_INIT(VR_RANK_TRACK);
static struct vr_list list;
static bool listed; /* the list was begun */

void vr_tracks_add(struct vr_track *track) {
    vr_mutex_lock(&list_lock);
    if (!listed) {
        vr_list_init(&list);
        listed = true;
    }
    vr_list_append(&list, &track->link);
    vr_mutex_unlock(&list_lock);
}

void vr_track_end(struct vr_track *track) {
    vr_mutex_lock(&list_lock);
    vr_link_remove(&track->link);
    vr_mutex_unlock(&list_lock);
}

bool vr_tracks_drop(struct vr_track *track) {
    vr_mutex_lock(&list_lock);
    bool last = --track->references == 0;
    if (last) {
        vr_link_remove(&track->link);
    }
    vr_mutex_unlock(&list_lock);
    return last;
}

static bool is_of(const struct vr_track *track, const struct vr_tracks_filter *filter) {
    return track->process == vr_os_process_generation() &&
           (!filter->pool || filter->pool == track->config.pool) &&
           (!filter->group || filter->group == track->config.group) &&
           (!filter->context || filter->context == track->config.context);
}

/* Fills what there is room for; how many there are. */
static uint32_t collect(const struct vr_tracks_filter *filter, struct vr_track **all,
                        uint32_t room) {
    uint32_t count = 0;
    vr_mutex_lock(&list_lock);
    for (struct vr_link *link = listed ? vr_list_first(&list) : NULL; link;
         link = vr_list_next(&list, link)) {
        struct vr_track *track = VR_CONTAINER(link, struct vr_track, link);
        if (is_of(track, filter) && count++ < room) {
            track->references++;
            all[count - 1] = track;
        }
    }
    vr_mutex_unlock(&list_lock);
    return count;
}

bool vr_tracks_find(const struct vr_tracks_filter *filter, struct vr_tracks *tracks,
                    const char *operation) {
    *tracks = (struct vr_tracks){0};
    uint32_t room = collect(filter, NULL, 0);
    for (;;) {
        tracks->all = vr_mem_alloc(room ? room : 1, sizeof *tracks->all, operation);
        if (!tracks->all) {
            return false;
        }
        uint32_t count = collect(filter, tracks->all, room);
        tracks->count = count < room ? count : room;
        if (count <= room) {
            return true;
        }
        vr_tracks_let_go(tracks); /* there are more of them meanwhile */
        room = count;
    }
}

void vr_tracks_let_go(struct vr_tracks *tracks) {
    for (uint32_t i = 0; i < tracks->count; i++) {
        vr_track_free(tracks->all[i]);
    }
    vr_mem_free(tracks->all);
    *tracks = (struct vr_tracks){0};
}

/* ---------------------------------------------------------------- gathering */

/* Whether a tag is `name` or lies below it. */
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

struct gathering {
    struct vr_live_ref *refs;
    uint64_t count, room;
    const char *operation;
};

static bool put(struct gathering *to, uint32_t track, const struct vr_track_view *view) {
    if (to->count == to->room) {
        uint64_t room = to->room ? 2 * to->room : 256;
        struct vr_live_ref *refs = vr_mem_resize(to->refs, room, sizeof *refs, to->operation);
        if (!refs) {
            return false;
        }
        to->refs = refs;
        to->room = room;
    }
    to->refs[to->count++] =
        (struct vr_live_ref){.id = view->id, .track = track, .number = view->number};
    return true;
}

bool vr_live_gather(const struct vr_tracks *tracks, const struct vr_live_filter *filter,
                    struct vr_live_ref **refs, uint64_t *count, const char *operation) {
    struct gathering to = {.operation = operation};
    struct vr_track_view views[16];
    bool good = true;
    for (uint32_t i = 0; i < tracks->count && good; i++) {
        uint32_t at = 0;
        do {
            uint32_t found = vr_track_list(tracks->all[i], &at, views, 16);
            for (uint32_t k = 0; k < found && good; k++) {
                good = !vr_live_is(filter, &views[k]) || put(&to, i, &views[k]);
            }
        } while (at && good);
    }
    if (!good) {
        vr_mem_free(to.refs);
        to = (struct gathering){0};
    }
    *refs = to.refs;
    *count = to.count;
    return good;
}

bool vr_live_look(const struct vr_tracks *tracks, const struct vr_live_ref *ref,
                  struct vr_track_view *view) {
    return vr_track_look(tracks->all[ref->track], ref->number, view) && view->id == ref->id;
}
