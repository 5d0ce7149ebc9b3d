/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track_memory.c: allocates memory for records, labels and sites, outside the lock; creates and
 * frees tracks. See track.h.
 */
#include "track/track_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

/* ------------------------------------------------------------------- memory */

/* Frees the labels of blocks that were freed. */
static void dead_labels_free(struct vr_track *track) {
    struct vr_label *dead = NULL;
    if (vr_load(&track->dead, VR_RELAXED) && vr_track_enter(track)) {
        dead = vr_load(&track->dead, VR_RELAXED);
        vr_store(&track->dead, NULL, VR_RELAXED);
        vr_track_leave(track);
    }
    while (dead) {
        struct vr_label *next = dead->next;
        vr_mem_free(dead);
        dead = next;
    }
}

/* Enlarges the table of chunks if needed. Under `grow_lock`. */
static bool chunk_table_grow(struct vr_track *track) {
    if (track->chunk_count < track->chunk_capacity) {
        return true;
    }
    uint32_t capacity = track->chunk_capacity ? 2 * track->chunk_capacity : 8;
    struct vr_track_chunk **old = track->chunks;
    struct vr_track_chunk **table = vr_mem_alloc(capacity, sizeof *table, vr_operation());
    if (!table || !vr_track_enter(track)) {
        vr_mem_free(table);
        return false;
    }
    if (old) {
        memcpy(table, old, track->chunk_count * sizeof *table);
    }
    track->chunks = table;
    track->chunk_capacity = capacity;
    vr_track_leave(track);
    vr_mem_free(old);
    return true;
}

/* Adds a chunk of free records. Under `grow_lock`. */
static bool chunk_add(struct vr_track *track) {
    struct vr_track_chunk *chunk =
        chunk_table_grow(track) ? vr_mem_alloc(1, sizeof *chunk, vr_operation()) : NULL;
    if (!chunk || !vr_track_enter(track)) {
        vr_mem_free(chunk);
        return false;
    }
    uint32_t first = track->chunk_count * VR_TRACK_CHUNK + 1;
    for (uint32_t i = 0; i + 1 < VR_TRACK_CHUNK; i++) {
        chunk->records[i].addr = first + i + 1;
    }
    chunk->records[VR_TRACK_CHUNK - 1].addr = track->free;
    track->chunks[track->chunk_count++] = chunk;
    track->free = first;
    vr_track_leave(track);
    return true;
}

/* Replaces the table of sites by one with `wanted` places. Under `grow_lock`. */
static bool replace_sites(struct vr_track *track, uint32_t wanted) {
    struct vr_sites made, old;
    if (!vr_sites_make(&made, wanted)) {
        return false;
    }
    if (!vr_track_enter(track)) {
        vr_sites_free(&made);
        return false;
    }
    old = track->sites;
    vr_sites_move(&made, &old, track->epoch);
    track->sites = made;
    vr_track_leave(track);
    vr_sites_free(&old);
    return true;
}

/* Takes a record of the site, which is added if needed. False: memory ran out. Under
   `grow_lock`. */
static bool record_take_slow(struct vr_track *track, const struct vr_site_key *key,
                             uint32_t *number) {
    for (;;) {
        if (!vr_track_enter(track)) {
            return false;
        }
        uint32_t site = vr_site_find(&track->sites, key);
        if (!site) {
            site = vr_site_add(&track->sites, key, track->epoch);
        }
        bool has_free = track->free != 0;
        uint32_t wanted = site ? 0 : vr_sites_wanted(&track->sites, track->epoch);
        if (site && has_free) {
            *number = vr_track_take(track, site);
            track->sites.all[site].prepared++;
            vr_track_leave(track);
            return true;
        }
        vr_track_leave(track);
        if (!has_free && !chunk_add(track)) {
            return false;
        }
        if (!site && !replace_sites(track, wanted)) {
            return false;
        }
    }
}

/* Attaches the label, unless memory ran out. Under `grow_lock`; the record is prepared. */
static void label_attach(struct vr_track *track, uint32_t number,
                         const struct vr_track_label *from) {
    size_t bytes = from->name ? strnlen(from->name, VR_TRACK_NAME - 1) : 0;
    struct vr_label *label = vr_mem_alloc(1, sizeof *label + VR_TRACK_NAME, vr_operation());
    if (label && bytes + 1 < VR_TRACK_NAME) { /* names are usually short */
        struct vr_label *tight = vr_mem_resize(label, 1, sizeof *label + bytes + 1, vr_operation());
        label = tight ? tight : label;
    }
    struct vr_track_chunk *chunk = track->chunks[(number - 1) / VR_TRACK_CHUNK];
    struct vr_label **labels = label && !chunk->labels
                                   ? vr_mem_alloc(VR_TRACK_CHUNK, sizeof *labels, vr_operation())
                                   : NULL;
    if (!label || (!chunk->labels && !labels) || !vr_track_enter(track)) {
        vr_mem_free(label);
        vr_mem_free(labels);
        return;
    }
    label->elements = from->elements;
    label->name[0] = '\0';
    if (from->name) {
        vr_text_copy(label->name, bytes + 1, from->name);
    }
    if (labels) {
        chunk->labels = labels;
        track->totals.metadata_bytes += VR_TRACK_CHUNK * sizeof *labels;
    }
    chunk->labels[(number - 1) % VR_TRACK_CHUNK] = label;
    vr_track_leave(track);
}

uint32_t vr_track_prepare(struct vr_track *track, const struct vr_site_key *key,
                          const struct vr_track_label *label) {
    struct vram_error error;
    uint32_t number = 0;
    vr_error_save(&error);
    dead_labels_free(track);
    vr_mutex_lock(&track->grow_lock);
    if (!record_take_slow(track, key, &number)) {
        vr_fetch_add(&track->lost, 1, VR_RELAXED);
    } else if (label && (label->name || label->elements)) {
        label_attach(track, number, label);
    }
    vr_mutex_unlock(&track->grow_lock);
    vr_error_restore(&error);
    return number;
}

void vr_track_drop(struct vr_track *track, uint32_t number) {
    if (number && vr_track_enter(track)) {
        track->sites.all[vr_track_at(track, number)->site].prepared--;
        vr_track_give(track, number);
        vr_track_leave(track);
    }
}

/* -------------------------------------------------------- creating, freeing */

struct vr_track *vr_track_make(const struct vr_track_config *config) {
    struct vr_track *track = vr_mem_alloc(1, sizeof *track, vr_operation());
    if (track) {
        vr_biased_locks_start();
        track->config = *config;
        track->config.name = track->name;
        track->epoch = 1;
        vr_text_copy(track->name, sizeof track->name, config->name);
        vr_mutex_init(&track->grow_lock, VR_RANK_TRACK);
        track->process = vr_os_process_generation();
        track->references = 1;
        vr_tracks_add(track);
    }
    return track;
}

void vr_track_free(struct vr_track *track) {
    if (!track || !vr_tracks_drop(track)) {
        return;
    }
    dead_labels_free(track);
    for (uint32_t i = 0; i < track->chunk_count; i++) {
        struct vr_track_chunk *chunk = track->chunks[i];
        for (uint32_t at = 0; chunk->labels && at < VR_TRACK_CHUNK; at++) {
            vr_mem_free(chunk->labels[at]);
        }
        vr_mem_free(chunk->labels);
        vr_mem_free(chunk);
    }
    vr_mem_free(track->chunks);
    vr_sites_free(&track->sites);
    vr_mutex_destroy(&track->grow_lock);
    vr_mem_free(track);
}
