/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copying.c: `vram bench copy`: copies between host and device, beside the driver's own and beside
 * what the host's memory allows, in the same run.
 *
 * Of each size all ways run in turn, over and over, so that whatever disturbs the machine disturbs
 * all of them alike. Each is tried once before, with contents of its own, and every byte of that
 * copy is looked at. Then many small copies, in one call and one by one; and page-locked memory
 * from a pool and from the driver.
 */
#include "bench/copying.h"

#include "bench/team.h"
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MOST = 8, COPY_ROUNDS_LEAST = 3, PAIRS_AT_ONCE = 100 };

#define MIB (UINT64_C(1) << 20)

/* ------------------------------------------------------------------- contents */

/* Bytes that are another row for each way, so that none can live on what another one left. */
static void put_contents(unsigned char *bytes, uint64_t count, uint32_t salt) {
    uint64_t value = salt * UINT64_C(0x9e3779b97f4a7c15) + 1;
    uint64_t at = 0;
    for (; at + 8 <= count; at += 8) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
        memcpy(bytes + at, &value, 8);
    }
    memset(bytes + at, (int)(value >> 56), count - at);
}

static bool has_contents(const unsigned char *bytes, uint64_t count, uint32_t salt) {
    uint64_t value = salt * UINT64_C(0x9e3779b97f4a7c15) + 1;
    uint64_t at = 0;
    for (; at + 8 <= count; at += 8) {
        value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
        if (memcmp(bytes + at, &value, 8) != 0) {
            return false;
        }
    }
    for (; at < count && bytes[at] == (unsigned char)(value >> 56); at++) {
    }
    return at == count;
}

static bool driver_good(struct way *way, const struct copying *copying, bool good) {
    if (!good) {
        snprintf(way->reason, sizeof way->reason, "%s", copying->driver.reason);
    }
    return good;
}

/* What was said to be copied is there; outside of all times. */
static bool settled(struct way *way, struct copying *copying) {
    struct copy_driver *driver = &copying->driver;
    return way_good(way, vram_queue_wait(copying->queue, VRAM_TIMEOUT_DEFAULT)) &&
           (driver->settle == NULL || driver_good(way, copying, driver->settle(driver)));
}

/* -------------------------------------------------------------------- rounds */

/* A thread's part of a copy by the host. */
static bool copy_part(void *user, uint32_t index) {
    const struct copying *copying = user;
    uint64_t part = (copying->bytes / copying->threads + 64) / 64 * 64, from = part * index;
    if (from < copying->bytes) {
        uint64_t left = copying->bytes - from;
        memcpy(copying->copy_to + from, copying->copy_from + from, left < part ? left : part);
    }
    return true;
}

static bool host_copy(struct copying *copying, int direction, bool all, uint64_t *ns) {
    copying->copy_to = direction == TO_DEVICE ? copying->lock : copying->page;
    copying->copy_from = direction == TO_DEVICE ? copying->page : copying->lock;
    if (!all) {
        uint64_t before = ways_now();
        memcpy(copying->copy_to, copying->copy_from, copying->bytes);
        *ns = ways_now() - before;
        return true;
    }
    return team_run(copying->team, copying->threads, NULL, copy_part, copying, ns);
}

/* libvram's own copy of any kind of host memory, and its end. If the driver's call returns when
   ordinary memory was read, so does this: later work on the queue finds the copy complete. */
static vram_status vram_to_device(const struct copying *copying, vram_addr to, const void *from,
                                  uint64_t bytes) {
    vram_async async;
    if (from == copying->page && copying->driver.settle != NULL) {
        return vram_transfer_upload(copying->queue, to, from, bytes, NULL, NULL);
    }
    vram_status status = vram_transfer_upload(copying->queue, to, from, bytes, NULL, &async);
    return status == VRAM_OK ? vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT) : status;
}

static vram_status vram_to_host(const struct copying *copying, void *to, vram_addr from,
                                uint64_t bytes) {
    vram_async async;
    vram_status status = vram_transfer_download(copying->queue, to, from, bytes, NULL, &async);
    return status == VRAM_OK ? vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT) : status;
}

static bool is_pinned(int which) {
    return which == VRAM_PINNED || which == DRIVER_PINNED;
}

