/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_world.h: what the tests of sleeping pools share: a simulated device, and a pool on it with
 * blocks whose contents are known.
 */
#ifndef TEST_SLEEP_WORLD_H
#define TEST_SLEEP_WORLD_H

#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "byte_units.h"
#include "core/object/pool_object.h"
#include "unit/assert_ok.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#include <string.h>

enum { BLOCKS = 6 };

static const uint64_t sizes[BLOCKS] = {160 * KIB, 20 * KIB, 96 * KIB + 512,
                                       288 * KIB, 700,      64 * KIB};
static const char *const tags[BLOCKS] = {"model/a", "model/b", "cache", "model", "cache/x", NULL};

struct rig {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addrs[BLOCKS];
};

static inline struct rig rig_make(const char *sim, uint32_t flags) {
    struct rig rig = {.pool = NULL};
    vram_context_options wanted = {.size = sizeof wanted, .backends = "sim", .sim = sim};
    vram_pool_options options = {.size = sizeof options, .flags = flags, .name = "sleeper"};
    assert_ok(vram_context_create(&wanted, &rig.context));
    assert_ok(vram_device_open(rig.context, 0, &rig.device));
    assert_ok(vram_queue_create(rig.device, NULL, &rig.queue));
    assert_ok(vram_pool_create(rig.device, &options, &rig.pool));
    return rig;
}

static inline vram_sim_state sim_state(const struct rig *rig) {
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_sim_state_get(rig->context, &state));
    return state;
}

static inline void spaces_are_sound(const struct rig *rig) {
    char text[200] = "";
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, rig->pool);
    assert_non_null(pool);
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        if (!vr_space_check(pool->spaces[part], text, sizeof text)) {
            print_error("%s\n", text);
        }
    }
    vr_mutex_unlock(&pool->lock);
    vr_handle_unpin(pool->object.handle);
    assert_string_equal(text, "");
}

static inline void rig_end(struct rig *rig, bool complete) {
    char text[200] = "";
    vram_device_close(rig->device);
    (void)vram_sim_violation(rig->context, 0, text, sizeof text);
    assert_string_equal(text, "");
    if (complete) {
        assert_int_equal(sim_state(rig).live_bytes, 0);
        assert_int_equal(sim_state(rig).live_handles, 0);
    }
    vram_context_destroy(rig->context);
}

static inline int nothing_left(void) {
    vr_mem_fail_at(0, false);
    vr_option_reset();
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    return vr_mem_live_bytes() == 0 && vr_handle_live(0) == 0 && vr_locks_live() == 0 ? 0 : -1;
}

/* Blocks of all sizes, with tags, each filled with its own number at both ends. */
static inline void fill(struct rig *rig) {
    for (int i = 0; i < BLOCKS; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = tags[i]};
        assert_ok(vram_alloc_with(rig->pool, sizes[i], rig->queue, &wish, &rig->addrs[i]));
        assert_ok(vram_queue_fill(rig->queue, rig->addrs[i], (uint32_t)(i + 1), 1, sizes[i]));
    }
}

static inline void expect_contents(const struct rig *rig, int i) {
    uint8_t found[2][16];
    assert_ok(vram_queue_download(rig->queue, found[0], rig->addrs[i], 16));
    assert_ok(vram_queue_download(rig->queue, found[1], rig->addrs[i] + sizes[i] - 16, 16));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    for (int j = 0; j < 32; j++) {
        assert_int_equal(found[j / 16][j % 16], i + 1);
    }
}

static inline vram_status put_to_sleep(const struct rig *rig, vram_sleep_contents contents,
                                       const char *tag) {
    vram_sleep_options options = {.size = sizeof options, .contents = contents, .tag = tag};
    return vram_pool_sleep(rig->pool, &options);
}

static inline vram_status native_of(vram_addr addr) {
    vram_native_info info = {.size = sizeof info};
    return vram_native(addr, &info);
}

static inline bool is_usable(const struct rig *rig, int i) {
    bool filled = vram_queue_fill(rig->queue, rig->addrs[i], 77, 1, 1) == VRAM_OK;
    assert_int_equal(native_of(rig->addrs[i]), filled ? VRAM_OK : VRAM_ERR_BUSY);
    if (filled) {
        assert_ok(vram_queue_fill(rig->queue, rig->addrs[i], (uint32_t)(i + 1), 1, 1));
    }
    return filled;
}

#endif
