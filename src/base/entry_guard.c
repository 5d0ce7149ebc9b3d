/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry_guard.c: waits until the last call has left an object.
 */
#include "base/entry_guard.h"

#include "base/clock.h"
#include "base/os/os.h"

enum { YIELDS = 64 };           /* polls before the first sleep: most calls leave soon */
#define POLL_NS UINT64_C(20000) /* between two later polls */

bool vr_entry_wait(const struct vr_entry_guard *guard, uint64_t deadline,
                   const vr_atomic_bool *stop) {
    for (unsigned polls = 0; vr_entry_inside(guard); polls++) {
        if (vr_deadline_passed(deadline) || (stop && vr_load(stop, VR_ACQUIRE))) {
            return false;
        }
        if (polls < YIELDS) {
            vr_os_yield();
        } else {
            vr_clock_sleep(POLL_NS);
        }
    }
    return true;
}
