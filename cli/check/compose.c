/* SPDX-License-Identifier: Apache-2.0 */
/* compose.c: the pool that has several features, and what must hold of it at any moment. */
#include "compose.h"

#include <string.h>

/* ------------------------------------------------------------------- the pool */

static uint32_t has(const struct compose *compose, enum compose_feature feature, uint32_t flags) {
    return compose->set >> feature & 1 ? flags : 0;
}

/* The flags of the pool; ends the case where the driver cannot share. */
static bool pool_flags(struct compose *compose, uint32_t *flags) {
    vram_pool_options probe = {.size = sizeof probe};
    vram_pool *pool = NULL;
    *flags =
        has(compose, COMPOSE_POISON, VRAM_POOL_POISON | VRAM_POOL_RED_ZONES) |
        has(compose, COMPOSE_TRACE, VRAM_POOL_TRACKED) |
        has(compose, COMPOSE_SHARE, compose->group ? VRAM_POOL_SHARE_GROUP : VRAM_POOL_SHAREABLE);
    if (!has(compose, COMPOSE_SHARE, 1)) {
        return true;
    }
    probe.flags = *flags;
    vram_status status = vram_pool_create(compose->device->device, &probe, &pool);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(compose->check, "the driver exports no memory");
    }
    CHECK_OK(compose->check, status);
    CHECK_OK(compose->check, vram_pool_destroy(pool));
    CHECK_OPEN(compose->check, &compose->reader);
    compose->reader->unledgered = true;
    CHECK_QUEUE(compose->check, compose->reader, &compose->other);
    return true;
}

bool compose_begin(struct check *check, uint32_t set, bool group, struct compose *compose) {
    static const vram_limits limits = {.size = sizeof limits, .cpu_fallback = VRAM_SWITCH_OFF};
    vram_pool_options options = {.size = sizeof options, .name = "compose", .limits = &limits};
    vram_addr addr;

    *compose = (struct compose){.check = check, .set = set, .group = group};
    if (check->target->faulty) {
        return check_skip(check, "calls are made to fail in the cases of each feature");
    }
    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_NEEDS_POOLS(check);
    CHECK_OPEN(check, &compose->device);
    compose->unit = compose->device->info.vmm_granule.value;
    CHECK_QUEUE(check, compose->device, &compose->queue);
    CHECK_QUEUE(check, compose->device, &compose->second);
    compose->device->unledgered = true;
    CHECK_TRY(pool_flags(compose, &options.flags));
    CHECK_STOCK(check, compose->device, &options, &compose->stock);
    CHECK_TAKE(check, &compose->stock, 600, compose->queue, &addr);
    CHECK_TAKE(check, &compose->stock, 40000, compose->second, &addr);
    CHECK_TAKE(check, &compose->stock, compose->unit + 512, compose->queue, &addr);
    if (has(compose, COMPOSE_SHARE, 1)) {
        CHECK_TAKE(check, &compose->stock, 70000, compose->queue, &compose->shared);
    }
    return true;
}

void compose_end(struct compose *compose) {
    compose_graph_end(&compose->graph);
    vram_trace_end(compose->trace);
}

/* ------------------------------------------------------------------ turning */

static const struct {
    compose_turn_fn *on, *off;
} turns[] = {
#define COMPOSE_ROW(NAME, name) {compose_##name##_on, compose_##name##_off},
    COMPOSE_MAP(COMPOSE_ROW)
#undef COMPOSE_ROW
};

bool compose_turn(struct compose *compose, enum compose_feature feature, bool on) {
    if (compose_is(compose, feature) == on) {
        return true;
    }
    if (!on) {
        compose->on &= ~(1u << feature);
    }
    return (on ? turns[feature].on : turns[feature].off)(compose);
}

/* ------------------------------------------------------------------- looking */

uint32_t compose_mark_of(const struct compose *compose, vram_addr addr) {
    for (uint32_t i = 0; i < compose->stock.count; i++) {
        if (compose->stock.blocks[i].addr == addr) {
            return compose->stock.blocks[i].mark;
        }
    }
    return 0;
}

