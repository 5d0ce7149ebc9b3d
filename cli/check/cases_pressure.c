/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_pressure.c: how near memory is to its end, who is told, what pools do about it, and giving
 * back.
 *
 * A pool is brought to its end by a limit of its own, so that no other user of the device matters;
 * where the device itself is under pressure by others, what depends on that is not looked at.
 */
#include "case.h"

enum { UNITS = 20, LEAST = 256 << 10 };

/* A granule of the pool, or more where that is next to nothing. */
static uint64_t unit_of(const struct check_device *device) {
    uint64_t granule = check_pool_granule(device, false);
    return granule > LEAST ? granule : LEAST;
}

/* A pool that may hold UNITS of them. */
static bool begin(struct check *check, struct check_device **device, vram_queue **queue,
                  struct check_stock *stock) {
    CHECK_OPEN(check, device);
    CHECK_QUEUE(check, *device, queue);
    vram_limits limits = {.size = sizeof limits, .hard_bytes = UNITS * unit_of(*device)};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    CHECK_STOCK(check, *device, &options, stock);
    return true;
}

static bool pressure_of(struct check *check, vram_pool *pool, vram_pressure *pressure) {
    *pressure = (vram_pressure){.size = sizeof *pressure};
    return check_ok(check, vram_pool_pressure_get(pool, pressure),
                    CHECK_AT("vram_pool_pressure_get"));
}

/* Takes blocks of a unit until `count` are live. */
static bool fill(struct check *check, struct check_stock *stock, vram_queue *queue, uint32_t count,
                 vram_addr *addrs) {
    uint64_t unit = unit_of(stock->device);
    while (stock->count < count) {
        CHECK_TAKE(check, stock, unit, queue, &addrs[stock->count]);
    }
    return true;
}

/* The same until so much of what it may hold is reserved; segments come in larger pieces. */
static bool fill_above(struct check *check, struct check_stock *stock, vram_queue *queue,
                       double value) {
    vram_pressure pressure;
    vram_addr addr;
    CHECK_TRY(pressure_of(check, stock->pool, &pressure));
    for (uint32_t i = 0; pressure.own <= value && i <= UNITS; i++) {
        CHECK_TAKE(check, stock, unit_of(stock->device), queue, &addr);
        CHECK_TRY(pressure_of(check, stock->pool, &pressure));
    }
    return check_that(check, pressure.own > value, CHECK_AT("pressure.own > value"));
}

/* --------------------------------------------------------------------- cases */

static bool level(struct check *check) {
    static const double steps[] = {-1, 0.3, 0.6, 0.8, 0.9};
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_pressure pressure, of_device = {.size = sizeof of_device};

    CHECK_TRY(begin(check, &device, &queue, &stock));
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        CHECK_TRY(fill_above(check, &stock, queue, steps[i]));
        CHECK_TRY(pressure_of(check, stock.pool, &pressure));
        CHECK_THAT(check, pressure.known && pressure.own_known && pressure.limit_bytes.known);
        CHECK_THAT(check, pressure.own ==
                              (double)pressure.reserved_bytes / (double)pressure.limit_bytes.value);
        CHECK_THAT(check, pressure.value >= pressure.own && pressure.value >= pressure.device);
        CHECK_EQUAL(check, pressure.level, vram_pressure_level_of(pressure.value));
        CHECK_THAT(check, pressure.reserved_bytes >= stock.count * unit_of(device));
    }
    CHECK_THAT(check, pressure.level >= VRAM_PRESSURE_HIGH);
    CHECK_OK(check, vram_device_pressure_get(device->device, &of_device));
    CHECK_THAT(check, of_device.device >= 0 && of_device.device <= 1);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* At 99.9 % of what it may hold: what does not fit is refused and nothing else happens, what is
   freed can be had again, and a higher limit ends it. By a limit, so that no card that others use
   is filled. */
