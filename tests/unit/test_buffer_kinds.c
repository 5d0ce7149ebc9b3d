/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buffer_kinds.c: pinned, managed and mapped buffers, memory of the program's own, spans, and
 * the host's view of all of them.
 */
#include "unit/buffer_world.h"

/* ----------------------------------------------------------------------- kinds */

/* Without page-locked memory a pinned buffer is refused, and pageable only where that was
   allowed. */
TEST(pageable_memory_needs_leave, "sim:memory=64M") {
    vram_pool *pool = pool_whole(rig->device);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *buffer = NULL;
    fault(rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_HOST_MEMORY);
    assert_int_equal(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer),
                     VRAM_ERR_HOST_MEMORY);
    assert_null(buffer);
    options.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_HOST);
    assert_false(info_of(buffer).pinned);
    vram_memory_info memory = {.size = sizeof memory};
    assert_ok(vram_memory_info_get(rig->device, &memory));
    assert_int_equal(memory.held_peak_bytes, 0); /* it is not the driver's */
    write_all(buffer, 1, rig->queue);
    expect_all(buffer, 1, rig->queue);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer));
    assert_true(info_of(buffer).pinned);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig->device);
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_PINNED;
    options.flags = 0;
    assert_int_equal(vram_buffer_create(pool, MIB, rig->queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    for (int known = 0; known < 2; known++) {
        vram_addr addr;
        device->base.info.caps_known ^= VRAM_CAP_PINNED;
        assert_int_equal(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_PINNED, &addr),
                         VRAM_ERR_UNSUPPORTED);
        assert_int_equal(strstr(vram_error_get()->text, "did not say") == NULL, known);
    }
    device->base.info.caps |= VRAM_CAP_PINNED;
    vr_leave(device);
}

/* ---------------------------------------------------------------- map and unmap */

/* Reading fetches, writing brings back, and neither does the other. */
TEST(a_mapping_goes_the_ways_it_says, "sim:memory=64M,lag=30") {
    static const vram_buffer_kind kinds[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,
                                             VRAM_BUFFER_MANAGED, VRAM_BUFFER_FALLBACK};
    vram_pool *pool = pool_whole(rig->device);
    vram_queue *other;
    assert_ok(vram_queue_create(rig->device, NULL, &other));
    for (int i = 0; i < 4; i++) {
        vram_buffer *buffer = buffer_kind(pool, 4000, kinds[i], rig->queue);
        uint8_t *expected = bytes_of(5, 4000), *seen = NULL;
        void *none = NULL;
        bool copied = info_of(buffer).host == NULL;
        write_all(buffer, 5, rig->queue);
        assert_ok(vram_buffer_map(buffer, 1000, 2000, VRAM_MAP_READ, NULL, (void **)&seen));
        assert_memory_equal(seen, expected + 1000, 2000);
        assert_true(info_of(buffer).mapped);
        assert_int_equal(vram_buffer_map(buffer, 0, 1, VRAM_MAP_READ, NULL, &none), VRAM_ERR_BUSY);
        if (copied) {
            seen[0]++; /* is not brought back */
        }
        assert_ok(vram_buffer_unmap(buffer));
        assert_false(info_of(buffer).mapped);
        assert_int_equal(vram_buffer_unmap(buffer), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "not mapped"));
        expect_all(buffer, 5, rig->queue);
        for (int queue = 0; queue < 2; queue++) {
            assert_ok(vram_buffer_map(buffer, 1000, 2000, VRAM_MAP_READ | VRAM_MAP_WRITE,
                                      queue ? other : NULL, (void **)&seen));
            assert_memory_equal(seen, expected + 1000, 2000);
            seen[7] = expected[1007] = (uint8_t)(99 + queue);
            assert_ok(vram_buffer_unmap(buffer));
            assert_ok(vram_buffer_map(buffer, 0, 10, VRAM_MAP_WRITE, queue ? other : NULL,
                                      (void **)&seen));
            memset(seen, queue, 10);
            memset(expected, queue, 10);
            assert_ok(vram_buffer_unmap(buffer));
            uint8_t found[4000];
            assert_ok(vram_span_download(NULL, found, all_of(buffer)));
            assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
            assert_memory_equal(found, expected, 4000);
        }
        assert_ok(vram_buffer_map(buffer, 4000, 0, VRAM_MAP_READ, NULL, &none));
        assert_ok(vram_buffer_unmap(buffer));
        assert_ok(vram_buffer_map(buffer, 0, 4000, VRAM_MAP_READ | VRAM_MAP_WRITE, NULL, &none));
        assert_ok(vram_buffer_destroy(buffer)); /* mapped as it is */
        assert_int_equal(vram_buffer_unmap(buffer), VRAM_ERR_STALE);
        free(expected);
    }
    assert_int_equal(stats_of(pool).live_blocks, 0);
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(held_by(rig), 0);
}

