/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_names.h: the numbers by which the events of a trace refer to pools, queues, texts and
 * stacks, and their definitions in chunks.
 */
#ifndef VR_TRACE_NAMES_H
#define VR_TRACE_NAMES_H

#include "base/lock.h"
#include "track/trace_shard.h"
#include "track/trace_table.h"
#include "track/trace_writer.h"

/* What one event refers to, without the frames of a stack. */
enum vr_trace_ref {
    VR_REF_POOL,
    VR_REF_QUEUE,
    VR_REF_TAG,
    VR_REF_NAME,
    VR_REF_STACK,
    VR_REF_COUNT
};

/* Numbers; 0: none. */
struct vr_trace_refs {
    uint32_t of[VR_REF_COUNT];
};

/* The same in words. 0 and NULL: none. */
struct vr_trace_mention {
    uint64_t pool, device, queue; /* handles */
    const char *pool_name;
    const char *tag, *name;
    uint32_t stack;
};

struct vr_trace_names {
    struct vr_mutex lock; /* guards the table; taken after a shard */
    struct vr_trace_table table;
    struct vr_trace_stacks stacks;
};

/* Gives numbers to what an event refers to; returns the bytes that the event may need with all
   definitions that the shard's chunk lacks. */
uint32_t vr_trace_names_refer(struct vr_trace_names *names, const struct vr_trace_shard *shard,
                              const struct vr_trace_mention *about, struct vr_trace_refs *refs);

/* Writes those definitions; the chunk has the space. */
void vr_trace_names_define(struct vr_trace_names *names, struct vr_trace_shard *shard,
                           const struct vr_trace_refs *refs);

/* Makes sure that a stack has a number, if possible. No lock held, and no shard: texts of frames
   come from the program's loader. */
void vr_trace_names_stack(struct vr_trace_names *names, uint32_t stack);

#endif
