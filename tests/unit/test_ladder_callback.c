/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ladder_callback.c: callbacks of programs that let go of something when memory is short, and
 * of those that do what they should not: allocate, remove themselves, destroy the pool, stay away
 * for long.
 */
#include "unit/ladder_world.h"
#include "unit/test_time.h"

/* What a callback knows and has seen. */
struct helper {
    struct rig *rig;
    vram_pool *pool;
    vram_addr addr; /* something it can let go of */
    uint64_t id;
    uint64_t claims; /* what it says when it has let go of nothing */
    unsigned calls, deepest;
    vram_status inner; /* of what it did itself */
    vram_oom_event last;
    atomic_bool entered, leave;
};

static vram_addr fill_up(struct rig *rig, vram_pool *pool) {
    ballast(rig, 64 * MIB - 10 * GRANULE);
    return take(pool, 10 * GRANULE, rig->queue);
}

static struct helper helper_make(struct rig *rig, vram_pool *pool, vram_addr addr,
                                 vram_oom_fn *call, struct helper *place) {
    *place = (struct helper){.rig = rig, .pool = pool, .addr = addr};
    assert_ok(vram_oom_callback_add(rig->device, call, place, &place->id));
    climb_by(pool, "callbacks", 0);
    return *place;
}

static uint64_t frees(void *user, const vram_oom_event *event) {
    struct helper *helper = user;
    helper->calls++;
    helper->last = *event;
    vram_addr addr = helper->addr;
    helper->addr = 0;
    return addr && vram_free(addr, NULL) == VRAM_OK ? 10 * GRANULE : helper->claims;
}

