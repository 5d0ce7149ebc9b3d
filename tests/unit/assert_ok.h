/* SPDX-License-Identifier: Apache-2.0 */
/* assert_ok.h: tests, and the assertion that a call succeeds. */
#ifndef TEST_ASSERT_OK_H
#define TEST_ASSERT_OK_H

#include "rig/rig.h"
#include "vram/base.h"

#define assert_ok(call) assert_int_equal(call, VRAM_OK)

#endif
