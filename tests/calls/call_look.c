/* SPDX-License-Identifier: Apache-2.0 */
/* call_look.c: what can be seen of a world; see call_look.h. */
#include "calls/call_look.h"

#include "base/error.h"
#include "track/crc32.h"
#include "vram/growth.h"

#include <stdio.h>
#include <string.h>

static void line(struct call_state *state, const char *name, const char *value) {
    int length = snprintf(state->text + state->length, sizeof state->text - state->length,
                          "%s=%s\n", name, value);
    if (length > 0 && (size_t)length < sizeof state->text - state->length) {
        state->length += (size_t)length;
    }
}

static void number(struct call_state *state, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    line(state, name, text);
}

/* Whether the object is there to be asked; if not, that is what is seen of it. */
static bool is_there(struct call_state *state, const char *name, vram_status status) {
    if (status != VRAM_OK) {
        line(state, name, vram_status_name(status));
    }
    return status == VRAM_OK;
}

#define INFO(type, name, call)                                                                     \
    type info = {.size = sizeof info};                                                             \
    if (!is_there(state, name, call)) {                                                            \
        return;                                                                                    \
    }

static unsigned char bytes_seen[4 << 20];

static void memory(struct call_state *state, const char *name, struct world *w, vram_addr addr,
                   uint64_t bytes) {
    bytes = bytes < sizeof bytes_seen ? bytes : sizeof bytes_seen;
    if (!state->contents) {
        return;
    }
    vram_status status = vram_queue_download(w->other, bytes_seen, addr, bytes);
    status = status ? status : vram_queue_wait(w->other, VRAM_TIMEOUT_DEFAULT);
    if (is_there(state, name, status)) {
        number(state, name, vr_crc32(0, bytes_seen, bytes));
    }
}

/* ---------------------------------------------------------------------- objects */

/* Only the counters of what is live: what is cached, reserved or counted in between is not a result
   of the call. */
static void look_pool(struct call_state *state, vram_pool *pool) {
    INFO(vram_pool_stats, "pool", vram_pool_stats_get(pool, &info))
    number(state, "pool.requested", info.requested_bytes);
    number(state, "@pool.allocated", info.allocated_bytes);
    number(state, "pool.live", info.live_blocks);
    number(state, "pool.live_by_calls", info.allocs - info.frees);
    number(state, "@pool.fallback", info.fallback_bytes);
    number(state, "#pool.asleep", info.asleep_bytes);
    number(state, "#pool.asleep_host", info.asleep_host_bytes);
    number(state, "pool.sealed", info.sealed_bytes);
    number(state, "pool.sleeps", info.sleeps);
    number(state, "pool.promotions", info.promotions);
    number(state, "pool.promoted", info.promoted_bytes);
    number(state, "pool.demotions", info.demotions);
    number(state, "pool.demoted", info.demoted_bytes);
    number(state, "pool.damaged", info.damaged_blocks);
}

static void look_limits(struct call_state *state, vram_pool *pool) {
    INFO(vram_limits, "limits", vram_pool_limits_get(pool, &info))
    number(state, "limits.hard", info.hard_bytes);
}

static void look_block(struct call_state *state, struct world *w, vram_addr addr) {
    INFO(vram_block_info, "block", vram_block_info_get(addr, &info))
    number(state, "block.requested", info.requested_bytes);
    number(state, "@block.held", info.held_bytes);
    number(state, "@block.kind", info.kind);
    line(state, "block.tag", info.tag ? info.tag : "");
    memory(state, addr == w->block || addr == w->made.block ? "~block.contents" : "#block.contents",
           w, addr, info.requested_bytes);
}

static void look_growth(struct call_state *state, vram_buffer *buffer) {
    INFO(vram_growth_info, "growth", vram_buffer_growth_get(buffer, &info))
    number(state, "buffer.policy", info.growth.policy);
    number(state, "@buffer.in_place", info.in_place);
    number(state, "@buffer.copies", info.copies);
    number(state, "@buffer.copied", info.copied_bytes);
}

