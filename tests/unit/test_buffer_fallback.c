/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buffer_fallback.c: buffers that fall back to host memory, are moved away from the device and
 * back to it, one by one and by the pool, with contents that are looked at all the while; and
 * everything that can fail fails once on the way.
 */
#include "unit/buffer_world.h"
#include "unit/test_time.h"

#define SIM "memory=64M,granule=2M,lag=20"

/* What a callback was told. */
static struct {
    unsigned count;
    vram_buffer_event last;
    void *user;
} told;

static void note(void *user, const vram_buffer_event *event) {
    told.count++;
    told.last = *event;
    told.user = user;
}

static vram_buffer *fallback(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_buffer_options options = {
        .size = sizeof options, .kind = VRAM_BUFFER_FALLBACK, .moved = note, .user = &told};
    vram_buffer *buffer = NULL;
    assert_ok(vram_buffer_create(pool, bytes, queue, &options, &buffer));
    return buffer;
}

static bool on_device(vram_buffer *buffer) {
    return info_of(buffer).location == VRAM_MEMORY_DEVICE;
}

/* ------------------------------------------------------------------- one buffer */

/* Acceptance item 10: what does not fit falls back, visibly, is counted and told of; when memory
   frees it goes back to the device with its contents. */
TEST(acceptance_10_falls_back_and_is_promoted) {
    SKIP_UNDER(VRAM_POOL_RED_ZONES, false, "with red zones less fits into the device");
    struct rig rig = rig_make("sim", "memory=8M,granule=64K,lag=20");
    vram_pool *pool = pool_whole(rig.device);
    memset(&told, 0, sizeof told);
    vram_buffer *first = fallback(pool, 5 * MIB, rig.queue);
    assert_true(on_device(first));
    assert_int_equal(told.count, 0);
    vram_error_clear();
    vram_buffer *second = fallback(pool, 5 * MIB, rig.queue);
    expect_no_record(); /* it succeeded */
    vram_buffer_info info = info_of(second);
    assert_int_equal(info.location, VRAM_MEMORY_PINNED);
    assert_true(info.pinned);
    assert_int_equal(told.count, 1);
    assert_ptr_equal(told.user, &told);
    assert_ptr_equal(told.last.buffer, second);
    assert_int_equal(told.last.id, info.id);
    assert_int_equal(told.last.cause, VRAM_MOVE_FALLBACK);
    assert_int_equal(told.last.to, VRAM_MEMORY_PINNED);
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(stats_of(pool).fallback_bytes, 5 * MIB);
    write_all(first, 1, rig.queue);
    write_all(second, 2, rig.queue);
    assert_true(vram_status_is_exhausted(vram_buffer_promote(second, NULL)));
    expect_all(second, 2, rig.queue);
    assert_int_equal(info_of(second).addr, info.addr);
    assert_int_equal(told.count, 1);
    expect_all(first, 1, rig.queue);
    assert_ok(vram_buffer_destroy(first)); /* there is room again */
    assert_ok(vram_buffer_promote(second, rig.queue));
    assert_true(on_device(second));
    assert_int_equal(info_of(second).promotions, 1);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.last.cause, VRAM_MOVE_PROMOTE);
    assert_int_equal(told.last.from, VRAM_MEMORY_PINNED);
    assert_int_equal(told.last.to, VRAM_MEMORY_DEVICE);
    assert_int_equal(told.last.bytes, 5 * MIB);
    expect_all(second, 2, rig.queue);
    assert_ok(vram_buffer_promote(second, rig.queue)); /* lies there already */
    assert_int_equal(told.count, 2);
    assert_ok(vram_buffer_demote(second, NULL));
    assert_ok(vram_buffer_demote(second, NULL));
    assert_int_equal(told.count, 3);
    assert_int_equal(told.last.cause, VRAM_MOVE_DEMOTE);
    assert_false(on_device(second));
    expect_all(second, 2, rig.queue);
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.promotions, 1);
    assert_int_equal(stats.demotions, 1);
    assert_int_equal(stats.promoted_bytes, 5 * MIB);
    assert_int_equal(stats.demoted_bytes, 5 * MIB);
    assert_int_equal(stats.fallbacks, 1); /* moves are none */
    assert_int_equal(stats.fallback_bytes, 5 * MIB);
    assert_ok(vram_buffer_resize(second, 6 * MIB, rig.queue)); /* grows where there is room */
    assert_true(on_device(second));
    assert_int_equal(told.count, 4);
    assert_int_equal(told.last.cause, VRAM_MOVE_PROMOTE);
    assert_int_equal(told.last.from, VRAM_MEMORY_PINNED);
    assert_int_equal(told.last.bytes, 5 * MIB);
    assert_ok(vram_buffer_destroy(second));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(stats_of(pool).fallback_bytes, 0);
    assert_int_equal(held_by(&rig), 0);
    rig_end_clean(&rig);
}

