/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_sleep.c: pools give their memory back, keep their addresses, and get their contents again.
 */
#include "case.h"
#include "scale_kernel.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum { BYTES = 100000 }; /* of a copy */

/* A pool that can sleep, with blocks of several sizes and two tags in it. */
static bool begin(struct check *check, uint32_t flags, struct check_device **device,
                  vram_queue **queue, struct check_stock *stock) {
    vram_pool_options options = {.size = sizeof options, .flags = flags, .name = "sleeper"};
    vram_alloc_options wish = {.size = sizeof wish};
    vram_addr addr;
    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_NEEDS_POOLS(check);
    CHECK_OPEN(check, device);
    CHECK_QUEUE(check, *device, queue);
    CHECK_STOCK(check, *device, &options, stock);
    for (uint32_t i = 0; i < 4; i++) {
        wish.tag = i < 2 ? "model/layer" : "scratch";
        CHECK_TAKE_WITH(check, stock, i % 2 ? MIB + i * 512 : 900 + i, *queue, &wish, &addr);
    }
    return true;
}

/* After a failure everything is as before, but for memory that a driver first unmapped and then
   would not map again: that can be woken. */
static bool fell_asleep(struct check *check, struct check_stock *stock,
                        const vram_sleep_options *options) {
    vram_status status = vram_pool_sleep(stock->pool, options);
    struct check_place place = CHECK_AT("vram_pool_sleep");
    if (check_ok(check, status, place)) {
        return true;
    }
    vram_pool_stats stats = {.size = sizeof stats};
    if (vram_pool_stats_get(stock->pool, &stats) == VRAM_OK && stats.asleep_bytes != 0) {
        return check_that(check, check_driver_failed(check), place);
    }
    return check_stock_failed(check, stock, place);
}

static bool woke(struct check *check, struct check_stock *stock, const char *tag) {
    vram_pool_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    struct check_place place = CHECK_AT("vram_pool_wake");
    CHECK_TRY(check_stats(check, stock->pool, &before));
    if (check_ok(check, vram_pool_wake(stock->pool, tag), place)) {
        return true;
    }
    if (vram_pool_stats_get(stock->pool, &after) == VRAM_OK) {
        /* Less if something that no block needs has ended. */
        check_that(check, after.asleep_bytes <= before.asleep_bytes, place);
        check_equal(check, after.live_blocks, before.live_blocks, place);
    }
    return false;
}

/* -------------------------------------------------------------------- cases */

/* Sealed memory is read, not written, and sleeps with its contents whatever the options say. */
static bool sealed(struct check *check, vram_queue *queue, struct check_stock *stock) {
    CHECK_STOCK_OK(check, stock, vram_pool_seal(stock->pool, NULL));
    CHECK_STATUS(check, vram_queue_fill(queue, stock->blocks[1].addr, 0, 1, 64), VRAM_ERR_INVALID);
    CHECK_STOCK_VERIFY(check, stock);
    CHECK_TRY(fell_asleep(check, stock, NULL));
    CHECK_TRY(woke(check, stock, NULL));
    CHECK_STOCK_VERIFY(check, stock);
    CHECK_STOCK_OK(check, stock, vram_pool_unseal(stock->pool, NULL));
    return true;
}

