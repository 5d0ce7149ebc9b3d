/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep.c: puts pools to sleep.
 *
 * The steps; if one fails, those before it are undone in reverse:
 *
 *   1. Threads stop caching blocks. A pool that sleeps as a whole stops allocating.
 *   2. All work is waited for and free memory is released. Open plans end, and their blocks have
 *      left the space: a block that is leaving it must not be asleep.
 *   3. Pieces get sleep states: from here on new copies are rejected (sleep.h (1)).
 *   4. Work that was submitted before is waited for.
 *   5. Contents are copied to the host.
 *   6. All pieces are unmapped, then released. Until the first release, the undo is to map them
 *      again: a handle keeps its contents. After it there is no undo, and a piece that the driver
 *      refuses to release stays held; if it releases none, that is a failure. (To unmap and release
 *      parts beside the copies took 16 GiB of an H200 0.5 to 0.67 s instead of 0.66 to 0.84. But
 *      when host memory runs out later on, there may be none to undo it.)
 *
 * sleep_wake.c wakes them. sleep_seal.c seals with steps 1 to 5. sleep_rebuild.c replaces pieces
 * after steps 1 to 4.
 */
#include "core/cache/drain.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "device/ops.h"

#include <assert.h>
#include <stdlib.h>

enum { POLL_NS = 20000 }; /* between two polls for plans of other threads, and for graphs */

/* ------------------------------------------------------------------- waiting */

/* The queue of a captured region makes no points: its graphs may be launched at any time. That none
   is while the memory sleeps is the program's part; those that run now are waited for. */
static vram_status wait_for_graphs(struct vr_queue_object *queue, uint64_t deadline) {
    vram_status status;
    while ((status = vr_queue_poll(&queue->base)) == VRAM_ERR_NOT_READY) {
        if (vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_TIMEOUT, "a captured graph was still running at the deadline");
        }
        vr_clock_sleep(POLL_NS);
    }
    return status;
}

/* Waits until calls that are submitting to the queue have returned and their work is complete. */
static vram_status settle_queue(struct vr_queue_object *queue,
                                const struct vr_sleep_change *change) {
    if (vr_load(&queue->finished, VR_ACQUIRE) || !vr_queue_hold(queue)) {
        return VRAM_OK;
    }
    vram_status status = VRAM_OK;
    if (!vr_entry_wait(&queue->submitting, change->deadline, NULL)) {
        status = vr_fail(VRAM_ERR_TIMEOUT,
                         "another thread was still submitting work to a queue at the deadline");
    }
    if (status == VRAM_OK) {
        status = vr_load(&queue->captured, VR_ACQUIRE) ? wait_for_graphs(queue, change->deadline)
                                                       : vr_queue_settle(queue, change->deadline);
    }
    vr_queue_release(queue);
    return status;
}

static vram_status settle_queues(const struct vr_sleep_change *change, bool captured) {
    struct vr_queue_object *queue;
    vram_status status = VRAM_OK;
    for (uint64_t last = 0;
         status == VRAM_OK && (queue = vr_queue_behind(change->pool->device, last));) {
        last = queue->object.handle;
        if (vr_load(&queue->captured, VR_ACQUIRE) == captured) {
            status = settle_queue(queue, change);
        }
        vr_leave(queue);
    }
    return status;
}

/* Queues of captured regions come last: the queue that such a one shares its native queue with can
   tell that a capture is going on there (VRAM_ERR_CAPTURE), where a poll only says not ready. */
vram_status vr_sleep_wait_for_work(const struct vr_sleep_change *change) {
    struct vr_device_object *device = change->pool->device;
    vram_status status = settle_queues(change, false);
    if (status == VRAM_OK) {
        status = settle_queues(change, true);
    }
    if (status == VRAM_OK && !vr_readers_wait(device, change->deadline)) {
        status = vr_fail(VRAM_ERR_TIMEOUT,
                         "another device was still reading from this one at the deadline");
    }
    return status;
}

static bool plans_are_open(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    bool open = pool->leaving_plans || vr_space_open_plans(pool->spaces[VR_PART_SMALL]) ||
                vr_space_open_plans(pool->spaces[VR_PART_LARGE]);
    vr_mutex_unlock(&pool->lock);
    return open;
}

