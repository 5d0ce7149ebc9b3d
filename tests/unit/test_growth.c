/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_growth.c: buffers that become larger and smaller: the policies as tables, in place and by
 * copies, with their contents kept, and every step of every resize failing in turn.
 */
#include "byte_units.h"
#include "trims.h"
#include "unit/device_world.h"
#include "unit/pool_flags.h"
#include "unit/stats_of.h"
#include "unit/test_time.h"
#include "vram/compat.h"
#include "vram/growth.h"
#include "vram/limits.h"

#include <stdlib.h>

static vram_buffer_info info_of(vram_buffer *buffer) {
    vram_buffer_info info = {.size = sizeof info};
    assert_ok(vram_buffer_info_get(buffer, &info));
    return info;
}

static vram_growth_info growth_of(vram_buffer *buffer) {
    vram_growth_info info = {.size = sizeof info};
    assert_ok(vram_buffer_growth_get(buffer, &info));
    return info;
}

static vram_growth preset(const char *name) {
    vram_growth growth;
    assert_ok(vram_growth_preset(name, &growth));
    return growth;
}

static vram_pool *pool_make(struct rig *rig, uint32_t flags) {
    vram_pool_options options = {.size = sizeof options, .flags = flags};
    vram_pool *pool;
    assert_ok(test_pool_create(rig->device, &options, &pool));
    return pool;
}

static vram_buffer *buffer_of(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_buffer *buffer;
    assert_ok(vram_buffer_create(pool, bytes, queue, NULL, &buffer));
    return buffer;
}

static void put(vram_queue *queue, vram_buffer *buffer, uint64_t from, uint64_t to, uint32_t seed) {
    uint32_t *text = malloc(to - from);
    assert_non_null(text);
    for (uint64_t i = 0; i < (to - from) / 4; i++) {
        text[i] = (uint32_t)(from / 4 + i) * 2654435761u + seed;
    }
    assert_ok(vram_queue_upload(queue, info_of(buffer).addr + from, text, to - from));
    assert_ok(vram_queue_wait(queue, 30 * SECOND));
    free(text);
}

/* Whether bytes 0 to `bytes` are as put has written them. */
static bool is_there(vram_queue *queue, vram_buffer *buffer, uint64_t bytes, uint32_t seed) {
    uint32_t *text = malloc(bytes ? bytes : 1);
    bool same = true;
    assert_non_null(text);
    assert_ok(vram_queue_download(queue, text, info_of(buffer).addr, bytes));
    assert_ok(vram_queue_wait(queue, 30 * SECOND));
    for (uint64_t i = 0; i < bytes / 4; i++) {
        same = same && text[i] == (uint32_t)i * 2654435761u + seed;
    }
    free(text);
    return same;
}

/* -------------------------------------------------------------------- policies */

/* Acceptance item 19: the table of the presets, and each rule. */
TEST(acceptance_19_growth_tables) {
    static const struct {
        const char *name;
        uint32_t ppm, element;
        uint64_t min, max;
    } rows[] = {
        {"default", 1500000, 4, 4096, GIB},         {"positions", 1300000, 12, 4096, GIB / 2},
        {"velocities", 1300000, 12, 4096, GIB / 2}, {"forces", 1300000, 12, 4096, GIB / 2},
        {"edges", 2000000, 32, 8192, 2 * GIB},      {"grid_cells", 1500000, 8, 2048, GIB / 4},
    };
    uint64_t bytes;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_growth growth = preset(rows[i].name);
        assert_int_equal(growth.policy, VRAM_GROWTH_FACTOR);
        assert_int_equal(growth.factor_ppm, rows[i].ppm);
        assert_int_equal(growth.element_bytes, rows[i].element);
        assert_int_equal(growth.min_bytes, rows[i].min);
        assert_int_equal(growth.max_bytes, rows[i].max);
        assert_ok(vram_growth_next(&growth, 0, 1, &bytes)); /* the first time */
        assert_int_equal(bytes, rows[i].min);
        assert_ok(vram_growth_next(&growth, 0, 3 * rows[i].min, &bytes));
        assert_int_equal(bytes, 3 * rows[i].min);
        assert_ok(vram_growth_next(&growth, 100000, 100000, &bytes)); /* fits */
        assert_int_equal(bytes, 100000);
        assert_ok(vram_growth_next(&growth, 100000, 100001, &bytes));
        assert_int_equal(bytes, (uint64_t)100000 * rows[i].ppm / 1000000);
        assert_ok(vram_growth_next(&growth, 100000, 900000, &bytes)); /* more than the factor */
        assert_int_equal(bytes, 900000);
        assert_ok(vram_growth_next(&growth, rows[i].max - 4, rows[i].max - 1, &bytes));
        assert_int_equal(bytes, rows[i].max);
        assert_ok(vram_growth_next(&growth, rows[i].max - 4, rows[i].max, &bytes));
        assert_int_equal(vram_growth_next(&growth, 0, rows[i].max + 1, &bytes), VRAM_ERR_LIMIT);
    }
}