/* Displaced buffers return by themselves when the program asks where they are, as many as fit; one
   that was demoted by a call stays. */
TEST(displaced_buffers_return_by_themselves) {
    SKIP_UNDER(VRAM_POOL_RED_ZONES, false, "with red zones less fits into the device");
    struct rig rig = rig_make("sim", "memory=64M,granule=64K");
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer *large = fallback(pool, 60 * MIB, rig.queue), *four[4];
    vram_addr addr, before;
    for (int i = 0; i < 4; i++) {
        four[i] = fallback(pool, 12 * MIB, rig.queue);
        assert_false(on_device(four[i]));
        write_all(four[i], (uint8_t)(i + 1), rig.queue);
    }
    assert_ok(vram_buffer_addr(four[0], &before)); /* no memory: it stays, and nothing is refused */
    assert_false(on_device(four[0]));
    assert_int_equal(stats_of(pool).refusals, stats_of(pool).fallbacks);
    assert_ok(vram_buffer_demote(large, NULL));
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_buffer_addr(four[i], &addr));
        assert_true(on_device(four[i]));
        assert_int_equal(info_of(four[i]).addr, addr);
        expect_all(four[i], (uint8_t)(i + 1), rig.queue);
    }
    assert_int_equal(stats_of(pool).promotions, 4);
    for (int i = 0; i < 4; i++) {
        assert_ok(vram_buffer_destroy(four[i]));
    }
    assert_ok(vram_buffer_addr(large, &addr)); /* there is memory, but a call sent it away */
    assert_false(on_device(large));
    rig_end_clean(&rig);
}

/* What the pool holds unused and what the device has left count together. */
TEST(a_return_needs_both) {
    vram_addr addr;
    SKIP_UNDER(VRAM_POOL_RED_ZONES | VRAM_POOL_POISON, false,
               "with red zones less fits, and what is being poisoned does not count as unused");
    struct rig rig = rig_make("sim", "memory=64M,granule=64K");
    vram_pool *pool = pool_whole(rig.device);
    (void)fallback(pool, 46 * MIB, rig.queue);
    vram_buffer *second = fallback(pool, 8 * MIB, rig.queue);
    vram_buffer *displaced = fallback(pool, 12 * MIB, rig.queue);
    assert_false(on_device(displaced));
    assert_ok(vram_buffer_destroy(second)); /* 8 MiB unused, and less than 12 MiB left */
    assert_ok(vram_buffer_addr(displaced, &addr));
    assert_true(on_device(displaced));
    vram_buffer *third = fallback(pool, 20 * MIB, rig.queue);
    assert_true(stats_of(pool).fallback_bytes >= 20 * MIB);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_buffer_destroy(third)); /* its memory goes back to the driver at once */
    assert_int_equal(stats_of(pool).fallback_bytes, 0);
    rig_end_clean(&rig);
}

