/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_json_reader.c: what the reader takes for JSON, what it takes from Python beyond it, and how
 * it says what is wrong.
 */
#include "model/json_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Reads all of the text; NULL: it is valid. */
static const char *problem_of(const char *text, size_t *at) {
    struct vr_json_reader reader;
    struct vr_json_token token;
    vr_json_begin(&reader, text, strlen(text));
    do {
        token = vr_json_next(&reader);
    } while (token.kind != VR_JSON_BAD && token.kind != VR_JSON_END);
    *at = reader.at;
    assert_true((reader.problem != NULL) == (token.kind == VR_JSON_BAD));
    return reader.problem;
}

static void numbers_that_are_not_finite(void **state) {
    (void)state;
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct vr_json_reader reader;
        char text[64];
        uint64_t number = 7;
        int bytes = snprintf(text, sizeof text, "{\"a\": %s, \"b\": [%s]}", words[i], words[i]);
        vr_json_begin(&reader, text, (size_t)bytes);
        assert_int_equal(vr_json_next(&reader).kind, VR_JSON_OBJECT);
        assert_int_equal(vr_json_next(&reader).kind, VR_JSON_KEY);
        struct vr_json_token token = vr_json_next(&reader);
        assert_int_equal(token.kind, VR_JSON_NOT_FINITE);
        assert_int_equal(token.bytes, strlen(words[i]));
        assert_memory_equal(token.at, words[i], token.bytes);
        assert_false(vr_json_unsigned_read(token, &number)); /* it is a value, but no number */
        assert_int_equal(number, 7);
        assert_true(vr_json_skip(&reader, token));
        assert_int_equal(vr_json_next(&reader).kind, VR_JSON_KEY);
        assert_true(vr_json_skip(&reader, vr_json_next(&reader)));
        assert_int_equal(vr_json_next(&reader).kind, VR_JSON_OBJECT_END);
        assert_int_equal(vr_json_next(&reader).kind, VR_JSON_END);
    }
}

static void everything_else_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t at;
        const char *problem;
    } rows[] = {
        {"[nan]", 1, "expected a value"},
        {"[inf]", 1, "expected a value"},
        {"[+Infinity]", 1, "expected a value"},
        {"[-NaN]", 2, "a number is not complete"},
        {"[-Infinit]", 2, "a number is not complete"},
        {"[--Infinity]", 2, "a number is not complete"},
        {"[Infinity0]", 9, "expected a comma"},
        {"[NaNNaN]", 4, "expected a comma"},
        {"{NaN: 1}", 1, "expected a key"},
        {"NaN", 3, NULL},
        {"[1e5, -0.5E-3]", 14, NULL},
        {"[01]", 2, "a number is not complete"},
        {"[1.]", 3, "a number is not complete"},
        {"", 0, "the text ends where a value is expected"},
        {"[", 1, "the text ends where a value is expected"},
        {"[1", 2, "the text ends inside an object or array"},
        {"{\"a\" 1}", 5, "expected a colon"},
        {"[1] 2", 4, "expected nothing after the value"},
        {"\"a", 1, "a string is not terminated"},
        {"\"\\x\"", 1, "a string has an invalid character"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t at;
        const char *problem = problem_of(rows[i].text, &at);
        if (rows[i].problem == NULL) {
            assert_null(problem);
        } else {
            assert_non_null(problem);
            assert_string_equal(problem, rows[i].problem);
        }
        if (at != rows[i].at) {
            fail_msg("%s: at byte %zu", rows[i].text, at);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_not_finite),
        cmocka_unit_test(everything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
