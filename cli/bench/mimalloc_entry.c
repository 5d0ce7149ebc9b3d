/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mimalloc_entry.c: mimalloc enters the contest where it is installed. It is loaded at run time, so
 * the command does not depend on it; it replaces nobody's malloc.
 */
#include "bench/loop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *(*volatile mi_malloc)(size_t bytes);
static void (*volatile mi_free)(void *block);

static inline uint64_t take(struct worker *worker, uint64_t bytes) {
    void *block = mi_malloc(bytes);
    if (block == NULL) {
        snprintf(worker->reason, sizeof worker->reason, "mi_malloc failed");
    }
    return (uint64_t)(uintptr_t)block;
}

static inline bool give(struct worker *worker, uint64_t addr) {
    (void)worker;
    mi_free((void *)(uintptr_t)addr);
    return true;
}

LOOP_FUNCTIONS(take, give)

/*
 * The library stays loaded: it has thread-local destructors of its own, which run when the threads
 * of the contest end, and code that is gone cannot run.
 */
static bool open_entry(struct entry *entry) {
    static const char *const names[] = {"libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so",
                                        "libmimalloc.2.dylib", "libmimalloc.dylib"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && library == NULL; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library == NULL) {
        snprintf(entry->reason, sizeof entry->reason,
                 "not found: no libmimalloc.so.2 (Debian: libmimalloc2.0)");
        return false;
    }
    void *found_malloc = dlsym(library, "mi_malloc"), *found_free = dlsym(library, "mi_free");
    if (found_malloc == NULL || found_free == NULL) {
        snprintf(entry->reason, sizeof entry->reason, "libmimalloc has no mi_malloc or mi_free");
        return false;
    }
    void *(*as_malloc)(size_t);
    void (*as_free)(void *);
    memcpy(&as_malloc, &found_malloc, sizeof as_malloc); /* C has no cast from data to code */
    memcpy(&as_free, &found_free, sizeof as_free);
    mi_malloc = as_malloc;
    mi_free = as_free;
    return true;
}

static void close_entry(struct entry *entry) {
    (void)entry;
}

const struct allocator allocator_mimalloc = {.open = open_entry, .close = close_entry, LOOP_FIELDS};
