/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compose_features.c: six of the eight features: memory that moves, sleep, limits and quotas,
 * traces, poison, and several queues. Each sets its bit in compose->on when it has been turned on.
 */
#include "compose.h"
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE_UNITS = 4,   /* granules of a block beside a hole */
    LARGE_UNITS = 5,   /* of the block for which holes are taken apart */
    LIMIT_UNITS = 120, /* that a limit leaves */
    PAST_UNITS = 400   /* more than it leaves */
};

#define QUOTA_TAG "compose/quota"

static bool limit_set(struct compose *compose, uint64_t bytes) {
    vram_limits limits = {
        .size = sizeof limits, .hard_bytes = bytes, .cpu_fallback = VRAM_SWITCH_OFF};
    CHECK_OK(compose->check, vram_pool_limits_set(compose->stock.pool, &limits));
    return true;
}

/* On any queue: its own work on the block is complete. */
static bool give_and_forget(struct compose *compose, vram_addr *addr, vram_queue *queue) {
    if (*addr) {
        CHECK_WAIT(compose->check, compose->queue);
        CHECK_WAIT(compose->check, compose->second);
        CHECK_GIVE(compose->check, &compose->stock, *addr, queue);
        *addr = 0;
    }
    return true;
}

/* --------------------------------------------------------------------- tight */

/* Where the pool has other blocks, too, what is free may lie beside them in handles that cannot
   move: then the allocation fails, and nothing has changed. */
static bool large_take(struct compose *compose) {
    struct check *check = compose->check;
    uint64_t bytes = LARGE_UNITS * compose->unit;
    vram_addr addr = CHECK_CANARY;
    vram_status status = vram_alloc(compose->stock.pool, bytes, compose->queue, &addr);
    if (!compose->alone && vram_status_is_exhausted(status)) {
        CHECK_EQUAL(check, addr, CHECK_CANARY);
        CHECK_STOCK_VERIFY(check, &compose->stock);
        return true;
    }
    CHECK_OK(check, status);
    compose->pieces[0] = addr;
    return check_adopt_at(check, &compose->stock, bytes, compose->queue, addr,
                          CHECK_AT("vram_alloc"));
}

/* Two of four blocks are freed, and a block larger than each of the two holes gets the memory of
   both: hardly more may be held than now. */
static bool pieces_move(struct compose *compose) {
    struct check *check = compose->check;
    vram_pool_stats before, after;
    uint64_t piece = PIECE_UNITS * compose->unit;
    CHECK_STOCK_OK(check, &compose->stock, vram_pool_trim(compose->stock.pool, NULL, NULL));
    for (int i = 0; i < COMPOSE_PIECES; i++) {
        CHECK_TAKE(check, &compose->stock, piece, compose->queue, &compose->pieces[i]);
    }
    for (int i = 0; i < COMPOSE_PIECES; i += 2) {
        CHECK_TRY(give_and_forget(compose, &compose->pieces[i], compose->queue));
    }
    CHECK_WAIT(check, compose->queue);
    CHECK_TRY(check_stats(check, compose->stock.pool, &before));
    CHECK_TRY(limit_set(compose, before.reserved_bytes + compose->unit));
    CHECK_TRY(large_take(compose));
    CHECK_TRY(check_stats(check, compose->stock.pool, &after));
    CHECK_THAT(check, after.reserved_bytes <= before.reserved_bytes + compose->unit);
    CHECK_THAT(check, !compose->alone || after.moved_handles + after.driver_releases >
                                             before.moved_handles + before.driver_releases);
    return limit_set(compose, compose->limit);
}

bool compose_tight_on(struct compose *compose) {
    if (compose_is(compose, COMPOSE_SLEEP)) {
        return compose_refuses(compose, compose->unit, compose->queue, VRAM_ERR_BUSY);
    }
    compose->on |= 1u << COMPOSE_TIGHT;
    return pieces_move(compose);
}

bool compose_tight_off(struct compose *compose) {
    for (int i = 0; i < COMPOSE_PIECES; i++) {
        CHECK_TRY(give_and_forget(compose, &compose->pieces[i],
                                  i % 2 ? compose->second : compose->queue));
    }
    return true;
}

/* --------------------------------------------------------------------- sleep */

/* What would lose something is refused first: host memory that is the device's own frees nothing,
   and red zones would go with the contents. */
