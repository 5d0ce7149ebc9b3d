/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pinned_pool.c: pools of page-locked memory: what they give, what they cost, what they
 * refuse, and what becomes of them when the system locks no more.
 */
#include "unit/block_info_of.h"
#include "unit/mem_world.h"
#include "vram/vram.h"

#include <stdlib.h>

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

static void blocks_are_host_memory(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,journal=10000");
    vram_pool *pool = pinned_pool(&rig);
    vram_addr a, b, device;
    char back[10000];
    assert_ok(vram_alloc(pool, 10000, rig.queue, &a));
    assert_ok(vram_alloc(pool, 10000, rig.queue, &b));
    assert_int_equal(block_info_of(a).kind, VRAM_MEMORY_PINNED);
    vram_native_info native = {.size = sizeof native};
    assert_ok(vram_native(a + 5, &native));
    assert_int_equal(native.kind, VRAM_MEMORY_PINNED);
    assert_ptr_equal(native.host_pointer, (void *)(uintptr_t)(a + 5));
    memset((void *)(uintptr_t)a, 0x5A, 10000);
    memset((void *)(uintptr_t)b, 0, 10000);
    assert_ok(vram_device_alloc(rig.device, 10000, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_queue_upload(rig.queue, device, (void *)(uintptr_t)a, 10000));
    assert_ok(vram_queue_download(rig.queue, (void *)(uintptr_t)b, device, 10000));
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    memset(back, 0x5A, sizeof back);
    assert_memory_equal((void *)(uintptr_t)b, back, 10000);
    assert_int_equal(vram_queue_fill(rig.queue, a, 0, 4, 4), VRAM_ERR_INVALID);
    assert_ok(vram_free(a, rig.queue));
    assert_ok(vram_free(b, rig.queue));
    assert_int_equal(vram_free(a, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_device_free(rig.device, native.base), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* A pair that hits calls no driver, whatever its size; what is held goes back when it is told
   to. */
static void hits_call_no_driver(void **state) {
    static const uint64_t sizes[] = {1, 4096, 70000, MIB, 8 * MIB};
    (void)state;
    struct rig rig = rig_make("sim", "memory=4G,journal=10000");
    vram_pool *pool = pinned_pool(&rig);
    vram_addr addr;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_ok(vram_alloc(pool, sizes[i], rig.queue, &addr));
        assert_ok(vram_free(addr, rig.queue));
    }
    uint64_t calls = calls_of(&rig, VRAM_SIM_PINNED_ALLOC);
    uint64_t frees =
        calls_of(&rig, VRAM_SIM_PINNED_FREE); /* of a segment that a larger one replaced */
    assert_true(calls > frees);
    assert_int_equal(calls_of(&rig, VRAM_SIM_ALLOC) + calls_of(&rig, VRAM_SIM_CREATE), 0);
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            assert_ok(vram_alloc(pool, sizes[i], rig.queue, &addr));
            assert_ok(vram_free(addr, rig.queue));
        }
    }
    assert_int_equal(calls_of(&rig, VRAM_SIM_PINNED_ALLOC), calls);
    assert_int_equal(calls_of(&rig, VRAM_SIM_PINNED_FREE), frees);
    assert_true(stats_of(pool).reserved_bytes >= 8 * MIB);
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    assert_int_equal(calls_of(&rig, VRAM_SIM_PINNED_FREE), calls);
    rig_end_clean(&rig);
}

/* Its memory is none of the device's: the device's limits, fractions and pressure do not count, its
   own do. */
static void the_devices_limits_are_not_its_own(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_limits device = {.size = sizeof device, .hard_bytes = 4 * MIB};
    assert_ok(vram_device_limits_set(rig.device, &device));
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 96 * MIB};
    vram_pool_options options = {
        .size = sizeof options, .kind = VRAM_MEMORY_PINNED, .limits = &limits};
    vram_pool *pool;
    vram_addr large, addr;
    assert_ok(vram_pool_create(rig.device, &options, &pool));
    assert_ok(vram_alloc(pool, 3 * MIB, rig.queue, &large));
    assert_ok(vram_free(large, rig.queue));
    vram_memory_info memory = {.size = sizeof memory};
    assert_ok(vram_memory_info_get(rig.device, &memory));
    assert_true(memory.held_bytes >= 3 * MIB);
    vram_pressure pressure = {.size = sizeof pressure};
    assert_ok(vram_pool_pressure_get(pool, &pressure));
    assert_false(pressure.device_known);
    assert_int_equal(vram_alloc(pool, 200 * MIB, rig.queue, &addr), VRAM_ERR_LIMIT);
    rig_end_clean(&rig);
}

