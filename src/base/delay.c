/* SPDX-License-Identifier: Apache-2.0 */
/* delay.c: one pointer, which is NULL except in tests that delay threads. */
#include "base/delay.h"

#ifdef VR_DEBUG

#include "base/atomic.h"

static _Atomic(vr_delay_fn *) delay_hook;

void vr_delay_hook_set(vr_delay_fn *hook) {
    vr_store(&delay_hook, hook, VR_RELEASE);
}

void vr_delay_point(const char *place) {
    vr_delay_fn *hook = vr_load(&delay_hook, VR_ACQUIRE);
    if (hook) {
        hook(place);
    }
}

#else

void vr_delay_hook_set(vr_delay_fn *hook) {
    (void)hook;
}

#endif
