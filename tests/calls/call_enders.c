/* SPDX-License-Identifier: Apache-2.0 */
/* call_enders.c: the calls that end objects, and which of them can end the objects of a row. */
#include "calls/call_table.h"

/* What ends, the kind that it needs in the world, what it may answer in addition to OK, STALE and
   SHUTDOWN, the call, what is special about it, and its arguments. Of an async handle it is a copy:
   the row has the other, as programs with two owners do. */
/* clang-format off */
#define ENDERS(X) \
    X(CONTEXT, CONTEXT, 0, vram_context_destroy, "", w->context) \
    X(DEVICE, DEVICE, 0, vram_device_close, "", w->device) \
    X(PEER, PEER, 0, vram_device_close, ":peer", w->peer) \
    X(POOL, POOL, 0, vram_pool_destroy, "", w->pool) \
    X(QUEUE, QUEUE, 0, vram_queue_destroy, "", w->queue) \
    X(STREAM_SET, STREAM_SET, 0, vram_stream_set_destroy, "", w->set) \
    X(ADOPTION, ADOPTED, 0, vram_queue_end, "", w->adopted) \
    X(CAPTURE, CAPTURED, 0, vram_capture_end, "", w->captured) \
    X(KERNEL, KERNEL, 0, vram_kernel_destroy, "", w->kernel) \
    X(MEMORY, MEMORY, ROW_INVALID, vram_device_free, "", w->device, w->memory) \
    X(RANGE, RANGE, ROW_INVALID | ROW_BUSY, vram_range_destroy, "", w->device, w->range) \
    X(PHYSICAL, PHYSICAL, ROW_BUSY, vram_physical_destroy, "", w->physical) \
    X(REGISTERED, REGISTERED, ROW_BUSY, vram_pinned_forget, "", w->device, call_registered[0], \
      sizeof call_registered[0]) \
    X(READBACK, READBACK, 0, vram_readback_destroy, "", w->readback) \
    X(FRAME, FRAME, ROW_INVALID, vram_readback_release, "", w->readback, w->frame.number) \
    X(FEED, FEED, 0, vram_feed_destroy, "", w->feed) \
    X(FEED_BLOCK, FEED_BLOCK, ROW_INVALID, vram_feed_release, "", w->feed, w->feed_block.number) \
    X(BLOCK, BLOCK, ROW_INVALID, vram_free, "", w->spare, w->queue) \
    X(BUFFER, BUFFER, 0, vram_buffer_destroy, "", w->buffer) \
    X(SCOPE, SCOPE, 0, vram_scope_end, "", w->scope) \
    X(BATCH, BATCH, 0, vram_batch_destroy, "", w->batch) \
    X(NAMED, NAMED, 0, vram_named_destroy, "", w->named) \
    X(NAME, NAMED, ROW_INVALID, vram_named_remove, "", w->named, "a") \
    X(RING, RING, 0, vram_ring_destroy, "", w->ring) \
    X(SCHEDULER, SCHEDULER, 0, vram_scheduler_destroy, "", w->scheduler) \
    X(WEIGHTS, WEIGHTS, 0, vram_weights_destroy, "", w->weights) \
    X(LABELS, LABELS, 0, vram_labels_destroy, "", w->labels) \
    X(ATTACHMENT, ATTACHMENT, 0, vram_attachment_end, "", w->attachment) \
    X(ASYNC, ASYNC, 0, vram_async_end, "", (vram_async[1]){w->async}) \
    X(WATCH, WATCH, 0, vram_watch_end, "", w->watch) \
    X(MONITOR, MONITOR, 0, vram_monitor_end, "", w->monitor) \
    X(TRACE, TRACE, 0, vram_trace_end, "", w->trace) \
    X(CALLBACK, OOM_CALLBACK, ROW_INVALID, vram_oom_callback_remove, "", w->device, w->callback) \
    X(FOREIGN, FOREIGN, ROW_INVALID, vram_foreign_untrack, "", w->device, w->foreign) \
    X(SHARE, SHARE, 0, vram_share_close, "", w->share) \
    X(SHARE_POOL, SHARE, 0, vram_pool_destroy, ":share", w->share_pool) \
    X(LEASE, LEASE, 0, vram_lease_close, "", w->lease)
/* clang-format on */

#define NUMBER(end, kind, answers, call, as, ...) END_##end,
enum { ENDERS(NUMBER) };

#define FUNCTION(end, kind, answers, call, as, ...)                                                \
    static vram_status end_##end(struct world *w) {                                                \
        return call(__VA_ARGS__);                                                                  \
    }
ENDERS(FUNCTION)

#define ENDER(end, kind, answers, call, as, ...) {#call as, end_##end, KIND_##kind, answers, 0, 0},
struct ender call_enders[] = {ENDERS(ENDER)};
const unsigned call_ender_count = sizeof call_enders / sizeof *call_enders;

