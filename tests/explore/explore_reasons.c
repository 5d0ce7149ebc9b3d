/* SPDX-License-Identifier: Apache-2.0 */
/* explore_reasons.c: why an order stays although no scenario notices a weaker one. */
#include "explore_table.h"

const struct explore_reason explore_reasons[] = {
    {"src/track/biased_lock.c", "`bias_begin`: store `lock->biased`", "relaxed",
     "keeps the compiler from moving it before `inside`, for a signal handler of the same thread"},
    {"src/track/biased_lock.c", "`bias_begin`: store `lock->inside` (2)", "relaxed",
     "keeps the compiler from moving it before `holder`, for a signal handler of the same thread"},
    {.file = NULL}};
