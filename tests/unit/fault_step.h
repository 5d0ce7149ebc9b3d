/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_step.h: how loops over failing calls go from one call to the next. Without sanitizers every
 * call fails in its turn; under a sanitizer, which makes each run dear, every third does.
 */
#ifndef TEST_FAULT_STEP_H
#define TEST_FAULT_STEP_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FAULT_STEP = 3 };
#else
enum { FAULT_STEP = 1 };
#endif

#endif
