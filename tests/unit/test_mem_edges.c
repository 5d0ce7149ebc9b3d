/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mem_edges.c: batches, scopes, named buffers and buffers at the edge: damage that their end
 * finds, a full table of handles, sizes near 2^64, captured work, buffers of which nothing is used.
 */
#include "base/handle.h"
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
static void damage_is_told_by_owners(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,real=on");
    vram_pool *pool = pool_of(&rig, VRAM_POOL_RED_ZONES);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF); /* damage is logged as an error */
    vram_batch_options of_batch = {.size = sizeof of_batch, .tag = ""};
    vram_named_options of_named = {.size = sizeof of_named, .tag = ""};
    vram_named *named;
    vram_batch *batch;
    vram_scope *scope;
    uint32_t index;
    assert_ok(vram_batch_create(pool, rig.queue, &of_batch, &batch));
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_named_create(pool, rig.queue, &of_named, &named));
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "b", "c"};
        vram_buffer *given = buffer_of(pool, VRAM_BUFFER_DEVICE, 1000, rig.queue), *made;
        assert_ok(vram_batch_give(batch, given, &index));
        assert_ok(vram_scope_buffer_create(scope, 1000, rig.queue, NULL, &made));
        if (i) {
            damage(&rig, given);
            damage(&rig, made);
        }
        assert_ok(vram_named_add(named, names[i], 1000, NULL, &made));
        if (i) {
            damage(&rig, made);
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
        damage(&rig, made);
    }
    expect_corrupt(vram_named_destroy(named));
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* -------------------------------------------------------------------- exhaustion */

