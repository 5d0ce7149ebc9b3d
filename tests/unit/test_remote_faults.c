/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_remote_faults.c: host memory runs out at every place, once and for ever. Each call returns a
 * status, each handle is settled by its deadline, and nothing is left. Another process does not
 * answer then, as far as this one can tell: so its deadline passes.
 */
#include "unit/remote_world.h"

#include <unistd.h>

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