static bool nearly_full(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_pressure pressure;
    vram_addr addrs[UNITS], addr = 0;
    uint64_t unit;

    CHECK_TRY(begin(check, &device, &queue, &stock));
    unit = unit_of(device);
    CHECK_TRY(fill(check, &stock, queue, UNITS / 2, addrs));
    CHECK_STOCK_OK(check, &stock,
                   vram_pool_trim(stock.pool, NULL, NULL)); /* nothing is kept beside them */
    CHECK_TRY(pressure_of(check, stock.pool, &pressure));
    vram_limits limits = {.size = sizeof limits,
                          .hard_bytes = pressure.reserved_bytes / 999 * 1000 + 1000};
    CHECK_OK(check, vram_pool_limits_set(stock.pool, &limits));
    CHECK_TRY(pressure_of(check, stock.pool, &pressure));
    CHECK_THAT(check, pressure.own > 0.998 && pressure.own <= 1);
    CHECK_EQUAL(check, pressure.level, VRAM_PRESSURE_CRITICAL);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_STOCK_REFUSES(check, &stock, vram_alloc(stock.pool, UNITS * unit, queue, &addr),
                            VRAM_ERR_LIMIT);
        CHECK_GIVE(check, &stock, addrs[i], queue);
        CHECK_WAIT(check, queue);
        CHECK_TAKE(check, &stock, unit, queue, &addrs[i]);
    }
    limits.hard_bytes = 4 * UNITS * unit;
    CHECK_OK(check, vram_pool_limits_set(stock.pool, &limits));
    CHECK_TAKE(check, &stock, UNITS * unit, queue, &addr);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

struct seen {
    uint32_t ups, downs;
    double last;
};

static void see(void *user, const vram_pressure_event *event) {
    struct seen *seen = user;
    seen->ups += event->up;
    seen->downs += !event->up;
    seen->last = event->value;
}

/* Told on the way up and on the way down, by the calls that made the difference. */
static bool watches(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    void *memory;
    vram_watch *watch, *ends_with_its_pool;
    vram_pressure pressure;

    CHECK_TRY(begin(check, &device, &queue, &stock));
    CHECK_TRY(check_host(check, sizeof(struct seen), &memory)); /* outlives what the runner ends */
    struct seen *seen = memory;
    vram_watch_options options = {.size = sizeof options, .call = see, .user = seen};
    CHECK_TRY(pressure_of(check, stock.pool, &pressure));
    if (pressure.device > 0.5) {
        return check_skip(check, "others use most of the device's memory");
    }
    CHECK_OK(check, vram_pool_watch_begin(stock.pool, &options, &watch));
    CHECK_OK(check, vram_pool_watch_begin(stock.pool, &options, &ends_with_its_pool));
    CHECK_TRY(fill_above(check, &stock, queue, 0.9));
    CHECK_EQUAL(check, seen->ups, 4); /* two watches, two thresholds */
    CHECK_THAT(check, seen->last > 0.7);
    while (stock.count > 0) {
        CHECK_GIVE(check, &stock, stock.blocks[0].addr, queue);
    }
    CHECK_WAIT(check, queue);
    CHECK_STOCK_OK(check, &stock, vram_pool_trim(stock.pool, NULL, NULL));
    CHECK_THAT(check, seen->downs == 4 || check_driver_failed(check));
    CHECK_OK(check, vram_watch_end(watch));
    CHECK_STATUS(check, vram_watch_end(watch), VRAM_ERR_STALE);
    CHECK_OK(check, vram_pool_destroy(stock.pool));
    CHECK_STATUS(check, vram_watch_end(ends_with_its_pool), VRAM_ERR_STALE);
    return true;
}

