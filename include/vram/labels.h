/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/labels.h: a cache of label mappings. Part of vram/compute.h.
 *
 *   vram_labels_create(NULL, &cache);
 *   vram_labels_get(cache, labels, count, compact, NULL, mapping, room, &mapped);   computes it
 *   vram_labels_get(cache, labels, count, compact, NULL, mapping, room, &mapped);   finds it
 *   vram_labels_destroy(cache);
 *
 * Programs that cluster on the GPU get labels with gaps (communities 3, 17, 40) and map them to
 * dense ones, often for the same labels again and again. The cache finds a mapping by the contents
 * of the labels, not by their address. It is bounded in entries and bytes, and evicts the least
 * recently used first.
 *
 * All calls may be made from any thread. Mappings are computed with no lock held: two threads that
 * ask for the same one at the same time may both compute it. A cache does not belong to a context.
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
    uint64_t entries;   /* most mappings in the cache; 0: 1000 */
    uint64_t max_bytes; /* most host memory, with labels and bookkeeping; 0: 64 MiB */
} vram_labels_options;

/** Creates an empty cache. */
VRAM_API vram_status vram_labels_create(const vram_labels_options *options, vram_labels **cache);

/**
 * Destroys a cache after calls that are using it. NULL is allowed. A second call returns
 * VRAM_ERR_STALE.
 */
VRAM_API vram_status vram_labels_destroy(vram_labels *cache);

/**
 * Computes the mapping of `count` labels: writes at most `room` numbers to `mapping`, and their
 * count to `mapped`. It may call the library, this cache too. If it returns an error,
 * vram_labels_get returns that error and stores nothing.
 */
typedef vram_status vram_labels_fn(void *user, const int32_t *labels, size_t count,
                                   int32_t *mapping, size_t room, size_t *mapped);

/**
 * Gets the mapping of `labels`: from the cache, or else from `compute`, which writes it into the
 * caller's memory; the cache keeps a copy. An empty list (count 0; `labels` may be NULL) is a key
 * like any other. A mapping that is larger than the whole cache, or that there is no host memory
 * for, is returned but not stored. VRAM_ERR_LIMIT if `room` is too small for a stored mapping: the
 * text has both numbers. VRAM_ERR_CORRUPT if `compute` reports that it wrote more than `room`.
 */
VRAM_API vram_status vram_labels_get(vram_labels *cache, const int32_t *labels, size_t count,
                                     vram_labels_fn *compute, void *user, int32_t *mapping,
                                     size_t room, size_t *mapped);

/** Removes all mappings; the counters stay. *bytes, which may be NULL, is how much was released. */
VRAM_API vram_status vram_labels_clear(vram_labels *cache, uint64_t *bytes);

/** What a cache holds and has done. All numbers are of one moment. */
typedef struct vram_labels_info {
    size_t size;                     /* in: sizeof(vram_labels_info) of the caller */
    uint64_t hits, misses;           /* calls of vram_labels_get that found a mapping, or not */
    double hit_rate;                 /* hits / (hits + misses), 0 to 1; 0 before the first call */
    uint64_t entries, bytes;         /* in the cache now */
    uint64_t evictions;              /* mappings removed to make room for others */
    uint64_t unkept;                 /* computed but not stored: too large, or no host memory */
    uint64_t entries_max, bytes_max; /* as created */
} vram_labels_info;

VRAM_API vram_status vram_labels_info_get(vram_labels *cache, vram_labels_info *info);

/** VRAM_AUTO(vram_labels) calls this: see vram/auto.h. */
VRAM_AUTO_HANDLE_(vram_labels, vram_labels_destroy)

#ifdef __cplusplus
}
#endif

#endif
