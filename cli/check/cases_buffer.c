/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_buffer.c: buffers of every kind, on every device: their info, their contents, and their
 * moves.
 */
#include "case.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

static bool make(struct check *check, vram_pool *pool, uint64_t bytes, vram_buffer_kind kind,
                 vram_queue *queue, vram_buffer **buffer) {
    vram_buffer_options options = {.size = sizeof options, .kind = kind, .tag = "check/buffer"};
    CHECK_OK(check, vram_buffer_create(pool, bytes, queue, &options, buffer));
    return true;
}

static bool describe(struct check *check, vram_buffer *buffer, vram_buffer_info *info) {
    *info = (vram_buffer_info){.size = sizeof *info};
    CHECK_OK(check, vram_buffer_info_get(buffer, info));
    return true;
}

/* The part of a buffer that is written and compared: all of it or, for large ones in quick runs,
   its last bytes and as many of its first ones. */
enum { SAMPLE = 4096 };
static bool sample(struct check *check, vram_buffer *buffer, bool last, vram_span *span) {
    vram_buffer_info info;
    CHECK_TRY(describe(check, buffer, &info));
    bool all = info.used_bytes <= 16 * SAMPLE || check_rounds(check, 100) == 100;
    uint64_t bytes = all && last ? 0 : all ? info.used_bytes : SAMPLE;
    CHECK_OK(check, vram_buffer_span(buffer, last ? info.used_bytes - bytes : 0, bytes, span));
    return true;
}

/* Writes the bytes of a seed into the buffer. */
static bool write_seed(struct check *check, vram_buffer *buffer, uint64_t seed, vram_queue *queue) {
    vram_span span;
    uint8_t *bytes;
    for (int last = 0; last < 2; last++) {
        CHECK_TRY(sample(check, buffer, last, &span));
        CHECK_TRY(check_host_seeded(check, span.bytes, seed + (uint64_t)last, &bytes));
        CHECK_OK(check, vram_span_upload(queue, span, bytes));
    }
    return true;
}

/* Reads the buffer and compares it with the bytes of a seed. */
static bool verify_seed(struct check *check, vram_buffer *buffer, uint64_t seed,
                        vram_queue *queue) {
    vram_span span;
    uint8_t *expected;
    void *found;
    for (int last = 0; last < 2; last++) {
        CHECK_TRY(sample(check, buffer, last, &span));
        CHECK_TRY(check_host_seeded(check, span.bytes, seed + (uint64_t)last, &expected));
        CHECK_TRY(check_host(check, span.bytes, &found));
        CHECK_OK(check, vram_span_download(queue, found, span));
        CHECK_WAIT(check, queue);
        CHECK_SAME(check, (const uint8_t *)found, expected, span.bytes);
    }
    return true;
}

/* A pool that may hold so much, and falls back when that is not enough. */
static bool limited(struct check *check, struct check_stock *stock, uint64_t bytes) {
    vram_limits limits = {.size = sizeof limits,
                          .fraction = 1,
                          .min_free_bytes = 1,
                          .hard_bytes = bytes,
                          .cpu_fallback = VRAM_SWITCH_ON};
    CHECK_OK(check, vram_pool_limits_set(stock->pool, &limits));
    return true;
}

/* A size of buffers that fills whole granules. */
static uint64_t unit_of(struct check *check, const struct check_device *device) {
    uint64_t least = check->info.kind == VRAM_DEVICE_GPU ? 4 * MIB : 256 * 1024;
    return check_round_up(least, check_pool_granule(device, false));
}

/* ---------------------------------------------------------------------- cases */

/* The same number of elements is as many bytes as its precision says, and comes back as it went. */
static bool elements(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_buffer *buffers[5];
    vram_buffer_info info, last = {0};

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    for (int i = 0; i < 5; i++) {
        vram_precision precision = (vram_precision)i;
        CHECK_OK(check, vram_buffer_create_elements(stock.pool, 3001, precision, queue, NULL,
                                                    &buffers[i]));
        CHECK_TRY(describe(check, buffers[i], &info));
        CHECK_EQUAL(check, info.elements, 3001);
        CHECK_EQUAL(check, info.used_bytes, 3001 * (uint64_t)vram_precision_bytes(precision));
        CHECK_THAT(check, info.id > last.id && info.location == VRAM_MEMORY_DEVICE);
        last = info;
        CHECK_TRY(write_seed(check, buffers[i], (uint64_t)i, queue));
    }
    for (int i = 0; i < 5; i++) {
        CHECK_TRY(verify_seed(check, buffers[i], (uint64_t)i, queue));
        CHECK_OK(check, vram_buffer_destroy(buffers[i]));
    }
    return true;
}

