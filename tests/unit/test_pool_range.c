/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_range.c: addresses of pools. A pool does not refuse while there is memory: it reserves
 * many times the memory in addresses, and adds ranges when these run out.
 */
#include "byte_units.h"

#include "unit/device_world.h"
#include "unit/report_text.h"
#include "unit/whole_device.h"
#include "vram/limits.h"
#include "vram/oom.h"
#include "vram/pool.h"

enum { BLOCKS = 64 };

/* What a program has. */
struct program {
    struct rig rig;
    vram_pool *pool;
    vram_addr addrs[BLOCKS];
    uint64_t bytes[BLOCKS], live;
    uint32_t count;
    uint64_t random;
};

/* splitmix64 */
static uint64_t random_next(struct program *program) {
    uint64_t z = program->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* From 0 to 1. */
static double random_part(struct program *program) {
    return (double)(random_next(program) >> 11) / 9007199254740992.0;
}

static void take(struct program *program, uint64_t bytes) {
    vram_addr addr = 0;
    vram_status status = vram_alloc(program->pool, bytes, program->rig.queue, &addr);
    if (status != VRAM_OK) {
        static struct report_text text;
        vram_oom_report report = {.size = sizeof report};
        assert_ok(vram_oom_report_get(program->pool, &report));
        assert_ok(vram_oom_report_write(&report, VRAM_REPORT_TEXT, report_text_take, &text));
        fail_msg("%llu live, %llu asked: %s", (unsigned long long)program->live,
                 (unsigned long long)bytes, text.text);
    }
    program->addrs[program->count] = addr;
    program->bytes[program->count++] = bytes;
    program->live += bytes;
}

static void give(struct program *program, uint32_t which) {
    uint32_t last = --program->count;
    assert_ok(vram_free(program->addrs[which], program->rig.queue));
    program->live -= program->bytes[which];
    program->addrs[which] = program->addrs[last];
    program->bytes[which] = program->bytes[last];
}

static void free_random_block(struct program *program) {
    give(program, (uint32_t)(random_next(program) % program->count));
}

static uint64_t address_bytes(vram_pool *pool) {
    vram_oom_report report = {.size = sizeof report};
    vram_addr none = 0;
    assert_true(vram_status_is_exhausted(vram_alloc(pool, UINT64_C(1) << 60, NULL, &none)));
    assert_ok(vram_oom_report_get(pool, &report));
    return report.address_bytes;
}

/* -------------------------------------------------------------------- ranges */

/* The struct overrides the option, and both are used exactly. */
TEST(ranges_are_as_long_as_asked, "sim:memory=1G") {
    vram_pool_options options = {.size = sizeof options, .range_bytes = 6 * MIB};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_int_equal(address_bytes(pool), 64 * GIB);
    assert_ok(vram_option_set("range_bytes", "10M"));
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_int_equal(address_bytes(pool), 10 * MIB);
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    assert_int_equal(address_bytes(pool), 6 * MIB);
}

static void fill(vram_addr addr, uint64_t bytes, int value) {
    unsigned char *at = (unsigned char *)(uintptr_t)addr;
    at[0] = at[bytes / 2] = at[bytes - 1] = (unsigned char)value;
}

static void expect(vram_addr addr, uint64_t bytes, int value) {
    const unsigned char *at = (const unsigned char *)(uintptr_t)addr;
    assert_int_equal(at[0], value);
    assert_int_equal(at[bytes / 2], value);
    assert_int_equal(at[bytes - 1], value);
}

/* All of a device through ranges that are far too short: contents stay, sleep and wake find
   everything, blocks grow, and all is given back. */
TEST(further_ranges_follow) {
    enum { COUNT = 20 };
    static const char *const sims[] = {"memory=128M,real=on", "memory=128M,real=on,alias=off",
                                       "memory=128M,real=on,lag=50"};
    vram_pool_options options = {.size = sizeof options, .range_bytes = 2 * MIB};
    vram_sleep_options keep = {.size = sizeof keep, .contents = VRAM_SLEEP_HOST};
    for (size_t k = 0; k < sizeof sims / sizeof sims[0]; k++) {
        struct program program = {.rig = rig_make("sim", sims[k]), .random = k + 1};
        whole_device(program.rig.device);
        assert_ok(vram_pool_create(program.rig.device, &options, &program.pool));
        for (int i = 0; i < 3; i++) {
            while (program.count < COUNT) {
                take(&program, 1 + random_next(&program) % (3 * MIB));
            }
            assert_ok(vram_queue_wait(program.rig.queue, UINT64_MAX));
            for (uint32_t n = 0; n < COUNT; n++) {
                fill(program.addrs[n], program.bytes[n], (int)n);
            }
            assert_ok(vram_pool_sleep(program.pool, &keep));
            assert_ok(vram_pool_wake(program.pool, NULL));
            for (uint32_t n = 0; n < COUNT; n++) {
                expect(program.addrs[n], program.bytes[n], (int)n);
            }
            while (program.count > COUNT / 4) {
                free_random_block(&program);
            }
        }
        take(&program, 60 * MIB);
        expect_protocol(&program.rig);
        assert_ok(vram_pool_destroy(program.pool));
        rig_end_clean(&program.rig);
    }
}

/* ------------------------------------------------------------ no false refusal */

/* What the default limits let pools have. */
static uint64_t allowed_bytes(vram_pool *pool, uint64_t memory) {
    vram_limits limits = {.size = sizeof limits};
    assert_ok(vram_pool_limits_get(pool, &limits));
    uint64_t fraction = (uint64_t)(limits.fraction * (double)memory);
    return fraction < memory - limits.min_free_bytes ? fraction : memory - limits.min_free_bytes;
}

/* Blocks of 1/16 to 1/2 of the memory fit as long as all that is live is 0.98 of what the limits
   allow. */
static void random_programs_fit(const char *sim, uint64_t memory, int operations) {
    enum { SEEDS = 24 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct program program = {.rig = rig_make("sim", sim), .random = seed};
        assert_ok(vram_pool_create(program.rig.device, NULL, &program.pool));
        uint64_t most = (uint64_t)(0.98 * (double)allowed_bytes(program.pool, memory));
        for (int i = 0; i < operations; i++) {
            uint64_t bytes = (uint64_t)((double)memory / 16 * (1 + 7 * random_part(&program)));
            while (program.live + bytes > most) {
                free_random_block(&program);
            }
            take(&program, bytes);
        }
        rig_end_clean(&program.rig);
    }
}

TEST(random_programs) {
    random_programs_fit("memory=8G", 8 * GIB, 120);
}