/* Whole numbers: 1.3 times 10^18 and more is exact, and what passes 2^64 is as much as there is. */
TEST(growth_is_exact_for_large_sizes) {
    vram_growth growth = {
        .size = sizeof growth, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = 1300000};
    uint64_t bytes;
    assert_ok(vram_growth_next(&growth, UINT64_C(1000000000000000001),
                               UINT64_C(1000000000000000002), &bytes));
    assert_int_equal(bytes, UINT64_C(1300000000000000001));
    assert_ok(vram_growth_next(&growth, (UINT64_C(1) << 54) + 1, (UINT64_C(1) << 54) + 2, &bytes));
    assert_int_equal(bytes,
                     UINT64_C(23418718062326580)); /* floor; a double says ...581 or ...576 */
    assert_ok(vram_growth_next(&growth, UINT64_MAX - 5, UINT64_MAX - 1, &bytes));
    assert_int_equal(bytes, UINT64_MAX);
    growth = (vram_growth){.size = sizeof growth, .policy = VRAM_GROWTH_FIXED, .step_bytes = 1000};
    assert_ok(vram_growth_next(&growth, 500, 501, &bytes));
    assert_int_equal(bytes, 1500);
    assert_ok(vram_growth_next(&growth, 500, 3500, &bytes));
    assert_int_equal(bytes, 3500);
    assert_ok(vram_growth_next(&growth, 500, 3501, &bytes));
    assert_int_equal(bytes, 4500);
    assert_ok(vram_growth_next(&growth, 500, UINT64_MAX, &bytes));
    assert_int_equal(bytes, UINT64_MAX);
    growth.step_bytes = 0; /* not at all */
    assert_int_equal(vram_growth_next(&growth, 500, 501, &bytes), VRAM_ERR_LIMIT);
    assert_ok(vram_growth_next(&growth, 500, 499, &bytes));
    assert_int_equal(bytes, 500);
    assert_ok(vram_growth_next(NULL, 500, 501, &bytes)); /* exact */
    assert_int_equal(bytes, 501);
}

/* -------------------------------------------------------------------- resizing */

/* Reserve makes room, resize says what is in use; down to 0 the capacity stays; fit gives it
   back. */