/* What each kind needs of a device; 0: nothing. */
static uint32_t need_of(const struct check *check, vram_buffer_kind kind) {
    if (kind == VRAM_BUFFER_MAPPED && !check_has(check, VRAM_CAP_HOST_ACCESS)) {
        return check_has(check, VRAM_CAP_HANDLES) ? UINT32_MAX
                                                  : VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS;
    }
    return kind == VRAM_BUFFER_PINNED    ? VRAM_CAP_PINNED
           : kind == VRAM_BUFFER_MANAGED ? VRAM_CAP_MANAGED
                                         : 0;
}

/* Contents go in and out by spans and by mappings, and the host finds them where it may look. */
static bool one_kind(struct check *check, vram_pool *pool, vram_buffer_kind kind,
                     vram_queue *queue) {
    const uint64_t bytes = 50001;
    vram_buffer_info info;
    vram_buffer *buffer;
    uint8_t *seen, *expected;

    check_note(check, "kind %s", vram_buffer_kind_name(kind));
    CHECK_TRY(make(check, pool, bytes, kind, queue, &buffer));
    CHECK_TRY(describe(check, buffer, &info));
    CHECK_THAT(check, info.kind == kind && info.pinned == (info.location == VRAM_MEMORY_PINNED));
    CHECK_TRY(write_seed(check, buffer, 40, queue));
    CHECK_TRY(verify_seed(check, buffer, 40, queue));
    CHECK_TRY(check_host_seeded(check, bytes, 40, &expected));
    if (info.host) {
        CHECK_SAME(check, (const uint8_t *)info.host, expected, bytes);
    }
    CHECK_OK(check, vram_buffer_map(buffer, 1001, 5000, VRAM_MAP_READ, NULL, (void **)&seen));
    CHECK_SAME(check, seen, expected + 1001, 5000);
    CHECK_OK(check, vram_buffer_unmap(buffer));
    CHECK_OK(check, vram_buffer_map(buffer, 0, bytes, VRAM_MAP_READ | VRAM_MAP_WRITE, NULL,
                                    (void **)&seen));
    check_seed(seen, bytes, 41);
    CHECK_OK(check, vram_buffer_unmap(buffer));
    CHECK_TRY(verify_seed(check, buffer, 41, queue));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    return true;
}

static bool kinds(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_buffer *none = NULL;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    for (int i = VRAM_BUFFER_DEVICE; i <= VRAM_BUFFER_FALLBACK; i++) {
        vram_buffer_options options = {.size = sizeof options, .kind = (vram_buffer_kind)i};
        if (need_of(check, options.kind) & ~check->info.caps) {
            CHECK_STATUS(check, vram_buffer_create(stock.pool, 10, queue, &options, &none),
                         VRAM_ERR_UNSUPPORTED);
        } else {
            CHECK_TRY(one_kind(check, stock.pool, options.kind, queue));
        }
    }
    return true;
}

/* Buffers that are destroyed under the work of two queues leave it alone. */
static bool order(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *first, *second;
    vram_buffer *buffer, *next;
    vram_addr addr;
    const uint64_t bytes = 300000;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &first);
    CHECK_QUEUE(check, device, &second);
    CHECK_STOCK(check, device, NULL, &stock);
    for (uint32_t i = 0; i < check_rounds(check, 50); i++) {
        check_note(check, "round %u", i);
        CHECK_TRY(make(check, stock.pool, bytes, VRAM_BUFFER_DEVICE, first, &buffer));
        CHECK_OK(check, vram_buffer_addr(buffer, &addr));
        CHECK_OK(check, vram_queue_fill(first, addr, i, 1, bytes / 2));
        CHECK_OK(check, vram_queue_fill(second, addr + bytes / 2, i + 1, 1, bytes / 2));
        CHECK_OK(check, vram_buffer_use(buffer, second));
        CHECK_OK(check, vram_buffer_destroy(buffer));
        CHECK_TRY(make(check, stock.pool, bytes, VRAM_BUFFER_DEVICE, second, &next));
        CHECK_TRY(write_seed(check, next, i, second));
        CHECK_WAIT(check, first);
        CHECK_TRY(verify_seed(check, next, i, second));
        CHECK_OK(check, vram_buffer_destroy(next));
    }
    return true;
}

