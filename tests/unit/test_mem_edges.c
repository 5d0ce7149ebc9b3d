/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mem_edges.c: batches, scopes, named buffers and buffers at the edge: damage that their end
 * finds, a full table of handles, sizes near 2^64, captured work, buffers of which nothing is used.
 */
#include "unit/mem_world.h"
#include "vram/batch.h"
#include "vram/buffer.h"
#include "vram/growth.h"
#include "vram/named.h"
#include "vram/oom.h"
#include "vram/scope.h"

static vram_buffer *buffer_of(vram_pool *pool, vram_buffer_kind kind, uint64_t bytes,
                              vram_queue *queue) {
    vram_buffer_options options = {.size = sizeof options, .kind = kind, .tag = ""};
    vram_buffer *buffer;
    assert_ok(vram_buffer_create(pool, bytes, queue, &options, &buffer));
    return buffer;
}

static vram_buffer_info info_of(vram_buffer *buffer) {
    vram_buffer_info info = {.size = sizeof info};
    assert_ok(vram_buffer_info_get(buffer, &info));
    return info;
}

/* ----------------------------------------------------------------------- damage */

/* Writes behind the end of the buffer. */
static void damage(struct rig *rig, vram_buffer *buffer) {
    vram_buffer_info info = info_of(buffer);
    assert_ok(vram_queue_fill(rig->queue, info.addr + info.capacity_bytes, 0x11, 1, 1));
}

static void expect_corrupt(vram_status status) {
    assert_int_equal(status, VRAM_ERR_CORRUPT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_CORRUPT);
    vram_error_clear();
}

/* Every item is freed, and the first failure is told. */
TEST(damage_is_told_by_owners, "sim:memory=256M,real=on") {
    vram_pool *pool = pool_of(rig, VRAM_POOL_RED_ZONES);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF); /* damage is logged as an error */
    vram_batch_options of_batch = {.size = sizeof of_batch, .tag = ""};
    vram_named_options of_named = {.size = sizeof of_named, .tag = ""};
    vram_named *named;
    vram_batch *batch;
    vram_scope *scope;
    uint32_t index;
    assert_ok(vram_batch_create(pool, rig->queue, &of_batch, &batch));
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_named_create(pool, rig->queue, &of_named, &named));
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "b", "c"};
        vram_buffer *given = buffer_of(pool, VRAM_BUFFER_DEVICE, 1000, rig->queue), *made;
        assert_ok(vram_batch_give(batch, given, &index));
        assert_ok(vram_scope_buffer_create(scope, 1000, rig->queue, NULL, &made));
        if (i) {
            damage(rig, given);
            damage(rig, made);
        }
        assert_ok(vram_named_add(named, names[i], 1000, NULL, &made));
        if (i) {
            damage(rig, made);
        }
        assert_ok(vram_buffer_resize(made, 0, NULL));
    }
    expect_corrupt(vram_batch_destroy(batch));
    expect_corrupt(vram_scope_end(scope));
    expect_corrupt(vram_named_cleanup(named, 0, NULL));
    assert_int_equal(live_in(pool), 0);
    for (int i = 0; i < 2; i++) {
        vram_buffer *made;
        assert_ok(vram_named_add(named, i ? "e" : "d", 1000, NULL, &made));
        damage(rig, made);
    }
    expect_corrupt(vram_named_destroy(named));
    assert_int_equal(live_in(pool), 0);
}

/* ------------------------------------------------------------------------ names */

/* A buffer that stays mapped cannot grow. */
TEST(a_mapped_buffer_is_waited_for) {
    assert_ok(vram_option_set("wait_timeout", "5ms"));
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_buffer *buffer;
    vram_named *named;
    void *host;
    assert_ok(vram_named_create(pool, rig.queue, NULL, &named));
    assert_ok(vram_named_add(named, "a", 1000, NULL, &buffer));
    assert_ok(vram_buffer_map(buffer, 0, 1000, VRAM_MAP_READ, NULL, &host));
    assert_int_equal(vram_named_ensure(named, "a", 100000, NULL), VRAM_ERR_BUSY);
    assert_ok(vram_buffer_unmap(buffer));
    assert_ok(vram_named_ensure(named, "a", 100000, NULL));
    rig_end_clean(&rig);
}

struct text {
    char bytes[1000];
    size_t used;
};

/* ---------------------------------------------------------------------- buffers */

/* Memory that is not the buffer's own stays as it is, though less of it is used. */
TEST(what_cannot_shrink_stays, "sim:memory=64M") {
    static uint8_t own[4096];
    vram_pool *pool = pool_of(rig, 0);
    vram_wrap wrap = {.size = sizeof wrap, .kind = VRAM_WRAP_HOST, .pointer = own, .bytes = 4096};
    vram_buffer_options moved = {.size = sizeof moved,
                                 .moved = (vram_buffer_moved_fn *)(uintptr_t)1};
    vram_batch_item item = {.size = sizeof item, .elements = 4096};
    vram_buffer *buffers[2];
    vram_batch *batch;
    uint32_t first;
    assert_int_equal(vram_buffer_wrap(pool, &wrap, rig->queue, &moved, &buffers[0]),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_wrap(pool, NULL, rig->queue, NULL, &buffers[0]), VRAM_ERR_INVALID);
    assert_string_equal(vram_error_get()->text, "the memory to wrap is NULL");
    assert_ok(vram_buffer_wrap(pool, &wrap, rig->queue, NULL, &buffers[0]));
    assert_ok(vram_batch_create(pool, rig->queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, &item, 1, &first));
    assert_ok(vram_batch_get(batch, first, &buffers[1]));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_buffer_resize(buffers[i], 100, NULL));
        assert_ok(vram_buffer_fit(buffers[i], NULL));
        assert_int_equal(info_of(buffers[i]).capacity_bytes, 4096);
        vram_status grown = vram_buffer_resize(buffers[i], 8192, rig->queue);
        assert_int_equal(grown, i ? VRAM_OK : VRAM_ERR_INVALID); /* out of the shared block */
    }
    vram_error_clear();
}