TEST(capacity_and_use) {
    vram_growth growth = {.size = sizeof growth,
                          .policy = VRAM_GROWTH_FACTOR,
                          .factor_ppm = 2000000,
                          .min_bytes = 8 * KIB};
    SKIP_UNDER(TEST_POOL_GUARDS, false, "no block changes its size in place there");
    struct rig rig = rig_make("sim", "memory=1G,real=on");
    vram_pool *pool = pool_make(&rig, 0);
    vram_buffer *buffer = buffer_of(pool, 64 * KIB, rig.queue);
    assert_ok(vram_buffer_growth_set(buffer, &growth));
    put(rig.queue, buffer, 0, 64 * KIB, 1);
    uint64_t accessed = info_of(buffer).accessed_ns;
    assert_ok(vram_buffer_reserve(buffer, 60 * KIB, NULL)); /* fits */
    assert_true(info_of(buffer).accessed_ns > accessed);
    assert_int_equal(info_of(buffer).resizes, 0);
    assert_ok(vram_buffer_reserve(buffer, 65 * KIB, NULL));
    vram_buffer_info info = info_of(buffer);
    assert_int_equal(info.capacity_bytes, 128 * KIB);
    assert_int_equal(info.used_bytes, 64 * KIB);
    assert_int_equal(info.resizes, 1);
    assert_true(is_there(rig.queue, buffer, 64 * KIB, 1));
    assert_ok(vram_buffer_resize(buffer, 96 * KIB, NULL));
    assert_int_equal(info_of(buffer).capacity_bytes, 128 * KIB);
    assert_int_equal(info_of(buffer).used_bytes, 96 * KIB);
    vram_growth_info grown = growth_of(buffer);
    assert_true(grown.utilisation == 0.75);
    assert_int_equal(grown.in_place + grown.copies, 1);
    assert_int_equal(grown.growth.factor_ppm, 2000000);
    assert_ok(vram_buffer_resize(buffer, 4 * KIB, NULL));
    assert_int_equal(info_of(buffer).capacity_bytes, 128 * KIB);
    assert_ok(vram_buffer_fit(buffer, NULL));
    assert_int_equal(info_of(buffer).capacity_bytes, 8 * KIB);
    assert_int_equal(stats_of(pool).requested_bytes, 8 * KIB);
    assert_true(is_there(rig.queue, buffer, 4 * KIB, 1));
    assert_ok(vram_buffer_resize(buffer, 0, NULL));
    assert_true(growth_of(buffer).utilisation == 0);
    assert_ok(vram_buffer_resize(buffer, 12, rig.queue));
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(stats_of(pool).requested_bytes, 0);
    rig_end_clean(&rig);
}

/* In place where the memory behind it can be had, elsewhere where not; contents are the same. */
TEST(in_place_or_by_a_copy) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC,
                                     VRAM_POOL_RED_ZONES};
    SKIP_UNDER(TEST_POOL_GUARDS | VRAM_POOL_SEGMENTS, true, "no block grows in place there");
    for (size_t i = 0; i < 4; i++) {
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        vram_pool *pool = pool_make(&rig, flags[i]);
        vram_buffer *buffer = buffer_of(pool, 3 * MIB, rig.queue);
        put(rig.queue, buffer, 0, 3 * MIB, 5);
        vram_addr addr = info_of(buffer).addr;
        assert_ok(vram_buffer_resize(buffer, 9 * MIB, rig.queue));
        bool stayed = info_of(buffer).addr == addr;
        assert_int_equal(growth_of(buffer).in_place, stayed);
        assert_int_equal(growth_of(buffer).copies, !stayed);
        assert_int_equal(growth_of(buffer).copied_bytes, stayed ? 0 : 3 * MIB);
        assert_true(stayed == (flags[i] == 0 || flags[i] == VRAM_POOL_DETERMINISTIC));
        assert_true(is_there(rig.queue, buffer, 3 * MIB, 5));
        put(rig.queue, buffer, 3 * MIB, 9 * MIB, 5);
        vram_buffer *wall = NULL; /* right behind it, so that it has to go */
        for (int left = 8;
             left > 0 && (!wall || info_of(wall).addr != info_of(buffer).addr + 9 * MIB); left--) {
            wall = buffer_of(pool, 2 * MIB, rig.queue);
        }
        assert_ok(vram_buffer_resize(buffer, 40 * MIB, rig.queue));
        assert_true(is_there(rig.queue, buffer, 9 * MIB, 5));
        assert_int_equal(info_of(buffer).resizes, 2);
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_pool_destroy(pool));
        rig_end_clean(&rig);
    }
}

