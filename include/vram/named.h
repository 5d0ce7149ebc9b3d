/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/named.h: buffers that are found by their names.
 *
 *   vram_named_create(pool, queue, NULL, &named);
 *   vram_named_get_or_create(named, "positions", 1000, NULL, &positions);
 *   vram_named_ensure(named, "positions", 2000, &positions);     grows when it has to, contents stay
 *   vram_named_destroy(named);                                   and all its buffers
 *
 * A manager has at most one buffer of a name. Making a second one is an error, getting it is another call:
 * nothing is ignored in silence. Names have 1 to 63 bytes, of any kind; wherever libvram prints one, control
 * characters are escaped or replaced.
 *
 * All calls may be made from any thread. A manager is its pool's, like a buffer, and ends with it at the
 * latest. Buffers that it hands out are borrowed: they are good until their name is removed.
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
    const char *tag; /* who its memory is for, as in vram_alloc_options; copied; NULL: nobody */
} vram_named_options;

/** A manager without buffers. `queue` is the home of what it makes, and where contents are copied. */
VRAM_API vram_status vram_named_create(vram_pool *pool, vram_queue *queue,
                                       const vram_named_options *options, vram_named **named);

/**
 * Destroys it with all its buffers; nothing waits. NULL is allowed, a second call is VRAM_ERR_STALE. The
 * first answer of a vram_buffer_destroy that is not VRAM_OK is told, and the rest goes all the same.
 */
VRAM_API vram_status vram_named_destroy(vram_named *named);

/* -------------------------------------------------------------- configuration */

/** What a buffer of some name is, and how it grows. All zero: bytes on the device, grown exactly. */
typedef struct vram_named_config {
    size_t size; /* sizeof(vram_named_config) */
    vram_buffer_kind kind;
    vram_precision precision;
    vram_growth growth; /* its `size` 0: exactly to what is needed; its element_bytes, or else the
                           precision's, is what elements are counted in */
} vram_named_config;

/**
 * Says what the buffer of that name is to be, before or after it is made. It counts wherever no config is
 * given. A buffer that is there takes the growth; VRAM_ERR_INVALID when its kind or precision is another.
 */
VRAM_API vram_status vram_named_config_set(vram_named *named, const char *name,
                                           const vram_named_config *config);

/* -------------------------------------------------------------------- buffers */

/**
 * Makes the buffer of that name, with `elements` in use and the capacity that its policy begins with. config
 * NULL: as vram_named_config_set has it, or all zero. VRAM_ERR_INVALID when the name is taken;
 * VRAM_ERR_LIMIT when the limit of all would be passed, or the policy's maximum; VRAM_ERR_OVERFLOW; and what
 * vram_buffer_create refuses.
 */
VRAM_API vram_status vram_named_add(vram_named *named, const char *name, uint64_t elements,
                                    const vram_named_config *config, vram_buffer **buffer);

/**
 * The buffer of that name. VRAM_ERR_INVALID: there is none, or with a `config` (NULL: whatever it is) its
 * kind or precision is another.
 */
VRAM_API vram_status vram_named_get(vram_named *named, const char *name,
                                    const vram_named_config *config, vram_buffer **buffer);

/**
 * vram_named_get where there is one, whatever its size and keeping its policy, else vram_named_add. Of
 * several threads that ask at once all get the same buffer.
 */
VRAM_API vram_status vram_named_get_or_create(vram_named *named, const char *name,
                                              uint64_t elements, const vram_named_config *config,
                                              vram_buffer **buffer);

/**
 * Sees to it that `elements` fit, and has at least that many in use; contents stay. Where it cannot
 * grow in place its old and its new memory must both fit into the limit. After a failure it is what it was. `buffer`
 * may be NULL. VRAM_ERR_INVALID: there is none of that name; VRAM_ERR_BUSY while another call keeps the
 * buffer busy for longer than the option wait_timeout; else as vram_buffer_resize.
 */
VRAM_API vram_status vram_named_ensure(vram_named *named, const char *name, uint64_t elements,
                                       vram_buffer **buffer);

/** Destroys the buffer of that name; its config stays. VRAM_ERR_INVALID: there is none. */
VRAM_API vram_status vram_named_remove(vram_named *named, const char *name);

/**
 * Removes every buffer of which nothing is in use (vram_buffer_resize to 0) and that no call has used for
 * `idle_ns`. *bytes, which may be NULL, is what they had.
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
    uint64_t resizes;                 /* times that its capacity changed */
    uint64_t created_ns, accessed_ns; /* on the library's monotonic clock */
} vram_named_info;

/** VRAM_ERR_INVALID: there is no buffer of that name. */
VRAM_API vram_status vram_named_info_get(vram_named *named, const char *name,
                                         vram_named_info *info);

/** Number `index` in the order of the names' bytes; VRAM_ERR_INVALID past the end. */
VRAM_API vram_status vram_named_info_at(vram_named *named, uint32_t index, vram_named_info *info);

/** All of them. */
typedef struct vram_named_stats {
    size_t size;          /* in: sizeof(vram_named_stats) of the caller */
    uint32_t buffers;     /* there now */
    uint64_t total_bytes; /* their capacities */
    uint64_t used_bytes;  /* of these, in use */
    uint64_t peak_bytes;  /* most of total_bytes, with old and new memory of a buffer that moved */
    uint64_t limit_bytes; /* 0: none */
    uint64_t created, removed; /* buffers, in all */
    uint64_t resizes;          /* of vram_named_ensure, those that changed a capacity */
    uint64_t refusals;         /* calls that ended in an exhaustion of any kind */
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
