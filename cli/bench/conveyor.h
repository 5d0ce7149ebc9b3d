/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conveyor.h: blocks on their way from the thread that allocates to the one that frees.
 *
 * One writer, one reader. Each keeps what it last saw of the other, so that a shared line is read
 * once in many steps; a side that must wait gives its processor away, since on a small machine the
 * other side may need just that one.
 */
#ifndef CONVEYOR_H
#define CONVEYOR_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

enum { CONVEYOR_ROWS = 1024, CONVEYOR_LINE = 128, CONVEYOR_SPINS = 256 };

struct conveyor {
    _Alignas(CONVEYOR_LINE) _Atomic uint64_t written; /* rows so far */
    uint64_t read_seen;                               /* the writer's last look at `read` */
    _Alignas(CONVEYOR_LINE) _Atomic uint64_t read;
    uint64_t written_seen; /* the reader's last look at `written` */
    _Alignas(CONVEYOR_LINE) uint64_t rows[CONVEYOR_ROWS];
};

static inline void conveyor_pause(uint32_t *spins) {
    if (++*spins % CONVEYOR_SPINS == 0) {
        sched_yield();
    }
}

static inline void conveyor_put(struct conveyor *belt, uint64_t value) {
    uint64_t at = atomic_load_explicit(&belt->written, memory_order_relaxed);
    for (uint32_t spins = 0; at - belt->read_seen == CONVEYOR_ROWS;) {
        belt->read_seen = atomic_load_explicit(&belt->read, memory_order_acquire);
        conveyor_pause(&spins);
    }
    belt->rows[at % CONVEYOR_ROWS] = value;
    atomic_store_explicit(&belt->written, at + 1, memory_order_release);
}

static inline uint64_t conveyor_get(struct conveyor *belt) {
    uint64_t at = atomic_load_explicit(&belt->read, memory_order_relaxed);
    for (uint32_t spins = 0; at == belt->written_seen;) {
        belt->written_seen = atomic_load_explicit(&belt->written, memory_order_acquire);
        conveyor_pause(&spins);
    }
    uint64_t value = belt->rows[at % CONVEYOR_ROWS];
    atomic_store_explicit(&belt->read, at + 1, memory_order_release);
    return value;
}

#endif
