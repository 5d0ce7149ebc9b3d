/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nothing_left.h: the end of a test whose library held nothing before it. Planned faults, options
 * and the log callback are taken back; memory, a handle or a lock that is left fails the test.
 */
#ifndef TEST_NOTHING_LEFT_H
#define TEST_NOTHING_LEFT_H

#include "base/handle.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/option.h"
#include "vram/base.h"

static inline int nothing_left(void **state) {
    (void)state;
    vr_mem_fail_at(0, false);
    vr_option_reset();
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    return vr_mem_live_bytes() == 0 && vr_handle_live(0) == 0 && vr_locks_live() == 0 ? 0 : -1;
}

#endif