#define BIT(n)        (UINT64_C(1) << (n))
#define OF_CONTEXT    BIT(END_CONTEXT)
#define OF_DEVICE     (OF_CONTEXT | BIT(END_DEVICE))
#define OF_QUEUE      (OF_DEVICE | BIT(END_QUEUE) | BIT(END_STREAM_SET))
#define OF_POOL       (OF_DEVICE | BIT(END_POOL))
#define OF_ITS_MEMORY (OF_POOL | BIT(END_QUEUE))

/* The tree of docs/ownership.md: what ends an object of a kind, its parents' ends included. */
static const uint64_t kind_enders[] = {
    [KIND_CONTEXT] = OF_CONTEXT,
    [KIND_DEVICE] = OF_DEVICE,
    [KIND_PEER] = OF_DEVICE | BIT(END_PEER),
    [KIND_QUEUE] = OF_QUEUE,
    [KIND_POINT] = OF_QUEUE,
    [KIND_ADOPTED] = OF_DEVICE | BIT(END_ADOPTION),
    [KIND_CAPTURED] = OF_DEVICE | BIT(END_CAPTURE),
    [KIND_KERNEL] = OF_DEVICE | BIT(END_QUEUE) | BIT(END_KERNEL),
    [KIND_MEMORY] = OF_DEVICE | BIT(END_MEMORY),
    [KIND_RANGE] = OF_DEVICE | BIT(END_RANGE) | BIT(END_PHYSICAL),
    [KIND_PHYSICAL] = OF_DEVICE | BIT(END_PHYSICAL),
    [KIND_REGISTERED] = OF_DEVICE | BIT(END_REGISTERED),
    [KIND_STREAM_SET] = OF_DEVICE | BIT(END_STREAM_SET),
    [KIND_READBACK] = OF_ITS_MEMORY | BIT(END_READBACK),
    [KIND_FRAME] = OF_DEVICE | BIT(END_READBACK) | BIT(END_FRAME),
    [KIND_FEED] = OF_ITS_MEMORY | BIT(END_FEED),
    [KIND_FEED_BLOCK] = OF_ITS_MEMORY | BIT(END_FEED) | BIT(END_FEED_BLOCK),
    [KIND_POOL] = OF_POOL,
    [KIND_BLOCK] = OF_ITS_MEMORY | BIT(END_BLOCK),
    [KIND_BUFFER] =
        OF_ITS_MEMORY | BIT(END_BUFFER) | BIT(END_SCOPE) | BIT(END_BATCH) | BIT(END_NAMED),
    [KIND_MAPPED] = OF_ITS_MEMORY | BIT(END_BUFFER) | BIT(END_SCOPE) | BIT(END_BATCH),
    [KIND_SCOPE] = OF_ITS_MEMORY | BIT(END_SCOPE) | BIT(END_BUFFER),
    [KIND_BATCH] = OF_ITS_MEMORY | BIT(END_BATCH) | BIT(END_BUFFER),
    [KIND_NAMED] = OF_ITS_MEMORY | BIT(END_NAMED) | BIT(END_NAME),
    [KIND_RING] = OF_POOL | BIT(END_RING) | BIT(END_QUEUE),
    [KIND_SCHEDULER] = OF_POOL | BIT(END_SCHEDULER) | BIT(END_QUEUE),
    [KIND_WEIGHTS] = OF_POOL | BIT(END_SCHEDULER) | BIT(END_WEIGHTS),
    [KIND_ATTACHMENT] = OF_POOL | BIT(END_ATTACHMENT) | BIT(END_QUEUE),
    [KIND_LABELS] = BIT(END_LABELS),
    [KIND_ASYNC] = OF_QUEUE | BIT(END_ASYNC),
    [KIND_WATCH] = OF_POOL | BIT(END_WATCH),
    [KIND_DEVICE_WATCH] = OF_DEVICE | BIT(END_WATCH),
    [KIND_MONITOR] = OF_DEVICE | BIT(END_POOL) | BIT(END_MONITOR),
    [KIND_TRACE] = OF_DEVICE | BIT(END_POOL) | BIT(END_TRACE),
    [KIND_OOM_CALLBACK] = OF_DEVICE | BIT(END_CALLBACK),
    [KIND_FOREIGN] = OF_DEVICE | BIT(END_FOREIGN),
    [KIND_SHARE] = OF_DEVICE | BIT(END_SHARE) | BIT(END_SHARE_POOL) | BIT(END_QUEUE),
    [KIND_LEASE] = OF_DEVICE | BIT(END_LEASE) | BIT(END_POOL),
};

uint64_t row_enders(const struct row *row) {
    uint64_t enders = row->flags & ROW_ALONE ? 0 : kind_enders[row->kind];
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
    const uint64_t kinds = BIT(KIND_CONTEXT) | BIT(KIND_DEVICE) | BIT(KIND_PEER) | BIT(KIND_QUEUE) |
                           BIT(KIND_ADOPTED) | BIT(KIND_CAPTURED) | BIT(KIND_KERNEL) |
                           BIT(KIND_MEMORY) | BIT(KIND_RANGE) | BIT(KIND_PHYSICAL) |
                           BIT(KIND_POINT);
    return BIT(kind) & kinds;
}
