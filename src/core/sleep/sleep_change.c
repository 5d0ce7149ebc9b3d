/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_change.c: one change of a pool's sleep: the sleep states that are changing, and the driver
 * calls that its kinds share.
 */
#include "core/backing/backing.h"
#include "core/cache/drain.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "core/limit/tag.h"
#include "core/space/span.h"
#include "track/event.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTS_LEAST = 16 }; /* of a change, if it has so many states */

#define PART_MOST (UINT64_C(256) << 20) /* a few milliseconds of the bus and of the driver */

static int by_address(const void *a, const void *b) {
    const struct vr_sleep_state *first = *(struct vr_sleep_state *const *)a,
                                *second = *(struct vr_sleep_state *const *)b;
    return (first->piece->addr > second->piece->addr) - (first->piece->addr < second->piece->addr);
}

vram_status vr_sleep_change_gather(struct vr_sleep_change *change) {
    assert(vr_pool_is_locked(change->pool));
    uint32_t count = 0;
    for (struct vr_sleep_state *sleep_state = change->pool->sleep.sleep_states; sleep_state;
         sleep_state = sleep_state->next) {
        count += sleep_state->changing;
    }
    change->sleep_states = vr_mem_alloc(count + 1, sizeof(struct vr_sleep_state *), vr_operation());
    if (!change->sleep_states) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (struct vr_sleep_state *sleep_state = change->pool->sleep.sleep_states; sleep_state;
         sleep_state = sleep_state->next) {
        if (sleep_state->changing) {
            change->sleep_states[change->count++] = sleep_state;
        }
    }
    qsort(change->sleep_states, change->count, sizeof(struct vr_sleep_state *), by_address);
    for (uint32_t i = 0; i < change->count; i++) {
        change->bytes += change->sleep_states[i]->piece->bytes;
    }
    return VRAM_OK;
}

uint32_t vr_sleep_part_end(const struct vr_sleep_change *change, uint32_t first) {
    uint64_t bytes = 0, wanted = vr_smaller(PART_MOST, change->bytes / PARTS_LEAST);
    do {
        bytes += change->sleep_states[first++]->piece->bytes;
    } while (first < change->count && bytes < wanted);
    return first;
}

void vr_sleep_note(struct vr_pool *pool) {
    uint32_t others = vr_load(&pool->uncached, VR_RELAXED) &
                      ~(uint32_t)(VR_UNCACHED_CHANGING | VR_UNCACHED_ASLEEP);
    uint32_t changing = pool->sleep.changing ? VR_UNCACHED_CHANGING : 0;
    uint32_t asleep = pool->sleep.whole ? VR_UNCACHED_ASLEEP : 0;
    vr_store(&pool->uncached, others | changing | asleep, VR_RELAXED);
    vr_addresses_note_sleep(pool, changing || asleep || pool->sleep.sleep_states,
                            pool->sleep.seals != NULL);
}

/* Moves sleep states that are seals, having become that or still being it, to the pool's list. */
static void keep_seals(struct vr_pool *pool, struct vr_sleep_state **ended) {
    for (struct vr_sleep_state **at = ended; *at;) {
        struct vr_sleep_state *seal = *at;
        if (seal->piece->seal == seal) {
            *at = seal->next;
            seal->changing = false;
            seal->next = pool->sleep.seals;
            pool->sleep.seals = seal;
        } else {
            at = &seal->next;
        }
    }
}

static uint64_t bytes_of_pieces(const struct vr_sleep_state *first) {
    uint64_t bytes = 0;
    for (; first; first = first->next) {
        bytes += first->piece->bytes;
    }
    return bytes;
}

void vr_sleep_note_bytes(struct vr_pool *pool) {
    vr_store(&pool->counters.asleep_bytes, bytes_of_pieces(pool->sleep.sleep_states), VR_RELAXED);
    vr_store(&pool->counters.sealed_bytes, bytes_of_pieces(pool->sleep.seals), VR_RELAXED);
}

/* Ends the sleep states of pieces that are awake again; the caller frees them. Under the lock. */
static struct vr_sleep_state *end_awake_states(struct vr_pool *pool) {
    struct vr_sleep_state *ended = NULL;
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_sleep_end(pool->spaces[part], &pool->sleep.sleep_states, &ended);
    }
    for (struct vr_sleep_state *sleep_state = pool->sleep.sleep_states; sleep_state;
         sleep_state = sleep_state->next) {
        sleep_state->changing = false;
    }
    keep_seals(pool, &ended);
    vr_sleep_note_bytes(pool);
    return ended;
}

void vr_sleep_states_free(struct vr_pool *pool, struct vr_sleep_state *first) {
    struct vr_sleep_state *next;
    for (struct vr_sleep_state *at = first; at; at = at->next) {
        vr_sleep_state_wake_host(pool, at);
    }
    for (struct vr_sleep_state *at = first; at; at = next) {
        next = at->next;
        vr_sleep_state_free_host(pool, at);
        vr_mem_free(at);
    }
}

void vr_sleep_change_end(struct vr_sleep_change *change, bool whole) {
    struct vr_pool *pool = change->pool;
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&pool->lock);
    assert(pool->sleep.changing); /* set when the change began: sleep.h (3) */
    for (uint32_t i = 0; i < change->count; i++) {
        change->sleep_states[i]->read_only = false;
    }
    struct vr_sleep_state *ended = end_awake_states(pool);
    pool->sleep.whole = whole && !(change->woken && !pool->sleep.sleep_states);
    pool->sleep.changing = false;
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_suspend(pool->spaces[part], pool->sleep.whole);
    }
    vr_pool_settle(pool);
    vr_sleep_note(pool);
    vr_pool_note_peak(pool);
    vr_mutex_unlock(&pool->lock);
    vr_sleep_states_free(pool, ended);
    vr_sleep_states_free(pool, change->ended);
    vr_mem_free(change->sleep_states);
    vr_error_restore(&error);
}

