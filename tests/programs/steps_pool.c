/* SPDX-License-Identifier: Apache-2.0 */
/* steps_pool.c: pools, what they hold, sleep and seals, limits and quotas. */
#include "programs/steps.h"

#include <string.h>

const char *const tags[] = {"", "a", "a/b", "quota", "ceiling"};
enum { ASLEEP = 1, SEALED = 2, LIVE_BLOCKS = SLOTS_block };

/* Flags whose pools answer alike everywhere. */
static const uint32_t portable_flags[] = {0,
                                          VRAM_POOL_DETERMINISTIC,
                                          VRAM_POOL_TRACKED,
                                          VRAM_POOL_POWER_OF_TWO,
                                          VRAM_POOL_ZERO_ALLOC,
                                          VRAM_POOL_ZERO_FREE,
                                          VRAM_POOL_POISON,
                                          VRAM_POOL_RED_ZONES};

uint64_t pool_awake(const struct object *pool_object, uint64_t asleep) {
    return pool_object && pool_object->sleeping ? asleep : 0;
}

unsigned queue_for(const struct op *op, struct object *object) {
    struct object *drawn = OBJECT(QUEUE, op->queue);
    return op->queue && drawn->state == STATE_LIVE && drawn->parent == object_device(object)
               ? op->queue
               : 0;
}

void step_pool_create(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *made = OBJECT(POOL, op->pool), *on = OBJECT(DEVICE, op->device);
    uint64_t allowed = ALLOWED(&skip, on);
    uint32_t flags = settings.large ? 0 : portable_flags[op->flags % 8];
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    if (op->pool == FREE_POOL && !settings.large) {
        r->portable = false;
        flags = op->flags >> 8 & op->flags >> 20 & (VRAM_POOL_SHARE_GROUP * 2 - 1);
        flags |= op->flags & 16 ? VRAM_POOL_SHAREABLE : 0;
        allowed |= UNSUPPORTED | INVALID;
    }
    if (strcmp(settings.mode, "segments") == 0) {
        flags |= VRAM_POOL_SEGMENTS;
    }
    struct op flagged = *op;
    flagged.flags = flags;
    op = &flagged;
    if (DO(allowed, vram_pool_create(
                        device[op->device],
                        &(vram_pool_options){
                            .size = sizeof(vram_pool_options),
                            .flags = op->flags,
                            .limits = &(vram_limits){.size = sizeof(vram_limits), .fraction = 1}},
                        &pool[op->pool])) == VRAM_OK) {
        object_new(made, on)->flags = flags;
        made->portable = op->pool != FREE_POOL;
        made->count = settings.threads > 1 && op->pool == FREE_POOL; /* any thread may limit it */
        made->traced = OBJECT(TRACE, 0)->state == STATE_LIVE;
    }
}

void step_pool_destroy(struct run *r, const struct op *op) {
    bool skip = op->choice % 4 != 0 && settings.threads == 1;
    struct object *ended = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (!skip) {
        if (allowed & OK && settings.threads == 1) {
            unpin_all(r, ended);
        }
        DO(allowed, vram_pool_destroy(pool[op->pool]));
        object_end(r, ended);
    }
}

void step_pool_trim(struct run *r, const struct op *op) {
    static const uint32_t flags[] = {0, VRAM_TRIM_MEMORY, VRAM_TRIM_CACHES, VRAM_TRIM_RARE};
    bool skip = false;
    uint64_t allowed = ALLOWED(&skip, OBJECT(POOL, op->pool));
    struct op flagged = *op;
    flagged.flags = flags[op->flags % 4];
    op = &flagged;
    if (!skip) {
        DO(allowed,
           vram_pool_trim(
               pool[op->pool],
               &(vram_trim_options){.size = sizeof(vram_trim_options), .flags = op->flags}, NULL));
    }
}

void step_pool_warm(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op warm = *op;
    warm.bytes %= 65536;
    warm.nth = 1 + op->nth % 4;
    op = &warm;
    if (!skip && allowed & OK) {
        allowed |= pool_awake(on, BUSY) | (on->count ? EXHAUSTED : 0);
        DO(allowed, vram_pool_warm(pool[op->pool], op->bytes, (uint32_t)op->nth, NULL));
    }
}

