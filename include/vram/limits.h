/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/limits.h: how much memory pools may take, and who may have how much of it.
 *
 * What a pool may hold in all, its budget, is the smallest of what is configured:
 *
 *     hard_bytes of the pool
 *     hard_bytes of the device, or the option device_limit, less what else the program holds there
 *     fraction x the device's memory, less what else the program holds there
 *     what the program holds there and what is free, less min_free_bytes
 *
 * The device is asked how much is free on a timer (option memory_sample), never per allocation, and only
 * where a pool needs memory that it does not hold yet. Where a device does not tell its memory, or how
 * much of it is free, that part does not apply: nothing is guessed. A pool on a provider of the program's
 * own has only its hard_bytes. What is allocated past pools (vram_device_alloc, vram_physical_create)
 * counts, and is itself bound by hard_bytes of the device alone.
 *
 * A GPU that several backends show (vram_device_same) has one account in a context: limits, tags and quotas
 * set through one of its devices hold for all of them, and what one holds the others may not. Statistics
 * stay those of each device.
 *
 * An allocation that would pass the budget first uses all that the pool holds already, then is
 * VRAM_ERR_LIMIT, and the error record says which limit it was.
 */
#ifndef VRAM_LIMITS_H
#define VRAM_LIMITS_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- limits */

/** No limit at all, where 0 would mean the default. */
#define VRAM_LIMIT_NONE UINT64_MAX

/** A choice that may be left to somebody else. */
typedef enum vram_switch {
    VRAM_SWITCH_DEFAULT = 0, /* as the device, the option or the preset says */
    VRAM_SWITCH_ON = 1,
    VRAM_SWITCH_OFF = 2
} vram_switch;

/**
 * Limits of a pool or of a device. A field that is 0 is not set: a pool takes it from its device,
 * that from the option of the same purpose, and last comes the preset that the option `preset`
 * names. A limit from the environment is a ceiling (min_free_bytes: a floor) that the program
 * cannot raise. It applies to each context separately: contexts do not know of each other's memory.
 */
typedef struct vram_limits {
    size_t size; /* sizeof(vram_limits) */
    double
        fraction; /* of the device's memory, 0.1 to 1: what lies outside is moved to the nearer end;
                                negative numbers and those that are none are refused; 1: no such limit */
    uint64_t
        min_free_bytes;  /* to be left free on the device. Set, it is taken as said, also above what
                                the device has: then nothing can be allocated. Not set, it is at most
                                1/16 of the device's memory. */
    uint64_t hard_bytes; /* that may be held in all */
    uint64_t
        cached_bytes; /* that a pool keeps for later: held, and in no block. Looked at when memory was
                              taken, and by maintenance; frees give nothing back by themselves. */
    uint32_t
        cached_blocks; /* of one size above 32 KiB that a thread keeps at hand, at most 16; above 64
                                 KiB it is one */
    vram_switch
        tracking; /* of single allocations, for leak reports; in debug builds on by default */
    vram_switch
        cpu_fallback; /* whether other memory than the device's may stand in for it: on, buffers of the
                                 fallback kind may lie there, and raw allocations of pools that allow it
                                 (vram_ladder_options.fallback), also by the word of an error handler;
                                 off, nothing does. On in every preset but training. */
} vram_limits;

/** Every preset: X(NAME, number, "name", fraction, min_free MiB, cached_blocks, tracking, cpu_fallback). */
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
 * Fills `limits` with what a preset says, as a start for one's own: whatever is written into the struct
 * afterwards counts. Its `size` is set before the call. hard_bytes and cached_bytes are VRAM_LIMIT_NONE.
 */
VRAM_API vram_status vram_preset_get(vram_preset preset, vram_limits *limits);

/**
 * Sets what a pool may hold; all fields, so that one that is 0 is not set any more. Below what it holds
 * now, free memory goes back to the driver at once; what is live stays, and when that is too much the
 * answer is VRAM_ERR_LIMIT although the limits are in force: nothing more is taken until it has shrunk.
 */
VRAM_API vram_status vram_pool_limits_set(vram_pool *pool, const vram_limits *limits);

