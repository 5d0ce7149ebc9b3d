/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_foreign.c: memory that somebody else allocated, by number, for its tag, and in budgets when
 * asked.
 */
#include "unit/mem_world.h"
#include "vram/buffer.h"
#include "vram/foreign.h"
#include "vram/limits.h"
#include "vram/stats.h"

static vram_foreign_totals totals_of(vram_device *device) {
    vram_foreign_totals totals = {.size = sizeof totals};
    assert_ok(vram_foreign_totals_get(device, &totals));
    return totals;
}

static vram_tag_info tag_of(vram_device *device, const char *name) {
    vram_tag_info info = {.size = sizeof info};
    assert_ok(vram_tag_info_get(device, name, &info));
    return info;
}

static vram_foreign_options counting(const char *tag) {
    return (vram_foreign_options){
        .size = sizeof(vram_foreign_options), .flags = VRAM_FOREIGN_COUNTS, .tag = tag};
}

static uint64_t reserved_on(vram_device *device) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_device_stats_get(device, &stats));
    return stats.reserved_bytes;
}

/* A record that does not count is there to be asked for, and nothing else. */
TEST(recorded_and_taken_back) {
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    char name[] = "work\nspace";
    vram_foreign_options options = {.size = sizeof options, .tag = "lib/blas", .name = name};
    vram_foreign_info info = {.size = sizeof info};
    vram_device *again;
    uint64_t a = 0, b = 0, c = 0;
    assert_int_equal(totals_of(rig.device).count, 0);
    assert_int_equal(vram_foreign_info_after(rig.device, 0, &info), VRAM_ERR_INVALID);
    assert_int_equal(vram_foreign_untrack(rig.device, 1), VRAM_ERR_INVALID);
    assert_ok(vram_foreign_track(rig.device, 5000, &options, &a));
    name[0] = '?'; /* is copied */
    assert_ok(vram_foreign_track(rig.other, 100, NULL, &b));
    assert_ok(vram_foreign_track(rig.device, 3 * 1024 * MIB, NULL, &c)); /* more than there is */
    assert_true(a > 0 && b > a && c > b);
    assert_ok(vram_foreign_info_get(rig.device, a, &info));
    assert_int_equal(info.id, a);
    assert_int_equal(info.bytes, 5000);
    assert_false(info.counts);
    assert_string_equal(info.tag, "lib/blas");
    assert_string_equal(info.name, "work\nspace");
    assert_int_equal(vram_foreign_info_get(rig.device, b, &info), VRAM_ERR_INVALID);
    assert_ok(vram_foreign_info_after(rig.device, 0, &info));
    assert_int_equal(info.id, a);
    assert_ok(vram_foreign_info_after(rig.device, a, &info));
    assert_int_equal(info.id, c);
    assert_null(info.tag);
    assert_string_equal(info.name, "");
    assert_int_equal(vram_foreign_info_after(rig.device, c, &info), VRAM_ERR_INVALID);
    assert_int_equal(vram_foreign_info_after(rig.device, UINT64_MAX, &info), VRAM_ERR_INVALID);
    assert_int_equal(totals_of(rig.device).count, 2);
    assert_int_equal(totals_of(rig.device).bytes, 5000 + 3 * 1024 * MIB);
    assert_int_equal(totals_of(rig.device).counted_bytes, 0);
    assert_int_equal(reserved_on(rig.device), 0);
    assert_int_equal(tag_of(rig.device, "lib").used_bytes, 0);

    /* Another handle on the same device knows it, another device does not. */
    assert_ok(vram_device_open(rig.context, 0, &again));
    assert_int_equal(vram_foreign_untrack(rig.other, a), VRAM_ERR_INVALID);
    assert_ok(vram_foreign_untrack(again, a));
    assert_int_equal(vram_foreign_untrack(rig.device, a), VRAM_ERR_INVALID);
    vram_device_close(again);
    assert_int_equal(totals_of(rig.device).count, 1);
    assert_int_equal(totals_of(rig.device).peak_bytes, 5000 + 3 * 1024 * MIB);
    assert_ok(vram_foreign_untrack(rig.device, c));
    assert_int_equal(totals_of(rig.device).bytes, 0);
    rig_end_clean(&rig); /* b goes with the context */
}

struct listing {
    vram_live_block blocks[8];
    unsigned count;
};

static bool list_block(void *user, const vram_live_block *block) {
    struct listing *listing = user;
    listing->blocks[listing->count++] = *block;
    return true;
}

