/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_block_names.c: a tracked pool's blocks are called what their buffers are, in every kind of
 * memory.
 */
#include "unit/mem_world.h"
#include "vram/growth.h"
#include "vram/limits.h"
#include "vram/stats.h"

static vram_pool *tracked_pool(vram_device *device) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static vram_live_block live_of(vram_buffer *buffer) {
    vram_live_block block = {.size = sizeof block};
    vram_addr addr;
    assert_ok(vram_buffer_addr(buffer, &addr));
    assert_ok(vram_live_get(addr, &block));
    return block;
}

/* Whatever kind of memory they lie in, and wherever they move to. */
TEST(buffers_of_all_kinds_have_their_names, "sim:memory=64M,real=on") {
    static const struct {
        vram_buffer_kind kind;
        vram_memory_kind lies_in;
    } cases[] = {{VRAM_BUFFER_DEVICE, VRAM_MEMORY_DEVICE},
                 {VRAM_BUFFER_PINNED, VRAM_MEMORY_PINNED},
                 {VRAM_BUFFER_MANAGED, VRAM_MEMORY_MANAGED},
                 {VRAM_BUFFER_MAPPED, VRAM_MEMORY_DEVICE},
                 {VRAM_BUFFER_FALLBACK, VRAM_MEMORY_DEVICE}};
    vram_pool *pool = tracked_pool(rig->device);
    vram_buffer *buffer, *hog;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_buffer_options options = {.size = sizeof options,
                                       .kind = cases[i].kind,
                                       .precision = VRAM_PRECISION_FP32,
                                       .name = "momenta",
                                       .tag = "kinds"};
        assert_ok(vram_buffer_create(pool, 4000, rig->queue, &options, &buffer));
        vram_live_block block = live_of(buffer);
        assert_int_equal(block.kind, cases[i].lies_in);
        assert_string_equal(block.name, "momenta");
        assert_int_equal(block.elements, 1000);
        assert_ok(vram_buffer_resize(buffer, 3 << 20, rig->queue));
        assert_string_equal(live_of(buffer).name, "momenta");
        if (cases[i].kind == VRAM_BUFFER_FALLBACK) {
            assert_ok(vram_buffer_demote(buffer, rig->queue));
            assert_int_equal(live_of(buffer).kind, VRAM_MEMORY_PINNED);
            assert_string_equal(live_of(buffer).name, "momenta");
            assert_int_equal(live_of(buffer).elements, (3 << 20) / 4);
            assert_ok(vram_buffer_promote(buffer, rig->queue));
            assert_string_equal(live_of(buffer).name, "momenta");
        }
        assert_ok(vram_buffer_destroy(buffer));
    }
    /* One that falls back at once. */
    vram_buffer_options options = {
        .size = sizeof options, .kind = VRAM_BUFFER_FALLBACK, .name = "late"};
    assert_ok(vram_buffer_create(pool, 48 << 20, rig->queue, NULL, &hog));
    assert_ok(vram_buffer_create(pool, 24 << 20, rig->queue, &options, &buffer));
    assert_int_not_equal(live_of(buffer).kind, VRAM_MEMORY_DEVICE);
    assert_string_equal(live_of(buffer).name, "late");
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_buffer_destroy(hog));
}