bool compose_head(struct compose *compose, vram_queue *queue, vram_addr addr, uint32_t mark) {
    uint32_t words[COMPOSE_EDGE / 4];
    void *memory;
    CHECK_TRY(check_host(compose->check, COMPOSE_EDGE, &memory));
    CHECK_OK(compose->check, vram_queue_download(queue, memory, addr, COMPOSE_EDGE));
    CHECK_WAIT(compose->check, queue);
    memcpy(words, memory, sizeof words);
    for (uint32_t i = 0; i < COMPOSE_EDGE / 4; i++) {
        CHECK_EQUAL(compose->check, words[i], mark);
    }
    return true;
}

bool compose_refuses(struct compose *compose, uint64_t bytes, vram_queue *queue,
                     vram_status expected) {
    vram_addr addr = CHECK_CANARY;
    vram_pool_stats before, after;
    CHECK_TRY(check_stats(compose->check, compose->stock.pool, &before));
    CHECK_STATUS(compose->check, vram_alloc(compose->stock.pool, bytes, queue, &addr), expected);
    CHECK_TRY(check_stats(compose->check, compose->stock.pool, &after));
    CHECK_EQUAL(compose->check, addr, CHECK_CANARY);
    CHECK_EQUAL(compose->check, after.live_blocks, before.live_blocks);
    CHECK_EQUAL(compose->check, after.asleep_bytes, before.asleep_bytes);
    CHECK_THAT(compose->check, after.reserved_bytes <= before.reserved_bytes);
    return true;
}

static bool verify_trace(struct compose *compose) {
    vram_trace_info info = {.size = sizeof info};
    CHECK_OK(compose->check, vram_trace_info_get(compose->trace, &info));
    CHECK_THAT(compose->check, info.events + info.lost_events >= compose->events);
    CHECK_EQUAL(compose->check, info.stopped, VRAM_OK);
    compose->events = info.events + info.lost_events;
    return true;
}

bool compose_verify(struct compose *compose) {
    vram_pool_stats stats;
    if (compose_is(compose, COMPOSE_GRAPH) && !compose_is(compose, COMPOSE_SLEEP)) {
        CHECK_TRY(compose_graph_verify(compose));
    }
    if (!compose_is(compose, COMPOSE_SLEEP)) {
        CHECK_STOCK_VERIFY(compose->check, &compose->stock);
    }
    if (compose_is(compose, COMPOSE_SHARE)) {
        CHECK_TRY(compose_share_verify(compose));
    }
    if (compose_is(compose, COMPOSE_TRACE)) {
        CHECK_TRY(verify_trace(compose));
    }
    CHECK_TRY(check_stats(compose->check, compose->stock.pool, &stats));
    CHECK_EQUAL(compose->check, stats.live_blocks, compose->stock.count);
    CHECK_EQUAL(compose->check, stats.damaged_blocks, 0);
    CHECK_THAT(compose->check, compose->limit == 0 || stats.reserved_bytes <= compose->limit);
    bool sleeps = compose_is(compose, COMPOSE_SLEEP);
    CHECK_THAT(compose->check,
               sleeps ? stats.asleep_bytes != 0 || !compose->alone : stats.asleep_bytes == 0);
    return true;
}

/* ----------------------------------------------------------- taking and giving */

bool compose_take(struct compose *compose, uint64_t bytes, vram_queue *queue) {
    vram_addr addr;
    if (compose_is(compose, COMPOSE_SLEEP)) {
        return compose_refuses(compose, bytes, queue, VRAM_ERR_BUSY);
    }
    if (compose->stock.count + COMPOSE_KEPT < CHECK_STOCK_MAX) {
        CHECK_TAKE(compose->check, &compose->stock, bytes, queue, &addr);
    }
    return true;
}

/* Whether a feature needs the block later on. */
static bool is_kept(const struct compose *compose, vram_addr addr) {
    bool kept = addr == compose->shared || addr == compose->tagged || addr == compose->copied ||
                addr == compose->behind || addr == compose->graph.addr;
    for (int i = 0; i < COMPOSE_PIECES; i++) {
        kept = kept || addr == compose->pieces[i];
    }
    return kept;
}

bool compose_give(struct compose *compose) {
    if (compose->stock.count) {
        uint64_t at = check_random(compose->check, compose->stock.count);
        struct check_block block = compose->stock.blocks[at];
        if (!is_kept(compose, block.addr)) {
            CHECK_GIVE(compose->check, &compose->stock, block.addr, block.queue);
        }
    }
    return true;
}