void step_pool_stats(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, on), blocks = 0, bytes = 0;
    vram_pool_stats stats = {.size = sizeof stats};
    if (skip) {
        return;
    }
    say(r, "vram_pool_stats stats = {.size = sizeof stats};");
    vram_status status = DO(allowed, vram_pool_stats_get(pool[op->pool], &stats));
    if (status != VRAM_OK || r->loose || settings.threads > 1) {
        return;
    }
    for (unsigned i = 0; i < LIVE_BLOCKS; i++) {
        struct object *one = OBJECT(BLOCK, i);
        if (one->state == STATE_LIVE && one->parent == on) {
            blocks++;
            bytes += one->bytes;
        }
    }
    EXPECT(stats.live_blocks >= blocks && stats.requested_bytes >= bytes,
           "%llu blocks of %llu bytes are live, the pool counts %llu of %llu",
           (unsigned long long)blocks, (unsigned long long)bytes,
           (unsigned long long)stats.live_blocks, (unsigned long long)stats.requested_bytes);
    EXPECT(stats.allocated_bytes >= stats.requested_bytes && stats.allocs >= stats.frees &&
               stats.allocs - stats.frees == stats.live_blocks && stats.damaged_blocks == 0 &&
               stats.allocs == stats.hits + stats.misses,
           "counters disagree: %llu allocs, %llu frees, %llu live, %llu hits, %llu misses, %llu "
           "damaged",
           (unsigned long long)stats.allocs, (unsigned long long)stats.frees,
           (unsigned long long)stats.live_blocks, (unsigned long long)stats.hits,
           (unsigned long long)stats.misses, (unsigned long long)stats.damaged_blocks);
}

/* --------------------------------------------------------------- sleep and seals */

void contents_forget(const struct object *of) {
    for (unsigned i = 0; i < 32; i++) {
        struct object *lists[] = {&objects[TYPE_BLOCK][i], &objects[TYPE_BUFFER][i],
                                  &objects[TYPE_RING][i]};
        for (unsigned k = 0; k < 3; k++) {
            if (object_under(lists[k], of)) {
                lists[k]->contents.count = 0;
                lists[k]->lost = true;
            }
        }
    }
}

static bool pool_holds(const struct object *of, bool pinned) {
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        if (one->state == STATE_LIVE && one->parent == of && (one->count || !pinned)) {
            return true;
        }
    }
    return false;
}

void step_sleep(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op drawn = *op;
    drawn.pool = FREE_POOL;
    drawn.choice = op->choice % 3;
    drawn.nth = op->nth % 3;
    op = &drawn;
    if (skip) {
        return;
    }
    if (allowed & OK) {
        allowed |= BUSY | UNSUPPORTED | (op->nth || on->sleeping ? INVALID : 0);
        if (!op->nth && on->stopped) {
            allowed = INVALID | UNSUPPORTED;
        }
    }
    allowed |= settings.threads > 1 ? OK | BUSY | INVALID | UNSUPPORTED | EXHAUSTED : 0;
    if (DO(allowed, vram_pool_sleep(
                        pool[op->pool],
                        &(vram_sleep_options){.size = sizeof(vram_sleep_options),
                                              .contents = (vram_sleep_contents)op->choice,
                                              .tag = op->nth ? tags[op->nth] : NULL})) == VRAM_OK &&
        !r->loose) {
        on->sleeping |= ASLEEP;
        on->stopped = on->stopped || op->nth == 0;
        if (settings.threads > 1) {
            r->touched[r->touched_count++] = on; /* the model forgets after the round */
        } else if (op->choice == VRAM_SLEEP_DROP) {
            contents_forget(on);
        }
    }
}

void step_wake(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op drawn = *op;
    drawn.pool = FREE_POOL;
    op = &drawn;
    if (skip) {
        return;
    }
    if (allowed & OK) {
        allowed = !on->sleeping ? INVALID | UNSUPPORTED : OK | INVALID | UNSUPPORTED;
        allowed = on->stopped && !on->count ? OK : allowed | (on->count ? EXHAUSTED | OK : 0);
    }
    allowed |= settings.threads > 1 ? OK | BUSY | INVALID | UNSUPPORTED | EXHAUSTED : 0;
    if (DO(allowed, vram_pool_wake(pool[op->pool], NULL)) == VRAM_OK && !r->loose) {
        on->sleeping &= ~(uint32_t)ASLEEP;
        on->stopped = false;
    }
}

