/* SPDX-License-Identifier: Apache-2.0 */
/* assert_ok.h: cmocka, and the assertion that a call succeeds. */
#ifndef TEST_ASSERT_OK_H
#define TEST_ASSERT_OK_H

#include "vram/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define assert_ok(call) assert_int_equal(call, VRAM_OK)

#endif