static bool round_of(struct copying *copying, struct way *way, int direction, int which,
                     uint64_t *ns) {
    if (which == MEMCPY_ALL || which == MEMCPY_ONE) {
        return host_copy(copying, direction, which == MEMCPY_ALL, ns);
    }
    if (is_pinned(which) && !copying->locked) {
        snprintf(way->reason, sizeof way->reason,
                 "no page-locked memory: the device has none, or ulimit -l is too low");
        return false;
    }
    bool good, pinned = is_pinned(which);
    unsigned char *host = pinned ? copying->lock : copying->page;
    struct copy_driver *driver = &copying->driver;
    uint64_t before = ways_now();
    if (which == DRIVER_PAGEABLE || which == DRIVER_PINNED) {
        good = direction == TO_DEVICE
                   ? driver->to_device(driver, copying->addr, host, copying->bytes, pinned)
                   : driver->to_host(driver, host, copying->addr, copying->bytes, pinned);
        good = driver_good(way, copying, good);
    } else {
        good = way_good(way, direction == TO_DEVICE
                                 ? vram_to_device(copying, copying->addr, host, copying->bytes)
                                 : vram_to_host(copying, host, copying->addr, copying->bytes));
    }
    *ns = ways_now() - before;
    return good;
}

/* A first round with contents of its own, every byte of which must arrive. */
static bool try_way(struct copying *copying, struct way *way, int direction, int which) {
    uint32_t salt = (uint32_t)(direction * COPY_WAYS + which + 1);
    uint64_t bytes = copying->bytes, ns;
    bool host_alone = which == MEMCPY_ALL || which == MEMCPY_ONE, pinned = is_pinned(which);
    unsigned char *host = pinned ? copying->lock : copying->page;
    unsigned char *other = pinned ? copying->page : copying->lock;
    unsigned char *source = host_alone && direction == TO_HOST ? other : host;
    unsigned char *target = source == host ? other : host;
    put_contents(source, bytes, salt);
    memset(target, 0, bytes);
    if (!host_alone && direction == TO_HOST) {
        /* The driver's own call may go by another stream. */
        if (!way_good(way, vram_to_device(copying, copying->addr, source, bytes)) ||
            !way_good(way, vram_queue_wait(copying->queue, VRAM_TIMEOUT_DEFAULT))) {
            return false;
        }
        memset(source, 0, bytes);
        target = source;
    }
    if (!round_of(copying, way, direction, which, &ns) || !settled(way, copying) ||
        (!host_alone && direction == TO_DEVICE &&
         !way_good(way, vram_to_host(copying, target, copying->addr, bytes)))) {
        return false;
    }
    if (!has_contents(target, bytes, salt)) {
        return way_differs(way, "the copy differs from its source");
    }
    return true;
}

/* --------------------------------------------------------------------- sizes */

static bool take_memory(struct copying *copying, uint64_t bytes, struct way *first) {
    copying->bytes = bytes;
    vram_addr lock = 0;
    vram_status status = vram_device_alloc(copying->device, bytes, VRAM_MEMORY_PINNED, &lock);
    copying->locked = status == VRAM_OK;
    copying->lock = copying->locked ? (unsigned char *)(uintptr_t)lock : copying->spare;
    return way_good(first,
                    vram_device_alloc(copying->device, bytes, VRAM_MEMORY_DEVICE, &copying->addr));
}

static void give_memory(struct copying *copying) {
    vram_queue_wait(copying->queue, VRAM_TIMEOUT_DEFAULT);
    if (copying->addr != 0) {
        vram_device_free(copying->device, copying->addr);
    }
    if (copying->locked) {
        vram_device_free(copying->device, (vram_addr)(uintptr_t)copying->lock);
    }
    copying->addr = 0;
}

static void name_ways(const struct copying *copying, struct copy_size *size) {
    static const char *const names[COPY_WAYS] = {"vram",          "vram_pinned", "driver",
                                                 "driver_pinned", "memcpy_all",  "memcpy_one"};
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        const char *abouts[COPY_WAYS] = {direction == TO_DEVICE && copying->driver.settle
                                             ? "libvram, ordinary memory, until it is read"
                                             : "libvram, ordinary memory",
                                         "libvram, page-locked memory",
                                         copying->driver.pageable_about[direction],
                                         copying->driver.pinned_about[direction],
                                         "the host alone, all threads",
                                         "the host alone, one thread"};
        for (int i = 0; i < COPY_WAYS; i++) {
            size->ways[direction][i].name = names[i];
            size->ways[direction][i].about = abouts[i];
        }
    }
}

/* A new order for each round, so that what a way leaves in the caches is found by each other one as
   often. With a fixed order that began elsewhere in each round, the driver's copy always came
   behind one of the same memory by libvram, and libvram's behind a copy by the host alone. */
