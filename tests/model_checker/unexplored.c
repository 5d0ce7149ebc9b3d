/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unexplored.c: functions that explored sources call, and no scenario reaches. Their types do not
 * matter, so none of the library's headers is included; a call ends the program.
 */
#include "explore_checker.h"

#define UNEXPLORED(name)                                                                           \
    void name(void);                                                                               \
    void name(void) {                                                                              \
        checker_fail("a scenario reaches " #name);                                                 \
    }

UNEXPLORED(vr_address_pool)
UNEXPLORED(vr_event_tell)
UNEXPLORED(vr_fail_size)
UNEXPLORED(vr_fallback_freed)
UNEXPLORED(vr_guard_check)
UNEXPLORED(vr_guard_fill_by_stream)
UNEXPLORED(vr_guard_prepare)
UNEXPLORED(vr_guard_quarantine)
UNEXPLORED(vr_os_cancel_off_first)
UNEXPLORED(vr_os_cancel_on_last)
UNEXPLORED(vr_pool_enter_block)
UNEXPLORED(vr_pool_free_shortcut)
UNEXPLORED(vr_pool_hand_out)
UNEXPLORED(vr_pool_return_ordered)
UNEXPLORED(vr_pool_supply)
UNEXPLORED(vr_pressure_on_miss)
UNEXPLORED(vr_quota_charge)
UNEXPLORED(vr_request_read)
UNEXPLORED(vr_space_forget)
UNEXPLORED(vr_tag_cancel)
UNEXPLORED(vr_tag_charge_unlimited)
UNEXPLORED(vr_tag_confirm)
UNEXPLORED(vr_tag_notify)
UNEXPLORED(vr_tag_release)
UNEXPLORED(vr_track_quick)
UNEXPLORED(vr_track_remove)
UNEXPLORED(vr_tracking_alloc)
UNEXPLORED(vr_tracking_free)
UNEXPLORED(vr_tracking_notify)
UNEXPLORED(vr_tracking_notify_hit)
UNEXPLORED(vr_tracking_prepare)
UNEXPLORED(vr_tracking_refuse)
UNEXPLORED(vr_tracking_trace_free)
UNEXPLORED(vr_tracking_trace_hit)

/* Variables: nobody listens or ends the process. */
extern uint64_t vr_events_wanted_by, vr_os_exit_began;
uint64_t vr_events_wanted_by, vr_os_exit_began;