/* What does not fit falls back, and goes to the device when there is room, contents and all. */
static bool fallback(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_buffer *first, *second;
    vram_buffer_info info;
    vram_pool_stats stats;

    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    uint64_t unit = unit_of(check, device);
    CHECK_TRY(limited(check, &stock, unit));
    CHECK_TRY(make(check, stock.pool, unit, VRAM_BUFFER_FALLBACK, queue, &first));
    CHECK_TRY(make(check, stock.pool, unit, VRAM_BUFFER_FALLBACK, queue, &second));
    CHECK_TRY(describe(check, first, &info));
    if (info.location != VRAM_MEMORY_DEVICE) {
        return true; /* a driver that has failed: there was no memory for the first already */
    }
    CHECK_TRY(describe(check, second, &info));
    CHECK_THAT(check, info.location != VRAM_MEMORY_DEVICE);
    CHECK_TRY(write_seed(check, first, 1, queue));
    CHECK_TRY(write_seed(check, second, 2, queue));
    CHECK_EXHAUSTED(check, vram_buffer_promote(second, NULL));
    CHECK_TRY(verify_seed(check, second, 2, queue));
    CHECK_TRY(verify_seed(check, first, 1, queue));
    CHECK_OK(check, vram_buffer_destroy(first));
    CHECK_OK(check, vram_buffer_promote(second, NULL));
    CHECK_TRY(describe(check, second, &info));
    CHECK_THAT(check, info.location == VRAM_MEMORY_DEVICE && info.promotions == 1);
    CHECK_TRY(verify_seed(check, second, 2, queue));
    CHECK_OK(check, vram_buffer_demote(second, NULL));
    CHECK_TRY(verify_seed(check, second, 2, queue));
    CHECK_TRY(check_stats(check, stock.pool, &stats));
    CHECK_THAT(check, stats.fallbacks == 1 && stats.promotions == 1 && stats.demotions == 1);
    CHECK_OK(check, vram_buffer_destroy(second));
    return true;
}

enum { SET = 6, ROOM = 2 };

/* Brings a buffer to the device, sending those away that were used longest ago. */
static bool bring(struct check *check, struct check_stock *stock, vram_buffer *buffer,
                  uint64_t bytes, vram_queue *queue) {
    vram_buffer_info info;
    vram_status status = vram_buffer_promote(buffer, queue);
    if (vram_status_is_exhausted(status)) {
        uint64_t left;
        CHECK_OK(check, vram_pool_demote(stock->pool, bytes, queue, &left));
        status = vram_buffer_promote(buffer, queue);
    }
    CHECK_OK(check, status);
    CHECK_TRY(describe(check, buffer, &info));
    CHECK_THAT(check, info.location == VRAM_MEMORY_DEVICE);
    return true;
}

/* Three times as much as the pool may hold: every buffer has its turn on the device. */
static bool working_set(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_buffer *buffers[SET];
    uint64_t seeds[SET], moved = 0;
    vram_pool_stats stats;

    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    uint64_t unit = unit_of(check, device);
    CHECK_TRY(limited(check, &stock, ROOM * unit));
    for (uint32_t i = 0; i < SET; i++) {
        CHECK_TRY(make(check, stock.pool, unit, VRAM_BUFFER_FALLBACK, queue, &buffers[i]));
        CHECK_TRY(write_seed(check, buffers[i], seeds[i] = i, queue));
    }
    for (uint32_t round = 0; round < check_rounds(check, 12); round++) {
        uint32_t at = (round * 5 + round / 3) % SET;
        check_note(check, "round %u, buffer %u", round, at);
        CHECK_TRY(bring(check, &stock, buffers[at], unit, queue));
        CHECK_TRY(verify_seed(check, buffers[at], seeds[at], queue));
        CHECK_TRY(write_seed(check, buffers[at], seeds[at] = 100 + round, queue));
    }
    CHECK_TRY(check_stats(check, stock.pool, &stats));
    CHECK_THAT(check, stats.reserved_bytes <= ROOM * unit && stats.promotions > 0);
    for (uint32_t i = ROOM; i < SET; i++) {
        CHECK_TRY(verify_seed(check, buffers[i], seeds[i], queue));
        CHECK_OK(check, vram_buffer_destroy(buffers[i]));
    }
    CHECK_OK(check, vram_pool_promote(stock.pool, queue, &moved)); /* room has returned */
    for (uint32_t i = 0; i < ROOM; i++) {
        vram_buffer_info info;
        CHECK_OK(check, vram_buffer_promote(buffers[i], queue)); /* nothing is left to do */
        CHECK_TRY(describe(check, buffers[i], &info));
        CHECK_THAT(check, info.location == VRAM_MEMORY_DEVICE);
        CHECK_TRY(verify_seed(check, buffers[i], seeds[i], queue));
    }
    return true;
}

