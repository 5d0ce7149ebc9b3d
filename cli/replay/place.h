/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h: where policies work: an open device with the queues of a trace.
 */
#ifndef REPLAY_PLACE_H
#define REPLAY_PLACE_H

#include "trace_ops.h"

#include <vram/vram.h>

struct place_options {
    const char *backend;   /* one */
    uint32_t device;       /* its number there */
    const char *sim;       /* simulated devices, as in VRAM_SIM; NULL: as the options say */
    uint64_t memory_bytes; /* of a simulated device; the most to use of another; 0: all it has */
    bool rebuild;          /* the policy may rebuild handles when memory is short */
};

struct place {
    vram_context *context;
    vram_device *device;
    vram_device_info info;
    vram_queue *queues[TRACE_QUEUES_MAX];
    uint32_t queue_count;
    bool limited;         /* the option device_limit is set for it */
    bool rebuild;         /* see place_options */
    uint64_t busy_queues; /* bit q: work was submitted to queue q and not waited for */
};

/* Opens a context of its own. After a failure place_close is due too. */
vram_status place_open(struct place *place, const struct place_options *options, uint32_t queues);
void place_close(struct place *place);

/* Waits for all work on a set of queues. */
vram_status place_wait(struct place *place, uint64_t queues);

/* Makes queue `later` wait, on the device, for what was submitted to queue `first`. */
vram_status place_order(struct place *place, uint32_t first, uint32_t later);

#endif
