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
 *      refuses to release stays held.
 *
 * sleep_wake.c wakes them. sleep_seal.c seals with steps 1 to 5.
 */
#include "core/cache/drain.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "device/ops.h"

#include <assert.h>
#include <stdlib.h>

enum { POLL_NS = 20000 }; /* between two polls for plans of other threads */

/* ------------------------------------------------------------------- waiting */

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
        status = vr_queue_settle(queue, change->deadline);
    }
    vr_queue_release(queue);
    return status;
}

/* Waits for all queues of the device: any may use the memory, even one unknown to the pool. */
static vram_status wait_for_work(const struct vr_sleep_change *change) {
    struct vr_device_object *device = change->pool->device;
    struct vr_queue_object *queue;
    vram_status status = VRAM_OK;
    for (uint64_t last = 0; status == VRAM_OK && (queue = vr_queue_behind(device, last));) {
        last = queue->object.handle;
        status = settle_queue(queue, change);
        vr_leave(queue);
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

/* Maps everything again, piece by piece; nothing was released. A piece that the driver refuses
   twice stays asleep. */
static void map_again(const struct vr_sleep_change *change) {
    struct vram_error error;
    uint64_t left = 0;
    vr_error_save(&error);
    for (uint32_t i = 0; i < change->count; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        for (int tries = 0; tries < 2 && !sleep_state->mapped; tries++) {
            if (vr_sleep_change_step(change->pool, sleep_state, VR_STEP_MAP) == VRAM_OK) {
                bool usable = vr_sleep_change_access(change, i, i + 1) == VRAM_OK;
                sleep_state->mapped = usable || vr_sleep_change_step(change->pool, sleep_state,
                                                                     VR_STEP_UNMAP) != VRAM_OK;
                /* Mapped without access it is unusable and stays asleep. */
                sleep_state->changing = usable || !sleep_state->mapped;
                if (usable) {
                    vr_sleep_protect(change, i, i + 1);
                }
            }
        }
        left += sleep_state->mapped && sleep_state->changing ? 0 : sleep_state->piece->bytes;
    }
    if (left) {
        vr_log(VRAM_LOG_ERROR,
               "the driver refused to map %llu bytes of pool \"%s\" again; they stay asleep",
               (unsigned long long)left, change->pool->name);
    }
    vr_error_restore(&error);
}

static vram_status unmap_all(const struct vr_sleep_change *change) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < change->count && status == VRAM_OK; i++) {
        status = vr_sleep_change_step(change->pool, change->sleep_states[i], VR_STEP_UNMAP);
        change->sleep_states[i]->mapped = status != VRAM_OK;
    }
    return status;
}

/* On failure nothing was released. */
static vram_status release_all(const struct vr_sleep_change *change) {
    uint64_t kept = 0;
    vram_status first =
        change->count ? vr_sleep_change_release(change, change->sleep_states[0]) : VRAM_OK;
    if (first != VRAM_OK) {
        return first;
    }
    struct vram_error error;
    vr_error_save(&error);
    for (uint32_t i = 1; i < change->count; i++) {
        if (vr_sleep_change_release(change, change->sleep_states[i]) != VRAM_OK &&
            vr_sleep_change_release(change, change->sleep_states[i]) != VRAM_OK) {
            kept += change->sleep_states[i]->piece->bytes;
        }
    }
    vr_error_restore(&error);
    if (kept) {
        vr_log(VRAM_LOG_WARN, "the driver refused to release %llu bytes of sleeping pool \"%s\"",
               (unsigned long long)kept, change->pool->name);
    }
    return VRAM_OK;
}

vram_status vr_sleep_change_keep(const struct vr_sleep_change *change) {
    struct vr_sleep_copies *copies = NULL;
    bool safe = true;
    vram_status status = vr_sleep_store_open(change);
    if (status == VRAM_OK && (status = vr_sleep_copies_begin(change, true, &copies)) == VRAM_OK) {
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
    vram_status status =
        change->contents == VRAM_SLEEP_DROP ? VRAM_OK : vr_sleep_change_keep(change);
    if (status == VRAM_OK) {
        status = unmap_all(change);
        if (status == VRAM_OK) {
            status = release_all(change);
        }
        if (status != VRAM_OK) {
            map_again(change);
        }
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

/* Step 2. */
static vram_status drain_and_wait(const struct vr_sleep_change *change) {
    struct vram_error error;
    uint64_t released;
    vr_pool_drop_caches(change->pool, VR_NO_QUEUE);
    (void)vr_guard_release(change->pool);
    vram_status status = wait_for_work(change);
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
    return seen
               ? vr_fail(VRAM_ERR_BUSY,
                         "all memory under blocks tagged \"%s\" is asleep%s already or shared with "
                         "other blocks",
                         tag, seal ? " or sealed" : "")
               : vr_fail(VRAM_ERR_INVALID, "no live block is tagged \"%s\"", tag);
}

vram_status vr_sleep_change_pick(struct vr_sleep_change *change) {
    vram_status status = drain_and_wait(change);
    if (status == VRAM_OK && (status = pick_states(change)) == VRAM_OK) {
        status = wait_for_work(change);
    }
    return status;
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
    if (status == VRAM_OK) {
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

static vram_status check_options(const struct vr_pool *pool,
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

vram_status vram_pool_sleep(vram_pool *handle, const vram_sleep_options *options) {
    VR_CALL;
    struct vram_sleep_options taken;
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && (status = check_options(pool, &taken)) == VRAM_OK) {
        struct vr_sleep_change change = {.pool = pool,
                                         .tag = taken.tag,
                                         .contents = taken.contents,
                                         .deadline =
                                             vr_deadline_in(pool->device->context->wait_ns)};
        status = fall_asleep(&change);
    }
    vr_leave(pool);
    return status;
}
