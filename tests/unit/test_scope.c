/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scope.c: what a scope has goes with it, in reverse and in queue order, whichever way it
 * ends.
 */
#include "base/clock.h"
#include "unit/mem_world.h"
#include "unit/pool_flags.h"
#include "vram/batch.h"
#include "vram/limits.h"
#include "vram/scope.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static vram_scope_info info_of(vram_scope *scope) {
    vram_scope_info info = {.size = sizeof info};
    assert_ok(vram_scope_info_get(scope, &info));
    return info;
}

/* ---------------------------------------------------------------- good scopes */

static void the_end_frees_everything(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "a/b"};
    vram_scope *scope;
    vram_addr a, b, c, d;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &a));
    assert_ok(vram_scope_alloc(scope, 3 * MIB, NULL, &b));
    assert_ok(vram_scope_alloc_with(scope, 70000, rig.queue, &tagged, &c));
    assert_ok(vram_scope_alloc(scope, 0, rig.queue, &d)); /* an address, and no memory */
    vram_scope_info info = info_of(scope);
    assert_ptr_equal(info.pool, pool);
    assert_null(info.parent);
    assert_int_equal(info.blocks, 4);
    assert_int_equal(info.bytes, 1000 + 3 * MIB + 70000);
    assert_int_equal(info.scopes, 0);
    assert_int_equal(live_in(pool), 4);
    vram_tag_info tag = {.size = sizeof tag};
    assert_ok(vram_tag_info_get(rig.device, "a", &tag));
    assert_true(tag.used_bytes >= 70000);
    assert_ok(vram_scope_end(scope));
    assert_int_equal(live_in(pool), 0);
    assert_ok(vram_tag_info_get(rig.device, "a", &tag));
    assert_int_equal(tag.used_bytes, 0);
    assert_int_equal(vram_free(a, rig.queue), VRAM_ERR_INVALID);
    vram_error_clear();
    assert_ok(vram_scope_end(NULL));
    expect_no_record();
    rig_end_clean(&rig);
}

static void newest_first(void **state) {
    vram_addr addrs[8], again;
    (void)state;
    SKIP_UNDER(VRAM_POOL_POISON, false, "freed blocks stay in quarantine there");
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *scope;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_scope_alloc(scope, 4096, rig.queue, &addrs[i]));
    }
    assert_ok(vram_scope_end(scope));
    /* A thread's bin is a stack: the block that was freed last, the scope's first, comes back
       first. */
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_alloc(pool, 4096, rig.queue, &again));
        assert_int_equal(again, addrs[i]);
    }
    rig_end_clean(&rig);
}

/* The end does not wait; nothing else gets the memory before the queue has completed its work. */
static void freed_in_stream_order(void **state) {
    (void)state;
    SKIP_UNDER(VRAM_POOL_POISON | VRAM_POOL_RED_ZONES, true,
               "freed blocks are not the next ones there, or wait for their queue");
    struct rig rig = rig_make("sim", "memory=1G,lag=10000");
    vram_pool *pool = pool_of(&rig, 0);
    vram_queue *second;
    vram_scope *scope;
    vram_addr a, b;
    assert_ok(vram_queue_create(rig.device, NULL, &second));
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, 3 * MIB, rig.queue, &a));
    assert_ok(vram_queue_fill(rig.queue, a, 7, 1, 3 * MIB));
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_NOT_READY);
    assert_ok(vram_scope_end(scope));
    assert_ok(vram_alloc(pool, 3 * MIB, second, &b));
    assert_int_not_equal(a, b);
    assert_ok(vram_free(b, second));
    assert_ok(vram_alloc(pool, 3 * MIB, rig.queue, &b)); /* later work of its own queue: at once */
    assert_int_equal(a, b);
    assert_ok(vram_free(b, rig.queue));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

