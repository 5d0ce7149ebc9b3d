/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race.h: the transfer race of `vram tour`: the same frames brought to the host in four ways, and
 * how long each took. A frame is made on the device, travels, and the host adds it up.
 */
#ifndef RACE_H
#define RACE_H

#include <stdbool.h>
#include <stdint.h>
#include <vram/vram.h>

enum { RACERS = 4, RACE_FRAMES = 6, RACE_REASON_MAX = 200 };

struct racer {
    const char *name;  /* "blocking" */
    const char *about; /* what it does, for people */
    bool ran;
    uint64_t ns;                  /* of all frames; 0 on a simulation without prices */
    char reason[RACE_REASON_MAX]; /* why it did not run */
};

/* Where it is run, and the clock it is held against. */
struct race {
    vram_context *context;
    uint32_t index; /* of the device, in the context */
    void *host;     /* `bytes` of ordinary memory */
    uint64_t bytes; /* of a frame, a multiple of 4 */
    bool simulated; /* times are those of a model, */
    bool priced; /* in which the host's work takes time, too, if it has prices; set by race_run */
    uint64_t (*now)(void *user);
    void *user;
    struct racer racers[RACERS];

    /* While it runs: a handle on the device of its own, so that all that was taken goes with it,
       page-locked memory that the library keeps for copies included. */
    vram_device *device;
    vram_queue *queue;
    vram_addr source; /* of the frames, on the device */
};

/*
 * Runs all four. False: a call failed for another reason than that the device lacks something; the
 * status says why, or is VRAM_ERR_CORRUPT for a frame that was not what it had to be.
 */
bool race_run(struct race *race, vram_status *status);

#endif
