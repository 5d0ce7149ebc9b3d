/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_buffer.c: buffers in device memory: making, describing, counting in elements, using on
 * several queues and ending them, under faults too.
 */
#include "byte_units.h"
#include "mem/buffer_object.h"
#include "unit/device_world.h"
#include "unit/pool_flags.h"
#include "unit/stats_of.h"
#include "vram/buffer.h"
#include "vram/growth.h"
#include "vram/limits.h"

#include <pthread.h>
#include <stdio.h>

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

static void a_buffer_says_what_it_is(void **state) {
    (void)state;
    char name[] = "positions", tag[] = "sim/nodes"; /* are copied */
    vram_buffer_options options = {
        .size = sizeof options, .precision = VRAM_PRECISION_FP16, .name = name, .tag = tag};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_on(rig.device);
    vram_buffer *buffer, *other = buffer_of(pool, 64, NULL);
    vram_tag_info counted = {.size = sizeof counted};
    vram_addr addr;
    assert_ok(vram_buffer_create(pool, 5000, rig.queue, &options, &buffer));
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
    assert_ptr_equal(info.queue, rig.queue);
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
    assert_ok(vram_tag_info_get(rig.device, "sim", &counted));
    assert_int_equal(counted.live_blocks, 0);
    assert_true(counted.used_bytes >= 5000);
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_tag_info_get(rig.device, "sim", &counted));
    assert_int_equal(counted.used_bytes, 0);
    assert_ok(vram_buffer_destroy(other));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    rig_end_clean(&rig);
}

/* Acceptance item 23: the same number of elements of three precisions is three sizes, and bytes are
   told apart from elements. */
/* Elements of any other type are those of the growth policy, from the creation on. */
static void elements_of_any_size(void **state) {
    static const uint32_t sizes[] = {1, 3, 12, 24, 1000};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_on(rig.device);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        vram_growth growth = {
            .size = sizeof growth, .policy = VRAM_GROWTH_FIXED, .element_bytes = sizes[i]};
        vram_buffer_options options = {.size = sizeof options, .growth = &growth};
        vram_buffer *buffer;
        assert_ok(vram_buffer_create_elements(pool, 101, VRAM_PRECISION_FP32, rig.queue, &options,
                                              &buffer));
        assert_int_equal(info_of(buffer).elements, 101);
        assert_int_equal(info_of(buffer).used_bytes, 101 * sizes[i]);
        growth.policy = VRAM_GROWTH_EXACT;
        assert_ok(vram_buffer_growth_set(buffer, &growth));
        assert_ok(vram_buffer_resize_elements(buffer, 1001, rig.queue));
        assert_int_equal(info_of(buffer).elements, 1001);
        assert_int_equal(info_of(buffer).used_bytes, 1001 * sizes[i]);
        assert_ok(vram_buffer_growth_set(buffer, NULL)); /* those of the precision again */
        assert_int_equal(info_of(buffer).elements, 1001 * sizes[i] / 4);
        assert_int_equal(vram_buffer_resize_elements(buffer, UINT64_MAX / 2, rig.queue),
                         VRAM_ERR_OVERFLOW);
        if (sizes[i] > 1) {
            buffer = NULL;
            assert_int_equal(vram_buffer_create_elements(pool, UINT64_MAX / sizes[i] + 1,
                                                         VRAM_PRECISION_FP32, rig.queue, &options,
                                                         &buffer),
                             VRAM_ERR_OVERFLOW);
            assert_null(buffer);
        }
    }
    rig_end_clean(&rig);
}