static void take_give_and_early_frees(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0), *other = pool_of(&rig, 0);
    vram_scope *scope, *next;
    vram_addr a, b, c, strange, plain;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_begin(pool, NULL, &next));
    assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &a));
    assert_ok(vram_scope_alloc(scope, 2000, rig.queue, &b));
    assert_ok(vram_scope_alloc(scope, 3000, rig.queue, &c));
    assert_ok(vram_alloc(other, 1000, rig.queue, &strange));
    assert_ok(vram_alloc(pool, 5000, rig.queue, &plain));

    assert_ok(vram_scope_take(scope, b));
    assert_int_equal(vram_scope_take(scope, b), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_free(scope, b, rig.queue), VRAM_ERR_INVALID);
    assert_ok(vram_scope_give(next, b, rig.queue)); /* from one scope into another */
    assert_int_equal(vram_scope_give(next, b, rig.queue), VRAM_ERR_INVALID);
    assert_ok(vram_scope_give(next, plain, NULL));
    assert_int_equal(info_of(next).bytes, 7000);
    assert_int_equal(vram_scope_give(next, strange, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_give(next, a + 1, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_give(next, 0, rig.queue), VRAM_ERR_INVALID);
    assert_ok(vram_scope_free(scope, a, NULL));
    assert_int_equal(vram_scope_free(scope, a, NULL), VRAM_ERR_INVALID);
    assert_int_equal(info_of(scope).blocks, 1);
    assert_int_equal(live_in(pool), 3);
    assert_ok(vram_scope_end(scope));
    assert_int_equal(live_in(pool), 2);
    assert_ok(vram_scope_take(next, b));
    assert_ok(vram_scope_end(next));
    assert_int_equal(live_in(pool), 1);
    assert_ok(vram_free(b, rig.queue));
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* A parent's end ends what lies in it, at every depth; a child's end leaves the parent alone. */
static void scopes_in_scopes(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    vram_pool *pool = pool_of(&rig, 0), *distant;
    vram_scope *outer, *middle, *inner, *side;
    vram_addr addr;
    assert_ok(test_pool_create(rig.other, NULL, &distant));
    assert_ok(vram_scope_begin(pool, NULL, &outer));
    assert_ok(vram_scope_alloc(outer, 1000, rig.queue, &addr));
    assert_ok(vram_scope_begin(pool, outer, &middle));
    assert_ok(vram_scope_alloc(middle, 1000, rig.queue, &addr));
    assert_ok(vram_scope_begin(distant, middle, &inner));
    assert_ok(vram_scope_alloc(inner, 1000, rig.other_queue, &addr));
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
    rig_end_clean(&rig);
}

/* Ending takes no stack. */
static void very_deep(void **state) {
    enum { DEPTH = 20000 };
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *outer, *at;
    vram_addr addr;
    assert_ok(vram_scope_begin(pool, NULL, &outer));
    at = outer;
    for (int i = 0; i < DEPTH; i++) {
        assert_ok(vram_scope_begin(pool, at, &at));
    }
    assert_ok(vram_scope_alloc(at, 1000, rig.queue, &addr));
    assert_ok(vram_scope_end(outer));
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* Many things, most of them taken out in an order that is none. */
static void many_things(void **state) {
    enum { COUNT = 3000 };
    static vram_addr addrs[COUNT];
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *scope;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_scope_alloc(scope, (uint64_t)i % 7 * 1000, rig.queue, &addrs[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        int at = (i * 1009) % COUNT; /* a prime: each once */
        if (i % 3 == 0) {
            assert_ok(vram_scope_take(scope, addrs[at]));
            assert_ok(vram_free(addrs[at], rig.queue));
        } else if (i % 3 == 1) {
            assert_ok(vram_scope_free(scope, addrs[at], rig.queue));
        }
    }
    assert_int_equal(info_of(scope).blocks, COUNT / 3);
    assert_int_equal(live_in(pool), COUNT / 3);
    assert_ok(vram_scope_end(scope));
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

static void buffers_in_scopes(void **state) {
    (void)state;
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

static void ended_twice(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *scope, *next;
    vram_addr addr;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_end(scope));
    assert_int_equal(vram_scope_end(scope), VRAM_ERR_STALE);
    assert_ok(vram_scope_begin(pool, NULL, &next)); /* in the same slot */
    assert_ok(vram_scope_alloc(next, 1000, rig.queue, &addr));
    assert_int_equal(vram_scope_end(scope), VRAM_ERR_STALE);
    assert_int_equal(live_in(pool), 1);
    assert_ok(vram_scope_end(next));
    rig_end_clean(&rig);
}

/* The wrong call frees nothing that a scope, a batch or a buffer has, from whatever thread and
   queue. */
static void freed_by_the_wrong_call(void **state) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC,
                                     VRAM_POOL_RED_ZONES};
    (void)state;
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

/* Damage that a safety mode finds is told by the end. */
static void damage_is_told(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,real=on");
    vram_pool *pool = pool_of(&rig, VRAM_POOL_RED_ZONES);
    vram_scope *scope;
    vram_addr a, b;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &a));
    assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &b));
    assert_ok(vram_queue_fill(rig.queue, b, 1, 1, 1010));
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(vram_scope_end(scope), VRAM_ERR_CORRUPT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_CORRUPT);
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* A queue that has ended used nothing any more; one that never finished may use it for ever. */
static void queues_that_have_ended(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *scope;
    vram_queue *gone;
    vram_addr a, b;
    assert_ok(vram_queue_create(rig.device, NULL, &gone));
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, 1000, gone, &a));
    assert_ok(vram_scope_alloc(scope, 1000, gone, &b));
    vram_queue_destroy(gone);
    assert_int_equal(vram_scope_free(scope, b, gone), VRAM_ERR_STALE); /* and still has it */
    assert_int_equal(info_of(scope).blocks, 2);
    vram_error_clear();
    assert_ok(vram_scope_end(scope));
    expect_no_record();
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* Time that passes only while somebody sleeps. */
static uint64_t clock_now(void *user) {
    return *(uint64_t *)user;
}

