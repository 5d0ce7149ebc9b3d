/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_writer.h: writes events of pools as records of a trace file.
 *
 *  (1) Any thread may write at any time, to a shard of its own (trace_shard.h). The writer's lock
 *      is held while an event's texts get numbers and definitions. What a chunk has everything for
 *      is written by the quick functions of the shards, without that lock.
 *  (2) Nothing here fails for the caller: an event that cannot be written is counted as lost.
 *  (3) Texts of frames are formatted without the lock: that calls the program's loader, which may
 *      be inside an allocation of another thread.
 *  (4) A forked child writes nothing: the file belongs to its parent.
 */
#ifndef VR_TRACE_WRITER_H
#define VR_TRACE_WRITER_H

#include "track/event.h"

struct vr_trace_writer;

/* Where stacks come from. */
struct vr_trace_stacks {
    /* The frames of a stack, innermost first; returns their number. */
    uint32_t (*frames)(uint32_t stack, uint64_t *frames, uint32_t capacity);
    /* The text of a frame, always terminated. */
    void (*describe)(uint64_t frame, char *text, size_t bytes);
};

/* A sample of a pool, as in vram_pool_stats. */
struct vr_trace_sample {
    uint64_t pool; /* handle */
    uint64_t live_bytes, held_bytes, reserved_bytes, cached_bytes, free_bytes, largest_free_bytes;
    uint64_t limit_bytes; /* 0: none */
    uint64_t hits, misses;
};

struct vr_trace_sums {
    uint64_t events, lost;  /* written, and not */
    uint64_t chunks, bytes; /* of the file */
    vram_status stopped;    /* why nothing more is written; VRAM_OK: it is */
};

/* Begins a trace in the file `path`; ring_bytes 0: it grows. `stacks` NULL: none are written. */
vram_status vr_trace_writer_open(const char *path, uint64_t ring_bytes,
                                 const struct vr_trace_stacks *stacks,
                                 struct vr_trace_writer **writer);

/* Ends it and closes the file. No call may be in progress. NULL is allowed. */
void vr_trace_writer_close(struct vr_trace_writer *writer);

/* Writes what happens at this time; an event's own time is not used. */
void vr_trace_write_event(struct vr_trace_writer *writer, const struct vr_event *event);
void vr_trace_write_sample(struct vr_trace_writer *writer, const struct vr_trace_sample *sample);
/* A text of the program. */
void vr_trace_write_mark(struct vr_trace_writer *writer, const char *text);

/* Has the quick functions of trace_shard.h write to this trace; false: to none. Then calls may be
   in progress until every thread has left its caches. */
void vr_trace_writer_quick(struct vr_trace_writer *writer, bool on);

/* Whether `period_ns` have passed since it was last true; for one thread at a time. */
bool vr_trace_writer_due(struct vr_trace_writer *writer, uint64_t period_ns);

void vr_trace_writer_sums(struct vr_trace_writer *writer, struct vr_trace_sums *sums);

#endif