static void acceptance_23_precisions_count_in_elements(void **state) {
    static const struct {
        vram_precision precision;
        const char *name;
        uint64_t bytes;
    } rows[] = {{VRAM_PRECISION_BYTES, "bytes", 1},
                {VRAM_PRECISION_FP32, "fp32", 4},
                {VRAM_PRECISION_FP16, "fp16", 2},
                {VRAM_PRECISION_BF16, "bf16", 2},
                {VRAM_PRECISION_INT8, "int8", 1}};
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_on(rig.device);
    vram_buffer *buffers[5];
    for (int i = 0; i < 5; i++) {
        uint64_t bytes = 0;
        assert_int_equal(vram_precision_bytes(rows[i].precision), rows[i].bytes);
        assert_string_equal(vram_precision_name(rows[i].precision), rows[i].name);
        assert_ok(vram_precision_size(rows[i].precision, 1000, &bytes));
        assert_int_equal(bytes, 1000 * rows[i].bytes);
        assert_ok(vram_buffer_create_elements(pool, 1000, rows[i].precision, rig.queue, NULL,
                                              &buffers[i]));
        vram_buffer_info info = info_of(buffers[i]);
        assert_int_equal(info.elements, 1000);
        assert_int_equal(info.used_bytes, bytes);
        assert_int_equal(info.precision, rows[i].precision);
        for (int j = 0; j < i; j++) { /* no two share memory, whatever their precision */
            vram_buffer_info one = info_of(buffers[j]);
            assert_true(one.addr + one.capacity_bytes <= info.addr ||
                        info.addr + info.capacity_bytes <= one.addr);
        }
    }
    assert_int_equal(stats_of(pool).requested_bytes, 1000 * (1 + 4 + 2 + 2 + 1));
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_buffer_destroy(buffers[i]));
    }
    rig_end_clean(&rig);
}

