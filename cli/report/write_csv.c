/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_csv.c: a trace as CSV, as docs/trace-format.md has it; see report_writer.h.
 */
#include "report_writer.h"

#include <inttypes.h>
#include <stdlib.h>

static bool csv_alloc(void *user, struct flow_block *block) {
    struct report_writer *writer = user;
    fprintf(writer->to, "a,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", block->id,
            block->bytes, block->queue, block->time_ns / 1000);
    return true;
}

static bool csv_free(void *user, const struct flow_block *block, uint64_t time_ns) {
    struct report_writer *writer = user;
    fprintf(writer->to, "f,%" PRIu64 ",,%" PRIu64 ",%" PRIu64 "\n", block->id, block->queue,
            time_ns / 1000);
    return true;
}

bool write_csv_begin(struct report_writer *writer) {
    const struct flow_writer flow = {.user = writer, .alloc = csv_alloc, .free = csv_free};
    fprintf(writer->to, "%s\n", TRACE_HEADER);
    return block_flow_begin(&writer->flow, &flow);
}