static void freed_in_queue_time(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,lag=1000");
    vram_pool *pool = pinned_pool(&rig);
    vram_queue *second;
    vram_addr a, b, device;
    assert_ok(vram_queue_create(rig.device, NULL, &second));
    assert_ok(vram_device_alloc(rig.device, 2 * MIB, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_alloc(pool, 2 * MIB, rig.queue, &a));
    assert_ok(vram_queue_upload(rig.queue, device, (void *)(uintptr_t)a, 2 * MIB));
    assert_ok(vram_free(a, rig.queue));
    assert_ok(vram_alloc(pool, 2 * MIB, second, &b));
    assert_int_not_equal(a, b); /* the bus still reads it */
    assert_ok(vram_free(b, second));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------------ buffers */

static void buffers_come_from_it(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,journal=10000");
    vram_pool *pool = pinned_pool(&rig);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *buffer;
    vram_buffer_info info = {.size = sizeof info};
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_buffer_create(pool, 100000, rig.queue, &options, &buffer));
        assert_ok(vram_buffer_info_get(buffer, &info));
        assert_int_equal(info.location, VRAM_MEMORY_PINNED);
        assert_true(info.pinned);
        assert_ptr_equal(info.host, (void *)(uintptr_t)info.addr);
        memset(info.host, 1, 100000);
        assert_ok(vram_buffer_resize(buffer, 300000, rig.queue));
        assert_ok(vram_buffer_info_get(buffer, &info));
        assert_int_equal(((char *)info.host)[99999], 1);
        assert_ok(vram_buffer_destroy(buffer));
    }
    assert_int_equal(calls_of(&rig, VRAM_SIM_PINNED_ALLOC), 1);
    assert_int_equal(stats_of(pool).other_bytes, 0);
    options.kind = VRAM_BUFFER_DEVICE;
    assert_int_equal(vram_buffer_create(pool, 1, rig.queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    options.kind = VRAM_BUFFER_FALLBACK;
    assert_int_equal(vram_buffer_create(pool, 1, rig.queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    options.kind = VRAM_BUFFER_MANAGED;
    assert_int_equal(vram_buffer_create(pool, 1, rig.queue, &options, &buffer),
                     VRAM_ERR_UNSUPPORTED);
    rig_end_clean(&rig);
}

/* The host writes a buffer as soon as it has it, and the host is in no queue's order: what a queue
   still reads does not become another buffer of that queue. */
static void a_buffer_is_not_what_its_queue_still_reads(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,lag=1000");
    vram_pool *pool = pinned_pool(&rig);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    vram_buffer *buffer;
    vram_addr first, second, device;
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &device));
    assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer));
    assert_ok(vram_buffer_addr(buffer, &first));
    assert_ok(vram_queue_upload(rig.queue, device, (void *)(uintptr_t)first, MIB));
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer));
    assert_ok(vram_buffer_addr(buffer, &second));
    assert_int_not_equal(first, second);
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    uint64_t reserved = stats_of(pool).reserved_bytes;
    for (int i = 0; i < 20; i++) { /* once it is read it serves again */
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
        assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &buffer));
    }
    assert_int_equal(stats_of(pool).reserved_bytes, reserved);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------- nothing to lock */

static void refused_memory_falls_back_and_is_counted(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,journal=10000");
    vram_pool *pool = pinned_pool(&rig);
    vram_addr addr = 7;
    vram_buffer *buffer;
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    assert_true(vram_status_is_exhausted(vram_alloc(pool, MIB, rig.queue, &addr)));
    assert_int_equal(addr, 7);
    vram_ladder_options ladder = {.size = sizeof ladder, .fallback = VRAM_FALLBACK_HOST};
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    assert_ok(vram_alloc(pool, MIB, rig.queue, &addr));
    assert_int_equal(block_info_of(addr).kind, VRAM_MEMORY_HOST);
    memset((void *)(uintptr_t)addr, 1, MIB);
    assert_int_equal(stats_of(pool).fallbacks, 1);
    assert_int_equal(stats_of(pool).fallback_bytes, MIB);
    assert_int_equal(vram_buffer_create(pool, 5000, rig.queue, &options, &buffer), VRAM_ERR_LIMIT);
    options.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(pool, 5000, rig.queue, &options, &buffer));
    vram_buffer_info info = {.size = sizeof info};
    assert_ok(vram_buffer_info_get(buffer, &info));
    assert_false(info.pinned);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_free(addr, rig.queue));
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    assert_ok(vram_alloc(pool, MIB, rig.queue, &addr));
    assert_int_equal(block_info_of(addr).kind, VRAM_MEMORY_PINNED);
    rig_end_clean(&rig);
}

