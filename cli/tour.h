/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tour.h: what the steps of `vram tour` share. tour.c leads and prints; stop.c holds the steps.
 */
#ifndef TOUR_H
#define TOUR_H

#include "race.h"
#include "target.h"

enum stop_result {
    STOP_DONE,
    STOP_SKIPPED,  /* the device lacks what it needs; the remark says what */
    STOP_DIFFERED, /* contents are not what was written; the remark says where */
    STOP_FAILED    /* a call failed; the remark has its text */
};

enum { REMARK_MAX = 320, STOPS_MAX = 16 };

struct stop;

/* The state that the steps hand on. All zero before the first one but the first three. */
struct tour {
    const struct target *target;
    const struct stop *route[STOPS_MAX]; /* the steps that are taken */
    size_t route_count;
    vram_device *device;
    vram_queue *queues[2];     /* work runs in order on one, side by side on two */
    vram_addr first, second;   /* two blocks of `bytes` on the device */
    uint64_t bytes;            /* size of a block */
    uint32_t *sent, *received; /* `bytes` of host memory each: what goes up, what comes down */
    vram_point copied;         /* the moment when the copy on the device is done */
    vram_physical *physical;   /* memory without an address, for the step that moves it */
    vram_addr range;           /* addresses without memory, twice the size of `physical` */
    vram_kernel *kernel;
    struct race race;      /* of the step that has one; its racers have no names before */
    vram_memory_info left; /* what the device still holds at the end */

    /* Of the present step; set to zero before it. */
    uint64_t started_ns, stopped_ns;
    bool clock_stopped;
    uint64_t moved_bytes;    /* what it copied, for its speed; 0: no speed is shown */
    char remark[REMARK_MAX]; /* why it was skipped or failed, or what it found */
};

/* One step. */
struct stop {
    const char *name;  /* "upload" */
    const char *story; /* what happens, in plain words */
    enum stop_result (*run)(struct tour *tour);
    bool race; /* the race needs it, or is it: taken with --race, too */
};

extern const struct stop stops[];
extern const size_t stop_count; /* at most STOPS_MAX */

/*
 * The clock of the present step. It runs from before the step until it returns; a step restarts or
 * stops it to leave out work that is not the device's. Simulated devices have a clock of their own.
 */
void tour_clock_restart(struct tour *tour);
void tour_clock_stop(struct tour *tour);
uint64_t tour_now(void *tour); /* ns of that clock */

/* Closes and frees whatever is still there, also after a step failed. */
void tour_end(struct tour *tour);

#endif
