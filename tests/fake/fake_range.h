/* SPDX-License-Identifier: Apache-2.0 */
/* fake_range.h: addresses of the fake driver, and what is behind them. The fake's lock is held. */
#ifndef FAKE_RANGE_H
#define FAKE_RANGE_H

#include "fake/fake_state.h"

enum fake_range_kind { ALLOCATION, PINNED, MANAGED, RESERVATION, MAPPING, REGISTERED };

struct fake_physical {
    struct fake_physical *next;
    vr_cu_memory id;
    struct fake_device *device;
    uint64_t bytes, offset; /* in the device's file, or in its own */
    int file;               /* of memory that other processes import, + 1; 0: none */
    bool imported;          /* takes no memory of the device */
    bool fabric;            /* has a fabric handle, too */
    bool mapped;
    bool rdma;    /* network cards can register it */
    uint64_t was; /* where it was mapped last; 0: nowhere */
};

struct fake_range {
    struct fake_range *next;
    enum fake_range_kind kind;
    uint64_t addr, bytes;
    void *pages; /* what mmap gave, and how much */
    uint64_t page_bytes;
    struct fake_device *device;
    uint64_t offset; /* in the device's file */
    struct fake_physical *physical;
    uint64_t access; /* bit i: device i may touch it */
    bool read_only;  /* for all of them */
};

extern struct fake_range *fake_ranges;

struct fake_range *fake_range_at(uint64_t addr, enum fake_range_kind kind);
/* A new range with addresses of its own, `align`ed; NULL when the system has none. */
struct fake_range *fake_range_make(enum fake_range_kind kind, uint64_t bytes, uint64_t align,
                                   int protection);
void fake_range_end(struct fake_range *range);

/* Takes a place in the device's file; false when the device is full. */
bool fake_device_take(struct fake_device *device, uint64_t bytes, uint64_t *offset);
void fake_device_give(struct fake_device *device, uint64_t bytes, uint64_t offset);

/* The address, or what the plan wants it to be. */
uint64_t fake_lie(uint64_t addr);

void fake_vmm_reset(void);

#endif