/* Acceptance item 19, stress: a million elements from a thousand, a checksum after each step. */
TEST(acceptance_19_a_million_elements_from_a_thousand) {
    static const char *const names[] = {"positions", "edges", "default"};
    for (size_t i = 0; i < 3; i++) {
        struct rig rig = rig_make("sim", "memory=1G,real=on");
        vram_pool *pool = pool_make(&rig, i == 1 ? VRAM_POOL_SEGMENTS : 0);
        vram_growth growth = preset(names[i]);
        vram_buffer *buffer = buffer_of(pool, 0, rig.queue);
        vram_buffer *other = buffer_of(pool, MIB, rig.queue);
        uint64_t written = 0, steps = 0;
        assert_ok(vram_buffer_growth_set(buffer, &growth));
        for (uint64_t count = 1000; written < UINT64_C(1000000) * growth.element_bytes;
             count += count / 3, steps++) {
            count = count < 1000000 ? count : 1000000;
            assert_ok(vram_buffer_resize_elements(buffer, count, rig.queue));
            uint64_t bytes = count * growth.element_bytes;
            assert_int_equal(info_of(buffer).used_bytes, bytes);
            assert_true(is_there(rig.queue, buffer, written, 77));
            put(rig.queue, buffer, written, bytes, 77);
            written = bytes;
        }
        assert_true(is_there(rig.queue, buffer, written, 77));
        assert_true(steps > 20);
        assert_true(info_of(buffer).resizes > 5 && info_of(buffer).resizes <= steps);
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_buffer_destroy(other));
        assert_int_equal(stats_of(pool).allocated_bytes, 0);
        rig_end_clean(&rig);
    }
}

/* What the policy would keep in reserve is given up where it is too much. */
TEST(reserve_is_given_up_first, "sim:memory=64M") {
    vram_growth growth = {
        .size = sizeof growth, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = 3000000};
    vram_pool *pool = pool_make(rig, 0);
    vram_buffer *buffer = buffer_of(pool, 24 * MIB, rig->queue);
    assert_ok(vram_buffer_growth_set(buffer, &growth));
    vram_error_clear();
    assert_ok(vram_buffer_resize(buffer, 30 * MIB, rig->queue));
    expect_no_record();
    assert_int_equal(info_of(buffer).capacity_bytes, 30 * MIB);
    assert_true(vram_status_is_exhausted(vram_buffer_resize(buffer, 200 * MIB, rig->queue)));
    assert_int_equal(info_of(buffer).capacity_bytes, 30 * MIB);
}

/* ------------------------------------------------------------------ giving back */

TEST(unused_buffers_are_cleaned_up) {
    uint64_t bytes = 1;
    SKIP_UNDER(TEST_POOL_GUARDS, false, "no block changes its size in place there");
    test_time_begin(3600 * SECOND, 0);
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(&rig, 0);
    vram_buffer *used = buffer_of(pool, 4 * MIB, rig.queue);
    vram_buffer *unused = buffer_of(pool, 8 * MIB, rig.queue);
    vram_buffer *recent = buffer_of(pool, 2 * MIB, rig.queue);
    assert_ok(vram_buffer_resize(unused, 0, NULL));
    vram_addr addr = info_of(unused).addr;
    test_time_ns += 50 * SECOND;
    assert_ok(vram_buffer_resize(recent, 0, NULL));
    test_time_ns += 20 * SECOND;
    static const struct {
        uint64_t idle_ns, bytes;
    } rows[] = {{71 * SECOND, 0}, {60 * SECOND, 8 * MIB}, {0, 2 * MIB}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_BUFFERS, .idle_ns = rows[i].idle_ns),
                                 &bytes));
        assert_int_equal(bytes, rows[i].bytes);
    }
    assert_int_equal(info_of(used).capacity_bytes, 4 * MIB);
    assert_int_equal(info_of(unused).capacity_bytes, 0);
    assert_int_equal(info_of(unused).addr, addr);
    assert_int_equal(stats_of(pool).live_blocks, 3);
    assert_int_equal(stats_of(pool).requested_bytes, 4 * MIB);
    assert_ok(vram_buffer_resize(unused, MIB, NULL)); /* the handle is as good as before */
    assert_ok(vram_pool_trim(pool, TRIM(.flags = VRAM_TRIM_BUFFERS), NULL));
    assert_int_equal(info_of(unused).capacity_bytes, MIB);
    rig_end_clean(&rig);
    test_time_end();
}

/* ------------------------------------------------------ drivers that lie, and damage */

