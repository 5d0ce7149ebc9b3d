/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h: what a fuzz target is. fuzz_driver.c feeds one with mutated inputs in every build; with
 * clang tools/fuzz has libFuzzer do it, which sees the code it reaches.
 *
 * A target takes any bytes, and ends the process (FUZZ_EXPECT) when something does not hold.
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Words that mutations put in, NULL at the end. */
extern const char *const fuzz_words[];

#define FUZZ_EXPECT(fact)                                                                          \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #fact);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