static void handles_run_out(void **state) {
    static uint8_t own[64];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_wrap wrap = {.size = sizeof wrap, .kind = VRAM_WRAP_HOST, .pointer = own, .bytes = 64};
    vram_buffer *buffer;
    vram_named *named;
    vram_batch *batch;
    vram_scope *scope;
    vr_handle_limits_set(0, 1);
    assert_int_equal(vram_batch_create(pool, NULL, NULL, &batch), VRAM_ERR_LIMIT);
    assert_int_equal(vram_named_create(pool, NULL, NULL, &named), VRAM_ERR_LIMIT);
    assert_int_equal(vram_scope_begin(pool, NULL, &scope), VRAM_ERR_LIMIT);
    assert_int_equal(vram_buffer_create(pool, 1000, NULL, NULL, &buffer), VRAM_ERR_LIMIT);
    assert_int_equal(vram_buffer_wrap(pool, &wrap, NULL, NULL, &buffer), VRAM_ERR_LIMIT);
    vr_handle_limits_set(0, 0);
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* The list of a batch has no place for a buffer that is given to it. */
static void a_given_buffer_stays_the_callers(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_buffer *buffer = buffer_of(pool, VRAM_BUFFER_DEVICE, 1000, rig.queue);
    vram_batch *batch;
    uint32_t index = 77;
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    vr_mem_fail_at(1, false);
    assert_int_equal(vram_batch_give(batch, buffer, &index), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    assert_int_equal(index, 77);
    assert_ok(vram_batch_destroy(batch));
    assert_ok(vram_buffer_destroy(buffer));
    rig_end_clean(&rig);
}

/* The program's own memory as a device address, which needs a record. */
static void wrapping_fails(void **state) {
    static uint8_t own[4096];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,real=on");
    vram_pool *pool = pool_of(&rig, 0);
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = (uintptr_t)own, .bytes = 4096};
    vram_status status = VRAM_ERR_HOST_MEMORY;
    vram_buffer *buffer = NULL;
    for (uint64_t nth = 1; status != VRAM_OK; nth++) {
        vr_mem_fail_at(nth, false);
        status = vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &buffer);
        assert_int_equal(status, vr_mem_failed() ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        vr_mem_fail_at(0, false);
    }
    assert_ok(vram_buffer_destroy(buffer));
    vram_error_clear();
    rig_end_clean(&rig);
}

/* A buffer that three queues use is mapped, moved on one of them, and mapped again. */
static vram_status used_part(struct rig *rig, vram_pool *pool) {
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_FALLBACK};
    vram_queue *queues[2] = {NULL, NULL};
    vram_buffer *buffer = NULL;
    void *host;
    vram_status status = vram_buffer_create(pool, 4096, rig->queue, &options, &buffer);
    for (int i = 0; i < 2 && status == VRAM_OK; i++) {
        status = vram_queue_create(rig->device, NULL, &queues[i]);
        if (status == VRAM_OK) {
            status = vram_buffer_use(buffer, queues[i]);
        }
    }
    if (status == VRAM_OK) {
        status = vram_buffer_map(buffer, 0, 4096, VRAM_MAP_READ, NULL, &host);
    }
    if (status == VRAM_OK) {
        status = vram_buffer_unmap(buffer);
    }
    if (status == VRAM_OK) {
        status = vram_buffer_demote(buffer, queues[1]);
    }
    vram_error error = *vram_error_get();
    (void)vram_buffer_destroy(buffer);
    (void)vram_queue_destroy(queues[0]);
    (void)vram_queue_destroy(queues[1]);
    if (status != VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

static void every_call_fails(void **state) {
    (void)state;
    fail_every_call(used_part, "memory=64M");
}

/* ------------------------------------------------------------------------ names */

static void named_buffers_that_differ(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named_config pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    vram_named_config wrong = {.size = sizeof wrong, .kind = (vram_buffer_kind)1000};
    vram_named_stats stats = {.size = sizeof stats};
    vram_buffer *buffer, *found;
    vram_named *named;
    assert_ok(vram_named_create(pool, rig.queue, NULL, &named));
    assert_ok(vram_named_add(named, "a", 1000, NULL, &buffer));
    assert_int_equal(vram_named_get(named, "a", &pinned, &found), VRAM_ERR_INVALID);
    assert_int_equal(vram_named_get(named, "a", &wrong, &found), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_resize(buffer, 100000, NULL)); /* by its handle */
    assert_ok(vram_named_stats_get(named, &stats));
    assert_int_equal(stats.peak_bytes, 100000);
    /* More than 2^64 bytes together. */
    assert_int_equal(vram_named_add(named, "b", UINT64_MAX, NULL, &found), VRAM_ERR_OVERFLOW);
    rig_end_clean(&rig);
}

/* A buffer that stays mapped cannot grow. */
static void a_mapped_buffer_is_waited_for(void **state) {
    (void)state;
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

static bool write_text(void *user, const char *text, size_t bytes) {
    struct text *to = user;
    assert_true(to->used + bytes < sizeof to->bytes);
    memcpy(to->bytes + to->used, text, bytes);
    to->used += bytes;
    return true;
}

static void a_limit_is_shown(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_named_options options = {.size = sizeof options, .limit_bytes = 3 * MIB};
    struct text text = {.used = 0};
    vram_named *named;
    assert_ok(vram_named_create(pool, rig.queue, &options, &named));
    assert_ok(vram_named_write(named, VRAM_REPORT_TEXT, write_text, &text));
    assert_non_null(strstr(text.bytes, "limit 3.00 MiB"));
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------------- buffers */

static void captured_work_holds_a_buffer(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_buffer *buffer = buffer_of(pool, VRAM_BUFFER_FALLBACK, 4096, rig.queue);
    vram_queue *other, *captured;
    void *host;
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_ok(vram_capture_begin(other, &captured));
    assert_ok(vram_buffer_use(buffer, captured));
    assert_ok(vram_capture_end(captured));
    assert_int_equal(vram_buffer_demote(buffer, NULL), VRAM_ERR_CAPTURE);
    assert_int_equal(vram_buffer_map(buffer, 0, 4096, VRAM_MAP_READ, NULL, &host),
                     VRAM_ERR_CAPTURE);
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_DEVICE);
    vram_error_clear();
    rig_end_clean(&rig);
}

static void nothing_is_used(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_buffer *buffer = buffer_of(pool, VRAM_BUFFER_FALLBACK, 4096, rig.queue);
    vram_trim_options trim = {.size = sizeof trim, .flags = VRAM_TRIM_BUFFERS};
    uint64_t released;
    void *host;
    assert_ok(vram_buffer_resize(buffer, 0, NULL));
    assert_ok(vram_buffer_demote(buffer, NULL)); /* without a copy */
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_PINNED);
    assert_ok(vram_buffer_promote(buffer, NULL));
    assert_ok(vram_buffer_map(buffer, 0, 0, VRAM_MAP_WRITE, NULL, &host));
    assert_ok(vram_pool_trim(pool, &trim, &released)); /* it is in use */
    assert_int_equal(info_of(buffer).capacity_bytes, 4096);
    assert_ok(vram_buffer_unmap(buffer));
    rig_end_clean(&rig);
}

/* Memory that is not the buffer's own stays as it is, though less of it is used. */
static void what_cannot_shrink_stays(void **state) {
    static uint8_t own[4096];
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, 0);
    vram_wrap wrap = {.size = sizeof wrap, .kind = VRAM_WRAP_HOST, .pointer = own, .bytes = 4096};
    vram_buffer_options moved = {.size = sizeof moved,
                                 .moved = (vram_buffer_moved_fn *)(uintptr_t)1};
    vram_batch_item item = {.size = sizeof item, .elements = 4096};
    vram_buffer *buffers[2];
    vram_batch *batch;
    uint32_t first;
    assert_int_equal(vram_buffer_wrap(pool, &wrap, rig.queue, &moved, &buffers[0]),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_buffer_wrap(pool, NULL, rig.queue, NULL, &buffers[0]), VRAM_ERR_INVALID);
    assert_string_equal(vram_error_get()->text, "the memory to wrap is NULL");
    assert_ok(vram_buffer_wrap(pool, &wrap, rig.queue, NULL, &buffers[0]));
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, &item, 1, &first));
    assert_ok(vram_batch_get(batch, first, &buffers[1]));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_buffer_resize(buffers[i], 100, NULL));
        assert_ok(vram_buffer_fit(buffers[i], NULL));
        assert_int_equal(info_of(buffers[i]).capacity_bytes, 4096);
    }
    vram_error_clear();
    rig_end_clean(&rig);
}

