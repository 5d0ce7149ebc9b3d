/* SPDX-License-Identifier: Apache-2.0 */
/*
 * asserts.h: what a test says must be so. A failure names the file, the line and both values, and
 * ends the test; in a thread or a child of the test it ends the process.
 */
#ifndef TEST_ASSERTS_H
#define TEST_ASSERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define print_message(...) ((void)printf(__VA_ARGS__))
#define print_error(...)   ((void)fprintf(stderr, __VA_ARGS__))

#define fail_msg(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()        fail_msg("this place must not be reached")
#define skip()        test_skip()

#define assert_true(what)     ((what) ? (void)0 : fail_msg("%s is false", #what))
#define assert_false(what)    ((what) ? fail_msg("%s is true", #what) : (void)0)
#define assert_null(what)     assert_true((what) == NULL)
#define assert_non_null(what) assert_true((what) != NULL)
#define assert_int_equal(is, wanted)                                                               \
    test_ints((uintmax_t)(is), (uintmax_t)(wanted), true, #is, #wanted, __FILE__, __LINE__)
#define assert_int_not_equal(is, other)                                                            \
    test_ints((uintmax_t)(is), (uintmax_t)(other), false, #is, #other, __FILE__, __LINE__)
#define assert_ptr_equal(is, wanted)    assert_int_equal((uintptr_t)(is), (uintptr_t)(wanted))
#define assert_ptr_not_equal(is, other) assert_int_not_equal((uintptr_t)(is), (uintptr_t)(other))
#define assert_in_range(is, from, to)                                                              \
    test_range((uintmax_t)(is), (uintmax_t)(from), (uintmax_t)(to), #is, __FILE__, __LINE__)
#define assert_float_equal(is, wanted, within)                                                     \
    test_floats((double)(is), (double)(wanted), (double)(within), #is, __FILE__, __LINE__)
#define assert_string_equal(is, wanted)    test_strings(is, wanted, true, #is, __FILE__, __LINE__)
#define assert_string_not_equal(is, other) test_strings(is, other, false, #is, __FILE__, __LINE__)
#define assert_memory_equal(is, wanted, bytes)                                                     \
    test_bytes(is, wanted, bytes, #is, __FILE__, __LINE__)

_Noreturn void test_fail(const char *file, int line, const char *text, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(void);
void test_ints(uintmax_t is, uintmax_t other, bool equal, const char *what, const char *than,
               const char *file, int line);
void test_range(uintmax_t is, uintmax_t from, uintmax_t to, const char *what, const char *file,
                int line);
void test_floats(double is, double wanted, double within, const char *what, const char *file,
                 int line);
void test_strings(const char *is, const char *other, bool equal, const char *what, const char *file,
                  int line);
void test_bytes(const void *is, const void *wanted, size_t bytes, const char *what,
                const char *file, int line);

#endif
