/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track.c: beginning and end of records, and their sums. See track.h.
 */
#include "track/track_table.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>

vr_atomic_u64 vr_track_ids = 1;

uint64_t vr_track_id_next(void) {
    return vr_fetch_add(&vr_track_ids, 1, VR_RELAXED);
}

static inline uint64_t moment_now(uint32_t memory) {
    return (vr_clock_coarse() >> VR_TRACK_STEP_BITS)
               << (VR_TRACK_KIND_BITS + VR_TRACK_THREAD_BITS) |
           (uint64_t)memory << VR_TRACK_THREAD_BITS |
           (vr_os_thread_number() & ((1u << VR_TRACK_THREAD_BITS) - 1));
}

/* --------------------------------------------------------------------- sums */

/* Adds a block to the totals, and removes one. */
static inline void add_totals(struct vr_track *track, uint64_t requested, uint64_t held,
                              uint64_t moment) {
    struct vr_track_totals *totals = &track->totals;
    totals->count++;
    totals->bytes += requested;
    totals->held += held;
    vr_store(track->config.now, totals->bytes, VR_RELAXED);
    if (totals->bytes > vr_load(track->config.peak, VR_RELAXED)) {
        vr_store(track->config.peak, totals->bytes, VR_RELAXED);
    }
    if (totals->bytes > totals->peak_bytes) {
        totals->peak_bytes = totals->bytes;
        totals->peak_count = totals->count;
        totals->peak_ns = vr_track_time(moment);
        track->epoch++;
    }
}

static inline void subtract_totals(struct vr_track *track, uint64_t requested, uint64_t held) {
    track->totals.count--;
    track->totals.bytes -= requested;
    track->totals.held -= held;
    vr_store(track->config.now, track->totals.bytes, VR_RELAXED);
}

/* The same for its site; a lost record has none. Called before the totals, which may raise the
   peak. */
static inline void add_site(struct vr_track *track, const struct vr_track_record *record,
                            uint64_t requested) {
    if (record) {
        struct vr_site *site = &track->sites.all[record->site];
        vr_track_keep_peak(track, site);
        site->count++;
        site->bytes += requested;
    }
}

static inline void subtract_site(struct vr_track *track, const struct vr_track_record *record) {
    if (record) {
        struct vr_site *site = &track->sites.all[record->site];
        vr_track_keep_peak(track, site);
        site->count--;
        site->bytes -= record->requested;
    }
}

static inline void write_size(struct vr_track_record *record, uint64_t requested, uint64_t held) {
    assert(held % VR_TRACK_UNIT == 0 && held / VR_TRACK_UNIT <= UINT32_MAX);
    record->requested = requested;
    record->units = (uint32_t)(held / VR_TRACK_UNIT);
}

/* ------------------------------------------------------------------ records */

/* Makes the record that of a live block. Inside the lock. */
static inline void block_begin(struct vr_track *track, struct vr_track_record *record,
                               uint64_t addr, uint64_t requested, uint64_t held, uint64_t moment) {
    if (record) {
        record->addr = addr;
        record->moment = moment;
        write_size(record, requested, held);
    }
    add_site(track, record, requested);
    add_totals(track, requested, held, moment);
    track->totals.allocs++;
}

uint64_t vr_track_commit(struct vr_track *track, uint32_t number, uint64_t addr, uint64_t requested,
                         uint64_t held, uint32_t memory) {
    uint64_t moment = moment_now(memory), id = 0;
    if (vr_track_enter(track)) {
        struct vr_track_record *record = vr_track_used(track, number);
        if (record) {
            track->sites.all[record->site].prepared--;
            id = record->id;
        }
        block_begin(track, record, addr, requested, held, moment);
        vr_track_leave(track);
    }
    return id;
}

uint32_t vr_track_quick(struct vr_track *track, const struct vr_site_key *key, uint32_t *site,
                        uint64_t addr, uint64_t requested, uint64_t held, uint64_t *id) {
    uint64_t moment = moment_now(0);
    uint32_t number = 0;
    if (!vr_track_enter(track)) {
        return 0;
    }
    if (!vr_site_is(&track->sites, *site, key)) {
        *site = vr_site_find(&track->sites, key);
    }
    if (*site && track->free) {
        number = vr_track_take(track, *site);
        struct vr_track_record *record = vr_track_at(track, number);
        block_begin(track, record, addr, requested, held, moment);
        *id = record->id;
    }
    vr_track_leave(track);
    return number;
}

/* A summary of the record, if there is one. Inside the lock. */
static void record_summarize(const struct vr_track *track, uint32_t number,
                             const struct vr_track_record *record, struct vr_track_brief *brief) {
    *brief = (struct vr_track_brief){0};
    if (record) {
        struct vr_label **label = vr_track_label_of(track, number);
        brief->id = record->id;
        brief->stack = track->sites.all[record->site].key.stack;
        if (label && *label) {
            brief->elements = (*label)->elements;
            (void)vr_text_copy(brief->name, sizeof brief->name, (*label)->name);
        }
    }
}

void vr_track_remove(struct vr_track *track, uint32_t number, uint64_t requested, uint64_t held,
                     struct vr_track_brief *brief) {
    if (!vr_track_enter(track)) {
        vr_fetch_add(&track->lost, 1, VR_RELAXED);
        return;
    }
    struct vr_track_record *record = vr_track_used(track, number);
    if (brief) {
        record_summarize(track, number, record, brief);
    }
    subtract_site(track, record);
    subtract_totals(track, requested, held);
    track->totals.frees++;
    if (record) {
        vr_track_give(track, number);
    }
    vr_track_leave(track);
}

/* The block is the same allocation before and after: its sums change, its id and age do not. */
void vr_track_resize(struct vr_track *track, uint32_t number, struct vr_track_size before,
                     struct vr_track_size after, struct vr_track_brief *brief) {
    uint64_t moment = moment_now(0);
    if (!vr_track_enter(track)) {
        return;
    }
    struct vr_track_record *record = vr_track_used(track, number);
    record_summarize(track, number, record, brief);
    subtract_site(track, record);
    subtract_totals(track, before.requested, before.held);
    if (record) {
        write_size(record, after.requested, after.held);
    }
    add_site(track, record, after.requested);
    add_totals(track, after.requested, after.held, moment);
    track->totals.resizes++;
    vr_track_leave(track);
}