static bool contents(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_pool_stats awake, asleep;
    vram_memory_info held = {.size = sizeof held};
    vram_addr addr;

    for (int round = 0; round < 2; round++) {
        vram_sleep_options options = {.size = sizeof options,
                                      .contents = round % 2 ? VRAM_SLEEP_PINNED : VRAM_SLEEP_HOST};
        check_note(check, "round %d", round);
        CHECK_TRY(begin(check, round == 0 ? 0 : VRAM_POOL_DETERMINISTIC, &device, &queue, &stock));
        if ((options.contents == VRAM_SLEEP_PINNED && !check_has(check, VRAM_CAP_PINNED)) ||
            check_has(check, VRAM_CAP_INTEGRATED)) {
            CHECK_STOCK_REFUSES(check, &stock, vram_pool_sleep(stock.pool, &options),
                                VRAM_ERR_UNSUPPORTED);
            check_close(device);
            continue;
        }
        CHECK_TRY(check_stats(check, stock.pool, &awake));
        CHECK_TRY(fell_asleep(check, &stock, &options));
        CHECK_TRY(check_stats(check, stock.pool, &asleep));
        CHECK_OK(check, vram_memory_info_get(device->device, &held));
        CHECK_THAT(check, asleep.asleep_bytes != 0 && asleep.asleep_host_bytes != 0);
        CHECK_THAT(check, asleep.reserved_bytes == 0 || check_driver_failed(check));
        if (options.contents == VRAM_SLEEP_HOST) { /* page-locked memory is the device's to count */
            CHECK_EQUAL(check, held.held_bytes, asleep.reserved_bytes);
        }
        CHECK_EQUAL(check, asleep.live_blocks, awake.live_blocks);
        CHECK_STATUS(check, vram_alloc(stock.pool, 4096, queue, &addr), VRAM_ERR_BUSY);
        CHECK_STATUS(check, vram_queue_fill(queue, stock.blocks[1].addr, 0, 1, 64),
                     VRAM_ERR_INVALID);
        CHECK_STATUS(check, vram_pin(stock.blocks[0].addr), VRAM_ERR_BUSY);
        CHECK_TRY(woke(check, &stock, NULL));
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_TRY(sealed(check, queue, &stock));
        CHECK_TAKE(check, &stock, 4096, queue, &addr);
        CHECK_STOCK_VERIFY(check, &stock);
        check_close(device);
    }
    return true;
}

/* Blocks freed meanwhile are free afterwards; contents that were dropped leave good memory
   behind. */
static bool frees(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;

    CHECK_TRY(begin(check, 0, &device, &queue, &stock));
    CHECK_TRY(fell_asleep(check, &stock, NULL));
    while (stock.count > 0) {
        vram_addr last = stock.blocks[stock.count - 1].addr;
        CHECK_GIVE(check, &stock, last, stock.count % 2 ? queue : NULL);
        CHECK_STATUS(check, vram_free(last, queue), VRAM_ERR_INVALID);
    }
    CHECK_TRY(woke(check, &stock, NULL));
    CHECK_STOCK_VERIFY(check, &stock);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_TAKE(check, &stock, 1 + i * MIB, queue, &addr);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* One tag sleeps, the rest goes on; then all sleep, and the tag wakes alone. */
static bool by_tag(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_alloc_options wish = {.size = sizeof wish, .tag = "weights"};
    vram_addr weights, addr;

    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_TRY(begin(check, 0, &device, &queue, &stock));
    uint64_t large = 3 * check_pool_granule(device, false); /* a whole one, wherever it begins */
    CHECK_TAKE_WITH(check, &stock, large, queue, &wish, &weights);
    for (int round = 0; round < 2; round++) {
        vram_sleep_options options = {
            .size = sizeof options, .contents = VRAM_SLEEP_HOST, .tag = round ? NULL : "weights"};
        CHECK_TRY(fell_asleep(check, &stock, &options));
        CHECK_STATUS(check, vram_queue_fill(queue, weights, 0, 1, large), VRAM_ERR_INVALID);
        if (round) {
            CHECK_TRY(woke(check, &stock, "weights"));
            CHECK_OK(check, vram_queue_fill(queue, weights + large / 2, 7, 1, 64));
        } else {
            CHECK_OK(check, vram_queue_fill(queue, stock.blocks[1].addr + MIB / 2, 7, 1, 64));
            CHECK_OK(check, vram_alloc(stock.pool, 700, queue, &addr));
            CHECK_OK(check, vram_free(addr, queue));
        }
        CHECK_TRY(woke(check, &stock, NULL));
        CHECK_WAIT(check, queue);
        CHECK_STOCK_VERIFY(check, &stock);
    }
    return true;
}

static bool mistakes(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_sleep_options options = {.size = sizeof options, .contents = (vram_sleep_contents)77};

    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_TRY(begin(check, 0, &device, &queue, &stock));
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_sleep(stock.pool, &options), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_wake(stock.pool, NULL), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_wake(stock.pool, "scratch"), VRAM_ERR_INVALID);
    options = (vram_sleep_options){.size = sizeof options, .tag = "nobody"};
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_sleep(stock.pool, &options), VRAM_ERR_INVALID);
    CHECK_STOCK_OK(check, &stock, vram_pin(stock.blocks[3].addr));
    options = (vram_sleep_options){.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_sleep(stock.pool, &options), VRAM_ERR_BUSY);
    CHECK_STOCK_OK(check, &stock, vram_unpin(stock.blocks[3].addr));
    CHECK_TRY(fell_asleep(check, &stock, &options));
    CHECK_STATUS(check, vram_pool_sleep(stock.pool, &options), VRAM_ERR_INVALID);
    CHECK_TRY(woke(check, &stock, NULL));
    CHECK_STATUS(check, vram_pool_wake(stock.pool, NULL), VRAM_ERR_INVALID);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* Work under way is waited for, on a queue that the pool has never seen too. */
