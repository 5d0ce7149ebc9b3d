/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_end.c: pools end when work, captures, peers or drivers stand in the way: memory under
 * unfinished work is never given back, is counted as long as it is kept, and goes once the work is
 * done. The simulated driver is the judge of it.
 */
#include "unit/child.h"
#include "unit/device_world.h"
#include "unit/test_time.h"
#include "vram/pool.h"

/* Work of such a device is done by polls only, which the hook can keep from it. */
#define SLOW "memory=1G,lag=10000"

struct scene {
    struct rig rig;
    vram_pool *pool;
    vram_addr addr;
};

/* Time passes in sleeps alone, so that deadlines come as late as they should on any machine. */
static int clock_start(void) {
    test_time_begin(1, 0);
    return start();
}

static int clock_end(void) {
    test_time_end();
    return nothing_left();
}

/* A pool with one block, in which work is under way that ends when polls are let through. */
static struct scene scene_make(const char *sim, uint32_t flags, const vram_provider *provider) {
    struct scene scene;
    vram_pool_options options = {.size = sizeof options, .flags = flags, .provider = provider};
    assert_ok(vram_option_set("wait_timeout", "1s"));
    scene.rig = rig_make("sim", sim);
    hook_set(scene.rig.device);
    assert_ok(vram_pool_create(scene.rig.device, &options, &scene.pool));
    assert_ok(vram_alloc(scene.pool, MIB, scene.rig.queue, &scene.addr));
    if (!provider) {
        assert_ok(vram_queue_fill(scene.rig.queue, scene.addr, 7, 1, MIB));
    }
    hook.poll_answer = VRAM_ERR_NOT_READY;
    vram_error_clear();
    return scene;
}

static uint64_t held_bytes(struct scene *scene) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(scene->rig.device, &info));
    return info.held_bytes;
}

static void expect_kept(struct scene *scene, vram_status status) {
    vram_addr addr;
    assert_int_equal(vram_error_get()->status, status);
    assert_string_equal(vram_error_get()->operation, "vram_pool_destroy");
    assert_true(held_bytes(scene) >= MIB);
    assert_int_equal(sim_state(&scene->rig).live_bytes, held_bytes(scene));
    assert_int_equal(vram_alloc(scene->pool, MIB, scene->rig.queue, &addr), VRAM_ERR_STALE);
    assert_int_equal(vram_free(scene->addr, scene->rig.queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_pool_destroy(scene->pool), VRAM_ERR_STALE);
    expect_protocol(&scene->rig);
    vram_error_clear();
}

/* --------------------------------------------------------------- destroying pools */

/* Both kinds of pools; the memory goes when the queue ends, when the device closes, or at once. */
TEST(work_keeps_the_memory) {
    for (uint32_t flags = 0; flags <= VRAM_POOL_SEGMENTS; flags += VRAM_POOL_SEGMENTS) {
        for (int end = 0; end < 3; end++) {
            struct scene scene = scene_make(SLOW, flags, NULL);
            if (end < 2) {
                assert_int_equal(vram_pool_destroy(scene.pool), VRAM_ERR_TIMEOUT);
                expect_kept(&scene, VRAM_ERR_TIMEOUT);
            }
            hook.poll_answer = VRAM_OK;
            if (end == 2) {
                assert_ok(vram_pool_destroy(scene.pool));
                expect_no_record();
            }
            if (end != 1) {
                vram_queue_destroy(scene.rig.queue);
                assert_int_equal(held_bytes(&scene), 0);
            }
            rig_end_clean(&scene.rig);
        }
    }
}

/* Of several queues the last one that ends sets the memory free. */
TEST(the_last_queue_counts) {
    struct scene scene = scene_make(SLOW, 0, NULL);
    vram_queue *second;
    vram_addr addr;
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_queue_create(scene.rig.device, NULL, &second));
    assert_ok(vram_alloc(scene.pool, MIB, second, &addr));
    assert_ok(vram_queue_fill(second, addr, 7, 1, MIB));
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_int_equal(vram_pool_destroy(scene.pool), VRAM_ERR_TIMEOUT);
    expect_kept(&scene, VRAM_ERR_TIMEOUT);
    hook.poll_answer = VRAM_OK;
    vram_queue_destroy(second);
    assert_true(held_bytes(&scene) >= MIB);
    vram_queue_destroy(scene.rig.queue);
    assert_int_equal(held_bytes(&scene), 0);
    rig_end_clean(&scene.rig);
}

/* Neither can a queue be asked that is captured, nor one whose driver refuses to answer. */
TEST(queues_that_cannot_be_asked_count) {
    static const vram_status answers[] = {VRAM_ERR_CAPTURE, VRAM_ERR_BACKEND};
    for (int i = 0; i < 2; i++) {
        struct scene scene = scene_make(SLOW, 0, NULL);
        hook.signal_answer = answers[i];
        hook.poll_answer = i ? VRAM_ERR_BACKEND : VRAM_ERR_NOT_READY;
        assert_int_equal(vram_pool_destroy(scene.pool), answers[i]);
        expect_kept(&scene, answers[i]);
        hook.signal_answer = hook.poll_answer = VRAM_OK;
        rig_end_clean(&scene.rig);
    }
}

/* A queue of another device may read a pool's memory. */
TEST(peers_keep_the_memory) {
    struct scene scene = scene_make("devices=2," SLOW, 0, NULL);
    struct rig *rig = &scene.rig;
    vram_addr to;
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    hook_set(rig->other);
    assert_ok(vram_device_alloc(rig->other, MIB, VRAM_MEMORY_DEVICE, &to));
    assert_ok(vram_device_peer_enable(rig->other, rig->device));
    assert_ok(vram_queue_copy(rig->other_queue, to, scene.addr, MIB));
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_int_equal(vram_pool_destroy(scene.pool), VRAM_ERR_TIMEOUT);
    expect_protocol(rig);
    assert_true(held_bytes(&scene) >= MIB);
    vram_queue_destroy(rig->queue); /* its own queues are not what keeps it */
    assert_true(held_bytes(&scene) >= MIB);
    hook.poll_answer = VRAM_OK;
    rig_end_clean(rig);
}

