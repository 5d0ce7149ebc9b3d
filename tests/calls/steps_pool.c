/* SPDX-License-Identifier: Apache-2.0 */
/* steps_pool.c: pools, what they hold, sleep and seals, limits and quotas. */
#include "calls/program.h"

#include <string.h>

enum { ASLEEP = 1, SEALED = 2 };

static const char *const tags[] = {NULL, "a", "a/b"};

uint64_t pool_awake(const struct object *pool_object, uint64_t asleep) {
    return pool_object->sleeping ? asleep : 0;
}

uint64_t pool_gives(const struct object *pool_object, uint64_t asleep) {
    return pool_awake(pool_object, asleep) | (pool_object->count ? EXHAUSTED : 0);
}

unsigned queue_for(const struct op *op, struct object *object) {
    struct object *drawn = OBJECT(QUEUE, op->queue);
    bool fits = op->queue && is_live(drawn) && drawn->parent == object_device(object);
    return fits ? op->queue : 0;
}

/* Those of the free pool are any; those of others answer alike everywhere. */
static uint32_t pool_flags(const struct op *op, bool any) {
    static const uint32_t portable[] = {0,
                                        VRAM_POOL_DETERMINISTIC,
                                        VRAM_POOL_TRACKED,
                                        VRAM_POOL_POWER_OF_TWO,
                                        VRAM_POOL_ZERO_ALLOC,
                                        VRAM_POOL_ZERO_FREE,
                                        VRAM_POOL_POISON,
                                        VRAM_POOL_RED_ZONES};
    uint32_t flags = settings.large ? 0 : portable[op->flags % 8];
    if (any) {
        flags = op->flags >> 8 & op->flags >> 20 & (VRAM_POOL_SHARE_GROUP * 2 - 1);
        flags |= op->flags & 16 ? VRAM_POOL_SHAREABLE : 0;
    }
    return flags | (strcmp(settings.mode, "segments") == 0 ? VRAM_POOL_SEGMENTS : 0);
}

STEP(pool_create) {
    struct object *made = OBJECT(POOL, op->pool);
    bool is_free = op->pool == FREE_POOL, any = is_free && !settings.large;
    vram_limits limits = {.size = sizeof limits, .fraction = 1};
    vram_pool_options options = {
        .size = sizeof options, .flags = pool_flags(op, any), .limits = &limits};
    r->portable = r->portable && !any;
    if (DO(r->may | (any ? UNSUPPORTED | INVALID : 0),
           vram_pool_create(device[op->device], &options, &pool[op->pool])) == VRAM_OK) {
        object_new(made, OBJECT(DEVICE, op->device))->flags = options.flags;
        made->portable = !is_free;
        made->count = settings.threads > 1 && is_free; /* any thread may limit it */
        made->traced = is_live(OBJECT(TRACE, 0));
    }
}

STEP(pool_destroy) {
    struct object *ended = OBJECT(POOL, op->pool);
    if (op->choice % 4 != 0 && settings.threads == 1) {
        return;
    }
    if (r->may & OK && settings.threads == 1) {
        unpin_all(r, ended);
    }
    DO(r->may, vram_pool_destroy(pool[op->pool]));
    object_end(r, ended);
}

STEP(pool_trim) {
    static const uint32_t flags[] = {0, VRAM_TRIM_MEMORY, VRAM_TRIM_CACHES, VRAM_TRIM_RARE};
    vram_trim_options options = {.size = sizeof options, .flags = flags[op->flags % 4]};
    DO(r->may, vram_pool_trim(pool[op->pool], &options, NULL));
}

STEP(pool_warm) {
    DO(r->may | pool_gives(OBJECT(POOL, op->pool), BUSY),
       vram_pool_warm(pool[op->pool], op->bytes % 65536, (uint32_t)(1 + op->nth % 4), NULL));
}

STEP(pool_stats) {
    struct object *on = OBJECT(POOL, op->pool);
    uint64_t blocks = 0, bytes = 0;
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status status = DO(r->may, vram_pool_stats_get(pool[op->pool], &stats));
    if (status != VRAM_OK || r->loose || settings.threads > 1) {
        return;
    }
    for (unsigned i = 0; i < SLOTS_block; i++) {
        bool one = is_live(OBJECT(BLOCK, i)) && OBJECT(BLOCK, i)->parent == on;
        blocks += one;
        bytes += one ? OBJECT(BLOCK, i)->bytes : 0;
    }
    EXPECT(stats.live_blocks >= blocks && stats.requested_bytes >= bytes,
           "%llu blocks of %llu bytes are live, the pool counts %llu of %llu",
           (unsigned long long)blocks, (unsigned long long)bytes,
           (unsigned long long)stats.live_blocks, (unsigned long long)stats.requested_bytes);
    EXPECT(stats.allocated_bytes >= stats.requested_bytes, "less is allocated than requested");
    expect_number(r, "allocations that were not freed", stats.live_blocks,
                  stats.allocs - stats.frees);
    expect_number(r, "damaged blocks", 0, stats.damaged_blocks);
    expect_number(r, "hits and misses", stats.allocs, stats.hits + stats.misses);
}