/* With its contents, up to a few KiB: those of what a call appended are undefined. */
static void look_buffer(struct call_state *state, struct world *w, vram_buffer *buffer) {
    vram_span span;
    INFO(vram_buffer_info, "buffer", vram_buffer_info_get(buffer, &info))
    number(state, "buffer.used", info.used_bytes);
    number(state, "@buffer.capacity", info.capacity_bytes);
    number(state, "buffer.elements", info.elements);
    number(state, "buffer.resizes", info.resizes);
    number(state, "buffer.mapped", info.mapped);
    number(state, "buffer.promotions", info.promotions);
    number(state, "buffer.demotions", info.demotions);
    number(state, "@buffer.addr", info.addr);
    number(state, "@buffer.location", info.location);
    number(state, "@buffer.home", (uintptr_t)info.queue);
    number(state, "@buffer.pinned", info.pinned);
    look_growth(state, buffer);
    if (info.used_bytes > info.capacity_bytes ||
        vram_buffer_span(buffer, 0, info.used_bytes + 1, &span) != VRAM_ERR_INVALID) {
        line(state, "buffer.used", "is more than it has");
    }
    uint64_t bytes = info.used_bytes < COPY_BYTES ? info.used_bytes : COPY_BYTES;
    if (state->contents && buffer == w->buffer && !info.mapped &&
        vram_buffer_span(buffer, 0, bytes, &span) == VRAM_OK) {
        vram_status status = vram_span_download(NULL, bytes_seen, span);
        vram_queue_wait(info.queue ? info.queue : w->other, VRAM_TIMEOUT_DEFAULT);
        if (is_there(state, "~buffer.contents", status)) {
            number(state, "~buffer.contents", vr_crc32(0, bytes_seen, bytes));
        }
    }
}

static void look_scope(struct call_state *state, vram_scope *scope) {
    INFO(vram_scope_info, "scope", vram_scope_info_get(scope, &info))
    number(state, "scope.blocks", info.blocks);
    number(state, "scope.bytes", info.bytes);
    number(state, "scope.buffers", info.buffers);
    number(state, "scope.scopes", info.scopes);
}

static void look_batch(struct call_state *state, struct world *w, vram_batch *batch) {
    vram_buffer *buffer;
    INFO(vram_batch_info, "batch", vram_batch_info_get(batch, &info))
    number(state, "batch.count", info.count);
    number(state, "@batch.blocks", info.blocks);
    number(state, "@batch.shared", info.shared_bytes);
    for (uint32_t i = 0; i < info.count; i++) {
        if (is_there(state, "batch.buffer", vram_batch_get(batch, i, &buffer))) {
            look_buffer(state, w, buffer);
        }
    }
    line(state, "batch.end", vram_status_name(vram_batch_get(batch, info.count, &buffer)));
}

static void look_named(struct call_state *state, vram_named *named) {
    INFO(vram_named_stats, "named", vram_named_stats_get(named, &info))
    number(state, "named.buffers", info.buffers);
    number(state, "named.used", info.used_bytes);
    number(state, "@named.total", info.total_bytes);
    number(state, "named.created", info.created);
    number(state, "named.removed", info.removed);
    number(state, "named.resizes", info.resizes);
}

static void look_ring(struct call_state *state, vram_ring *ring) {
    INFO(vram_ring_stats, "ring", vram_ring_stats_get(ring, &info))
    number(state, "~ring.sent", info.sent);
    number(state, "ring.received", info.received);
    number(state, "ring.crc_errors", info.crc_errors);
    number(state, "~ring.stopped", info.stopped);
    number(state, "ring.corrupt", info.corrupt);
    if (state->contents) {
        line(state, "#ring.check", vram_status_name(vram_ring_check(ring)));
    }
}

static void look_readback(struct call_state *state, vram_readback *readback) {
    INFO(vram_readback_stats, "readback", vram_readback_stats_get(readback, &info))
    number(state, "readback.started", info.started);
    number(state, "readback.arrived", info.arrived);
    number(state, "readback.failed", info.failed);
    number(state, "readback.bytes", info.bytes);
}

static void look_feed(struct call_state *state, vram_feed *feed) {
    INFO(vram_feed_stats, "feed", vram_feed_stats_get(feed, &info))
    number(state, "feed.submitted", info.submitted);
    number(state, "feed.bytes", info.bytes);
}

static void look_scheduler(struct call_state *state, vram_scheduler *scheduler) {
    INFO(vram_scheduler_stats, "scheduler", vram_scheduler_stats_get(scheduler, &info))
    number(state, "scheduler.pending", info.pending);
    number(state, "scheduler.weights", info.weights);
    number(state, "scheduler.weight_bytes", info.weight_bytes);
}

static void look_labels(struct call_state *state, vram_labels *labels) {
    INFO(vram_labels_info, "labels", vram_labels_info_get(labels, &info))
    number(state, "@labels.entries", info.entries);
    number(state, "@labels.bytes", info.bytes);
}

static void look_share(struct call_state *state, vram_share *share) {
    INFO(vram_share_info, "share", vram_share_info_get(share, &info))
    number(state, "share.parts", info.parts);
    number(state, "share.bytes", info.bytes);
    number(state, "@share.version", info.version);
}

static void look_foreign(struct call_state *state, vram_device *device) {
    INFO(vram_foreign_totals, "foreign", vram_foreign_totals_get(device, &info))
    number(state, "foreign.count", info.count);
    number(state, "foreign.bytes", info.bytes);
}

/* What a device has given out for others than pools, unless the row's object keeps memory there for
   its next call. */
