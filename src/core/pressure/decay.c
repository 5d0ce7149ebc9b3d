/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decay.c: see decay.h.
 *
 * Caches of other threads are read while their threads are kept out, with the pool's lock taken
 * inside: drain.c (2).
 */
#include "core/pressure/decay.h"

#include "core/cache/drain.h"

#include <assert.h>

/* What a walk through all bins of a pool does with each. */
struct bin_walk {
    struct vr_pool *pool;
    struct vr_survey *survey; /* output; NULL: none */
    /* How many of a bin's blocks stay; NULL: all. */
    uint32_t (*keep)(struct bin_walk *walk, const struct vr_bin_view *bin);
    const struct vr_survey *found; /* for keep */
    bool flip;                     /* for keep */
    bool tick;                     /* clears the marks that bins were used */
    uint64_t bytes;                /* of the blocks that left */
};

/* Counts one bin's uses and contents; returns how many of its blocks stay. Under the pool's
   lock. */
static uint32_t note_bin(struct bin_walk *walk, const struct vr_bin_view *bin) {
    assert(vr_pool_is_locked(walk->pool));
    uint32_t type = vr_type_of(bin->bytes);
    walk->pool->pressure.types.score[type] += bin->hits;
    if (walk->survey) {
        walk->survey->blocks[type] += bin->count;
        walk->survey->bytes[type] += bin->count * bin->bytes;
    }
    uint32_t kept = walk->keep && bin->count ? walk->keep(walk, bin) : bin->count;
    assert(kept <= bin->count);
    walk->bytes += (bin->count - kept) * bin->bytes;
    return kept;
}

static void walk_cache(struct bin_walk *walk, struct vr_cache *cache) {
    struct vr_block *blocks[VR_SMALL_DEPTH];
    struct vr_pool *pool = walk->pool;
    vr_pool_report_cache(cache);
    vr_mutex_lock(&pool->lock);
    struct vr_queue_stamp stamp =
        vr_queue_state_stamp(&pool->queue_states, cache->queue); /* drain.c (1) */
    for (uint32_t at = 0; at < VR_CACHE_BINS; at++) {
        struct vr_bin_view bin = vr_cache_bin_view(cache, at);
        uint32_t leaving = bin.count - note_bin(walk, &bin);
        if (walk->tick) {
            vr_cache_tick(cache, at);
        }
        if (leaving) {
            vr_cache_thin(cache, at, leaving, blocks);
        }
        for (uint32_t i = 0; i < leaving; i++) {
            vr_pool_to_space(pool, blocks[i], stamp);
        }
    }
    vr_mutex_unlock(&pool->lock);
}

static void walk_thread(struct vr_thread_state *thread, void *user) {
    struct bin_walk *walk = user;
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask; i++) {
        if (thread->caches[i] && thread->caches[i]->pool == walk->pool) {
            walk_cache(walk, thread->caches[i]);
        }
    }
}

static void walk_central(struct bin_walk *walk) {
    struct vr_pool *pool = walk->pool;
    vr_mutex_lock(&pool->lock);
    for (uint32_t at = 0; at < VR_CENTRAL_BINS; at++) {
        struct vr_central_bin *bin = &pool->central.bins[at];
        struct vr_bin_view view = {bin->bytes, bin->count, bin->used || bin->hits, bin->hits};
        uint32_t kept = note_bin(walk, &view);
        bin->hits = 0;
        bin->used = view.used && !walk->tick;
        struct vr_block *list = vr_central_thin(&pool->central, at, bin->count - kept);
        vr_pool_list_to_space(pool, list, bin->queue);
    }
    vr_pool_settle(pool);
    vr_mutex_unlock(&pool->lock);
}

static uint64_t walk_all(struct bin_walk *walk) {
    vr_thread_visit_all(walk_thread, walk);
    walk_central(walk);
    return walk->bytes;
}

/* ----------------------------------------------------------------- surveying */

/* A type is rare if it is used less than a quarter as often as the average; if none is used, all
   are rare. */
static void find_rare(const struct vr_types *types, struct vr_survey *survey) {
    uint64_t uses = 0;
    for (uint32_t i = 0; i < VR_TYPES; i++) {
        uses += survey->blocks[i] ? types->score[i] : 0;
        survey->types += survey->blocks[i] != 0;
        survey->all_bytes += survey->bytes[i];
    }
    for (uint32_t i = 0; i < VR_TYPES; i++) {
        uint64_t average = survey->types ? uses / survey->types : 0;
        survey->rare[i] = survey->blocks[i] && (types->score[i] < (average + 3) / 4 || !uses);
        survey->rare_types += survey->rare[i];
        survey->rare_bytes += survey->rare[i] ? survey->bytes[i] : 0;
    }
}

void vr_decay_survey(struct vr_pool *pool, bool age, struct vr_survey *survey) {
    struct bin_walk walk = {.pool = pool, .survey = survey};
    *survey = (struct vr_survey){.types = 0};
    walk_all(&walk);
    vr_mutex_lock(&pool->lock);
    find_rare(&pool->pressure.types, survey);
    for (uint32_t i = 0; age && i < VR_TYPES; i++) {
        pool->pressure.types.score[i] /= 2;
    }
    vr_mutex_unlock(&pool->lock);
}

/* --------------------------------------------------------------- releasing */

static uint32_t keep_half(struct bin_walk *walk, const struct vr_bin_view *bin) {
    if (bin->count > 1) {
        return bin->count / 2;
    }
    walk->flip = !walk->flip;
    return walk->flip ? 0 : 1;
}

uint64_t vr_decay_halve(struct vr_pool *pool) {
    struct bin_walk walk = {.pool = pool, .keep = keep_half};
    return walk_all(&walk);
}

static uint32_t keep_often_used(struct bin_walk *walk, const struct vr_bin_view *bin) {
    return walk->found->rare[vr_type_of(bin->bytes)] ? 0 : bin->count;
}

uint64_t vr_decay_drop(struct vr_pool *pool, const struct vr_survey *survey) {
    struct bin_walk walk = {.pool = pool, .keep = keep_often_used, .found = survey};
    return walk_all(&walk);
}

static uint32_t keep_used(struct bin_walk *walk, const struct vr_bin_view *bin) {
    (void)walk;
    return bin->used ? bin->count : bin->count / 2;
}

uint64_t vr_decay_tick(struct vr_pool *pool) {
    struct bin_walk walk = {.pool = pool, .keep = keep_used, .tick = true};
    return walk_all(&walk);
}

void vr_pool_restart_need(struct vr_pool *pool) {
    vr_mutex_lock(&pool->lock);
    pool->pressure.needed_before = pool->pressure.needed_bytes;
    pool->pressure.needed_bytes = pool->out_bytes;
    vr_mutex_unlock(&pool->lock);
}
