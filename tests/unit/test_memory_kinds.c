/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_memory_kinds.c: pools of managed memory, the ready-made providers of every kind, and hints
 * that name a device by its index.
 */
#include "unit/device_world.h"
#include "unit/mem_world.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

static vram_pool *managed_pool(struct rig *rig, const vram_limits *limits) {
    vram_pool_options options = {
        .size = sizeof options, .kind = VRAM_MEMORY_MANAGED, .limits = limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

static vram_provider provider_of(struct rig *rig, vram_memory_kind kind) {
    vram_provider provider = {.size = sizeof provider};
    assert_ok(vram_provider_get(rig->device, kind, &provider));
    return provider;
}

/* ------------------------------------------------------------------ managed pools */

TEST(managed_buffers_come_from_it, "sim:memory=256M,real=on") {
    vram_pool *pool = managed_pool(rig, NULL);
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_MANAGED};
    vram_buffer *buffer;
    vram_buffer_info info = {.size = sizeof info};
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_buffer_create(pool, 100000, rig->queue, &options, &buffer));
        assert_ok(vram_buffer_info_get(buffer, &info));
        assert_int_equal(info.location, VRAM_MEMORY_MANAGED);
        assert_ptr_equal(info.host, (void *)(uintptr_t)info.addr);
        memset(info.host, 1, 100000);
        assert_ok(vram_buffer_prefetch(buffer, 0, 100000, 0, NULL)); /* device 0, by its index */
        assert_ok(vram_buffer_advise(buffer, VRAM_ADVICE_PREFER, 0));
        assert_ok(vram_buffer_resize(buffer, 300000, rig->queue));
        assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
        assert_ok(vram_buffer_info_get(buffer, &info));
        assert_int_equal(((char *)info.host)[99999], 1);
        assert_ok(vram_buffer_destroy(buffer));
    }
    assert_int_equal(stats_of(pool).driver_allocs, 1);
    assert_int_equal(stats_of(pool).other_bytes, 0);
    for (int kind = VRAM_BUFFER_DEVICE; kind <= VRAM_BUFFER_FALLBACK; kind++) {
        options.kind = (vram_buffer_kind)kind;
        if (kind != VRAM_BUFFER_MANAGED) {
            assert_int_equal(vram_buffer_create(pool, 1, rig->queue, &options, &buffer),
                             VRAM_ERR_UNSUPPORTED);
            assert_non_null(strstr(vram_error_get()->text, "its buffers are managed"));
        }
    }
}

/* It may pass the device's memory, because it migrates; hard limits count it. */
TEST(its_limits_are_hard_ones, "sim:memory=64M") {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 200 * MIB};
    vram_limits device = {.size = sizeof device, .hard_bytes = 150 * MIB};
    assert_ok(vram_device_limits_set(rig->device, &device));
    vram_pool *pool = managed_pool(rig, &limits);
    vram_addr addr, more;
    assert_ok(vram_alloc(pool, 128 * MIB, rig->queue, &addr)); /* twice the device */
    assert_int_equal(vram_alloc(pool, 100 * MIB, rig->queue, &more), VRAM_ERR_LIMIT); /* its own */
    assert_int_equal(vram_alloc(pool, 50 * MIB, rig->queue, &more), VRAM_ERR_LIMIT);  /* device's */
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_ok(vram_alloc(pool, 50 * MIB, rig->queue, &more));
    assert_ok(vram_free(more, rig->queue));
    assert_int_equal(vram_pool_sleep(pool, NULL), VRAM_ERR_UNSUPPORTED);
    assert_non_null(strstr(vram_error_get()->text, "managed memory"));
}

