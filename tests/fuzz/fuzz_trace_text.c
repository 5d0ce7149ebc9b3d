/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_trace_text.c: the reader of fuzz_trace.c alone, which is some hundred times as quick.
 * Whatever it is given, but for snapshots of PyTorch, is refused with a line that says where and
 * why, or is a trace whose sums are right and that reads the same after it was written.
 */
#include "trace_expect.h"

#include <string.h>

static const char fuzz_words[] =
    " op,id,bytes,stream,t_us\n op,id,bytes,stream,t_us,thread\n a,1,512,0,10\n f,1,,0,20\n"
    " u,1,512,1,15\n a,2,1048576,1,30,1\n \r\n , \x1f\x8b\x08 -";

/* What the builder counted, counted again; what is used or freed is live. */
static void add_up(const struct trace *trace) {
    uint64_t allocs = 0, last = 0;
    bool *live = calloc((size_t)trace->block_slots + 1, sizeof *live);
    FUZZ_EXPECT(live != NULL);
    for (size_t i = 0; i < trace->op_count; i++) {
        const struct trace_op *op = &trace->ops[i];
        FUZZ_EXPECT(op->kind <= TRACE_USE && op->t_us >= last);
        FUZZ_EXPECT(op->block < trace->block_slots && op->queue < trace->queue_count &&
                    op->thread < trace->thread_count);
        FUZZ_EXPECT(live[op->block] == (op->kind != TRACE_ALLOC));
        live[op->block] = op->kind != TRACE_FREE;
        allocs += op->kind == TRACE_ALLOC;
        last = op->t_us;
    }
    free(live);
    FUZZ_EXPECT(allocs == trace->alloc_count && allocs >= trace->block_slots);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX] = "";
    if (bytes > 0 && data[0] == 0x80) { /* a pickle: fuzz_snapshot.c's, which needs more memory */
        return 0;
    }
    if (!trace_read_memory("input", data, bytes, &trace, problem)) {
        FUZZ_EXPECT(strncmp(problem, "input", 5) == 0);
        return 0;
    }
    add_up(&trace);
    write_and_read(&trace);
    trace_free(&trace);
    return 0;
}

/* A line of six bytes is an operation of 32, and the trace is written and read again here. */
FUZZ_TARGET(trace_text, .split = fuzz_split_lines, .memory_times = 8, .plain = true)
