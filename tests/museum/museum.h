/* SPDX-License-Identifier: Apache-2.0 */
/*
 * museum.h: bugs of other allocators, each as a test that shows it absent here. docs/museum.md
 * lists all of them with their origin.
 *
 * A program has a table of bugs. CMake makes one test of each line BUG(number, name), which runs
 * the program with the name "number_name": every bug has a process of its own.
 */
#ifndef MUSEUM_H
#define MUSEUM_H

#include "unit/assert_ok.h"

#include <stdio.h>
#include <string.h>

#define BUG(number, name)                                                                          \
    { #number "_" #name, name, museum_begin, museum_end, NULL }

/* Threads of a storm do less where every access is watched. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUSEUM_WATCHED 1
#else
#define MUSEUM_WATCHED 0
#endif

static inline int museum_run(const struct CMUnitTest *bugs, size_t count, int words, char **word) {
    for (size_t i = 0; i < count; i++) {
        if (words == 2 && strcmp(bugs[i].name, word[1]) == 0) {
            return _cmocka_run_group_tests(bugs[i].name, &bugs[i], 1, NULL, NULL);
        }
    }
    fprintf(stderr, "usage: %s BUG\n", word[0]);
    return 2;
}

#define MUSEUM(bugs, words, word) museum_run(bugs, sizeof bugs / sizeof bugs[0], words, word)

#endif
