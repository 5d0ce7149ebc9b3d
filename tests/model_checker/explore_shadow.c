/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explore_shadow.c: who has accessed which byte, to find data races: two accesses of different
 * threads, one of them a write and one of them plain, where neither happens before the other. The
 * compiler calls the functions at the end of this file at every plain access of the explored
 * sources (-fsanitize=thread, without its library).
 */
#include "explore_checker.h"

#include <string.h>

enum { GRAIN = 8, GRAINS_MAX = 1 << 17 };

/* What a thread did, in the order of severity. */
enum access_kind { ATOMIC_READ, PLAIN_READ, ATOMIC_WRITE, PLAIN_WRITE, ACCESS_KINDS };

struct byte_accesses {
    uint16_t when[ACCESS_KINDS][THREADS_MAX]; /* clock of the last access; 0: none */
    uint16_t location;                        /* + 1, of an atomic object; 0: none */
    bool freed;
};

struct grain {
    uintptr_t number; /* address / GRAIN */
    uint64_t execution;
    struct byte_accesses bytes[GRAIN];
};

static CHECKER_STATE struct {
    struct grain *grains;
    uint64_t execution;
    unsigned used;
} shadow;

void shadow_reset(void) {
    if (!shadow.grains) {
        shadow.grains = checker_memory(GRAINS_MAX * sizeof *shadow.grains);
    }
    shadow.execution++;
    shadow.used = 0;
}

static struct byte_accesses *byte_of(uintptr_t address) {
    uintptr_t number = address / GRAIN;
    uint64_t at = (number * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
    for (;; at++) {
        struct grain *grain = &shadow.grains[at % GRAINS_MAX];
        if (grain->execution != shadow.execution) {
            if (++shadow.used > GRAINS_MAX / 2) {
                checker_fail("a scenario touches more memory than the checker can watch");
            }
            memset(grain, 0, sizeof *grain);
            grain->number = number;
            grain->execution = shadow.execution;
        }
        if (grain->number == number) {
            return &grain->bytes[address % GRAIN];
        }
    }
}

static const char *kind_name(enum access_kind kind) {
    static const char *const names[] = {"atomic load", "plain load", "atomic store", "plain store"};
    return names[kind];
}

static bool kinds_conflict(enum access_kind a, enum access_kind b) {
    bool writes = a >= ATOMIC_WRITE || b >= ATOMIC_WRITE;
    bool plain = a == PLAIN_READ || a == PLAIN_WRITE || b == PLAIN_READ || b == PLAIN_WRITE;
    return writes && plain;
}

static void access_check(const struct byte_accesses *byte, enum access_kind kind) {
    unsigned self = fiber_self();
    const struct view *view = model_view(self);
    if (byte->freed) {
        search_violation("%s of freed memory", kind_name(kind));
    }
    for (unsigned other = 0; other < ACCESS_KINDS; other++) {
        for (unsigned thread = 0; thread < THREADS_MAX; thread++) {
            if (thread != self && kinds_conflict(kind, other) &&
                byte->when[other][thread] > view->clock[thread]) {
                search_violation("data race: %s by thread %u, %s by thread %u", kind_name(other),
                                 thread + 1, kind_name(kind), self + 1);
            }
        }
    }
}

static void access_note(const volatile void *object, size_t bytes, enum access_kind kind,
                        unsigned location) {
    unsigned self = fiber_self();
    uint16_t now = model_view(self)->clock[self];
    for (uintptr_t at = (uintptr_t)object; at < (uintptr_t)object + bytes; at++) {
        struct byte_accesses *byte = byte_of(at);
        access_check(byte, kind);
        byte->when[kind][self] = now;
        if (kind == ATOMIC_READ || kind == ATOMIC_WRITE) {
            byte->location = (uint16_t)(location + 1);
        } else if (kind == PLAIN_WRITE && byte->location) {
            model_overwritten(byte->location - 1u);
        }
    }
}

void shadow_plain(const volatile void *object, size_t bytes, bool writes) {
    if (search_is_running() && !fiber_has_on_stack(object) && !fiber_has_as_local(object)) {
        access_note(object, bytes, writes ? PLAIN_WRITE : PLAIN_READ, 0);
    }
}

void shadow_atomic(const volatile void *object, size_t bytes, bool writes, unsigned location) {
    access_note(object, bytes, writes ? ATOMIC_WRITE : ATOMIC_READ, location);
}

void shadow_freed(const void *memory, size_t bytes) {
    shadow_plain(memory, bytes, true);
    for (size_t i = 0; search_is_running() && i < bytes; i++) {
        byte_of((uintptr_t)memory + i)->freed = true;
    }
}

/* ------------------------------------------------------ called by the compiler */

#define SHADOW_SIZE(n)                                                                             \
    void __tsan_read##n(void *object);                                                             \
    void __tsan_write##n(void *object);                                                            \
    void __tsan_unaligned_read##n(void *object);                                                   \
    void __tsan_unaligned_write##n(void *object);                                                  \
    void __tsan_volatile_read##n(void *object);                                                    \
    void __tsan_volatile_write##n(void *object);                                                   \
    void __tsan_read##n(void *object) {                                                            \
        shadow_plain(object, n, false);                                                            \
    }                                                                                              \
    void __tsan_write##n(void *object) {                                                           \
        shadow_plain(object, n, true);                                                             \
    }                                                                                              \
    void __tsan_unaligned_read##n(void *object) {                                                  \
        shadow_plain(object, n, false);                                                            \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *object) {                                                 \
        shadow_plain(object, n, true);                                                             \
    }                                                                                              \
    void __tsan_volatile_read##n(void *object) {                                                   \
        shadow_plain(object, n, false);                                                            \
    }                                                                                              \
    void __tsan_volatile_write##n(void *object) {                                                  \
        shadow_plain(object, n, true);                                                             \
    }
SHADOW_SIZE(1)
SHADOW_SIZE(2)
SHADOW_SIZE(4)
SHADOW_SIZE(8)
SHADOW_SIZE(16)

void __tsan_read_range(void *object, unsigned long bytes);
void __tsan_write_range(void *object, unsigned long bytes);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_atomic_signal_fence(int order);
void __tsan_func_exit(void *caller);

void __tsan_read_range(void *object, unsigned long bytes) {
    shadow_plain(object, bytes, false);
}

void __tsan_write_range(void *object, unsigned long bytes) {
    shadow_plain(object, bytes, true);
}

void __tsan_init(void) {}

/* Orders for the compiler only: threads are explored as they are compiled. */
void __tsan_atomic_signal_fence(int order) {
    (void)order;
}

void __tsan_func_entry(void *caller) {
    (void)caller;
}

void __tsan_func_exit(void *caller) {
    (void)caller;
}

/* The explored sources call these by other names: see CMakeLists.txt. */
void *explored_memcpy(void *to, const void *from, size_t bytes);
void *explored_memmove(void *to, const void *from, size_t bytes);
void *explored_memset(void *to, int value, size_t bytes);

void *explored_memcpy(void *to, const void *from, size_t bytes) {
    shadow_plain(from, bytes, false);
    shadow_plain(to, bytes, true);
    return memcpy(to, from, bytes);
}

void *explored_memmove(void *to, const void *from, size_t bytes) {
    shadow_plain(from, bytes, false);
    shadow_plain(to, bytes, true);
    return memmove(to, from, bytes);
}

void *explored_memset(void *to, int value, size_t bytes) {
    shadow_plain(to, bytes, true);
    return memset(to, value, bytes);
}
