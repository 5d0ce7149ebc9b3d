/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote_storm.c: every call of vram/remote.h on objects that other threads close. A call
 * succeeds, or its status says that the object has gone or is going; nothing hangs, and nothing is
 * left. tests/calls does this for the calls of libvram itself.
 */
#include "unit/remote_world.h"

#include <pthread.h>

enum { ROUNDS = 12, THREADS = 3, OPENINGS = 12 };

struct storm {
    struct pair pair;
    vram_remote_region *region;
    vram_remote_token token;
    vram_addr block, mine;
    uint32_t seed;
};

static bool may_be(vram_status status) {
    return status == VRAM_OK || status == VRAM_ERR_STALE || status == VRAM_ERR_SHUTDOWN ||
           status == VRAM_ERR_TIMEOUT || status == VRAM_ERR_IO || status == VRAM_ERR_NOT_READY ||
           status == VRAM_ERR_BUSY || status == VRAM_ERR_INVALID;
}

/* One of the calls, chosen by `turn`. */
static vram_status call(struct storm *storm, uint32_t turn) {
    struct pair *pair = &storm->pair;
    vram_remote_copy copy = {.addr = storm->mine, .bytes = 4096};
    vram_remote_transfer soon = {.size = sizeof soon, .timeout_ns = SECOND / 5};
    vram_remote_info info = {.size = sizeof info};
    vram_provider provider = {.size = sizeof provider};
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
    size_t bytes = sizeof address;
    vram_remote_token token;
    vram_remote *remote;
    vram_remote_region *region;
    vram_remote_peer *peer;
    vram_async async = {{0}};
    vram_status status;
    switch (turn % 10) {
    case 0:
        status = vram_remote_put(pair->peer, &storm->token, &copy, 1, &soon, &async);
        return status == VRAM_OK ? finished(&async) : status;
    case 1:
        status = vram_remote_get(pair->peer, &storm->token, &copy, 1, &soon, &async);
        return status == VRAM_OK ? finished(&async) : status;
    case 2:
        return vram_remote_mark(storm->region, pair->rig.queue, turn);
    case 3:
        return vram_remote_mark_wait(storm->region, UINT64_MAX, SECOND / 1000);
    case 4:
        return vram_remote_info_get(pair->there, &info);
    case 5:
        return vram_remote_token_get(storm->region, &token);
    case 6:
        status = vram_remote_provider_get(pair->there, &provider);
        return status == VRAM_ERR_UNSUPPORTED ? VRAM_OK : status;
    case 7:
        status = vram_remote_region_open(pair->here, &storm->mine, 1, NULL, &region);
        return status == VRAM_OK ? vram_remote_region_close(region) : status;
    case 8:
        status = vram_remote_open(pair->rig.device, NULL, &remote);
        return status == VRAM_OK ? vram_remote_close(remote) : status;
    default:
        status = vram_remote_address_get(pair->there, address, &bytes);
        if (status == VRAM_OK) {
            status = vram_remote_peer_open(pair->here, address, bytes, SECOND / 5, &peer);
        }
        return status == VRAM_OK                ? vram_remote_peer_close(peer)
               : status == VRAM_ERR_UNSUPPORTED ? VRAM_OK
                                                : status;
    }
}

static void *caller(void *argument) {
    struct storm *storm = argument;
    uint32_t turn = vr_fetch_add((vr_atomic_u32 *)&storm->seed, 5, VR_RELAXED);
    for (int i = 0; i < 18; i++) {
        vram_status status = call(storm, turn + (uint32_t)i);
        if (!may_be(status)) {
            print_message("call %u: %s: %s\n", (turn + (uint32_t)i) % 10, vram_status_name(status),
                          vram_error_get()->text);
            return storm;
        }
    }
    return NULL;
}

/* Ends one of the objects while the callers run. */
static void end_one(struct storm *storm, int round) {
    switch (round % 4) {
    case 0:
        assert_true(may_be(vram_remote_region_close(storm->region)));
        break;
    case 1:
        assert_true(may_be(vram_remote_peer_close(storm->pair.peer)));
        break;
    case 2:
        assert_true(may_be(vram_remote_close(storm->pair.there)));
        break;
    default:
        assert_true(may_be(vram_remote_close(storm->pair.here)));
    }
}