/* A driver's impossible answer to the request for new memory is no damage of the old: the buffer is
   what it was. */
TEST(a_lying_driver_leaves_the_buffer) {
    static const vram_sim_lie lies[] = {VRAM_SIM_LIE_NULL, VRAM_SIM_LIE_MISALIGNED,
                                        VRAM_SIM_LIE_OVERLAP};
    static const vram_buffer_kind kinds[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,
                                             VRAM_BUFFER_MANAGED};
    static const uint64_t sizes[] = {24 * 1024 * KIB, 24 * 1024 * KIB + 4 * KIB};
    for (int i = 0; i < 9 * 2; i++) {
        struct rig rig =
            rig_make("sim", i / 9 ? "memory=256M,real=on" : "memory=256M,vmm=off,real=on");
        vram_pool *pool = pool_make(&rig, 0);
        vram_buffer_options options = {.size = sizeof options, .kind = kinds[i % 3]};
        vram_sim_fault lie = {.size = sizeof lie, .nth = 1, .lie = lies[i / 3 % 3]};
        vram_buffer *buffer;
        vram_span span;
        assert_ok(vram_buffer_create(pool, 4 * KIB, rig.queue, &options, &buffer));
        vram_buffer_info before = info_of(buffer);
        assert_ok(vram_sim_fault_set(rig.context, &lie));
        for (int way = 0; way < 2; way++) {
            vram_status status = way ? vram_buffer_reserve(buffer, sizes[way], rig.queue)
                                     : vram_buffer_resize(buffer, sizes[way], rig.queue);
            if (status == VRAM_OK) { /* the driver had nothing to lie about */
                break;
            }
            assert_int_equal(status, VRAM_ERR_CORRUPT);
            assert_int_equal(vram_error_get()->status, VRAM_ERR_CORRUPT);
            vram_buffer_info after = info_of(buffer);
            assert_int_equal(after.addr, before.addr);
            assert_int_equal(after.used_bytes, before.used_bytes);
            assert_int_equal(after.capacity_bytes, before.capacity_bytes);
            assert_int_equal(after.resizes, before.resizes);
            assert_int_equal(vram_buffer_span(buffer, 0, 8 * KIB, &span), VRAM_ERR_INVALID);
            lie.nth = 1;
            assert_ok(vram_sim_fault_set(rig.context, &lie));
        }
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        assert_ok(vram_buffer_resize(buffer, sizes[0], rig.queue));
        assert_int_equal(info_of(buffer).used_bytes, sizes[0]);
        assert_ok(vram_buffer_destroy(buffer));
        rig_end_clean(&rig);
    }
}

/* Damage of the old memory is reported, and the buffer has still moved with its contents. */
TEST(damage_is_told_behind_a_move) {
    for (int resize = 0; resize < 2; resize++) {
        struct rig rig = rig_make("sim", "memory=64M,granule=64K,lag=3");
        vram_pool *pool = pool_make(&rig, VRAM_POOL_RED_ZONES);
        vram_buffer *buffer = buffer_of(pool, 64 * KIB, rig.queue);
        put(rig.queue, buffer, 0, 64 * KIB, 5);
        assert_ok(vram_queue_fill(rig.queue, info_of(buffer).addr + 64 * KIB + 1, 0x11, 1, 1));
        vram_log_set(NULL, NULL, VRAM_LOG_OFF); /* damage is logged as an error */
        vram_status status = resize ? vram_buffer_resize(buffer, 256 * KIB, rig.queue)
                                    : vram_buffer_reserve(buffer, 256 * KIB, rig.queue);
        assert_int_equal(status, VRAM_ERR_CORRUPT);
        assert_non_null(strstr(vram_error_get()->text, "behind its end"));
        assert_int_equal(info_of(buffer).used_bytes, (resize ? 256 : 64) * KIB);
        assert_int_equal(info_of(buffer).capacity_bytes, 256 * KIB);
        assert_true(is_there(rig.queue, buffer, 64 * KIB, 5));
        assert_ok(vram_buffer_destroy(buffer));
        rig_end_clean(&rig);
    }
}