static bool sleep_refusals(struct compose *compose, bool *never) {
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    *never = check_has(compose->check, VRAM_CAP_INTEGRATED);
    if (*never) {
        CHECK_STOCK_REFUSES(compose->check, &compose->stock,
                            vram_pool_sleep(compose->stock.pool, &options), VRAM_ERR_UNSUPPORTED);
        return true;
    }
    if (compose->set >> COMPOSE_POISON & 1) {
        options.contents = VRAM_SLEEP_DROP;
        CHECK_STOCK_REFUSES(compose->check, &compose->stock,
                            vram_pool_sleep(compose->stock.pool, &options), VRAM_ERR_UNSUPPORTED);
    }
    return true;
}

/* Work of both queues is under way. With a captured region contents are kept whatever is said. */
bool compose_sleep_on(struct compose *compose) {
    struct check *check = compose->check;
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    const struct check_block *first = &compose->stock.blocks[0];
    bool never;
    CHECK_TRY(sleep_refusals(compose, &never));
    if (never) {
        return true;
    }
    if (compose_is(compose, COMPOSE_GRAPH) && !(compose->set >> COMPOSE_POISON & 1)) {
        options.contents = VRAM_SLEEP_DROP;
    } else if (check_has(check, VRAM_CAP_PINNED) && check_random(check, 2)) {
        options.contents = VRAM_SLEEP_PINNED;
    }
    if (compose->stock.count) {
        CHECK_OK(check, vram_queue_fill(first->queue, first->addr, first->mark, 4, 512));
    }
    CHECK_STOCK_OK(check, &compose->stock, vram_pool_sleep(compose->stock.pool, &options));
    compose->on |= 1u << COMPOSE_SLEEP;
    compose->slept = !compose_is(compose, COMPOSE_SHARE);
    return compose_refuses(compose, 512, compose->queue, VRAM_ERR_BUSY);
}

/* Under a limit that is too low it stays asleep, and says so. */
bool compose_sleep_off(struct compose *compose) {
    struct check *check = compose->check;
    vram_pool_stats before, after;
    CHECK_TRY(check_stats(check, compose->stock.pool, &before));
    bool awake = false;
    if (compose->limit && before.asleep_bytes > compose->unit) {
        CHECK_TRY(limit_set(compose, before.reserved_bytes + compose->unit));
        awake = vram_pool_wake(compose->stock.pool, NULL) == VRAM_OK; /* little was live */
        CHECK_TRY(check_stats(check, compose->stock.pool, &after));
        CHECK_THAT(check, awake == (after.asleep_bytes == 0)); /* what was freed has ended */
        CHECK_TRY(limit_set(compose, compose->limit));
    }
    if (!awake) {
        CHECK_OK(check, vram_pool_wake(compose->stock.pool, NULL));
    }
    compose->slept = false;
    return true;
}

/* -------------------------------------------------------------------- limits */

/* A limit on the pool, and a quota on a tag. */
bool compose_limit_on(struct compose *compose) {
    struct check *check = compose->check;
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = QUOTA_TAG};
    vram_addr refused = CHECK_CANARY;
    vram_pool_stats stats;
    CHECK_TRY(check_stats(check, compose->stock.pool, &stats));
    uint64_t limit = stats.reserved_bytes + stats.asleep_bytes + LIMIT_UNITS * compose->unit;
    CHECK_TRY(limit_set(compose, limit));
    compose->limit = limit;
    compose->on |= 1u << COMPOSE_LIMIT;
    CHECK_OK(check, vram_tag_quota_set(compose->device->device, QUOTA_TAG, 0, compose->unit));
    if (compose_is(compose, COMPOSE_SLEEP)) {
        return compose_refuses(compose, 512, compose->queue, VRAM_ERR_BUSY);
    }
    CHECK_TAKE_WITH(check, &compose->stock, 3000, compose->queue, &tagged, &compose->tagged);
    CHECK_STATUS(
        check,
        vram_alloc_with(compose->stock.pool, 2 * compose->unit, compose->queue, &tagged, &refused),
        VRAM_ERR_LIMIT);
    CHECK_EQUAL(check, refused, CHECK_CANARY);
    return compose_refuses(compose, PAST_UNITS * compose->unit, compose->second, VRAM_ERR_LIMIT);
}

bool compose_limit_off(struct compose *compose) {
    compose->limit = 0;
    CHECK_TRY(limit_set(compose, 0));
    CHECK_OK(compose->check, vram_tag_quota_set(compose->device->device, QUOTA_TAG, 0, 0));
    return give_and_forget(compose, &compose->tagged, compose->second);
}

