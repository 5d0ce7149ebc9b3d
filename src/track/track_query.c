/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track_query.c: reads records, sites and totals of a track. See track.h.
 */
#include "track/track_table.h"

#include "base/text.h"

void vr_track_describe(const struct vr_track *track, uint32_t number, struct vr_track_view *view) {
    const struct vr_track_record *record = vr_track_at(track, number);
    struct vr_label **label = vr_track_label_of(track, number);
    *view = (struct vr_track_view){
        .id = record->id,
        .number = number,
        .addr = record->addr,
        .requested = record->requested,
        .held = vr_track_held(record),
        .time_ns = vr_track_time(record->moment),
        .memory =
            (uint32_t)(record->moment >> VR_TRACK_THREAD_BITS) & ((1u << VR_TRACK_KIND_BITS) - 1),
        .thread = record->moment & ((1u << VR_TRACK_THREAD_BITS) - 1),
        .site = track->sites.all[record->site].key,
    };
    if (label && *label) {
        view->elements = (*label)->elements;
        (void)vr_text_copy(view->name, sizeof view->name, (*label)->name);
    }
}

bool vr_track_look(struct vr_track *track, uint32_t number, struct vr_track_view *view) {
    if (!vr_track_enter(track)) {
        return false;
    }
    struct vr_track_record *record = vr_track_used(track, number);
    bool live = record && record->addr;
    if (live) {
        vr_track_describe(track, number, view);
    }
    vr_track_leave(track);
    return live;
}

uint32_t vr_track_list(struct vr_track *track, uint32_t *at, struct vr_track_view *views,
                       uint32_t capacity) {
    uint32_t count = 0, number = *at ? *at : 1;
    if (!vr_track_enter(track)) {
        *at = 0;
        return 0;
    }
    uint32_t end = track->chunk_count * VR_TRACK_CHUNK;
    for (; number <= end && count < capacity; number++) {
        struct vr_track_record *record = vr_track_at(track, number);
        if (record->id && record->addr) {
            vr_track_describe(track, number, &views[count++]);
        }
    }
    vr_track_leave(track);
    *at = number <= end ? number : 0;
    return count;
}

uint32_t vr_track_sites(struct vr_track *track, uint32_t *at, struct vr_site *sites,
                        uint32_t capacity) {
    uint32_t count = 0, index = *at ? *at : 1;
    if (!vr_track_enter(track)) {
        *at = 0;
        return 0;
    }
    for (; index <= track->sites.capacity && count < capacity; index++) {
        struct vr_site site = track->sites.all[index];
        if (site.used) {
            vr_track_keep_peak(track, &site); /* only in the copy */
            if (site.count || site.peak_count) {
                sites[count++] = site;
            }
        }
    }
    bool more = index <= track->sites.capacity;
    vr_track_leave(track);
    *at = more ? index : 0;
    return count;
}

void vr_track_totals_get(struct vr_track *track, struct vr_track_totals *totals) {
    *totals = (struct vr_track_totals){0};
    if (vr_track_enter(track)) {
        *totals = track->totals;
        totals->record_bytes = (uint64_t)track->chunk_count * sizeof(struct vr_track_chunk) +
                               track->chunk_capacity * sizeof *track->chunks;
        totals->metadata_bytes +=
            sizeof *track + totals->record_bytes + vr_sites_bytes(&track->sites);
        vr_track_leave(track);
    }
    totals->lost = vr_load(&track->lost, VR_RELAXED);
}

void vr_track_peak_reset(struct vr_track *track) {
    if (vr_track_enter(track)) {
        track->totals.peak_bytes = track->totals.bytes;
        track->totals.peak_count = track->totals.count;
        track->epoch++;
        vr_track_leave(track);
    }
}

const struct vr_track_config *vr_track_about(const struct vr_track *track) {
    return &track->config;
}