static void clock_sleep(void *user, uint64_t ns) {
    *(uint64_t *)user += ns;
}

static int clock_start(void **state) {
    static uint64_t now;
    vr_clock_set(&(struct vr_clock_source){clock_now, clock_sleep, &now});
    return start(state);
}

static int clock_end(void **state) {
    vr_clock_set(NULL);
    return nothing_left(state);
}

static void work_that_never_ends(void **state) {
    (void)state;
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

/* Pools, devices and contexts may go first: the blocks go with them. */
static void parents_that_go_first(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct rig rig = rig_make("sim", "memory=1G,devices=2");
        vram_pool *pool = pool_of(&rig, 0), *distant;
        vram_scope *scope, *inner;
        vram_addr addr;
        assert_ok(test_pool_create(rig.other, NULL, &distant));
        assert_ok(vram_scope_begin(pool, NULL, &scope));
        assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &addr));
        assert_ok(vram_scope_begin(distant, scope, &inner));
        assert_ok(vram_scope_alloc(inner, 1000, rig.other_queue, &addr));
        if (round == 0) {
            assert_ok(vram_pool_destroy(pool));
            assert_int_equal(vram_scope_alloc(scope, 1, NULL, &addr), VRAM_ERR_STALE);
            assert_int_equal(vram_scope_give(scope, addr, NULL), VRAM_ERR_STALE);
            assert_int_equal(vram_scope_end(scope), VRAM_ERR_STALE);
            assert_int_equal(vram_scope_end(inner), VRAM_ERR_STALE); /* ended with its parent */
            assert_int_equal(live_in(distant), 0);
        } else if (round == 1) {
            vram_device_close(rig.device);
            rig.device = NULL;
            assert_int_equal(vram_scope_end(scope), VRAM_ERR_STALE);
            assert_int_equal(vram_scope_end(inner), VRAM_ERR_STALE); /* ended with its parent */
            assert_int_equal(live_in(distant), 0);
        }
        if (round < 2) {
            rig_end_clean(&rig);
        } else {
            vram_context_destroy(rig.context);
            assert_int_equal(vram_scope_end(scope), VRAM_ERR_STALE);
        }
    }
}