static void shuffle(int order[DIRECTIONS * COPY_WAYS], uint64_t *seed) {
    for (int i = DIRECTIONS * COPY_WAYS - 1; i > 0; i--) {
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int other = (int)((*seed >> 33) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

/* All ways in turn until the time is over; what fails drops out with its reason. */
static void measure_size(struct copying *copying, struct copy_size *size, double seconds) {
    name_ways(copying, size);
    struct way *ways = &size->ways[0][0];
    bool alive[DIRECTIONS * COPY_WAYS] = {false};
    bool there = take_memory(copying, size->bytes, ways);
    for (int i = 0; i < DIRECTIONS * COPY_WAYS; i++) {
        if (!there) {
            memcpy(ways[i].reason, ways[0].reason, sizeof ways[i].reason);
        }
        alive[i] = there && try_way(copying, &ways[i], i / COPY_WAYS, i % COPY_WAYS);
    }
    int order[DIRECTIONS * COPY_WAYS];
    for (int i = 0; i < DIRECTIONS * COPY_WAYS; i++) {
        order[i] = i;
    }
    uint64_t end = ways_now() + (uint64_t)(seconds * 1e9), ns, seed = 1;
    for (int round = 0; there && round < WAY_SAMPLES; round++) {
        shuffle(order, &seed);
        for (int turn = 0; turn < DIRECTIONS * COPY_WAYS; turn++) {
            int i = order[turn];
            if (alive[i] && round_of(copying, &ways[i], i / COPY_WAYS, i % COPY_WAYS, &ns) &&
                settled(&ways[i], copying)) {
                ways[i].samples[ways[i].count++] = (double)ns;
            } else if (alive[i]) {
                alive[i] = false;
                ways[i].count = 0;
            }
        }
        if (ways_now() >= end && round + 1 >= COPY_ROUNDS_LEAST) {
            break;
        }
    }
    for (int i = 0; i < DIRECTIONS * COPY_WAYS; i++) {
        way_sum_up(&ways[i]);
    }
    give_memory(copying);
}

/* --------------------------------------------------------------------- batch */

/* Where copy i of the batch comes from and goes to: never beside the one before. */
static uint64_t batch_from(const struct copying *copying, uint32_t i) {
    return (uint64_t)(i * UINT64_C(7919) % copying->batch_count) * BATCH_BYTES;
}

static bool round_one_by_one(void *user, struct way *way, uint64_t *ns) {
    struct copying *copying = user;
    uint64_t before = ways_now();
    for (uint32_t i = 0; i < copying->batch_count; i++) {
        uint64_t at = (uint64_t)i * BATCH_BYTES;
        if (!driver_good(way, copying,
                         copying->driver.to_device(&copying->driver, copying->addr + at,
                                                   copying->page + batch_from(copying, i),
                                                   BATCH_BYTES, false))) {
            return false;
        }
    }
    *ns = ways_now() - before;
    return true;
}

/* The list is the caller's to make, once for all times; the call looks at every row of it. */
static bool round_batched(void *user, struct way *way, uint64_t *ns) {
    struct copying *copying = user;
    vram_async async;
    uint64_t before = ways_now();
    vram_status status =
        vram_transfer_batch(copying->queue, copying->list, copying->batch_count, NULL, &async);
    status = status == VRAM_OK ? vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT) : status;
    *ns = ways_now() - before;
    return way_good(way, status);
}

static bool round_submitted(void *user, struct way *way, uint64_t *ns) {
    struct copying *copying = user;
    vram_status status = VRAM_OK;
    uint64_t before = ways_now();
    for (uint32_t i = 0; i < copying->batch_count && status == VRAM_OK; i++) {
        status = vram_queue_upload(copying->queue, copying->addr + (uint64_t)i * BATCH_BYTES,
                                   copying->page + batch_from(copying, i), BATCH_BYTES);
    }
    status = status == VRAM_OK ? vram_queue_wait(copying->queue, VRAM_TIMEOUT_DEFAULT) : status;
    *ns = ways_now() - before;
    return way_good(way, status);
}

/* Whether every small copy is where it belongs. */
static bool batch_arrived(struct copying *copying, struct way *way) {
    if (!way_good(way, vram_to_host(copying, copying->lock, copying->addr, copying->bytes))) {
        return false;
    }
    for (uint32_t i = 0; i < copying->batch_count; i++) {
        if (memcmp(copying->lock + (uint64_t)i * BATCH_BYTES,
                   copying->page + batch_from(copying, i), BATCH_BYTES) != 0) {
            return way_differs(way, "copy %u of the list differs from its source", i);
        }
    }
    return true;
}

static bool clear_device(struct copying *copying, struct way *way) {
    vram_status status = vram_queue_fill(copying->queue, copying->addr, 0, 4, copying->bytes);
    status = status == VRAM_OK ? vram_queue_wait(copying->queue, VRAM_TIMEOUT_DEFAULT) : status;
    return way_good(way, status);
}

static bool make_list(struct copying *copying, struct way *way) {
    copying->list = calloc(copying->batch_count, sizeof copying->list[0]);
    if (copying->list == NULL) {
        snprintf(way->reason, sizeof way->reason, "out of host memory");
        return false;
    }
    for (uint32_t i = 0; i < copying->batch_count; i++) {
        copying->list[i] = (vram_copy){.to = copying->addr + (uint64_t)i * BATCH_BYTES,
                                       .from_host = copying->page + batch_from(copying, i),
                                       .bytes = BATCH_BYTES};
    }
    return true;
}

static void measure_batch(struct copying *copying, double seconds) {
    static way_fn *const rounds[BATCH_WAYS] = {
        [BATCHED] = round_batched, [SUBMITTED] = round_submitted, [ONE_BY_ONE] = round_one_by_one};
    struct way *ways = copying->batch;
    ways[BATCHED].name = "batched", ways[BATCHED].about = "all in one call, one wait";
    ways[SUBMITTED].name = "submitted", ways[SUBMITTED].about = "a call for each, one wait";
    ways[ONE_BY_ONE].name = "one_by_one";
    ways[ONE_BY_ONE].about = "a driver call for each, waited for";
    uint64_t bytes = (uint64_t)copying->batch_count * BATCH_BYTES, ns;
    bool there = take_memory(copying, bytes, &ways[0]) && make_list(copying, &ways[0]);
    if (there) {
        put_contents(copying->page, bytes, 99);
    }
    for (int i = 0; i < BATCH_WAYS; i++) {
        if (!there) {
            memcpy(ways[i].reason, ways[0].reason, sizeof ways[i].reason);
        } else if (clear_device(copying, &ways[i]) && rounds[i](copying, &ways[i], &ns) &&
                   settled(&ways[i], copying) && batch_arrived(copying, &ways[i])) {
            way_measure(&ways[i], rounds[i], copying, seconds / BATCH_WAYS);
        }
    }
    give_memory(copying);
    free(copying->list);
}

/* --------------------------------------------------------------------- pairs */

struct pairing {
    struct copying *copying;
    vram_pool *pool;
    uint64_t bytes;
};

/* Several in a row: to look at the clock takes longer than a pair. */
static bool round_pool(void *user, struct way *way, uint64_t *ns) {
    const struct pairing *pairing = user;
    vram_addr addr;
    vram_status status = VRAM_OK;
    uint64_t before = ways_now();
    for (int i = 0; i < PAIRS_AT_ONCE && status == VRAM_OK; i++) {
        status = vram_alloc(pairing->pool, pairing->bytes, NULL, &addr);
        status = status == VRAM_OK ? vram_free(addr, NULL) : status;
    }
    *ns = (ways_now() - before) / PAIRS_AT_ONCE;
    return way_good(way, status);
}

static bool round_driver(void *user, struct way *way, uint64_t *ns) {
    const struct pairing *pairing = user;
    struct copy_driver *driver = &pairing->copying->driver;
    uint64_t before = ways_now();
    bool good = driver->pair(driver, pairing->bytes);
    *ns = ways_now() - before;
    return driver_good(way, pairing->copying, good);
}

static void measure_pairs(struct copying *copying, struct copy_pair *pair, double seconds) {
    vram_pool_options pinned = {.size = sizeof pinned, .kind = VRAM_MEMORY_PINNED};
    struct pairing pairing = {.copying = copying, .bytes = pair->bytes};
    pair->ways[PAIR_POOL].name = "pool";
    pair->ways[PAIR_POOL].about = "vram_alloc and vram_free, in a pool of page-locked memory";
    pair->ways[PAIR_DRIVER].name = "driver";
    pair->ways[PAIR_DRIVER].about = copying->driver.pair_about;
    if (way_good(&pair->ways[PAIR_POOL],
                 vram_pool_create(copying->device, &pinned, &pairing.pool))) {
        way_measure(&pair->ways[PAIR_POOL], round_pool, &pairing, seconds / 2);
        vram_pool_destroy(pairing.pool);
    }
    way_measure(&pair->ways[PAIR_DRIVER], round_driver, &pairing, seconds / 2);
}

/* ---------------------------------------------------------------------- verb */

/* A byte, 4 KiB, times 16, to the largest, which may lie between two of these. */
static void choose_sizes(struct copying *copying, uint64_t largest) {
    static const uint64_t sizes[] = {1, 4096, 65536, MIB, 16 * MIB, 256 * MIB, 1024 * MIB};
    for (size_t i = 0; i < COPY_SIZES_MAX; i++) {
        uint64_t size = sizes[i] < largest ? sizes[i] : largest;
        copying->sizes[copying->size_count++].bytes = size;
        if (size == largest) {
            break;
        }
    }
    copying->batch_count = BATCH_COUNT;
    while (copying->batch_count > 10 &&
           (uint64_t)copying->batch_count * BATCH_BYTES > 4 * largest) {
        copying->batch_count /= 10;
    }
    uint64_t batch = (uint64_t)copying->batch_count * BATCH_BYTES;
    copying->most = batch > largest ? batch : largest;
    copying->pairs[copying->pair_count++].bytes = largest < MIB ? largest : MIB;
    if (largest >= 64 * MIB) {
        copying->pairs[copying->pair_count++].bytes = 64 * MIB;
    }
}

/* The time in equal parts: one for each size, one for the list, one for each pair. */
static void measure(struct copying *copying, struct terminal *terminal, double seconds) {
    uint64_t parts = copying->size_count + 1 + copying->pair_count, part = 0;
    double share = seconds / (double)parts;
    for (uint32_t i = 0; i < copying->size_count; i++) {
        measure_size(copying, &copying->sizes[i], share);
        terminal_progress(terminal, ++part, parts, "parts");
    }
    measure_batch(copying, share);
    terminal_progress(terminal, ++part, parts, "parts");
    for (uint32_t i = 0; i < copying->pair_count; i++) {
        measure_pairs(copying, &copying->pairs[i], share);
        terminal_progress(terminal, ++part, parts, "parts");
    }
    terminal_progress_end(terminal);
}

static uint32_t threads_here(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > THREADS_MOST ? THREADS_MOST : (uint32_t)count;
}

static bool has_wrong(const struct copying *copying) {
    bool wrong = ways_differ(copying->batch, BATCH_WAYS);
    for (uint32_t i = 0; i < copying->size_count; i++) {
        wrong |= ways_differ(copying->sizes[i].ways[0], DIRECTIONS * COPY_WAYS);
    }
    return wrong;
}

static int run(struct invocation *invocation, const struct target *target, struct copying *copying,
               double seconds) {
    vram_status status = vram_device_open(target->context, target->index, &copying->device);
    if (status == VRAM_OK) {
        status = vram_queue_create(copying->device, NULL, &copying->queue);
    }
    if (status != VRAM_OK) {
        vram_device_close(copying->device);
        return say_failure("cannot open the device", status);
    }
    int code = EXIT_MISUSE;
    copy_driver_open(&copying->driver, target, copying->device, copying->queue);
    copying->team = team_create(copying->threads);
    copying->page = malloc(copying->most);
    copying->spare = malloc(copying->most);
    if (copying->team == NULL || copying->driver.state == NULL || copying->page == NULL ||
        copying->spare == NULL) {
        say_error("out of host memory or of threads");
    } else {
        measure(copying, &invocation->terminal, seconds);
        code = EXIT_YES;
    }
    team_destroy(copying->team);
    if (copying->driver.state != NULL) {
        copying->driver.close(&copying->driver);
    }
    vram_queue_destroy(copying->queue);
    vram_device_close(copying->device); /* no copy is under way any more, whatever failed */
    free(copying->page);
    free(copying->spare);
    if (code != EXIT_YES) {
        return code;
    }
    if (!invocation->json) {
        copy_print(&invocation->terminal, target, copying);
    } else if (!copy_write(target, copying)) {
        return EXIT_MISUSE;
    }
    return has_wrong(copying) ? EXIT_NO : EXIT_YES;
}

int bench_copy(struct invocation *invocation, const struct target *target, uint64_t largest,
               uint32_t threads, double seconds) {
    struct copying *copying = calloc(1, sizeof *copying);
    if (copying == NULL) {
        say_error("out of host memory");
        return EXIT_MISUSE;
    }
    bool gpu = target->info.kind == VRAM_DEVICE_GPU;
    largest = largest != 0 ? largest : gpu ? 1024 * MIB : 64 * MIB;
    copying->threads = threads != 0 ? threads : threads_here();
    choose_sizes(copying, largest);
    int code = run(invocation, target, copying, seconds);
    free(copying);
    return code;
}
