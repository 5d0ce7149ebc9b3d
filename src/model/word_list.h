/* SPDX-License-Identifier: Apache-2.0 */
/*
 * word_list.h: lists of words in one text, separated by blanks.
 */
#ifndef VR_WORD_LIST_H
#define VR_WORD_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether `word` is in the list; "" is in none. */
static inline bool vr_word_listed(const char *list, const char *word) {
    size_t bytes = strlen(word);
    for (const char *at = list; *at && bytes > 0;) {
        size_t one = strcspn(at, " ");
        if (one == bytes && memcmp(at, word, bytes) == 0) {
            return true;
        }
        at += one + (at[one] == ' ');
    }
    return false;
}

#endif
