/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: monotonic time that tests can replace, and deadlines that cannot overflow. */
#ifndef VR_CLOCK_H
#define VR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds since some start; never falls, even when the source does. */
uint64_t vr_clock_now(void);

/* The same from a clock that costs next to nothing and moves in steps of some milliseconds. It may
   fall behind vr_clock_now, never run ahead of it. */
uint64_t vr_clock_coarse(void);

/* Sleeps about `ns` (of the replaced clock: its sleep function is called instead). */
void vr_clock_sleep(uint64_t ns);

/* Tests: another source, copied; a NULL function, or a NULL source, is the system's. Time starts
   again from what the new source says. At most one change while another thread is inside. */
struct vr_clock_source {
    uint64_t (*now)(void *user);
    void (*sleep)(void *user, uint64_t ns);
    void *user;
};
void vr_clock_set(const struct vr_clock_source *source);

/* A moment in vr_clock_now's time; saturates at UINT64_MAX. */
uint64_t vr_deadline_in(uint64_t ns);
bool vr_deadline_passed(uint64_t deadline);
/* Nanoseconds left, 0 when passed. */
uint64_t vr_deadline_left(uint64_t deadline);

#endif
