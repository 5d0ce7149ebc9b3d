/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tags.c: who has how much of a device, and quotas: nested, soft and hard, by call and by
 * environment.
 */
#include "byte_units.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "vram/limits.h"

#include <stdio.h>
#include <stdlib.h>

static vram_status take(vram_pool *pool, uint64_t size, const char *tag, vram_queue *queue,
                        vram_addr *addr) {
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    return vram_alloc_with(pool, size, queue, &options, addr);
}

static vram_tag_info tag_of(vram_device *device, const char *name) {
    vram_tag_info info = {.size = sizeof info};
    assert_ok(vram_tag_info_get(device, name, &info));
    return info;
}

static void expect_told(const char *part) {
    if (!strstr(vram_error_get()->text, part)) {
        fail_msg("\"%s\" is not in \"%s\"", part, vram_error_get()->text);
    }
}

static int clean_environment(void) {
    unsetenv("VRAM_QUOTAS");
    vr_option_reset();
    return nothing_left();
}

/* --------------------------------------------------------------------------- use */

/* A block counts for its tag and for those above it, over all pools of the device, until it is
   freed: by this thread from its cache, on another queue, or with its pool. */
TEST(use_is_counted_at_every_level) {
    static const uint32_t flags[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC};
    for (size_t i = 0; i < 3; i++) {
        vram_pool_options options = {.size = sizeof options, .flags = flags[i]};
        vram_pool *pool, *other;
        vram_addr a, b, c, d;
        char name[] = "t/m/l1"; /* is copied */
        struct rig rig = rig_make("sim", "memory=1G");
        assert_ok(vram_pool_create(rig.device, &options, &pool));
        assert_ok(vram_pool_create(rig.device, &options, &other));
        assert_ok(take(pool, 1000, name, rig.queue, &a));
        name[5] = '2';
        assert_ok(take(pool, 3 * MIB, name, rig.queue, &b));
        assert_ok(take(other, 600, "t/m", NULL, &c));
        assert_ok(take(other, 512, "u", rig.queue, &d));
        assert_ok(vram_alloc(pool, MIB, rig.queue, &(vram_addr){0}));
        assert_int_equal(vram_tag_count(rig.device), 5);
        assert_int_equal(tag_of(rig.device, "t/m/l1").used_bytes, 1024);
        assert_int_equal(tag_of(rig.device, "t/m/l2").used_bytes, 3 * MIB);
        vram_tag_info model = tag_of(rig.device, "t/m");
        assert_int_equal(model.used_bytes, 3 * MIB + 2048);
        assert_int_equal(model.own_bytes, 1024);
        assert_int_equal(model.requested_bytes, 600);
        assert_int_equal(model.live_blocks, 1);
        assert_int_equal(tag_of(rig.device, "t").used_bytes, 3 * MIB + 2048);
        assert_int_equal(tag_of(rig.device, "t").live_blocks, 0);
        vram_block_info info = {.size = sizeof info};
        assert_ok(vram_block_info_get(b, &info));
        assert_string_equal(info.tag, "t/m/l2");

        assert_ok(vram_free(a, rig.queue));
        assert_int_equal(vram_free(a, rig.queue), VRAM_ERR_INVALID); /* and counts once */
        assert_ok(vram_free(b, NULL));
        assert_int_equal(tag_of(rig.device, "t").used_bytes, 1024);
        assert_int_equal(tag_of(rig.device, "t").peak_bytes, 3 * MIB + 2048);
        assert_ok(vram_alloc(pool, 1000, rig.queue, &a)); /* the same block, for nobody */
        assert_ok(vram_block_info_get(a, &info));
        assert_null(info.tag);
        assert_ok(vram_free(a, rig.queue));
        assert_int_equal(tag_of(rig.device, "t/m/l1").used_bytes, 0);
        assert_ok(vram_pool_destroy(other)); /* with c and d in it */
        assert_int_equal(tag_of(rig.device, "t").used_bytes, 0);
        assert_int_equal(tag_of(rig.device, "u").used_bytes, 0);
        assert_int_equal(tag_of(rig.device, "u").live_blocks, 0);
        rig_end_clean(&rig);
    }
}

