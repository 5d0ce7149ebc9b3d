/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.c: see words.h.
 */
#include "words.h"

#include <stdio.h>
#include <string.h>

bool words_next(const char **list, const char **word, size_t *bytes) {
    if (*list == NULL) {
        return false;
    }
    const char *start = *list + strspn(*list, " ");
    *bytes = strcspn(start, " ");
    *word = start;
    *list = start + *bytes;
    return *bytes > 0;
}

bool words_contain(const char *list, const char *word) {
    const char *entry;
    size_t bytes;
    while (words_next(&list, &entry, &bytes)) {
        if (strlen(word) == bytes && memcmp(entry, word, bytes) == 0) {
            return true;
        }
    }
    return false;
}

const char *words_join(const char *list, char *text, size_t text_bytes) {
    const char *word;
    size_t bytes, used = 0;
    text[0] = 0;
    while (words_next(&list, &word, &bytes) && used + bytes + 3 <= text_bytes) {
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%.*s", used > 0 ? ", " : "",
                                 (int)bytes, word);
    }
    return text;
}

/* Smallest of three. */
static unsigned least(unsigned a, unsigned b, unsigned c) {
    unsigned smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/*
 * Levenshtein's distance by the usual table, one row kept: row[j] is the distance between what was
 * read of `left` and the first j letters of `right`. Both fit in WORD_MAX.
 */
static unsigned edits(const char *left, const char *right, size_t right_bytes) {
    unsigned row[WORD_MAX];
    for (size_t j = 0; j <= right_bytes; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 0; left[i] != 0; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < right_bytes; j++) {
            unsigned above = row[j + 1];
            row[j + 1] = least(above + 1, row[j] + 1, diagonal + (left[i] != right[j]));
            diagonal = above;
        }
    }
    return row[right_bytes];
}

/*
 * Two edits are near, and so is a beginning of either word: people who stop early ("comp"), go on
 * ("benchmark") or swap two letters ("ifno") meant something. Of two-letter words only the
 * beginning counts, else all would be near.
 */
void nearest_consider(struct nearest *nearest, const char *candidate, size_t bytes) {
    size_t typed_bytes = strlen(nearest->typed);
    if (typed_bytes < 2 || typed_bytes >= WORD_MAX || bytes >= WORD_MAX) {
        return;
    }
    bool begins =
        memcmp(candidate, nearest->typed, typed_bytes < bytes ? typed_bytes : bytes) == 0 &&
        (typed_bytes < bytes || bytes > 3);
    unsigned distance = begins ? 1 : edits(nearest->typed, candidate, bytes);
    bool near = begins || (distance <= 2 && typed_bytes > 2);
    if (near && (nearest->best[0] == 0 || distance < nearest->distance)) {
        memcpy(nearest->best, candidate, bytes);
        nearest->best[bytes] = 0;
        nearest->distance = distance;
    }
}
