/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_state.h: everything that a program can observe of an object, as text: taken before a call
 * that may fail, and compared after it.
 *
 * A line is one thing: "name=value". Contents are there as a checksum. Lines that begin with '@'
 * are implementation choices (addresses, kinds of memory, copies made). A call that succeeds after
 * an internal failure may make other choices; after a failed call they must be unchanged too. Lines
 * that begin with '~' are the target of a call that may leave a part of its work done.
 */
#ifndef TEST_OBJECT_STATE_H
#define TEST_OBJECT_STATE_H

#include "track/crc32.h"
#include "unit/device_world.h"
#include "vram/batch.h"
#include "vram/growth.h"
#include "vram/scope.h"

#include <stdio.h>
#include <stdlib.h>

struct object_state {
    char text[4096];
    size_t length;
    bool contents; /* are read; not from a lost device */
};

static inline void state_line(struct object_state *state, const char *name, const char *value) {
    int length = snprintf(state->text + state->length, sizeof state->text - state->length,
                          "%s=%s\n", name, value);
    assert_true(length > 0 && (size_t)length < sizeof state->text - state->length);
    state->length += (size_t)length;
}

static inline void state_number(struct object_state *state, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    state_line(state, name, text);
}

static inline void state_bytes(struct object_state *state, const char *name, const void *data,
                               uint64_t bytes) {
    state_number(state, name, state->contents ? vr_crc32(0, data, bytes) : 0);
}

/* Contents of device memory, behind all work of the queue. */
static inline void state_memory(struct object_state *state, const char *name, vram_queue *queue,
                                vram_addr addr, uint64_t bytes) {
    unsigned char *data = calloc(1, bytes ? bytes : 1);
    assert_non_null(data);
    if (state->contents) {
        assert_ok(vram_queue_download(queue, data, addr, bytes));
        assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    }
    state_bytes(state, name, data, bytes);
    free(data);
}

/* Only the counters of what is live: what is cached, reserved or counted in between is not a result
   of the call. */
static inline void state_pool(struct object_state *state, vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(pool, &stats));
    state_number(state, "pool.requested", stats.requested_bytes);
    state_number(state, "@pool.allocated", stats.allocated_bytes);
    state_number(state, "pool.live", stats.live_blocks);
    state_number(state, "pool.live_by_calls", stats.allocs - stats.frees);
    state_number(state, "@pool.other", stats.other_bytes);
    state_number(state, "@pool.fallback", stats.fallback_bytes);
    state_number(state, "pool.asleep", stats.asleep_bytes);
    state_number(state, "pool.asleep_host", stats.asleep_host_bytes);
    state_number(state, "pool.sealed", stats.sealed_bytes);
    state_number(state, "pool.sleeps", stats.sleeps);
    state_number(state, "pool.wakes", stats.wakes);
    state_number(state, "pool.promotions", stats.promotions);
    state_number(state, "pool.promoted", stats.promoted_bytes);
    state_number(state, "pool.demotions", stats.demotions);
    state_number(state, "pool.demoted", stats.demoted_bytes);
    state_number(state, "pool.damaged", stats.damaged_blocks);
}

static inline void state_block(struct object_state *state, vram_addr addr) {
    vram_block_info info = {.size = sizeof info};
    state_number(state, "block.live", vram_block_info_get(addr, &info) == VRAM_OK);
    state_number(state, "block.requested", info.requested_bytes);
    state_number(state, "@block.held", info.held_bytes);
    state_number(state, "@block.kind", info.kind);
    state_line(state, "block.tag", info.tag ? info.tag : "");
}

/* What a device has given out, by its own account and by the simulated driver's. A lost driver has
   nothing more. */
static inline void state_device(struct object_state *state, struct rig *rig) {
    vram_memory_info info = {.size = sizeof info};
    assert_ok(vram_memory_info_get(rig->device, &info));
    state_number(state, "device.held", info.held_bytes);
    state_number(state, "device.held_count", info.held_count);
    if (state->contents) {
        state_number(state, "driver.bytes", sim_state(rig).live_bytes);
        state_number(state, "driver.handles", sim_state(rig).live_handles);
    }
}