/* Under a limit of the device the two kinds give up free memory for each other. */
TEST(idle_memory_of_either_kind_is_given_up, "sim:memory=1G") {
    vram_limits device = {.size = sizeof device, .hard_bytes = 100 * MIB};
    assert_ok(vram_device_limits_set(rig->device, &device));
    vram_pool *managed = managed_pool(rig, NULL), *plain;
    vram_pool *pools[2] = {managed, NULL};
    assert_ok(vram_pool_create(rig->device, NULL, &plain));
    pools[1] = plain;
    for (int round = 0; round < 4; round++) {
        vram_addr addr;
        assert_ok(vram_alloc(pools[round % 2], 80 * MIB, rig->queue, &addr));
        assert_ok(vram_free(addr, rig->queue));
        assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    }
}

/* --------------------------------------------------------------------- providers */

/* A program's own allocator, over one of the library's: it counts, and may be told to refuse. */
struct counted {
    vram_provider base;
    unsigned allocs, frees;
    bool refuses;
};

static vram_status counted_alloc(void *user, uint64_t bytes, vram_addr *addr) {
    struct counted *counted = user;
    counted->allocs++;
    return counted->refuses ? VRAM_ERR_HOST_MEMORY
                            : counted->base.alloc(counted->base.user, bytes, addr);
}

static vram_status counted_free(void *user, vram_addr addr, uint64_t bytes) {
    struct counted *counted = user;
    counted->frees++;
    return counted->base.free(counted->base.user, addr, bytes);
}

static vram_provider counting(struct counted *counted) {
    return (vram_provider){.size = sizeof(vram_provider),
                           .user = counted,
                           .alloc = counted_alloc,
                           .free = counted_free,
                           .granule = counted->base.granule};
}

static const vram_buffer_kind buffer_kinds[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,
                                                VRAM_BUFFER_MANAGED};

/* Memory that is not what its pool says is refused, not used as something else. */
TEST(allocators_must_say_their_kind, "sim:memory=256M,real=on") {
    struct counted counted = {.base = provider_of(rig, VRAM_MEMORY_PINNED)};
    vram_provider provider = counting(&counted), plain = provider_of(rig, VRAM_MEMORY_PINNED);
    vram_pool_options options = {.size = sizeof options, .provider = &provider};
    vram_pool *pool;
    vram_addr addr;
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_pool_create(rig->device, &options, &pool));
        assert_int_equal(vram_alloc(pool, 100, rig->queue, &addr), VRAM_ERR_INVALID);
        assert_non_null(strstr(vram_error_get()->text, "pinned memory"));
        assert_int_equal(counted.allocs, counted.frees);
        assert_ok(vram_pool_destroy(pool));
        options.kind = VRAM_MEMORY_MANAGED;
    }
    assert_true(counted.allocs > 0);
    for (int kind = VRAM_BUFFER_PINNED; kind <= VRAM_BUFFER_MAPPED; kind++) {
        vram_buffer_options like = {.size = sizeof like, .kind = (vram_buffer_kind)kind};
        vram_buffer *buffer = NULL;
        options.kind = VRAM_MEMORY_DEVICE; /* it does not say: the driver is not its stand-in */
        assert_ok(vram_pool_create(rig->device, &options, &pool));
        assert_int_equal(vram_buffer_create(pool, 100, rig->queue, &like, &buffer),
                         VRAM_ERR_UNSUPPORTED);
        assert_non_null(strstr(vram_error_get()->text, "vram_pool_options.kind"));
        assert_null(buffer);
        assert_ok(vram_pool_destroy(pool));
    }
    options.kind = VRAM_MEMORY_MANAGED;
    options.provider = &plain; /* the library's own is known */
    assert_int_equal(vram_pool_create(rig->device, &options, &pool), VRAM_ERR_INVALID);
    options.kind = VRAM_MEMORY_PINNED;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
}

