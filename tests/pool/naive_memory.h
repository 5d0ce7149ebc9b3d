/* SPDX-License-Identifier: Apache-2.0 */
/*
 * naive_memory.h: a naive model of what the block engine works on, for model.c.
 *
 * Memory is an array of units of 512 bytes. Each unit knows who owns it, what is mapped under it,
 * and which frees it has seen that may still be followed by work. Every rule of the engine's
 * contract is looked at unit by unit, with no cleverness that could share a mistake with the
 * engine.
 */
#ifndef VR_NAIVE_MEMORY_H
#define VR_NAIVE_MEMORY_H

#include "core/space/space.h"

enum {
    NAIVE_GRANULE = 64 << 10,
    NAIVE_GRANULES = 1024,
    NAIVE_QUEUES = 4,
    NAIVE_UNITS = NAIVE_GRANULES * (NAIVE_GRANULE / 512)
};

#define NAIVE_BASE (UINT64_C(1) << 40)

struct naive_unit {
    uint32_t owner;        /* number of the block that lies here; 0: nobody */
    struct vr_stamp freed; /* of the last free */
};

/* A handle, and the first granule + 1 of the place where it was mapped last; 0: nowhere. */
struct naive_handle {
    uint64_t native, place;
};

struct naive_memory {
    struct naive_unit units[NAIVE_UNITS];
    uint64_t mapped[NAIVE_GRANULES]; /* native number of what is mapped; 0: nothing */
    bool accessible[NAIVE_GRANULES];
    uint64_t twin[NAIVE_GRANULES];     /* granule + 1 that had the same memory before; 0: none */
    bool alias;                        /* a handle may be mapped at several places */
    uint64_t issued[NAIVE_QUEUES + 1]; /* highest value stamped, by queue number */
    uint64_t passed[NAIVE_QUEUES + 1]; /* how far each queue has come */
    uint64_t natives;                  /* numbers given out */
    struct naive_handle handles[NAIVE_GRANULES]; /* those there are; native 0: a free row */
    uint64_t held_bytes;                         /* created and not released */
    uint64_t violations;
    char first[256]; /* the first violation */
};

/* Counts a violation; keeps the text of the first. */
void naive_blame(struct naive_memory *memory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether work up to the stamp is over. For vr_space_config.passed: user is the memory. */
bool naive_passed(void *user, struct vr_stamp stamp);

/* A block was handed out to `queue`, which will wait for `after`; or is about to be freed. */
void naive_give(struct naive_memory *memory, uint32_t owner, uint64_t addr, uint64_t bytes,
                uint64_t queue, struct vr_stamp after);
void naive_take(struct naive_memory *memory, uint32_t owner, uint64_t addr, uint64_t bytes,
                struct vr_stamp stamp);

/* Executes a step as a driver would. False: it refuses (no room for a segment). */
bool naive_step(struct naive_memory *memory, struct vr_step *step, bool segments);

#endif
