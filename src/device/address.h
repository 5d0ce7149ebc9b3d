/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h: which live memory an address lies in, for every device of the process.
 *
 * A record describes one allocation or one reserved range. Records are type-stable: a reader
 * without a lock may read one while it is withdrawn or reused. It detects that by the sequence
 * number, which is odd while the record is in no map and changes with every use.
 */
#ifndef VR_ADDRESS_H
#define VR_ADDRESS_H

#include "base/atomic.h"
#include "base/list.h"
#include "vram/device.h"

struct vr_device_object;
struct vr_physical;

/* One handle mapped in a range. */
struct vr_mapping {
    vram_addr addr;
    uint64_t bytes;
    struct vr_physical *physical;
    bool claimed; /* a call is mapping or unmapping it, and holds a reference to `physical` */
    bool usable;  /* mapped and accessible */
};

/* The size of the pool's live block that begins at `addr`; 0: there is none. Takes no lock that
   another thread normally holds. Also valid for a pool that has ended. */
typedef uint64_t vr_extent_fn(uint64_t pool, vram_addr addr);

struct vram_provider;

struct vr_record {
    void *free_link;                /* used by vr_stable */
    vr_atomic_u64 sequence;         /* even: in the map */
    vr_atomic_u64 base, bytes;      /* what it covers */
    vr_atomic_u64 device;           /* handle of the device */
    vr_atomic_u32 kind;             /* vram_memory_kind */
    vr_atomic_bool is_range;        /* reserved addresses; memory by mapping */
    vr_atomic_u64 pool;             /* handle of the pool that owns the memory; 0: none */
    _Atomic(vr_extent_fn *) extent; /* with a pool: finds its blocks */
    vr_atomic_u64 heap;             /* a tool's name for a pool's segment; 0: none; track/nvtx.h */
    vr_atomic_bool object;          /* an adopted object of the program */
    vr_atomic_bool sleeps;          /* parts of it may be asleep: a check takes a lock */
    vr_atomic_bool seals;           /* parts of it may be sealed: a check of writes takes a lock */
    vr_atomic_bool read_only;       /* memory of another process that may not be written */
    bool passed_on;                 /* in the second map: its memory is in the first one already */
    struct vram_provider *provider; /* of a block of its own; vr_mem's; NULL: none */

    /* The fields below are guarded by the device's lock. */
    struct vr_link link;
    bool freeing;                /* a thread is freeing it */
    bool stuck;                  /* the driver finally refused to unmap something in it */
    struct vr_mapping *mappings; /* of a range; sorted by address */
    uint32_t mapping_count, mapping_capacity;
};

/* A consistent copy of a record's fields. */
struct vr_address_info {
    struct vr_record *record;
    vram_addr base;
    uint64_t bytes;
    uint64_t device;
    vram_memory_kind kind;
    bool is_range;
    bool object;
    uint64_t pool;
    vr_extent_fn *extent;
};

/* A record in no map, zeroed except for its sequence; NULL with the error set. */
struct vr_record *vr_record_take(void);
void vr_record_give(struct vr_record *record);

/* Adds it to the map. VRAM_ERR_CORRUPT if a part of it is live already: the driver returned the
   same address twice. */
vram_status vr_record_publish(struct vr_record *record, vram_addr base, uint64_t bytes,
                              uint64_t device, vram_memory_kind kind, bool is_range);
/* The same for memory from a pool's provider, with record->pool set. If it is memory of that device
   that is in the map already, only vr_address_pool finds the new record; VRAM_ERR_INVALID if it is
   of another kind there. */
vram_status vr_record_publish_provided(struct vr_record *record, vram_addr base, uint64_t bytes,
                                       uint64_t device, vram_memory_kind kind);
/* Removes it from the map; never fails. */
void vr_record_withdraw(struct vr_record *record);

/* Reserved addresses of the process: the bytes of all ranges in the map. */
uint64_t vr_address_range_bytes(void);

/* The memory at an address; false if no live memory is there. Lock-free. */
bool vr_address_find(vram_addr addr, struct vr_address_info *place);
/* The handle of the pool that owns the memory there; 0: none. Lock-free. */
uint64_t vr_address_pool(vram_addr addr);
/* The size of the pool's live block that begins at `addr`; 0: there is none. */
uint64_t vr_address_extent(vram_addr addr);

#endif
