/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/compat.h: the older names, get and return, acquire and release, for programs that are on their way
 * from a pool of their own. Each is a thin alias and marked deprecated: a compiler says what to write
 * instead. Not part of vram/vram.h.
 *
 * These names know no queues. Memory from them is ready for any queue, and whoever gives it back has seen to
 * it that no work uses it any more; the calls in their place do that in the time of a queue. docs/coverage.md
 * says whose the names were.
 */
#ifndef VRAM_COMPAT_H
#define VRAM_COMPAT_H

#include <vram/buffer.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VRAM_DEPRECATED(instead) __attribute__((deprecated("use " instead)))
#else
#define VRAM_DEPRECATED(instead)
#endif

/** A buffer of `elements` of that precision; the pool reuses what was given back. */
VRAM_DEPRECATED("vram_buffer_create_elements")
static inline vram_status vram_get_buffer(vram_pool *pool, uint64_t elements,
                                          vram_precision precision, vram_buffer **buffer) {
    return vram_buffer_create_elements(pool, elements, precision, NULL, NULL, buffer);
}

/** The same for 32-bit floats, as pools keyed by size alone have it. */
VRAM_DEPRECATED("vram_buffer_create_elements")
static inline vram_status vram_get_or_create(vram_pool *pool, uint64_t elements,
                                             vram_buffer **buffer) {
    return vram_buffer_create_elements(pool, elements, VRAM_PRECISION_FP32, NULL, NULL, buffer);
}

/** Gives a buffer back to its pool, which knows its size and precision. NULL is allowed. */
VRAM_DEPRECATED("vram_buffer_destroy")
static inline vram_status vram_return_buffer(vram_buffer *buffer) {
    return vram_buffer_destroy(buffer);
}

/** A block of `bytes`; at least that many, and not the next power of two. */
VRAM_DEPRECATED("vram_alloc")
static inline vram_status vram_acquire(vram_pool *pool, uint64_t bytes, vram_addr *addr) {
    return vram_alloc(pool, bytes, NULL, addr);
}

/** Gives a block back. No size has to be told: the pool knows it. 0 is allowed. */
VRAM_DEPRECATED("vram_free")
static inline vram_status vram_release(vram_pool *pool, vram_addr addr) {
    (void)pool;
    return vram_free(addr, NULL);
}

#ifdef __cplusplus
}
#endif

#endif
