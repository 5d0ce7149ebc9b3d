/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote.c: memory of other processes through UCX, here between two remotes of one process:
 * every path, every failure that can be made without a network that fails (tests/remote has that).
 */
#include "unit/remote_world.h"

/* A list of copies there and back, over parts of odd sizes, with contents compared. */
static void there_and_back(struct pair *pair, uint32_t region_flags) {
    enum { PARTS = 3, MOST = 300 << 10 };
    const uint64_t sizes[PARTS] = {MOST, 4096, 128 << 10};
    vram_addr far[PARTS], near[PARTS];
    vram_remote_copy copies[PARTS] = {0};
    vram_remote_token token;
    vram_async async;
    uint64_t result, all = 0;
    for (uint32_t i = 0; i < PARTS; i++) {
        far[i] = block_of(pair, pair->far_pool, sizes[i]);
        near[i] = block_of(pair, pair->pool, sizes[i]);
        fill(pair, near[i], sizes[i], i + 1);
        copies[i] = (vram_remote_copy){.part = i, .addr = near[i], .bytes = sizes[i]};
        all += sizes[i];
    }
    vram_remote_region *region = region_of(pair, far, PARTS, region_flags, &token);
    vram_remote_transfer transfer = {.size = sizeof transfer, .queue = pair->rig.queue, .mark = 7};
    assert_ok(vram_remote_put(pair->peer, &token, copies, PARTS, &transfer, &async));
    assert_ok(vram_async_wait(&async, 30 * SECOND));
    assert_ok(vram_async_result_get(&async, &result));
    assert_int_equal(result, all);
    assert_ok(vram_async_end(&async));
    assert_ok(vram_remote_mark_wait(region, 7, 0));
    assert_int_equal(vram_remote_mark_wait(region, 8, 1000), VRAM_ERR_TIMEOUT);
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_true(filled(pair, far[i], sizes[i], i + 1));
        fill(pair, far[i], sizes[i], i + 100);
    }
    transfer = (vram_remote_transfer){.size = sizeof transfer, .after = 9};
    assert_ok(vram_remote_get(pair->peer, &token, copies, PARTS, &transfer, &async));
    assert_int_equal(vram_async_wait(&async, SECOND / 50), VRAM_ERR_TIMEOUT);
    assert_ok(vram_remote_mark(region, pair->rig.queue, 9));
    assert_ok(finished(&async));
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_true(filled(pair, near[i], sizes[i], i + 100));
    }
    assert_ok(vram_remote_region_close(region));
    assert_ok(vram_remote_put(pair->peer, &token, copies, 1, NULL, &async));
    assert_int_equal(finished(&async), VRAM_ERR_STALE);
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_ok(vram_free(far[i], pair->rig.queue));
        assert_ok(vram_free(near[i], pair->rig.queue));
    }
    assert_int_equal(info_of(pair->there).handles, 0);
}

TEST(served_over_tcp) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    there_and_back(&pair, 0);
    there_and_back(&pair, VRAM_REMOTE_CHECKED);
    vram_remote_info info = info_of(pair.here);
    assert_int_equal(info.served_bytes, info.put_bytes + info.get_bytes);
    assert_int_equal(info.direct_bytes + info.shared_bytes + info.staged_bytes, 0);
    assert_false(info.shared_memory);
    pair_end(&pair);
}

TEST(in_place_over_tcp) {
    struct pair pair = pair_make("host", NULL, VRAM_REMOTE_IN_PLACE, "tcp", false);
    there_and_back(&pair, 0);
    vram_remote_info info = info_of(pair.here);
    assert_true(info.direct_bytes > 0 && info.direct_bytes < info.put_bytes);
    assert_int_equal(info.direct_bytes + info.served_bytes, info.put_bytes + info.get_bytes);
    there_and_back(&pair, VRAM_REMOTE_CHECKED);
    assert_int_equal(info_of(pair.here).direct_bytes, info.direct_bytes);
    pair_end(&pair);
}

TEST(shared_memory) {
    struct pair pair = pair_make("host", NULL, 0, "tcp,sm", true);
    there_and_back(&pair, 0);
    vram_remote_info info = info_of(pair.here);
    assert_true(info.shared_bytes > 0 && info.shared_bytes == info.put_bytes + info.get_bytes);
    pair_end(&pair);
}

TEST(staged_on_both_sides) {
    struct pair pair = pair_make("sim", "memory=1G,real=on", VRAM_REMOTE_STAGED, "tcp", false);
    there_and_back(&pair, 0);
    vram_remote_info here = info_of(pair.here), there = info_of(pair.there);
    assert_int_equal(here.served_bytes, here.put_bytes + here.get_bytes);
    assert_int_equal(here.staged_bytes, here.served_bytes);
    assert_int_equal(there.staged_bytes, here.served_bytes);
    pair_end(&pair);
}
