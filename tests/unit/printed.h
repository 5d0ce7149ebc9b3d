/* SPDX-License-Identifier: Apache-2.0 */
/* printed.h: what a function of the command prints, taken from standard output. */
#ifndef TEST_PRINTED_H
#define TEST_PRINTED_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PRINTED_MAX = 1 << 20 };

static char printed[PRINTED_MAX];
static FILE *printed_to;
static int printed_before;

static inline void printed_begin(void) {
    printed_to = tmpfile();
    assert_non_null(printed_to);
    fflush(stdout);
    printed_before = dup(STDOUT_FILENO);
    assert_true(printed_before >= 0 && dup2(fileno(printed_to), STDOUT_FILENO) >= 0);
}

static inline void printed_end(void) {
    fflush(stdout);
    assert_true(dup2(printed_before, STDOUT_FILENO) >= 0);
    close(printed_before);
    rewind(printed_to);
    printed[fread(printed, 1, sizeof printed - 1, printed_to)] = '\0';
    fclose(printed_to);
}

/* How often `words` stand in what was printed. */
static inline unsigned printed_count(const char *words) {
    unsigned count = 0;
    for (const char *at = printed; (at = strstr(at, words)) != NULL; at += strlen(words)) {
        count++;
    }
    return count;
}

#endif
