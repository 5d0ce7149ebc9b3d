/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_live_writer.c: the live page says what the pools say, and comes and goes with them.
 */
#include "child.h"
#include "live_world.h"

/* ------------------------------------------------------------------- contents */

static void assert_counts(const vram_live_page_counts *counts, const vram_pool_stats *stats) {
    assert_int_equal(counts->held_bytes, stats->reserved_bytes);
    assert_int_equal(counts->live_bytes, stats->requested_bytes);
    assert_int_equal(counts->allocated_bytes, stats->allocated_bytes);
    assert_int_equal(counts->cached_bytes, stats->cached_bytes);
    assert_int_equal(counts->asleep_bytes, stats->asleep_bytes);
    assert_int_equal(counts->live_blocks, stats->live_blocks);
    assert_int_equal(counts->allocs, stats->allocs);
    assert_int_equal(counts->frees, stats->frees);
    assert_int_equal(counts->hits, stats->hits);
    assert_int_equal(counts->misses, stats->misses);
    assert_int_equal(counts->cache_hits, stats->cache_hits);
    assert_int_equal(counts->refusals, stats->refusals);
    assert_int_equal(counts->peak_held_bytes, stats->peak_reserved_bytes);
    assert_int_equal(counts->driver_calls, stats->driver_creates + stats->driver_releases +
                                               stats->driver_maps + stats->driver_unmaps +
                                               stats->driver_accesses + stats->driver_allocs +
                                               stats->driver_frees + stats->driver_markers);
}

TEST(the_page_says_what_the_pools_say) {
    struct world world;
    vram_pool *second;
    vram_addr addr[5];
    vram_pool_stats stats = {.size = sizeof stats};
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "model/layer"};
    vram_pool_options options = {.size = sizeof options, .name = "second"};
    assert_ok(vram_option_set("tracking", "off")); /* debug builds track every pool */
    world_open(&world);
    assert_ok(vram_pool_create(world.device, &options, &second));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_alloc(world.pool, MIB << i, NULL, &addr[i]));
    }
    assert_ok(vram_alloc_with(world.pool, 3000, NULL, &tagged, &addr[3]));
    assert_ok(vram_free(addr[0], NULL));
    assert_ok(vram_alloc(world.pool, MIB, NULL, &addr[0]));
    assert_int_not_equal(vram_alloc_with(world.pool, UINT64_C(2) << 30, NULL, &tagged, &addr[4]),
                         VRAM_OK);

    struct page_view view = page_now();
    assert_int_equal(view.head.pools.count, 2);
    assert_int_equal(view.head.pools.total, 2);
    assert_string_equal(view.pools[0].name, "weights"); /* it holds more */
    assert_string_equal(view.pools[1].name, "second");
    assert_int_equal(view.pools[0].flags, VRAM_LIVE_PAGE_TRACKED);
    assert_int_equal(view.pools[0].id, (uintptr_t)world.pool);
    assert_int_equal(view.pools[0].device, 0);
    assert_ok(vram_pool_stats_get(world.pool, &stats));
    assert_counts(&view.pools[0].counts, &stats);
    assert_ok(vram_context_stats_get(world.context, &stats));
    assert_int_equal(view.head.sum.live_bytes, stats.requested_bytes);
    assert_int_equal(view.head.sum.allocs, stats.allocs);
    assert_int_equal(view.head.tracked_pools, 1);

    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_info_get(world.context, 0, &info));
    assert_int_equal(view.head.devices.count, 1);
    assert_string_equal(view.devices[0].backend, "sim");
    assert_string_equal(view.devices[0].name, info.name);
    assert_int_equal(view.devices[0].uuid_known, info.uuid_known);
    assert_memory_equal(view.devices[0].uuid, info.uuid, 16);
    assert_int_equal(view.devices[0].memory_bytes, UINT64_C(1) << 30);
    assert_int_equal(view.devices[0].held_bytes, view.head.sum.held_bytes);
    assert_int_equal(view.devices[0].pools, 2);

    assert_int_equal(view.head.tags.count, 2);
    assert_string_equal(view.tags[0].name, "model");
    assert_string_equal(view.tags[1].name, "model/layer");
    assert_int_equal(view.tags[1].live_blocks, 1);
    assert_true(view.tags[1].hard_bytes == VRAM_LIVE_PAGE_UNKNOWN);

    assert_int_equal(view.head.refusals.count, 1);
    assert_int_equal(view.head.refusals.total, 1);
    assert_int_equal(view.refusals[0].bytes, UINT64_C(2) << 30);
    assert_int_equal(view.refusals[0].cause, VRAM_OOM_TOO_LARGE);
    assert_int_equal(view.head.causes[VRAM_OOM_TOO_LARGE], 1);
    assert_string_equal(view.refusals[0].pool, "weights");
    assert_string_equal(view.refusals[0].tag, "model/layer");
    vram_oom_report report = {.size = sizeof report};
    assert_ok(vram_oom_report_get(world.pool, &report));
    assert_string_equal(view.refusals[0].text, report.summary);
    page_view_free(&view);
    world_close(&world);
    assert_int_equal(entries(pages), 0);
}

