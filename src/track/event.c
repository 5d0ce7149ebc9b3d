/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c: the one receiver of events, and the calls to it in progress.
 */
#include "track/event.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/os/os.h"

vr_atomic_bool vr_events_wanted_flag;

static struct vr_mutex change_lock =
    VR_MUTEX_INIT(VR_RANK_TRACK); /* guards changes of the receiver */
static struct {
    vr_event_fn *take; /* written only when the flag is clear and no call is inside */
    void *user;
    uint64_t process;     /* whose events it receives; keeps (5) */
    vr_atomic_u32 inside; /* calls in progress */
} receiver;

void vr_event_tell(struct vr_event *event) {
    struct vram_error error;
    if (!vr_events_wanted()) {
        return;
    }
    vr_fetch_add(&receiver.inside, 1, VR_SEQ_CST);
    if (vr_load(&vr_events_wanted_flag, VR_SEQ_CST) &&
        receiver.process == vr_os_process_generation()) {
        event->time_ns = vr_clock_now();
        vr_error_save(&error);
        receiver.take(receiver.user, event);
        vr_error_restore(&error);
    }
    vr_fetch_sub(&receiver.inside, 1, VR_SEQ_CST);
}

/* Keeps (3): a call that enters from now on finds the flag clear. In a child, calls of the parent's
   threads never end, and are not waited for. */
static void receiver_clear(void) {
    vr_store(&vr_events_wanted_flag, false, VR_SEQ_CST);
    for (unsigned round = 0;
         vr_load(&receiver.inside, VR_SEQ_CST) && receiver.process == vr_os_process_generation();
         round++) {
        if (round < 64) {
            vr_os_yield();
        } else {
            vr_os_sleep(50000);
        }
    }
}

bool vr_events_taken(void) {
    vr_mutex_lock(&change_lock);
    bool taken = vr_events_wanted() && receiver.process == vr_os_process_generation();
    vr_mutex_unlock(&change_lock);
    return taken;
}

vram_status vr_events_to(vr_event_fn *take, void *user) {
    bool own = receiver.process == vr_os_process_generation();
    vram_status status = VRAM_OK;
    vr_mutex_lock(&change_lock);
    if (take && vr_events_wanted() && own) {
        status = VRAM_ERR_BUSY;
    } else {
        receiver_clear();
        receiver.take = take;
        receiver.user = user;
        if (take) {
            if (!own) {
                vr_store(&receiver.inside, 0, VR_RELAXED);
            }
            receiver.process = vr_os_process_generation();
            vr_store(&vr_events_wanted_flag, true, VR_SEQ_CST);
        }
    }
    vr_mutex_unlock(&change_lock);
    return status == VRAM_OK
               ? VRAM_OK
               : vr_fail_in(status, "vr_events_to", "another receiver of events is set already");
}