/* --------------------------------------------------------------- sleep and seals */

void contents_forget(const struct object *of) {
    static const enum type types[] = {TYPE_BLOCK, TYPE_BUFFER, TYPE_RING};
    for (unsigned i = 0; i < 3 * 32; i++) {
        struct object *object = &objects[types[i % 3]][i / 3];
        if (object_under(object, of)) {
            object->contents.count = 0;
            object->lost = true;
        }
    }
}

static bool pool_has_pins(const struct object *of) {
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        if (is_live(one) && one->parent == of && one->count) {
            return true;
        }
    }
    return false;
}

STEP(sleep) {
    struct object *on = OBJECT(POOL, FREE_POOL);
    const char *tag = tags[op->nth % 3];
    vram_sleep_options options = {
        .size = sizeof options, .contents = (vram_sleep_contents)(op->choice % 3), .tag = tag};
    uint64_t may = r->may;
    if (may & OK) {
        may |= BUSY | UNSUPPORTED | (tag || on->sleeping ? INVALID : 0);
        may = !tag && on->stopped ? INVALID | UNSUPPORTED : may;
    }
    if (DO(may | CROWDED, vram_pool_sleep(pool[FREE_POOL], &options)) != VRAM_OK || r->loose) {
        return;
    }
    on->sleeping |= ASLEEP;
    on->stopped = on->stopped || !tag;
    if (settings.threads > 1) {
        r->touched[r->touched_count++] = on; /* the model forgets after the round */
    } else if (options.contents == VRAM_SLEEP_DROP) {
        contents_forget(on);
    }
}

STEP(wake) {
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t may = r->may;
    if (may & OK) {
        may = !on->sleeping ? INVALID | UNSUPPORTED : OK | INVALID | UNSUPPORTED;
        may = on->stopped && !on->count ? OK : may | (on->count ? EXHAUSTED | OK : 0);
    }
    if (DO(may | CROWDED, vram_pool_wake(pool[FREE_POOL], NULL)) == VRAM_OK && !r->loose) {
        on->sleeping &= ~(uint32_t)ASLEEP;
        on->stopped = false;
    }
}

STEP(seal) {
    uint64_t may = r->may | CROWDED | (r->may & OK ? BUSY | INVALID | UNSUPPORTED : 0);
    if (DO(may, vram_pool_seal(pool[FREE_POOL], tags[op->nth % 3])) == VRAM_OK && !r->loose) {
        OBJECT(POOL, FREE_POOL)->sleeping |= SEALED;
    }
}

STEP(unseal) {
    uint64_t may = r->may | CROWDED | (r->may & OK ? BUSY | INVALID | UNSUPPORTED : 0);
    if (DO(may, vram_pool_unseal(pool[FREE_POOL], NULL)) == VRAM_OK && !r->loose) {
        OBJECT(POOL, FREE_POOL)->sleeping &= ~(uint32_t)SEALED;
    }
}

STEP(rebuild) {
    DO(r->may | (r->may & OK ? BUSY | UNSUPPORTED : 0),
       vram_pool_rebuild(pool[FREE_POOL], NULL, NULL));
}

/* A sleep that keeps everything, and a wake at once: contents stay, whatever the pool is. Pools on
   segments do not sleep. */
STEP(doze) {
    struct object *on = OBJECT(POOL, op->pool);
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    uint64_t may = OK | UNSUPPORTED | (pool_has_pins(on) || !on->portable ? BUSY : 0);
    vram_addr none;
    if (on->sleeping || QUIETLY(may, vram_pool_sleep(pool[op->pool], &options)) != VRAM_OK) {
        return;
    }
    DO(BUSY, vram_alloc(pool[op->pool], 4096, NULL, &none));
    if (DO(OK | (on->count ? EXHAUSTED : 0), vram_pool_wake(pool[op->pool], NULL)) != VRAM_OK &&
        !r->loose) {
        on->sleeping |= ASLEEP;
        on->stopped = true;
    }
}

/* ------------------------------------------------------------------------- limits */

STEP(limits) {
    uint64_t bytes = op->choice % 3 ? (UINT64_C(8) << 20) * (1 + op->choice % 7) : 0;
    vram_limits limits = {.size = sizeof limits, .hard_bytes = bytes};
    vram_status status =
        DO(r->may | (r->may & OK ? LIMIT : 0), vram_pool_limits_set(pool[FREE_POOL], &limits));
    if ((status == VRAM_OK || status == VRAM_ERR_LIMIT) && settings.threads == 1) {
        OBJECT(POOL, FREE_POOL)->count = bytes;
    }
}

STEP(quota) {
    QUIETLY(r->may | (r->may & OK ? LIMIT : 0),
            vram_tag_quota_set(device[op->device], "quota", 0, UINT64_C(32) << 20));
}

/* The environment's ceilings stay, whatever a program sets. */
STEP(option) {
    DO(OK, vram_option_set("quotas", op->choice % 2 ? "" : NULL));
}
