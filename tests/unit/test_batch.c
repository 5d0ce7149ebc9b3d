/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_batch.c: buffers that come together or not at all, lie side by side, and go together. Item
 * 24 of the acceptance list.
 */
#include "unit/mem_world.h"
#include "unit/pool_flags.h"
#include "vram/batch.h"
#include "vram/growth.h"
#include "vram/limits.h"

#define ITEM(...)                                                                                  \
    { .size = sizeof(vram_batch_item), __VA_ARGS__ }

static vram_buffer_info buffer_of(vram_batch *batch, uint32_t index) {
    vram_buffer_info info = {.size = sizeof info};
    vram_buffer *buffer;
    assert_ok(vram_batch_get(batch, index, &buffer));
    assert_ok(vram_buffer_info_get(buffer, &info));
    return info;
}

/* ---------------------------------------------------------------- good batches */

/* Work of another queue on one of the buffers keeps the whole block, until it is done. */
TEST(uses_by_other_queues) {
    static const vram_batch_item items[] = {ITEM(.elements = 2 * MIB), ITEM(.elements = 2 * MIB)};
    vram_batch *batch;
    vram_buffer *second;
    vram_queue *other;
    vram_addr addr;
    uint32_t first;
    SKIP_UNDER(
        VRAM_POOL_DETERMINISTIC | VRAM_POOL_RED_ZONES | VRAM_POOL_POISON, false,
        "there the queue, or the call, waits for the other users: it may have the block at once");
    struct rig rig = rig_make("sim", "memory=1G,lag=10000");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, 2, &first));
    vram_addr base = buffer_of(batch, 0).addr;
    assert_ok(vram_batch_get(batch, 1, &second));
    assert_ok(vram_queue_fill(other, buffer_of(batch, 1).addr, 7, 1, 2 * MIB));
    assert_ok(vram_buffer_use(second, other));
    assert_ok(vram_batch_destroy(batch));
    assert_ok(vram_alloc(pool, 4 * MIB, rig.queue, &addr)); /* its own queue may not have it yet */
    assert_int_not_equal(addr, base);
    assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

/* Growing leads a buffer out of the common block; what its neighbours have there stays. */
TEST(growing_out_of_the_block, "sim:memory=1G") {
    enum { COUNT = 3, BYTES = 1024 };
    static uint8_t sent[COUNT][BYTES], got[COUNT][BYTES];
    vram_batch_item items[COUNT];
    vram_batch *batch;
    vram_buffer *buffer;
    uint32_t first;
    vram_pool *pool = pool_of(rig, 0);
    for (int i = 0; i < COUNT; i++) {
        memset(sent[i], i + 1, BYTES);
        items[i] = (vram_batch_item)ITEM(.elements = BYTES, .host = sent[i], .host_bytes = BYTES);
    }
    assert_ok(vram_batch_create(pool, rig->queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, COUNT, &first));
    vram_addr base = buffer_of(batch, 0).addr;
    for (uint32_t i = 0; i < 2; i++) { /* the first begins where the block does */
        assert_ok(vram_batch_get(batch, i, &buffer));
        assert_ok(vram_buffer_fit(buffer, rig->queue)); /* has nothing to give back */
        assert_ok(vram_buffer_resize(buffer, 5000, rig->queue));
        assert_int_not_equal(buffer_of(batch, i).addr, base + i * BYTES);
        assert_int_equal(live_in(pool), 2 + i);
        assert_ok(
            vram_queue_fill(rig->queue, buffer_of(batch, i).addr + BYTES, 9, 1, 5000 - BYTES));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(vram_queue_download(rig->queue, got[i], buffer_of(batch, i).addr, BYTES));
    }
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_memory_equal(sent, got, sizeof sent);
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool), 0);
}

/* Many at once, and one of another kind among them, which is not in the common block. */
TEST(large_and_mixed, "sim:memory=1G") {
    enum { COUNT = 100, PINNED = 40 };
    vram_batch_item items[COUNT];
    vram_batch *batch;
    uint32_t first;
    vram_pool *pool = pool_of(rig, 0);
    for (int i = 0; i < COUNT; i++) {
        items[i] =
            (vram_batch_item)ITEM(.elements = 3000,
                                  .kind = i == PINNED ? VRAM_BUFFER_PINNED : VRAM_BUFFER_DEVICE);
    }
    assert_ok(vram_batch_create(pool, rig->queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, COUNT, &first));
    assert_int_equal(live_in(pool), 1 + 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(buffer_of(batch, i).pinned, i == PINNED);
        assert_int_equal(buffer_of(batch, i).used_bytes, 3000);
    }
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool), 0);
}