TEST(the_histogram_counts_live_blocks) {
    struct world world;
    struct page_view view;
    vram_addr addr;
    world_open(&world);
    for (int i = 0; i < 3000; i++) {
        assert_ok(vram_alloc(world.pool, 1000, NULL, &addr)); /* bin 10: up to 1024 */
    }
    assert_ok(vram_alloc(world.pool, 1024, NULL, &addr));
    assert_ok(vram_alloc(world.pool, 1025, NULL, &addr));
    for (int i = 0;; i++) {
        view = page_now();
        uint64_t blocks = view.head.sizes[10].blocks, bytes = view.head.sizes[10].bytes;
        uint64_t more = view.head.sizes[11].blocks;
        page_view_free(&view);
        if (blocks == 3001) {
            assert_int_equal(bytes, 3000 * 1000 + 1024);
            assert_int_equal(more, 1);
            break;
        }
        assert_true(i < 1000);
    }
    world_close(&world);
}

TEST(rates_are_of_the_last_second) {
    struct world world;
    struct page_view view;
    world_open(&world);
    uint64_t rate = 0;
    for (int i = 0; i < 400 && rate == 0; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(world.pool, 1000, NULL, &addr));
        assert_ok(vram_free(addr, NULL));
        vr_os_sleep(5000000);
        assert_true(page_wait((uint64_t)getpid(), 1, &view));
        rate = view.pools[0].counts.alloc_rate;
        page_view_free(&view);
    }
    assert_true(rate > 1000 && rate < 200 * 1000); /* at most 200 in a second */
    world_close(&world);
}

/* --------------------------------------------------------------------- lives */

TEST(it_can_be_left_out) {
    struct world world;
    assert_ok(vram_option_set("live", "off"));
    world_open(&world);
    vr_os_sleep(30000000);
    assert_int_equal(entries(pages), 0);
    assert_ok(vram_option_set("live", "on"));
    world_close(&world);
}

TEST(it_has_no_descriptor_and_one_thread) {
    struct world world;
    int threads = entries("/proc/self/task");
    assert_ok(vram_option_set("live", "off"));
    world_open(&world);
    int without = entries("/proc/self/task"), files = entries("/proc/self/fd");
    world_close(&world);
    assert_ok(vram_option_set("live", "on"));
    for (int i = 0; i < 3; i++) {
        world_open(&world);
        struct page_view view = page_now();
        page_view_free(&view);
        assert_int_equal(entries("/proc/self/task"), without + 1);
        int open = files + 1; /* during an update the page is open */
        for (int tries = 0; tries < 100 && open != files; tries++) {
            open = entries("/proc/self/fd");
        }
        assert_int_equal(open, files);
        world_close(&world);
        assert_int_equal(entries("/proc/self/task"), threads);
        assert_int_equal(entries(pages), 0);
    }
}

TEST(several_contexts_share_a_page) {
    struct world one, two;
    world_open(&one);
    world_open(&two);
    struct page_view view = page_now();
    assert_int_equal(view.head.pools.count, 2);
    assert_int_equal(view.head.devices.count, 2);
    page_view_free(&view);
    world_close(&one);
    view = page_now();
    assert_int_equal(view.head.pools.count, 1);
    page_view_free(&view);
    world_close(&two);
    assert_int_equal(entries(pages), 0);
}

TEST(a_page_that_is_removed_or_cut_comes_back) {
    struct world world;
    struct page_view view;
    char path[400];
    world_open(&world);
    view = page_now();
    snprintf(path, sizeof path, "%s/%d-%llu-%llu.page", pages, (int)getpid(),
             (unsigned long long)view.head.start_ticks, (unsigned long long)view.head.pid_space);
    page_view_free(&view);
    assert_int_equal(unlink(path), 0);
    assert_true(page_wait((uint64_t)getpid(), 1, &view));
    page_view_free(&view);
    assert_int_equal(truncate(path, 0), 0);
    assert_true(page_wait((uint64_t)getpid(), 1, &view));
    page_view_free(&view);
    world_close(&world);
}

WHOLE_FILE(world_begin, world_end)
