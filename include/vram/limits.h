/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/limits.h: how much memory pools may take, and how much of it each tag may have.
 *
 * The budget of a pool is the smallest of the limits that are set:
 *
 *     hard_bytes of the pool
 *     hard_bytes of the device, or the option device_limit, minus what else the program holds there
 *     fraction x the device's memory, minus what else the program holds there
 *     what the program holds there plus what is free, minus min_free_bytes
 *
 * The library asks the device how much is free on a timer (option memory_sample), never per
 * allocation, and only if a pool needs memory that it does not hold yet. If a device does not
 * report its memory, or how much of it is free, that part does not apply: nothing is guessed. A
 * pool on a provider of the program's own has only its hard_bytes. Memory that is allocated without
 * a pool (vram_device_alloc, vram_physical_create) counts, and is itself bound by hard_bytes of the
 * device alone.
 *
 * A GPU that several backends show (vram_device_same) has one account in a context. Limits, tags
 * and quotas that are set through one of its devices apply to all of them, and what one holds the
 * others may not. Statistics are kept per device.
 *
 * An allocation that would exceed the budget first uses all that the pool holds already. If that is
 * not enough, or is in pieces that are too small, it returns VRAM_ERR_LIMIT, and the error record
 * names the limit.
 */
#ifndef VRAM_LIMITS_H
#define VRAM_LIMITS_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- limits */

/** No limit at all, because 0 means the default. */
#define VRAM_LIMIT_NONE UINT64_MAX

/** A choice that may be left to the default. */
typedef enum vram_switch {
    VRAM_SWITCH_DEFAULT = 0, /* as the device, the option or the preset says */
    VRAM_SWITCH_ON = 1,
    VRAM_SWITCH_OFF = 2
} vram_switch;

/**
 * Limits of a pool or of a device. A field that is 0 is not set: a pool takes it from its device,
 * the device from the option of the same purpose, and last comes the preset that the option
 * `preset` names. A limit from the environment is a ceiling (min_free_bytes: a floor) that the
 * program cannot raise. It applies to each context separately: contexts do not know of each other's
 * memory.
 */
typedef struct vram_limits {
    size_t size; /* sizeof(vram_limits) */

    /* Share of the device's memory, 0.1 to 1; 1: no such limit. A value outside of the range is
       moved to its nearer end. Negative values and NaN are refused. */
    double fraction;

    /* Bytes to leave free on the device. If it is set, it applies as it is, even if it is more than
       the device has: then nothing can be allocated. If not, it is at most 1/16 of the device's
       memory; and exactly that with VRAM_CAP_INTEGRATED, where the host needs memory too. */
    uint64_t min_free_bytes;

    uint64_t hard_bytes; /* most that may be held in all */

    /* Most idle memory that a pool keeps: held, and neither live nor in a thread's cache. A free or
       an allocation that finds more than this and an eighth releases what is above it. That may
       call the driver, and never waits for work: memory that unfinished work uses stays until a
       later call. A pool on segments releases a segment once all of it is idle; a segment is then
       at most an eighth of the limit, or as large as one block. Not in deterministic pools. */
    uint64_t cached_bytes;

    /* Most blocks of one size that the pool keeps ready in caches, at most 16. Every thread and
       every queue that uses the pool has an equal share; above 64 KiB it is one at most. Other free
       memory is in no size: it merges, and cached_bytes bounds it. If neither the program nor an
       option sets it, the limit is for each thread and queue: the 8 of the default preset above
       32 KiB, and 32 below, because smaller caches make bursts of small blocks 45 % slower. */
    uint32_t cached_blocks;

    vram_switch tracking; /* of every allocation, for leak reports; default in debug builds: on */

    /* Whether other memory may replace the device's when that is exhausted. On: vram_alloc and its
       relatives then return page-locked host memory, which kernels reach, slowly; or what
       vram_ladder_options.fallback allows. Off: nothing falls back. Default: only buffers of the
       fallback kind, pools whose ladder allows it and error handlers that ask for it. On in every
       preset except training. Always off with VRAM_CAP_INTEGRATED: host memory is the memory that
       is exhausted. */
    vram_switch cpu_fallback;
} vram_limits;

/**
 * Every preset: X(NAME, number, "name", fraction, min_free MiB, cached_blocks, tracking,
 * cpu_fallback).
 */
#define VRAM_PRESET_MAP(X)                                                                         \
    X(DEFAULT, 0, "default", 0.9, 512, 8, VRAM_SWITCH_DEFAULT, VRAM_SWITCH_ON)                     \
    X(INFERENCE, 1, "inference", 0.95, 256, 4, VRAM_SWITCH_OFF, VRAM_SWITCH_ON)                    \
    X(TRAINING, 2, "training", 0.8, 1024, 16, VRAM_SWITCH_DEFAULT, VRAM_SWITCH_OFF)                \
    X(CONSTRAINED, 3, "constrained", 0.7, 128, 2, VRAM_SWITCH_OFF, VRAM_SWITCH_ON)

typedef enum vram_preset {
#define VRAM_PRESET_ENUM(NAME, number, name, fraction, free, blocks, tracking, fallback)           \
    VRAM_PRESET_##NAME = (number),
    VRAM_PRESET_MAP(VRAM_PRESET_ENUM)
#undef VRAM_PRESET_ENUM
} vram_preset;

