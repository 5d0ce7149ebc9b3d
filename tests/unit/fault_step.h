/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_step.h: how loops over failing calls go from one call to the next. Without sanitizers every
 * call fails in its turn. Under a sanitizer, which makes each run dear, every third does; under
 * ThreadSanitizer, to which the threads matter and not the call, every eleventh, and every third in
 * make test-long.
 */
#ifndef TEST_FAULT_STEP_H
#define TEST_FAULT_STEP_H

#include <stdlib.h>

#if defined(__SANITIZE_THREAD__)
#define FAULT_STEP (getenv("VRAM_TEST_LONG") ? 3u : 11u)
#elif defined(__SANITIZE_ADDRESS__)
#define FAULT_STEP 3u
#else
#define FAULT_STEP 1u
#endif

#endif
