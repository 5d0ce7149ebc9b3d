/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buffer.c: buffers in device memory: making, describing, counting in elements, using on
 * several queues and ending them, under faults too.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/pool_flags.h"
#include "unit/stats_of.h"
#include "vram/buffer.h"
#include "vram/growth.h"
#include "vram/limits.h"

static vram_pool *pool_on(vram_device *device) {
    vram_pool *pool;
    assert_ok(test_pool_create(device, NULL, &pool));
    return pool;
}

static vram_buffer *buffer_of(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_buffer *buffer = NULL;
    assert_ok(vram_buffer_create(pool, bytes, queue, NULL, &buffer));
    assert_non_null(buffer);
    return buffer;
}

static vram_buffer_info info_of(vram_buffer *buffer) {
    vram_buffer_info info = {.size = sizeof info};
    assert_ok(vram_buffer_info_get(buffer, &info));
    return info;
}

/* ------------------------------------------------------------------------ life */

TEST(a_buffer_says_what_it_is, "sim:memory=1G") {
    char name[] = "positions", tag[] = "sim/nodes"; /* are copied */
    vram_buffer_options options = {
        .size = sizeof options, .precision = VRAM_PRECISION_FP16, .name = name, .tag = tag};
    vram_pool *pool = pool_on(rig->device);
    vram_buffer *buffer, *other = buffer_of(pool, 64, NULL);
    vram_tag_info counted = {.size = sizeof counted};
    vram_addr addr;
    assert_ok(vram_buffer_create(pool, 5000, rig->queue, &options, &buffer));
    name[0] = tag[0] = 'X';
    vram_buffer_info info = info_of(buffer), plain = info_of(other);
    assert_string_equal(info.name, "positions");
    assert_string_equal(info.tag, "sim/nodes");
    assert_int_equal(info.kind, VRAM_BUFFER_DEVICE);
    assert_int_equal(info.precision, VRAM_PRECISION_FP16);
    assert_int_equal(info.location, VRAM_MEMORY_DEVICE);
    assert_int_equal(info.capacity_bytes, 5000);
    assert_int_equal(info.used_bytes, 5000);
    assert_int_equal(info.elements, 2500);
    assert_ptr_equal(info.queue, rig->queue);
    assert_ptr_equal(info.pool, pool);
    assert_int_equal(info.resizes, 0);
    assert_true(info.id > plain.id && plain.id > 0);
    assert_true(info.created_ns >= plain.created_ns && info.accessed_ns >= info.created_ns);
    assert_string_equal(plain.name, "");
    assert_null(plain.tag);
    assert_null(plain.queue);
    assert_ok(vram_buffer_addr(buffer, &addr));
    assert_int_equal(addr, info.addr);
    assert_true(info_of(buffer).accessed_ns >= info.accessed_ns);
    assert_ok(vram_tag_info_get(rig->device, "sim", &counted));
    assert_int_equal(counted.live_blocks, 0);
    assert_true(counted.used_bytes >= 5000);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_tag_info_get(rig->device, "sim", &counted));
    assert_int_equal(counted.used_bytes, 0);
    assert_ok(vram_buffer_destroy(other));
    assert_int_equal(stats_of(pool).live_blocks, 0);
}

TEST(acceptance_23_precisions_count_in_elements, "sim:memory=1G") {
    static const struct {
        vram_precision precision;
        const char *name;
        uint64_t bytes;
    } rows[] = {{VRAM_PRECISION_BYTES, "bytes", 1},
                {VRAM_PRECISION_FP32, "fp32", 4},
                {VRAM_PRECISION_FP16, "fp16", 2},
                {VRAM_PRECISION_BF16, "bf16", 2},
                {VRAM_PRECISION_INT8, "int8", 1}};
    vram_pool *pool = pool_on(rig->device);
    vram_buffer *buffers[5];
    for (int i = 0; i < 5; i++) {
        uint64_t bytes = 0;
        assert_int_equal(vram_precision_bytes(rows[i].precision), rows[i].bytes);
        assert_string_equal(vram_precision_name(rows[i].precision), rows[i].name);
        assert_ok(vram_precision_size(rows[i].precision, 1000, &bytes));
        assert_int_equal(bytes, 1000 * rows[i].bytes);
        assert_ok(vram_buffer_create_elements(pool, 1000, rows[i].precision, rig->queue, NULL,
                                              &buffers[i]));
        vram_buffer_info info = info_of(buffers[i]);
        assert_int_equal(info.elements, 1000);
        assert_int_equal(info.used_bytes, bytes);
        assert_int_equal(info.precision, rows[i].precision);
    }
    assert_int_equal(stats_of(pool).requested_bytes, 1000 * (1 + 4 + 2 + 2 + 1));
    uint64_t most = 0;
    assert_int_equal(vram_precision_size(VRAM_PRECISION_FP32, 1, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_precision_size((vram_precision)77, 1, &most), VRAM_ERR_INVALID);
    assert_int_equal(vram_precision_size(VRAM_PRECISION_FP32, UINT64_MAX / 4 + 1, &most),
                     VRAM_ERR_OVERFLOW);
    assert_ok(vram_precision_size(VRAM_PRECISION_FP32, UINT64_MAX / 4, &most));
    assert_int_equal(most, UINT64_MAX - 3);
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_buffer_destroy(buffers[i]));
    }
}

/* ----------------------------------------------------------------- queue order */

/* Memory of a destroyed buffer is the same queue's at once, and another's only when the home queue,
   and those that vram_buffer_use told of, have completed it. */
TEST(memory_goes_back_in_queue_order) {
    SKIP_UNDER(TEST_POOL_GUARDS | VRAM_POOL_DETERMINISTIC, false,
               "there the home queue waits for the other users when the buffer ends");
    struct rig rig = rig_make("sim", "memory=64M,lag=10000");
    vram_pool *pool = pool_on(rig.device);
    vram_queue *second, *third;
    uint64_t bytes = 40 * MIB; /* there is no room for two */
    assert_ok(vram_queue_create(rig.device, NULL, &second));
    assert_ok(vram_queue_create(rig.device, NULL, &third));
    vram_buffer *buffer = buffer_of(pool, bytes, rig.queue), *again = NULL;
    vram_addr addr = info_of(buffer).addr;
    assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, bytes));
    assert_ok(vram_buffer_use(buffer, second));
    assert_ok(vram_buffer_use(buffer, rig.queue));
    assert_ok(vram_queue_wait(second, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_fill(second, addr, 2, 1, bytes)); /* what comes later counts, too */
    assert_ok(vram_buffer_destroy(buffer));
    vram_alloc_options cached = {.size = sizeof cached, .flags = VRAM_ALLOC_CACHED_ONLY};
    vram_addr found;
    assert_true(vram_status_is_exhausted(vram_alloc_with(pool, bytes, third, &cached, &found)));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(vram_queue_poll(second), VRAM_ERR_NOT_READY);
    assert_true(vram_status_is_exhausted(vram_alloc_with(pool, bytes, third, &cached, &found)));
    assert_ok(vram_queue_wait(second, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_buffer_create(pool, bytes, third, NULL, &again));
    assert_int_equal(info_of(again).addr, addr);
    assert_ok(vram_queue_fill(third, addr, 3, 1, bytes));
    assert_ok(vram_buffer_destroy(again));
    assert_ok(vram_buffer_create(pool, bytes, third, NULL, &again)); /* the same queue: at once */
    assert_int_equal(info_of(again).addr, addr);
    rig_end_clean(&rig);
}
