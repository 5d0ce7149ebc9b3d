/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story.h: what a trace shows, in sentences: the peak and who had it, what the allocator held
 * beyond it, what grew, what was never freed, what failed, and what is not known.
 */
#ifndef REPORT_STORY_H
#define REPORT_STORY_H

#include "sites.h"

enum { STORY_SENTENCES_MAX = 10, STORY_SENTENCE_BYTES = 900, STORY_GROWTH_MAX = 3 };

struct story {
    char sentences[STORY_SENTENCES_MAX][STORY_SENTENCE_BYTES];
    size_t count;
};

void story_tell(struct story *story, const struct history *history, struct report_input *input);

/* "11,185,480,704". */
enum { COMMAS_TEXT_MAX = 28 };
const char *commas(uint64_t number, char text[COMMAS_TEXT_MAX]);

#endif
