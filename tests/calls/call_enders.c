/* SPDX-License-Identifier: Apache-2.0 */
/* call_enders.c: the calls that end objects, and which of them can end the objects of a row. */
#include "calls/call_table.h"

#define ENDER(call, ...)                                                                           \
    static vram_status call##_end(struct world *w) {                                               \
        return call(__VA_ARGS__);                                                                  \
    }

ENDER(vram_context_destroy, w->context)
ENDER(vram_device_close, w->device)
ENDER(vram_queue_destroy, w->queue)
ENDER(vram_stream_set_destroy, w->set)
ENDER(vram_readback_destroy, w->readback)
ENDER(vram_feed_destroy, w->feed)
ENDER(vram_kernel_destroy, w->kernel)
ENDER(vram_queue_end, w->adopted)
ENDER(vram_capture_end, w->captured)
ENDER(vram_device_free, w->device, w->memory)
ENDER(vram_range_destroy, w->device, w->range)
ENDER(vram_physical_destroy, w->physical)
ENDER(vram_pinned_forget, w->device, call_registered[0], sizeof call_registered[0])
ENDER(vram_pool_destroy, w->pool)
ENDER(vram_free, w->spare, w->queue)
ENDER(vram_buffer_destroy, w->buffer)
ENDER(vram_scope_end, w->scope)
ENDER(vram_batch_destroy, w->batch)
ENDER(vram_named_destroy, w->named)
ENDER(vram_ring_destroy, w->ring)
ENDER(vram_scheduler_destroy, w->scheduler)
ENDER(vram_weights_destroy, w->weights)
ENDER(vram_labels_destroy, w->labels)
ENDER(vram_attachment_end, w->attachment)
ENDER(vram_watch_end, w->watch)
ENDER(vram_monitor_end, w->monitor)
ENDER(vram_trace_end, w->trace)
ENDER(vram_oom_callback_remove, w->device, w->callback)
ENDER(vram_foreign_untrack, w->device, w->foreign)
ENDER(vram_share_close, w->share)
ENDER(vram_lease_close, w->lease)

static vram_status destroy_share_pool_end(struct world *w) {
    return vram_pool_destroy(w->share_pool);
}

static vram_status close_peer_end(struct world *w) {
    return vram_device_close(w->peer);
}

/* A copy of the handle: the row has the other, as programs with two owners do. */
static vram_status vram_async_end_end(struct world *w) {
    vram_async copy = w->async;
    return vram_async_end(&copy);
}

static vram_status vram_readback_release_end(struct world *w) {
    return vram_readback_release(w->readback, w->frame.number);
}

static vram_status vram_feed_release_end(struct world *w) {
    return vram_feed_release(w->feed, w->feed_block.number);
}

static vram_status vram_named_remove_end(struct world *w) {
    return vram_named_remove(w->named, "a");
}

enum {
    END_CONTEXT,
    END_DEVICE,
    END_PEER,
    END_POOL,
    END_QUEUE,
    END_STREAM_SET,
    END_ADOPTION,
    END_CAPTURE,
    END_KERNEL,
    END_MEMORY,
    END_RANGE,
    END_PHYSICAL,
    END_REGISTERED,
    END_READBACK,
    END_FRAME,
    END_FEED,
    END_FEED_BLOCK,
    END_BLOCK,
    END_BUFFER,
    END_SCOPE,
    END_BATCH,
    END_NAMED,
    END_NAME,
    END_RING,
    END_SCHEDULER,
    END_WEIGHTS,
    END_LABELS,
    END_ATTACHMENT,
    END_ASYNC,
    END_WATCH,
    END_MONITOR,
    END_TRACE,
    END_CALLBACK,
    END_FOREIGN,
    END_SHARE,
    END_SHARE_POOL,
    END_LEASE
};