/* A hit with a tag counts for the tag that its name says now, tracked or not, and a quota that
   comes later stands in its way. */
TEST(hits_count_for_their_tags) {
    for (int tracked = 0; tracked < 2; tracked++) {
        vram_limits limits = {.size = sizeof limits,
                              .tracking = tracked ? VRAM_SWITCH_ON : VRAM_SWITCH_OFF};
        vram_pool_options options = {.size = sizeof options, .limits = &limits};
        vram_block_info info = {.size = sizeof info};
        char name[] = "t/a";
        vram_pool *pool;
        vram_addr addr, canary = 77;
        struct rig rig = rig_make("sim", "memory=1G");
        assert_ok(vram_pool_create(rig.device, &options, &pool));
        for (int i = 0; i < 100; i++) {
            name[2] = i % 4 == 3 ? 'b' : 'a';
            assert_ok(take(pool, 1000, name, rig.queue, &addr));
            assert_ok(vram_block_info_get(addr, &info));
            assert_string_equal(info.tag, name);
            assert_int_equal(tag_of(rig.device, name).used_bytes, 1024);
            assert_int_equal(tag_of(rig.device, name).requested_bytes, 1000);
            assert_int_equal(tag_of(rig.device, "t").used_bytes, 1024);
            assert_ok(vram_free(addr, rig.queue));
        }
        assert_int_equal(stats_of(pool).cache_hits, 99);
        assert_int_equal(tag_of(rig.device, "t/a").allocs, 75);
        assert_int_equal(tag_of(rig.device, "t/b").allocs, 25);
        assert_int_equal(tag_of(rig.device, "t").peak_bytes, 1024);
        assert_ok(vram_tag_quota_set(rig.device, "t", 0, 512));
        assert_int_equal(take(pool, 1000, name, rig.queue, &canary), VRAM_ERR_LIMIT);
        assert_int_equal(canary, 77);
        assert_int_equal(tag_of(rig.device, "t").refusals, 1);
        assert_ok(vram_tag_quota_set(rig.device, "t", 512, 0));
        assert_ok(take(pool, 1000, name, rig.queue, &addr));
        assert_int_equal(tag_of(rig.device, "t").crossings, 1);
        assert_ok(vram_free(addr, rig.queue));
        assert_int_equal(tag_of(rig.device, "t").used_bytes, 0);
        assert_int_equal(take(pool, UINT64_MAX, name, rig.queue, &canary), VRAM_ERR_OVERFLOW);
        assert_int_equal(take(pool, 1000, name, rig.queue, NULL), VRAM_ERR_INVALID);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------------ quotas */

TEST(hard_quotas_refuse_and_name_the_tag, "sim:memory=1G") {
    vram_pool *pool, *other;
    vram_addr addr, first, canary = 77;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_ok(vram_pool_create(rig->device, NULL, &other));
    assert_ok(vram_tag_quota_set(rig->device, "tenant", 0, 10 * MIB));
    assert_ok(vram_tag_quota_set(rig->device, "tenant/model", 0, 4 * MIB));
    assert_ok(take(pool, 4 * MIB, "tenant/model/a", rig->queue, &first));
    assert_int_equal(take(other, 1, "tenant/model/b", rig->queue, &canary), VRAM_ERR_LIMIT);
    expect_told("\"tenant/model/b\"");
    expect_told("quota of tag \"tenant/model\" is 4.00 MiB");
    assert_int_equal(canary, 77);
    assert_ok(take(other, 6 * MIB, "tenant/other", rig->queue, &addr));
    assert_int_equal(take(pool, 1, "tenant", rig->queue, &canary), VRAM_ERR_LIMIT);
    expect_told("quota of tag \"tenant\" is 10.00 MiB");
    assert_ok(vram_alloc(pool, 100 * MIB, rig->queue, &addr)); /* the rest is nobody's quota */
    assert_ok(take(pool, 100 * MIB, "guest", rig->queue, &addr));
    /* A refusal leaves no trace but in the counters. */
    assert_int_equal(tag_of(rig->device, "tenant").used_bytes, 10 * MIB);
    assert_int_equal(tag_of(rig->device, "tenant").peak_bytes, 10 * MIB);
    assert_int_equal(tag_of(rig->device, "tenant").refusals, 1);
    assert_int_equal(tag_of(rig->device, "tenant/model").refusals, 1);
    assert_int_equal(tag_of(rig->device, "tenant/model/b").allocs, 0);
    assert_int_equal(tag_of(rig->device, "tenant/model/b").peak_bytes, 0);
    assert_int_equal(stats_of(pool).quota_refusals + stats_of(other).quota_refusals, 2);
    assert_int_equal(stats_of(pool).limit_refusals, 1);
    assert_int_equal(stats_of(pool).refusals, 1);
    assert_ok(vram_free(first, rig->queue));
    assert_ok(take(pool, 4 * MIB, "tenant/model/b", rig->queue, &addr));
    assert_ok(vram_tag_quota_set(rig->device, "tenant", 0, 0)); /* none any more */
    assert_ok(take(pool, 100 * MIB, "tenant", rig->queue, &addr));
}

/* ------------------------------------------------------------------- soft quotas */

struct told {
    vram_pool *pool;
    vram_queue *queue;
    unsigned calls;
    char tags[8][16];
    uint64_t used[8];
    vram_addr made;
};

/* Allocates for the same tag and frees again, which crosses once more and must not call again. */
static void on_crossing(void *user, const vram_tag_event *event) {
    struct told *told = user;
    vram_addr addr;
    snprintf(told->tags[told->calls], sizeof told->tags[0], "%s", event->tag);
    told->used[told->calls] = event->used_bytes;
    told->calls++;
    assert_non_null(event->device);
    assert_true(event->used_bytes > event->soft_bytes);
    if (told->made) {
        assert_ok(vram_free(told->made, told->queue));
        told->made = 0;
    }
    assert_ok(take(told->pool, 8 * MIB, event->tag, told->queue, &addr));
    assert_ok(vram_free(addr, told->queue));
}

TEST(soft_quotas_call_back, "sim:memory=1G") {
    vram_pool *pool;
    vram_addr addr, more;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    struct told told = {.pool = pool, .queue = rig->queue};
    assert_ok(vram_tag_handler_set(rig->device, on_crossing, &told));
    assert_ok(vram_tag_quota_set(rig->device, "t", 6 * MIB, 0));
    assert_ok(vram_tag_quota_set(rig->device, "t/m", 4 * MIB, 64 * MIB));
    assert_ok(take(pool, 4 * MIB, "t/m", rig->queue, &addr)); /* at it is not above it */
    assert_int_equal(told.calls, 0);
    assert_ok(take(pool, 512, "t/m", rig->queue, &more));
    assert_int_equal(told.calls, 1);
    assert_string_equal(told.tags[0], "t/m");
    assert_int_equal(told.used[0], 4 * MIB + 512);
    assert_ok(take(pool, 512, "t/m", rig->queue, &more)); /* above it already */
    assert_int_equal(told.calls, 1);
    assert_ok(vram_free(addr, rig->queue));
    told.made = 0;
    assert_ok(take(pool, 8 * MIB, "t/m", rig->queue, &addr)); /* both levels at once */
    assert_int_equal(told.calls, 3);
    assert_string_equal(told.tags[1], "t/m");
    assert_string_equal(told.tags[2], "t");
    assert_true(tag_of(rig->device, "t/m").crossings >= 2);
    assert_true(stats_of(pool).quota_crossings >= 3);
    assert_ok(vram_tag_handler_set(rig->device, NULL, NULL));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(take(pool, 8 * MIB, "t/m", rig->queue, &addr)); /* counted, and nobody told */
    assert_int_equal(told.calls, 3);
}

/* -------------------------------------------------------------------- environment */

TEST(quotas_from_the_environment_are_ceilings) {
    vram_pool *pool;
    vram_addr addr;
    setenv("VRAM_QUOTAS", "tenant=4M:6M,tenant/model=2M,free=1G", 1);
    vr_option_reset();
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_pool_create(rig.device, NULL, &pool));
    assert_int_equal(tag_of(rig.device, "tenant").soft_bytes, 4 * MIB);
    assert_int_equal(tag_of(rig.device, "tenant").hard_bytes, 6 * MIB);
    assert_int_equal(tag_of(rig.device, "tenant/model").hard_bytes, 2 * MIB);
    assert_int_equal(tag_of(rig.device, "tenant/model").soft_bytes, 0);
    assert_int_equal(take(pool, 3 * MIB, "tenant/model/x", rig.queue, &addr), VRAM_ERR_LIMIT);
    assert_ok(vram_tag_quota_set(rig.device, "tenant/model", 0, 100 * MIB)); /* lifts nothing */
    assert_int_equal(tag_of(rig.device, "tenant/model").hard_bytes, 2 * MIB);
    assert_ok(vram_tag_quota_set(rig.device, "tenant/model", 0, 0));
    assert_int_equal(tag_of(rig.device, "tenant/model").hard_bytes, 2 * MIB);
    assert_ok(vram_tag_quota_set(rig.device, "tenant/model", 0, MIB)); /* but may be tighter */
    assert_int_equal(take(pool, 2 * MIB, "tenant/model/x", rig.queue, &addr), VRAM_ERR_LIMIT);
    rig_end_clean(&rig);
}

/* Whatever the program sets the option to, also before there is a context: the environment's hold,
   and what it says besides holds too. */
TEST(the_option_lifts_no_quota_of_the_environment) {
    static const struct {
        const char *set;
        uint64_t soft, hard, other;
    } rows[] = {{"", 4, 6, 0},
                {NULL, 4, 6, 0},
                {"tenant=100M", 4, 6, 0},
                {"tenant=0", 4, 6, 0},
                {"tenant=1M:100M", 1, 6, 0},
                {"tenant=2M,other=3M", 4, 2, 3},
                {"other=3M", 4, 6, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_addr addr;
        vram_pool *pool;
        setenv("VRAM_QUOTAS", "tenant=4M:6M", 1);
        vr_option_reset();
        assert_ok(vram_option_set("quotas", rows[i].set));
        struct rig rig = rig_make("sim", "memory=1G");
        assert_ok(vram_pool_create(rig.device, NULL, &pool));
        assert_int_equal(tag_of(rig.device, "tenant").soft_bytes, rows[i].soft * MIB);
        assert_int_equal(tag_of(rig.device, "tenant").hard_bytes, rows[i].hard * MIB);
        assert_int_equal(take(pool, 8 * MIB, "tenant/x", rig.queue, &addr), VRAM_ERR_LIMIT);
        if (rows[i].other) {
            assert_int_equal(take(pool, 4 * MIB, "other", rig.queue, &addr), VRAM_ERR_LIMIT);
        }
        rig_end_clean(&rig);
    }
}

/* A quota that cannot be read must not pass for none. */
TEST(unreadable_quotas_are_refused) {
    static const char *const texts[] = {
        "tenant",  "tenant=",    "=4G",    "a=4G:",      "a=:4G", "a=4G:2G",
        "a//b=4G", "a=4G,,b=2G", "a=four", "a=4G:5G:6G", "/a=4G", "a=-1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        vram_context *context = NULL;
        setenv("VRAM_QUOTAS", texts[i], 1);
        vr_option_reset();
        if (vram_context_create(NULL, &context) != VRAM_ERR_INVALID) {
            fail_msg("\"%s\" was taken for a quota", texts[i]);
        }
        assert_null(context);
        assert_non_null(strstr(vram_error_get()->text, "VRAM_QUOTAS"));
        assert_int_equal(vram_option_set("quotas", texts[i]), VRAM_ERR_INVALID);
    }
}

/* -------------------------------------------------------------------------- races */

EACH_TEST(start, clean_environment)
