/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_driver.h: queues and their driver, for the scenarios of points (scenario_point.c) and of
 * the stamps that pools take from them (scenario_stamp.c). The driver does at once, or never, what
 * it is told.
 */
#ifndef EXPLORE_DRIVER_H
#define EXPLORE_DRIVER_H

#include "device/objects.h"

extern struct vr_queue_object driver_queues[2];

struct explored_driver {
    struct vr_mutex lock;
    bool runs;           /* it does its work at once; else it never does */
    bool stuck;          /* in work of the first queue that does not end */
    bool refuses;        /* every signal */
    uint64_t last;       /* the last number that it was told to write */
    uint64_t awaited;    /* a queue waits until the word is this, or more */
    unsigned written;    /* a bit for each number that it has written */
    unsigned refusals;   /* of numbers that it has written before, which it will make */
    vr_atomic_bool idle; /* what a query says; who sees it true sees what the work wrote */
};
extern struct explored_driver driver;

/* In set_up. */
void driver_queues_make(void);
/* Submits work to the first queue that does not end. */
void driver_work(void);

#endif
