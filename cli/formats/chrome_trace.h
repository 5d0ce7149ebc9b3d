/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chrome_trace.h: the memory events of a trace in Chrome's JSON format, as two programs write them:
 *
 *   PyTorch's profiler   "[memory]" with args Addr, Bytes (negative: a free), Device Type, Device
 *                        Id, Total Allocated, Total Reserved
 *   XLA and TensorFlow   "MemoryAllocation" and "MemoryDeallocation" with args addr,
 *                        requested_bytes, allocation_bytes, allocator_name, bytes_reserved, tf_op
 *
 * Everything else in the file is passed over. The events need not be in order: they are kept, 64
 * bytes each, and sorted. Memory of the CPU is left out if there is any of a GPU.
 */
#ifndef FORMATS_CHROME_TRACE_H
#define FORMATS_CHROME_TRACE_H

#include "interner.h"
#include "json_scan.h"
#include "replay/live_addresses.h"
#include "replay/shard_reader.h"

enum { CHROME_POOLS_MAX = 255 };

/* One event of the file. */
struct chrome_event {
    uint64_t time_ns, addr, bytes, held, reserved, thread;
    uint32_t order; /* in the file */
    uint32_t tag;   /* text; 0: none */
    uint8_t pool;   /* number from 1 */
    bool frees, host, reserved_known;
};

struct chrome_trace {
    uint64_t budget;
    struct interner texts, pools;
    struct chrome_event *events;
    size_t count, capacity, next;
    uint64_t host_events; /* left out */
    struct live_addresses live[CHROME_POOLS_MAX + 1];
    uint64_t reserved[CHROME_POOLS_MAX + 1]; /* as it was told last */
    uint64_t last_id, first_ns;
    bool sampled; /* the present event's sample was told */
    uint64_t problem_at;
    char problem[CHUNK_PROBLEM_MAX];
};

/* Whether a file begins as JSON. */
bool chrome_trace_begins(struct trace_source *source);

/* Reads the file. False with the problem set; chrome_trace_close is due either way. */
bool chrome_trace_open(struct chrome_trace *trace, struct trace_source *source);
bool chrome_trace_next(struct chrome_trace *trace, struct recorded *event, bool *there);
void chrome_trace_close(struct chrome_trace *trace);

#endif