static bool work(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *stranger;
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    uint8_t *data, *found;
    void *memory;

    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_TRY(begin(check, 0, &device, &queue, &stock));
    CHECK_QUEUE(check, device, &stranger);
    CHECK_TRY(check_host_seeded(check, BYTES, 5, &data));
    CHECK_TRY(check_host(check, BYTES, &memory));
    found = memory;
    vram_addr middle = stock.blocks[3].addr + MIB / 2;
    CHECK_WAIT(check, queue);
    CHECK_OK(check, vram_queue_upload(stranger, middle, data, BYTES));
    CHECK_TRY(fell_asleep(check, &stock, &options));
    CHECK_TRY(woke(check, &stock, NULL));
    CHECK_OK(check, vram_queue_download(queue, found, middle, BYTES));
    CHECK_WAIT(check, queue);
    CHECK_SAME(check, found, data, BYTES);
    return true;
}

/* The kernel of devices whose kernels are C functions: these would touch the host's memory. */
static void touch_nothing(const vram_kernel_call *call) {
    (void)call;
}

/* Launches a kernel that writes the word at `addr`; `told`: the library is told of the address. */
static vram_status touch(vram_queue *queue, vram_kernel *kernel, vram_addr addr, bool told) {
    static const size_t bytes[] = {8, 8, 8, 8};
    const uint64_t values[] = {addr, addr, 1, 1};
    const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
    const vram_launch launch = {.size = sizeof launch,
                                .groups = {1, 1, 1},
                                .group_size = {1, 1, 1},
                                .argument_count = 4,
                                .arguments = arguments,
                                .argument_bytes = bytes,
                                .address_mask = told ? 3 : 0};
    return vram_queue_launch(queue, kernel, &launch);
}

/* The error that a kernel on sleeping memory gives: the device is lost to its process, memory that
   sleeps included. */
static bool lose_device(struct check *check, struct check_device *device, vram_queue *queue,
                        struct check_stock *stock, vram_kernel *kernel) {
    device->unledgered = true;
    CHECK_OK(check, touch(queue, kernel, stock->blocks[1].addr, false));
    CHECK_STATUS(check, vram_queue_wait(queue, CHECK_DEADLINE_NS), VRAM_ERR_DEVICE_LOST);
    CHECK_STATUS(check, vram_queue_poll(queue), VRAM_ERR_DEVICE_LOST);
    CHECK_STATUS(check, vram_pool_wake(stock->pool, NULL), VRAM_ERR_DEVICE_LOST);
    return true;
}

/* What the library is told of is refused. What it is not told of is a mistake of the program, which
   only a process of its own (vram check --isolate) may make. */
static bool kernels(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_kernel *kernel;

    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    CHECK_TRY(begin(check, 0, &device, &queue, &stock));
    vram_status status = scale_kernel_create(device->device, touch_nothing, &kernel);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "no code of the suite is in the device's language");
    }
    CHECK_OK(check, status);
    CHECK_OK(check, touch(queue, kernel, stock.blocks[1].addr, true));
    CHECK_WAIT(check, queue);
    CHECK_TRY(fell_asleep(check, &stock, NULL));
    CHECK_STATUS(check, touch(queue, kernel, stock.blocks[1].addr, true), VRAM_ERR_INVALID);
    if (check->target->alone && (device->info.caps & VRAM_CAP_TRUE_ADDRESS) &&
        device->info.kind == VRAM_DEVICE_GPU && strcmp(device->info.backend, "sim") != 0) {
        return lose_device(check, device, queue, &stock, kernel);
    }
    CHECK_TRY(woke(check, &stock, NULL));
    CHECK_OK(check, touch(queue, kernel, stock.blocks[1].addr, true));
    CHECK_WAIT(check, queue);
    vram_kernel_destroy(kernel);
    return true;
}

