/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_entry.c: malloc of the C library enters the contest.
 */
#include "bench/loop.h"

#include <stdio.h>
#include <stdlib.h>

/* Volatile: the compiler knows malloc and free, and would leave out a pair whose block is
   unused. */
static void *(*volatile host_malloc)(size_t bytes) = malloc;
static void (*volatile host_free)(void *block) = free;

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    void *block = host_malloc(bytes);
    if (block == NULL) {
        snprintf(worker->reason, sizeof worker->reason, "malloc failed");
    }
    return (uint64_t)(uintptr_t)block;
}

static inline bool give(struct worker *worker, uint64_t addr) {
    (void)worker;
    host_free((void *)(uintptr_t)addr);
    return true;
}

LOOP_FUNCTIONS(take, give)

static bool open_entry(struct entry *entry) {
    (void)entry;
    return true;
}

static void close_entry(struct entry *entry) {
    (void)entry;
}

const struct allocator allocator_malloc = {.open = open_entry, .close = close_entry, LOOP_FIELDS};
