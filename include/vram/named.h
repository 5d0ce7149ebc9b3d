/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/named.h: buffers that are found by their names.
 *
 *   vram_named_create(pool, queue, NULL, &named);
 *   vram_named_get_or_create(named, "scratch", 1000, NULL, &scratch);
 *   vram_named_ensure(named, "scratch", 2000, &scratch);         grows if it has to, contents stay
 *   vram_named_destroy(named);                                   and all its buffers
 *
 * A manager has at most one buffer of a name. Creating a second one is an error, and getting one is
 * a call of its own: nothing is ignored silently. Names have 1 to 63 bytes of any value; if libvram
 * prints one, control characters are escaped or replaced.
 *
 * A refusal, by the limit, by a policy or because memory ran out, reaches the context's error
 * handler first (vram/oom.h). It may remove or clean up buffers and have the call retried.
 *
 * All calls may be made from any thread. A manager belongs to its pool, like a buffer, and ends
 * with it at the latest. Its buffers are borrowed: they are valid until their name is removed.
 */
#ifndef VRAM_NAMED_H
#define VRAM_NAMED_H

#include <vram/growth.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_named vram_named;

typedef struct vram_named_options {
    size_t size;          /* sizeof(vram_named_options) */
    uint64_t limit_bytes; /* capacities of all buffers together; 0: the pool's limits alone */
    const char *tag; /* who its memory is for, as in vram_alloc_options; copied; NULL: no tag */
} vram_named_options;

/** Creates an empty manager. `queue` is the home queue of its buffers, and copies contents. */
VRAM_API vram_status vram_named_create(vram_pool *pool, vram_queue *queue,
                                       const vram_named_options *options, vram_named **named);

/**
 * Destroys a manager and all its buffers; nothing waits. NULL is allowed. A second call returns
 * VRAM_ERR_STALE. Returns the first status of a vram_buffer_destroy that is not VRAM_OK; the other
 * buffers are destroyed all the same.
 */
VRAM_API vram_status vram_named_destroy(vram_named *named);

/* -------------------------------------------------------------- configuration */

/**
 * What a buffer of some name is, and how it grows. All zero: bytes on the device, grown exactly.
 */
typedef struct vram_named_config {
    size_t size; /* sizeof(vram_named_config) */
    vram_buffer_kind kind;
    vram_precision precision;
    vram_growth growth; /* `size` 0: exactly to what is needed */
} vram_named_config;

/**
 * Sets the config of a name, before or after its buffer is created. It is used by calls without a
 * config. An existing buffer takes the growth; VRAM_ERR_INVALID if its kind or precision is
 * another.
 */
VRAM_API vram_status vram_named_config_set(vram_named *named, const char *name,
                                           const vram_named_config *config);

/* -------------------------------------------------------------------- buffers */

/**
 * Creates the buffer of that name, with `elements` in use and the capacity that its policy begins
 * with. config NULL: that of vram_named_config_set, or all zero. VRAM_ERR_INVALID if the name is
 * taken. VRAM_ERR_LIMIT if the limit of all buffers or the policy's maximum would be exceeded.
 * VRAM_ERR_OVERFLOW, and the errors of vram_buffer_create.
 */
VRAM_API vram_status vram_named_add(vram_named *named, const char *name, uint64_t elements,
                                    const vram_named_config *config, vram_buffer **buffer);

/**
 * The buffer of that name. VRAM_ERR_INVALID if there is none or if, with a `config` (NULL: any),
 * its kind or precision is another.
 */
VRAM_API vram_status vram_named_get(vram_named *named, const char *name,
                                    const vram_named_config *config, vram_buffer **buffer);

/**
 * vram_named_get if there is one, whatever its size and with its own policy, else vram_named_add.
 * If several threads call it at once, all get the same buffer.
 */
VRAM_API vram_status vram_named_get_or_create(vram_named *named, const char *name,
                                              uint64_t elements, const vram_named_config *config,
                                              vram_buffer **buffer);

/**
 * Makes room for `elements`, and has at least that many in use; contents stay. If the buffer cannot
 * grow in place, its old and its new memory must both fit in the limit. After a failure it is
 * unchanged. `buffer` may be NULL. VRAM_ERR_INVALID if there is none of that name. VRAM_ERR_BUSY if
 * another call uses the buffer for longer than the option wait_timeout. Else as vram_buffer_resize.
 */
VRAM_API vram_status vram_named_ensure(vram_named *named, const char *name, uint64_t elements,
                                       vram_buffer **buffer);

/** Destroys the buffer of that name; its config stays. VRAM_ERR_INVALID if there is none. */
VRAM_API vram_status vram_named_remove(vram_named *named, const char *name);

/**
 * Removes every buffer of which nothing is in use (vram_buffer_resize to 0) and that no call has
 * used for `idle_ns`. *bytes, which may be NULL, is what they had. It ends buffers, which no trim
 * does (VRAM_TRIM_BUFFERS of vram_pool_trim makes them smaller).
 */
VRAM_API vram_status vram_named_cleanup(vram_named *named, uint64_t idle_ns, uint64_t *bytes);

/* ----------------------------------------------------------------- statistics */

/** One buffer. */
typedef struct vram_named_info {
    size_t size;                     /* in: sizeof(vram_named_info) of the caller */
    char name[VRAM_BUFFER_NAME_MAX]; /* may hold any bytes: escape it */
    vram_buffer *buffer;             /* borrowed */
    vram_buffer_kind kind;
    vram_precision precision;
    uint64_t capacity_bytes, used_bytes;
    double utilisation;               /* used_bytes / capacity_bytes, 0 to 1; 0 for no capacity */
    uint64_t resizes;                 /* calls of vram_named_ensure that changed a capacity */
    uint64_t created_ns, accessed_ns; /* on the library's monotonic clock */
} vram_named_info;

/** VRAM_ERR_INVALID if there is no buffer of that name. */
VRAM_API vram_status vram_named_info_get(vram_named *named, const char *name,
                                         vram_named_info *info);

/** Number `index` in the order of the names' bytes; VRAM_ERR_INVALID past the end. */
VRAM_API vram_status vram_named_info_at(vram_named *named, uint32_t index, vram_named_info *info);

/** The totals of a manager. */
typedef struct vram_named_stats {
    size_t size;          /* in: sizeof(vram_named_stats) of the caller */
    uint32_t buffers;     /* there now */
    uint64_t total_bytes; /* their capacities */
    uint64_t used_bytes;  /* of these, in use */
    uint64_t peak_bytes;  /* most of total_bytes, with old and new memory of a buffer that moved */
    uint64_t limit_bytes; /* 0: none */
    uint64_t created, removed; /* buffers, in all */
    uint64_t resizes;          /* of vram_named_ensure, those that changed a capacity */
    uint64_t refusals;         /* calls that ended in exhaustion of any kind */
} vram_named_stats;

VRAM_API vram_status vram_named_stats_get(vram_named *named, vram_named_stats *stats);

/**
 * Writes the same as a report: limit, totals, and each buffer. As JSON it has the schema
 * vram.named/1, with an array `buffers`.
 */
VRAM_API vram_status vram_named_write(vram_named *named, vram_report_format format,
                                      vram_write_fn *write, void *user);

#ifdef __cplusplus
}
#endif

#endif