static void look_device(struct call_state *state, struct world *w) {
    vram_pool_stats pools = {.size = sizeof pools};
    INFO(vram_memory_info, "device", vram_memory_info_get(w->device, &info))
    if (w->looks_at_device &&
        is_there(state, "device.pools", vram_device_stats_get(w->device, &pools))) {
        number(state, "device.outside_pools",
               info.held_bytes - pools.reserved_bytes - pools.other_bytes);
    }
    look_foreign(state, w->device);
}

static void look_coarse(struct call_state *state, struct world *w, const char *name,
                        vram_addr addr) {
    INFO(vram_native_info, name, vram_native(addr, &info))
    number(state, name, info.bytes);
    number(state, name, info.kind);
    memory(state, "#coarse.contents", w, addr, info.bytes);
}

/* Of a range whether memory is there. */
static void look_range(struct call_state *state, struct world *w) {
    char byte;
    if (state->contents) {
        vram_status status = vram_queue_download(w->other, &byte, w->range, 1);
        line(state, "~range.mapped", vram_status_name(status));
        vram_queue_wait(w->other, VRAM_TIMEOUT_DEFAULT);
    }
}

/* Objects that a call makes are there only when it succeeds. */
static void look_made(struct call_state *state, const struct world *w) {
    const void *const made[] = {
        w->made.device,     w->made.queue, w->made.kernel,  w->made.physical,  w->made.set,
        w->made.readback,   w->made.feed,  w->made.pool,    w->made.buffer,    w->made.scope,
        w->made.batch,      w->made.named, w->made.ring,    w->made.scheduler, w->made.weights,
        w->made.attachment, w->made.watch, w->made.monitor, w->made.trace,     w->made.share,
        w->made.lease};
    const vram_addr addresses[] = {w->made.memory, w->made.range, w->made.block};
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        bits |= (uint64_t)(made[i] != NULL) << i;
    }
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        bits |= (uint64_t)(addresses[i] != 0) << (i + 32);
    }
    number(state, "made", bits);
}

void call_look(struct world *w, bool contents, struct call_state *state) {
    vram_error error;
    vr_error_save(&error);
    state->length = 0;
    state->text[0] = 0;
    state->contents = contents;
    if (contents) {
        world_drain(w);
    }
    number(state, "~host", vr_crc32(0, w->host, w->host_bytes));
    look_made(state, w);
    look_device(state, w);
    look_pool(state, w->pool);
    look_limits(state, w->pool);
    look_block(state, w, w->block);
#define LOOK_AT(object, call)                                                                      \
    if (object) {                                                                                  \
        call;                                                                                      \
    }
    LOOK_AT(w->spare, look_block(state, w, w->spare))
    LOOK_AT(w->made.block, look_block(state, w, w->made.block))
    for (size_t i = 0; i < sizeof w->blocks / sizeof *w->blocks; i++) {
        LOOK_AT(w->blocks[i], look_block(state, w, w->blocks[i]))
    }
    LOOK_AT(w->memory, look_coarse(state, w, "memory", w->memory))
    LOOK_AT(w->made.memory, look_coarse(state, w, "made.memory", w->made.memory))
    LOOK_AT(w->range, look_range(state, w))
    LOOK_AT(w->buffer, look_buffer(state, w, w->buffer))
    LOOK_AT(w->made.buffer, look_buffer(state, w, w->made.buffer))
    LOOK_AT(w->scope, look_scope(state, w->scope))
    LOOK_AT(w->batch, look_batch(state, w, w->batch))
    LOOK_AT(w->named, look_named(state, w->named))
    LOOK_AT(w->ring, look_ring(state, w->ring))
    LOOK_AT(w->readback, look_readback(state, w->readback))
    LOOK_AT(w->feed, look_feed(state, w->feed))
    LOOK_AT(w->scheduler, look_scheduler(state, w->scheduler))
    LOOK_AT(w->labels, look_labels(state, w->labels))
    LOOK_AT(w->share_pool, look_pool(state, w->share_pool))
    LOOK_AT(w->share, look_share(state, w->share))
    vr_error_restore(&error);
}

/* ------------------------------------------------------------------- comparisons */

static const char *next_line(const char *text, const char *ignored) {
    while (*text && strchr(ignored, *text)) {
        text = strchr(text, '\n') + 1;
    }
    return text;
}

const char *call_difference(const struct call_state *expected, const struct call_state *found,
                            const char *ignored) {
    static char text[300];
    const char *a = next_line(expected->text, ignored), *b = next_line(found->text, ignored);
    while (*a || *b) {
        int one = (int)strcspn(a, "\n"), other = (int)strcspn(b, "\n");
        if (one != other || strncmp(a, b, (size_t)one) != 0) {
            snprintf(text, sizeof text, "expected %.*s, found %.*s", one, a, other, b);
            return text;
        }
        a = next_line(a + one + 1, ignored);
        b = next_line(b + other + 1, ignored);
    }
    return NULL;
}