/* In the order of adding, each once a climb, and none behind the one that helped. */
TEST(callbacks_are_called_in_order, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct helper helpers[3];
    vram_addr addr = fill_up(rig, pool);
    for (int i = 0; i < 3; i++) {
        helper_make(rig, pool, i == 1 ? addr : 0, frees, &helpers[i]);
    }
    helpers[0].claims = UINT64_MAX; /* that much was not let go of, and it does no harm */
    (void)take(pool, 10 * GRANULE, NULL);
    assert_int_equal(helpers[0].calls, 1);
    assert_int_equal(helpers[1].calls, 1);
    assert_int_equal(helpers[2].calls, 0);
    refused(pool, 10 * GRANULE, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(helpers[0].calls, 2);
    assert_int_equal(helpers[1].calls, 2);
    assert_int_equal(helpers[2].calls, 1);
}

TEST(callbacks_are_bounded_in_number) {
    struct rig rig = rig_make("sim", SIM);
    struct helper helper = {.rig = &rig};
    uint64_t ids[VRAM_OOM_CALLBACKS_MAX], more = 77;
    for (int i = 0; i < VRAM_OOM_CALLBACKS_MAX; i++) {
        assert_ok(vram_oom_callback_add(rig.device, frees, &helper, &ids[i]));
    }
    assert_int_equal(vram_oom_callback_add(rig.device, frees, &helper, &more), VRAM_ERR_LIMIT);
    assert_int_equal(more, 77);
    assert_ok(vram_oom_callback_remove(rig.device, ids[3]));
    assert_int_equal(vram_oom_callback_remove(rig.device, ids[3]), VRAM_ERR_INVALID);
    assert_ok(vram_oom_callback_add(rig.device, frees, &helper, &more));
    assert_true(more > ids[VRAM_OOM_CALLBACKS_MAX - 1]);
    assert_int_equal(vram_oom_callback_add(rig.device, NULL, NULL, &more), VRAM_ERR_INVALID);
    assert_int_equal(vram_oom_callback_add(rig.device, frees, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_oom_callback_remove(rig.device, 0), VRAM_ERR_INVALID);
    assert_int_equal(vram_oom_callback_remove(rig.device, UINT64_MAX), VRAM_ERR_INVALID);
    rig_end_clean(&rig);
}

/* Asks for what is not there, inside: the climb inside calls it again, and no further. */
static uint64_t allocates(void *user, const vram_oom_event *event) {
    struct helper *helper = user;
    vram_addr addr = 0;
    helper->calls++;
    helper->deepest = event->nesting > helper->deepest ? event->nesting : helper->deepest;
    helper->inner = vram_alloc(helper->pool, 10 * GRANULE, NULL, &addr);
    assert_int_equal(addr, 0);
    return 1; /* a lie: it has let go of nothing */
}

TEST(a_callback_that_allocates_is_bounded, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct helper helper;
    helper_make(rig, pool, 0, allocates, &helper);
    (void)fill_up(rig, pool);
    refused(pool, 10 * GRANULE, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(helper.calls, VRAM_OOM_NESTING_MAX);
    assert_int_equal(helper.deepest, VRAM_OOM_NESTING_MAX);
    assert_int_equal(helper.inner, VRAM_ERR_DEVICE_MEMORY);
}

static uint64_t destroys(void *user, const vram_oom_event *event) {
    struct helper *helper = user;
    (void)event;
    helper->calls++;
    helper->inner = vram_pool_destroy(helper->pool);
    return 1;
}

TEST(a_callback_may_destroy_the_pool, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct helper helper;
    helper_make(rig, pool, 0, destroys, &helper);
    (void)fill_up(rig, pool);
    refused(pool, 10 * GRANULE, rig->queue, VRAM_ERR_STALE);
    assert_ok(helper.inner);
    assert_int_equal(helper.calls, 1);
    pool = pool_on(rig->device, "next", 0); /* all its memory is there again */
    (void)take(pool, 10 * GRANULE, rig->queue);
}

/* ------------------------------------------------------------------ staying away */

static uint64_t stays(void *user, const vram_oom_event *event) {
    struct helper *helper = user;
    (void)event;
    helper->calls++;
    atomic_store(&helper->entered, true);
    while (!atomic_load(&helper->leave)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return 0;
}

static void *ask(void *user) {
    struct helper *helper = user;
    vram_addr addr = 0;
    helper->inner = vram_alloc(helper->pool, 10 * GRANULE, NULL, &addr);
    return NULL;
}

/* No other thread waits for a callback that does not return: not one that allocates, frees, trims
   or adds another; only who removes it does, up to the deadline. */
TEST(a_long_callback_delays_its_own_thread) {
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    struct helper helper;
    pthread_t thread;
    uint64_t id;
    helper_make(&rig, pool, 0, stays, &helper);
    vram_addr all = fill_up(&rig, pool);
    assert_int_equal(pthread_create(&thread, NULL, ask, &helper), 0);
    while (!atomic_load(&helper.entered)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    assert_ok(vram_free(all, rig.queue));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_ok(vram_free(take(pool, 100, rig.queue), rig.queue));
    assert_ok(vram_oom_callback_add(rig.device, frees, &helper, &id));
    assert_ok(vram_oom_callback_remove(rig.device, id));
    assert_int_equal(vram_oom_callback_remove(rig.device, helper.id), VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_oom_callback_remove(rig.device, helper.id), VRAM_ERR_INVALID);
    (void)take(pool, 5 * GRANULE, rig.queue);
    atomic_store(&helper.leave, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(helper.inner, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(helper.calls, 1);
    rig_end_clean(&rig);
}

static void *remove_it(void *user) {
    struct helper *helper = user;
    helper->inner = vram_oom_callback_remove(helper->rig->device, helper->id);
    return NULL;
}

/* What a callback uses may go once it is removed. */
TEST(removing_waits_for_the_call) {
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    struct helper helper, asker;
    pthread_t asks, removes;
    helper_make(&rig, pool, 0, stays, &helper);
    (void)fill_up(&rig, pool);
    asker = (struct helper){.rig = &rig, .pool = pool};
    assert_int_equal(pthread_create(&asks, NULL, ask, &asker), 0);
    while (!atomic_load(&helper.entered)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    helper.inner = VRAM_ERR_BUSY;
    assert_int_equal(pthread_create(&removes, NULL, remove_it, &helper), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    atomic_store(&helper.leave, true);
    assert_int_equal(pthread_join(removes, NULL), 0);
    assert_ok(helper.inner);
    assert_int_equal(pthread_join(asks, NULL), 0);
    assert_int_equal(asker.inner, VRAM_ERR_DEVICE_MEMORY);
    rig_end_clean(&rig);
}

/* ---------------------------------------------------------------- error handlers */

struct handler {
    vram_error_answer answer;
    struct rig *rig;
    vram_pool *pool;
    vram_addr gives; /* freed at the first call */
    bool destroys, allocates;
    unsigned calls;
    vram_status inner;
    vram_error_event last;
    vram_error error;
    uint64_t report; /* number of the report it has read */
};

static vram_error_answer handle(void *user, const vram_error_event *event) {
    struct handler *handler = user;
    vram_oom_report report = {.size = sizeof report};
    vram_addr addr = 0;
    handler->calls++;
    handler->last = *event;
    handler->error = *event->error;
    handler->report = vram_oom_report_get(NULL, &report) == VRAM_OK ? report.number : 0;
    if (handler->gives) {
        assert_ok(vram_free(handler->gives, NULL));
        handler->gives = 0;
    }
    if (handler->allocates) {
        handler->inner = vram_alloc(handler->pool, 40 * MIB, NULL, &addr);
    }
    if (handler->destroys) {
        handler->inner = vram_pool_destroy(handler->pool);
    }
    return handler->answer;
}

static void handled_by(struct rig *rig, vram_pool *pool, struct handler *handler,
                       vram_error_answer answer) {
    *handler = (struct handler){.answer = answer, .rig = rig, .pool = pool};
    assert_ok(vram_error_handler_set(rig->context, handle, handler));
}

/* Each failure once, with what is known of it, after its report was written. */
TEST(each_error_is_told, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct handler handler;
    handled_by(rig, pool, &handler, VRAM_ERROR_FAIL);
    vram_addr addr = take(pool, 40 * MIB, rig->queue);
    assert_int_equal(handler.calls, 0);
    refused(pool, 40 * MIB - 7, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(handler.calls, 1);
    assert_int_equal(handler.last.size, sizeof(vram_error_event));
    assert_int_equal(handler.error.status, VRAM_ERR_DEVICE_MEMORY);
    assert_string_equal(handler.error.operation, vram_error_get()->operation);
    assert_int_equal(handler.last.bytes, 40 * MIB - 7);
    assert_int_equal(handler.last.retries, 0);
    assert_int_equal(handler.last.total, 1);
    assert_ptr_equal(handler.last.pool, pool);
    assert_ptr_equal(handler.last.device, rig->device);
    assert_ptr_equal(handler.last.context, rig->context);
    vram_oom_report report = {.size = sizeof report};
    assert_ok(vram_oom_report_get(pool, &report));
    assert_int_equal(handler.report, report.number);
    assert_int_equal(vram_pool_warm(pool, 40 * MIB, 1, rig->queue), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(handler.calls, 2);
    vram_alloc_options cached = {.size = sizeof cached, .flags = VRAM_ALLOC_CACHED_ONLY};
    assert_int_equal(vram_alloc_with(pool, 40 * MIB, rig->queue, &cached, &addr), VRAM_ERR_LIMIT);
    assert_int_equal(vram_alloc(pool, UINT64_MAX, rig->queue, &addr), VRAM_ERR_OVERFLOW);
    assert_int_equal(handler.calls, 2);
    assert_ok(vram_error_handler_set(rig->context, NULL, NULL));
    refused(pool, 40 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(handler.calls, 2);
}

/* A handler that always says retry is heard so often and no more; nothing else is retried at
   all. */
TEST(retries_are_bounded, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct handler handler;
    handled_by(rig, pool, &handler, VRAM_ERROR_RETRY);
    climb_by(pool, "none", 0);
    fault(rig, VRAM_SIM_CREATE, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    refused(pool, MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(stats_of(pool).driver_creates, 1 + VRAM_ERROR_RETRIES_MAX);
    assert_int_equal(handler.calls, 1 + VRAM_ERROR_RETRIES_MAX);
    assert_int_equal(handler.last.retries, VRAM_ERROR_RETRIES_MAX);
    assert_int_equal(stats_of(pool).refusals, 1);

    static const vram_error_answer answers[] = {VRAM_ERROR_RETRY, VRAM_ERROR_FALL_BACK,
                                                (vram_error_answer)77};
    for (int i = 0; i < 3; i++) {
        uint64_t creates = stats_of(pool).driver_creates;
        handled_by(rig, pool, &handler, answers[i]);
        fault(rig, VRAM_SIM_CREATE, 1, true, 99);
        refused(pool, MIB, rig->queue, VRAM_ERR_BACKEND);
        assert_int_equal(handler.calls, 1);
        assert_int_equal(handler.error.native_code, 99);
        assert_int_equal(stats_of(pool).driver_creates, creates + 1);
        assert_int_equal(stats_of(pool).fallbacks, 0);
    }
    assert_ok(vram_sim_fault_set(rig->context, NULL));
}

TEST(a_retry_helps_when_something_was_freed, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct handler handler;
    handled_by(rig, pool, &handler, VRAM_ERROR_RETRY);
    handler.gives = take(pool, 40 * MIB, NULL);
    vram_error_clear();
    (void)take(pool, 40 * MIB, NULL);
    assert_int_equal(handler.calls, 1);
    expect_no_record();
    assert_int_equal(stats_of(pool).refusals, 0);
}

TEST(handlers_that_misbehave, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    struct handler handler;
    (void)take(pool, 40 * MIB, NULL);
    handled_by(rig, pool, &handler, VRAM_ERROR_FAIL);
    handler.allocates = true; /* which fails, and nobody is told */
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(handler.inner, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(handler.calls, 1);
    handler.allocates = false;
    handler.destroys = true;
    handler.answer = VRAM_ERROR_RETRY;
    refused(pool, 40 * MIB, NULL, VRAM_ERR_STALE);
    assert_ok(handler.inner);
    assert_int_equal(handler.calls, 2);
}

/* ---------------------------------------------------------------------------- time */

static bool is_near(double value, double wanted) {
    return value > wanted - 0.001 && value < wanted + 0.001;
}

/* An error counts half after a half-life; errors of each status by themselves; totals do not
   decay. */
TEST(counts_decay) {
    assert_ok(vram_option_set("error_half_life", "10s"));
    assert_ok(vram_option_set("oom_wait", "0ns"));
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    struct handler handler;
    handled_by(&rig, pool, &handler, VRAM_ERROR_FAIL);
    test_time_begin(1000 * SECOND, 0);
    static const struct {
        uint64_t passed;
        double recent;
    } turns[] = {{0, 1}, {0, 2}, {10, 2}, {10, 2}, {5, 2.5}, {20, 1.625}, {3600, 1}};
    for (unsigned i = 0; i < sizeof turns / sizeof turns[0]; i++) {
        test_time_ns += turns[i].passed * SECOND;
        refused(pool, 65 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(handler.last.total, i + 1);
        if (!is_near(handler.last.recent, turns[i].recent)) {
            fail_msg("turn %u: %f, not %f", i, handler.last.recent, turns[i].recent);
        }
    }
    fault(&rig, VRAM_SIM_CREATE, 1, false, 99);
    refused(pool, MIB, NULL, VRAM_ERR_BACKEND);
    assert_int_equal(handler.last.total, 1);
    test_time_end();
    rig_end_clean(&rig);
}

/* Quotas refuse like all else: the handler is told, may have it tried again, and other memory is no
   way past them. */
TEST(quotas_are_told, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "a/b"};
    struct handler handler;
    vram_addr first = 0, addr = 0;
    assert_ok(vram_tag_quota_set(rig->device, "a", 0, 10 * MIB));
    assert_ok(vram_alloc_with(pool, 8 * MIB, NULL, &tagged, &first));
    static const vram_error_answer answers[] = {VRAM_ERROR_FAIL, VRAM_ERROR_FALL_BACK,
                                                VRAM_ERROR_RETRY};
    for (int i = 0; i < 3; i++) {
        handled_by(rig, pool, &handler, answers[i]);
        assert_int_equal(vram_alloc_with(pool, 4 * MIB, NULL, &tagged, &addr), VRAM_ERR_LIMIT);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_LIMIT);
        assert_int_equal(handler.calls,
                         1 + (answers[i] == VRAM_ERROR_RETRY ? VRAM_ERROR_RETRIES_MAX : 0));
        assert_true(handler.report > 0);
        assert_int_equal(stats_of(pool).quota_refusals, i + 1);
    }
    handled_by(rig, pool, &handler, VRAM_ERROR_RETRY);
    handler.gives = first;
    vram_error_clear();
    assert_ok(vram_alloc_with(pool, 4 * MIB, NULL, &tagged, &addr));
    expect_no_record();
    assert_int_equal(stats_of(pool).quota_refusals, 3);
    handled_by(rig, pool, &handler, VRAM_ERROR_RETRY);
    handler.destroys = true;
    assert_int_equal(vram_alloc_with(pool, 8 * MIB, NULL, &tagged, &addr), VRAM_ERR_STALE);
    assert_int_equal(handler.calls, 1);
}
