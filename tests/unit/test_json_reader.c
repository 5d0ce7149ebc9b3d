/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_json_reader.c: what the reader takes for JSON, what it takes from Python beyond it, and how
 * it says what is wrong.
 */
#include "base/decimal.h"
#include "model/json_reader.h"
#include "rig/rig.h"

#include <stdio.h>
#include <string.h>

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

TEST(numbers_that_are_not_finite) {
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

TEST(everything_else_is_refused) {
    static const struct {
        const char *text;
        size_t at;
        const char *problem;
    } rows[] = {
        {"[nan]", 1, "expected a value"},
        {"[inf]", 1, "expected a value"},
        {"[+Infinity]", 1, "expected a value"},
        {"[-NaN]", 1, "a number is not complete"},
        {"[-Infinit]", 1, "a number is not complete"},
        {"[--Infinity]", 1, "a number is not complete"},
        {"[Infinity0]", 9, "expected a comma"},
        {"[NaNNaN]", 4, "expected a comma"},
        {"{NaN: 1}", 1, "expected a key"},
        {"NaN", 3, NULL},
        {"\xEF\xBB\xBF[]", 5, NULL}, /* a byte order mark */
        {"\xEF\xBB[]", 0, "expected a value"},
        {"[1e5, -0.5E-3]", 14, NULL},
        {"[01]", 1, "a number is not complete"},
        {"[1.]", 1, "a number is not complete"},
        {"", 0, "the text ends where a value is expected"},
        {"[", 1, "the text ends where a value is expected"},
        {"[1", 2, "the text ends inside an object or array"},
        {"{\"a\" 1}", 5, "expected a colon"},
        {"[1] 2", 4, "expected nothing after the value"},
        {"[1]{}", 3, "expected nothing after the value"},
        {"[1 2]", 3, "expected a comma"},
        {"{\"a\":1]", 6, "expected a comma"},
        {"{\"a\":1,}", 7, "expected a key"},
        {"{a:1}", 1, "expected a key"},
        {"{\"a\":}", 5, "expected a value"},
        {"[1,]", 3, "expected a value"},
        {"[nul]", 1, "expected a value"},
        {"['b']", 1, "expected a value"},
        {"\"\x80\"", 1, "a string has an invalid character"},
        {"\"\n\"", 1, "a string has an invalid character"},
        {"\"a", 1, "a string is not terminated"},
        {"\"\\x\"", 1, "a string has an invalid character"},
        {"{\"\\x\":1}", 2, "a string has an invalid character"},
        {"\"\\", 1, "a string has an invalid character"},
        {"\"\\u12", 1, "a string has an invalid character"},
        {"\"\\ud7ff\\ue000\"", 14, NULL}, /* on both sides of the surrogates */
        {"\"\\ud83d\\ude00\"", 14, NULL},
        {"\"\\ud800\"", 1, "a string has an invalid character"},
        {"\"\\udc00\"", 1, "a string has an invalid character"},
        {"\"\\ud800 udc00\"", 1, "a string has an invalid character"},
        {"\"\\ud800\\ndc00\"", 1, "a string has an invalid character"},
        {"\"\\ud800\\udc0g\"", 1, "a string has an invalid character"},
        {"\"\\ud800\\udbff\"", 1, "a string has an invalid character"},
        {"\"\\ud800\\ue000\"", 1, "a string has an invalid character"},
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

static struct vr_json_token token_of(struct vr_json_reader *reader, const char *text,
                                     size_t bytes) {
    vr_json_begin(reader, text, bytes);
    return vr_json_next(reader);
}

TEST(nothing_follows_a_refusal) {
    struct vr_json_reader reader;
    assert_int_equal(token_of(&reader, "\"\\\0\"", 4).kind, VR_JSON_BAD); /* a zero byte */
    const char *problem = reader.problem;
    assert_int_equal(vr_json_next(&reader).kind, VR_JSON_BAD);
    assert_ptr_equal(reader.problem, problem);
}

TEST(words_with_escapes) {
    static const char same[] = "\"\\u0061b\"", other[] = "\"\\u0061c\"", zero[] = "\"\\u0000\"",
                      number[] = "12",
                      lengthy[] = "\"\\n23456789012345678901234567890123456789012345678901234567890"
                                  "1234567890\"";
    struct vr_json_reader reader;
    assert_true(vr_json_is(token_of(&reader, same, sizeof same - 1), "ab"));
    assert_false(vr_json_is(token_of(&reader, other, sizeof other - 1), "ab"));
    assert_false(vr_json_is(token_of(&reader, zero, sizeof zero - 1), ""));
    assert_false(vr_json_is(token_of(&reader, lengthy, sizeof lengthy - 1), "\n2"));
    assert_false(vr_json_is(token_of(&reader, number, sizeof number - 1), "12"));
}

TEST(whole_numbers) {
    static const struct {
        const char *text;
        bool whole;
        uint64_t value;
    } rows[] = {
        {"12", true, 12},
        {"1.2e1", true, 12},
        {"1.05e2", true, 105},
        {"0.05E+2", true, 5},
        {"500e-2", true, 5},
        {"0e99999999999", true, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"2e19", false, 0},
        {"1.5", false, 0},
        {"5e-2", false, 0},
        {"-1", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vr_json_reader reader;
        uint64_t value = 0;
        struct vr_json_token token = token_of(&reader, rows[i].text, strlen(rows[i].text));
        assert_int_equal(vr_json_unsigned_read(token, &value), rows[i].whole);
        assert_true(value == rows[i].value);
    }
}

/* What the readers of traces and of widths ask for: shifted, rounded, with a sign. */
TEST(decimal_numbers) {
    static const struct {
        const char *text;
        int shift;
        bool good;
        struct vr_decimal number;
    } rows[] = {
        {"1234567890123456.7899", 3, true, {UINT64_C(1234567890123456789), false, false}},
        {"1.0625", 6, true, {1062500, false, true}},
        {"0.0000001", 6, true, {0, false, false}},
        {"-1.048576e6", 0, true, {1048576, true, true}},
        {"-0", 0, true, {0, true, true}},
        {"18446744073709551.6159999", 3, true, {UINT64_MAX, false, false}},
        {"18446744073709551.616", 3, false, {0, false, false}},
        {"1e-999999999999", 0, true, {0, false, false}},
        {"0x10", 0, false, {0, false, false}},
        {"+1", 0, false, {0, false, false}},
        {"1 ", 0, false, {0, false, false}},
        {"-", 0, false, {0, false, false}},
        {"1e", 0, false, {0, false, false}},
        {"", 0, false, {0, false, false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct vr_decimal number = {7, true, false};
        bool good = vr_decimal_read(rows[i].text, strlen(rows[i].text), rows[i].shift, &number);
        assert_int_equal(good, rows[i].good);
        assert_true(number.value == (good ? rows[i].number.value : 7));
        assert_int_equal(number.negative, good ? rows[i].number.negative : true);
        assert_int_equal(number.exact, good && rows[i].number.exact);
    }
}
