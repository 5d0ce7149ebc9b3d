/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_together.c: things that go together, on every device: scopes, batches and named buffers.
 */
#include "case.h"

static bool live(struct check *check, const struct check_stock *stock, uint64_t blocks) {
    vram_pool_stats stats = {.size = sizeof stats};
    CHECK_OK(check, vram_pool_stats_get(stock->pool, &stats));
    CHECK_EQUAL(check, stats.live_blocks, blocks);
    return true;
}

/* Reads a buffer and compares it with the bytes of a seed. */
static bool verify(struct check *check, vram_buffer *buffer, uint64_t bytes, uint64_t seed,
                   vram_queue *queue) {
    uint8_t *expected;
    vram_span span;
    void *found;
    CHECK_TRY(check_host_seeded(check, bytes, seed, &expected));
    CHECK_TRY(check_host(check, bytes, &found));
    CHECK_OK(check, vram_buffer_span(buffer, 0, bytes, &span));
    CHECK_OK(check, vram_span_download(queue, found, span));
    CHECK_WAIT(check, queue);
    CHECK_SAME(check, (const uint8_t *)found, expected, bytes);
    return true;
}

/* Work of the queue goes on while the scope ends under it, and what was taken out stays. */
static bool scope(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_scope *outer, *inner;
    vram_buffer *buffer;
    vram_addr addr, kept;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_scope_begin(stock.pool, NULL, &outer));
    CHECK_OK(check, vram_scope_begin(stock.pool, outer, &inner));
    for (uint64_t i = 1; i <= 20; i++) {
        CHECK_OK(check, vram_scope_alloc(i % 2 ? inner : outer, i * 3000, queue, &addr));
        CHECK_OK(check, vram_queue_fill(queue, addr, (uint32_t)i, 4, i * 3000));
    }
    CHECK_OK(check, vram_scope_buffer_create(inner, 5000, queue, NULL, &buffer));
    CHECK_OK(check, vram_scope_alloc(inner, 5000, queue, &kept));
    CHECK_OK(check, vram_scope_take(inner, kept));
    CHECK_TRY(live(check, &stock, 22));
    CHECK_OK(check, vram_scope_end(outer));
    CHECK_TRY(live(check, &stock, 1));
    CHECK_STATUS(check, vram_scope_end(inner), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_buffer_destroy(buffer), VRAM_ERR_STALE);
    CHECK_OK(check, vram_free(kept, queue));
    CHECK_WAIT(check, queue);
    CHECK_TRY(live(check, &stock, 0));
    return true;
}

enum { ITEMS = 8 };

/* What was given on the host is in each, and none has bytes of another. */
static bool batch(struct check *check) {
    static const vram_precision precisions[] = {VRAM_PRECISION_FP32, VRAM_PRECISION_FP16,
                                                VRAM_PRECISION_BF16, VRAM_PRECISION_INT8};
    struct check_device *device;
    struct check_stock stock;
    vram_batch_item items[ITEMS];
    vram_queue *queue;
    vram_batch *together;
    vram_buffer *buffer;
    uint32_t first = 77;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_batch_create(stock.pool, queue, NULL, &together));
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint64_t each = vram_precision_bytes(precisions[i % 4]), count = 100 + 777 * (uint64_t)i;
        uint8_t *bytes;
        CHECK_TRY(check_host_seeded(check, count * each, i, &bytes));
        items[i] = (vram_batch_item){.size = sizeof items[i],
                                     .elements = count,
                                     .precision = precisions[i % 4],
                                     .host = bytes,
                                     .host_bytes = count * each};
    }
    items[ITEMS - 1].host_bytes++; /* one that is wrong: nothing comes of the others */
    CHECK_STATUS(check, vram_batch_add(together, items, ITEMS, &first), VRAM_ERR_INVALID);
    CHECK_TRY(live(check, &stock, 0));
    items[ITEMS - 1].host_bytes--;
    CHECK_OK(check, vram_batch_add(together, items, ITEMS, &first));
    CHECK_EQUAL(check, first, 0);
    CHECK_TRY(live(check, &stock, check_has(check, VRAM_CAP_HANDLES) ? ITEMS : 1));
    for (uint32_t i = 0; i < ITEMS; i++) {
        CHECK_OK(check, vram_batch_get(together, i, &buffer));
        CHECK_TRY(verify(check, buffer, items[i].host_bytes, i, queue));
    }
    CHECK_OK(check, vram_batch_destroy(together));
    CHECK_TRY(live(check, &stock, 0));
    CHECK_STATUS(check, vram_batch_destroy(together), VRAM_ERR_STALE);
    return true;
}

/* Growing by name keeps what is in a buffer, and the total is 0 at the end. */
static bool named(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_named_stats stats = {.size = sizeof stats};
    vram_named *names;
    vram_queue *queue;
    vram_buffer *buffer, *again;
    vram_span span;
    uint8_t *bytes;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_OK(check, vram_named_create(stock.pool, queue, NULL, &names));
    CHECK_OK(check, vram_named_add(names, "nodes", 3000, NULL, &buffer));
    CHECK_STATUS(check, vram_named_add(names, "nodes", 3000, NULL, &again), VRAM_ERR_INVALID);
    CHECK_TRY(check_host_seeded(check, 3000, 5, &bytes));
    CHECK_OK(check, vram_buffer_span(buffer, 0, 3000, &span));
    CHECK_OK(check, vram_span_upload(queue, span, bytes));
    for (uint64_t elements = 10000; elements <= 1000000; elements *= 10) {
        CHECK_OK(check, vram_named_ensure(names, "nodes", elements, &again));
        CHECK_THAT(check, again == buffer);
        CHECK_TRY(verify(check, buffer, 3000, 5, queue));
    }
    CHECK_OK(check, vram_named_remove(names, "nodes"));
    CHECK_OK(check, vram_named_stats_get(names, &stats));
    CHECK_EQUAL(check, stats.total_bytes, 0);
    CHECK_OK(check, vram_named_destroy(names));
    CHECK_TRY(live(check, &stock, 0));
    return true;
}

const struct check_case check_cases_together[] = {
    {"together.scope", "a scope frees what it owns, in stream order", scope},
    {"together.batch", "buffers are created all or none, each with its contents", batch},
    {"together.named", "buffers by name grow with their contents", named},
    {NULL, NULL, NULL},
};
