/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite.h: the conformance suite, as those who run it see it.
 *
 * A case proves one sentence about one device through the public headers alone. It opens what it
 * needs and leaves nothing behind, however it ends, so that cases can be run in any order, alone,
 * and under injected faults: `vram check` runs each once, tests/conformance/faults.c runs each
 * again and again while the n-th allocation or driver call fails.
 */
#ifndef CHECK_SUITE_H
#define CHECK_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <vram/vram.h>

struct check;

enum check_outcome {
    CHECK_PASSED,  /* every expectation held */
    CHECK_FAILED,  /* a call succeeded with a wrong result, or a failure changed something */
    CHECK_ERRORED, /* a call failed that should not have; a fault may be why. State was whole */
    CHECK_SKIPPED  /* the device cannot run it; the reason says what it lacks */
};

struct check_case {
    const char *name;                 /* "memory.double_free": noun, then what is done */
    const char *proves;               /* one clause: what holds when it passes */
    bool (*run)(struct check *check); /* true when it came to its end; see case.h */
};

/* What a case runs on. */
struct check_target {
    const vram_context_options *options; /* how cases make contexts; NULL: all defaults */
    uint32_t device;                     /* index in such a context */
    vram_context *context;               /* use this one; NULL: every case makes its own */
    uint64_t seed;                       /* for cases that do things at random; 0: the usual one */
    bool quick;                          /* few rounds and small sizes: for loops over cases */
    bool faulty;                         /* some of its calls are made to fail */
    bool alone; /* in a process that ends with it: it may lose the device */
};

#define CHECK_REASON_MAX 640

struct check_result {
    enum check_outcome outcome;
    vram_status status;            /* ERRORED: what the call returned; else VRAM_OK */
    char reason[CHECK_REASON_MAX]; /* first thing that went wrong, or why skipped; else "" */
};

/* All cases, in the order of the API; NULL past the end. */
const struct check_case *check_case_at(size_t index);

/* Runs one case. Everything it made is gone when this returns, the handed context excepted. */
void check_run(const struct check_case *which, const struct check_target *target,
               struct check_result *result);

#endif