static struct listing listing_of(vram_live_query query) {
    struct listing listing = {.count = 0};
    query.size = sizeof query;
    assert_ok(vram_live_visit(&query, list_block, &listing));
    return listing;
}

/* A record says what it is, and no buffer and no block has its number. */
TEST(says_what_it_is, "sim:memory=1G") {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_foreign_options scores = {.size = sizeof scores,
                                   .tag = "attention_scores",
                                   .kind = VRAM_MEMORY_HOST,
                                   .elements = 256 * 1024};
    vram_foreign_info info = {.size = sizeof info};
    vram_buffer_info made = {.size = sizeof made};
    uint64_t seen[8], count = 0, id;
    vram_pool *pool;
    vram_buffer *buffer;
    vram_addr addr;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_foreign_track(rig->device, MIB, &scores, &seen[count++]));
        assert_ok(vram_buffer_create(pool, 1000, rig->queue, NULL, &buffer));
        assert_ok(vram_buffer_info_get(buffer, &made));
        seen[count++] = made.id;
    }
    assert_ok(vram_alloc(pool, 1000, rig->queue, &addr));
    struct listing all = listing_of((vram_live_query){.device = rig->device});
    for (unsigned i = 0; i < all.count; i++) {
        if (!all.blocks[i].foreign) {
            seen[count++] = all.blocks[i].id; /* of the two buffers' memory, and of the block */
        } else {
            assert_int_equal(all.blocks[i].kind, VRAM_MEMORY_HOST);
            assert_int_equal(all.blocks[i].elements, 256 * 1024);
        }
    }
    assert_int_equal(count, 7);
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t k = 0; k < i; k++) {
            assert_int_not_equal(seen[i], seen[k]);
        }
    }
    assert_ok(vram_foreign_info_get(rig->device, seen[0], &info));
    assert_int_equal(info.kind, VRAM_MEMORY_HOST);
    assert_int_equal(info.elements, 256 * 1024);
    scores.flags = VRAM_FOREIGN_COUNTS; /* in what budget? */
    assert_int_equal(vram_foreign_track(rig->device, MIB, &scores, &id), VRAM_ERR_INVALID);
    scores.kind = VRAM_MEMORY_MANAGED;
    assert_ok(vram_foreign_track(rig->device, MIB, &scores, &id));
    scores.kind = (vram_memory_kind)4;
    assert_int_equal(vram_foreign_track(rig->device, MIB, &scores, &id), VRAM_ERR_INVALID);
}

static bool find_group(void *user, const vram_live_group *group) {
    vram_live_group *found = user;
    if (group->tag && !strcmp(group->tag, "lib/workspace")) {
        *found = *group;
    }
    return true;
}

/* Queries for live blocks of a device or a context show the records among the blocks, marked. */
TEST(is_live_in_queries, "sim:memory=4G,devices=2") {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options options = {.size = sizeof options, .limits = &limits, .name = "mine"};
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "lib/workspace"};
    vram_foreign_options named = {
        .size = sizeof named, .tag = "lib/workspace", .name = "gemm workspace"};
    vram_pool *pool;
    vram_addr addr;
    uint64_t id, there;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    assert_ok(vram_alloc_with(pool, MIB, rig->queue, &tagged, &addr));
    assert_ok(vram_foreign_track(rig->device, 5 * MIB, &named, &id));
    assert_ok(vram_foreign_track(rig->other, 3 * MIB, NULL, &there));

    struct listing mine = listing_of((vram_live_query){.device = rig->device});
    assert_int_equal(mine.count, 2);
    assert_false(mine.blocks[0].foreign);
    assert_true(mine.blocks[1].foreign);
    assert_int_equal(mine.blocks[1].id, id);
    assert_int_equal(mine.blocks[1].requested_bytes, 5 * MIB);
    assert_string_equal(mine.blocks[1].name, "gemm workspace");
    assert_string_equal(mine.blocks[1].tag, "lib/workspace");
    assert_null(mine.blocks[1].pool);
    assert_ptr_equal(mine.blocks[1].device, rig->device);
    struct listing all =
        listing_of((vram_live_query){.context = rig->context, .order = VRAM_LIVE_LARGEST});
    assert_int_equal(all.count, 3);
    assert_int_equal(all.blocks[0].id, id);
    assert_int_equal(all.blocks[1].id, there);
    assert_ptr_equal(all.blocks[1].device, rig->other);
    assert_int_equal(all.blocks[2].addr, addr);
    assert_int_equal(listing_of((vram_live_query){.device = rig->device, .tag = "lib"}).count, 2);
    assert_int_equal(listing_of((vram_live_query){.device = rig->device, .tag = ""}).count, 0);
    assert_int_equal(listing_of((vram_live_query){.device = rig->device, .most = 1}).count, 1);
    assert_int_equal(listing_of((vram_live_query){.pool = pool}).count, 1);

    vram_live_query query = {.size = sizeof query, .context = rig->context};
    vram_live_stats stats = {.size = sizeof stats};
    vram_live_group group = {.size = 0};
    assert_ok(vram_live_stats_get(&query, &stats));
    assert_int_equal(stats.live_bytes, MIB);
    assert_int_equal(stats.foreign_blocks, 2);
    assert_int_equal(stats.foreign_bytes, 8 * MIB);
    assert_ok(vram_live_groups(&query, VRAM_LIVE_BY_TAG, find_group, &group));
    assert_int_equal(group.live_bytes, MIB);
    assert_int_equal(group.foreign_blocks, 1);
    assert_int_equal(group.foreign_bytes, 5 * MIB);
    assert_ok(vram_foreign_untrack(rig->device, id));
    assert_int_equal(listing_of((vram_live_query){.device = rig->device}).count, 1);
}