void vr_sleep_change_log(const struct vr_sleep_change *change) {
    static const char *const names[] = {"sleep", "wake", "seal", "unseal"};
    vr_memory_log(NULL, change->tag, change->pool->name, "%s: %llu bytes", names[change->kind],
                  (unsigned long long)change->bytes);
}

vram_status vr_sleep_change_step(struct vr_pool *pool, const struct vr_sleep_state *sleep_state,
                                 enum vr_step_kind kind) {
    struct vr_step one = {.kind = kind,
                          .piece = sleep_state->piece,
                          .addr = sleep_state->piece->addr,
                          .bytes = sleep_state->piece->bytes};
    return vr_pool_step(pool, &one);
}

vram_status vr_sleep_change_access(const struct vr_sleep_change *change, uint32_t from,
                                   uint32_t to) {
    const struct vr_piece *first = change->sleep_states[from]->piece,
                          *last = change->sleep_states[to - 1]->piece;
    struct vr_step access = {.kind = VR_STEP_ACCESS,
                             .handles = to - from,
                             .addr = first->addr,
                             .bytes = last->addr + last->bytes - first->addr};
    return vr_pool_step(change->pool, &access);
}

uint32_t vr_sleep_change_sealed_run(const struct vr_sleep_change *change, uint32_t from,
                                    uint32_t to) {
    uint32_t at = from;
    for (uint64_t end = change->sleep_states[from]->piece->addr; at < to; at++) {
        const struct vr_piece *piece = change->sleep_states[at]->piece;
        if (piece->addr != end || !piece->seal) {
            break;
        }
        end += piece->bytes;
    }
    return at;
}

vram_status vr_sleep_change_protect(const struct vr_sleep_change *change, uint32_t from,
                                    uint32_t to, bool read_only) {
    const struct vr_piece *first = change->sleep_states[from]->piece,
                          *last = change->sleep_states[to - 1]->piece;
    return vr_pool_protect(change->pool, first->addr, last->addr + last->bytes - first->addr,
                           read_only);
}

bool vr_sleep_protect_part(const struct vr_sleep_change *change, uint32_t first, uint32_t last) {
    struct vram_error error;
    bool done = true;
    vr_error_save(&error);
    for (uint32_t i = first; i < last; i++) {
        struct vr_sleep_state *sleep_state = change->sleep_states[i];
        if (sleep_state->piece->seal && sleep_state->mapped && !sleep_state->read_only) {
            sleep_state->read_only = vr_sleep_change_protect(change, i, i + 1, true) == VRAM_OK;
            done = done && sleep_state->read_only;
        }
    }
    vr_error_restore(&error);
    return done;
}

void vr_sleep_protect(const struct vr_sleep_change *change) {
    if (!vr_sleep_protect_part(change, 0, change->count)) {
        vr_log(VRAM_LOG_WARN, "the driver refused to make sealed memory of pool \"%s\" read-only",
               change->pool->name);
    }
}

vram_status vr_sleep_change_release(const struct vr_sleep_change *change,
                                    struct vr_sleep_state *sleep_state) {
    vram_status status = vr_sleep_change_step(change->pool, sleep_state, VR_STEP_RELEASE);
    if (status == VRAM_OK) {
        vr_mutex_lock(&change->pool->lock);
        vr_sleep_set_released(sleep_state, true);
        vr_mutex_unlock(&change->pool->lock);
        sleep_state->emptied = true;
    }
    return status;
}

/* The block at an address, or NULL. Under the lock. */
static const struct vr_block *block_at(const struct vr_pool *pool, vram_addr addr) {
    for (int part = 0; part < VR_PART_COUNT; part++) {
        struct vr_space *space = pool->spaces[part];
        for (struct vr_block *span = vr_span_first(space); span; span = vr_span_next(space, span)) {
            if (span->span.kind == VR_SPAN_BLOCK && addr >= vr_span_addr(span) &&
                addr < vr_span_end(span)) {
                return span;
            }
        }
    }
    return NULL;
}

vram_status vr_sleep_seal_broken(const struct vr_sleep_change *change, vram_addr addr,
                                 uint8_t sealed, uint8_t found) {
    struct vr_pool *pool = change->pool;
    char text[VRAM_ERROR_TEXT_MAX];
    vr_mutex_lock(&pool->lock);
    const struct vr_block *block = block_at(pool, addr);
    const char *tag = block ? vr_tag_name(vr_load(&block->tag, VR_RELAXED)) : NULL;
    uint64_t first = block ? vr_span_addr(block) : addr, end = block ? vr_span_end(block) : addr;
    vr_mutex_unlock(&pool->lock);
    snprintf(text, sizeof text,
             "sealed block 0x%llx of %llu bytes%s%s%s was written: byte %llu is 0x%02x and was "
             "0x%02x when it was sealed",
             (unsigned long long)first, (unsigned long long)(end - first), tag ? " tagged \"" : "",
             tag ? tag : "", tag ? "\"" : "", (unsigned long long)(addr - first), found, sealed);
    vr_counter_add(&pool->counters.damaged_blocks, 1);
    vr_log(VRAM_LOG_ERROR, "pool \"%s\": %s", pool->name, text);
    return vr_fail(VRAM_ERR_CORRUPT, "%s", text);
}

void vr_pool_forget_sleep(struct vr_pool *pool) {
    vr_sleep_states_free(pool, pool->sleep.sleep_states);
    vr_sleep_states_free(pool, pool->sleep.seals);
    pool->sleep.sleep_states = pool->sleep.seals = NULL;
    vr_sleep_stores_forget(pool);
}