void step_seal(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op drawn = *op;
    drawn.pool = FREE_POOL;
    drawn.nth = op->nth % 3;
    op = &drawn;
    if (skip) {
        return;
    }
    allowed |= allowed & OK ? BUSY | INVALID | UNSUPPORTED : 0;
    allowed |= settings.threads > 1 ? OK | BUSY | INVALID | UNSUPPORTED | EXHAUSTED : 0;
    if (DO(allowed, vram_pool_seal(pool[op->pool], op->nth ? tags[op->nth] : NULL)) == VRAM_OK &&
        !r->loose) {
        on->sleeping |= SEALED;
    }
}

void step_unseal(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op drawn = *op;
    drawn.pool = FREE_POOL;
    op = &drawn;
    if (skip) {
        return;
    }
    allowed |= allowed & OK ? BUSY | INVALID | UNSUPPORTED : 0;
    allowed |= settings.threads > 1 ? OK | BUSY | INVALID | UNSUPPORTED | EXHAUSTED : 0;
    if (DO(allowed, vram_pool_unseal(pool[op->pool], NULL)) == VRAM_OK && !r->loose) {
        on->sleeping &= ~(uint32_t)SEALED;
    }
}

void step_rebuild(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op drawn = *op;
    drawn.pool = FREE_POOL;
    op = &drawn;
    if (!skip) {
        allowed |= allowed & OK ? BUSY | UNSUPPORTED : 0;
        DO(allowed, vram_pool_rebuild(pool[op->pool], NULL, NULL));
    }
}

/* A sleep that keeps everything, and a wake at once: contents stay, whatever the pool is. */
void step_doze(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, on);
    vram_addr none;
    if (skip || !(allowed & OK) || on->sleeping) {
        return;
    }
    r->portable = false; /* pools on segments do not sleep */
    say(r, "vram_addr none;");
    bool pinned = pool_holds(on, true);
    if (DO(OK | UNSUPPORTED | (pinned || !on->portable ? BUSY : 0),
           vram_pool_sleep(pool[op->pool], &(vram_sleep_options){.size = sizeof(vram_sleep_options),
                                                                 .contents = VRAM_SLEEP_HOST})) ==
        VRAM_OK) {
        DO(BUSY, vram_alloc(pool[op->pool], 4096, NULL, &none));
        vram_status woken =
            DO(OK | (on->count ? EXHAUSTED : 0), vram_pool_wake(pool[op->pool], NULL));
        if (woken != VRAM_OK && !r->loose) {
            on->sleeping |= ASLEEP;
            on->stopped = true;
        }
    }
}

/* ------------------------------------------------------------------------- limits */

void step_limits(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(POOL, FREE_POOL);
    uint64_t allowed = ALLOWED(&skip, on);
    struct op drawn = *op;
    drawn.pool = FREE_POOL;
    drawn.bytes = op->choice % 3 ? (UINT64_C(8) << 20) * (1 + op->choice % 7) : 0;
    op = &drawn;
    if (skip) {
        return;
    }
    vram_status status =
        DO(allowed | (allowed & OK ? LIMIT : 0),
           vram_pool_limits_set(pool[op->pool], &(vram_limits){.size = sizeof(vram_limits),
                                                               .hard_bytes = op->bytes}));
    if ((status == VRAM_OK || status == VRAM_ERR_LIMIT) && settings.threads == 1) {
        on->count = op->bytes;
    }
}

void step_quota(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *on = OBJECT(DEVICE, op->device);
    uint64_t allowed = ALLOWED(&skip, on);
    if (!skip) {
        r->portable = false;
        DO(allowed | (allowed & OK ? LIMIT : 0),
           vram_tag_quota_set(device[op->device], "quota", 0, UINT64_C(32) << 20));
    }
}

/* The environment's ceilings stay, whatever a program sets. */
void step_option(struct run *r, const struct op *op) {
    if (op->choice % 2) {
        DO(OK, vram_option_set("quotas", ""));
    } else {
        DO(OK, vram_option_set("quotas", NULL));
    }
}
