/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_table.h: what the events of a trace refer to by number: texts, frames, stacks, queues
 * and pools.
 *
 * An entry is found by its key and contains the body of the record that defines it. Each chunk of a
 * trace defines everything it refers to, so that it can be read without earlier chunks.
 *
 * Bounded: if the table is full or memory ran out, a key gets no entry, and its number is 0.
 */
#ifndef VR_TRACE_TABLE_H
#define VR_TRACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VR_TRACE_ENTRIES_MAX = 1 << 16, VR_TRACE_BODIES_MAX = 8 << 20 };

struct vr_trace_entry {
    uint64_t hash;
    uint32_t key, key_bytes;   /* in the table's bytes */
    uint32_t body, body_bytes; /* in the table's bytes */
    uint8_t kind;              /* vr_trace_record */
};

struct vr_trace_table {
    struct vr_trace_entry *entries; /* by number, from 1 */
    uint32_t capacity, count;       /* of it */
    uint32_t *slots;                /* numbers by hash, open addressing; 0: free */
    uint32_t slot_count;            /* a power of two, at least twice `capacity` */
    uint8_t *bytes;                 /* keys and bodies */
    uint32_t bytes_capacity, bytes_used;
};

/* The number of the entry with that key; 0 if there is none. */
uint32_t vr_trace_table_find(const struct vr_trace_table *table, uint8_t kind, const void *key,
                             size_t key_bytes);

/* Adds an entry that does not exist yet; 0 if it cannot. Keeps the thread's error record. */
uint32_t vr_trace_table_add(struct vr_trace_table *table, uint8_t kind, const void *key,
                            size_t key_bytes, const void *body, size_t body_bytes);

/* The entry of a number that is not 0; valid until the next add. */
static inline struct vr_trace_entry *vr_trace_table_at(struct vr_trace_table *table,
                                                       uint32_t number) {
    return &table->entries[number - 1];
}

void vr_trace_table_free(struct vr_trace_table *table);

#endif
