/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: one word holds the latest time returned, so that no later result is before it. */
#include "base/clock.h"

#include "base/atomic.h"
#include "base/delay.h"
#include "base/os/os.h"
#include "base/size.h"

static struct vr_clock_source sources[2]; /* the current replacement and the previous one */
static vr_atomic_ptr replaced;            /* struct vr_clock_source *; NULL: the system's */
static vr_atomic_u64 latest;              /* latest time returned; ns */
vr_atomic_bool vr_clock_counts;

void vr_clock_set(const struct vr_clock_source *source) {
    struct vr_clock_source *slot = NULL;
    if (source) {
        slot = vr_load(&replaced, VR_RELAXED) == &sources[0] ? &sources[1] : &sources[0];
        *slot = *source;
    }
    vr_store(&latest, 0, VR_RELAXED);
    vr_store(&replaced, slot, VR_RELEASE);
    vr_store(&vr_clock_counts, false, VR_RELAXED);
}

static uint64_t read_source(void) {
    const struct vr_clock_source *source = vr_load(&replaced, VR_ACQUIRE);
    return source && source->now ? source->now(source->user) : vr_os_now();
}

uint64_t vr_clock_now(void) {
    uint64_t now = read_source();
    uint64_t returned = vr_load(&latest, VR_RELAXED);
    while (returned < now) {
        if (vr_cas_weak(&latest, &returned, now, VR_RELAXED)) {
            return now;
        }
    }
    return returned;
}

uint64_t vr_clock_coarse(void) {
    const struct vr_clock_source *source = vr_load(&replaced, VR_ACQUIRE);
    return source && source->now ? source->now(source->user) : vr_os_now_coarse();
}

uint64_t vr_clock_ticks_slow(void) {
    return read_source();
}

void vr_clock_ticks_start(void) {
    vr_store(&vr_clock_counts, !vr_load(&replaced, VR_ACQUIRE) && vr_os_counter_start(),
             VR_RELAXED);
}

uint64_t vr_clock_tick_rate(void) {
    return vr_load(&vr_clock_counts, VR_RELAXED) ? vr_os_counter_rate() : UINT64_C(1000000000);
}

void vr_clock_sleep(uint64_t ns) {
    VR_DELAY_POINT("sleep");
    const struct vr_clock_source *source = vr_load(&replaced, VR_ACQUIRE);
    if (source && source->sleep) {
        source->sleep(source->user, ns);
    } else {
        vr_os_sleep(ns);
    }
}

uint64_t vr_deadline_in(uint64_t ns) {
    uint64_t deadline;
    return vr_add(vr_clock_now(), ns, &deadline) ? deadline : UINT64_MAX;
}

bool vr_deadline_passed(uint64_t deadline) {
    return vr_deadline_left(deadline) == 0;
}

uint64_t vr_deadline_left(uint64_t deadline) {
    if (deadline == UINT64_MAX) {
        return UINT64_MAX; /* never expires: saturated, or requested as UINT64_MAX */
    }
    uint64_t now = vr_clock_now();
    return deadline > now ? deadline - now : 0;
}
