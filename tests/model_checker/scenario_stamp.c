/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_stamp.c: the stamps that a pool takes from queues (core/cache/queue_state.c, stamp.c),
 * beside marks of other threads and beside the end of a queue.
 */
#include "explore_driver.h"
#include "explore_scenario.h"

#include "core/cache/drain.h"
#include "core/cache/stamp.h"

static struct vr_pool pool;
static struct vr_queue_object *const queue = &driver_queues[0];
static struct vr_queue_stamp stamp; /* after work of the queue */
static unsigned content;            /* what that work writes */

static struct vr_queue_id queue_id(void) {
    return (struct vr_queue_id){queue->object.handle};
}

static vram_queue *queue_handle(void) {
    return (vram_queue *)(uintptr_t)queue->object.handle;
}

static void pool_make(void) {
    driver_queues_make();
    driver.runs = true;
    pool.object.handle = 0x100;
    vr_mutex_init(&pool.lock, VR_RANK_POOL);
}

static void queue_ensure(void) {
    CHECK(vr_pool_ensure_queue(&pool, queue) == VRAM_OK);
}

/* ------------------------------------------------------------ beside marks */

static void pool_and_queue(void) {
    pool_make();
    queue_ensure();
}

static void mark(void) {
    uint64_t value;
    CHECK(vr_queue_mark(queue, &value) == VRAM_OK);
}

static void two_marks(void) {
    mark();
    mark();
}

static void memory_is_freed(void) {
    driver_work();
    vr_mutex_lock(&pool.lock);
    stamp = vr_queue_state_stamp(&pool.queue_states, queue_id());
    vr_mutex_unlock(&pool.lock);
}

/* A free that finds no memory for a queue state. */
static struct vr_block *block;

static void pool_and_block(void) {
    pool_make();
    block = scenario_memory(sizeof *block);
    vr_store(&block->state, VR_BLOCK_CACHED, VR_RELAXED);
    scenario_memory_ends = true;
}

static void block_is_freed(void) {
    driver_work();
    vr_pool_return_new(&pool, queue, block);
    CHECK(block->stateless);
    stamp = block->freed;
}

/* The work never ends. The mark that the stamp needs is made by a poll. */
static void stamp_has_not_passed(void) {
    CHECK(!vr_queue_passed(queue, stamp.value));
    (void)vr_pool_poll(&pool, false);
    CHECK(vr_load(&queue->issued, VR_RELAXED) >= stamp.value);
    CHECK(!vr_queue_passed(queue, stamp.value));
}

static void stateless_has_not_passed(void) {
    CHECK(!vr_queue_passed(queue, stamp.value));
}

static void poll(void) {
    (void)vr_pool_poll(&pool, false);
}

/* Free memory waits for work. */
bool vr_space_pending(struct vr_space *space, struct vr_stamp *pending) {
    (void)space;
    (void)pending;
    return true;
}

/* ---------------------------------------------------------- beside the end */

/* The driver makes no signal: a query, or the end of the queue, tells that its work is done. */
static void queue_ends(void) {
    uint64_t handle = queue->object.handle;
    content = 1;
    vr_store(&driver.idle, true, VR_RELEASE);
    vr_store(&queue->finished, true, VR_RELEASE);
    CHECK(vr_handle_retire(handle));
    vr_pool_forget_queue(&pool, queue_id());
    vr_handle_unpin(handle);
}

static void stamped_queue(void) {
    pool_and_queue();
    driver.stuck = true;
    stamp = vr_queue_state_stamp(&pool.queue_states, queue_id());
    mark();
}

static void unstamped_queue(void) {
    pool_make();
    driver.stuck = true;
}

static void stamp_is_checked(void) {
    vr_mutex_lock(&pool.lock);
    bool passed = vr_queue_state_passed(&pool.queue_states, stamp);
    vr_mutex_unlock(&pool.lock);
    CHECK(!passed || content == 1);
}

static void unpassed_is_looked_for(void) {
    vr_mutex_lock(&pool.lock);
    struct vr_queue_stamp unpassed = vr_queue_state_unpassed(&pool.queue_states, VR_NO_QUEUE);
    vr_mutex_unlock(&pool.lock);
    CHECK(unpassed.queue.handle || content == 1);
}

static void stamp_is_awaited(void) {
    CHECK(vr_pool_await(stamp, 0) != VRAM_OK || content == 1);
}

/* The driver is idle anyway, but only the end of the queue is ordered with its work. */
static void stamped_idle_queue(void) {
    stamped_queue();
    vr_store(&driver.idle, true, VR_RELAXED);
}

static void queue_is_drained(void) {
    bool ended = vr_load(&queue->finished, VR_RELAXED);
    CHECK(vr_queue_drained(queue_handle()) && (!ended || content == 1));
}

/* A queue that has ended gets no queue state: nothing would remove it. */
static void queue_is_entered(void) {
    struct vr_queue_object *entered = vr_handle_pin(VR_KIND_QUEUE, queue_handle());
    if (entered) {
        vr_mutex_lock(&pool.lock);
        vram_status status = vr_pool_ensure_queue(&pool, entered);
        vr_mutex_unlock(&pool.lock);
        CHECK(status == VRAM_OK || content == 1);
        vr_handle_unpin(entered->object.handle);
    }
}

static void no_state_is_left(void) {
    CHECK(!vr_queue_state_next(&pool.queue_states, VR_NO_QUEUE));
}

const struct scenario stamp_scenarios[] = {{"stamps",
                                            "a stamp beside two marks",
                                            pool_and_queue,
                                            {memory_is_freed, two_marks},
                                            stamp_has_not_passed,
                                            false},
                                           {"stamps",
                                            "a stamp beside a poll",
                                            pool_and_queue,
                                            {memory_is_freed, poll},
                                            stamp_has_not_passed,
                                            false},
                                           {"stamps",
                                            "a stamp without memory",
                                            pool_and_block,
                                            {block_is_freed, two_marks},
                                            stateless_has_not_passed,
                                            false},
                                           {"stamps",
                                            "a stamp at the end",
                                            stamped_queue,
                                            {queue_ends, stamp_is_checked},
                                            no_state_is_left,
                                            false},
                                           {"stamps",
                                            "none is left at the end",
                                            stamped_queue,
                                            {queue_ends, unpassed_is_looked_for},
                                            no_state_is_left,
                                            false},
                                           {"stamps",
                                            "a stamp awaited at the end",
                                            stamped_queue,
                                            {queue_ends, stamp_is_awaited},
                                            no_state_is_left,
                                            false},
                                           {"stamps",
                                            "a queue drained at the end",
                                            stamped_idle_queue,
                                            {queue_ends, queue_is_drained},
                                            no_state_is_left,
                                            false},
                                           {"stamps",
                                            "a queue entered at the end",
                                            unstamped_queue,
                                            {queue_ends, queue_is_entered},
                                            no_state_is_left,
                                            false},
                                           {.name = NULL}};
