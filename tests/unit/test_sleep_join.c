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

EACH_TEST(NULL, nothing_left)
