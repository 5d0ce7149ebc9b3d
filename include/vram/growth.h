/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/growth.h: buffers that grow and shrink, by a policy of their own.
 *
 * A buffer has a capacity and, within it, the bytes in use. vram_buffer_resize sets how many are in
 * use. If that is more than the capacity, the policy says how large the buffer becomes. If the
 * memory after the buffer is free, it grows in place: its address stays the same and nothing is
 * copied. Otherwise it gets new memory, and the bytes in use are copied there on a queue, after all
 * work that uses the buffer; nothing waits.
 *
 * The strong guarantee: a call that fails changes nothing. The buffer keeps its place, its size,
 * its contents and its counters. During a copy the old and the new memory both count, so a limit
 * without room for both refuses it.
 */
#ifndef VRAM_GROWTH_H
#define VRAM_GROWTH_H

#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- policies */

typedef enum vram_growth_policy {
    VRAM_GROWTH_EXACT = 0, /* to what is needed */
    /* To `factor_ppm` of its capacity, or to what is needed if that is more. */
    VRAM_GROWTH_FACTOR = 1,
    VRAM_GROWTH_FIXED = 2 /* by whole steps of `step_bytes`; 0: it does not grow */
} vram_growth_policy;

/** How a buffer grows. All zero: exactly to what is needed, without limits. */
typedef struct vram_growth {
    size_t size; /* sizeof(vram_growth) */
    vram_growth_policy policy;
    uint32_t factor_ppm;    /* FACTOR: parts per million, above 1,000,000; 1,500,000 is 1.5 times */
    uint64_t step_bytes;    /* FIXED */
    uint64_t min_bytes;     /* least capacity after its first growth */
    uint64_t max_bytes;     /* most capacity; 0: no limit */
    uint32_t element_bytes; /* of one element, of any type; 0: those of the precision */
} vram_growth;

/**
 * The capacity that a buffer of `capacity` bytes grows to if `needed` bytes are to fit. It uses
 * integers alone, so it is exact up to 2^64. It never returns more than max_bytes, and returns
 * `capacity` if `needed` fits already. VRAM_ERR_LIMIT if `needed` is above max_bytes, or above a
 * FIXED capacity without steps. VRAM_ERR_INVALID for an invalid policy: a factor of 1 or less, a
 * minimum above the maximum.
 */
VRAM_API vram_status vram_growth_next(const vram_growth *growth, uint64_t capacity, uint64_t needed,
                                      uint64_t *bytes);

/** Sets the policy of a buffer, for its next growth. NULL: EXACT. Its capacity stays as it is. */
VRAM_API vram_status vram_buffer_growth_set(vram_buffer *buffer, const vram_growth *growth);

/* ------------------------------------------------------------------- resizing */

/**
 * Makes room for `bytes` in all, by the buffer's policy; the bytes in use stay the same. Nothing
 * happens if they fit. The buffer is ready for work submitted to `queue` from now on (NULL: its
 * home queue), which becomes its home queue. If that is another one than before, it waits on the
 * device for all work that uses the buffer. The bytes in use keep their contents, the others are
 * undefined. The address may change: call vram_buffer_addr again.
 *
 * VRAM_ERR_LIMIT from the policy. Any exhaustion, by limits and quotas too, as for vram_alloc.
 * VRAM_ERR_BUSY while another call moves or resizes the buffer, or it is mapped. VRAM_ERR_CAPTURE
 * if it would have to move and a captured graph uses it. VRAM_ERR_INVALID for memory that the
 * program owns, and if there is something to copy and no queue. VRAM_ERR_CORRUPT if a pool with
 * safety modes finds damage in the old memory; the buffer has grown all the same.
 */
VRAM_API vram_status vram_buffer_reserve(vram_buffer *buffer, uint64_t bytes, vram_queue *queue);

/**
 * Sets the bytes in use, after vram_buffer_reserve if they do not fit. Fewer bytes than before, or
 * 0, keep the capacity: vram_buffer_fit releases it. VRAM_ERR_INVALID if they are not a whole
 * number of elements of the precision, unless the policy has an element_bytes of its own.
 */
VRAM_API vram_status vram_buffer_resize(vram_buffer *buffer, uint64_t bytes, vram_queue *queue);

/** The same for `count` elements. */
VRAM_API vram_status vram_buffer_resize_elements(vram_buffer *buffer, uint64_t count,
                                                 vram_queue *queue);

/**
 * Releases what is not in use, down to the policy's minimum, in the order of `queue` (NULL: its
 * home queue) and in place: a buffer that cannot shrink where it is keeps its size. The queue of a
 * buffer that has shrunk becomes its home queue.
 * vram_pool_trim with VRAM_TRIM_BUFFERS does so for all idle buffers of a pool.
 */
VRAM_API vram_status vram_buffer_fit(vram_buffer *buffer, vram_queue *queue);

/* -------------------------------------------------------------------- counters */

typedef struct vram_growth_info {
    size_t size;        /* in: sizeof(vram_growth_info) of the caller */
    vram_growth growth; /* its policy */
    uint64_t capacity_bytes, used_bytes;
    double utilisation;    /* used_bytes / capacity_bytes, 0 to 1; 0 for no capacity */
    uint64_t in_place;     /* times that the capacity changed in place, */
    uint64_t copies;       /* and that it got other memory; vram_buffer_info.resizes is the sum */
    uint64_t copied_bytes; /* in all those */
    uint64_t refusals; /* calls that failed because memory ran out, or at the policy's maximum */
} vram_growth_info;

VRAM_API vram_status vram_buffer_growth_get(vram_buffer *buffer, vram_growth_info *info);

#ifdef __cplusplus
}
#endif

#endif
