/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_steps.h: when each step of a switch of lease_bench is reached, and how many driver calls it
 * takes. Workers keep marks; the parent asks both for them after a switch.
 */
#ifndef LEASE_STEPS_H
#define LEASE_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <vram/vram.h>

/* Of a worker. Times are in ms of the system's clock, 0 before they come; counts and sums go on for
   ever. */
enum lease_mark {
    MARK_POINT, /* it reached the first point at which it gave, */
    MARK_GAVE,  /* and left it, */
    MARK_POINT_2,
    MARK_GAVE_2,
    MARK_WEIGHTS, /* these are awake */
    MARK_CACHE,
    MARK_WORK,    /* the first work is done */
    MARK_CREATES, /* calls of the driver for the pools */
    MARK_UNMAPS,
    MARK_DRIVER, /* ms in calls of the driver, as lease_steps.c lists them; 0 without the shim */
    MARKS = MARK_DRIVER + 5
};

double lease_now_ms(void);

/* Of a worker: the point from `begin` until now gave something. */
void lease_marks_point(double marks[MARKS], double begin);
/* Writes all marks as one line, and begins anew. */
void lease_marks_write(double marks[MARKS], vram_pool *const pools[2], FILE *to);

/* Of the parent: takes the marks of both sides after switch number `at`, or with -1 before the
   first. False: they cannot be read. */
bool lease_steps_take(int at, double request, FILE *holder, FILE *waker);
/* Prints them: those of the first switch, and the medians of the `count` - 1 others. */
void lease_steps_print(const char *way, int count);

#endif
