/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/foreign.h: records of device memory that was not allocated through libvram.
 *
 * A library or a framework takes memory by itself: its workspaces, its own caches. A record says
 * how much that is and whose, until it is removed by its number. A record alone changes nothing; it
 * can be looked up. A record that counts is treated as if the program had taken the memory through
 * libvram: pools of the device may hold that much less (vram/limits.h: "what else the program holds
 * there"), and it counts for its tag and against its quotas.
 *
 * Records belong to the device, whatever handle on it they were made through, and end with the
 * context. Queries for live blocks of a device or context show them, and reports of leaks
 * (vram/stats.h), marked as foreign.
 */
#ifndef VRAM_FOREIGN_H
#define VRAM_FOREIGN_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vram_foreign_flag {
    VRAM_FOREIGN_COUNTS = 1 << 0 /* in budgets, and for its tag */
} vram_foreign_flag;

enum { VRAM_FOREIGN_NAME_MAX = 64 }; /* bytes of a record's name, the final 0 included */

typedef struct vram_foreign_options {
    size_t size;           /* sizeof(vram_foreign_options) */
    uint32_t flags;        /* bits of vram_foreign_flag */
    const char *tag;       /* "cublas/workspace" (vram/limits.h); copied; NULL, "": none */
    const char *name;      /* a label; copied; need not be unique; NULL: "" */
    vram_memory_kind kind; /* where it lies */
    uint64_t elements;     /* how many things it holds; 0: unknown */
} vram_foreign_options;

/**
 * Records `bytes` of memory on the device, or of host memory that the program uses with it. Numbers
 * rise and are never reused, and no buffer and no tracked block of the process has the same. To
 * keep a limit, record first and allocate then: a record that counts returns VRAM_ERR_LIMIT if it
 * would exceed the hard limit of the device or a hard quota of its tag, and nothing is recorded.
 * Memory that is allocated already and too much can be recorded without VRAM_FOREIGN_COUNTS.
 * VRAM_ERR_INVALID for 0 bytes, a name of more than 63 bytes, an invalid tag, flag or kind, and
 * VRAM_FOREIGN_COUNTS for host memory, which is in no budget.
 */
VRAM_API vram_status vram_foreign_track(vram_device *device, uint64_t bytes,
                                        const vram_foreign_options *options, uint64_t *id);

/** Removes a record. VRAM_ERR_INVALID if the device has none of that number, or no longer. */
VRAM_API vram_status vram_foreign_untrack(vram_device *device, uint64_t id);

/** One record. */
typedef struct vram_foreign_info {
    size_t size;                      /* in: sizeof(vram_foreign_info) of the caller */
    uint64_t id;                      /* its number */
    uint64_t bytes;                   /* as recorded */
    bool counts;                      /* in budgets, and for its tag */
    const char *tag;                  /* NULL: none; valid until the context ends */
    uint64_t since_ns;                /* when it was recorded, on the library's monotonic clock */
    char name[VRAM_FOREIGN_NAME_MAX]; /* as given; "": none; may hold any bytes: escape it */
    vram_memory_kind kind;            /* where it lies */
    uint64_t elements;                /* 0: unknown */
} vram_foreign_info;

/** VRAM_ERR_INVALID if the device has no record of that number. */
VRAM_API vram_status vram_foreign_info_get(vram_device *device, uint64_t id,
                                           vram_foreign_info *info);

/**
 * The record with the lowest number above `last`; 0: the first one. VRAM_ERR_INVALID after the
 * last. To visit all of them, continue with the number that was found: records may be added and
 * removed meanwhile.
 */
VRAM_API vram_status vram_foreign_info_after(vram_device *device, uint64_t last,
                                             vram_foreign_info *info);

/** All records of a device. */
typedef struct vram_foreign_totals {
    size_t size;            /* in: sizeof(vram_foreign_totals) of the caller */
    uint64_t count;         /* records */
    uint64_t bytes;         /* of them */
    uint64_t counted_bytes; /* of these, what counts in budgets */
    uint64_t peak_bytes;    /* most of `bytes` */
} vram_foreign_totals;

VRAM_API vram_status vram_foreign_totals_get(vram_device *device, vram_foreign_totals *totals);

#ifdef __cplusplus
}
#endif

#endif
