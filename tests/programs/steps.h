/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h: every operation that a program may have; draw.c says how often each comes. */
#ifndef TEST_STEPS_H
#define TEST_STEPS_H

#include "programs/program.h"

step_fn step_context_create, step_context_destroy, step_device_open, step_device_close,
    step_queue_create, step_queue_destroy, step_queue_wait, step_queue_poll, step_mark, step_point,
    step_after, step_memory_info, step_pinned, step_trim_all, step_set;
step_fn step_pool_create, step_pool_destroy, step_pool_trim, step_pool_stats, step_pool_warm,
    step_sleep, step_wake, step_seal, step_unseal, step_rebuild, step_limits, step_quota, step_doze,
    step_option;
step_fn step_alloc, step_alloc_with, step_free, step_resize, step_use, step_pin, step_block_info,
    step_overrun;
step_fn step_upload, step_download, step_copy, step_fill, step_transfer_upload,
    step_transfer_download, step_transfer_copy, step_transfer_fill, step_transfer_batch,
    step_async_wait, step_async_poll, step_async_end;
step_fn step_buffer_create, step_buffer_destroy, step_buffer_resize, step_buffer_info,
    step_span_upload, step_span_download, step_buffer_map, step_buffer_unmap, step_buffer_move,
    step_buffer_fit, step_buffer_wrap;
step_fn step_scope_begin, step_scope_end, step_scope_alloc, step_scope_free, step_scope_take,
    step_scope_give, step_scope_buffer, step_batch_create, step_batch_add, step_batch_get,
    step_batch_destroy, step_named_create, step_named_add, step_named_ensure, step_named_remove,
    step_named_destroy, step_named_cleanup;
step_fn step_ring_create, step_ring_destroy, step_ring_send, step_ring_flush, step_ring_fetch,
    step_ring_receive, step_ring_stop, step_ring_look;
step_fn step_share_export, step_share_open, step_share_close, step_opened_close, step_share_read;
step_fn step_fault, step_lie, step_fault_clear, step_malloc_fault, step_cancel, step_fork_helper,
    step_second_copy;
step_fn step_trace_begin, step_trace_end;

/* Ends all that is left, but pools and devices. */
void steps_end(struct run *r);
/* Host memory of the library can be made to run out. Before the first context. */
void faults_install(void);
void faults_clear(struct run *r);
/* Blocks that a trace must have as live if it ends now. Those of a pool that was there before the
   trace may be in it or not. */
struct expected {
    uint64_t least, most;
};
struct expected trace_expected(void);
/* The trace has ended: reads its file. */
void trace_ended(struct run *r, struct expected expected);
/* Forgets the contents of all that lies in the pool. */
void contents_forget(const struct object *of);
/* Removes the pins of blocks that end with a scope or a pool, and whose own pool does not. */
void unpin_all(struct run *r, const struct object *of);
void buffer_made(struct object *made, struct object *from, uint64_t bytes, unsigned on);

/* What a pool's state adds to the statuses of calls on its blocks, and to allocations from it. */
uint64_t pool_awake(const struct object *pool_object, uint64_t asleep);
/* Which queue an operation on the pool's memory uses: the drawn one if it is live and of the same
   device, else 0. */
unsigned queue_for(const struct op *op, struct object *object);

#endif