TEST(acceptance_24_buffers_of_another_context_are_refused) {
    static const vram_batch_item item = ITEM(.elements = 1000);
    vram_batch *batch;
    vram_buffer *mine, *distant, *strange;
    vram_pool *second;
    uint32_t index = 77;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    struct rig elsewhere = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0), *far = pool_of(&elsewhere, 0);
    assert_ok(test_pool_create(rig.other, NULL, &second));
    assert_ok(vram_buffer_create(pool, 3000, rig.queue, NULL, &mine));
    assert_ok(vram_buffer_create(second, 3000, rig.other_queue, NULL, &distant));
    assert_ok(vram_buffer_create(far, 3000, elsewhere.queue, NULL, &strange));
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, &item, 1, &index));
    assert_int_equal(vram_batch_give(batch, strange, &index), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "another context"));
    assert_int_equal(index, 0);
    assert_ok(vram_batch_give(batch, mine, &index));
    assert_int_equal(index, 1);
    assert_ok(vram_batch_give(batch, distant, &index));
    assert_int_equal(index, 2);
    assert_int_equal(vram_batch_give(batch, mine, &index), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_give(batch, NULL, &index), VRAM_ERR_INVALID);
    assert_int_equal(index, 2);
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool) + live_in(second), 0);
    assert_int_equal(live_in(far), 1);
    rig_end_clean(&elsewhere);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ bad input */

TEST(acceptance_24_host_bytes_are_checked, "sim:memory=1G") {
    static uint8_t bytes[100];
    static const struct {
        vram_batch_item item;
        vram_status status;
    } rows[] = {
        {ITEM(.elements = 25, .precision = VRAM_PRECISION_FP32, .host = bytes, .host_bytes = 25),
         VRAM_ERR_INVALID}, /* elements are not bytes */
        {ITEM(.elements = 100, .host = bytes, .host_bytes = 99), VRAM_ERR_INVALID},
        {ITEM(.elements = 100, .host = bytes, .host_bytes = 101), VRAM_ERR_INVALID},
        {ITEM(.elements = 100, .host = bytes), VRAM_ERR_INVALID},
        {ITEM(.elements = 100, .host_bytes = 100), VRAM_ERR_INVALID},
        {ITEM(.elements = 1, .precision = (vram_precision)99), VRAM_ERR_INVALID},
        {ITEM(.elements = 1, .kind = (vram_buffer_kind)99), VRAM_ERR_INVALID},
        {ITEM(.elements = 1, .flags = 0x80), VRAM_ERR_INVALID},
        {ITEM(.elements = UINT64_MAX, .precision = VRAM_PRECISION_FP16), VRAM_ERR_OVERFLOW},
        {ITEM(.elements = UINT64_MAX), VRAM_ERR_OVERFLOW},
        {ITEM(.elements = UINT64_MAX - 1000), VRAM_ERR_OVERFLOW}, /* with the good one */
        {ITEM(.elements = 1,
              .name = "a name that is longer than the sixty-three bytes that there are for it ..."),
         VRAM_ERR_INVALID},
        {{.size = 1, .elements = 1}, VRAM_ERR_INVALID},
        {{.size = sizeof(vram_batch_item) + 8, .elements = 1}, VRAM_ERR_INVALID},
    };
    vram_batch *batch;
    uint32_t first = 77;
    vram_pool *pool = pool_of(rig, 0);
    assert_ok(vram_batch_create(pool, rig->queue, NULL, &batch));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_batch_item items[] = {ITEM(.elements = 2000), rows[i].item};
        vram_error_clear();
        assert_int_equal(vram_batch_add(batch, items, 2, &first), rows[i].status);
        assert_int_equal(vram_error_get()->status, rows[i].status);
        assert_int_equal(first, 77);
        assert_int_equal(live_in(pool), 0);
        assert_int_equal(stats_of(pool).allocs, 0); /* found out before anything was taken */
    }
    assert_ok(vram_batch_destroy(batch));
    assert_ok(vram_batch_create(pool, NULL, NULL, &batch)); /* without a queue */
    vram_batch_item item = ITEM(.elements = 100, .host = bytes, .host_bytes = 100);
    assert_int_equal(vram_batch_add(batch, &item, 1, &first), VRAM_ERR_INVALID);
    item.elements = item.host_bytes = 0;
    assert_ok(vram_batch_add(batch, &item, 1, &first)); /* nothing to upload */
}