/** The limits as they are in force, each field with a value; VRAM_LIMIT_NONE where there is none. */
VRAM_API vram_status vram_pool_limits_get(vram_pool *pool, vram_limits *limits);

/**
 * The same for all that the program takes from a device, through whatever handle on it, and for what pools
 * there have not set themselves.
 */
VRAM_API vram_status vram_device_limits_set(vram_device *device, const vram_limits *limits);
VRAM_API vram_status vram_device_limits_get(vram_device *device, vram_limits *limits);

/* --------------------------------------------------------------------- tags */

/**
 * A tag says who an allocation is for (vram_alloc_options.tag): "tenant", or a path "tenant/model/layer" of
 * at most 16 parts and 255 bytes. A block counts for its tag and for all tags above it, over all pools of
 * a device. Tags are known from the first time they are named until the context ends; a device knows
 * 65,536 at most. Untagged allocations cost nothing here.
 *
 * Quotas are in bytes after rounding, as vram_block_info.held_bytes has them. They may promise more than
 * there is, and children more than their parent: on the way to the first part every quota must be kept, so
 * the smallest counts.
 */

/**
 * Sets what blocks of a tag and of all below it may take together. Above `hard_bytes` allocations
 * are VRAM_ERR_LIMIT, and the error record names the tag whose quota it was; above `soft_bytes` the
 * handler is called and it is counted. 0: none. A hard quota below what the tag has now is in force
 * and VRAM_ERR_LIMIT: live blocks stay. The option `quotas`
 * (VRAM_QUOTAS="tenant=4G:6G,tenant/model=2G", soft:hard or hard) sets ceilings that the program
 * cannot raise: after vram_option_set has changed it, those of the environment still apply, and of
 * two for one tag the lower one does. It is read when a device is first used for pools or quotas;
 * an invalid value is VRAM_ERR_INVALID then.
 */
VRAM_API vram_status vram_tag_quota_set(vram_device *device, const char *tag, uint64_t soft_bytes,
                                        uint64_t hard_bytes);

/** A soft quota was crossed. */
typedef struct vram_tag_event {
    size_t size;                     /* sizeof(vram_tag_event) of the library */
    vram_device *device;             /* borrowed */
    const char *tag;                 /* whose quota; valid until the context ends */
    uint64_t used_bytes;             /* what it has now */
    uint64_t soft_bytes, hard_bytes; /* its quota; hard 0: none */
} vram_tag_event;

/**
 * Called on the allocating thread after the allocation that crossed has succeeded, with no lock held: it may
 * call everything, and is not called again for what it does itself. The allocation returns after it does.
 */
typedef void vram_tag_handler(void *user, const vram_tag_event *event);

/** Whom to tell of a device's quotas; NULL: nobody. A call that is under way may still reach the former. */
VRAM_API vram_status vram_tag_handler_set(vram_device *device, vram_tag_handler *handler,
                                          void *user);

typedef struct vram_tag_info {
    size_t size;                  /* in: sizeof(vram_tag_info) of the caller */
    const char *name;             /* valid until the context ends */
    uint64_t used_bytes;          /* of live blocks, after rounding, of the tag and all below it */
    uint64_t own_bytes;           /* of these, the tag's own */
    uint64_t requested_bytes;     /* own_bytes as asked for */
    uint64_t peak_bytes;          /* most of used_bytes */
    uint64_t live_blocks, allocs; /* its own */
    uint64_t soft_bytes, hard_bytes; /* its quota as it is in force; 0: none */
    uint64_t crossings;              /* times that it went above the soft one */
    uint64_t refusals;               /* allocations that the hard one refused */
} vram_tag_info;

/** VRAM_ERR_INVALID for a tag that nobody has named on this device. */
VRAM_API vram_status vram_tag_info_get(vram_device *device, const char *tag, vram_tag_info *info);

/** How many tags the device knows; 0 for a stale one. */
VRAM_API uint32_t vram_tag_count(vram_device *device);

/** The tag with the most used_bytes is number 0; equals are in the order of their names. O(n log n). */
VRAM_API vram_status vram_tag_info_at(vram_device *device, uint32_t rank, vram_tag_info *info);

#ifdef __cplusplus
}
#endif

#endif
