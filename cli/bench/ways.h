/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways.h: several ways of doing one thing, each timed over and over in the same run, and their
 * table.
 */
#ifndef WAYS_H
#define WAYS_H

#include "target.h"

#include <stdint.h>

enum { WAY_SAMPLES = 1000, WAY_ROUNDS_LEAST = 3, WAY_REASON_MAX = 256 };

struct way {
    const char *name;            /* "held" */
    const char *about;           /* what it does, for people */
    char reason[WAY_REASON_MAX]; /* why it was not measured; "": it was */
    bool wrong;                  /* because contents differ, which ends the command with EXIT_NO */
    uint32_t count;              /* of samples */
    double samples[WAY_SAMPLES]; /* ns */
    double median_ns, p10_ns, p90_ns;
};

/* Nanoseconds that never go back. */
uint64_t ways_now(void);

/* Notes why a way cannot be measured: the record's text, or the status's. Returns false. */
bool way_fail(struct way *way, vram_status status);

/* The same where it may have succeeded: whether it has. */
bool way_good(struct way *way, vram_status status);

/* The same for contents that differ. */
bool way_differs(struct way *way, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool ways_differ(const struct way *ways, uint32_t count);

/* One round of a way: does it once, with what it takes to do it again outside of what is timed.
   False: it failed, and its reason is set. */
typedef bool way_fn(void *user, struct way *way, uint64_t *ns);

/* Rounds for so many seconds, at least WAY_ROUNDS_LEAST; the first is for warming up and does not
   count. */
void way_measure(struct way *way, way_fn *round, void *user, double seconds);

/* The same by the caller's own turns: medians of the samples that it has put there. */
void way_sum_up(struct way *way);

static inline bool way_measured(const struct way *way) {
    return way->count > 0;
}

/* The reason of a way behind its name, which has so many columns and uses so many of them. */
void way_print_reason(const struct terminal *terminal, const char *reason, uint32_t columns,
                      size_t used);

/* A table for people, and a JSON array "ways". */
void ways_print(const struct terminal *terminal, const struct way *ways, uint32_t count);
void ways_write(struct json_out *json, const struct way *ways, uint32_t count);

/* The object "device" of a document. */
void ways_write_device(struct json_out *json, const struct target *target);

/* How many times as long `slow` takes; a JSON null where one of them was not measured. */
double ways_ratio(const struct way *slow, const struct way *fast);
void ways_write_ratio(struct json_out *json, const char *key, const struct way *slow,
                      const struct way *fast);

/* The verbs' parts, which print their result: exit codes. */
int bench_grow(struct invocation *invocation, const struct target *target, uint64_t from,
               uint64_t to, double seconds);
int bench_launch(struct invocation *invocation, const struct target *target, uint64_t bytes,
                 double seconds);
int bench_copy(struct invocation *invocation, const struct target *target, uint64_t largest,
               uint32_t threads, double seconds);
int bench_readback(struct invocation *invocation, const struct target *target, uint64_t bytes,
                   double seconds);
int bench_ring(struct invocation *invocation, const struct target *target, uint64_t bytes,
               uint64_t messages);
int bench_matmul(struct invocation *invocation, const struct target *target, uint64_t side,
                 double seconds);
int bench_distance(struct invocation *invocation, const struct target *target, uint64_t vectors,
                   double seconds);
int bench_track(struct invocation *invocation, const struct target *target, uint64_t bytes,
                double seconds);

#endif