static vram_status wait_for_plans(const struct vr_sleep_change *change) {
    while (plans_are_open(change->pool)) {
        if (vr_deadline_passed(change->deadline)) {
            return vr_fail(VRAM_ERR_BUSY,
                           "an allocation of another thread is still in progress; try again");
        }
        vr_clock_sleep(POLL_NS);
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------ falling asleep */

void vr_sleep_change_map_again(const struct vr_sleep_change *change, uint32_t at) {
    struct vr_sleep_state *sleep_state = change->sleep_states[at];
    for (int tries = 0; tries < 2 && !sleep_state->mapped; tries++) {
        if (vr_sleep_change_step(change->pool, sleep_state, VR_STEP_MAP) == VRAM_OK) {
            bool usable = vr_sleep_change_access(change, at, at + 1) == VRAM_OK;
            sleep_state->mapped =
                usable || vr_sleep_change_step(change->pool, sleep_state, VR_STEP_UNMAP) != VRAM_OK;
            /* Mapped without access it is unusable and stays asleep. */
            sleep_state->changing = usable || !sleep_state->mapped;
        }
    }
    sleep_state->changing = sleep_state->changing && sleep_state->mapped;
}

/* The undo of step 6. */
static void wake_again(const struct vr_sleep_change *change) {
    struct vram_error error;
    uint64_t left = 0;
    vr_error_save(&error);
    for (uint32_t i = 0; i < change->count; i++) {
        vr_sleep_change_map_again(change, i);
    }
    vr_sleep_protect(change);
    for (uint32_t i = 0; i < change->count; i++) {
        left += change->sleep_states[i]->changing ? 0 : change->sleep_states[i]->piece->bytes;
    }
    if (left) {
        vr_log(VRAM_LOG_ERROR, "%llu bytes of pool \"%s\" could not be restored; they stay asleep",
               (unsigned long long)left, change->pool->name);
    }
    vr_error_restore(&error);
}

/* Unmaps the states [first, last) that are mapped. */
static vram_status unmap_part(const struct vr_sleep_change *change, uint32_t first, uint32_t last) {
    vram_status status = VRAM_OK;
    for (uint32_t i = first; i < last && status == VRAM_OK; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (sleep_state->mapped) {
            status = vr_sleep_change_step(change->pool, sleep_state, VR_STEP_UNMAP);
            sleep_state->mapped = status != VRAM_OK;
        }
    }
    return status;
}

/* Releases those of [first, last) that are not, with two tries each; returns the bytes that are
   left. The error record tells of the last refusal. */
static uint64_t release_part(const struct vr_sleep_change *change, uint32_t first, uint32_t last) {
    uint64_t kept = 0;
    for (uint32_t i = first; i < last; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (!sleep_state->piece->released &&
            vr_sleep_change_release(change, sleep_state) != VRAM_OK &&
            vr_sleep_change_release(change, sleep_state) != VRAM_OK) {
            kept += sleep_state->piece->bytes;
        }
    }
    return kept;
}

/* The rest of step 6. If it fails, nothing was released. */
static vram_status release_rest(const struct vr_sleep_change *change) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = unmap_part(change, 0, change->count);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t kept = release_part(change, 0, change->count);
    if (kept && kept == change->bytes) {
        return vr_error_get()->status;
    }
    vr_error_restore(&error);
    if (kept) {
        vr_log(VRAM_LOG_WARN, "the driver refused to release %llu bytes of sleeping pool \"%s\"",
               (unsigned long long)kept, change->pool->name);
    }
    return VRAM_OK;
}

vram_status vr_sleep_change_keep(const struct vr_sleep_change *change, vr_sleep_part_fn *copied) {
    struct vr_sleep_copies *copies = NULL;
    bool safe = true;
    vram_status status = vr_sleep_store_open(change);
    if (status == VRAM_OK &&
        (status = vr_sleep_copies_begin(change, VR_SLEEP_OUT, copied, &copies)) == VRAM_OK) {
        vr_sleep_copies_allow(copies, change->count);
        status = vr_sleep_copies_end(copies, VRAM_OK, &safe);
    }
    if (status == VRAM_OK && change->contents == VRAM_SLEEP_PINNED) {
        status = vr_sleep_stores_lock(change);
    }
    if (!safe) {
        vr_log(VRAM_LOG_ERROR, "a copy out of pool \"%s\" never finished; its host memory is kept",
               change->pool->name);
        for (uint32_t i = 0; i < change->count; i++) {
            change->sleep_states[i]->host = NULL;
            change->sleep_states[i]->store = NULL;
        }
    }
    return status;
}

/* Steps 5 and 6. */
static vram_status put_to_sleep(const struct vr_sleep_change *change) {
    vram_status status = VRAM_OK;
    if (change->contents != VRAM_SLEEP_DROP) {
        status = vr_sleep_change_keep(change, NULL);
    }
    if (status == VRAM_OK) {
        status = release_rest(change);
    }
    if (status != VRAM_OK) {
        wake_again(change);
    }
    return status;
}

vram_status vr_sleep_change_begin(const struct vr_sleep_change *change) {
    struct vr_pool *pool = change->pool;
    bool whole = change->kind == VR_SLEEP_FALL && !change->tag;
    vram_status status = VRAM_OK;
    vr_mutex_lock(&pool->lock);
    if (pool->sleep.changing) {
        status = vr_fail(VRAM_ERR_BUSY, "another thread is changing the pool's sleep or seals");
    } else if (whole && pool->sleep.whole) {
        status = vr_fail(VRAM_ERR_INVALID, "pool \"%s\" is asleep already", pool->name);
    } else if (change->kind == VR_SLEEP_REBUILD && pool->sleep.whole) {
        status =
            vr_fail(VRAM_ERR_BUSY, "pool \"%s\" is asleep; call vram_pool_wake first", pool->name);
    } else {
        pool->sleep.changing = true;
        vr_sleep_note(pool);
        for (int part = 0; part < VR_PART_COUNT && whole; part++) {
            vr_space_suspend(pool->spaces[part], true);
        }
    }
    vr_mutex_unlock(&pool->lock);
    return status;
}

vram_status vr_sleep_change_settle(const struct vr_sleep_change *change) {
    struct vram_error error;
    uint64_t released;
    vr_pool_drop_caches(change->pool, VR_NO_QUEUE);
    (void)vr_guard_release(change->pool);
    vram_status status = vr_sleep_wait_for_work(change);
    if (status == VRAM_OK && !change->tag && change->kind == VR_SLEEP_FALL) {
        vr_error_save(&error);
        (void)vr_guard_empty_quarantine(change->pool);
        (void)vr_pool_trim(change->pool, 0, &released);
        vr_pressure_note(change->pool, false);
        vr_error_restore(&error); /* what could not be released falls asleep with the rest */
        status = wait_for_plans(change);
    }
    return status;
}

/* Step 3. */
static vram_status pick_states(struct vr_sleep_change *change) {
    struct vr_pool *pool = change->pool;
    bool seen = false, seal = change->kind == VR_SLEEP_SEAL;
    vram_status status = VRAM_OK;
    vr_mutex_lock(&pool->lock);
    assert(pool->sleep.changing && vr_load(&pool->uncached, VR_RELAXED)); /* sleep.h (3); step 1 */
    vr_pool_empty_central(pool, VR_NO_QUEUE);
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        status =
            vr_sleep_pick(pool->spaces[part], change->tag, seal, &pool->sleep.sleep_states, &seen);
    }
    if (status == VRAM_OK) {
        status = vr_sleep_change_gather(change);
    }
    vr_mutex_unlock(&pool->lock);
    if (status != VRAM_OK || (!change->tag && !seal) || change->count) {
        return status;
    }
    const char *tag = change->tag ? change->tag : "";
    return seen ? vr_fail(
                      VRAM_ERR_BUSY,
                      "all memory under blocks tagged \"%s\" is asleep%s already, or shared with "
                      "other blocks or processes",
                      tag, seal ? " or sealed" : "")
                : vr_fail(VRAM_ERR_INVALID, "no live block is tagged \"%s\"", tag);
}

