/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track_list.c: the list of all tracks of the process.
 */
#include "track/track_table.h"
#include "track/tracks.h"

static struct vr_mutex list_lock = VR_MUTEX_INIT(VR_RANK_TRACK);
static struct vr_list list;
static bool listed; /* the list is initialised */

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

uint32_t vr_tracks_collect(const struct vr_tracks_filter *filter, struct vr_track **all,
                           uint32_t capacity) {
    uint32_t count = 0;
    vr_mutex_lock(&list_lock);
    for (struct vr_link *link = listed ? vr_list_first(&list) : NULL; link;
         link = vr_list_next(&list, link)) {
        struct vr_track *track = VR_CONTAINER(link, struct vr_track, link);
        if (is_of(track, filter) && count++ < capacity) {
            track->references++;
            all[count - 1] = track;
        }
    }
    vr_mutex_unlock(&list_lock);
    return count;
}
