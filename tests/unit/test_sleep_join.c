/* SPDX-License-Identifier: Apache-2.0 */
/* test_sleep_join.c: pieces without contents that become one when they wake. */
#include "unit/sleep_world.h"

enum { GRANULE = 64 * KIB };

/* How many pieces lie under [addr, addr + bytes), and the size of the largest. */
static uint32_t pieces_under(const struct rig *rig, vram_addr addr, uint64_t bytes,
                             uint64_t *largest) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, rig->pool);
    uint32_t count = 0;
    *largest = 0;
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        for (uint64_t at = addr; at < addr + bytes;) {
            const struct vr_piece *piece = vr_space_piece_at(pool->spaces[part], at);
            at = piece ? piece->addr + piece->bytes : at + GRANULE;
            count += piece != NULL;
            *largest = piece && piece->bytes > *largest ? piece->bytes : *largest;
        }
    }
    vr_mutex_unlock(&pool->lock);
    vr_handle_unpin(pool->object.handle);
    return count;
}

static void sleep_and_wake(const struct rig *rig, vram_sleep_contents contents) {
    assert_ok(put_to_sleep(rig, contents, NULL));
    assert_ok(vram_pool_wake(rig->pool, NULL));
    spaces_are_sound(rig);
}

/* In the middle of a block pieces become large ones, and at its ends they stay fine. The next sleep
   takes fewer driver calls. */
TEST(pieces_of_a_block_are_joined) {
    struct rig rig = rig_make("memory=64M,granule=64K", 0);
    uint64_t largest, before, bytes = 32 * MIB;
    vram_addr addr;
    assert_ok(vram_alloc(rig.pool, bytes, rig.queue, &addr));
    uint32_t fine = pieces_under(&rig, addr, bytes, &before);
    sleep_and_wake(&rig, VRAM_SLEEP_DROP);
    uint32_t coarse = pieces_under(&rig, addr, bytes, &largest);
    assert_true(coarse * 3 < fine && largest > 4 * before && largest <= bytes / 4);
    uint64_t creates = stats_of(rig.pool).driver_creates;
    sleep_and_wake(&rig, VRAM_SLEEP_DROP);
    assert_int_equal(stats_of(rig.pool).driver_creates - creates, coarse);
    assert_int_equal(pieces_under(&rig, addr, bytes, &largest), coarse);
    (void)pieces_under(&rig, addr, MIB, &largest);
    assert_true(largest <= MIB / 2);
    (void)pieces_under(&rig, addr + bytes - MIB, MIB, &largest);
    assert_true(largest <= MIB / 2);
    assert_ok(vram_free(addr, rig.queue));
    rig_end(&rig, true);
}

/* What has contents, and what lies under several blocks, stays as it is. */
TEST(others_are_not) {
    struct rig rig = rig_make("memory=64M,granule=64K", 0);
    enum { COUNT = 16 };
    vram_addr addrs[COUNT], large;
    uint64_t largest, bytes = 32 * MIB;
    assert_ok(vram_alloc(rig.pool, bytes, rig.queue, &large));
    uint32_t fine = pieces_under(&rig, large, bytes, &largest);
    assert_ok(vram_queue_fill(rig.queue, large, 7, 1, bytes));
    sleep_and_wake(&rig, VRAM_SLEEP_HOST);
    assert_int_equal(pieces_under(&rig, large, bytes, &largest), fine);
    uint8_t byte = 0;
    assert_ok(vram_queue_download(rig.queue, &byte, large + bytes / 2, 1));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(byte, 7);
    assert_ok(vram_free(large, rig.queue));
    assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_alloc(rig.pool, 2 * GRANULE, rig.queue, &addrs[i]));
    }
    for (int i = 1; i < COUNT; i++) {
        assert_int_equal(addrs[i], addrs[0] + (uint64_t)i * 2 * GRANULE); /* side by side */
    }
    fine = pieces_under(&rig, addrs[0], (uint64_t)COUNT * 2 * GRANULE, &largest);
    sleep_and_wake(&rig, VRAM_SLEEP_DROP);
    assert_int_equal(pieces_under(&rig, addrs[0], (uint64_t)COUNT * 2 * GRANULE, &largest), fine);
    rig_end(&rig, true);
}

/* A joined piece is used, freed, cut and released like any other, and so is what a block leaves
   that was freed in its sleep. */
TEST(joined_pieces_are_pieces) {
    struct rig rig = rig_make("memory=64M,granule=64K", 0);
    vram_addr large, freed, small[24];
    assert_ok(vram_alloc(rig.pool, 24 * MIB, rig.queue, &large));
    assert_ok(vram_alloc(rig.pool, 16 * MIB, rig.queue, &freed));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL));
    assert_ok(vram_free(freed, rig.queue));
    assert_ok(vram_pool_wake(rig.pool, NULL));
    spaces_are_sound(&rig);
    assert_ok(vram_queue_fill(rig.queue, large, 3, 1, 24 * MIB));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(put_to_sleep(&rig, VRAM_SLEEP_HOST, NULL)); /* contents of joined pieces */
    assert_ok(vram_pool_wake(rig.pool, NULL));
    uint8_t byte = 0;
    assert_ok(vram_queue_download(rig.queue, &byte, large + 12 * MIB, 1));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_int_equal(byte, 3);
    assert_ok(vram_free(large, rig.queue));
    for (int i = 0; i < 24; i++) {
        assert_ok(vram_alloc(rig.pool, 1500 * KIB, rig.queue, &small[i]));
        assert_ok(vram_queue_fill(rig.queue, small[i], (uint32_t)i, 1, 1500 * KIB));
    }
    spaces_are_sound(&rig);
    for (int i = 0; i < 24; i += 2) {
        assert_ok(vram_free(small[i], rig.queue));
    }
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(rig.pool, NULL, NULL));
    spaces_are_sound(&rig);
    rig_end(&rig, true);
}

/* The driver refuses a joined piece: it stays asleep, and the next try wakes it. */
TEST(a_refused_piece_wakes_later) {
    for (uint64_t nth = 1; nth < 12; nth += 5) {
        struct rig rig = rig_make("memory=64M,granule=64K", 0);
        vram_addr addr;
        assert_ok(vram_alloc(rig.pool, 32 * MIB, rig.queue, &addr));
        assert_ok(put_to_sleep(&rig, VRAM_SLEEP_DROP, NULL));
        vram_sim_fault planned = {.size = sizeof planned,
                                  .call = VRAM_SIM_CREATE,
                                  .nth = nth,
                                  .for_ever = true,
                                  .code = VRAM_SIM_OUT_OF_MEMORY};
        assert_ok(vram_sim_fault_set(rig.context, &planned));
        assert_int_not_equal(vram_pool_wake(rig.pool, NULL), VRAM_OK);
        spaces_are_sound(&rig);
        assert_int_equal(stats_of(rig.pool).asleep_bytes, 32 * MIB);
        assert_ok(vram_sim_fault_set(rig.context, NULL));
        assert_ok(vram_pool_wake(rig.pool, NULL));
        assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 32 * MIB));
        spaces_are_sound(&rig);
        rig_end(&rig, true);
    }
}

EACH_TEST(NULL, nothing_left)
