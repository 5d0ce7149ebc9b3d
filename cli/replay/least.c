/* SPDX-License-Identifier: Apache-2.0 */
/*
 * least.c: see least.h.
 */
#include "least.h"

enum { STEPS = 2000, STEP_BYTES_MIN = 64 << 10 };

static const double quick_slowdown = 1.05;

double least_ratio(const struct least *least, const struct least_memory *memory) {
    uint64_t peak = least->freely.trace->peak_bytes;
    return peak > 0 ? (double)memory->bytes / (double)peak : 0;
}

double least_slowdown(const struct least *least, const struct least_memory *memory) {
    uint64_t own = trace_ns(least->freely.trace);
    double freely = (double)(own + least->freely.spent_ns);
    return freely > 0 ? (double)(own + memory->spent_ns) / freely : 1;
}

/* ---------------------------------------------------------------------- search */

struct search {
    const struct session_options *options;
    struct least *least;
    double slowdown_max; /* 0: any */
    uint64_t fails;      /* it does not run in this memory, or not quickly enough */
    struct least_memory *runs;
};

/* One pass on a device with so much memory. */
static vram_status pass_in(struct search *search, uint64_t bytes, struct pass *pass) {
    const struct pass *freely = &search->least->freely;
    struct session_options limited = *search->options;
    struct session *session;
    limited.place.memory_bytes = bytes;
    vram_status status = session_open(&limited, freely->trace, freely->policy, &session);
    if (status != VRAM_OK) {
        return status;
    }
    session_play(session, NULL, NULL, pass);
    session_close(session);
    search->least->runs++;
    return VRAM_OK;
}

/* Moves one end of the search to `bytes`. A pass that failed for another reason than memory is the
   result of it all. */
static vram_status try_in(struct search *search, uint64_t bytes) {
    struct pass pass;
    vram_status status = pass_in(search, bytes, &pass);
    if (status != VRAM_OK) {
        return status;
    }
    if (pass.result == PASS_FAILED) {
        search->least->freely = pass;
    }
    struct least_memory memory = {.bytes = bytes, .spent_ns = pass.spent_ns};
    bool good = pass.result == PASS_DONE &&
                (search->slowdown_max == 0 ||
                 least_slowdown(search->least, &memory) <= search->slowdown_max);
    if (good) {
        *search->runs = memory;
    } else {
        search->fails = bytes;
    }
    return VRAM_OK;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* From `first` bytes on upwards until it runs, then down. All of it runs in `memory_bytes`. */
static vram_status bisect(struct search *search, uint64_t first, uint64_t memory_bytes) {
    struct least_memory *runs = search->runs;
    const struct pass *freely = &search->least->freely;
    uint64_t step = larger(freely->trace->peak_bytes / STEPS, STEP_BYTES_MIN);
    vram_status status = VRAM_OK;
    *runs = (struct least_memory){.bytes = memory_bytes, .spent_ns = freely->spent_ns};
    for (uint64_t next = first; next < runs->bytes && status == VRAM_OK; next += next / 64) {
        status = try_in(search, next);
    }
    while (status == VRAM_OK && freely->result == PASS_DONE && runs->bytes > search->fails + step) {
        status = try_in(search, search->fails + (runs->bytes - search->fails) / 2);
    }
    return status;
}

vram_status least_find(const struct session_options *options, uint64_t memory_bytes,
                       const struct trace *trace, const struct policy *policy,
                       struct least *least) {
    *least = (struct least){.freely = {.trace = trace, .policy = policy}};
    struct search search = {.options = options, .least = least, .runs = &least->tight};
    vram_status status = pass_in(&search, memory_bytes, &least->freely);
    if (status != VRAM_OK || least->freely.result != PASS_DONE) {
        return status;
    }
    uint64_t held = least->freely.counts.peak_reserved_bytes;
    search.fails = smaller(larger(trace->peak_bytes, STEP_BYTES_MIN), memory_bytes); /* or nearly */
    status = bisect(&search, smaller(larger(held, search.fails), memory_bytes), memory_bytes);
    least->quick = least->tight;
    if (status == VRAM_OK && least->freely.result == PASS_DONE &&
        least_slowdown(least, &least->tight) > quick_slowdown) {
        search.slowdown_max = quick_slowdown;
        search.fails = least->tight.bytes;
        search.runs = &least->quick;
        status = bisect(&search, larger(held, least->tight.bytes), memory_bytes);
    }
    return status;
}
