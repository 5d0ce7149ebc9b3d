/* SPDX-License-Identifier: Apache-2.0 */
/* remote_world.h: two remotes of one process, connected, and memory with known contents. */
#ifndef TEST_REMOTE_WORLD_H
#define TEST_REMOTE_WORLD_H

#include "adapters/ucx/remote_object.h"
#include "base/memory.h"
#include "unit/child.h"
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

static inline void bytes_of(vram_remote *remote, uint8_t *address, size_t *bytes) {
    *bytes = VRAM_REMOTE_ADDRESS_MAX;
    assert_ok(vram_remote_address_get(remote, address, bytes));
}

static inline vram_remote_peer *connected(vram_remote *here, vram_remote *there) {
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes;
    vram_remote_peer *peer;
    bytes_of(there, address, &bytes);
    assert_ok(vram_remote_peer_open(here, address, bytes, 0, &peer));
    return peer;
}

static inline vram_pool *shared_pool(vram_remote *remote, vram_device *device) {
    vram_provider provider = {.size = sizeof provider};
    vram_pool_options options = {.size = sizeof options, .provider = &provider};
    vram_pool *pool;
    assert_ok(vram_remote_provider_get(remote, &provider));
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static inline struct pair pair_make(const char *backend, const char *config, uint32_t flags,
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

static inline void pair_end(struct pair *pair) {
    assert_ok(vram_remote_peer_close(pair->peer));
    assert_ok(vram_remote_close(pair->here));
    assert_ok(vram_remote_close(pair->there));
    assert_ok(vram_pool_destroy(pair->pool));
    assert_ok(vram_pool_destroy(pair->far_pool));
    vram_context_destroy(pair->rig.context);
}

static inline vram_addr block_of(struct pair *pair, vram_pool *pool, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_alloc(pool, bytes, pair->rig.queue, &addr));
    return addr;
}

static inline void fill(struct pair *pair, vram_addr addr, uint64_t bytes, uint32_t seed) {
    uint32_t *words = malloc(bytes);
    for (uint64_t i = 0; i < bytes / 4; i++) {
        words[i] = seed + (uint32_t)i * 2654435761u;
    }
    assert_ok(vram_transfer_upload(pair->rig.queue, addr, words, bytes, NULL, NULL));
    assert_ok(vram_queue_wait(pair->rig.queue, VRAM_TIMEOUT_DEFAULT));
    free(words);
}

static inline bool filled(struct pair *pair, vram_addr addr, uint64_t bytes, uint32_t seed) {
    uint32_t *words = malloc(bytes);
    bool good = true;
    assert_ok(vram_transfer_download(pair->rig.queue, words, addr, bytes, NULL, NULL));
    assert_ok(vram_queue_wait(pair->rig.queue, VRAM_TIMEOUT_DEFAULT));
    for (uint64_t i = 0; i < bytes / 4 && good; i++) {
        good = words[i] == seed + (uint32_t)i * 2654435761u;
    }
    free(words);
    return good;
}

static inline vram_remote_info info_of(vram_remote *remote) {
    vram_remote_info info = {.size = sizeof info};
    assert_ok(vram_remote_info_get(remote, &info));
    return info;
}

static inline vram_remote_region *region_of(struct pair *pair, const vram_addr *blocks,
                                            uint32_t count, uint32_t flags,
                                            vram_remote_token *token) {
    vram_remote_region_options options = {.size = sizeof options, .flags = flags};
    vram_remote_region *region;
    assert_ok(vram_remote_region_open(pair->there, blocks, count, &options, &region));
    assert_ok(vram_remote_token_get(region, token));
    return region;
}

static inline vram_status finished(vram_async *async) {
    vram_status status = vram_async_wait(async, 30 * SECOND);
    assert_ok(vram_async_end(async));
    return status;
}

#endif