/* A return that the driver refuses is not tried at every call, but again after a second. */
TEST(a_return_that_fails_is_not_repeated) {
    vram_addr addr;
    test_time_begin(3600 * SECOND, 0);
    struct rig rig = rig_make("sim", "memory=64M,granule=64K");
    vram_pool *pool = pool_whole(rig.device);
    vram_buffer *large = fallback(pool, 50 * MIB, rig.queue);
    vram_buffer *displaced = fallback(pool, 20 * MIB, rig.queue);
    assert_ok(vram_buffer_destroy(large));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    fault(&rig, VRAM_SIM_ANY, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    assert_ok(vram_buffer_addr(displaced, &addr));
    uint64_t faults = sim_state(&rig).faults;
    assert_true(faults > 0);
    assert_ok(vram_buffer_addr(displaced, &addr));
    assert_int_equal(sim_state(&rig).faults, faults);
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_ok(vram_buffer_addr(displaced, &addr));
    assert_false(on_device(displaced));
    test_time_ns += SECOND;
    assert_ok(vram_buffer_addr(displaced, &addr));
    assert_true(on_device(displaced));
    rig_end_clean(&rig);
    test_time_end();
}

/* With cpu_fallback on, a plain allocation falls back too; by default, and off, it does not. */
TEST(plain_allocations_fall_back_when_told) {
    static const vram_switch switches[] = {VRAM_SWITCH_DEFAULT, VRAM_SWITCH_ON, VRAM_SWITCH_OFF};
    SKIP_UNDER(VRAM_POOL_DETERMINISTIC, false, "their ladder has no such step");
    for (int i = 0; i < 6; i++) {
        struct rig rig = rig_make("sim", "memory=8M,granule=64K");
        vram_pool *pool = pool_whole(rig.device);
        vram_limits limits = {.size = sizeof limits,
                              .fraction = 1,
                              .min_free_bytes = 1,
                              .cpu_fallback = switches[i % 3]};
        vram_block_info info = {.size = sizeof info};
        vram_addr addr = 0;
        if (i < 3) {
            assert_ok(vram_pool_limits_set(pool, &limits));
        } else {
            assert_ok(vram_device_limits_set(rig.device, &limits));
        }
        vram_status status = vram_alloc(pool, 10 * MIB, rig.queue, &addr);
        if (switches[i % 3] == VRAM_SWITCH_ON) {
            assert_ok(status);
            assert_ok(vram_block_info_get(addr, &info));
            assert_int_equal(info.kind, VRAM_MEMORY_PINNED);
            assert_int_equal(stats_of(pool).fallbacks, 1);
            assert_ok(vram_free(addr, rig.queue));
        } else {
            assert_true(vram_status_is_exhausted(status));
        }
        rig_end_clean(&rig);
    }
}

/* Where the limits forbid it, and where host memory is out too, the device's own error is the
   answer. */
TEST(a_fallback_may_be_forbidden_or_fail, "sim:memory=8M,granule=64K,lag=20") {
    vram_pool *pool = pool_whole(rig->device);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_FALLBACK};
    vram_buffer *buffer = NULL;
    vram_limits limits = {
        .size = sizeof limits, .fraction = 1, .min_free_bytes = 1, .cpu_fallback = VRAM_SWITCH_OFF};
    assert_ok(vram_pool_limits_set(pool, &limits));
    assert_true(vram_status_is_exhausted(
        vram_buffer_create(pool, 10 * MIB, rig->queue, &options, &buffer)));
    limits.cpu_fallback = VRAM_SWITCH_ON;
    assert_ok(vram_pool_limits_set(pool, &limits));
    fault(rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_HOST_MEMORY);
    assert_ok(vram_buffer_create(pool, 10 * MIB, rig->queue, &options, &buffer));
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_HOST); /* pageable, as the last resort */
    write_all(buffer, 6, rig->queue);
    expect_all(buffer, 6, rig->queue);
    assert_ok(vram_buffer_destroy(buffer));
    buffer = NULL;
    vr_os_fail_at(1, true, 12);
    vram_status status = vram_buffer_create(pool, 10 * MIB, rig->queue, &options, &buffer);
    vr_os_fail_at(0, false, 0);
    assert_true(status == VRAM_ERR_DEVICE_MEMORY || status == VRAM_ERR_LIMIT);
    assert_int_equal(vram_error_get()->status, status);
    assert_null(buffer);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
}

