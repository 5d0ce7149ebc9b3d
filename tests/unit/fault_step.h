/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_step.h: how much of a loop runs in which build. Without sanitizers every call of a loop of
 * failing calls fails in its turn. Under a sanitizer, which makes each run dear, every third does;
 * under ThreadSanitizer, to which the threads matter and not the call, every eleventh, and every
 * third in make test-long.
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

/* How often threads repeat what they race for. ThreadSanitizer sees a race that has not come about:
   a quarter of the rounds is enough for it, and in make test-long it has all. */
static inline unsigned race_rounds(unsigned all) {
#if defined(__SANITIZE_THREAD__)
    return getenv("VRAM_TEST_LONG") ? all : (all + 3) / 4;
#else
    return all;
#endif
}

#endif