/* ---------------------------------------------------------------------- providers */

static int provider_frees;

static vram_status provider_alloc(void *user, uint64_t bytes, vram_addr *addr) {
    (void)user, (void)bytes;
    *addr = UINT64_C(1) << 40;
    return VRAM_OK;
}

static vram_status provider_free(void *user, vram_addr addr, uint64_t bytes) {
    (void)user, (void)addr, (void)bytes;
    provider_frees++;
    return VRAM_OK;
}

TEST(providers_get_nothing_back_early) {
    vram_provider provider = {
        .size = sizeof provider, .alloc = provider_alloc, .free = provider_free};
    provider_frees = 0;
    struct scene scene = scene_make(SLOW, 0, &provider);
    assert_int_equal(vram_pool_destroy(scene.pool), VRAM_ERR_TIMEOUT);
    assert_int_equal(provider_frees, 0);
    hook.poll_answer = VRAM_OK;
    rig_end_clean(&scene.rig);
    assert_int_equal(provider_frees, 1);
}

/* ------------------------------------------------------------ work that never ends */

/* The device closes under a pool, destroyed or not, and under work that never ends: nothing is
   given back, the handle is dead, and the record says why. What is left is left to the end of the
   child. */
static int close_over_work(void *argument) {
    bool destroyed = *(bool *)argument;
    assert_ok(vram_option_set("device_limit", "1G"));
    struct scene scene = scene_make(SLOW, 0, NULL);
    vram_addr addr;
    if (destroyed) {
        assert_int_equal(vram_pool_destroy(scene.pool), VRAM_ERR_TIMEOUT);
    }
    uint64_t live = sim_state(&scene.rig).live_bytes;
    vram_error_clear();
    assert_int_equal(vram_device_close(scene.rig.device), VRAM_ERR_TIMEOUT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_TIMEOUT);
    assert_string_equal(vram_error_get()->operation, "vram_device_close");
    assert_int_equal(vram_alloc(scene.pool, MIB, scene.rig.queue, &addr), VRAM_ERR_STALE);
    assert_int_equal(vram_pool_destroy(scene.pool), VRAM_ERR_STALE);
    expect_protocol(&scene.rig);
    assert_int_equal(sim_state(&scene.rig).live_bytes, live);
    assert_true(live >= MIB);
    /* It still counts against the limit of the context. */
    assert_ok(vram_device_open(scene.rig.context, 0, &scene.rig.device));
    hook.poll_answer = VRAM_OK;
    assert_int_equal(
        vram_device_alloc(scene.rig.device, 1024 * MIB - live + 1, VRAM_MEMORY_DEVICE, &addr),
        VRAM_ERR_LIMIT);
    vram_context_destroy(scene.rig.context);
    return 0;
}

TEST(endless_work_keeps_pools) {
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        bool argument = destroyed;
        assert_int_equal(in_child(close_over_work, &argument), 0);
    }
}

/* What threads keep at hand for a queue is not handed out on it once it is destroyed, whatever its
   work does. */
TEST(destroyed_queues_have_no_hits) {
    struct scene scene = scene_make(SLOW, 0, NULL);
    vram_addr addr, kept;
    assert_ok(vram_alloc(scene.pool, 512, scene.rig.queue, &addr));
    assert_ok(vram_alloc(scene.pool, 512, scene.rig.queue, &kept));
    assert_ok(vram_free(addr, scene.rig.queue));
    vram_queue_destroy(scene.rig.queue);
    assert_int_equal(vram_alloc(scene.pool, 512, scene.rig.queue, &addr), VRAM_ERR_STALE);
    assert_int_equal(vram_free(kept, scene.rig.queue), VRAM_ERR_STALE);
    assert_ok(vram_free(kept, NULL));
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_pool_destroy(scene.pool));
    vram_error_clear();
    rig_end_clean(&scene.rig);
}

static void destroy_pool(void *user, vram_log_level level, const char *text) {
    struct scene *scene = user;
    (void)level;
    if (scene->pool && strstr(text, "alloc")) {
        vram_pool *pool = scene->pool;
        scene->pool = NULL;
        assert_ok(vram_pool_destroy(pool));
    }
}

/* The pool ends inside an allocation, while another call is in it, too. That drops its caches, and
   none is made again. */
TEST(ended_pools_have_no_hits) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_TRACKED};
    for (int before = 0; before < 12; before++) {
        struct scene scene = {.addr = 0};
        vram_pool *pool;
        scene.rig = rig_make("sim", "memory=64M");
        vram_log_set(destroy_pool, &scene, VRAM_LOG_DEBUG);
        assert_ok(vram_pool_create(scene.rig.device, &options, &pool));
        void *inside = vr_handle_pin(VR_KIND_POOL, pool);
        for (int i = 0; i < before; i++) {
            assert_ok(vram_alloc(pool, 1000, scene.rig.queue, &scene.addr));
        }
        scene.pool = pool;
        (void)vram_alloc(pool, 1000, scene.rig.queue, &scene.addr);
        assert_null(scene.pool);
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
        assert_int_equal(vram_alloc(pool, 1000, scene.rig.queue, &scene.addr), VRAM_ERR_STALE);
        vr_leave(inside);
        rig_end_clean(&scene.rig);
    }
}

EACH_TEST(clock_start, clock_end)