vram_status vr_sleep_change_pick(struct vr_sleep_change *change) {
    vram_status status = vr_sleep_change_settle(change);
    if (status == VRAM_OK && (status = pick_states(change)) == VRAM_OK) {
        status = vr_sleep_wait_for_work(change);
    }
    return status;
}

bool vr_sleep_has_graphs(struct vr_device_object *device) {
    struct vr_queue_object *queue;
    bool found = false;
    for (uint64_t last = 0; !found && (queue = vr_queue_behind(device, last));) {
        last = queue->object.handle;
        found = vr_load(&queue->captured, VR_ACQUIRE);
        vr_leave(queue);
    }
    return found;
}

static vram_status fall_asleep(struct vr_sleep_change *change) {
    struct vr_pool *pool = change->pool;
    bool before;
    vram_status status = vr_sleep_change_begin(change);
    if (status != VRAM_OK) {
        return status;
    }
    before = pool->sleep.whole; /* stable while we have set `changing` */
    status = vr_sleep_change_pick(change);
    if (change->contents == VRAM_SLEEP_DROP && vr_sleep_has_graphs(pool->device)) {
        change->contents = VRAM_SLEEP_HOST; /* the next launch finds what the last one left */
    }
    if (status == VRAM_OK && (status = vr_sleep_seals_verify(change)) == VRAM_OK) {
        status = put_to_sleep(change);
    }
    if (status == VRAM_OK) {
        vr_counter_add(&pool->counters.sleeps, 1);
        vr_sleep_change_log(change);
    }
    vr_sleep_change_end(change, before || (status == VRAM_OK && !change->tag));
    return status;
}

