/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_targets.c: what the documents promise about time, with the prices of an H200: what the
 * driver takes by the simulated clock, what the library takes in processor time of the thread.
 * Other programs on the machine change neither.
 */
#include "byte_units.h"
#include "unit/mem_world.h"
#include "vram/growth.h"
#include "vram/limits.h"
#include "vram/stats.h"

#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWED = 20 }; /* what a sanitizer may cost */
#else
enum { SLOWED = 1 };
#endif

#define SIM "memory=4G,profile=h200"

static uint64_t thread_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* What something took: of the driver, and of the library. */
struct taken {
    uint64_t driver_ns, own_ns;
};

static struct taken taken_from(struct rig *rig) {
    return (struct taken){sim_state(rig).clock_ns, thread_ns()};
}

static uint64_t taken_since(struct rig *rig, struct taken from) {
    struct taken now = taken_from(rig);
    return now.driver_ns - from.driver_ns + (now.own_ns - from.own_ns) / SLOWED;
}

static vram_pool *production_pool(struct rig *rig) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_OFF};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    return pool;
}

/* The mean over blocks of typical sizes, the first ones included, is far below 100 us. */
TEST(allocation_takes_less_than_100_us, "sim:" SIM) {
    enum { SLOTS = 64, COUNT = 4000 };
    static vram_addr held[SLOTS];
    uint64_t seed = 7;
    vram_pool *pool = production_pool(rig);
    struct taken start = taken_from(rig);
    for (int i = 0; i < COUNT; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t slot = seed >> 58, size = (seed >> 20) % (MIB << (seed >> 55) % 5);
        assert_ok(vram_free(held[slot], rig->queue));
        assert_ok(vram_alloc(pool, size, rig->queue, &held[slot]));
    }
    assert_in_range(taken_since(rig, start) / COUNT, 0, 100000);
    start = taken_from(rig);
    for (int i = 0; i < COUNT; i++) { /* a size that comes again asks no driver at all */
        assert_ok(vram_free(held[i % 8], rig->queue));
        assert_ok(vram_alloc(pool, 64 * KIB, rig->queue, &held[i % 8]));
    }
    assert_in_range(taken_since(rig, start) / COUNT, 0, 100000);
    for (int i = 0; i < SLOTS; i++) {
        assert_ok(vram_free(held[i], rig->queue));
    }
}

/* A buffer that gets other memory, with a copy of its contents, and one that grows where it is. */
TEST(a_resize_takes_less_than_1_ms) {
    static const char *const sims[] = {SIM, SIM ",vmm=off"};
    for (size_t i = 0; i < sizeof sims / sizeof sims[0]; i++) {
        struct rig rig = rig_make("sim", sims[i]);
        vram_pool *pool = production_pool(&rig);
        vram_growth growth = {
            .size = sizeof growth, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = 1300000};
        vram_buffer_options options = {.size = sizeof options, .growth = &growth};
        vram_growth_info info = {.size = sizeof info};
        vram_buffer *buffer;
        uint64_t bytes =
            12 * 10000; /* positions of 10,000 nodes, and in the end of over 1,000,000 */
        assert_ok(vram_buffer_create(pool, bytes, rig.queue, &options, &buffer));
        while (bytes < 12 * 1000000) {
            bytes += bytes / 3 / 12 * 12;
            assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
            struct taken start = taken_from(&rig);
            assert_ok(vram_buffer_resize(buffer, bytes, rig.queue));
            assert_ok(vram_queue_wait(rig.queue, 30 * SECOND));
            assert_in_range(taken_since(&rig, start), 0, 1000000);
        }
        assert_ok(vram_buffer_growth_get(buffer, &info));
        assert_true(info.in_place + info.copies >= 5);
        assert_true(i == 0 || info.copied_bytes > 1000000);
        assert_ok(vram_buffer_destroy(buffer));
        rig_end_clean(&rig);
    }
}

/* The least processor time of a pair in several rounds. */
static uint64_t pair_ns(struct rig *rig, vram_pool *pool) {
    enum { PAIRS = 5000 };
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 20; round++) {
        uint64_t start = thread_ns();
        for (int i = 0; i < PAIRS; i++) {
            vram_addr addr;
            assert_ok(vram_alloc(pool, 1024, rig->queue, &addr));
            assert_ok(vram_free(addr, rig->queue));
        }
        uint64_t ns = (thread_ns() - start) / PAIRS;
        best = ns < best ? ns : best;
    }
    return best;
}

/* Records for leak reports, in a program that allocates 2,000 times a second; in debug builds,
   which check each step, 500 times. */
TEST(leak_detection_takes_less_than_a_thousandth, "sim:memory=1G") {
#ifdef NDEBUG
    const uint64_t per_second = 2000;
#else
    const uint64_t per_second = 500;
#endif
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool *plain = production_pool(rig), *tracked = production_pool(rig);
    assert_ok(vram_pool_destroy(tracked));
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    assert_ok(vram_pool_create(rig->device, &options, &tracked));
    uint64_t off = pair_ns(rig, plain), on = pair_ns(rig, tracked);
    uint64_t more = on > off ? on - off : 0;
    assert_in_range(more * per_second / SLOWED, 0, 1000000); /* ns of a second: 0.1 % */
}

/* Without tracking and safety modes there are no records, no work on any queue, no call of the
   driver and no memory of the host, however often the program allocates. */
TEST(production_pays_for_nothing, "sim:" SIM) {
    vram_pool *pool = production_pool(rig);
    vram_live_query query = {.size = sizeof query, .context = rig->context};
    vram_live_stats live = {.size = sizeof live};
    vram_addr addr;
    assert_ok(vram_alloc(pool, 1024, rig->queue, &addr));
    assert_ok(vram_free(addr, rig->queue));
    uint64_t calls = sim_state(rig).calls, bytes = vram_host_bytes();
    for (int i = 0; i < 10000; i++) {
        assert_ok(vram_alloc(pool, 1024, rig->queue, &addr));
        if (i == 5000) {
            assert_ok(vram_live_stats_get(&query, &live));
        }
        assert_ok(vram_free(addr, rig->queue));
    }
    assert_int_equal(sim_state(rig).calls, calls);
    assert_int_equal(vram_host_bytes(), bytes);
    assert_int_equal(live.pools + live.record_bytes + live.metadata_bytes, 0);
}
