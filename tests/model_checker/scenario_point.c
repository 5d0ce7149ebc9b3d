/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_point.c: points in the order of a queue (device/point.c). Work is a plain variable: who
 * sees that a point has passed may read it.
 */
#include "explore_driver.h"
#include "explore_scenario.h"

static struct vr_queue_object *const queue = &driver_queues[0];
static struct vr_queue_object *const waiting = &driver_queues[1]; /* waits for it */

static bool expects_refusals;

static unsigned work[2];
static vr_atomic_u64 made; /* the point after work[0] */

static void queues_run(void) {
    driver_queues_make();
    driver.runs = true;
}

static void queues_refuse(void) {
    driver_queues_make();
    driver.refusals = 4; /* a repetition is tried as often */
    expects_refusals = true;
}

static uint64_t mark(void) {
    uint64_t value = 0;
    CHECK(vr_queue_mark(queue, &value) == VRAM_OK && value > 0);
    return value;
}

static void worker(void) {
    work[0] = 1;
    vr_store(&made, mark(), VR_RELAXED);
}

static void marker(void) {
    (void)mark();
}

static void two_marks(void) {
    marker();
    marker();
}

static void reader(void) {
    uint64_t value = vr_load(&made, VR_RELAXED);
    if (value && vr_queue_passed(queue, value)) {
        CHECK(work[0] == 1);
        CHECK(vr_queue_passed(queue, value)); /* keeps (3) */
    }
}

/* What one thread saw as passed, another one takes from `settled`. */
static void reader_again(void) {
    uint64_t value = vr_load(&made, VR_RELAXED);
    if (value && vr_queue_passed(queue, value)) {
        CHECK(work[0] == 1);
    }
}

/* A mark whose number another thread has repeated may be refused. */
static void marker_or_refused(void) {
    uint64_t value;
    CHECK(vr_queue_mark(queue, &value) == VRAM_OK || expects_refusals);
}

static void waiter(void) {
    vram_point point = {(vram_queue *)(uintptr_t)queue->object.handle, 0};
    vram_status status = vr_queue_mark(queue, &point.value);
    CHECK(status == VRAM_OK || expects_refusals);
    CHECK(status != VRAM_OK || vr_queue_submit_after(waiting, point) == VRAM_OK);
}

/* The same for a point that another thread passes on without order. */
static void stranger(void) {
    vram_point point = {(vram_queue *)(uintptr_t)queue->object.handle, vr_load(&made, VR_RELAXED)};
    if (point.value) {
        (void)vr_queue_submit_after(waiting, point);
    }
}

/* ------------------------------------------------------------- idle queues */

/* A query may miss work of another thread that is not ordered with it. */
static void queue_idles(void) {
    driver_queues_make();
    vr_store(&driver.idle, true, VR_RELAXED);
}

static void work_begins(void) {
    vr_store(&driver.idle, false, VR_RELAXED);
    (void)mark();
}

static void query(void) {
    vr_queue_look(queue, 0);
}

/* Keeps (4): the work of point 1 never ends. */
static void first_has_not_passed(void) {
    CHECK(!vr_queue_passed(queue, 1));
}

/* Keeps (6). */
static void region_idles(void) {
    queue_idles();
    marker();
    vr_store(&queue->captured, true, VR_RELAXED);
}

static void graph_begins_and_region_ends(void) {
    vr_store(&driver.idle, false, VR_RELAXED);
    vr_store(&queue->captured, false, VR_SEQ_CST);
}

/* As device/ops.c submits it. */
static void submission_made(void) {
    driver_work();
    vr_fetch_add(&queue->submissions, 1, VR_RELAXED);
}

static void submission_waits(void) {
    queues_run();
    submission_made();
}

static void is_not_idle(void) {
    CHECK(!vr_queue_is_idle(queue));
}

static void submitter(void) {
    submission_made();
    is_not_idle();
}

static void queue_refuses(void) {
    queue_idles();
    driver.refuses = true;
}

static void settler(void) {
    CHECK(vr_queue_settle(queue, 1) == VRAM_OK);
}

/* Keeps (2). */
static void last_is_highest(void) {
    CHECK(driver.last == vr_load(&queue->issued, VR_RELAXED));
    CHECK(!vr_load(&queue->marking[0], VR_RELAXED) && !vr_load(&queue->marking[1], VR_RELAXED));
}

const struct scenario point_scenarios[] = {
    {"points", "work beside a reader", queues_run, {worker, reader}, last_is_highest, false},
    {"points", "two marks", driver_queues_make, {marker, marker}, last_is_highest, false},
    {"points",
     "two marks beside one",
     driver_queues_make,
     {two_marks, marker},
     last_is_highest,
     true},
    {"points",
     "work, a mark and a reader",
     queues_run,
     {worker, marker, reader},
     last_is_highest,
     true},
    {"points", "two readers", queues_run, {worker, reader, reader_again}, last_is_highest, true},
    {"points", "a device waits", driver_queues_make, {marker, waiter}, last_is_highest, false},
    {"points",
     "a device waits, repetitions fail",
     queues_refuse,
     {marker_or_refused, waiter},
     NULL,
     false},
    {"points",
     "a point passed on",
     driver_queues_make,
     {marker, worker, stranger},
     last_is_highest,
     true},
    {"points",
     "a query beside work",
     queue_idles,
     {work_begins, query},
     first_has_not_passed,
     false},
    {"points",
     "a query beside a region's end",
     region_idles,
     {graph_begins_and_region_ends, query},
     first_has_not_passed,
     false},
    {"points", "idle beside a mark", submission_waits, {marker, is_not_idle}, NULL, false},
    {"points", "a submission beside a mark", queues_run, {submitter, marker}, NULL, false},
    {"points", "waits, marks refused", queue_refuses, {settler, settler}, NULL, false},
    {.name = NULL}};