/**
 * Fills `limits` with the values of a preset, which the program may then change. The caller sets
 * its `size` first. hard_bytes and cached_bytes are VRAM_LIMIT_NONE.
 */
VRAM_API vram_status vram_preset_get(vram_preset preset, vram_limits *limits);

/**
 * Sets all limits of a pool; a field that is 0 is no longer set. If the pool holds more than it may
 * from now on, free memory goes back to the driver at once, and live blocks stay. If the live
 * blocks alone are too much, the call returns VRAM_ERR_LIMIT although the limits are in force: the
 * pool takes nothing more until it has shrunk.
 */
VRAM_API vram_status vram_pool_limits_set(vram_pool *pool, const vram_limits *limits);

/** The limits that are in force, every field with a value; VRAM_LIMIT_NONE if there is none. */
VRAM_API vram_status vram_pool_limits_get(vram_pool *pool, vram_limits *limits);

/**
 * The same for all memory that the program takes from a device, through any handle on it. They also
 * apply to its pools, in every field that a pool has not set itself.
 */
VRAM_API vram_status vram_device_limits_set(vram_device *device, const vram_limits *limits);
VRAM_API vram_status vram_device_limits_get(vram_device *device, vram_limits *limits);

/* --------------------------------------------------------------------- tags */

/*
 * A tag says who an allocation is for (vram_alloc_options.tag): "tenant", or a path
 * "tenant/model/layer" of at most 16 parts and 255 bytes. A block counts for its tag and for all
 * tags above it, over all pools of a device. A tag is known from its first use until the context
 * ends; a device knows at most 65,536. Allocations without a tag cost nothing here.
 *
 * Quotas are in bytes after rounding, like vram_block_info.held_bytes. Their sum may be more than
 * the memory of the device, and tags may have larger quotas than the tag above them: an allocation
 * must keep every quota on its path, so the smallest one decides.
 */

/**
 * Sets how much the blocks of a tag and of all tags below it may take together. Above `hard_bytes`
 * an allocation returns VRAM_ERR_LIMIT, and the error record names the tag whose quota it was.
 * Above `soft_bytes` it is counted, and the handler is called. 0: none. A hard quota below what the
 * tag has now is in force, live blocks stay, and the call returns VRAM_ERR_LIMIT.
 *
 * The option `quotas` (VRAM_QUOTAS="tenant=4G:6G,tenant/model=2G", soft:hard or hard) sets ceilings
 * that the program cannot raise. If vram_option_set changes the option, the ceilings of the
 * environment still apply, and of two for one tag the lower one does. It is read when a device is
 * first used for pools or quotas; an invalid value is VRAM_ERR_INVALID then.
 */
VRAM_API vram_status vram_tag_quota_set(vram_device *device, const char *tag, uint64_t soft_bytes,
                                        uint64_t hard_bytes);

/** A soft quota was exceeded. */
typedef struct vram_tag_event {
    size_t size;                     /* sizeof(vram_tag_event) of the library */
    vram_device *device;             /* borrowed */
    const char *tag;                 /* whose quota; valid until the context ends */
    uint64_t used_bytes;             /* what it has now */
    uint64_t soft_bytes, hard_bytes; /* its quota; hard 0: none */
} vram_tag_event;

/**
 * Called on the allocating thread after the allocation has succeeded, which returns after it. No
 * lock is held: it may call the library, and is not called again for what it does itself.
 */
typedef void vram_tag_fn(void *user, const vram_tag_event *event);

/**
 * Sets the handler of a device's quotas; NULL: none. A call under way may still reach the old one.
 */
VRAM_API vram_status vram_tag_handler_set(vram_device *device, vram_tag_fn *handler, void *user);

typedef struct vram_tag_info {
    size_t size;                  /* in: sizeof(vram_tag_info) of the caller */
    const char *name;             /* valid until the context ends */
    uint64_t used_bytes;          /* of live blocks, after rounding, of the tag and all below it */
    uint64_t own_bytes;           /* of these, the tag's own */
    uint64_t requested_bytes;     /* own_bytes before rounding */
    uint64_t peak_bytes;          /* most of used_bytes */
    uint64_t live_blocks, allocs; /* its own */
    uint64_t soft_bytes, hard_bytes; /* its quota that is in force; 0: none */
    uint64_t crossings;              /* times that it exceeded the soft one */
    uint64_t refusals;               /* allocations that the hard one refused */
} vram_tag_info;

/** VRAM_ERR_INVALID if the tag was never used on this device. */
VRAM_API vram_status vram_tag_info_get(vram_device *device, const char *tag, vram_tag_info *info);

/** The number of tags that the device knows; 0 for a stale handle. */
VRAM_API uint32_t vram_tag_count(vram_device *device);

/**
 * Number 0 is the tag with the most used_bytes; equal ones are in the order of names. O(n log n).
 */
VRAM_API vram_status vram_tag_info_at(vram_device *device, uint32_t rank, vram_tag_info *info);

#ifdef __cplusplus
}
#endif

#endif
