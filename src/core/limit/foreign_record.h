/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_record.h: records of memory that somebody else allocated, part of a device's ledger.
 *
 * Records are kept in the order of their numbers, which rise, so a new one goes to the end and all
 * are found by halves. All fields are under the ledger's lock; what a record is charged for stays
 * charged until it is taken back, and a context that ends takes its records and its accounts
 * together.
 */
#ifndef VR_FOREIGN_RECORD_H
#define VR_FOREIGN_RECORD_H

#include "vram/foreign.h"

struct vr_slot;
struct vr_tag;

struct vr_foreign {
    uint64_t id;
    uint64_t bytes;
    uint64_t since_ns;
    struct vr_tag *tag;   /* NULL: none */
    struct vr_slot *slot; /* through which it was charged */
    bool counts;
    char name[VRAM_FOREIGN_NAME_MAX];
};

struct vr_foreigns {
    struct vr_foreign **records; /* `count` of them, by rising id */
    size_t count, capacity;
    uint64_t bytes, counted_bytes, peak_bytes; /* as vram_foreign_totals has them */
};

#endif