/* With the first `most` bytes of its contents. */
static inline void state_buffer(struct object_state *state, vram_buffer *buffer, vram_queue *queue,
                                uint64_t most) {
    vram_buffer_info info = {.size = sizeof info};
    vram_growth_info growth = {.size = sizeof growth};
    vram_span span;
    assert_ok(vram_buffer_info_get(buffer, &info));
    assert_ok(vram_buffer_growth_get(buffer, &growth));
    state_number(state, "buffer.used", info.used_bytes);
    state_number(state, "@buffer.capacity", info.capacity_bytes);
    state_number(state, "buffer.elements", info.elements);
    state_number(state, "buffer.resizes", info.resizes);
    state_number(state, "buffer.mapped", info.mapped);
    state_number(state, "buffer.promotions", info.promotions);
    state_number(state, "buffer.demotions", info.demotions);
    state_number(state, "@buffer.addr", info.addr);
    state_number(state, "@buffer.location", info.location);
    state_number(state, "@buffer.home", (uintptr_t)info.queue);
    state_number(state, "@buffer.pinned", info.pinned);
    state_number(state, "buffer.policy", growth.growth.policy);
    state_number(state, "@buffer.in_place", growth.in_place);
    state_number(state, "@buffer.copies", growth.copies);
    state_number(state, "@buffer.copied", growth.copied_bytes);
    assert_true(info.used_bytes <= info.capacity_bytes);
    assert_int_equal(vram_buffer_span(buffer, 0, info.used_bytes + 1, &span), VRAM_ERR_INVALID);
    uint64_t bytes = info.used_bytes < most ? info.used_bytes : most;
    assert_ok(vram_buffer_span(buffer, 0, bytes, &span));
    unsigned char *data = calloc(1, bytes + 1);
    assert_non_null(data);
    if (state->contents) {
        assert_ok(vram_span_download(NULL, data, span));
        assert_ok(vram_queue_wait(info.queue ? info.queue : queue, VRAM_TIMEOUT_DEFAULT));
    }
    state_bytes(state, "~buffer.contents", data, bytes);
    free(data);
}

static inline void state_scope(struct object_state *state, vram_scope *scope) {
    vram_scope_info info = {.size = sizeof info};
    assert_ok(vram_scope_info_get(scope, &info));
    state_number(state, "scope.blocks", info.blocks);
    state_number(state, "scope.bytes", info.bytes);
    state_number(state, "scope.buffers", info.buffers);
    state_number(state, "scope.scopes", info.scopes);
}

static inline void state_batch(struct object_state *state, vram_batch *batch, vram_queue *queue) {
    vram_batch_info info = {.size = sizeof info};
    vram_buffer *buffer;
    assert_ok(vram_batch_info_get(batch, &info));
    state_number(state, "batch.count", info.count);
    state_number(state, "@batch.blocks", info.blocks);
    state_number(state, "@batch.shared", info.shared_bytes);
    assert_int_equal(vram_batch_get(batch, info.count, &buffer), VRAM_ERR_INVALID);
    for (uint32_t i = 0; i < info.count; i++) {
        assert_ok(vram_batch_get(batch, i, &buffer));
        state_buffer(state, buffer, queue, UINT64_MAX);
    }
}

/* The same, without lines that begin with one of `ignored`. */
static inline struct object_state state_without(const struct object_state *state,
                                                const char *ignored) {
    struct object_state kept = {.length = 0};
    for (const char *line = state->text; *line; line = strchr(line, '\n') + 1) {
        size_t length = (size_t)(strchr(line, '\n') + 1 - line);
        if (!strchr(ignored, *line)) {
            memcpy(kept.text + kept.length, line, length);
            kept.length += length;
        }
    }
    return kept;
}

static inline bool state_differs(const struct object_state *expected,
                                 const struct object_state *found, const char *ignored) {
    struct object_state left = state_without(expected, ignored);
    struct object_state right = state_without(found, ignored);
    const char *a = left.text, *b = right.text;
    while (*a && *b) { /* line by line: the same things, in the same order */
        int one = (int)strcspn(a, "\n"), other = (int)strcspn(b, "\n");
        if (one != other || strncmp(a, b, (size_t)one) != 0) {
            print_error("expected %.*s, found %.*s\n", one, a, other, b);
        }
        a += one + 1;
        b += other + 1;
    }
    return strcmp(left.text, right.text) != 0;
}

#endif
