/* SPDX-License-Identifier: Apache-2.0 */
/* byte_units.h: sizes as tests write them: 4 * MIB. */
#ifndef TEST_BYTE_UNITS_H
#define TEST_BYTE_UNITS_H

#include <stdint.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#endif
