/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_snapshot.c: every execution begins with the same memory: the program's variables, and
 * what it allocated from one arena. The checker's own variables are in a section of their own and
 * stay.
 */
#include "explore_checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA_BYTES = 8 << 20, LEVELS = 2 };

extern char __data_start[], _end[], __start_checker_state[], __stop_checker_state[];

static CHECKER_STATE struct {
    char *arena;
    size_t used, used_most; /* bytes of the arena, now and at any time since it was last zeroed */
    struct {
        char *data, *arena;
        size_t used;
    } saved[LEVELS];
} memory;

_Noreturn void checker_fail(const char *text) {
    fprintf(stderr, "explore: %s\n", text);
    exit(2);
}

void *checker_memory(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        checker_fail("out of memory");
    }
    return pages;
}

void *scenario_memory(size_t bytes) {
    if (!memory.arena) {
        memory.arena = checker_memory(ARENA_BYTES);
    }
    size_t rounded = (bytes + 127) & ~(size_t)127;
    if (rounded < bytes || rounded > ARENA_BYTES - memory.used) {
        checker_fail("a scenario needs more memory than there is");
    }
    char *object = memory.arena + memory.used;
    memory.used += rounded;
    if (memory.used > memory.used_most) {
        memory.used_most = memory.used;
    }
    return object;
}

bool scenario_owns(const volatile void *object) {
    const volatile char *at = object;
    return memory.arena && at >= memory.arena && at < memory.arena + ARENA_BYTES;
}

static size_t before_bytes(void) {
    return (size_t)(__start_checker_state - __data_start);
}

static size_t behind_bytes(void) {
    return (size_t)(_end - __stop_checker_state);
}

void snapshot_save(unsigned level) {
    free(memory.saved[level].data);
    free(memory.saved[level].arena);
    char *data = malloc(before_bytes() + behind_bytes()), *arena = malloc(memory.used + 1);
    if (!data || !arena) {
        checker_fail("out of memory");
    }
    memcpy(data, __data_start, before_bytes());
    memcpy(data + before_bytes(), __stop_checker_state, behind_bytes());
    if (memory.used) {
        memcpy(arena, memory.arena, memory.used);
    }
    memory.saved[level].data = data;
    memory.saved[level].arena = arena;
    memory.saved[level].used = memory.used;
}

void snapshot_restore(unsigned level) {
    const char *data = memory.saved[level].data;
    size_t used = memory.saved[level].used;
    memcpy(__data_start, data, before_bytes());
    memcpy(__stop_checker_state, data + before_bytes(), behind_bytes());
    if (memory.arena) {
        memcpy(memory.arena, memory.saved[level].arena, used);
        memset(memory.arena + used, 0, memory.used_most - used);
    }
    memory.used = memory.used_most = used;
}