/* The driver's object for memory, if there is one and the backend adopts such objects. */
static bool wrap_object(struct check *check, const struct check_device *device, vram_pool *pool,
                        vram_queue *queue, vram_addr addr, uint64_t bytes) {
    vram_native_info native = {.size = sizeof native};
    vram_buffer *buffer;
    CHECK_OK(check, vram_native(addr, &native));
    if (native.handle == NULL && strcmp(device->info.backend, "opencl") == 0) {
        return true; /* it would adopt a cl_mem, and has none to show */
    }
    vram_wrap object = {.size = sizeof object,
                        .kind = VRAM_WRAP_HANDLE,
                        .pointer = native.handle != NULL ? native.handle : &native,
                        .offset = native.handle != NULL ? native.offset : 0,
                        .bytes = bytes};
    vram_status status = vram_buffer_wrap(pool, &object, queue, NULL, &buffer);
    if (native.handle == NULL || status != VRAM_OK) {
        CHECK_STATUS(check, status, VRAM_ERR_UNSUPPORTED);
        return true;
    }
    CHECK_TRY(write_seed(check, buffer, 8, queue));
    CHECK_TRY(verify_seed(check, buffer, 8, queue));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    object.bytes = native.bytes + 1;
    CHECK_STATUS(check, vram_buffer_wrap(pool, &object, queue, NULL, &buffer), VRAM_ERR_INVALID);
    return true;
}

/* Memory of the program's own, and what a backend cannot adopt. */
static bool wrap(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    void *own;
    vram_buffer *buffer;
    const uint64_t bytes = 50000;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TRY(check_host(check, bytes, &own));
    vram_wrap host = {.size = sizeof host, .kind = VRAM_WRAP_HOST, .pointer = own, .bytes = bytes};
    CHECK_OK(check, vram_buffer_wrap(stock.pool, &host, queue, NULL, &buffer));
    CHECK_TRY(write_seed(check, buffer, 6, queue));
    CHECK_TRY(verify_seed(check, buffer, 6, queue));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    CHECK_OK(check, vram_device_alloc(device->device, bytes, VRAM_MEMORY_DEVICE, &addr));
    vram_wrap address = {
        .size = sizeof address, .kind = VRAM_WRAP_ADDRESS, .address = addr, .bytes = bytes};
    CHECK_OK(check, vram_buffer_wrap(stock.pool, &address, queue, NULL, &buffer));
    CHECK_TRY(write_seed(check, buffer, 7, queue));
    CHECK_TRY(verify_seed(check, buffer, 7, queue));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    CHECK_TRY(wrap_object(check, device, stock.pool, queue, addr, bytes));
    CHECK_OK(check, vram_device_free(device->device, addr)); /* still the program's */
    return true;
}

/* Mistakes are found before anything happens. */
static bool mistakes(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_buffer *buffer, *none = NULL;
    vram_span span;
    void *pointer;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TRY(make(check, stock.pool, 1000, VRAM_BUFFER_DEVICE, queue, &buffer));
    CHECK_TRY(write_seed(check, buffer, 3, queue));
    CHECK_STATUS(check, vram_buffer_create(stock.pool, UINT64_MAX, queue, NULL, &none),
                 VRAM_ERR_OVERFLOW);
    CHECK_STATUS(check,
                 vram_buffer_create_elements(stock.pool, UINT64_MAX / 2, VRAM_PRECISION_FP32, queue,
                                             NULL, &none),
                 VRAM_ERR_OVERFLOW);
    CHECK_EXHAUSTED(check, vram_buffer_create(stock.pool, UINT64_C(1) << 52, queue, NULL, &none));
    CHECK_STATUS(check, vram_buffer_span(buffer, 1, 1000, &span), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_buffer_map(buffer, 0, 1001, VRAM_MAP_READ, NULL, &pointer),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_buffer_unmap(buffer), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_buffer_promote(buffer, NULL), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_buffer_prefetch(buffer, 0, 1, VRAM_TARGET_OWN, NULL),
                 VRAM_ERR_INVALID);
    CHECK_THAT(check, none == NULL);
    CHECK_TRY(verify_seed(check, buffer, 3, queue));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    CHECK_STATUS(check, vram_buffer_destroy(buffer), VRAM_ERR_STALE);
    return true;
}