/* Acceptance item 13, of device memory: no bytes, too many, and destroying twice. */
static void acceptance_13_zero_overflow_and_double_destroy(void **state) {
    (void)state;
    uint64_t bytes = 7;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_on(rig.device);
    vram_buffer *one = buffer_of(pool, 0, rig.queue), *two = buffer_of(pool, 0, rig.queue);
    vram_buffer *none = (vram_buffer *)&rig;
    assert_int_not_equal(info_of(one).addr, info_of(two).addr);
    assert_int_equal(info_of(one).capacity_bytes, 0);
    assert_int_equal(info_of(one).elements, 0);
    assert_int_equal(vram_precision_size(VRAM_PRECISION_FP32, UINT64_MAX / 4 + 1, &bytes),
                     VRAM_ERR_OVERFLOW);
    assert_int_equal(bytes, 7);
    assert_ok(vram_precision_size(VRAM_PRECISION_FP32, UINT64_MAX / 4, &bytes));
    assert_int_equal(vram_buffer_create_elements(pool, UINT64_MAX / 2 + 1, VRAM_PRECISION_BF16,
                                                 rig.queue, NULL, &none),
                     VRAM_ERR_OVERFLOW);
    assert_int_equal(vram_buffer_create(pool, UINT64_MAX, rig.queue, NULL, &none),
                     VRAM_ERR_OVERFLOW);
    assert_true(vram_status_is_exhausted(
        vram_buffer_create(pool, UINT64_C(1) << 50, rig.queue, NULL, &none)));
    assert_ptr_equal(none, &rig); /* written on success only */
    assert_ok(vram_buffer_destroy(NULL));
    assert_ok(vram_buffer_destroy(one));
    assert_int_equal(vram_buffer_destroy(one), VRAM_ERR_STALE);
    assert_ok(vram_buffer_destroy(two));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    rig_end_clean(&rig);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    vram_pool *pool = pool_on(rig.device);
    char long_name[VRAM_BUFFER_NAME_MAX + 1];
    vram_buffer *buffer = buffer_of(pool, 64, rig.queue), *none = NULL;
    vram_buffer_info info = {.size = 3};
    uint64_t bytes;
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    vram_buffer_options options = {.size = sizeof options};
#define REFUSED(call) assert_int_equal(call, VRAM_ERR_INVALID)
    REFUSED(vram_buffer_create(pool, 1, rig.queue, NULL, NULL));
    REFUSED(vram_buffer_create_elements(pool, 1, VRAM_PRECISION_FP32, rig.queue, NULL, NULL));
    REFUSED(vram_buffer_create(NULL, 1, rig.queue, NULL, &none));
    REFUSED(vram_buffer_create(pool, 1, rig.other_queue, NULL, &none)); /* another device's */
    REFUSED(vram_buffer_create_elements(pool, 1, (vram_precision)5, rig.queue, NULL, &none));
    options.kind = (vram_buffer_kind)99;
    REFUSED(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    options = (vram_buffer_options){.size = sizeof options, .precision = (vram_precision)-1};
    REFUSED(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    options = (vram_buffer_options){.size = sizeof options, .precision = VRAM_PRECISION_FP32};
    REFUSED(vram_buffer_create(pool, 6, rig.queue, &options, &none)); /* one and a half */
    options = (vram_buffer_options){.size = sizeof options, .flags = 1u << 31};
    REFUSED(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    options = (vram_buffer_options){.size = sizeof options, .name = long_name};
    REFUSED(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    options = (vram_buffer_options){.size = 1};
    REFUSED(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    REFUSED(vram_buffer_create_elements(pool, 1, VRAM_PRECISION_FP32, rig.queue, &options, &none));
    options = (vram_buffer_options){.size = sizeof options, .tag = "a//b"};
    REFUSED(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    REFUSED(vram_buffer_addr(buffer, NULL));
    REFUSED(vram_buffer_info_get(buffer, NULL));
    REFUSED(vram_buffer_info_get(buffer, &info));
    REFUSED(vram_buffer_use(buffer, NULL));
    REFUSED(vram_buffer_use(buffer, rig.other_queue));
    REFUSED(vram_buffer_use(NULL, rig.queue));
    REFUSED(vram_buffer_destroy((vram_buffer *)(void *)pool));
    REFUSED(vram_pool_destroy((vram_pool *)(void *)buffer));
    REFUSED(vram_precision_size(VRAM_PRECISION_FP32, 1, NULL));
    REFUSED(vram_precision_size((vram_precision)77, 1, &bytes));
    assert_int_equal(vram_precision_bytes((vram_precision)77), 0);
    assert_string_equal(vram_precision_name((vram_precision)-1), "unknown");
    assert_null(none);
    assert_int_equal(stats_of(pool).live_blocks, 1);
    long_name[VRAM_BUFFER_NAME_MAX - 1] = 0; /* as long as may be, with bytes of any kind */
    long_name[0] = '\n';
    options = (vram_buffer_options){.size = sizeof options, .name = long_name};
    assert_ok(vram_buffer_create(pool, 1, rig.queue, &options, &none));
    assert_string_equal(info_of(none).name, long_name);
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------------- queue order */

/* Memory of a destroyed buffer is the same queue's at once, and another's only when the home queue,
   and those that vram_buffer_use told of, have completed it. */
static void memory_goes_back_in_queue_order(void **state) {
    (void)state;
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

/* The home queue may end before the buffer does. */
static void a_home_may_end_first(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=50");
    vram_pool *pool = pool_on(rig.device);
    vram_queue *home, *other;
    assert_ok(vram_queue_create(rig.device, NULL, &home));
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    vram_buffer *buffer = buffer_of(pool, 4 * MIB, home);
    assert_ok(vram_queue_fill(home, info_of(buffer).addr, 1, 1, 4 * MIB));
    assert_ok(vram_buffer_use(buffer, other));
    vram_queue_destroy(home);
    vram_queue_destroy(other);
    assert_int_equal(vram_buffer_use(buffer, other), VRAM_ERR_STALE);
    vram_error_clear();
    assert_ok(vram_buffer_destroy(buffer));
    expect_no_record();
    assert_int_equal(stats_of(pool).live_blocks, 0);
    rig_end_clean(&rig);
}

/* Many queues use one buffer; those that have ended are forgotten. */
static void many_queues_use_one_buffer(void **state) {
    enum { QUEUES = 40 };
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M,lag=50");
    vram_pool *pool = pool_on(rig.device);
    vram_buffer *buffer = buffer_of(pool, MIB, rig.queue);
    struct vr_buffer *record = vr_handle_pin(VR_KIND_BUFFER, buffer);
    vram_queue *queues[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        assert_ok(vram_queue_create(rig.device, NULL, &queues[i]));
        assert_ok(vram_queue_fill(queues[i], info_of(buffer).addr, 1, 1, MIB));
        assert_ok(vram_buffer_use(buffer, queues[i]));
        assert_ok(vram_buffer_use(buffer, queues[i / 2]));
    }
    assert_int_equal(record->use_count, QUEUES);
    for (int i = 1; i < QUEUES; i++) {
        vram_queue_destroy(queues[i]);
    }
    assert_ok(vram_buffer_use(buffer, queues[0]));
    assert_int_equal(record->use_count, 1);
    vr_leave(record);
    assert_ok(vram_buffer_destroy(buffer));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------------ ends */

static void expect_stale(vram_buffer *buffer) {
    vram_buffer_info info = {.size = sizeof info};
    vram_addr addr;
    assert_int_equal(vram_buffer_info_get(buffer, &info), VRAM_ERR_STALE);
    assert_int_equal(vram_buffer_addr(buffer, &addr), VRAM_ERR_STALE);
    assert_int_equal(vram_buffer_destroy(buffer), VRAM_ERR_STALE);
}

/* Pool, device and context take their buffers with them. */
static void a_buffer_ends_with_its_pool(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vram_pool *pool = pool_on(rig.device);
        vram_buffer *buffers[3];
        for (int i = 0; i < 3; i++) {
            buffers[i] = buffer_of(pool, MIB, rig.queue);
        }
        assert_ok(vram_buffer_destroy(buffers[1]));
        if (how == 0) {
            assert_ok(vram_pool_destroy(pool));
        } else if (how == 1) {
            vram_device_close(rig.device);
        } else {
            vram_context_destroy(rig.context);
        }
        expect_stale(buffers[0]);
        expect_stale(buffers[2]);
        if (how < 2) {
            rig.device = how ? NULL : rig.device;
            rig_end_clean(&rig);
        }
    }
}

/* What is inside when the buffer is destroyed keeps its memory until it leaves: (5). And a pool may
   end meanwhile: (6). */
static void who_is_inside_keeps_the_memory(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vram_pool *pool = pool_on(rig.device);
        vram_buffer *buffer = buffer_of(pool, MIB, rig.queue);
        struct vr_buffer *record;
        assert_ok(vr_buffer_enter(buffer, &record));
        assert_ok(how == 1 ? vr_buffer_share(record) : vr_buffer_claim(record));
        assert_int_equal(vr_buffer_claim(record), VRAM_ERR_BUSY);
        assert_int_equal(vr_buffer_share(record), how == 1 ? VRAM_OK : VRAM_ERR_BUSY);
        if (how == 1) {
            vr_buffer_unshare(record);
        } else {
            assert_int_equal(vram_buffer_use(buffer, rig.queue), VRAM_ERR_BUSY);
        }
        if (how == 2) {
            assert_ok(vram_pool_destroy(pool));
        } else {
            assert_ok(vram_buffer_destroy(buffer));
            assert_int_equal(stats_of(pool).live_blocks, 1);
        }
        expect_stale(buffer);
        if (how == 1) {
            vr_buffer_unshare(record);
        } else {
            vr_buffer_unclaim(record);
        }
        vr_buffer_leave(record);
        if (how < 2) {
            assert_int_equal(stats_of(pool).live_blocks, 0);
        }
        rig_end_clean(&rig);
    }
}

/* A pool that has ended while a buffer was being made takes it back. */
static vram_pool *ended;
static void end_pool(void *argument) {
    (void)argument;
    assert_ok(vram_pool_destroy(ended));
}

static void a_pool_may_end_under_a_creation(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=64M");
    vram_buffer *buffer = NULL;
    ended = pool_on(rig.device);
    hook_set(rig.device);
    hook.map_meanwhile = end_pool;
    hook.alloc_meanwhile = end_pool; /* where it runs on segments */
    assert_int_equal(vram_buffer_create(ended, MIB, rig.queue, NULL, &buffer), VRAM_ERR_STALE);
    assert_null(buffer);
    rig_end_clean(&rig);
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 6, ROUNDS = 200 };

struct worker {
    struct rig *rig;
    vram_pool *pool;
    vram_buffer *shared;
    vram_queue *queue;
    uint64_t last_id;
    unsigned odd; /* answers that nobody may get */
};

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int i = 0; i < ROUNDS; i++) {
        vram_buffer_info info = {.size = sizeof info};
        vram_buffer *own = NULL;
        vram_addr addr;
        vram_status status =
            vram_buffer_create(worker->pool, (uint64_t)i * 500, worker->queue, NULL, &own);
        worker->odd += status != VRAM_OK || vram_buffer_info_get(own, &info) != VRAM_OK;
        worker->odd += info.id <= worker->last_id; /* ids only rise */
        worker->last_id = info.id;
        worker->odd += vram_buffer_use(worker->shared, worker->queue) != VRAM_OK;
        worker->odd += vram_buffer_addr(worker->shared, &addr) != VRAM_OK;
        worker->odd += vram_buffer_info_get(worker->shared, &info) != VRAM_OK;
        worker->odd += vram_buffer_destroy(own) != VRAM_OK;
    }
    return NULL;
}

/* Any thread may call anything at any time. */
static void threads_share_a_pool_and_a_buffer(void **state) {
    (void)state;
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_on(rig.device);
    vram_buffer *shared = buffer_of(pool, MIB, rig.queue);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.rig = &rig, .pool = pool, .shared = shared};
        assert_ok(vram_queue_create(rig.device, NULL, &workers[i].queue));
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].odd, 0);
    }
    assert_int_equal(stats_of(pool).live_blocks, 1);
    assert_ok(vram_buffer_destroy(shared));
    assert_int_equal(stats_of(pool).live_blocks, 0);
    vram_context_destroy(rig.context);
}

/* ---------------------------------------------------------------------- faults */

/* Each allocation of host memory fails once: the call fails, and nothing is left or lost. */
static void host_memory_fails_at_every_step(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vram_pool *pool = pool_on(rig.device);
        vram_queue *other;
        vram_buffer_options options = {.size = sizeof options, .tag = "a/b"};
        vram_buffer *buffer = NULL;
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        vr_mem_fail_at(nth, false);
        vram_status status = vram_buffer_create(pool, MIB, rig.queue, &options, &buffer);
        vram_status use = status == VRAM_OK ? vram_buffer_use(buffer, other) : VRAM_OK;
        failed = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || (!buffer && vram_status_is_exhausted(status)));
        assert_true(use == VRAM_OK || use == VRAM_ERR_HOST_MEMORY);
        if (status != VRAM_OK) {
            assert_int_equal(stats_of(pool).live_blocks, 0);
            buffer = NULL;
        }
        assert_ok(vram_buffer_destroy(buffer));
        rig_end_clean(&rig);
    }
}

