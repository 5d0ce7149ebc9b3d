/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pinned_pool.c: pools of page-locked memory: what they give, what they cost, what they
 * refuse, and what becomes of them when the system locks no more.
 */
#include "unit/block_info_of.h"
#include "unit/mem_world.h"
#include "vram/vram.h"

static vram_pool *pinned_pool(struct rig *rig) {
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

/* So many calls of that kind are remembered. */
static uint64_t calls_of(struct rig *rig, vram_sim_call call) {
    uint64_t count = 0;
    vram_sim_entry entry;
    for (uint64_t back = 0; vram_sim_journal_get(rig->context, back, &entry) == VRAM_OK; back++) {
        count += entry.call == call;
    }
    vram_error_clear();
    return count;
}

/* ------------------------------------------------------------------- what it gives */

/* A pair that hits calls no driver, whatever its size; what is held goes back when it is told
   to. */
TEST(hits_call_no_driver, "sim:memory=4G,journal=10000") {
    static const uint64_t sizes[] = {1, 4096, 70000, MIB, 8 * MIB};
    vram_pool *pool = pinned_pool(rig);
    vram_addr addr;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_ok(vram_alloc(pool, sizes[i], rig->queue, &addr));
        assert_ok(vram_free(addr, rig->queue));
    }
    uint64_t calls = calls_of(rig, VRAM_SIM_PINNED_ALLOC);
    uint64_t frees =
        calls_of(rig, VRAM_SIM_PINNED_FREE); /* of a segment that a larger one replaced */
    assert_true(calls > frees);
    assert_int_equal(calls_of(rig, VRAM_SIM_ALLOC) + calls_of(rig, VRAM_SIM_CREATE), 0);
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            assert_ok(vram_alloc(pool, sizes[i], rig->queue, &addr));
            assert_ok(vram_free(addr, rig->queue));
        }
    }
    assert_int_equal(calls_of(rig, VRAM_SIM_PINNED_ALLOC), calls);
    assert_int_equal(calls_of(rig, VRAM_SIM_PINNED_FREE), frees);
    assert_true(stats_of(pool).reserved_bytes >= 8 * MIB);
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    assert_int_equal(calls_of(rig, VRAM_SIM_PINNED_FREE), calls);
}

/* Its memory is none of the device's: the device's limits, fractions and pressure do not count, its
   own do. */
TEST(the_devices_limits_are_not_its_own, "sim:memory=64M") {
    vram_limits device = {.size = sizeof device, .hard_bytes = 4 * MIB};
    assert_ok(vram_device_limits_set(rig->device, &device));
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 96 * MIB};
    vram_pool_options options = {
        .size = sizeof options, .kind = VRAM_MEMORY_PINNED, .limits = &limits};
    vram_pool *pool;
    vram_addr large, addr;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    assert_ok(vram_alloc(pool, 3 * MIB, rig->queue, &large));
    assert_ok(vram_free(large, rig->queue));
    vram_memory_info memory = {.size = sizeof memory};
    assert_ok(vram_memory_info_get(rig->device, &memory));
    assert_true(memory.held_bytes >= 3 * MIB);
    vram_pressure pressure = {.size = sizeof pressure};
    assert_ok(vram_pool_pressure_get(pool, &pressure));
    assert_false(pressure.device_known);
    assert_int_equal(vram_alloc(pool, 200 * MIB, rig->queue, &addr), VRAM_ERR_LIMIT);
}

/* ------------------------------------------------------------------------ buffers */

/* The host writes a buffer as soon as it has it, and the host is in no queue's order: what a queue
   still reads does not become another buffer of that queue. */
TEST(a_buffer_is_not_what_its_queue_still_reads, "sim:memory=256M,lag=1000") {
    vram_pool *pool = pinned_pool(rig);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *buffer;
    vram_addr first, second, device;
    assert_ok(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    assert_ok(vram_buffer_addr(buffer, &first));
    assert_ok(vram_queue_upload(rig->queue, device, (void *)(uintptr_t)first, MIB));
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    assert_ok(vram_buffer_addr(buffer, &second));
    assert_int_not_equal(first, second);
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    uint64_t reserved = stats_of(pool).reserved_bytes;
    for (int i = 0; i < 20; i++) { /* once it is read it serves again */
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
        assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    }
    assert_int_equal(stats_of(pool).reserved_bytes, reserved);
}

/* --------------------------------------------------------------- nothing to lock */

TEST(refused_memory_falls_back_and_is_counted, "sim:memory=256M,journal=10000") {
    vram_pool *pool = pinned_pool(rig);
    vram_addr addr = 7;
    vram_buffer *buffer;
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    fault(rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    assert_true(vram_status_is_exhausted(vram_alloc(pool, MIB, rig->queue, &addr)));
    assert_int_equal(addr, 7);
    assert_true(
        vram_status_is_exhausted(vram_buffer_create(pool, 5000, rig->queue, &options, &buffer)));
    vram_ladder_options ladder = {.size = sizeof ladder, .fallback = VRAM_FALLBACK_HOST};
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    assert_ok(vram_alloc(pool, MIB, rig->queue, &addr));
    assert_int_equal(block_info_of(addr).kind, VRAM_MEMORY_HOST);
    memset((void *)(uintptr_t)addr, 1, MIB);
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(stats_of(pool).fallback_bytes, MIB);
    assert_int_equal(vram_buffer_create(pool, 5000, rig->queue, &options, &buffer), VRAM_ERR_LIMIT);
    options.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(pool, 5000, rig->queue, &options, &buffer));
    vram_buffer_info info = {.size = sizeof info};
    assert_ok(vram_buffer_info_get(buffer, &info));
    assert_false(info.pinned);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    assert_ok(vram_alloc(pool, MIB, rig->queue, &addr));
    assert_int_equal(block_info_of(addr).kind, VRAM_MEMORY_PINNED);
}
