/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h: a naive model of what the block engine works on, for model.c.
 *
 * Memory is an array of units of 512 bytes. Each unit knows who owns it, what is mapped under it,
 * and which frees it has seen that may still be followed by work. Every rule of the engine's
 * contract is looked at unit by unit, with no cleverness that could share a mistake with the
 * engine.
 */
#ifndef VR_WORLD_H
#define VR_WORLD_H

#include "core/space/space.h"

enum {
    WORLD_GRANULE = 64 << 10,
    WORLD_GRANULES = 1024,
    WORLD_QUEUES = 4,
    WORLD_UNITS = WORLD_GRANULES * (WORLD_GRANULE / 512)
};

#define WORLD_BASE (UINT64_C(1) << 40)

struct world_unit {
    uint32_t owner;        /* number of the block that lies here; 0: nobody */
    struct vr_stamp freed; /* of the last free */
};

/* A handle, and the first granule + 1 of the place where it was mapped last; 0: nowhere. */
struct world_handle {
    uint64_t native, place;
};

struct world {
    struct world_unit units[WORLD_UNITS];
    uint64_t mapped[WORLD_GRANULES]; /* native number of what is mapped; 0: nothing */
    bool accessible[WORLD_GRANULES];
    uint64_t twin[WORLD_GRANULES];     /* granule + 1 that had the same memory before; 0: none */
    bool alias;                        /* a handle may be mapped at several places */
    uint64_t issued[WORLD_QUEUES + 1]; /* highest value stamped, by queue number */
    uint64_t passed[WORLD_QUEUES + 1]; /* how far each queue has come */
    uint64_t natives;                  /* numbers given out */
    struct world_handle handles[WORLD_GRANULES]; /* those there are; native 0: a free row */
    uint64_t held_bytes;                         /* created and not released */
    uint64_t violations;
    char first[256]; /* the first violation */
};

/* Counts a violation; keeps the text of the first. */
void world_blame(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether work up to the stamp is over. For vr_space_config.passed: user is the world. */
bool world_passed(void *user, struct vr_stamp stamp);

/* A block was handed out to `queue`, which will wait for `after`; or is about to be freed. */
void world_give(struct world *world, uint32_t owner, uint64_t addr, uint64_t bytes, uint64_t queue,
                struct vr_stamp after);
void world_take(struct world *world, uint32_t owner, uint64_t addr, uint64_t bytes,
                struct vr_stamp stamp);

/* Executes a step as a driver would. False: it refuses (no room for a segment). */
bool world_step(struct world *world, struct vr_step *step, bool segments);

#endif
