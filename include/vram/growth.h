/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/growth.h: buffers that become larger and smaller, by a policy of their own.
 *
 * A buffer has a capacity and, within it, the bytes in use. vram_buffer_resize says how many are in use;
 * when that is more than the capacity, the policy says how large it becomes. Where the memory behind the
 * buffer can be had it grows in place: the address stays and nothing is copied. Otherwise it gets new
 * memory, and what is in use is copied there on a queue, behind all work that uses the buffer; nothing waits.
 *
 * The strong guarantee: a call that fails has changed nothing. The buffer is where it was, as large as it was, with its
 * contents, and every counter says so. While a copy is under way old and new memory both count, so a limit
 * that has no room for both refuses it.
 */
#ifndef VRAM_GROWTH_H
#define VRAM_GROWTH_H

#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- policies */

typedef enum vram_growth_policy {
    VRAM_GROWTH_EXACT = 0, /* to what is needed, and no more */
    VRAM_GROWTH_FACTOR =
        1,                /* to `factor_ppm` of what it was, or to what is needed if that is more */
    VRAM_GROWTH_FIXED = 2 /* by whole steps of `step_bytes`; without a step: not at all */
} vram_growth_policy;

/** How a buffer grows. All zero: exactly to what is needed, without limits. */
typedef struct vram_growth {
    size_t size; /* sizeof(vram_growth) */
    vram_growth_policy policy;
    uint32_t factor_ppm; /* FACTOR: parts per million, above 1,000,000; 1,500,000 is 1.5 times */
    uint64_t step_bytes; /* FIXED */
    uint64_t min_bytes;  /* what it has when it grows for the first time, at least */
    uint64_t max_bytes;  /* what it never passes; 0: no limit */
    uint32_t
        element_bytes; /* of one element, for vram_buffer_resize_elements; 0: the precision's */
} vram_growth;

/**
 * What a buffer of `capacity` bytes becomes when `needed` are to fit. Whole numbers throughout: exact up to
 * 2^64. Not more than max_bytes; what fits already stays. VRAM_ERR_LIMIT when `needed` is above max_bytes, or
 * above a FIXED capacity without steps; VRAM_ERR_INVALID for a policy that makes no sense: a factor of 1 or
 * less, a minimum above the maximum.
 */
VRAM_API vram_status vram_growth_next(const vram_growth *growth, uint64_t capacity, uint64_t needed,
                                      uint64_t *bytes);

/** Gives a buffer its policy, from the next growth on. NULL: EXACT. Its capacity stays, whatever it says. */
VRAM_API vram_status vram_buffer_growth_set(vram_buffer *buffer, const vram_growth *growth);

/* ------------------------------------------------------------------- resizing */

/**
 * Makes room for `bytes` in all, by the buffer's policy; what is in use stays as much as it was. Nothing
 * happens when they fit. The buffer is ready for work submitted to `queue` from now on (NULL: its home), which is its
 * home from then on; where that is another one than before it waits on the device for all work that uses the
 * buffer. What is in use keeps its contents, the rest is undefined. The address may change: ask
 * vram_buffer_addr again.
 *
 * VRAM_ERR_LIMIT from the policy; any exhaustion, limits and quotas included, as vram_alloc has it;
 * VRAM_ERR_BUSY while another call moves or resizes the buffer, or it is mapped; VRAM_ERR_CAPTURE when it would have to
 * move and a captured graph uses it; VRAM_ERR_INVALID for memory that the program owns, and when there is something to copy
 * and no queue. VRAM_ERR_CORRUPT, from a pool with safety modes that finds damage in the old memory: done all the same.
 */
VRAM_API vram_status vram_buffer_reserve(vram_buffer *buffer, uint64_t bytes, vram_queue *queue);

/**
 * `bytes` are in use from now on: vram_buffer_reserve where they do not fit. Fewer than before, 0 among them, keep the
 * capacity: vram_buffer_fit gives it back. VRAM_ERR_INVALID when they are no whole number of elements of the precision.
 */
VRAM_API vram_status vram_buffer_resize(vram_buffer *buffer, uint64_t bytes, vram_queue *queue);

/** The same for `count` elements, of the policy's element_bytes or else of the precision. */
VRAM_API vram_status vram_buffer_resize_elements(vram_buffer *buffer, uint64_t count,
                                                 vram_queue *queue);

/**
 * Gives back what is not in use, down to the policy's minimum, in the order of `queue` (NULL: its home) and
 * in place: a buffer that cannot be made smaller where it is stays as large as it is.
 */
VRAM_API vram_status vram_buffer_fit(vram_buffer *buffer, vram_queue *queue);

/**
 * vram_buffer_fit for all buffers of the pool of which nothing is in use and that no call has used for
 * `idle_ns`: their memory goes back to the pool, all but one granule of the allocator, and their handles stay
 * good. *bytes, which may be NULL, is how much that was. Buffers that another call is busy with are left alone.
 */
VRAM_API vram_status vram_pool_buffers_fit(vram_pool *pool, uint64_t idle_ns, uint64_t *bytes);

/* -------------------------------------------------------------------- counters */

typedef struct vram_growth_info {
    size_t size;        /* in: sizeof(vram_growth_info) of the caller */
    vram_growth growth; /* its policy */
    uint64_t capacity_bytes, used_bytes;
    double utilisation;    /* used_bytes / capacity_bytes, 0 to 1; 0 for no capacity */
    uint64_t in_place;     /* times that the capacity changed where the buffer was, */
    uint64_t copies;       /* and that it got other memory; vram_buffer_info.resizes is the sum */
    uint64_t copied_bytes; /* in all those */
    uint64_t refusals;     /* calls that failed for want of memory, or at the policy's maximum */
} vram_growth_info;

VRAM_API vram_status vram_buffer_growth_get(vram_buffer *buffer, vram_growth_info *info);

#ifdef __cplusplus
}
#endif

#endif