/* Cached memory goes, step by step, and nothing that is live notices. */
static bool responds(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addrs[40];
    vram_pool_stats before, after;

    CHECK_TRY(begin(check, &device, &queue, &stock));
    for (uint32_t i = 0; i < 40; i++) {
        CHECK_TAKE(check, &stock, 3000, queue, &addrs[i]);
    }
    for (uint32_t i = 0; i < 39; i++) {
        CHECK_GIVE(check, &stock, addrs[i], queue);
    }
    CHECK_TRY(check_stats(check, stock.pool, &before));
    CHECK_TRY(fill_above(check, &stock, queue, 0.9));
    CHECK_TRY(check_stats(check, stock.pool, &after));
    CHECK_THAT(check, after.response_steps[VRAM_RESPONSE_HALVE] >= 1);
    CHECK_THAT(check, after.response_steps[VRAM_RESPONSE_EMERGENCY] >= 1);
    CHECK_EQUAL(check, after.live_blocks, stock.count);
    CHECK_EQUAL(check, after.allocs, before.allocs + stock.count - 1);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* Every way of giving back leaves what is live alone. */
static bool releases(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addrs[UNITS];
    vram_pool_stats stats;
    vram_fragmentation fragmentation = {.size = sizeof fragmentation};
    uint64_t bytes = 0;

    CHECK_TRY(begin(check, &device, &queue, &stock));
    for (uint32_t way = 0; way < 5; way++) {
        CHECK_TRY(fill(check, &stock, queue, 8, addrs));
        for (uint32_t i = 0; i < 4; i++) {
            CHECK_GIVE(check, &stock, stock.blocks[0].addr, queue);
        }
        CHECK_WAIT(check, queue);
        CHECK_OK(check, vram_pool_fragmentation_get(stock.pool, &fragmentation));
        CHECK_THAT(check, fragmentation.scattered >= 0 && fragmentation.scattered <= 1);
        CHECK_THAT(check, fragmentation.rare >= 0 && fragmentation.rare <= 1);
        if (way == 0) {
            CHECK_STOCK_OK(check, &stock, vram_pool_trim(stock.pool, NULL, &bytes));
        } else if (way == 1) {
            CHECK_STOCK_OK(
                check, &stock,
                vram_pool_trim(stock.pool, CHECK_TRIM(.flags = VRAM_TRIM_CACHES), &bytes));
        } else if (way == 2) {
            CHECK_STOCK_OK(check, &stock,
                           vram_pool_trim(stock.pool, CHECK_TRIM(.flags = VRAM_TRIM_RARE), &bytes));
        } else if (way == 3) {
            CHECK_STOCK_OK(check, &stock, vram_device_trim(device->device, NULL, &bytes));
        } else {
            CHECK_STOCK_OK(check, &stock, vram_context_trim(check->context, NULL, &bytes));
        }
        CHECK_TRY(check_stats(check, stock.pool, &stats));
        CHECK_EQUAL(check, stats.live_blocks, 4);
        CHECK_THAT(check, way == 2 || stats.cached_bytes == 0);
        CHECK_STOCK_VERIFY(check, &stock);
    }
    CHECK_THAT(check, stats.cleanups >= 5 && stats.last_cleanup_ns.known);
    return true;
}

static bool health(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    vram_health_info found = {.size = sizeof found};
    vram_health_options options = {.size = sizeof options, .look_only = true};

    CHECK_TRY(begin(check, &device, &queue, &stock));
    CHECK_TAKE(check, &stock, 5000, queue, &addr);
    CHECK_OK(check, vram_health(device->device, &options, &found));
    CHECK_THAT(check, found.pools >= 1 && found.live_bytes >= 5000 && found.text[0] != 0);
    CHECK_THAT(check, !found.cleaned && found.released_bytes == 0);
    CHECK_OK(check, vram_health(device->device, NULL, &found));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* A monitor looks while blocks come and go, and ends when it is told to, or with its context. */
static bool monitors(struct check *check) {
    vram_context *context;
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    vram_monitor *monitor, *left;
    vram_monitor_options options = {
        .size = sizeof options, .interval_ns = 1000000, .maintain_ns = 1};

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_monitor_begin(context, &options, &monitor));
    CHECK_OK(check, vram_monitor_begin(context, NULL, &left));
    for (uint32_t i = 0; i < check_rounds(check, 200); i++) {
        CHECK_TAKE(check, &stock, 512 + i * 512, queue, &addr);
        CHECK_GIVE(check, &stock, addr, queue);
    }
    CHECK_OK(check, vram_monitor_end(monitor));
    CHECK_STATUS(check, vram_monitor_end(monitor), VRAM_ERR_STALE);
    check_close(device);
    check_context_end(check, context);
    CHECK_STATUS(check, vram_monitor_end(left), VRAM_ERR_STALE);
    return true;
}

const struct check_case check_cases_pressure[] = {
    {"pressure.level", "pressure is held memory divided by the limit, with its level", level},
    {"pressure.nearly_full",
     "at 99.9 % of a limit, requests that do not fit are refused and all others work", nearly_full},
    {"pressure.watches", "a watch is called when pressure rises and when it falls", watches},
    {"pressure.responds", "cached memory is released if memory runs low, live memory stays",
     responds},
    {"pressure.releases", "every way to release memory leaves live memory alone", releases},
    {"pressure.health", "a health check reports the state of a device", health},
    {"pressure.monitors", "a monitor checks, and ends on request or with its context", monitors},
    {NULL, NULL, NULL},
};