/* Each call of the driver fails once. */
static void the_driver_fails_at_every_step(void **state) {
    static const int32_t codes[] = {VRAM_SIM_OUT_OF_MEMORY, VRAM_SIM_HOST_MEMORY, 999};
    (void)state;
    bool failed = true;
    for (uint64_t nth = 3; failed || nth % 3; nth++) {
        struct rig rig = rig_make("sim", "memory=64M");
        vram_pool *pool = pool_on(rig.device);
        vram_queue *other;
        vram_buffer *buffer = NULL;
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        fault(&rig, VRAM_SIM_ANY, nth / 3, false, codes[nth % 3]);
        vram_status status = vram_buffer_create(pool, MIB, rig.queue, NULL, &buffer);
        if (status == VRAM_OK) {
            (void)vram_buffer_use(buffer, other);
        }
        assert_ok(vram_buffer_destroy(buffer));
        failed = sim_state(&rig).faults > 0;
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        assert_true((status == VRAM_OK) == (buffer != NULL));
        assert_int_equal(stats_of(pool).live_blocks, 0);
        rig_end_clean(&rig);
    }
}

/* A tag's quota refuses a buffer as it refuses a block. */
static void quotas_count(void **state) {
    (void)state;
    SKIP_UNDER(VRAM_POOL_RED_ZONES, false, "red zones count against a quota");
    struct rig rig = rig_make("sim", "memory=64M");
    vram_pool *pool = pool_on(rig.device);
    vram_buffer_options options = {.size = sizeof options, .tag = "t"};
    vram_buffer *one = NULL, *two = NULL;
    assert_ok(vram_tag_quota_set(rig.device, "t", 0, MIB));
    assert_ok(vram_buffer_create(pool, MIB, rig.queue, &options, &one));
    assert_int_equal(vram_buffer_create(pool, 1, rig.queue, &options, &two), VRAM_ERR_LIMIT);
    assert_ok(vram_buffer_destroy(one));
    assert_ok(vram_buffer_create(pool, 1, rig.queue, &options, &two));
    rig_end_clean(&rig);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(a_buffer_says_what_it_is),
        HERE(elements_of_any_size),
        HERE(acceptance_23_precisions_count_in_elements),
        HERE(acceptance_13_zero_overflow_and_double_destroy),
        HERE(bad_input_is_refused),
        HERE(memory_goes_back_in_queue_order),
        HERE(a_home_may_end_first),
        HERE(many_queues_use_one_buffer),
        HERE(a_buffer_ends_with_its_pool),
        HERE(who_is_inside_keeps_the_memory),
        HERE(a_pool_may_end_under_a_creation),
        HERE(threads_share_a_pool_and_a_buffer),
        HERE(host_memory_fails_at_every_step),
        HERE(the_driver_fails_at_every_step),
        HERE(quotas_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
