/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: monotonic time that tests can replace, and deadlines that cannot overflow. */
#ifndef VR_CLOCK_H
#define VR_CLOCK_H

#include "base/atomic.h"
#include "base/os/ticks.h"

/* Nanoseconds since an arbitrary start. Never decreases, even if the source does. */
uint64_t vr_clock_now(void);

/* The same from a clock that is very cheap to read and advances in steps of a few milliseconds. It
   may lag behind vr_clock_now, but is never ahead of it. */
uint64_t vr_clock_coarse(void);

/*
 * Ticks since an arbitrary start, from a clock of a few nanoseconds that all threads share: the
 * processor's counter, or this clock in ns where there is none to rely on or where it is replaced.
 * Two calls of different threads are ordered as the threads have synchronised if the later one is
 * vr_clock_ticks_ordered; without that, a processor may read the counter before earlier loads. A
 * thread's own reads may be out of order by as much.
 */
extern vr_atomic_bool vr_clock_counts; /* the counter is used */
uint64_t vr_clock_ticks_slow(void);
static inline uint64_t vr_clock_ticks(void) {
    return __builtin_expect(vr_load(&vr_clock_counts, VR_RELAXED), 1) ? vr_os_counter()
                                                                      : vr_clock_ticks_slow();
}
static inline uint64_t vr_clock_ticks_ordered(void) {
    return vr_load(&vr_clock_counts, VR_RELAXED) ? vr_os_counter_ordered() : vr_clock_ticks_slow();
}
/* Called before the first ticks are read. */
void vr_clock_ticks_start(void);
/* Ticks per second, at best known at this time. */
uint64_t vr_clock_tick_rate(void);

/* Sleeps about `ns`. If the clock is replaced, calls its sleep function instead. */
void vr_clock_sleep(uint64_t ns);

/* For tests: another source, which is copied. A NULL function, or a NULL source, selects the
   system's. Time restarts at what the new source says. At most one change while another thread is
   inside. */
struct vr_clock_source {
    uint64_t (*now)(void *user);
    void (*sleep)(void *user, uint64_t ns);
    void *user;
};
void vr_clock_set(const struct vr_clock_source *source);

/* A time of vr_clock_now; saturates at UINT64_MAX. */
uint64_t vr_deadline_in(uint64_t ns);
bool vr_deadline_passed(uint64_t deadline);
/* Nanoseconds left; 0 if it has passed. */
uint64_t vr_deadline_left(uint64_t deadline);

#endif
