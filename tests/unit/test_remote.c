/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote.c: memory of other processes through UCX, here between two remotes of one process:
 * every path, every failure that can be made without a network that fails (tests/remote has that).
 */
#include "adapters/ucx/remote_object.h"
#include "base/memory.h"
#include "unit/mem_world.h"
#include "vram/remote.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

/* Two remotes: `there` has a region, `here` is connected to it. */
struct pair {
    struct rig rig;
    vram_remote *here, *there;
    vram_remote_peer *peer;
    vram_pool *pool, *far_pool;
};

static void bytes_of(vram_remote *remote, uint8_t *address, size_t *bytes) {
    *bytes = VRAM_REMOTE_ADDRESS_MAX;
    assert_ok(vram_remote_address_get(remote, address, bytes));
}

static vram_remote_peer *connected(vram_remote *here, vram_remote *there) {
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes;
    vram_remote_peer *peer;
    bytes_of(there, address, &bytes);
    assert_ok(vram_remote_peer_open(here, address, bytes, 0, &peer));
    return peer;
}

static vram_pool *shared_pool(vram_remote *remote, vram_device *device) {
    vram_provider provider = {.size = sizeof provider};
    vram_pool_options options = {.size = sizeof options, .provider = &provider};
    vram_pool *pool;
    assert_ok(vram_remote_provider_get(remote, &provider));
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static struct pair pair_make(const char *backend, const char *config, uint32_t flags,
                             const char *transports, bool shared) {
    struct pair pair = {.rig = rig_make(backend, config)};
    vram_remote_options options = {.size = sizeof options,
                                   .flags = flags,
                                   .transports = transports,
                                   .interfaces = "lo",
                                   .chunk_bytes = 64 << 10,
                                   .timeout_ns = 20 * SECOND};
    assert_ok(vram_remote_open(pair.rig.device, &options, &pair.here));
    assert_ok(vram_remote_open(pair.rig.device, &options, &pair.there));
    pair.peer = connected(pair.here, pair.there);
    pair.pool = pool_of(&pair.rig, 0);
    pair.far_pool = shared ? shared_pool(pair.there, pair.rig.device) : pool_of(&pair.rig, 0);
    return pair;
}

static void pair_end(struct pair *pair) {
    assert_ok(vram_remote_peer_close(pair->peer));
    assert_ok(vram_remote_close(pair->here));
    assert_ok(vram_remote_close(pair->there));
    assert_ok(vram_pool_destroy(pair->pool));
    assert_ok(vram_pool_destroy(pair->far_pool));
    vram_context_destroy(pair->rig.context);
}

static vram_addr block_of(struct pair *pair, vram_pool *pool, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_alloc(pool, bytes, pair->rig.queue, &addr));
    return addr;
}

static void fill(struct pair *pair, vram_addr addr, uint64_t bytes, uint32_t seed) {
    uint32_t *words = test_malloc(bytes);
    for (uint64_t i = 0; i < bytes / 4; i++) {
        words[i] = seed + (uint32_t)i * 2654435761u;
    }
    assert_ok(vram_transfer_upload(pair->rig.queue, addr, words, bytes, NULL, NULL));
    assert_ok(vram_queue_wait(pair->rig.queue, VRAM_TIMEOUT_DEFAULT));
    test_free(words);
}

static bool filled(struct pair *pair, vram_addr addr, uint64_t bytes, uint32_t seed) {
    uint32_t *words = test_malloc(bytes);
    bool good = true;
    assert_ok(vram_transfer_download(pair->rig.queue, words, addr, bytes, NULL, NULL));
    assert_ok(vram_queue_wait(pair->rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < bytes / 4 && good; i++) {
        good = words[i] == seed + (uint32_t)i * 2654435761u;
    }
    test_free(words);
    return good;
}

static vram_remote_info info_of(vram_remote *remote) {
    vram_remote_info info = {.size = sizeof info};
    assert_ok(vram_remote_info_get(remote, &info));
    return info;
}

static vram_remote_region *region_of(struct pair *pair, const vram_addr *blocks, uint32_t count,
                                     uint32_t flags, vram_remote_token *token) {
    vram_remote_region_options options = {.size = sizeof options, .flags = flags};
    vram_remote_region *region;
    assert_ok(vram_remote_region_open(pair->there, blocks, count, &options, &region));
    assert_ok(vram_remote_token_get(region, token));
    return region;
}

static vram_status finished(vram_async *async) {
    vram_status status = vram_async_wait(async, 30 * SECOND);
    assert_ok(vram_async_end(async));
    return status;
}

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

static void direct_over_tcp(void **state) {
    (void)state;
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    there_and_back(&pair, 0);
    vram_remote_info info = info_of(pair.here);
    assert_true(info.direct_bytes > 0 && info.direct_bytes == info.put_bytes + info.get_bytes);
    assert_false(info.shared_memory);
    there_and_back(&pair, VRAM_REMOTE_CHECKED);
    assert_int_equal(info_of(pair.here).direct_bytes, info.direct_bytes);
    assert_int_equal(info_of(pair.here).staged_bytes, 0);
    pair_end(&pair);
}

static void shared_memory(void **state) {
    (void)state;
    struct pair pair = pair_make("host", NULL, 0, "tcp,sm", true);
    there_and_back(&pair, 0);
    vram_remote_info info = info_of(pair.here);
    assert_true(info.shared_bytes > 0 && info.shared_bytes == info.put_bytes + info.get_bytes);
    pair_end(&pair);
}

static void staged_on_both_sides(void **state) {
    (void)state;
    struct pair pair = pair_make("sim", "memory=1G,real=on", VRAM_REMOTE_STAGED, "tcp", false);
    there_and_back(&pair, 0);
    vram_remote_info here = info_of(pair.here), there = info_of(pair.there);
    assert_int_equal(here.served_bytes, here.put_bytes + here.get_bytes);
    assert_int_equal(here.staged_bytes, here.served_bytes);
    assert_int_equal(there.staged_bytes, here.served_bytes);
    pair_end(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_over_tcp),
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(staged_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