/* The same as fell_asleep, for a rebuild. */
static bool rebuilt(struct check *check, struct check_stock *stock, vram_rebuild_result *result) {
    struct check_place place = CHECK_AT("vram_pool_rebuild");
    vram_pool_stats stats = {.size = sizeof stats};
    *result = (vram_rebuild_result){.size = sizeof *result};
    vram_status status = vram_pool_rebuild(stock->pool, NULL, result);
    if (check_ok(check, status, place)) {
        return true;
    }
    if (vram_pool_stats_get(stock->pool, &stats) == VRAM_OK && stats.asleep_bytes != 0) {
        /* A driver may need host memory to map what it has unmapped. */
        return check_that(check, check_driver_failed(check) || status == VRAM_ERR_HOST_MEMORY,
                          place);
    }
    return check_stock_failed(check, stock, place);
}

/* Memory that is free beside live blocks goes back to the driver, but for what is pinned, and the
   blocks have their addresses and contents. */
static bool rebuild(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_rebuild_result result;
    vram_pool_stats before, after;
    vram_addr addrs[36], more;
    const uint32_t count = sizeof addrs / sizeof addrs[0], kept = 6; /* every sixth */

    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_TRY(begin(check, 0, &device, &queue, &stock));
    uint64_t bytes = check_pool_granule(device, false) / 2;
    CHECK_TAKE(check, &stock, count * bytes, queue, &addrs[0]); /* leaves them a hole */
    CHECK_GIVE(check, &stock, addrs[0], queue);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_TAKE(check, &stock, bytes, queue, &addrs[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i % kept != 0) {
            CHECK_GIVE(check, &stock, addrs[i], queue);
        }
    }
    CHECK_STOCK_OK(check, &stock, vram_pin(addrs[0]));
    CHECK_TRY(check_stats(check, stock.pool, &before));
    CHECK_TRY(rebuilt(check, &stock, &result));
    CHECK_TRY(check_stats(check, stock.pool, &after));
    CHECK_TAKE(check, &stock, count * bytes, queue, &more); /* without host memory it ends here */
    CHECK_THAT(check, (result.handles > 0 && result.won_bytes > 0) || check_driver_failed(check));
    CHECK_THAT(check, after.reserved_bytes == before.reserved_bytes - result.won_bytes ||
                          check_driver_failed(check));
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_TRY(rebuilt(check, &stock, &result));
    CHECK_THAT(check, result.handles == 0 || check_driver_failed(check));
    CHECK_STOCK_OK(check, &stock, vram_unpin(addrs[0]));
    for (uint32_t i = 0; i < count; i++) {
        if (i % kept != 0) {
            CHECK_TAKE(check, &stock, bytes, queue, &addrs[i]);
        }
    }
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

static bool segments(struct check *check) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_SEGMENTS};
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, &options, &stock);
    CHECK_TAKE(check, &stock, 5000, queue, &addr);
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_sleep(stock.pool, NULL), VRAM_ERR_UNSUPPORTED);
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_wake(stock.pool, NULL), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_pool_rebuild(stock.pool, NULL, NULL),
                        VRAM_ERR_UNSUPPORTED);
    return true;
}

const struct check_case check_cases_sleep[] = {
    {"sleep.contents", "a pool releases its memory, and gets it back with its contents", contents},
    {"sleep.frees", "blocks that are freed while asleep are free when their memory is back", frees},
    {"sleep.by_tag", "a tag sleeps and wakes alone, and the rest of the pool still works", by_tag},
    {"sleep.mistakes", "sleeping twice, waking what is awake and sleep under pins are refused",
     mistakes},
    {"sleep.work", "running work is waited for, on whichever queue it is", work},
    {"sleep.kernels", "a launch that names sleeping memory is refused; one that hides it is fatal",
     kernels},
    {"sleep.rebuild", "memory that is free beside live blocks is won at a safe point", rebuild},
    {"sleep.segments", "a pool on segments says that it cannot sleep", segments},
    {NULL, NULL, NULL},
};