static void a_fork_leaves_it_alone(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    vram_scope *scope;
    vram_addr addr;
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_ok(vram_scope_alloc(scope, 1000, rig.queue, &addr));
    pid_t child = fork();
    if (child == 0) {
        bool good = vram_scope_alloc(scope, 1, NULL, &addr) == VRAM_ERR_FORKED &&
                    vram_scope_end(scope) == VRAM_OK && vram_scope_end(scope) == VRAM_ERR_STALE;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(vram_scope_end(scope));
    rig_end_clean(&rig);
}

/* -------------------------------------------------------------------- threads */

enum { THREADS = 8, ROUNDS = 300 };

struct crowd {
    struct rig *rig;
    vram_scope *scope;
    atomic_int ended;
};

/* Allocates into a scope that another thread ends at some moment. */
static void *fill(void *argument) {
    struct crowd *crowd = argument;
    vram_addr addr;
    for (int i = 0; i < ROUNDS; i++) {
        vram_scope *inner;
        vram_status status = vram_scope_alloc(crowd->scope, 700, crowd->rig->queue, &addr);
        if (status == VRAM_OK && i % 3 == 0 && vram_scope_take(crowd->scope, addr) == VRAM_OK) {
            status = vram_free(addr, crowd->rig->queue);
        }
        if (status != VRAM_OK) {
            return NULL;
        }
        if (i % 10 == 0 &&
            vram_scope_begin(info_of(crowd->scope).pool, crowd->scope, &inner) == VRAM_OK) {
            (void)vram_scope_alloc(inner, 900, NULL, &addr);
            (void)vram_scope_end(i % 20 ? inner : NULL);
        }
    }
    return NULL;
}

static void *finish(void *argument) {
    struct crowd *crowd = argument;
    if (vram_scope_end(crowd->scope) == VRAM_OK) {
        atomic_fetch_add(&crowd->ended, 1);
    }
    return NULL;
}

static void *fill_quietly(void *argument) {
    struct crowd *crowd = argument;
    vram_addr addr;
    for (int i = 0; i < ROUNDS; i++) {
        vram_scope *inner;
        if (vram_scope_alloc(crowd->scope, 700, crowd->rig->queue, &addr) != VRAM_OK) {
            return NULL;
        }
        vram_pool_stats stats = {.size = sizeof stats};
        vram_scope_info info = {.size = sizeof info};
        if (vram_scope_info_get(crowd->scope, &info) == VRAM_OK &&
            vram_pool_stats_get(info.pool, &stats) == VRAM_OK && i % 10 == 0 &&
            vram_scope_begin(info.pool, crowd->scope, &inner) == VRAM_OK) {
            (void)vram_scope_alloc(inner, 900, NULL, &addr);
        }
    }
    return NULL;
}

static void many_threads_in_one_scope(void **state) {
    pthread_t threads[THREADS];
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    struct crowd crowd = {.rig = &rig};
    assert_ok(vram_scope_begin(pool, NULL, &crowd.scope));
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fill, &crowd), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(info_of(crowd.scope).blocks, THREADS * ROUNDS * 2 / 3);
    assert_ok(vram_scope_end(crowd.scope));
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

/* One of the enders wins; whatever others allocate meanwhile is theirs to lose. */
static void ended_under_others(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, 0);
        struct crowd crowd = {.rig = &rig};
        assert_ok(vram_scope_begin(pool, NULL, &crowd.scope));
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(
                pthread_create(&threads[i], NULL, i < 5 ? fill_quietly : finish, &crowd), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(atomic_load(&crowd.ended), 1);
        assert_int_equal(live_in(pool), 0);
        rig_end_clean(&rig);
    }
}

/* --------------------------------------------------------------------- faults */

/* A part of a program, as it is written: the one end lets go of everything, however far it has
   come. */
static vram_status part(struct rig *rig, vram_pool *pool) {
    vram_scope *scope = NULL, *inner;
    vram_buffer *buffer;
    vram_addr addr;
    vram_status status = vram_scope_begin(pool, NULL, &scope);
    for (int i = 0; i < 20 && status == VRAM_OK; i++) { /* more than fit at first */
        status = vram_scope_alloc(scope, 3000 * (uint64_t)i, rig->queue, &addr);
    }
    if (status == VRAM_OK) {
        status = vram_scope_begin(pool, scope, &inner);
    }
    if (status == VRAM_OK) {
        status = vram_scope_buffer_create(inner, 7000, rig->queue, NULL, &buffer);
    }
    if (status == VRAM_OK) {
        status = vram_scope_alloc(inner, 5 * MIB, rig->queue, &addr);
    }
    if (status == VRAM_OK) {
        status = vram_scope_take(inner, addr);
    }
    if (status == VRAM_OK) {
        status = vram_scope_give(scope, addr, rig->queue);
        if (status != VRAM_OK) {
            (void)vram_free(addr, rig->queue);
        }
    }
    assert_ok(vram_scope_end(scope));
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    fail_every_call(part, "memory=1G");
}