/* Nor does a block change its size in a pool with safety modes: that is no failure of the call. */
static void what_keeps_its_size_stays(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_of(&rig, VRAM_POOL_RED_ZONES);
    vram_buffer *buffer = buffer_of(pool, VRAM_BUFFER_DEVICE, 65536, rig.queue);
    uint64_t capacity = info_of(buffer).capacity_bytes;
    assert_ok(vram_buffer_resize(buffer, 100, NULL));
    vram_error_clear();
    assert_ok(vram_buffer_fit(buffer, NULL));
    expect_no_record();
    assert_int_equal(info_of(buffer).capacity_bytes, capacity);
    rig_end_clean(&rig);
}

static void kinds_have_names(void **state) {
    (void)state;
    assert_string_equal(vram_buffer_kind_name(VRAM_BUFFER_FALLBACK), "fallback");
    assert_string_equal(vram_buffer_kind_name((vram_buffer_kind)1000), "unknown");
}

/* Ordinary memory in the place of page-locked memory needs the program's leave. */
static void ordinary_memory_needs_leave(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool_options options = {.size = sizeof options, .kind = VRAM_MEMORY_PINNED};
    vram_ladder_options ladder = {.size = sizeof ladder, .fallback = VRAM_FALLBACK_HOST};
    vram_buffer_options pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    vram_memory_info info = {.size = sizeof info};
    vram_buffer *buffer;
    vram_pool *pool;
    assert_ok(vram_pool_create(rig.device, &options, &pool));
    fault(&rig, VRAM_SIM_PINNED_ALLOC, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    assert_int_equal(vram_buffer_create(pool, MIB, NULL, &pinned, &buffer), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_pool_ladder_set(pool, &ladder));
    assert_int_equal(vram_buffer_create(pool, MIB, NULL, &pinned, &buffer), VRAM_ERR_LIMIT);
    pinned.flags = VRAM_BUFFER_PAGEABLE;
    assert_ok(vram_buffer_create(pool, MIB, NULL, &pinned, &buffer));
    assert_int_equal(info_of(buffer).location, VRAM_MEMORY_HOST);
    assert_ok(vram_memory_info_get(rig.device, &info));
    assert_int_equal(info.held_peak_bytes, 0); /* it is not the driver's */
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_sim_fault_set(rig.context, NULL));
    vram_error_clear();
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------------- growing */

static uint64_t next_of(const vram_growth *growth, uint64_t capacity, uint64_t needed) {
    uint64_t bytes = 0;
    assert_ok(vram_growth_next(growth, capacity, needed, &bytes));
    return bytes;
}

static void growth_saturates(void **state) {
    (void)state;
    vram_growth factor = {
        .size = sizeof factor, .policy = VRAM_GROWTH_FACTOR, .factor_ppm = UINT32_MAX};
    vram_growth fixed = {.size = sizeof fixed, .policy = VRAM_GROWTH_FIXED};
    uint64_t half = UINT64_C(1) << 63, capacity = (UINT64_C(1) << 32) + 1;
    assert_int_equal(next_of(&factor, half, half + 1), UINT64_MAX);
    /* Whole millions times the factor are 2^64 - 1; the rest does not fit. */
    capacity = capacity * 1000000 + 999999;
    assert_int_equal(next_of(&factor, capacity, capacity + 1), UINT64_MAX);
    fixed.step_bytes = half;
    assert_int_equal(next_of(&fixed, half, half + 1), UINT64_MAX);
    fixed.step_bytes = half + 1;
    assert_int_equal(next_of(&fixed, 0, UINT64_MAX), UINT64_MAX);
    fixed = (vram_growth){.size = sizeof fixed, .policy = VRAM_GROWTH_FIXED, .max_bytes = 10};
    assert_int_equal(next_of(&fixed, 20, 5), 20);
}

/* Buffers of whole granules, for which addresses are reserved as their policy says. */
static void reserves_follow_the_policy(void **state) {
    static const struct {
        vram_growth growth;
        uint64_t bytes, more; /* what it may grow to, or 0 */
        vram_status status;
    } cases[] = {
        {{.policy = VRAM_GROWTH_FIXED}, 4 * MIB, 0, VRAM_OK},
        {{.policy = VRAM_GROWTH_FIXED, .step_bytes = MIB}, 4 * MIB, 5 * MIB, VRAM_OK},
        {{.max_bytes = 5 * MIB}, 4 * MIB, 5 * MIB, VRAM_OK},
        {{.max_bytes = 1024 * MIB}, 4 * MIB, 5 * MIB, VRAM_OK},
        {{.max_bytes = 0}, UINT64_C(1) << 61, 0, VRAM_ERR_DEVICE_MEMORY},
    };
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,granule=64K");
    vram_pool *pool = pool_of(&rig, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_growth growth = cases[i].growth;
        vram_buffer_options options = {.size = sizeof options, .growth = &growth};
        vram_buffer *buffer;
        growth.size = sizeof growth;
        assert_int_equal(vram_buffer_create(pool, cases[i].bytes, rig.queue, &options, &buffer),
                         cases[i].status);
        if (cases[i].status != VRAM_OK) {
            continue;
        }
        assert_int_equal(vram_buffer_resize(buffer, cases[i].more ? cases[i].more : 5 * MIB, NULL),
                         cases[i].more ? VRAM_OK : VRAM_ERR_LIMIT);
        assert_ok(vram_buffer_destroy(buffer));
    }
    vram_error_clear();
    rig_end_clean(&rig);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(handles_run_out), /* first: no handle of its kinds is free */
        TEST(damage_is_told_by_owners),
        TEST(a_given_buffer_stays_the_callers),
        TEST(wrapping_fails),
        TEST(every_call_fails),
        TEST(named_buffers_that_differ),
        TEST(a_mapped_buffer_is_waited_for),
        TEST(a_limit_is_shown),
        TEST(captured_work_holds_a_buffer),
        TEST(nothing_is_used),
        TEST(what_cannot_shrink_stays),
        TEST(what_keeps_its_size_stays),
        TEST(kinds_have_names),
        TEST(ordinary_memory_needs_leave),
        TEST(growth_saturates),
        TEST(reserves_follow_the_policy),
    };
    return cmocka_run_group_tests_name("mem_edges", tests, NULL, NULL);
}
