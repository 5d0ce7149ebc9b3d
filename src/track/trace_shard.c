/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_shard.c: see trace_shard.h.
 */
#include "track/trace_shard.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>

enum { LOST_STEP = 64 }; /* events lost by a shard between two that the header shows */

_Static_assert(VR_TRACE_DEFINED * 8 == 1 << 16, "a bit for each number that the table may give");

/* --------------------------------------------------------------------- shards */

static struct vr_trace_shard *shard_make(struct vr_trace_shards *shards, uint32_t number) {
    VR_OPERATION("vram_trace_begin");
    void *found = NULL;
    struct vr_trace_shard *shard = vr_mem_alloc(1, sizeof *shard, vr_operation());
    if (!shard) {
        return NULL;
    }
    shard->number = number;
    if (!vr_cas(&shards->all[number], &found, shard, VR_ACQ_REL)) {
        vr_mem_free(shard);
        return found;
    }
    return shard;
}

vram_status vr_trace_shards_begin(struct vr_trace_shards *shards) {
    uint32_t slots = shards->file.slots;
    shards->start = shards->file.start;
    shards->count = VR_TRACE_SHARDS_MAX;
    while (slots && shards->count > slots / 2) { /* a ring has more slots than shards */
        shards->count /= 2;
    }
    vr_biased_locks_start();
    return shard_make(shards, 0) ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

/* The first shard always exists, and serves if there is no memory for another. */
static struct vr_trace_shard *shard_of_thread(struct vr_trace_shards *shards) {
    uint32_t number = (uint32_t)vr_os_thread_number() & (shards->count - 1);
    struct vr_trace_shard *shard = vr_load(&shards->all[number], VR_ACQUIRE);
    if (!shard) {
        vram_error before;
        vr_error_save(&before);
        shard = shard_make(shards, number);
        vr_error_restore(&before);
    }
    return shard ? shard : vr_load(&shards->all[0], VR_ACQUIRE);
}

struct vr_trace_shard *vr_trace_shard_take(struct vr_trace_shards *shards) {
    struct vr_trace_shard *shard = shard_of_thread(shards);
    if (!vr_biased_lock_take(&shard->lock)) {
        vr_fetch_add(&shards->tossed, 1, VR_RELAXED);
        return NULL;
    }
    return shard;
}

void vr_trace_shard_give(struct vr_trace_shard *shard) {
    vr_biased_lock_give(&shard->lock);
}

static void count_one(vr_atomic_u64 *counter) {
    vr_store(counter, vr_load(counter, VR_RELAXED) + 1, VR_RELAXED);
}

void vr_trace_shard_lose(struct vr_trace_shards *shards, struct vr_trace_shard *shard) {
    count_one(&shard->lost);
    uint64_t lost = vr_load(&shard->lost, VR_RELAXED);
    if (shard->lost_told == 0 || lost - shard->lost_told >= LOST_STEP) {
        vr_trace_file_lose(&shards->file, lost - shard->lost_told);
        shard->lost_told = lost;
    }
}

/* -------------------------------------------------------------------- chunks */

static bool chunk_next(struct vr_trace_shards *shards, struct vr_trace_shard *shard) {
    vram_status status = vr_trace_chunk_next(&shards->file, shard->number, &shard->chunk);
    shard->stopped = status == VRAM_ERR_IO;
    if (status != VRAM_OK) {
        return false;
    }
    shard->thread = 0;
    shard->addr = 0;
    shard->time = shard->chunk.last;
    memset(shard->sites, 0, sizeof shard->sites);
    memset(shard->defined, 0, sizeof shard->defined);
    return true;
}

bool vr_trace_shard_reserve(struct vr_trace_shards *shards, struct vr_trace_shard *shard,
                            uint32_t bytes, bool *fresh) {
    const uint32_t by = 2 * VR_TRACE_NUMBER_MAX;
    *fresh = !shard->chunk.bytes || bytes + by > VR_TRACE_CHUNK_BYTES - shard->chunk.used;
    if (shard->stopped || (*fresh && !chunk_next(shards, shard))) {
        vr_trace_shard_lose(shards, shard);
        return false;
    }
    if (shard->thread != vr_os_thread_number()) {
        shard->thread = vr_os_thread_number();
        uint8_t *at = vr_trace_number(vr_trace_shard_at(shard) + 1, shard->thread);
        vr_trace_shard_commit(shard, VR_RECORD_BY, at);
    }
    return true;
}

void vr_trace_shards_sums(struct vr_trace_shards *shards, struct vr_trace_end *sums) {
    *sums = (struct vr_trace_end){.lost = vr_load(&shards->tossed, VR_RELAXED)};
    for (uint32_t i = 0; i < shards->count; i++) {
        struct vr_trace_shard *shard = vr_load(&shards->all[i], VR_ACQUIRE);
        if (shard) {
            sums->events += vr_load(&shard->events, VR_RELAXED);
            sums->lost += vr_load(&shard->lost, VR_RELAXED);
        }
    }
}

void vr_trace_shards_end(struct vr_trace_shards *shards, bool ours, struct vr_trace_end *end) {
    vr_trace_shards_sums(shards, end);
    for (uint32_t i = 0; i < shards->count; i++) {
        struct vr_trace_shard *shard = vr_load(&shards->all[i], VR_ACQUIRE);
        if (shard && ours) {
            vr_trace_chunk_end(&shards->file, &shard->chunk);
            end->last = shard->time > end->last ? shard->time : end->last;
        } else if (shard) {
            vr_trace_chunk_forget(&shards->file, &shard->chunk);
        }
        vr_mem_free(shard);
    }
}

/* --------------------------------------------------------------------- sites */

static struct vr_trace_site *site_of(struct vr_trace_shard *shard, uint64_t pool, uint64_t queue,
                                     const char *tag) {
    uint64_t key = (pool ^ queue * 3 ^ (uintptr_t)tag) * UINT64_C(0x9E3779B97F4A7C15);
    return &shard->sites[key >> 32 & (VR_TRACE_SITES - 1)];
}

void vr_trace_site_keep(struct vr_trace_shard *shard, uint64_t pool, uint64_t queue,
                        const char *tag, const struct vr_trace_numbers *numbers) {
    struct vr_trace_site *site = site_of(shard, pool, queue, tag);
    *site = (struct vr_trace_site){.pool = pool, .queue = queue, .tag = tag};
    uint8_t *at = vr_trace_number(vr_trace_number(site->place, numbers->pool), numbers->queue);
    site->place_bytes = (uint8_t)(at - site->place);
    site->tail_bytes = (uint8_t)(vr_trace_number(site->tail, numbers->tag) + 2 - site->tail);
}

/* ------------------------------------------------------------- quick events */

static vr_atomic_ptr quick_shards; /* struct vr_trace_shards * */

void vr_trace_quick_to(struct vr_trace_shards *shards) {
    vr_store(&quick_shards, shards, VR_SEQ_CST);
}

/* A record that has been begun, up to its address; NULL: the event has to be sent. Keeps (2). */
static inline uint8_t *quick_begin(struct vr_trace_shards *shards, struct vr_trace_shard *shard,
                                   const struct vr_trace_block *block,
                                   const struct vr_trace_site *site, uint8_t kind) {
    bool early = kind == VR_RECORD_ALLOC || (block->own && VR_OS_COUNTER_BEFORE_STORES);
    uint64_t ticks = early ? vr_clock_ticks() : vr_clock_ticks_ordered();
    uint64_t now = ticks - shards->start;
    if (__builtin_expect((int64_t)(now - shard->time) < 0, 0)) {
        now = shard->time;
    }
    if (__builtin_expect(now >= vr_load(&shards->due, VR_RELAXED), 0)) {
        return NULL;
    }
    uint8_t *at = vr_trace_number(vr_trace_shard_at(shard) + 1, now - shard->time);
    shard->time = shard->chunk.last = now;
    memcpy(at, site->place, sizeof site->place);
    at = vr_trace_difference(at + site->place_bytes, block->addr, shard->addr);
    shard->addr = block->addr;
    return vr_trace_number(at, block->bytes);
}

static inline bool quick_write(struct vr_trace_shards *shards, struct vr_trace_shard *shard,
                               const struct vr_trace_block *block, uint8_t kind) {
    const struct vr_trace_site *site = site_of(shard, block->pool, block->queue, block->tag);
    if (__builtin_expect(site->pool != block->pool || site->queue != block->queue ||
                             site->tag != block->tag || shard->thread != vr_os_thread_number(),
                         0)) {
        return false;
    }
    if (__builtin_expect(VR_TRACE_CHUNK_BYTES - shard->chunk.used < VR_TRACE_EVENT_MAX, 0)) {
        if (shard->stopped) {
            vr_trace_shard_lose(shards, shard);
        }
        return shard->stopped;
    }
    uint8_t *at = quick_begin(shards, shard, block, site, kind);
    if (__builtin_expect(!at, 0)) {
        return false;
    }
    if (kind == VR_RECORD_ALLOC) {
        at = vr_trace_number(at, block->held - block->bytes);
        memcpy(at, site->tail, sizeof site->tail);
        at += site->tail_bytes;
        shard->chunk.blocks++;
        shard->chunk.live_bytes += (int64_t)block->bytes;
    } else {
        shard->chunk.blocks--;
        shard->chunk.live_bytes -= (int64_t)block->bytes;
    }
    vr_trace_shard_commit(shard, kind, at);
    count_one(&shard->events);
    return true;
}

static inline bool quick_event(const struct vr_trace_block *block, uint8_t kind) {
    struct vr_trace_shards *shards = vr_load(&quick_shards, VR_ACQUIRE);
    if (!shards) {
        return false;
    }
    uint32_t number = (uint32_t)vr_os_thread_number() & (shards->count - 1);
    struct vr_trace_shard *shard = vr_load(&shards->all[number], VR_ACQUIRE);
    if (!shard || !vr_biased_lock_try(&shard->lock)) {
        return false;
    }
    bool done = quick_write(shards, shard, block, kind);
    vr_biased_lock_give(&shard->lock);
    return done;
}

bool vr_trace_quick_alloc(const struct vr_trace_block *block) {
    return quick_event(block, VR_RECORD_ALLOC);
}

bool vr_trace_quick_free(const struct vr_trace_block *block) {
    return quick_event(block, VR_RECORD_FREE);
}
