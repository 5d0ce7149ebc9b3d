/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track.h: the live blocks of one pool, one record each, and what they sum up to.
 *
 *      vr_track
 *      +----------+   record of 40 bytes:  id | addr | requested | time, kind, thread | held | site
 *      | chunks   |-> 256 records each, found by number; the pool's block keeps the number, so no
 *      +----------+   table of addresses is needed. A chunk with named blocks has room for labels.
 *      | sites    |-> who asks: tag, queue and stack, and what all blocks of one such
 *      +----------+   site sum up to, now and at the peak
 *
 *  (1) `turn` (biased_lock.h) guards records, sites' sums and totals. It is held for some tens of
 *      instructions, never across a call, so a thread may take it inside its caches
 *      (core/cache/thread.h). A signal handler that interrupts its holder does not get it and goes
 *      away: its record is lost.
 *  (2) Room is made outside, by vr_track_prepare, under `room`: memory is never asked for inside
 *      (1).
 *  (3) A record that gets no memory is lost and counted; the allocation it is about goes on.
 *  (4) What was live at the peak is known without a copy: each new peak raises `epoch`, and a site
 *      keeps what it had then when it is changed for the first time after it.
 *  (5) A site without live blocks whose sums at the peak are 0 may be used for another one.
 *  (6) A prepared record has an id and counts for nothing until it is committed.
 */
#ifndef VR_TRACK_H
#define VR_TRACK_H

#include "base/list.h"
#include "base/lock.h"
#include "track/event.h"

enum {
    VR_TRACK_CHUNK = 256, /* records that come at once */
    VR_TRACK_NAME = 64,   /* bytes of a pool's or label's name, the final 0 included */
    VR_TRACK_UNIT = 512   /* held bytes are a multiple of this */
};

struct vr_track;

/* What makes two blocks of one site. */
struct vr_site_key {
    const char *tag; /* by address: the ledger keeps one text for each; NULL: none */
    uint64_t queue;
    uint32_t stack; /* 0: none */
};

struct vr_site {
    struct vr_site_key key;
    bool used;                       /* the place is taken */
    uint32_t prepared;               /* records not committed yet, or room taken for one; see (5) */
    uint64_t count, bytes;           /* live, as asked for */
    uint64_t peak_count, peak_bytes; /* at the peak, if `epoch` is the track's; else what is live */
    uint64_t epoch;
};

/* What a program calls a block; two may have the same name. */
struct vr_track_label {
    const char *name;  /* copied, cut at 63 bytes; NULL: none */
    uint64_t elements; /* 0: not said */
};

/* What is known of one live block. */
struct vr_track_view {
    uint64_t id, addr, requested, held; /* bytes */
    uint32_t number;                    /* of the record */
    uint64_t time_ns;                   /* vr_clock_coarse, in steps of 2^20 ns */
    uint64_t thread;                    /* vr_os_thread_number, its last 21 bits */
    uint32_t memory;                    /* vram_memory_kind */
    struct vr_site_key site;
    uint64_t elements;        /* 0: not said */
    char name[VR_TRACK_NAME]; /* "": none */
};

/* Sums; all at one moment. */
struct vr_track_totals {
    uint64_t count, bytes, held; /* live */
    uint64_t peak_bytes, peak_count, peak_ns;
    uint64_t allocs, frees, resizes, lost;
    uint64_t metadata_bytes; /* host memory of all this */
    uint64_t record_bytes;   /* of these, records */
};

struct vr_track_config {
    uint64_t pool, device, context; /* handles */
    uint64_t group;   /* the same for all pools of one device, whatever their handles */
    const char *name; /* the pool's; copied */
    vr_atomic_u64
        *now; /* what is live and the most that was, in bytes as asked for: the pool's own */
    vr_atomic_u64
        *peak; /* numbers, which the track keeps exact; who resets the peak may do so any time */
};

/* NULL with the error set when memory is out. */
struct vr_track *vr_track_make(const struct vr_track_config *config);
/* Drops a reference: the maker's, or that of a list (tracks.h). The last one frees it. NULL is
   allowed. */
void vr_track_free(struct vr_track *track);
/* The pool has ended: nobody finds it any more. */
void vr_track_end(struct vr_track *track);

/* Room for one more record of that site: its number, or 0 with the record counted as lost. `label`
   NULL: none; one that gets no memory is left out. Not inside caches. Its owner commits or drops
   it. */
uint32_t vr_track_prepare(struct vr_track *track, const struct vr_site_key *key,
                          const struct vr_track_label *label);
void vr_track_drop(struct vr_track *track, uint32_t number);

/* The prepared record is that of a block from now on; its id. Number 0, here and below, is that of
   a block whose record was lost: it counts in the totals, and no more. */
uint64_t vr_track_commit(struct vr_track *track, uint32_t number, uint64_t addr, uint64_t requested,
                         uint64_t held, uint32_t memory);
/* Both at once for memory of the device, if there is room and the site is known: else 0, and
   nothing has happened. *site is a guess, and becomes a better one. */
uint32_t vr_track_quick(struct vr_track *track, const struct vr_site_key *key, uint32_t *site,
                        uint64_t addr, uint64_t requested, uint64_t held, uint64_t *id);
/* What listeners want to know of a record; all 0 where there is none. */
struct vr_track_brief {
    uint64_t id, elements;
    uint32_t stack;
};
/* The block of that size is gone; of its record in *brief unless NULL. */
void vr_track_remove(struct vr_track *track, uint32_t number, uint64_t requested, uint64_t held,
                     struct vr_track_brief *brief);
/* The block has the second size in the place of the first. */
struct vr_track_size {
    uint64_t requested, held;
};
void vr_track_resize(struct vr_track *track, uint32_t number, struct vr_track_size before,
                     struct vr_track_size after, struct vr_track_brief *brief);
/* The live records from number *at on, up to `room` of them, and where to go on; 0 behind the
   last. */
uint32_t vr_track_list(struct vr_track *track, uint32_t *at, struct vr_track_view *views,
                       uint32_t room);
/* The record of that number; false: it is none of a live block. */
bool vr_track_look(struct vr_track *track, uint32_t number, struct vr_track_view *view);
/* The same for sites that have or had at the peak anything. */
uint32_t vr_track_sites(struct vr_track *track, uint32_t *at, struct vr_site *sites, uint32_t room);
void vr_track_totals_get(struct vr_track *track, struct vr_track_totals *totals);
/* Forgets the peak: it is what there is now. */
void vr_track_peak_reset(struct vr_track *track);

/* What it was made with; the name is its own. */
const struct vr_track_config *vr_track_about(const struct vr_track *track);

#endif
