/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/live_page.h: the page of shared memory in which a process says what its pools hold.
 *
 * A process that has a pool writes one page, ten times a second, for `vram top`, `vram exporter`
 * and any other reader. docs/live-page.md describes files, folders and how to read them; this
 * header is the layout, which has no pointers and no padding.
 *
 *      0  +-----------------------------------------------+
 *         | vram_live_page: identity, sums, histogram     |
 *         +-----------------------------------------------+  devices.offset
 *         | vram_live_page_device   devices.count         |
 *         +-----------------------------------------------+  pools.offset
 *         | vram_live_page_pool     pools.count           |  most held bytes first
 *         +-----------------------------------------------+  tags.offset
 *         | vram_live_page_tag      tags.count            |  most used bytes first
 *         +-----------------------------------------------+  refusals.offset
 *         | vram_live_page_refusal  refusals.count        |  newest first
 *         +-----------------------------------------------+  page_bytes
 *
 *  (1) Numbers have the byte order of the machine. Text is UTF-8 and ends with a 0. A value of
 *      VRAM_LIVE_PAGE_UNKNOWN is unknown.
 *  (2) `sequence` is odd while the page is written. A reader copies the page between two equal even
 *      values of it, with a barrier behind the first and before the second; else it tries again.
 *  (3) The constant fields do not change after `magic` was written, which is written last. A
 *      reader reads it first, with a barrier behind it.
 *  (4) Rows are `stride` bytes apart and may be longer than their struct here, as may the head:
 *      fields may be appended without a new version. None is removed or moved without one.
 *  (5) Nothing in a page can be trusted. A reader checks every offset, count and text.
 */
#ifndef VRAM_LIVE_PAGE_H
#define VRAM_LIVE_PAGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_LIVE_PAGE_MAGIC   UINT64_C(0x454741504d415256) /* "VRAMPAGE", little-endian */
#define VRAM_LIVE_PAGE_UNKNOWN UINT64_MAX

enum {
    VRAM_LIVE_PAGE_VERSION = 1,
    VRAM_LIVE_PAGE_BYTES_MAX = 1 << 20, /* a larger page is refused by readers */
    VRAM_LIVE_PAGE_DEVICES = 16,        /* most rows of each kind */
    VRAM_LIVE_PAGE_POOLS = 64,
    VRAM_LIVE_PAGE_TAGS = 64,
    VRAM_LIVE_PAGE_REFUSALS = 8,
    VRAM_LIVE_PAGE_CAUSES = 16, /* room for values of vram_oom_cause (vram/oom.h) */
    VRAM_LIVE_PAGE_SIZES = 48   /* bins of the histogram */
};

/** Who wrote the page. */
enum {
    VRAM_LIVE_PAGE_LIBRARY = 0, /* libvram, for its pools */
    VRAM_LIVE_PAGE_RUN = 1      /* `vram run`, for all memory that the program takes */
};

/** Where rows of one kind lie. */
typedef struct vram_live_page_table {
    uint32_t offset; /* of the first row, from the page's start; bytes */
    uint32_t stride; /* from one row to the next; bytes */
    uint32_t count;  /* rows in the page */
    uint32_t total;  /* how many there are; those of the page are the largest */
} vram_live_page_table;

/** What pools have: of one pool, or summed. Bytes, and events since the pool was created. */
typedef struct vram_live_page_counts {
    uint64_t held_bytes;      /* taken from the driver: live + cached + holes + spares */
    uint64_t live_bytes;      /* live, before rounding */
    uint64_t allocated_bytes; /* live, after rounding */
    uint64_t cached_bytes;    /* free, in thread caches and in the central cache */
    uint64_t asleep_bytes;    /* addresses that are kept without memory */
    uint64_t limit_bytes;     /* most that may be held; unknown: no limit */
    uint64_t peak_held_bytes;
    uint64_t peak_live_bytes;
    uint64_t live_blocks;
    uint64_t allocs, frees;
    uint64_t hits, misses;   /* allocs = hits + misses; a miss calls the driver */
    uint64_t cache_hits;     /* of the hits, those of the calling thread's cache */
    uint64_t refusals;       /* allocations that failed because memory ran out */
    uint64_t limit_refusals; /* of these, by a limit */
    uint64_t quota_refusals; /* of these, by the quota of a tag */
    uint64_t fallbacks;      /* allocations served by other memory than the device's */
    uint64_t moved_bytes;    /* physical memory moved from holes to where it was needed */
    uint64_t driver_calls;   /* that create, map, unmap, allocate or release memory, and markers */
    uint64_t alloc_rate;     /* allocations per 1,000 seconds, over the last second */
    uint64_t free_rate;      /* frees per 1,000 seconds */
} vram_live_page_counts;

/** One size range of the histogram: bin n has sizes above 2^(n-1), up to 2^n bytes. */
typedef struct vram_live_page_size {
    uint64_t blocks;
    uint64_t bytes; /* before rounding */
} vram_live_page_size;

