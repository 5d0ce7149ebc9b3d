/* SPDX-License-Identifier: Apache-2.0 */
/* printed_text.h: what code of the command prints to standard output and to standard error. */
#ifndef TEST_PRINTED_TEXT_H
#define TEST_PRINTED_TEXT_H

#include "rig/rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PRINTED_MAX = 1 << 18 };
static char printed[PRINTED_MAX]; /* since printed_begin, once printed_end was called */

static FILE *printed_file;
static int printed_before[2];

static inline void printed_begin(void) {
    printed_file = tmpfile();
    assert_non_null(printed_file);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        printed_before[i] = dup(STDOUT_FILENO + i);
        assert_true(printed_before[i] >= 0);
        assert_true(dup2(fileno(printed_file), STDOUT_FILENO + i) >= 0);
    }
}

static inline const char *printed_end(void) {
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        assert_true(dup2(printed_before[i], STDOUT_FILENO + i) >= 0);
        close(printed_before[i]);
    }
    rewind(printed_file);
    printed[fread(printed, 1, sizeof printed - 1, printed_file)] = 0;
    fclose(printed_file);
    return printed;
}

/* Fails with the whole text if a part of it is missing, or is there and must not be. */
static inline void printed_has(const char *part) {
    if (strstr(printed, part) == NULL) {
        fail_msg("\"%s\" is not in\n%s", part, printed);
    }
}
static inline void printed_lacks(const char *part) {
    if (strstr(printed, part) != NULL) {
        fail_msg("\"%s\" is in\n%s", part, printed);
    }
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