struct ender call_enders[] = {
    [END_CONTEXT] = {"vram_context_destroy", vram_context_destroy_end, KIND_CONTEXT, 0, 0, 0},
    [END_DEVICE] = {"vram_device_close", vram_device_close_end, KIND_DEVICE, 0, 0, 0},
    [END_PEER] = {"vram_device_close:peer", close_peer_end, KIND_PEER, 0, 0, 0},
    [END_POOL] = {"vram_pool_destroy", vram_pool_destroy_end, KIND_POOL, 0, 0, 0},
    [END_QUEUE] = {"vram_queue_destroy", vram_queue_destroy_end, KIND_QUEUE, 0, 0, 0},
    [END_STREAM_SET] = {"vram_stream_set_destroy", vram_stream_set_destroy_end, KIND_STREAM_SET, 0,
                        0, 0},
    [END_ADOPTION] = {"vram_queue_end", vram_queue_end_end, KIND_ADOPTED, 0, 0, 0},
    [END_CAPTURE] = {"vram_capture_end", vram_capture_end_end, KIND_CAPTURED, 0, 0, 0},
    [END_KERNEL] = {"vram_kernel_destroy", vram_kernel_destroy_end, KIND_KERNEL, 0, 0, 0},
    [END_MEMORY] = {"vram_device_free", vram_device_free_end, KIND_MEMORY, ROW_INVALID, 0, 0},
    [END_RANGE] = {"vram_range_destroy", vram_range_destroy_end, KIND_RANGE, ROW_INVALID | ROW_BUSY,
                   0, 0},
    [END_PHYSICAL] = {"vram_physical_destroy", vram_physical_destroy_end, KIND_PHYSICAL, ROW_BUSY,
                      0, 0},
    [END_REGISTERED] = {"vram_pinned_forget", vram_pinned_forget_end, KIND_REGISTERED, ROW_BUSY, 0,
                        0},
    [END_READBACK] = {"vram_readback_destroy", vram_readback_destroy_end, KIND_READBACK, 0, 0, 0},
    [END_FRAME] = {"vram_readback_release", vram_readback_release_end, KIND_FRAME, ROW_INVALID, 0,
                   0},
    [END_FEED] = {"vram_feed_destroy", vram_feed_destroy_end, KIND_FEED, 0, 0, 0},
    [END_FEED_BLOCK] = {"vram_feed_release", vram_feed_release_end, KIND_FEED_BLOCK, ROW_INVALID, 0,
                        0},
    [END_BLOCK] = {"vram_free", vram_free_end, KIND_BLOCK, ROW_INVALID, 0, 0},
    [END_BUFFER] = {"vram_buffer_destroy", vram_buffer_destroy_end, KIND_BUFFER, 0, 0, 0},
    [END_SCOPE] = {"vram_scope_end", vram_scope_end_end, KIND_SCOPE, 0, 0, 0},
    [END_BATCH] = {"vram_batch_destroy", vram_batch_destroy_end, KIND_BATCH, 0, 0, 0},
    [END_NAMED] = {"vram_named_destroy", vram_named_destroy_end, KIND_NAMED, 0, 0, 0},
    [END_NAME] = {"vram_named_remove", vram_named_remove_end, KIND_NAMED, ROW_INVALID, 0, 0},
    [END_RING] = {"vram_ring_destroy", vram_ring_destroy_end, KIND_RING, 0, 0, 0},
    [END_SCHEDULER] = {"vram_scheduler_destroy", vram_scheduler_destroy_end, KIND_SCHEDULER, 0, 0,
                       0},
    [END_WEIGHTS] = {"vram_weights_destroy", vram_weights_destroy_end, KIND_WEIGHTS, 0, 0, 0},
    [END_LABELS] = {"vram_labels_destroy", vram_labels_destroy_end, KIND_LABELS, 0, 0, 0},
    [END_ATTACHMENT] = {"vram_attachment_end", vram_attachment_end_end, KIND_ATTACHMENT, 0, 0, 0},
    [END_ASYNC] = {"vram_async_end", vram_async_end_end, KIND_ASYNC, 0, 0, 0},
    [END_WATCH] = {"vram_watch_end", vram_watch_end_end, KIND_WATCH, 0, 0, 0},
    [END_MONITOR] = {"vram_monitor_end", vram_monitor_end_end, KIND_MONITOR, 0, 0, 0},
    [END_TRACE] = {"vram_trace_end", vram_trace_end_end, KIND_TRACE, 0, 0, 0},
    [END_CALLBACK] = {"vram_oom_callback_remove", vram_oom_callback_remove_end, KIND_OOM_CALLBACK,
                      ROW_INVALID, 0, 0},
    [END_FOREIGN] = {"vram_foreign_untrack", vram_foreign_untrack_end, KIND_FOREIGN, ROW_INVALID, 0,
                     0},
    [END_SHARE] = {"vram_share_close", vram_share_close_end, KIND_SHARE, 0, 0, 0},
    [END_SHARE_POOL] = {"vram_pool_destroy:share", destroy_share_pool_end, KIND_SHARE, 0, 0, 0},
    [END_LEASE] = {"vram_lease_close", vram_lease_close_end, KIND_LEASE, 0, 0, 0},
};
const unsigned call_ender_count = sizeof call_enders / sizeof *call_enders;

#define BIT(n) (UINT64_C(1) << (n))