TEST(storm) {
    for (int round = 0; round < ROUNDS; round++) {
        struct storm storm = {.pair = pair_make("host", NULL, 0, "tcp", false)};
        pthread_t threads[THREADS];
        storm.block = block_of(&storm.pair, storm.pair.far_pool, 4096);
        storm.mine = block_of(&storm.pair, storm.pair.pool, 4096);
        storm.region = region_of(&storm.pair, &storm.block, 1, round & 4 ? VRAM_REMOTE_CHECKED : 0,
                                 &storm.token);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, caller, &storm), 0);
        }
        end_one(&storm, round);
        for (int i = 0; i < THREADS; i++) {
            void *failed;
            assert_int_equal(pthread_join(threads[i], &failed), 0);
            assert_null(failed);
        }
        (void)vram_remote_close(storm.pair.here);
        (void)vram_remote_close(storm.pair.there);
        vram_context_destroy(storm.pair.rig.context);
        assert_int_equal(vr_handle_live(VR_KIND_REMOTE), 0);
        assert_int_equal(vr_handle_live(VR_KIND_REMOTE_PEER), 0);
        assert_int_equal(vr_handle_live(VR_KIND_REMOTE_REGION), 0);
    }
}

/* The device closes under a remote with everything open. */
TEST(device_closes) {
    struct pair pair = pair_make("host", NULL, 0, "tcp", false);
    vram_addr block = block_of(&pair, pair.far_pool, 4096);
    vram_remote_token token;
    vram_remote_copy copy = {.addr = block_of(&pair, pair.pool, 4096), .bytes = 4096};
    vram_remote_transfer after = {.size = sizeof after, .after = 5};
    vram_async async;
    (void)region_of(&pair, &block, 1, 0, &token);
    assert_ok(vram_remote_get(pair.peer, &token, &copy, 1, &after, &async));
    assert_ok(vram_device_close(pair.rig.device));
    vram_status status = vram_async_poll(&async);
    assert_true(status != VRAM_OK && status != VRAM_ERR_NOT_READY);
    assert_int_equal(vram_remote_close(pair.here), VRAM_ERR_STALE);
    vram_context_destroy(pair.rig.context);
    assert_int_equal(vr_handle_live(VR_KIND_REMOTE), 0);
}

struct opening {
    vram_device *device;
    vram_status status;
    uint64_t ns; /* how long the call took */
};

static void *opener(void *argument) {
    struct opening *opening = argument;
    vram_remote_options options = {.size = sizeof options, .transports = "tcp", .interfaces = "lo"};
    vram_remote *remote;
    uint64_t began = vr_os_now();
    opening->status = vram_remote_open(opening->device, &options, &remote);
    opening->ns = vr_os_now() - began;
    if (opening->status == VRAM_OK) {
        vram_status status = vram_remote_close(remote);
        opening->status = status == VRAM_ERR_STALE ? VRAM_OK : status;
    }
    return NULL;
}

/* The device closes while a remote is being opened: at the first moments of the call, at its last
   ones and behind it. */
TEST(device_closes_under_opening) {
    uint64_t longest = 0;
    for (int round = -1; round < OPENINGS; round++) {
        struct rig rig = rig_make("host", NULL);
        struct opening opening = {.device = rig.device};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, opener, &opening), 0);
        if (round < 0) { /* alone, for its time */
            assert_int_equal(pthread_join(thread, NULL), 0);
            longest = opening.ns;
        } else {
            vr_os_sleep(longest * (uint64_t)(round + 1) / OPENINGS);
        }
        assert_ok(vram_device_close(rig.device));
        if (round >= 0) {
            assert_int_equal(pthread_join(thread, NULL), 0);
        }
        assert_true(may_be(opening.status));
        vram_context_destroy(rig.context);
        assert_int_equal(vr_handle_live(0), 0);
    }
}
