/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/labels.h: mappings of labels that were computed once and are asked for again. Part of
 * vram/compute.h.
 *
 *   vram_labels_create(NULL, &cache);
 *   vram_labels_get(cache, labels, count, compact, NULL, mapping, room, &mapped);   computes it
 *   vram_labels_get(cache, labels, count, compact, NULL, mapping, room, &mapped);   finds it
 *   vram_labels_destroy(cache);
 *
 * Programs that cluster on the GPU get labels with gaps (communities 3, 17, 40) and compute a
 * mapping to dense ones, often for the same labels over and over. The cache keeps such mappings by
 * the labels they were computed from: a list of numbers is found by its contents, never by where it
 * lies. It holds at most so many entries and so many bytes; what has not been asked for the longest
 * goes first.
 *
 * All calls may be made from any thread. Mappings are computed with no lock held: two threads that
 * ask for the same one at the same time may both compute it. A cache belongs to no context.
 */
#ifndef VRAM_LABELS_H
#define VRAM_LABELS_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_labels vram_labels; /* a cache of mappings */

typedef struct vram_labels_options {
    size_t size;        /* sizeof(vram_labels_options) */
    uint64_t entries;   /* most mappings that are kept; 0: 1000 */
    uint64_t max_bytes; /* most host memory for them, labels and bookkeeping included; 0: 64 MiB */
} vram_labels_options;

/** An empty cache. */
VRAM_API vram_status vram_labels_create(const vram_labels_options *options, vram_labels **cache);

/**
 * Ends it. NULL is allowed, a second call is VRAM_ERR_STALE. Calls that are inside finish first.
 */
VRAM_API vram_status vram_labels_destroy(vram_labels *cache);

/**
 * Computes the mapping of `count` labels: writes at most `room` numbers to `mapping`, and how many
 * they are to `mapped`. It may call the library, this cache too. What it returns other than VRAM_OK
 * is the answer of vram_labels_get, and nothing is kept.
 */
typedef vram_status vram_labels_fn(void *user, const int32_t *labels, size_t count,
                                   int32_t *mapping, size_t room, size_t *mapped);

/**
 * Gives the mapping of `labels`: from the cache, or else by `compute`, straight into the caller's
 * memory, with a copy kept for later. No labels at all (count 0, where `labels` may be NULL) are a
 * key like any other. A mapping that is larger than the whole cache, or that there is no host
 * memory for, is given and not kept. VRAM_ERR_LIMIT when `room` is too small for what is kept: the
 * text has both numbers. VRAM_ERR_CORRUPT when `compute` says that it has written more than there
 * was room for.
 */
VRAM_API vram_status vram_labels_get(vram_labels *cache, const int32_t *labels, size_t count,
                                     vram_labels_fn *compute, void *user, int32_t *mapping,
                                     size_t room, size_t *mapped);

/**
 * Forgets all mappings; the counters go on. Returns the bytes through `bytes`, unless it is NULL.
 */
VRAM_API vram_status vram_labels_clear(vram_labels *cache, uint64_t *bytes);

/** What a cache holds and has done, at one moment. */
typedef struct vram_labels_info {
    size_t size;             /* in: sizeof(vram_labels_info) of the caller */
    uint64_t hits, misses;   /* calls of vram_labels_get that found a mapping, or did not */
    double hit_rate;         /* hits / (hits + misses), 0 to 1; 0 before the first call */
    uint64_t entries, bytes; /* kept now */
    uint64_t evictions;      /* mappings that had to go for others */
    uint64_t unkept;         /* computed, and too large to keep or without host memory for it */
    uint64_t entries_max, bytes_max; /* the bounds */
} vram_labels_info;

VRAM_API vram_status vram_labels_info_get(vram_labels *cache, vram_labels_info *info);

/** What VRAM_AUTO(vram_labels) calls: see vram/auto.h. */
VRAM_AUTO_HANDLE_(vram_labels, vram_labels_destroy)

#ifdef __cplusplus
}
#endif

#endif