/* The tree of docs/ownership.md: what ends an object of a kind, its parents' ends included. */
static uint64_t kind_enders(enum kind kind) {
    const uint64_t context = BIT(END_CONTEXT), device = context | BIT(END_DEVICE);
    const uint64_t queue = device | BIT(END_QUEUE) | BIT(END_STREAM_SET);
    const uint64_t pool = device | BIT(END_POOL), below_pool = pool | BIT(END_QUEUE);
    switch (kind) {
    case KIND_CONTEXT:
        return context;
    case KIND_DEVICE:
        return device;
    case KIND_PEER:
        return device | BIT(END_PEER);
    case KIND_QUEUE:
    case KIND_POINT:
        return queue;
    case KIND_ADOPTED:
        return device | BIT(END_ADOPTION);
    case KIND_CAPTURED:
        return device | BIT(END_CAPTURE);
    case KIND_KERNEL:
        return device | BIT(END_QUEUE) | BIT(END_KERNEL);
    case KIND_MEMORY:
        return device | BIT(END_MEMORY);
    case KIND_RANGE:
        return device | BIT(END_RANGE) | BIT(END_PHYSICAL);
    case KIND_PHYSICAL:
        return device | BIT(END_PHYSICAL);
    case KIND_REGISTERED:
        return device | BIT(END_REGISTERED);
    case KIND_STREAM_SET:
        return device | BIT(END_STREAM_SET);
    case KIND_READBACK:
        return below_pool | BIT(END_READBACK);
    case KIND_FRAME:
        return device | BIT(END_READBACK) | BIT(END_FRAME);
    case KIND_FEED:
        return below_pool | BIT(END_FEED);
    case KIND_FEED_BLOCK:
        return below_pool | BIT(END_FEED) | BIT(END_FEED_BLOCK);
    case KIND_POOL:
        return pool;
    case KIND_BLOCK:
        return below_pool | BIT(END_BLOCK);
    case KIND_BUFFER:
        return below_pool | BIT(END_BUFFER) | BIT(END_SCOPE) | BIT(END_BATCH) | BIT(END_NAMED);
    case KIND_MAPPED:
        return below_pool | BIT(END_BUFFER) | BIT(END_SCOPE) | BIT(END_BATCH);
    case KIND_SCOPE:
        return below_pool | BIT(END_SCOPE) | BIT(END_BUFFER);
    case KIND_BATCH:
        return below_pool | BIT(END_BATCH) | BIT(END_BUFFER);
    case KIND_NAMED:
        return below_pool | BIT(END_NAMED) | BIT(END_NAME);
    case KIND_RING:
        return pool | BIT(END_RING) | BIT(END_QUEUE);
    case KIND_SCHEDULER:
        return pool | BIT(END_SCHEDULER) | BIT(END_QUEUE);
    case KIND_WEIGHTS:
        return pool | BIT(END_SCHEDULER) | BIT(END_WEIGHTS);
    case KIND_ATTACHMENT:
        return pool | BIT(END_ATTACHMENT) | BIT(END_QUEUE);
    case KIND_LABELS:
        return BIT(END_LABELS);
    case KIND_ASYNC:
        return queue | BIT(END_ASYNC);
    case KIND_WATCH:
        return pool | BIT(END_WATCH);
    case KIND_DEVICE_WATCH:
        return device | BIT(END_WATCH);
    case KIND_MONITOR:
        return device | BIT(END_POOL) | BIT(END_MONITOR);
    case KIND_TRACE:
        return device | BIT(END_POOL) | BIT(END_TRACE);
    case KIND_OOM_CALLBACK:
        return device | BIT(END_CALLBACK);
    case KIND_FOREIGN:
        return device | BIT(END_FOREIGN);
    case KIND_SHARE:
        return device | BIT(END_SHARE) | BIT(END_SHARE_POOL) | BIT(END_QUEUE);
    case KIND_LEASE:
        return device | BIT(END_LEASE) | BIT(END_POOL);
    default:
        return 0;
    }
}

uint64_t row_enders(const struct row *row) {
    uint64_t enders = row->flags & ROW_ALONE ? 0 : kind_enders(row->kind);
    if (row->flags & ROW_USES_QUEUE) {
        enders |= BIT(END_QUEUE);
    }
    if (row->flags & ROW_USES_BLOCK) {
        enders |= BIT(END_POOL);
    }
    if (row->flags & ROW_WALKS) {
        enders |= BIT(END_DEVICE) | BIT(END_POOL) | BIT(END_QUEUE);
    }
    if (row->flags & ROW_UNTIL_END) { /* it may wait on another queue */
        enders &= ~BIT(END_QUEUE);
    }
    return enders;
}

uint64_t pair_kinds(const struct row *row, const struct ender *ender) {
    uint64_t kinds = BIT(row->kind) | (ender ? BIT(ender->kind) : 0);
    if (row->flags & ROW_WALKS) { /* so that the walk finds something */
        kinds |= BIT(KIND_REGISTERED) | BIT(KIND_BUFFER);
    }
    return kinds;
}

bool kind_is_of_device(enum kind kind) {
    switch (kind) {
    case KIND_CONTEXT:
    case KIND_DEVICE:
    case KIND_PEER:
    case KIND_QUEUE:
    case KIND_ADOPTED:
    case KIND_CAPTURED:
    case KIND_KERNEL:
    case KIND_MEMORY:
    case KIND_RANGE:
    case KIND_PHYSICAL:
    case KIND_POINT:
        return true;
    default:
        return false;
    }
}
