/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: monotonic time that tests can replace, and deadlines that cannot overflow. */
#ifndef VR_CLOCK_H
#define VR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds since an arbitrary start. Never decreases, even if the source does. */
uint64_t vr_clock_now(void);

/* The same from a clock that is very cheap to read and advances in steps of a few milliseconds. It
   may lag behind vr_clock_now, but is never ahead of it. */
uint64_t vr_clock_coarse(void);

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
