/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track.h: the live blocks of one pool, one record each, and their sums.
 *
 *      vr_track
 *      +----------+   record of 40 bytes:  id | addr | requested | time, kind, thread | held | site
 *      | chunks   |-> 256 records each, found by number; the pool's block keeps the number, so no
 *      +----------+   table of addresses is needed. A chunk with named blocks has labels.
 *      | sites    |-> origins of allocations: tag, queue and stack, and the sums of all blocks of
 *      +----------+   one such site, now and at the peak
 *
 *  (1) `lock` (biased_lock.h) guards records, sites' sums and totals. It is held for some tens of
 *      instructions, never across a call, so a thread may take it inside its caches
 *      (core/cache/thread.h). A signal handler that interrupts its holder does not get it and gives
 *      up: its record is lost. "Inside the lock" below means this one.
 *  (2) Memory is allocated outside it, by vr_track_prepare, under `grow_lock`: never inside (1).
 *  (3) If memory for a record ran out, the record is lost and counted; the allocation succeeds.
 *  (4) What was live at the peak is known without a copy: each new peak raises `epoch`, and a site
 *      saves its sums when it is changed for the first time after that.
 *  (5) A site without live blocks whose sums at the peak are 0 may be reused for another one.
 *  (6) A prepared record has an id and is not part of any sum until it is committed.
 */
#ifndef VR_TRACK_H
#define VR_TRACK_H

#include "base/list.h"
#include "base/lock.h"
#include "track/event.h"

enum {
    VR_TRACK_CHUNK = 256, /* records that are allocated at once */
    VR_TRACK_NAME = 64,   /* bytes of a pool's or label's name, the final 0 included */
    VR_TRACK_UNIT = 512   /* held bytes are a multiple of this */
};

struct vr_track;

/* Two blocks with the same key belong to one site. */
struct vr_site_key {
    const char *tag; /* by address: the ledger stores each text once; NULL: none */
    uint64_t queue;
    uint32_t stack; /* 0: none */
};

struct vr_site {
    struct vr_site_key key;
    bool used;             /* the place is in use */
    uint32_t prepared;     /* records not committed yet, or memory reserved for one; see (5) */
    uint64_t count, bytes; /* live, as requested */
    uint64_t peak_count,
        peak_bytes; /* at the peak, if `epoch` is the track's; otherwise what is live */
    uint64_t epoch;
};

/* A block's name in the program; not unique. */
struct vr_track_label {
    const char *name;  /* copied, truncated to 63 bytes; NULL: none */
    uint64_t elements; /* 0: unknown */
};

/* A copy of the record of one live block. */
struct vr_track_view {
    uint64_t id, addr, requested, held; /* bytes */
    uint32_t number;                    /* of the record */
    uint64_t time_ns;                   /* vr_clock_coarse, in steps of 2^20 ns */
    uint64_t thread;                    /* the last 21 bits of vr_os_thread_number */
    uint32_t memory;                    /* vram_memory_kind */
    struct vr_site_key site;
    uint64_t elements;        /* 0: unknown */
    char name[VR_TRACK_NAME]; /* "": none */
    bool foreign;             /* a record of memory of others: no pool, no address (tracks.h) */
    uint64_t device;          /* of such a record: the handle that it was made through */
};

/* An id that nothing else in the process has: block, buffer or record of foreign memory. Rises. */
uint64_t vr_track_id_next(void);

/* Sums, all at the same time. */
struct vr_track_totals {
    uint64_t count, bytes, held; /* live */
    uint64_t peak_bytes, peak_count, peak_ns;
    uint64_t allocs, frees, resizes, lost;
    uint64_t metadata_bytes; /* host memory of the whole track */
    uint64_t record_bytes;   /* the part of it in records */
};

struct vr_track_config {
    uint64_t pool, device, context; /* handles */
    uint64_t group;     /* the same for all pools of one device, whatever their handles */
    const char *name;   /* the pool's; copied */
    vr_atomic_u64 *now; /* live bytes and their maximum, as requested: the pool's own */
    vr_atomic_u64
        *peak; /* counters, which the track keeps exact; the peak may be reset at any time */
};

/* NULL with the error set if memory ran out. */
struct vr_track *vr_track_make(const struct vr_track_config *config);
/* Drops a reference: the creator's, or that of a list (tracks.h). The last one frees it. NULL is
   allowed. */
void vr_track_free(struct vr_track *track);
/* The pool has ended: the track cannot be found any more. */
void vr_track_end(struct vr_track *track);

/* Reserves one more record of that site: its number, or 0 with the record counted as lost. `label`
   NULL: none; a label is left out if memory ran out. Not inside caches. The caller commits or drops
   it. */
uint32_t vr_track_prepare(struct vr_track *track, const struct vr_site_key *key,
                          const struct vr_track_label *label);
void vr_track_drop(struct vr_track *track, uint32_t number);

/* Makes the prepared record that of a block, and returns its id. Number 0, here and below, is that
   of a block whose record was lost: it is only part of the totals. */
uint64_t vr_track_commit(struct vr_track *track, uint32_t number, uint64_t addr, uint64_t requested,
                         uint64_t held, uint32_t memory);
/* Both at once for memory of the device, if a record is free and the site is known: otherwise 0,
   and nothing has changed. *site is a guess, and is updated. */
uint32_t vr_track_quick(struct vr_track *track, const struct vr_site_key *key, uint32_t *site,
                        uint64_t addr, uint64_t requested, uint64_t held, uint64_t *id);
/* The part of a record that receivers of events need; all 0 if there is no record. */
struct vr_track_brief {
    uint64_t id, elements;
    uint32_t stack;
    char name[VR_TRACK_NAME]; /* "": none */
};
/* The block of that size was freed; fills *brief from its record, unless NULL. */
void vr_track_remove(struct vr_track *track, uint32_t number, uint64_t requested, uint64_t held,
                     struct vr_track_brief *brief);
/* The block's size changes from the first to the second. */
struct vr_track_size {
    uint64_t requested, held;
};
void vr_track_resize(struct vr_track *track, uint32_t number, struct vr_track_size before,
                     struct vr_track_size after, struct vr_track_brief *brief);
/* Copies the live records from number *at on, up to `capacity` of them, and sets *at to the next
   one; 0 after the last. */
uint32_t vr_track_list(struct vr_track *track, uint32_t *at, struct vr_track_view *views,
                       uint32_t capacity);
/* The record of that number; false: it is not that of a live block. */
bool vr_track_look(struct vr_track *track, uint32_t number, struct vr_track_view *view);
/* The same for sites that have live blocks, or had some at the peak. */
uint32_t vr_track_sites(struct vr_track *track, uint32_t *at, struct vr_site *sites,
                        uint32_t capacity);
void vr_track_totals_get(struct vr_track *track, struct vr_track_totals *totals);
/* Resets the peak to the current sums. */
void vr_track_peak_reset(struct vr_track *track);

/* The configuration it was created with; the name is its own copy. */
const struct vr_track_config *vr_track_about(const struct vr_track *track);

#endif