vram_status vr_sleep_check(const struct vr_pool *pool, const char *tag) {
    if (!pool->range) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "pool \"%s\" runs on %s, whose addresses cannot outlive the memory",
                       pool->name,
                       pool->provider.alloc                ? "a provider's memory"
                       : pool->kind == VRAM_MEMORY_PINNED  ? "page-locked memory"
                       : pool->kind == VRAM_MEMORY_MANAGED ? "managed memory"
                       : pool->direct ? "the driver's own allocations (option pool)"
                                      : "segments");
    }
    return tag && !*tag ? vr_fail(VRAM_ERR_INVALID, "the tag is empty") : VRAM_OK;
}

vram_status vr_sleep_options_check(const struct vr_pool *pool,
                                   const struct vram_sleep_options *options) {
    vram_status status = vr_sleep_check(pool, options->tag);
    if (status != VRAM_OK) {
        return status;
    }
    if ((unsigned)options->contents > VRAM_SLEEP_PINNED) {
        return vr_fail(VRAM_ERR_INVALID, "contents is %d, not a value of vram_sleep_contents",
                       (int)options->contents);
    }
    /* To succeed and free nothing would mislead a program that sleeps to make room for others. */
    if (options->contents != VRAM_SLEEP_DROP &&
        pool->device->base.info.caps & VRAM_CAP_INTEGRATED) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the device shares its memory with the host, so contents kept there would "
                       "free nothing; use VRAM_SLEEP_DROP");
    }
    if (options->contents == VRAM_SLEEP_PINNED && !pool->device->base.pinned) {
        return vr_fail(VRAM_ERR_UNSUPPORTED, "the device has no page-locked memory");
    }
    if (options->contents == VRAM_SLEEP_DROP &&
        vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_RED_ZONES) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "red zones would be lost with the contents; use VRAM_SLEEP_HOST or _PINNED");
    }
    return VRAM_OK;
}

vram_status vr_pool_sleep(struct vr_pool *pool, const struct vram_sleep_options *options) {
    vram_status status = vr_sleep_options_check(pool, options);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_sleep_change change = {.pool = pool,
                                     .tag = options->tag,
                                     .contents = options->contents,
                                     .deadline = vr_deadline_in(pool->device->context->wait_ns)};
    return fall_asleep(&change);
}

vram_status vram_pool_sleep(vram_pool *handle, const vram_sleep_options *options) {
    VR_CALL;
    struct vram_sleep_options taken;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_pool_sleep(entered, &taken);
    }
    vr_leave(entered);
    return status;
}