/* After a resize that failed the buffer is what it was. */
static bool resized(struct check *check, vram_buffer *buffer, uint64_t bytes, vram_queue *queue) {
    vram_buffer_info before, after;
    CHECK_TRY(describe(check, buffer, &before));
    vram_status status = vram_buffer_resize(buffer, bytes, queue);
    CHECK_TRY(describe(check, buffer, &after));
    if (status != VRAM_OK) {
        CHECK_EQUAL(check, after.addr, before.addr);
        CHECK_EQUAL(check, after.capacity_bytes, before.capacity_bytes);
        CHECK_EQUAL(check, after.used_bytes, before.used_bytes);
        CHECK_EQUAL(check, after.resizes, before.resizes);
    }
    CHECK_OK(check, status);
    CHECK_EQUAL(check, after.used_bytes, bytes);
    return true;
}

/* Grows from a few elements to many with others next to it, by a policy, on two queues. Contents
   are kept whether it grows in place or elsewhere, and all memory is freed at the end. */
static bool growth(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queues[2];
    vram_buffer *buffer, *beside;
    vram_growth policy = {.size = sizeof policy,
                          .policy = VRAM_GROWTH_FACTOR,
                          .factor_ppm = 1300000,
                          .min_bytes = 4096,
                          .max_bytes = UINT64_C(512) << 20,
                          .element_bytes = 12};
    vram_growth_info info = {.size = sizeof info};
    uint8_t *model;
    void *found;
    uint64_t bytes = 3000, written = 0;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queues[0]);
    CHECK_QUEUE(check, device, &queues[1]);
    CHECK_STOCK(check, device, NULL, &stock);
    vram_buffer_options options = {.size = sizeof options, .growth = &policy};
    CHECK_OK(check, vram_buffer_create(stock.pool, 0, queues[0], &options, &buffer));
    CHECK_TRY(make(check, stock.pool, 5000, VRAM_BUFFER_DEVICE, queues[0], &beside));
    CHECK_TRY(check_host_seeded(check, 200000, 7, &model));
    CHECK_TRY(check_host(check, 200000, &found));
    for (uint32_t i = 0; bytes < 200000; i++, bytes += bytes / 2) {
        vram_queue *queue = queues[i % 2];
        vram_span rest = {buffer, written, bytes - written}, all = {buffer, 0, bytes};
        CHECK_TRY(resized(check, buffer, bytes, queue));
        CHECK_OK(check, vram_span_upload(queue, rest, model + written));
        CHECK_OK(check, vram_span_download(queue, found, all));
        CHECK_WAIT(check, queue);
        CHECK_SAME(check, (const uint8_t *)found, model, bytes);
        written = bytes;
    }
    CHECK_TRY(resized(check, buffer, 100, NULL));
    CHECK_OK(check, vram_buffer_fit(buffer, NULL));
    CHECK_OK(check, vram_buffer_growth_get(buffer, &info));
    CHECK_THAT(check, info.in_place + info.copies >= 5 && info.refusals == 0);
    CHECK_OK(check, vram_buffer_destroy(beside));
    CHECK_OK(check, vram_buffer_destroy(buffer));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

const struct check_case check_cases_buffer[] = {
    {"buffer.elements", "elements of every precision are counted, written and read", elements},
    {"buffer.kinds", "every kind that the device has holds what spans and mappings put in", kinds},
    {"buffer.order", "buffers are destroyed while two queues still work with them", order},
    {"buffer.fallback", "what does not fit falls back, and is promoted when there is room",
     fallback},
    {"buffer.working_set", "three times the pool's limit moves in and out without loss of data",
     working_set},
    {"buffer.wrap", "memory of the program is used, and neither freed nor moved", wrap},
    {"buffer.growth", "a buffer grows by its policy, in place or not, and keeps its contents",
     growth},
    {"buffer.mistakes", "invalid sizes, spans and moves are refused", mistakes},
    {NULL, NULL, NULL},
};
