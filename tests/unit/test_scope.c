/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scope.c: what a scope has goes with it, in reverse and in queue order, whichever way it
 * ends.
 */
#include "unit/mem_world.h"
#include "unit/pool_flags.h"
#include "unit/test_time.h"
#include "vram/batch.h"
#include "vram/limits.h"
#include "vram/scope.h"

static vram_scope_info info_of(vram_scope *scope) {
    vram_scope_info info = {.size = sizeof info};
    assert_ok(vram_scope_info_get(scope, &info));
    return info;
}

/* ---------------------------------------------------------------- good scopes */

TEST(take_give_and_early_frees, "sim:memory=1G") {
    vram_pool *pool = pool_of(rig, 0), *other = pool_of(rig, 0);
    vram_scope *scope, *next;
    vram_addr a, b, c, strange, plain;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_begin(pool, NULL, &next));
    assert_ok(vram_scope_alloc(scope, 1000, rig->queue, &a));
    assert_ok(vram_scope_alloc(scope, 2000, rig->queue, &b));
    assert_ok(vram_scope_alloc(scope, 3000, rig->queue, &c));
    assert_ok(vram_alloc(other, 1000, rig->queue, &strange));
    assert_ok(vram_alloc(pool, 5000, rig->queue, &plain));

    assert_ok(vram_scope_take(scope, b));
    assert_int_equal(vram_scope_take(scope, b), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_free(scope, b, rig->queue), VRAM_ERR_INVALID);
    assert_ok(vram_scope_give(next, b, rig->queue)); /* from one scope into another */
    assert_int_equal(vram_scope_give(next, b, rig->queue), VRAM_ERR_INVALID);
    assert_ok(vram_scope_give(next, plain, NULL));
    assert_int_equal(info_of(next).bytes, 7000);
    assert_int_equal(vram_scope_give(next, strange, rig->queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_give(next, a + 1, rig->queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_give(next, 0, rig->queue), VRAM_ERR_INVALID);
    assert_ok(vram_scope_free(scope, a, NULL));
    assert_int_equal(vram_scope_free(scope, a, NULL), VRAM_ERR_INVALID);
    assert_int_equal(info_of(scope).blocks, 1);
    assert_int_equal(live_in(pool), 3);
    assert_ok(vram_scope_end(scope));
    assert_int_equal(live_in(pool), 2);
    assert_ok(vram_scope_take(next, b));
    assert_ok(vram_scope_end(next));
    assert_int_equal(live_in(pool), 1);
    assert_ok(vram_free(b, rig->queue));
    assert_int_equal(live_in(pool), 0);
}

/* A parent's end ends what lies in it, at every depth; a child's end leaves the parent alone. */
TEST(scopes_in_scopes, "sim:memory=1G,devices=2") {
    vram_pool *pool = pool_of(rig, 0), *distant;
    vram_scope *outer, *middle, *inner, *side;
    vram_addr addr;
    assert_ok(test_pool_create(rig->other, NULL, &distant));
    assert_ok(vram_scope_begin(pool, NULL, &outer));
    assert_ok(vram_scope_alloc(outer, 1000, rig->queue, &addr));
    assert_ok(vram_scope_begin(pool, outer, &middle));
    assert_ok(vram_scope_alloc(middle, 1000, rig->queue, &addr));
    assert_ok(vram_scope_begin(distant, middle, &inner));
    assert_ok(vram_scope_alloc(inner, 1000, rig->other_queue, &addr));
    assert_ok(vram_scope_begin(pool, outer, &side));
    assert_ok(vram_scope_alloc(side, 1000, NULL, &addr));
    assert_int_equal(info_of(outer).scopes, 2);
    assert_ptr_equal(info_of(inner).parent, middle);
    assert_ok(vram_scope_end(side));
    assert_int_equal(info_of(outer).scopes, 1);
    assert_int_equal(info_of(outer).blocks, 1);
    assert_int_equal(live_in(pool), 2);
    assert_ok(vram_scope_end(outer));
    assert_int_equal(live_in(pool), 0);
    assert_int_equal(live_in(distant), 0);
    assert_int_equal(vram_scope_end(middle), VRAM_ERR_STALE);
    assert_int_equal(vram_scope_end(inner), VRAM_ERR_STALE);
    assert_int_equal(vram_scope_alloc(inner, 1, NULL, &addr), VRAM_ERR_STALE);
    vram_scope_info info = {.size = sizeof info};
    assert_int_equal(vram_scope_info_get(inner, &info), VRAM_ERR_STALE);
}

TEST(buffers_in_scopes) {
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    struct rig elsewhere = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0), *distant, *far = pool_of(&elsewhere, 0);
    vram_buffer_options options = {
        .size = sizeof options, .precision = VRAM_PRECISION_FP16, .name = "weights"};
    vram_buffer_info info = {.size = sizeof info};
    vram_buffer *a, *b, *c, *strange;
    vram_scope *scope, *inner;
    assert_ok(test_pool_create(rig.other, NULL, &distant));
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_begin(pool, scope, &inner));
    assert_ok(vram_scope_buffer_create(scope, 1000, rig.queue, &options, &a));
    assert_ok(vram_scope_buffer_create(inner, 2000, NULL, NULL, &b));
    assert_ok(vram_buffer_create(distant, 3000, rig.other_queue, NULL, &c));
    assert_ok(vram_buffer_create(far, 3000, elsewhere.queue, NULL, &strange));
    assert_ok(vram_buffer_info_get(a, &info));
    assert_string_equal(info.name, "weights");
    assert_int_equal(info.elements, 500);
    assert_ok(vram_scope_buffer_give(inner, c));
    assert_int_equal(vram_scope_buffer_give(inner, c), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_buffer_give(inner, strange), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_buffer_give(inner, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_buffer_take(inner, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_buffer_take(inner, a), VRAM_ERR_INVALID);
    assert_ok(vram_scope_buffer_take(inner, b));
    assert_ok(vram_scope_buffer_give(scope, b));
    assert_ok(vram_scope_buffer_give(inner, b)); /* in two scopes: the first to end destroys it */
    assert_int_equal(info_of(scope).buffers, 2);
    assert_ok(vram_scope_end(inner));
    assert_int_equal(vram_buffer_info_get(b, &info), VRAM_ERR_STALE);
    assert_int_equal(vram_buffer_info_get(c, &info), VRAM_ERR_STALE);
    assert_int_equal(live_in(distant), 0);
    assert_int_equal(vram_scope_buffer_give(scope, c), VRAM_ERR_STALE);
    assert_ok(vram_buffer_info_get(a, &info));
    vram_error_clear();
    assert_ok(vram_scope_end(scope));
    expect_no_record();
    assert_int_equal(vram_buffer_info_get(a, &info), VRAM_ERR_STALE);
    assert_int_equal(live_in(pool), 0);
    assert_ok(vram_buffer_info_get(strange, &info));
    rig_end_clean(&elsewhere);
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ other ends */

/* The wrong call frees nothing that a scope, a batch or a buffer has, from whatever thread and
   queue. */
TEST(freed_by_the_wrong_call) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC,
                                     VRAM_POOL_RED_ZONES};
    for (int i = 0; i < 4; i++) {
        struct rig rig = rig_make("sim", "memory=256M,real=on");
        vram_pool *pool = pool_of(&rig, flags[i]);
        vram_batch_item item = {.size = sizeof item, .elements = 1000};
        vram_scope *scope, *other;
        vram_batch *batch;
        vram_buffer *buffer, *part;
        vram_addr block, own, shared;
        uint32_t first;
        assert_ok(vram_scope_begin(pool, NULL, &scope));
        assert_ok(vram_scope_begin(pool, NULL, &other));
        assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &block));
        assert_ok(vram_buffer_create(pool, 1000, rig.queue, NULL, &buffer));
        assert_ok(vram_buffer_addr(buffer, &own));
        assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
        assert_ok(vram_batch_add(batch, &item, 1, &first));
        assert_ok(vram_batch_get(batch, first, &part));
        assert_ok(vram_buffer_addr(part, &shared));
        const vram_addr addrs[] = {block, own, shared};
        for (int j = 0; j < 3; j++) {
            vram_block_info info = {.size = sizeof info};
            assert_int_equal(vram_free(addrs[j], rig.queue), VRAM_ERR_INVALID);
            assert_int_equal(vram_free(addrs[j], NULL), VRAM_ERR_INVALID);
            assert_int_equal(vram_scope_give(other, addrs[j], NULL), VRAM_ERR_INVALID);
            assert_ok(vram_block_info_get(addrs[j], &info)); /* and is known all the same */
            assert_ptr_equal(info.pool, pool);
            assert_ok(vram_use(addrs[j], rig.queue));
        }
        assert_int_equal(live_in(pool), 3);
        assert_ok(vram_scope_take(scope, block)); /* from now on it is the program's */
        assert_ok(vram_free(block, rig.queue));
        assert_int_equal(vram_free(block, rig.queue), VRAM_ERR_INVALID);
        assert_ok(vram_buffer_destroy(buffer));
        assert_ok(vram_batch_destroy(batch));
        assert_int_equal(live_in(pool), 0);
        assert_ok(vram_alloc(pool, 1000, rig.queue, &block)); /* what comes back is nobody's */
        assert_ok(vram_free(block, rig.queue));
        rig_end_clean(&rig);
    }
}

