/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_seal.c: seals memory and opens seals: sleep.h (5).
 *
 *   seal     the first five steps of falling asleep, then the pieces become read-only, and their
 *            sleep states become seals.
 *   unseal   the seals become sleep states again. Where the driver makes a piece writable, the
 *            state ends and its host memory is freed; else it becomes a seal again.
 *
 * A driver that refuses to make memory read-only does not make sealing fail: the library still
 * refuses copies into it, and that no kernel writes there is then a promise of the program. Pools
 * with the mode poison check it when the memory falls asleep and when it is unsealed: the contents
 * on the host tell what it should be, byte by byte.
 */
#include "core/object/pool_object.h"

#include "base/clock.h"
#include "base/error.h"

#include <assert.h>

/* -------------------------------------------------------------------- sealing */

/* Sets whether the states [from, to) of the change are seals when it ends. */
static void set_seals(const struct vr_sleep_change *change, uint32_t from, uint32_t to,
                      bool seals) {
    vr_mutex_lock(&change->pool->lock);
    for (uint32_t i = from; i < to; i++) {
        struct vr_sleep_state *seal = change->sleep_states[i];
        seal->piece->seal = seals ? seal : NULL;
    }
    vr_mutex_unlock(&change->pool->lock);
}

static vram_status seal_memory(struct vr_sleep_change *change) {
    vram_status status = vr_sleep_change_begin(change);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_sleep_change_pick(change);
    if (status == VRAM_OK && (status = vr_sleep_change_keep(change, NULL)) == VRAM_OK) {
        set_seals(change, 0, change->count, true);
        vr_sleep_protect(change);
        vr_sleep_change_log(change);
    }
    vr_sleep_change_end(change, change->pool->sleep.whole);
    return status;
}

/* ------------------------------------------------------------------ unsealing */

/* Whether the seals that are marked as changing can be opened. Under the lock. */
static vram_status seals_check(const struct vr_sleep_change *change) {
    const struct vr_pool *pool = change->pool;
    uint32_t count = 0;
    for (struct vr_sleep_state *seal = pool->sleep.seals; seal; seal = seal->next) {
        if (seal->changing && seal->piece->sleep_state) {
            return vr_fail(VRAM_ERR_BUSY,
                           "sealed memory of pool \"%s\" is asleep; call vram_pool_wake first",
                           pool->name);
        }
        count += seal->changing;
    }
    return count ? VRAM_OK
           : change->tag
               ? vr_fail(VRAM_ERR_INVALID, "nothing tagged \"%s\" is sealed", change->tag)
               : vr_fail(VRAM_ERR_INVALID, "nothing of pool \"%s\" is sealed", pool->name);
}

/* Makes sleep states of the seals that are changing. Under the lock. */
static void seals_take(struct vr_pool *pool) {
    for (struct vr_sleep_state **at = &pool->sleep.seals; *at;) {
        struct vr_sleep_state *seal = *at;
        if (seal->changing) {
            *at = seal->next;
            seal->next = pool->sleep.sleep_states;
            pool->sleep.sleep_states = seal;
            seal->piece->sleep_state = seal;
            assert(seal->mapped); /* since it was created */
        } else {
            at = &seal->next;
        }
    }
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_sleep_note_blocks(pool->spaces[part]);
    }
}

static vram_status unseal_begin(struct vr_sleep_change *change) {
    struct vr_pool *pool = change->pool;
    vr_mutex_lock(&pool->lock);
    vram_status status =
        pool->sleep.changing
            ? vr_fail(VRAM_ERR_BUSY, "another thread is changing the pool's sleep or seals")
            : VRAM_OK;
    for (int part = 0; part < VR_PART_COUNT && status == VRAM_OK; part++) {
        vr_sleep_mark_seals(pool->spaces[part], change->tag);
    }
    if (status == VRAM_OK && (status = seals_check(change)) == VRAM_OK) {
        pool->sleep.changing = true;
        seals_take(pool);
        vr_sleep_note(pool);
    }
    vr_mutex_unlock(&pool->lock);
    return status;
}

/* Checks when the work that was submitted has ended, or has not in time. */
static vram_status verify_idle(const struct vr_sleep_change *change) {
    struct vram_error error;
    vr_error_save(&error);
    if (vr_load(&change->pool->guard.modes, VR_RELAXED) & VRAM_POOL_POISON) {
        (void)vr_sleep_wait_for_work(change);
    }
    vr_error_restore(&error);
    return vr_sleep_seals_verify(change);
}

static vram_status unseal_memory(struct vr_sleep_change *change) {
    vram_status status = unseal_begin(change);
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&change->pool->lock);
    status = vr_sleep_change_gather(change);
    vr_mutex_unlock(&change->pool->lock);
    vram_status found = status == VRAM_OK ? verify_idle(change) : VRAM_OK;
    for (uint32_t from = 0, to; from < change->count && status == VRAM_OK; from = to) {
        to = vr_sleep_change_sealed_run(change, from, change->count);
        status = vr_sleep_change_protect(change, from, to, false);
        if (status == VRAM_OK) {
            set_seals(change, from, to, false);
        }
    }
    if (status == VRAM_OK) {
        vr_sleep_change_log(change);
    }
    vr_sleep_change_end(change, change->pool->sleep.whole);
    return status == VRAM_OK ? found : status;
}

static vram_status change_seals(vram_pool *handle, const char *tag, bool seal) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    status = vr_sleep_check(pool, tag);
    if (status == VRAM_OK) {
        struct vr_sleep_change change = {.pool = pool,
                                         .kind = seal ? VR_SLEEP_SEAL : VR_SLEEP_UNSEAL,
                                         .tag = tag,
                                         .contents = VRAM_SLEEP_HOST,
                                         .deadline =
                                             vr_deadline_in(pool->device->context->wait_ns)};
        status = seal ? seal_memory(&change) : unseal_memory(&change);
    }
    vr_leave(pool);
    return status;
}

vram_status vram_pool_seal(vram_pool *handle, const char *tag) {
    VR_CALL;
    return change_seals(handle, tag, true);
}

vram_status vram_pool_unseal(vram_pool *handle, const char *tag) {
    VR_CALL;
    return change_seals(handle, tag, false);
}
