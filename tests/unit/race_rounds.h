/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_rounds.h: how often threads repeat what they race for. ThreadSanitizer, which makes each
 * round dear, sees a race that has not come about: a quarter of the rounds is enough for it. In
 * make test-long it has all.
 */
#ifndef TEST_RACE_ROUNDS_H
#define TEST_RACE_ROUNDS_H

#include <stdlib.h>

static inline unsigned race_rounds(unsigned all) {
#if defined(__SANITIZE_THREAD__)
    return getenv("VRAM_TEST_LONG") ? all : (all + 3) / 4;
#else
    return all;
#endif
}

#endif