/* Time that passes only while somebody sleeps. */
static int clock_start(void) {
    test_time_begin(1, 0);
    return start();
}

static int clock_end(void) {
    test_time_end();
    return nothing_left();
}

TEST_IN(clock_start, clock_end, work_that_never_ends) {
    SKIP_UNDER(TEST_POOL_GUARDS, false, "an allocation without a queue waits for the device there");
    assert_ok(vram_option_set("wait_timeout", "1s")); /* of the clock below */
    struct rig rig = rig_make("sim", "memory=1G,lag=10000");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *scope;
    vram_queue *stuck;
    vram_addr a, b;
    assert_ok(vram_queue_create(rig.device, NULL, &stuck));
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, 1000, stuck, &a));
    assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &b));
    assert_ok(vram_queue_fill(stuck, a, 7, 1, 1000));
    hook_set(rig.device);
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_queue_destroy(stuck);
    vram_error_clear();
    assert_ok(vram_scope_end(scope));
    expect_no_record();
    assert_int_equal(live_in(pool), 0);
    for (int i = 0; i < 100; i++) { /* it is given to nobody */
        assert_ok(vram_alloc(pool, 1000, i % 2 ? rig.queue : NULL, &b));
        assert_int_not_equal(b, a);
    }
    hook.poll_answer = VRAM_OK;
    rig_end_clean(&rig);
}
