/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote.c: memory of other processes through UCX, here between two remotes of one process:
 * every path, every failure that can be made without a network that fails (tests/remote has that).
 */
#include "unit/remote_world.h"

#include <unistd.h>

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

/* ---------------------------------------------------------- host memory runs out */

static const vram_remote_options fast = {.size = sizeof fast,
                                         .transports = "tcp",
                                         .interfaces = "lo",
                                         .chunk_bytes = 4096,
                                         .timeout_ns = SECOND / 10};

static uint32_t kept; /* descriptors that UCX keeps from its first use on; 0: not known yet */

/* A put and a get, as far as they come; the first failure. */
static vram_status copies(struct rig *rig, vram_remote *here, vram_remote *there, vram_addr *blocks,
                          uint32_t flags) {
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes = sizeof address;
    vram_remote_region_options options = {.size = sizeof options, .flags = flags};
    vram_remote_copy copy = {.addr = blocks[1], .bytes = 12288};
    vram_remote_token token;
    vram_remote_region *region = NULL;
    vram_remote_peer *peer = NULL;
    vram_async async;
    (void)rig;
    vram_status status = vram_remote_address_get(there, address, &bytes);
    if (status == VRAM_OK) {
        status = vram_remote_region_open(there, blocks, 1, &options, &region);
    }
    if (status == VRAM_OK) {
        status = vram_remote_token_get(region, &token);
    }
    if (status == VRAM_OK) {
        status = vram_remote_peer_open(here, address, bytes, 0, &peer);
    }
    for (int put = 1; put >= 0 && status == VRAM_OK; put--) {
        status = put ? vram_remote_put(peer, &token, &copy, 1, NULL, &async)
                     : vram_remote_get(peer, &token, &copy, 1, NULL, &async);
        status = status == VRAM_OK ? finished(&async) : status;
    }
    (void)vram_remote_peer_close(peer);
    (void)vram_remote_region_close(region);
    return status;
}

/* Whether the plan struck. Without a strike all succeeds, unless the machine is busy and a deadline
   passes, on either side: it is tried again with a longer one, and a longer one, up to 20 s. */
static bool fails_at(uint64_t nth, bool for_ever, uint32_t remote_flags, uint32_t region_flags,
                     uint64_t timeout_ns) {
    struct rig rig = rig_make("host", NULL);
    vram_pool *pool = pool_of(&rig, 0);
    vram_remote_options options = fast;
    vram_remote *here = NULL, *there = NULL;
    vram_addr blocks[2];
    options.flags = remote_flags;
    options.timeout_ns = timeout_ns;
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_alloc(pool, 12288, rig.queue, &blocks[i]));
    }
    vr_mem_fail_at(nth, for_ever);
    vram_status status = vram_remote_open(rig.device, &options, &here);
    if (status == VRAM_OK) {
        status = vram_remote_open(rig.device, &options, &there);
    }
    if (status == VRAM_OK) {
        status = copies(&rig, here, there, blocks, region_flags);
    }
    bool struck = vr_mem_failed() > 0;
    vr_mem_fail_at(0, false);
    bool again = status != VRAM_OK && !struck && timeout_ns < 20 * SECOND;
    if (status != VRAM_OK && !struck && !again) {
        fail_msg("%s: %s", vram_status_name(status), vram_error_get()->text);
    }
    assert_ok(vram_remote_close(here));
    assert_ok(vram_remote_close(there));
    vram_context_destroy(rig.context);
    assert_int_equal(vr_handle_live(VR_KIND_REMOTE), 0);
    assert_int_equal(vr_handle_live(VR_KIND_REMOTE_PEER), 0);
    assert_int_equal(vr_handle_live(VR_KIND_REMOTE_REGION), 0);
    /* UCX would keep the socket of a connection that was neither accepted nor rejected. */
    kept = kept ? kept : descriptors_open();
    assert_int_equal(descriptors_open(), kept);
    return again ? fails_at(nth, for_ever, remote_flags, region_flags, timeout_ns * 4) : struck;
}

TEST(every_allocation_fails) {
    static const struct {
        uint32_t remote, region;
    } rows[] = {{0, 0}, {0, VRAM_REMOTE_CHECKED}, {VRAM_REMOTE_STAGED, 0}};
    for (int i = 0; i < 256; i++) { /* late_close.c keeps as many as it ever will */
        (void)close(dup(STDERR_FILENO));
    }
    assert_false(fails_at(UINT64_MAX, false, 0, 0, fast.timeout_ns)); /* tells `kept` */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            uint64_t nth = 1;
            while (fails_at(nth, for_ever, rows[i].remote, rows[i].region, fast.timeout_ns)) {
                nth += FAULT_STEP;
                assert_true(nth < 2000);
            }
            assert_true(nth > 10);
        }
    }
}
