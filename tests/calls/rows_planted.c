/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_planted.c: calls with a defect, of the class that an engine is for. `calls --planted` fails
 * unless the engine finds each.
 */
#include "calls/call_table.h"

#include "base/delay.h"
#include "base/error.h"
#include "base/memory.h"

#include <unistd.h>

/* Holds on to memory when its queue ends meanwhile. */
PLANTED(vram_queue_mark, leak_beside_an_end, QUEUE, 0, "ends") {
    vram_point point;
    void *kept = vr_mem_alloc(1, 64, "planted");
    VR_DELAY_POINT("planted");
    vram_status status = TRY(vram_queue_mark, w->queue, &point);
    if (status == VRAM_OK) {
        vr_mem_free(kept);
    }
    return status;
}

/* Waits for a queue that has ended. */
PLANTED(vram_queue_wait, hangs_beside_an_end, QUEUE, 0, "ends") {
    vram_status status = TRY(vram_queue_wait, w->queue, ANY(VRAM_TIMEOUT_DEFAULT));
    while (status != VRAM_OK) {
        usleep(1000);
    }
    return status;
}

/* Holds on to memory when another thread has made the call meanwhile. */
PLANTED(vram_pool_stats_get, leak_of_two_at_once, POOL, 0, "rows") {
    static volatile unsigned calls;
    unsigned before = calls;
    void *kept = vr_mem_alloc(1, 64, "planted");
    VR_DELAY_POINT("planted");
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status status = TRY(vram_pool_stats_get, w->pool, &stats);
    if (calls++ == before) {
        vr_mem_free(kept);
    }
    return status;
}

/* Fails in a child of a fork, as if the driver had. */
static vram_status fails_in_a_child(vram_queue *queue) {
    static pid_t parent;
    parent = parent ? parent : getpid();
    return parent == getpid() ? vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT)
                              : vr_fail(VRAM_ERR_BACKEND, "planted");
}

PLANTED(vram_queue_wait, fails_in_a_child, QUEUE, 0, "modes") {
    return TRY(fails_in_a_child, w->queue);
}

/* Takes a block more than it says, when the host's memory runs out. */
static vram_status half_done(struct world *w) {
    vram_status status = vram_alloc(w->pool, 4096, w->queue, &w->made.block);
    void *note = status == VRAM_OK ? vr_mem_alloc(1, 64, "planted") : NULL;
    vr_mem_free(note);
    return note ? VRAM_OK : vr_fail(VRAM_ERR_HOST_MEMORY, "planted");
}

PLANTED(vram_alloc, failure_that_changed_something, POOL, 0, "faults") {
    return TRY(half_done, FIXED(w));
}

/* Keeps memory when the second step fails. */
static vram_status leaks(struct world *w) {
    vram_point point;
    void *kept = vr_mem_alloc(1, 64, "planted");
    vram_status status = kept ? vram_queue_mark(w->queue, &point) : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK) {
        vr_mem_free(kept);
    }
    return status;
}

PLANTED(vram_queue_mark, leak_after_a_failure, QUEUE, 0, "faults") {
    return TRY(leaks, FIXED(w));
}

/* Rounds up past the end of the numbers. */
static vram_status rounds_up(vram_pool *pool, uint64_t bytes, vram_queue *queue, vram_addr *addr) {
    uint64_t rounded = (bytes + 4095) / 4096 * 4096;
    return vram_alloc(pool, rounded ? rounded : 4096, queue, addr);
}

PLANTED(vram_alloc, overflow, POOL, 0, "misuse") {
    return TRY(rounds_up, w->pool, COPY_BYTES, OR_NULL(w->queue), &w->made.block);
}

/* Breaks when two threads are in it at once. */
static vram_status breaks_beside_itself(struct world *w) {
    (void)w;
    static _Atomic int inside;
    inside++;
    usleep(100);
    bool alone = inside-- == 1;
    return alone ? VRAM_OK : vr_fail(VRAM_ERR_BACKEND, "planted");
}

PLANTED(vram_queue_poll, breaks_beside_itself, QUEUE, 0, "storm") {
    return TRY(breaks_beside_itself, FIXED(w));
}
