/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_world.h: what the tests of buffers share: a pool on a small simulated device that it may
 * use whole, and contents that follow from a seed.
 */
#ifndef TEST_BUFFER_WORLD_H
#define TEST_BUFFER_WORLD_H

#include "byte_units.h"
#include "mem/buffer_object.h"
#include "unit/device_world.h"
#include "unit/pool_flags.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/buffer.h"
#include "vram/limits.h"
#include "vram/oom.h"

#include <stdio.h>
#include <stdlib.h>

static inline vram_pool *pool_whole(vram_device *device) {
    vram_pool *pool;
    whole_device(device);
    assert_ok(test_pool_create(device, NULL, &pool));
    return pool;
}

static inline vram_buffer *buffer_kind(vram_pool *pool, uint64_t bytes, vram_buffer_kind kind,
                                       vram_queue *queue) {
    vram_buffer_options options = {.size = sizeof options, .kind = kind};
    vram_buffer *buffer = NULL;
    assert_ok(vram_buffer_create(pool, bytes, queue, &options, &buffer));
    return buffer;
}

static inline vram_buffer_info info_of(vram_buffer *buffer) {
    vram_buffer_info info = {.size = sizeof info};
    assert_ok(vram_buffer_info_get(buffer, &info));
    return info;
}

/* An idle pool, once trimmed, has nothing left. */
static inline void expect_pool_empty(vram_pool *pool) {
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.other_bytes, 0);
    assert_int_equal(stats.fallback_bytes, 0);
}

static inline uint64_t held_by(struct rig *rig) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(rig->device, &info));
    return info.held_bytes;
}

static inline vram_span all_of(vram_buffer *buffer) {
    vram_span span;
    assert_ok(vram_buffer_span(buffer, 0, info_of(buffer).used_bytes, &span));
    return span;
}

static inline uint8_t *bytes_of(uint64_t seed, uint64_t count) {
    uint8_t *bytes = malloc(count ? count : 1);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)((i * 131 + seed * 977) >> 3);
    }
    return bytes;
}

/* Writes the bytes of a seed into the whole buffer, and waits. */
static inline void write_all(vram_buffer *buffer, uint64_t seed, vram_queue *queue) {
    uint8_t *bytes = bytes_of(seed, info_of(buffer).used_bytes);
    assert_ok(vram_span_upload(queue, all_of(buffer), bytes));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    free(bytes);
}

/* Reads the whole buffer and compares. */
static inline void expect_all(vram_buffer *buffer, uint64_t seed, vram_queue *queue) {
    uint64_t count = info_of(buffer).used_bytes;
    uint8_t *bytes = bytes_of(seed, count), *found = malloc(count ? count : 1);
    assert_non_null(found);
    assert_ok(vram_span_download(queue, found, all_of(buffer)));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_memory_equal(found, bytes, count);
    free(found);
    free(bytes);
}

#endif
