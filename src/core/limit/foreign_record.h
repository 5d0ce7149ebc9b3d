/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_record.h: records of memory allocated by other code, part of a device's ledger.
 *
 * Records are in the order of their ids, which rise: a new one is appended, and a look-up is a
 * binary search. All fields are under the ledger's lock. A record stays charged until it is
 * removed; a context that ends frees its records and its accounts together.
 */
#ifndef VR_FOREIGN_RECORD_H
#define VR_FOREIGN_RECORD_H

#include "vram/foreign.h"

struct vr_slot;
struct vr_tag;
struct vr_tracks;

struct vr_foreign {
    uint64_t id;
    uint64_t bytes;
    uint64_t since_ns;
    struct vr_tag *tag;   /* NULL: none */
    struct vr_slot *slot; /* through which it was charged, */
    uint64_t device;      /* and the handle */
    bool counts;
    vram_memory_kind kind;
    uint64_t elements; /* 0: unknown */
    char name[VRAM_FOREIGN_NAME_MAX];
};

struct vr_foreigns {
    struct vr_foreign **records; /* `count` of them, by rising id */
    size_t count, capacity;
    uint64_t bytes, counted_bytes, peak_bytes; /* as vram_foreign_totals has them */
};

/* Appends copies of the records to the list's foreign ones. False: memory ran out, with the error
   set. Under the ledger's lock, if others can use it. */
bool vr_foreigns_copy(const struct vr_foreigns *foreigns, struct vr_tracks *tracks);

/* Reports the records that a context still has at its end like leaks. No lock held. */
void vr_foreigns_tell(const struct vr_foreigns *foreigns);
void vr_foreigns_free(struct vr_foreigns *foreigns);

#endif