/* Nobody may see the old contents late, or the new ones early: a move waits on the device for every
   queue that uses the buffer, and what is submitted behind it finds the contents in their new
   place. */
TEST(a_move_keeps_the_order_of_all_queues) {
    SKIP_UNDER(VRAM_POOL_DETERMINISTIC, false, "there a queue waits on the device for other users");
    for (int lag = 0; lag < 40; lag += 8) {
        char sim[64];
        snprintf(sim, sizeof sim, "memory=64M,granule=2M,lag=%d,seed=%d", lag, lag + 1);
        struct rig rig = rig_make("sim", sim);
        vram_pool *pool = pool_whole(rig.device);
        vram_queue *second, *mover;
        uint8_t found[64];
        assert_ok(vram_queue_create(rig.device, NULL, &second));
        assert_ok(vram_queue_create(rig.device, NULL, &mover));
        vram_buffer *buffer = fallback(pool, 256 * KIB, rig.queue);
        vram_addr addr = info_of(buffer).addr, next;
        assert_ok(vram_buffer_use(buffer, second)); /* once, before all of its work */
        assert_ok(vram_queue_wait(second, VRAM_TIMEOUT_DEFAULT));
        for (int i = 1; i <= 20; i++) {
            assert_ok(vram_queue_fill(rig.queue, addr, (uint32_t)i, 1, 128 * KIB));
            assert_ok(vram_queue_fill(second, addr + 128 * KIB, (uint32_t)i, 1, 128 * KIB));
        }
        assert_ok(vram_buffer_demote(buffer, mover));
        assert_ptr_equal(info_of(buffer).queue, mover); /* at home there from now on */
        assert_ok(vram_buffer_promote(buffer, mover));
        vram_span span = {buffer, 128 * KIB - 32, 64};
        assert_ok(vram_span_download(NULL, found, span));
        assert_ok(vram_queue_wait(mover, VRAM_TIMEOUT_DEFAULT));
        for (int i = 0; i < 64; i++) {
            assert_int_equal(found[i], 20);
        }
        addr = info_of(buffer).addr; /* the other queue goes on using it where it is now */
        for (int i = 1; i <= 20; i++) {
            assert_ok(vram_queue_fill(second, addr, 0xDD, 1, 256 * KIB));
        }
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_alloc(pool, 256 * KIB, mover, &next));
        assert_true(next != addr || vram_queue_poll(second) == VRAM_OK);
        vram_error_clear();
        rig_end_clean(&rig);
    }
}

/* --------------------------------------------------------------- a working set */

/* The least recently used goes first, the most recently used comes first. */
TEST(age_decides, "sim:" SIM) {
    vram_pool *pool = pool_whole(rig->device);
    vram_buffer *old = fallback(pool, 16 * MIB, rig->queue),
                *young = fallback(pool, 16 * MIB, NULL);
    vram_addr addr;
    uint64_t bytes = 0;
    vr_os_sleep(1000);
    assert_ok(vram_buffer_addr(old, &addr)); /* is used now: the other is older */
    assert_ok(vram_pool_demote(pool, 1, rig->queue, &bytes));
    assert_int_equal(bytes, 16 * MIB);
    assert_true(on_device(old) && !on_device(young));
    assert_ok(vram_pool_demote(pool, 0, rig->queue, &bytes));
    assert_int_equal(bytes, 0);
    assert_ok(vram_pool_demote(pool, UINT64_MAX, rig->queue, &bytes));
    assert_int_equal(bytes, 16 * MIB);
    vram_buffer *large = buffer_kind(pool, 40 * MIB, VRAM_BUFFER_DEVICE, rig->queue);
    assert_ok(vram_pool_promote(pool, rig->queue, &bytes)); /* there is room for one */
    assert_int_equal(bytes, 16 * MIB);
    assert_true(on_device(old) && !on_device(young));
    assert_ok(vram_buffer_destroy(large));
}
