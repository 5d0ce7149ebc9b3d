/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_expect.h: what holds of every trace that was read, whatever the file was.
 */
#ifndef TEST_TRACE_EXPECT_H
#define TEST_TRACE_EXPECT_H

#include "fuzz.h"

#include "replay/trace_reader.h"

#include <stdlib.h>
#include <string.h>

/* It reads the same after it was written. */
static inline void write_and_read(const struct trace *trace) {
    char *text = NULL, problem[TRACE_PROBLEM_MAX];
    size_t bytes = 0;
    struct trace again;
    FILE *to = open_memstream(&text, &bytes);
    FUZZ_EXPECT(to != NULL && trace_write(trace, to) && fclose(to) == 0);
    FUZZ_EXPECT(trace_read_memory("again", text, bytes, &again, problem));
    FUZZ_EXPECT(again.op_count == trace->op_count && again.peak_bytes == trace->peak_bytes);
    FUZZ_EXPECT(again.op_count == 0 ||
                memcmp(again.ops, trace->ops, again.op_count * sizeof *again.ops) == 0);
    trace_free(&again);
    free(text);
}

#endif