/* ------------------------------------------------------------------ bad input */

static void bad_input(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    struct rig elsewhere = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0), *far = pool_of(&elsewhere, 0);
    vram_alloc_options bad = {.size = sizeof bad, .alignment = 3};
    vram_scope *scope, *none = NULL;
    vram_addr addr = 77;
    assert_int_equal(vram_scope_begin(pool, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_begin(NULL, NULL, &none), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_begin(pool, (void *)pool, &none), VRAM_ERR_INVALID);
    assert_ok(vram_scope_begin(pool, NULL, &scope));
    assert_int_equal(vram_scope_begin(far, scope, &none), VRAM_ERR_INVALID);
    assert_null(none);
    assert_int_equal(vram_scope_alloc(scope, 1, rig.queue, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_alloc_with(scope, 1, rig.queue, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_alloc(NULL, 1, rig.queue, &addr), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_alloc((void *)pool, 1, rig.queue, &addr), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_alloc(scope, 1, rig.other_queue, &addr), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_alloc_with(scope, 1, NULL, &bad, &addr), VRAM_ERR_INVALID);
    assert_int_not_equal(vram_scope_alloc(scope, UINT64_MAX, NULL, &addr), VRAM_OK);
    assert_int_not_equal(vram_scope_alloc(scope, UINT64_C(1) << 40, NULL, &addr), VRAM_OK);
    assert_int_equal(addr, 77);
    assert_ok(vram_scope_alloc(scope, 1, rig.queue, &addr));
    assert_int_equal(vram_scope_free(scope, addr, rig.other_queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_free(scope, addr + 1, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_free(scope, 0, rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_take(scope, 0), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_give(scope, addr, rig.other_queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_info_get(scope, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_scope_buffer_create(scope, 1, NULL, NULL, NULL), VRAM_ERR_INVALID);
    vram_buffer_options odd = {.size = sizeof odd, .precision = VRAM_PRECISION_FP32};
    vram_buffer *no_buffer = NULL;
    assert_int_equal(vram_scope_buffer_create(scope, 3, NULL, &odd, &no_buffer), VRAM_ERR_INVALID);
    assert_null(no_buffer);
    vram_scope_info small = {.size = 3};
    assert_int_equal(vram_scope_info_get(scope, &small), VRAM_ERR_INVALID);
    assert_int_equal(info_of(scope).blocks, 1);
    assert_int_equal(vram_scope_end((void *)pool), VRAM_ERR_INVALID);
    assert_ok(vram_scope_end(scope));
    rig_end_clean(&elsewhere);
    rig_end_clean(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_end_frees_everything, start, nothing_left),
        cmocka_unit_test_setup_teardown(newest_first, start, nothing_left),
        cmocka_unit_test_setup_teardown(freed_in_stream_order, start, nothing_left),
        cmocka_unit_test_setup_teardown(take_give_and_early_frees, start, nothing_left),
        cmocka_unit_test_setup_teardown(scopes_in_scopes, start, nothing_left),
        cmocka_unit_test_setup_teardown(buffers_in_scopes, start, nothing_left),
        cmocka_unit_test_setup_teardown(very_deep, start, nothing_left),
        cmocka_unit_test_setup_teardown(many_things, start, nothing_left),
        cmocka_unit_test_setup_teardown(ended_twice, start, nothing_left),
        cmocka_unit_test_setup_teardown(freed_by_the_wrong_call, start, nothing_left),
        cmocka_unit_test_setup_teardown(damage_is_told, start, nothing_left),
        cmocka_unit_test_setup_teardown(queues_that_have_ended, start, nothing_left),
        cmocka_unit_test_setup_teardown(work_that_never_ends, clock_start, clock_end),
        cmocka_unit_test_setup_teardown(parents_that_go_first, start, nothing_left),
        cmocka_unit_test_setup_teardown(a_fork_leaves_it_alone, start, nothing_left),
        cmocka_unit_test_setup_teardown(many_threads_in_one_scope, start, nothing_left),
        cmocka_unit_test_setup_teardown(ended_under_others, start, nothing_left),
        cmocka_unit_test_setup_teardown(every_call_may_fail, start, nothing_left),
        cmocka_unit_test_setup_teardown(bad_input, start, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
