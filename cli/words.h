/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h: lists of words parted by blanks, as the tables of verbs and flags hold them, and the
 * search for the word that a mistyped one was meant to be.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Steps through a list; *list starts as the list and moves on. False at its end, or for NULL. */
bool words_next(const char **list, const char **word, size_t *bytes);

/* Whether `word` is in the list. */
bool words_contain(const char *list, const char *word);

/* The list with ", " between its words, cut to what fits. Returns `text`. */
const char *words_join(const char *list, char *text, size_t text_bytes);

enum { WORD_MAX = 32 }; /* longest word that "did you mean" looks at, the final 0 included */

/* The search: set `typed` and zero the rest, consider every candidate, read `best`. */
struct nearest {
    const char *typed;
    char best[WORD_MAX]; /* "" while nothing is near */
    unsigned distance;   /* edits between typed and best */
};

void nearest_consider(struct nearest *nearest, const char *candidate, size_t bytes);

#endif
