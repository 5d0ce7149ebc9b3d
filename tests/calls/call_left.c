/* SPDX-License-Identifier: Apache-2.0 */
/* call_left.c: ends a world, and checks what is left when all calls have returned. */
#include "calls/call_table.h"

#include "base/handle.h"
#include "base/memory.h"
#include "core/pool/pool_calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char finding[400];

__attribute__((format(printf, 1, 2))) static const char *found(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(finding, sizeof finding, format, list);
    va_end(list);
    return finding;
}

static bool all_are(const unsigned char *bytes, unsigned char value) {
    for (size_t i = 0; i < COPY_BYTES; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

/* Ends those of a world or of a row: what has ended already says that it is stale. */
#define END_OBJECTS(of)                                                                            \
    do {                                                                                           \
        vram_lease_close((of)->lease);                                                             \
        vram_share_close((of)->share);                                                             \
        vram_trace_end((of)->trace);                                                               \
        vram_monitor_end((of)->monitor);                                                           \
        vram_watch_end((of)->watch);                                                               \
        vram_labels_destroy((of)->labels);                                                         \
        vram_attachment_end((of)->attachment);                                                     \
        vram_weights_destroy((of)->weights);                                                       \
        vram_scheduler_destroy((of)->scheduler);                                                   \
        vram_ring_destroy((of)->ring);                                                             \
        vram_readback_destroy((of)->readback);                                                     \
        vram_feed_destroy((of)->feed);                                                             \
        vram_named_destroy((of)->named);                                                           \
        vram_batch_destroy((of)->batch);                                                           \
        vram_scope_end((of)->scope);                                                               \
        vram_buffer_destroy((of)->buffer);                                                         \
        vram_async_end(&(of)->async);                                                              \
    } while (0)

/* Everything but pool, device and context. */
static void end_objects(struct world *w) {
    END_OBJECTS(&w->made);
    END_OBJECTS(w);
    vram_share_close(w->exported);
    vram_pool_destroy(w->share_pool);
    vram_capture_end(w->captured);
    vram_queue_end(w->adopted);
    if (w->made.pinned) {
        vram_pinned_end(w->device, call_registered[0], sizeof call_registered[0]);
    }
}

static bool is_underway(vram_readback *readback) {
    vram_readback_stats stats = {.size = sizeof stats};
    return vram_readback_stats_get(readback, &stats) == VRAM_OK &&
           stats.started > stats.arrived + stats.failed;
}

void world_drain(struct world *w) {
    vram_queue *const queues[] = {w->queue, w->other, w->made.queue};
    vram_stream_set_wait(w->set, VRAM_TIMEOUT_DEFAULT);
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
        vram_queue_wait(queues[i], VRAM_TIMEOUT_DEFAULT);
    }
    /* Its own queue: a slot whose start failed is free once that has come so far. */
    for (int i = 0; w->readback && (i < 40 || (i < 1000 && is_underway(w->readback))); i++) {
        vram_readback_poll(w->readback, 1);
        usleep(i < 40 ? 0 : 1000);
    }
}

/* The contents of the block, if a queue and a device are left to read it. */
static const char *check_block(struct world *w, vram_status call, uint32_t flags) {
    static unsigned char now[COPY_BYTES];
    if (!(flags & (ROW_UPLOAD | ROW_DOWNLOAD)) ||
        vram_queue_download(w->other, now, w->block, sizeof now) != VRAM_OK) {
        return NULL;
    }
    vram_queue_wait(w->other, VRAM_TIMEOUT_DEFAULT);
    bool written = call == VRAM_OK && (flags & ROW_UPLOAD);
    if (!all_are(now, written ? UPLOAD_BYTE : SOURCE_BYTE)) {
        return found("the block's contents are wrong after %s: it begins with 0x%02x 0x%02x",
                     vram_status_name(call), now[0], now[1]);
    }
    return NULL;
}

/* Host memory that a download was given; every queue has ended. */
static const char *check_host(const struct world *w, vram_status call, uint32_t flags) {
    if (!(flags & ROW_DOWNLOAD)) {
        return NULL;
    }
    if (!all_are(w->host, call == VRAM_OK ? SOURCE_BYTE : FAILED_BYTE)) {
        return found(call == VRAM_OK
                         ? "a download that succeeded has not brought the contents (0x%02x)"
                         : "host memory was written after the call had failed (0x%02x)",
                     w->host[0] == FAILED_BYTE ? w->host[COPY_BYTES - 1] : w->host[0]);
    }
    return NULL;
}

/* A pool of which nothing is used holds nothing once it is trimmed. */
static const char *check_pool(struct world *w, vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    if (!pool || vram_pool_stats_get(pool, &stats) != VRAM_OK) {
        return NULL; /* it has ended */
    }
    /* A trim does not wait for queues but marks their work: once the marks have passed, a second
       trim frees everything. */
    vram_status trimmed = vram_pool_trim(pool, NULL, NULL);
    world_drain(w);
    trimmed = trimmed ? trimmed : vram_pool_trim(pool, NULL, NULL);
    vram_pool_stats_get(pool, &stats);
    for (int i = 0; i < 1000 && stats.reserved_bytes && !w->refused; i++) {
        usleep(1000); /* a queue of the library's own */
        trimmed = vram_pool_trim(pool, NULL, NULL);
        vram_pool_stats_get(pool, &stats);
    }
    if (w->refused) {
        stats.reserved_bytes = stats.other_bytes = 0;
    }
    if (trimmed != VRAM_OK || stats.reserved_bytes || stats.other_bytes || stats.live_blocks ||
        stats.requested_bytes || stats.cached_bytes || stats.fallback_bytes) {
        return found("an idle and trimmed pool (%s) has %llu bytes reserved, %llu other, %llu "
                     "cached, %llu live blocks",
                     vram_status_name(trimmed), (unsigned long long)stats.reserved_bytes,
                     (unsigned long long)stats.other_bytes, (unsigned long long)stats.cached_bytes,
                     (unsigned long long)stats.live_blocks);
    }
    vram_status status = vram_pool_destroy(pool);
    return status == VRAM_OK ? NULL : found("vram_pool_destroy is %s", vram_status_name(status));
}

const char *world_driver_left(const char *backend, vram_context *context) {
    vram_sim_state state = {.size = sizeof state};
    char text[240] = "";
    if (strcmp(backend, "sim") != 0 || vram_sim_state_get(context, &state) != VRAM_OK) {
        return NULL;
    }
    vram_sim_violation(context, 0, text, sizeof text);
    if (state.violations || state.live_bytes || state.live_handles) {
        return found("the driver has %llu bytes and %llu handles left, and saw %llu breaches: %s",
                     (unsigned long long)state.live_bytes, (unsigned long long)state.live_handles,
                     (unsigned long long)state.violations, text);
    }
    return NULL;
}

/* The end of an export whose reader has just gone is the server's, in a thread of its own. */
static void await_servers(const struct world *w) {
    for (int i = 0;
         w->share_pool && i < 2000 &&
         (vr_mem_live_bytes() != w->host_bytes_before || vr_handle_live(0) != w->handles_before);
         i++) {
        usleep(1000);
    }
}

static const char *check_library(struct world *w) {
    await_servers(w);
    int64_t bytes = (int64_t)(vr_mem_live_bytes() - w->host_bytes_before);
    int64_t handles = (int64_t)(vr_handle_live(0) - w->handles_before);
    return bytes || handles ? found("the library keeps %lld bytes and %lld handles",
                                    (long long)bytes, (long long)handles)
                            : NULL;
}

void world_end_made(struct world *w) {
    struct world made = {.device = w->device, .made = w->made};
    end_objects(&made);
    for (size_t i = 0; i < sizeof w->blocks / sizeof *w->blocks; i++) {
        vr_free(w->pool, w->blocks[i], NULL);
    }
    vr_free(w->pool, made.made.block, NULL);
    vram_pool_destroy(made.made.pool);
    vram_queue_destroy(made.made.queue);
    vram_stream_set_destroy(made.made.set);
    vram_kernel_destroy(made.made.kernel);
    vram_physical_destroy(made.made.physical);
    vram_range_destroy(w->device, made.made.range);
    vram_device_free(w->device, made.made.memory);
    vram_device_close(made.made.device);
    vram_context_destroy(made.made.context);
}

#define FIRST(check) (text = text ? text : (check))

const char *world_end(struct world *w, vram_status call, uint32_t flags) {
    const char *text = NULL;
    end_objects(w);
    world_drain(w);
    if (!w->failed) {
        FIRST(check_block(w, call, flags));
    }
    vram_addr blocks[] = {w->block,     w->spare,     w->staged,    w->made.block,
                          w->blocks[0], w->blocks[1], w->blocks[2], w->blocks[3]};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        vram_free(blocks[i], NULL);
    }
    FIRST(check_pool(w, w->pool));
    FIRST(check_pool(w, w->made.pool));
    vram_queue_destroy(w->queue);
    vram_queue_destroy(w->made.queue);
    vram_queue_destroy(w->other);
    vram_stream_set_destroy(w->set);
    vram_stream_set_destroy(w->made.set);
    vram_kernel_destroy(w->kernel);
    vram_kernel_destroy(w->busy);
    vram_kernel_destroy(w->made.kernel);
    FIRST(check_host(w, call, flags));
    vram_device_close(w->device);
    vram_context_destroy(w->made.context);
    vram_device_close(w->made.device);
    vram_device_close(w->peer);
    FIRST(world_driver_left(w->backend, w->context));
    vram_context_destroy(w->context);
    return FIRST(check_library(w));
}

const char *world_drop(struct world *w) {
    end_objects(w);
    vram_context_destroy(w->made.context);
    vram_context_destroy(w->context);
    return check_library(w);
}