/* Each buffer may have an allocator of its own, in one pool, and keeps it when it grows. */
TEST(buffers_have_their_own_allocators, "sim:memory=256M,real=on") {
    struct counted counted[3];
    vram_buffer *buffers[3];
    vram_pool *pool = pool_of(rig, 0);
    uint64_t before = sim_state(rig).live_handles;
    for (int i = 0; i < 3; i++) {
        counted[i] = (struct counted){.base = provider_of(rig, (vram_memory_kind)i)};
        vram_provider provider = counting(&counted[i]);
        vram_growth growth = {.size = sizeof growth};
        vram_buffer_options options = {.size = sizeof options,
                                       .kind = buffer_kinds[i],
                                       .provider = &provider,
                                       .growth = &growth};
        vram_buffer_info info = {.size = sizeof info};
        assert_ok(vram_buffer_create(pool, 5 * MIB, rig->queue, &options, &buffers[i]));
        assert_ok(vram_buffer_info_get(buffers[i], &info));
        assert_int_equal(info.location, i);
        assert_int_equal(counted[i].allocs, 1);
        assert_ok(vram_queue_fill(rig->queue, info.addr, 1, 1, i == 1 ? 0 : 5 * MIB));
    }
    assert_int_equal(sim_state(rig).live_handles, before + 3);
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    assert_int_equal(stats_of(pool).other_bytes, 15 * MIB);
    for (int i = 0; i < 3; i++) {
        uint8_t byte = 0;
        vram_span span;
        assert_ok(vram_buffer_span(buffers[i], 5 * MIB - 1, 1, &span));
        assert_ok(vram_span_upload(rig->queue, span, &(uint8_t){42}));
        assert_ok(vram_buffer_resize(buffers[i], 9 * MIB, rig->queue));
        assert_int_equal(counted[i].allocs, 2);
        assert_ok(vram_buffer_span(buffers[i], 5 * MIB - 1, 1, &span));
        assert_ok(vram_span_download(rig->queue, &byte, span));
        assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
        assert_int_equal(byte, 42);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_buffer_destroy(buffers[i]));
        assert_int_equal(counted[i].frees, 2); /* no work uses it: it goes back at once */
        vram_provider provider = counting(&counted[i]);
        vram_buffer_options small = {
            .size = sizeof small, .kind = buffer_kinds[i], .provider = &provider};
        assert_ok(vram_buffer_create(pool, 1000, rig->queue, &small, &buffers[i]));
        assert_int_equal(counted[i].allocs, 3); /* caches have no part in it */
        assert_ok(vram_buffer_destroy(buffers[i]));
    }
    assert_int_equal(stats_of(pool).other_bytes, 0);
}

/* ----------------------------------------------------------------------- targets */

/* Any device of the context by its index; the host device is the host; nothing else is a place. */
TEST(hints_name_any_device) {
    struct rig rig = rig_make("sim,host", "memory=64M,devices=2,journal=1000");
    vram_addr addr;
    vram_sim_entry entry;
    assert_int_equal(vram_device_count(rig.context), 3);
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_MANAGED, &addr));
    for (int32_t target = VRAM_TARGET_OWN; target < 3; target++) {
        assert_ok(vram_queue_prefetch(rig.queue, addr, MIB, target));
        assert_ok(vram_sim_journal_get(rig.context, 0, &entry));
        assert_int_equal(entry.call, VRAM_SIM_PREFETCH);
        assert_int_equal(entry.device, 0); /* on the queue's device, wherever it goes */
        assert_ok(vram_device_advise(rig.device, addr, MIB, VRAM_ADVICE_PREFER, target));
    }
    const int32_t none[] = {3, -3, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(vram_queue_prefetch(rig.queue, addr, MIB, none[i]), VRAM_ERR_NO_DEVICE);
        assert_int_equal(vram_device_advise(rig.device, addr, MIB, VRAM_ADVICE_PREFER, none[i]),
                         VRAM_ERR_NO_DEVICE);
        assert_ok(vram_device_advise(rig.device, addr, MIB, VRAM_ADVICE_NONE, none[i]));
    }
    rig_end_clean(&rig);
}

/* --------------------------------------------------- pools of page-locked memory */

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