/* What counts is what else the program holds: a pool may hold that much less. */
TEST(counts_in_budgets, "sim:memory=1G") {
    vram_limits limits = {
        .size = sizeof limits, .hard_bytes = 64 * MIB, .fraction = 1, .min_free_bytes = 1};
    vram_foreign_options count = counting(NULL);
    uint64_t id, large;
    vram_addr addr;
    vram_pool *pool = pool_of(rig, 0);
    assert_ok(vram_device_limits_set(rig->device, &limits));
    assert_int_equal(stats_of(pool).budget_bytes.value, 64 * MIB);
    assert_ok(vram_foreign_track(rig->device, 40 * MIB, &count, &id));
    assert_int_equal(totals_of(rig->device).counted_bytes, 40 * MIB);
    assert_int_equal(reserved_on(rig->device), 40 * MIB);
    assert_int_equal(stats_of(pool).budget_bytes.value, 24 * MIB);
    assert_int_equal(vram_alloc(pool, 32 * MIB, rig->queue, &addr), VRAM_ERR_LIMIT);
    assert_ok(vram_alloc(pool, 16 * MIB, rig->queue, &addr));
    /* Recorded first, it can be refused before anybody allocates it. */
    assert_int_equal(vram_foreign_track(rig->device, 24 * MIB, &count, &large), VRAM_ERR_LIMIT);
    assert_int_equal(totals_of(rig->device).count, 1);
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_foreign_untrack(rig->device, id));
    assert_ok(vram_alloc(pool, 60 * MIB, rig->queue, &addr));
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_device_stats_get(rig->device, &stats));
    assert_true(stats.peak_reserved_bytes >= 56 * MIB);
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_pool_destroy(pool));
    assert_int_equal(reserved_on(rig->device), 0);
}

static uint32_t told;
static void on_crossed(void *user, const vram_tag_event *event) {
    assert_ptr_equal(event->device, user);
    assert_string_equal(event->tag, "lib");
    told++;
}

TEST(counts_for_its_tag, "sim:memory=1G") {
    vram_foreign_options blas = counting("lib/blas"), fft = counting("lib/fft");
    uint64_t a, b, c = 77;
    told = 0;
    assert_ok(vram_tag_quota_set(rig->device, "lib", 5000, 10000));
    assert_ok(vram_tag_handler_set(rig->device, on_crossed, rig->device));
    assert_ok(vram_foreign_track(rig->device, 3000, &blas, &a));
    assert_int_equal(told, 0);
    assert_ok(vram_foreign_track(rig->device, 4000, &fft, &b));
    assert_int_equal(told, 1);
    assert_int_equal(tag_of(rig->device, "lib").used_bytes, 7000);
    assert_int_equal(tag_of(rig->device, "lib").crossings, 1);
    assert_int_equal(tag_of(rig->device, "lib/fft").own_bytes, 4000);
    assert_int_equal(vram_foreign_track(rig->device, 3001, &fft, &c), VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "lib"));
    assert_int_equal(c, 77);
    assert_int_equal(reserved_on(rig->device), 7000); /* what was charged is given back */
    assert_ok(vram_foreign_untrack(rig->device, a));
    assert_ok(vram_foreign_untrack(rig->device, b));
    assert_int_equal(tag_of(rig->device, "lib").used_bytes, 0);
    assert_int_equal(tag_of(rig->device, "lib").peak_bytes, 7000);
    assert_int_equal(tag_of(rig->device, "lib/fft").live_blocks, 0);
}
