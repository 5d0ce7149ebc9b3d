/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_point.c: points in the order of a queue (device/point.c), on a driver that does at once,
 * or never, what it is told. Work is a plain variable: who sees that a point has passed may read
 * it.
 */
#include "explore_scenario.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/device_calls.h"
#include "device/objects.h"
#include "device/ops.h"

static struct vr_context context;
static struct vr_device native_device;
static struct vr_device_object device = {.context = &context};
static struct vr_queue_object queues[2]; /* the second one waits for the first */
static vr_atomic_u64 words[2];

static struct vr_mutex driver_lock;
static bool driver_runs;         /* it does its work at once */
static uint64_t driver_last;     /* the last number that it was told to write */
static uint64_t driver_awaited;  /* a queue waits until the word is this, or more */
static unsigned driver_written;  /* a bit for each number that it has written */
static unsigned driver_refusals; /* of numbers that it has written before, which it will make */

static bool driver_refuses; /* at first */

static unsigned work[2];
static vr_atomic_u64 made; /* the point after work[0] */

/* ------------------------------------------------------------------- driver */

/* Keeps point.c (7): once a device waits for a number, no lower one is written. */
vram_status vr_queue_signal(struct vr_queue *queue, uint64_t value) {
    vr_mutex_lock(&driver_lock);
    bool refused = driver_refusals > 0 && driver_written >> value & 1;
    driver_refusals -= refused;
    if (!refused) {
        CHECK(value >= driver_awaited);
        driver_last = value;
        driver_written |= 1u << value;
    }
    vr_mutex_unlock(&driver_lock);
    if (!refused && driver_runs) {
        vr_store(queue->word, value, VR_RELEASE);
    }
    return refused ? VRAM_ERR_BACKEND : VRAM_OK;
}

vram_status vr_queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    (void)queue;
    (void)other;
    vr_mutex_lock(&driver_lock);
    CHECK(driver_last >= value); /* or the device would wait until the next mark */
    driver_awaited = value;
    vr_mutex_unlock(&driver_lock);
    return VRAM_OK;
}

vram_status vr_queue_poll(struct vr_queue *queue) {
    (void)queue;
    return VRAM_ERR_NOT_READY;
}

vram_status vr_check_lost(const struct vr_device *lost, const char *operation) {
    (void)lost;
    (void)operation;
    return VRAM_OK;
}

/* ------------------------------------------------- what else point.c calls */

vram_status vr_enter(enum vr_kind kind, const void *handle, void **object) {
    *object = vr_handle_pin(kind, handle);
    return *object ? VRAM_OK : VRAM_ERR_STALE;
}

void vr_leave(void *object) {
    vr_handle_unpin(((struct vr_object *)object)->handle);
}

bool vr_submit_begin(struct vr_queue_object *queue) {
    (void)queue;
    return true;
}

void vr_submit_end(struct vr_queue_object *queue) {
    (void)queue;
}

bool vr_queue_hold(struct vr_queue_object *queue) {
    (void)queue;
    return true;
}

void vr_queue_release(struct vr_queue_object *queue) {
    (void)queue;
}

void vr_native_ref(struct vr_device_object *kept) {
    (void)kept;
}

void *vr_mem_resize(void *memory, size_t count, size_t bytes, const char *operation) {
    (void)memory;
    return vr_mem_alloc(count, bytes, operation);
}

uint64_t vr_deadline_in(uint64_t ns) {
    return ns;
}

bool vr_deadline_passed(uint64_t deadline) {
    (void)deadline;
    return false;
}

void vr_clock_sleep(uint64_t ns) {
    vr_os_sleep(ns);
}

uint32_t vr_os_processors(void) {
    return 2;
}

/* ---------------------------------------------------------------- scenarios */

static void queue_destroy(void *object) {
    (void)object;
}

static void queues_make(void) {
    vr_mutex_init(&driver_lock, VR_RANK_DRIVER);
    for (int i = 0; i < 2; i++) {
        queues[i].base.word = &words[i];
        queues[i].base.device = &native_device;
        queues[i].device = &device;
        CHECK(vr_handle_publish(VR_KIND_QUEUE, &queues[i], queue_destroy,
                                &queues[i].object.handle) == VRAM_OK);
    }
}

static void queues_run(void) {
    queues_make();
    driver_runs = true;
}

static void queues_refuse(void) {
    queues_make();
    driver_refusals = 4; /* a repetition is tried as often */
    driver_refuses = true;
}

static uint64_t mark(void) {
    uint64_t value = 0;
    CHECK(vr_queue_mark(&queues[0], &value) == VRAM_OK && value > 0);
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
    if (value && vr_queue_passed(&queues[0], value)) {
        CHECK(work[0] == 1);
        CHECK(vr_queue_passed(&queues[0], value)); /* keeps (3) */
    }
}

/* What one thread saw as passed, another one takes from `settled`. */
static void reader_again(void) {
    uint64_t value = vr_load(&made, VR_RELAXED);
    if (value && vr_queue_passed(&queues[0], value)) {
        CHECK(work[0] == 1);
    }
}

/* A mark whose number another thread has repeated may be refused. */
static void marker_or_refused(void) {
    uint64_t value;
    CHECK(vr_queue_mark(&queues[0], &value) == VRAM_OK || driver_refuses);
}

static void waiter(void) {
    vram_point point = {(vram_queue *)(uintptr_t)queues[0].object.handle, 0};
    vram_status status = vr_queue_mark(&queues[0], &point.value);
    CHECK(status == VRAM_OK || driver_refuses);
    CHECK(status != VRAM_OK || vr_queue_submit_after(&queues[1], point) == VRAM_OK);
}

/* The same for a point that another thread passes on without order. */
static void stranger(void) {
    vram_point point = {(vram_queue *)(uintptr_t)queues[0].object.handle,
                        vr_load(&made, VR_RELAXED)};
    if (point.value) {
        (void)vr_queue_submit_after(&queues[1], point);
    }
}

/* Keeps (2). */
static void last_is_highest(void) {
    CHECK(driver_last == vr_load(&queues[0].issued, VR_RELAXED));
    CHECK(!vr_load(&queues[0].marking[0], VR_RELAXED) &&
          !vr_load(&queues[0].marking[1], VR_RELAXED));
}

const struct scenario point_scenarios[] = {
    {"points", "work beside a reader", queues_run, {worker, reader}, last_is_highest, false},
    {"points", "two marks", queues_make, {marker, marker}, last_is_highest, false},
    {"points", "two marks beside one", queues_make, {two_marks, marker}, last_is_highest, true},
    {"points",
     "work, a mark and a reader",
     queues_run,
     {worker, marker, reader},
     last_is_highest,
     true},
    {"points", "two readers", queues_run, {worker, reader, reader_again}, last_is_highest, true},
    {"points", "a device waits", queues_make, {marker, waiter}, last_is_highest, false},
    {"points",
     "a device waits, repetitions fail",
     queues_refuse,
     {marker_or_refused, waiter},
     NULL,
     false},
    {"points", "a point passed on", queues_make, {marker, worker, stranger}, last_is_highest, true},
    {.name = NULL}};