/** The head of a page. */
typedef struct vram_live_page {
    /* constant */
    uint64_t magic;       /* VRAM_LIVE_PAGE_MAGIC; 0: the page is not complete yet */
    uint32_t version;     /* VRAM_LIVE_PAGE_VERSION; another one has another layout */
    uint32_t page_bytes;  /* of the file */
    uint64_t pid;         /* as the process itself sees it */
    uint64_t start_ticks; /* its start: field 22 of /proc/PID/stat; unknown: not Linux */
    uint64_t pid_space;   /* inode of /proc/self/ns/pid: processes that share ids; 0: unknown */
    uint64_t user;        /* its effective user id */
    uint64_t begun_ns;    /* when the page was made; monotonic clock */
    uint64_t interval_ns; /* between two updates */
    uint32_t origin;      /* VRAM_LIVE_PAGE_LIBRARY or _RUN */
    uint32_t reserved;    /* 0 */
    char library[32];     /* version of the library */
    char command[256];    /* the command line, arguments separated by spaces, truncated */

    /* written by readers, as whole words */
    uint32_t request; /* not 0: the process opens its socket, for `vram report --pid` */
    uint32_t answer;  /* by the process: the last request that it has seen */

    /* changing, between two values of `sequence` */
    uint64_t sequence;   /* odd: being written */
    uint64_t updated_ns; /* monotonic clock */
    vram_live_page_table devices, pools, tags, refusals;
    vram_live_page_counts sum;              /* of all pools */
    uint64_t tracked_pools;                 /* pools whose live blocks are known one by one */
    uint64_t foreign_bytes;                 /* memory of others, as recorded (vram/foreign.h) */
    uint64_t updates;                       /* of this page */
    uint64_t causes[VRAM_LIVE_PAGE_CAUSES]; /* refusals so far by vram_oom_cause */
    uint64_t sizes_ns; /* when the histogram was complete; monotonic; 0: not yet */
    vram_live_page_size sizes[VRAM_LIVE_PAGE_SIZES]; /* of live blocks of all pools */
} vram_live_page;

/** A device that has a pool. */
typedef struct vram_live_page_device {
    char backend[16];             /* "cuda" */
    char name[128];               /* from the driver */
    char pci[16];                 /* "0000:3b:00.0"; "": unknown */
    uint8_t uuid[16];             /* the same GPU has the same in every backend and process */
    uint32_t uuid_known;          /* 0 or 1 */
    uint32_t kind;                /* a vram_device_kind */
    uint32_t index;               /* its number in the backend */
    uint32_t pressure_level;      /* a vram_pressure_level */
    uint64_t pressure_millionths; /* how full it is; may exceed 1,000,000; unknown */
    uint64_t memory_bytes;        /* all memory of the device */
    uint64_t free_bytes;          /* when the driver was last asked */
    uint64_t held_bytes;          /* by this process through libvram, with or without a pool */
    uint64_t peak_held_bytes;
    uint64_t limit_bytes; /* of this process on the device; unknown: no limit */
    uint64_t pools;       /* on it */
} vram_live_page_device;

/** Flags of a pool. */
enum {
    VRAM_LIVE_PAGE_TRACKED = 1 << 0 /* its live blocks are known one by one */
};

typedef struct vram_live_page_pool {
    char name[64];
    uint64_t id;                  /* its handle: unique in the process */
    uint32_t device;              /* row of its device; UINT32_MAX: not in the page */
    uint32_t pressure_level;      /* a vram_pressure_level */
    uint64_t pressure_millionths; /* as of a device */
    uint32_t flags;               /* VRAM_LIVE_PAGE_TRACKED */
    uint32_t reserved;            /* 0 */
    vram_live_page_counts counts;
} vram_live_page_pool;

/** A tag of a device, with all tags below it. */
typedef struct vram_live_page_tag {
    char name[96];        /* a path, "tenant/model/layer" */
    uint32_t device;      /* row of its device; UINT32_MAX: not in the page */
    uint32_t reserved;    /* 0 */
    uint64_t used_bytes;  /* of live blocks, after rounding, of the tag and all below it */
    uint64_t own_bytes;   /* of these, the tag's own */
    uint64_t peak_bytes;  /* most of used_bytes */
    uint64_t live_blocks; /* its own */
    uint64_t allocs;      /* its own */
    uint64_t soft_bytes;  /* its quota in force; unknown: none */
    uint64_t hard_bytes;
    uint64_t refusals; /* by its hard quota */
} vram_live_page_tag;

/** One of the last allocations that failed because memory ran out. */
typedef struct vram_live_page_refusal {
    uint64_t number;  /* rising from 1 in the process */
    uint64_t date_ns; /* since 1970 */
    uint64_t bytes;   /* requested */
    uint32_t cause;   /* a vram_oom_cause */
    int32_t status;   /* a vram_status */
    char pool[64];
    char tag[64];   /* "": none */
    char text[256]; /* why, in words */
} vram_live_page_refusal;

#ifdef __cplusplus
}
#endif

#endif
