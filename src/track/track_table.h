/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track_table.h: the struct behind a vr_track, for the files that work on it: track.c (records and
 * sums), track_memory.c (memory) and track_query.c (queries). See track.h.
 */
#ifndef VR_TRACK_TABLE_H
#define VR_TRACK_TABLE_H

#include "track/biased_lock.h"
#include "track/site.h"

enum {
    VR_TRACK_ID_BATCH = 1024,
    VR_TRACK_STEP_BITS = 20, /* low bits of a time that are dropped */
    VR_TRACK_THREAD_BITS = 21,
    VR_TRACK_KIND_BITS = 3 /* of a vram_memory_kind */
};

/* A free record has no id; `addr` then is the number of the next free one. A prepared record has no
   address. */
struct vr_track_record {
    uint64_t id;        /* 0: free */
    uint64_t addr;      /* 0: prepared */
    uint64_t requested; /* bytes */
    uint64_t moment;    /* time in steps of 2^20 ns, the kind of memory, the thread */
    uint32_t units;     /* held, in VR_TRACK_UNIT */
    uint32_t site;
};

_Static_assert(sizeof(struct vr_track_record) == 40,
               "a record is at most 48 bytes with all that belongs to it");

/* The text of one block. The label of a freed block is put in a list, and freed outside the
   lock. */
struct vr_label {
    struct vr_label *next; /* in that list */
    uint64_t elements;
    char name[];
};

struct vr_track_chunk {
    struct vr_label **labels; /* one for each record; NULL: no record has one */
    struct vr_track_record records[VR_TRACK_CHUNK];
};

struct vr_track {
    struct vr_biased_lock lock; /* see (1) */
    struct vr_track_config config;
    char name[VR_TRACK_NAME];
    struct vr_track_chunk **chunks;
    uint32_t chunk_count, chunk_capacity;
    uint32_t free;                   /* number of the first free record; 0: none */
    uint64_t id, id_end;             /* next, and the end of the batch */
    _Atomic(struct vr_label *) dead; /* labels to free; written inside the lock */
    struct vr_sites sites;
    struct vr_track_totals totals;
    uint64_t epoch;
    vr_atomic_u64 lost;
    struct vr_mutex grow_lock; /* held while memory is allocated; see (2) */
    uint64_t process;          /* that created it */
    uint32_t references;       /* guarded by the list's lock, as is the link in it */
    struct vr_link link;
};

/* The next id in the process. */
extern vr_atomic_u64 vr_track_ids;

/* --------------------------------------------------------------------- lock */

/* False: a signal handler has interrupted the holder. */
static inline bool vr_track_enter(struct vr_track *track) {
    return vr_biased_lock_take(&track->lock);
}

static inline void vr_track_leave(struct vr_track *track) {
    vr_biased_lock_give(&track->lock);
}

/* ------------------------------------------------------------------ records */

/* Numbers start with 1. */
static inline struct vr_track_record *vr_track_at(const struct vr_track *track, uint32_t number) {
    uint32_t index = number - 1;
    return &track->chunks[index / VR_TRACK_CHUNK]->records[index % VR_TRACK_CHUNK];
}

static inline struct vr_label **vr_track_label_of(const struct vr_track *track, uint32_t number) {
    struct vr_track_chunk *chunk = track->chunks[(number - 1) / VR_TRACK_CHUNK];
    return chunk->labels ? &chunk->labels[(number - 1) % VR_TRACK_CHUNK] : NULL;
}

/* The record of a number, if it is in use. Inside the lock. */
static inline struct vr_track_record *vr_track_used(const struct vr_track *track, uint32_t number) {
    if (!number || number > track->chunk_count * VR_TRACK_CHUNK) {
        return NULL;
    }
    struct vr_track_record *record = vr_track_at(track, number);
    return record->id ? record : NULL;
}

static inline uint64_t vr_track_time(uint64_t moment) {
    return moment >> (VR_TRACK_KIND_BITS + VR_TRACK_THREAD_BITS) << VR_TRACK_STEP_BITS;
}

/* A free record with an id; there must be one. Inside the lock. */
static inline uint32_t vr_track_take(struct vr_track *track, uint32_t site) {
    uint32_t number = track->free;
    struct vr_track_record *record = vr_track_at(track, number);
    track->free = (uint32_t)record->addr;
    if (track->id == track->id_end) {
        track->id = vr_fetch_add(&vr_track_ids, VR_TRACK_ID_BATCH, VR_RELAXED);
        track->id_end = track->id + VR_TRACK_ID_BATCH;
    }
    record->id = track->id++;
    record->addr = 0;
    record->site = site;
    return number;
}

/* Inside the lock. */
static inline void vr_track_give(struct vr_track *track, uint32_t number) {
    struct vr_track_record *record = vr_track_at(track, number);
    struct vr_label **label = vr_track_label_of(track, number);
    if (label && *label) {
        (*label)->next = vr_load(&track->dead, VR_RELAXED);
        vr_store(&track->dead, *label, VR_RELAXED);
        *label = NULL;
    }
    record->id = 0;
    record->addr = track->free;
    track->free = number;
}

/* Called before a site's sums change: keeps (4). Inside the lock. */
static inline void vr_track_keep_peak(struct vr_track *track, struct vr_site *site) {
    if (site->epoch != track->epoch) {
        site->peak_count = site->count;
        site->peak_bytes = site->bytes;
        site->epoch = track->epoch;
    }
}

static inline uint64_t vr_track_held(const struct vr_track_record *record) {
    return (uint64_t)record->units * VR_TRACK_UNIT;
}

/* The list of all tracks; track_list.c. */
struct vr_tracks_filter;
void vr_tracks_add(struct vr_track *track);
/* Adds a reference to each track that the filter selects, up to `capacity`; returns how many it
   selects. */
uint32_t vr_tracks_collect(const struct vr_tracks_filter *filter, struct vr_track **all,
                           uint32_t capacity);
/* Drops a reference; true: it was the last, and the track cannot be found any more. */
bool vr_tracks_drop(struct vr_track *track);

/* Copies the record. Inside the lock. */
void vr_track_describe(const struct vr_track *track, uint32_t number, struct vr_track_view *view);

#endif
