/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry_guard.c: waiting until the last call has left an object.
 */
#include "base/entry_guard.h"

#include "base/clock.h"
#include "base/os/os.h"

enum { YIELDS = 64 };           /* looks before the first sleep: most calls leave soon */
#define LOOK_NS UINT64_C(20000) /* between two later ones */

bool vr_entry_wait(const struct vr_entry_guard *guard, uint64_t deadline,
                   const vr_atomic_bool *stop) {
    for (unsigned looks = 0; vr_entry_inside(guard); looks++) {
        if (vr_deadline_passed(deadline) || (stop && vr_load(stop, VR_ACQUIRE))) {
            return false;
        }
        if (looks < YIELDS) {
            vr_os_yield();
        } else {
            vr_clock_sleep(LOOK_NS);
        }
    }
    return true;
}