/* --------------------------------------------------------------------- wrapping */

/* An address of the device's own is as good as any while it is wrapped, and stays the program's. */
TEST(addresses_are_wrapped) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_whole(rig.device);
    vram_queue *other;
    uint8_t *own = malloc(4096 + 64);
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = (uintptr_t)own, .bytes = 4096};
    vram_buffer *buffer, *again, *inner;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 16), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &buffer));
    assert_true(info_of(buffer).wrapped);
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_DEVICE);
    vram_point filled;
    assert_ok(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 4096));
    assert_ok(vram_queue_mark(rig.queue, &filled));
    assert_ok(vram_queue_after(other, filled));
    assert_ok(vram_queue_fill(other, (uintptr_t)own + 8, 8, 1, 8));
    assert_ok(vram_buffer_use(buffer, other));
    assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(own[4095], 9);
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 4097), VRAM_ERR_INVALID);
    assert_int_equal(vram_free((uintptr_t)own, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_device_free(rig.device, (uintptr_t)own), VRAM_ERR_INVALID);
    wrap.address += 8; /* inside it: needs no record of its own */
    wrap.bytes = 100;
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &inner));
    assert_ok(vram_buffer_destroy(inner));
    wrap.bytes = 4096; /* half inside: whose would it be? */
    assert_int_equal(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &again), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own, 9, 1, 16), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &again));
    assert_ok(vram_pool_destroy(pool)); /* takes the record with it */
    assert_int_equal(vram_queue_fill(rig.queue, (uintptr_t)own + 8, 9, 1, 16), VRAM_ERR_INVALID);
    vram_context_destroy(rig.context);
    free(own);
}

/* A copy of a span on another queue is a use of the buffer: its memory waits for that. Which queue
   is the later one is the simulation's choice. */
TEST(a_copy_of_a_span_is_a_use) {
    static uint8_t bytes[4096];
    vram_alloc_options cached = {.size = sizeof cached, .flags = VRAM_ALLOC_CACHED_ONLY};
    int late = 0;
    SKIP_UNDER(TEST_POOL_GUARDS | VRAM_POOL_DETERMINISTIC, true,
               "a fill behind the copy waits for it, and a fixed order asks no queue");
    for (int seed = 1; seed <= 4; seed++) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=64M,lag=10000,seed=%d", seed);
        struct rig rig = rig_make("sim", sim);
        vram_pool *pool = pool_whole(rig.device);
        vram_queue *other, *third;
        vram_addr addr = 0;
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        assert_ok(vram_queue_create(rig.device, NULL, &third));
        vram_buffer *buffer = buffer_kind(pool, 40 * MIB, VRAM_BUFFER_DEVICE, rig.queue);
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_span_upload(other, (vram_span){buffer, 0, sizeof bytes}, bytes));
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
        vram_status status = vram_alloc_with(pool, 40 * MIB, third, &cached, &addr);
        if (vram_queue_poll(other) == VRAM_ERR_NOT_READY) {
            assert_true(vram_status_is_exhausted(status));
            late++;
        }
        if (status != VRAM_OK) {
            assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
            assert_ok(vram_alloc_with(pool, 40 * MIB, third, &cached, &addr));
        }
        assert_ok(vram_free(addr, third));
        vram_error_clear();
        rig_end_clean(&rig);
    }
    assert_true(late > 0);
}
