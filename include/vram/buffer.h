/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/buffer.h: memory with a name, a kind and a place, behind one handle.
 *
 * A buffer is what programs hold when an address alone is too little: it knows its size in bytes and in
 * elements, where it lies, which queue it belongs to and who it is for. Its memory comes from a pool and
 * goes back to it in queue order, so destroying a buffer never waits for work that still uses it.
 *
 * Ownership: a buffer is its pool's. Destroying the pool, the device or the context destroys it with all
 * others, and its handle is VRAM_ERR_STALE from then on.
 * Threads: any call from any thread. Two calls that move or resize one buffer at the same time are not
 * merged: the second is VRAM_ERR_BUSY and changes nothing.
 */
#ifndef VRAM_BUFFER_H
#define VRAM_BUFFER_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_buffer vram_buffer;

/* ---------------------------------------------------------- kinds, precision */

typedef enum vram_buffer_kind {
    VRAM_BUFFER_DEVICE = 0 /* the device's memory, from the pool */
} vram_buffer_kind;

/** What one element of a buffer is. Precision is a matter of counting: contents are never converted. */
typedef enum vram_precision {
    VRAM_PRECISION_BYTES = 0, /* no element type: 1 byte */
    VRAM_PRECISION_FP32 = 1,  /* 4 bytes */
    VRAM_PRECISION_FP16 = 2,  /* 2 bytes */
    VRAM_PRECISION_BF16 = 3,  /* 2 bytes */
    VRAM_PRECISION_INT8 = 4   /* 1 byte */
} vram_precision;

/** Bytes of one element; 0 for a number that is no precision. */
VRAM_API uint32_t vram_precision_bytes(vram_precision precision);

/** "bytes", "fp32", "fp16", "bf16", "int8"; "unknown" for a number that is none. Static storage. */
VRAM_API const char *vram_precision_name(vram_precision precision);

/**
 * The bytes of `count` elements. VRAM_ERR_OVERFLOW when they do not fit into 64 bits, VRAM_ERR_INVALID for
 * a number that is no precision.
 */
VRAM_API vram_status vram_precision_size(vram_precision precision, uint64_t count, uint64_t *bytes);

/* ------------------------------------------------------- creating, destroying */

enum { VRAM_BUFFER_NAME_MAX = 64 }; /* bytes of a buffer's name, the final 0 included */

typedef struct vram_buffer_options {
    size_t size; /* sizeof(vram_buffer_options) */
    vram_buffer_kind kind;
    vram_precision precision; /* what `elements` of its info counts */
    uint32_t flags;           /* none yet: 0 */
    const char *name;         /* a label for reports; copied. Need not be unique. NULL: "" */
    const char *tag; /* who it is for, as in vram_alloc_options; copied; NULL, "": nobody */
} vram_buffer_options;

/**
 * A buffer of `bytes` on the pool's device, ready for work submitted to `queue` from now on. `queue` is
 * its home: the buffer counts as used by all that is submitted there until it is destroyed. Without one
 * (NULL) it is ready for any queue, and only vram_buffer_use tells who uses it. Contents are undefined.
 * 0 bytes are allowed: such a buffer has an address that may not be touched.
 *
 * VRAM_ERR_INVALID when `bytes` is no whole number of elements of the precision, for a name of more than
 * VRAM_BUFFER_NAME_MAX - 1 bytes, and for a kind, precision or flag that is none. Exhaustion as
 * vram_alloc_with has it.
 */
VRAM_API vram_status vram_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                                        const vram_buffer_options *options, vram_buffer **buffer);

/**
 * The same for `count` elements of `precision`, whatever the options say of precision. VRAM_ERR_OVERFLOW
 * when their bytes do not fit into 64 bits.
 */
VRAM_API vram_status vram_buffer_create_elements(vram_pool *pool, uint64_t count,
                                                 vram_precision precision, vram_queue *queue,
                                                 const vram_buffer_options *options,
                                                 vram_buffer **buffer);

/**
 * Destroys it. Its memory is used again when its home queue has come as far as it is now, and every queue
 * that vram_buffer_use told of as far as it was then; nothing waits. NULL is allowed, and a second call is
 * VRAM_ERR_STALE. VRAM_ERR_CORRUPT, from a pool with safety modes that finds damage: the buffer is gone all
 * the same.
 */
VRAM_API vram_status vram_buffer_destroy(vram_buffer *buffer);

/**
 * Says that work on another queue uses the buffer. Call it after submitting that work, each time. Costs a
 * marker on that queue; the home queue needs no such call.
 */
VRAM_API vram_status vram_buffer_use(vram_buffer *buffer, vram_queue *queue);

/* ---------------------------------------------------------------- what it is */

typedef struct vram_buffer_info {
    size_t size;                     /* in: sizeof(vram_buffer_info) of the caller */
    uint64_t id;                     /* unique in the process, never used again; rises from 1 */
    char name[VRAM_BUFFER_NAME_MAX]; /* as given, "" for none; may hold any bytes: escape it */
    const char *tag;                 /* NULL: none; valid until the context ends */
    vram_buffer_kind kind;
    vram_precision precision;
    vram_memory_kind location; /* where the contents are now */
    vram_addr addr;            /* first byte; changes when the buffer moves or grows elsewhere */
    uint64_t capacity_bytes;   /* that fit without growing, as asked for */
    uint64_t used_bytes;       /* in use, at most capacity_bytes */
    uint64_t elements;         /* used_bytes in elements of the precision */
    vram_queue *queue;         /* its home, borrowed; NULL: none */
    vram_pool *pool;           /* borrowed */
    uint64_t created_ns;       /* on the library's monotonic clock */
    uint64_t accessed_ns; /* when a call last used it: create, use, addr, resize and the like */
    uint64_t resizes;     /* times that its capacity changed */
} vram_buffer_info;

/** Takes no lock that a call on another buffer takes. */
VRAM_API vram_status vram_buffer_info_get(vram_buffer *buffer, vram_buffer_info *info);

/**
 * Its address now, for copies, fills and launches. Good until the buffer is destroyed, moved or grown.
 */
VRAM_API vram_status vram_buffer_addr(vram_buffer *buffer, vram_addr *addr);

#ifdef __cplusplus
}
#endif

#endif