/* -------------------------------------------------------------------- tracing */

/* The file has no name as soon as it is written to, so that nothing is left behind. */
bool compose_trace_on(struct compose *compose) {
    struct check *check = compose->check;
    const char *asked = environment_get("TMPDIR"), *folder = asked && *asked ? asked : "/tmp";
    char path[200];
    vram_trace_options options = {.size = sizeof options, .path = path};
    snprintf(path, sizeof path, "%s/vram-check-XXXXXX", folder);
    int file = mkstemp(path);
    if (file < 0) {
        return check_skip(check, "no file can be made in %s", folder);
    }
    close(file);
    vram_status status = vram_trace_begin(check->context, &options, &compose->trace);
    unlink(path);
    if (status == VRAM_ERR_BUSY) {
        return check_skip(check, "this process writes a trace already");
    }
    CHECK_OK(check, status);
    compose->on |= 1u << COMPOSE_TRACE;
    compose->events = 0;
    return compose_take(compose, 5000, compose->queue);
}

bool compose_trace_off(struct compose *compose) {
    vram_trace_info info = {.size = sizeof info};
    vram_trace *trace = compose->trace;
    CHECK_OK(compose->check, vram_trace_info_get(trace, &info));
    CHECK_EQUAL(compose->check, info.stopped, VRAM_OK);
    compose->trace = NULL;
    CHECK_OK(compose->check, vram_trace_end(trace));
    return true;
}

/* --------------------------------------------------------------------- poison */

/* New memory is 0xCD throughout, whoever had it before. */
static bool is_poisoned(struct compose *compose, vram_addr addr) {
    return compose_head(compose, compose->queue, addr, 0xCDCDCDCD);
}

bool compose_poison_on(struct compose *compose) {
    struct check *check = compose->check;
    vram_addr addr;
    if (compose_is(compose, COMPOSE_SLEEP)) {
        return compose_refuses(compose, 9000, compose->queue, VRAM_ERR_BUSY);
    }
    compose->on |= 1u << COMPOSE_POISON;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(check, vram_alloc(compose->stock.pool, 9000, compose->queue, &addr));
        CHECK_TRY(is_poisoned(compose, addr));
        CHECK_OK(check, vram_queue_fill(compose->queue, addr, 0x77777777, 4, 9000));
        CHECK_OK(check, vram_free(addr, compose->queue));
    }
    return true;
}

/* What waits in quarantine is looked at when it leaves. */
bool compose_poison_off(struct compose *compose) {
    vram_pool_stats stats;
    CHECK_OK(compose->check, vram_pool_trim(compose->stock.pool, NULL, NULL));
    CHECK_TRY(check_stats(compose->check, compose->stock.pool, &stats));
    CHECK_EQUAL(compose->check, stats.damaged_blocks, 0);
    return true;
}

/* --------------------------------------------------------------------- queues */

/* The second queue copies out of a block that the first has freed already and asked for again. */
bool compose_queues_on(struct compose *compose) {
    struct check *check = compose->check;
    vram_point filled;
    vram_addr from;
    if (compose_is(compose, COMPOSE_SLEEP)) {
        return compose_refuses(compose, 70000, compose->second, VRAM_ERR_BUSY);
    }
    compose->on |= 1u << COMPOSE_QUEUES;
    CHECK_TAKE(check, &compose->stock, 70000, compose->queue, &from);
    CHECK_TAKE(check, &compose->stock, 70000, compose->second, &compose->copied);
    uint32_t first = compose_mark_of(compose, from),
             own = compose_mark_of(compose, compose->copied);
    CHECK_OK(check, vram_queue_mark(compose->queue, &filled));
    CHECK_OK(check, vram_queue_after(compose->second, filled));
    CHECK_OK(check, vram_queue_copy(compose->second, compose->copied, from, COMPOSE_EDGE));
    CHECK_OK(check, vram_use(from, compose->second));
    CHECK_GIVE(check, &compose->stock, from, compose->queue);
    CHECK_TAKE(check, &compose->stock, 70000, compose->queue, &compose->behind);
    CHECK_TRY(compose_head(compose, compose->second, compose->copied, first));
    CHECK_OK(check, vram_queue_fill(compose->second, compose->copied, own, 4, COMPOSE_EDGE));
    return true;
}

bool compose_queues_off(struct compose *compose) {
    CHECK_TRY(give_and_forget(compose, &compose->copied, compose->queue));
    return give_and_forget(compose, &compose->behind, compose->second);
}