static vram_status pinned_part(struct rig *rig, vram_pool *unused) {
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    vram_buffer_options pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    vram_pool *pool;
    vram_addr a = 0, b = 0;
    vram_buffer *buffer = NULL;
    (void)unused;
    vram_status status = vram_pool_create(rig->device, &options, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_alloc(pool, 3 * MIB, rig->queue, &a);
    if (status == VRAM_OK) {
        status = vram_alloc(pool, 5000, rig->queue, &b);
    }
    if (status == VRAM_OK) {
        status = vram_buffer_create(pool, 70000, rig->queue, &pinned, &buffer);
    }
    struct vram_error error;
    vr_error_save(&error);
    (void)vram_buffer_destroy(buffer);
    (void)vram_free(a, rig->queue);
    (void)vram_free(b, rig->queue);
    vr_error_restore(&error);
    if (status == VRAM_OK) {
        status = vram_pool_trim(pool, NULL, NULL);
        vr_error_save(&error);
    }
    (void)vram_pool_destroy(pool);
    vr_error_restore(&error);
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    fail_every_call(pinned_part, "memory=256M,journal=10000");
}

static void lost_device_gives_it_back(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,journal=10000");
    vram_pool *pool = pinned_pool(&rig);
    vram_addr addr;
    assert_ok(vram_alloc(pool, MIB, rig.queue, &addr));
    fault(&rig, VRAM_SIM_ANY, 1, true, VRAM_SIM_DEVICE_LOST);
    vram_addr more;
    assert_int_equal(vram_alloc(pool, 100 * MIB, rig.queue, &more), VRAM_ERR_DEVICE_LOST);
    assert_ok(vram_free(addr, NULL));
    vram_device_close(rig.device);
    assert_int_equal(sim_state(&rig).live_bytes, 0);
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------------------ misuse */

static void misuse_is_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,journal=10000");
    vram_provider provider = {.size = sizeof provider};
    vram_pool_options options = {.size = sizeof options, .kind = (vram_memory_kind)77};
    vram_pool *pool = NULL;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_INVALID);
    options.kind = VRAM_MEMORY_HOST;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_INVALID);
    options.kind = VRAM_MEMORY_PINNED;
    options.provider = &provider;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_INVALID);
    options.provider = NULL;
    options.flags = VRAM_POOL_RED_ZONES;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_UNSUPPORTED);
    assert_null(pool);
    pool = pinned_pool(&rig);
    assert_int_equal(vram_pool_sleep(pool, NULL), VRAM_ERR_UNSUPPORTED);
    vram_alloc_options wishes = {.size = sizeof wishes, .alignment = 2 * vr_os_page_bytes()};
    vram_addr addr;
    assert_int_equal(vram_alloc_with(pool, 5, rig.queue, &wishes, &addr), VRAM_ERR_INVALID);
    wishes.alignment = vr_os_page_bytes();
    assert_ok(vram_alloc_with(pool, 5, rig.queue, &wishes, &addr));
    assert_int_equal(addr % vr_os_page_bytes(), 0);
    rig_end_clean(&rig);
}

static void a_device_without_pinned_memory_has_no_such_pool(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M");
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_PINNED;
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    vram_pool *pool = NULL;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_UNSUPPORTED);
    assert_null(pool);
    assert_non_null(strstr(vram_error_get()->text, "has no page-locked memory"));
    device->base.info.caps |= VRAM_CAP_PINNED;
    vr_leave(device);
    rig_end_clean(&rig);
}

/* The option that asks for safety modes everywhere means device memory; pooling can be switched off
   here too. */
static void options_of_all_pools(void **state) {
    (void)state;
    assert_ok(vram_option_set("poison", "on"));
    assert_ok(vram_option_set("pool", "off"));
    struct rig rig = rig_make("sim", "memory=256M,journal=10000");
    vram_pool *pool = pinned_pool(&rig);
    vram_addr addr;
    assert_ok(vram_alloc(pool, 5000, rig.queue, &addr));
    assert_int_equal(stats_of(pool).reserved_bytes, 2 * vr_os_page_bytes());
    assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
    assert_ok(vram_free(addr, NULL));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    rig_end_clean(&rig);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(blocks_are_host_memory),
        TEST(hits_call_no_driver),
        TEST(the_devices_limits_are_not_its_own),
        TEST(freed_in_queue_time),
        TEST(buffers_come_from_it),
        TEST(a_buffer_is_not_what_its_queue_still_reads),
        TEST(refused_memory_falls_back_and_is_counted),
        TEST(every_call_may_fail),
        TEST(lost_device_gives_it_back),
        TEST(misuse_is_refused),
        TEST(a_device_without_pinned_memory_has_no_such_pool),
        TEST(options_of_all_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
