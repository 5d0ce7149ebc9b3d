/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer, judged by a checker that shares no code with it. */
#include "base/json.h"

#include "rig/rig.h"
#include "unit/json_check.h"
#include "unit/report_text.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct report_text page;
static struct vr_writer writer;

static struct vr_json begin(void) {
    struct vr_json json;
    memset(&page, 0, sizeof page);
    assert_int_equal(
        vr_writer_begin(&writer, VRAM_REPORT_JSON, report_text_take, &page, "the test"), VRAM_OK);
    vr_json_document_begin(&json, &writer);
    return json;
}

static vram_status end(struct vr_json *json) {
    return vr_json_document_end(json, "the test");
}

/* The text without the spaces and line breaks that stand outside of strings. */
static void compact(char *text) {
    bool inside = false;
    char *to = text;
    for (const char *at = text; *at; at++) {
        inside ^= *at == '"' && (at == text || at[-1] != '\\' || at[-2] == '\\');
        if (inside || !strchr(" \n", *at)) {
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* Ends the document, which must be whole, valid and, without its spaces, exactly `text`. */
static void assert_document(struct vr_json *json, const char *text) {
    assert_int_equal(end(json), VRAM_OK);
    assert_true(json_check(page.text, page.bytes));
    assert_int_equal(page.text[page.bytes - 1], '\n');
    compact(page.text);
    assert_string_equal(page.text, text);
}

/* Ends the document, which must have been refused for `mistake`. */
static void assert_misuse(struct vr_json *json, const char *mistake) {
    vram_error_clear();
    assert_int_equal(end(json), VRAM_ERR_INVALID);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_INVALID);
    assert_string_equal(vram_error_get()->operation, "the test");
    assert_non_null(strstr(vram_error_get()->text, mistake));
}

/* ------------------------------------------------------------ the checker itself */

TEST(checker_accepts_json_only) {
    const char *const good[] = {"null",
                                " true ",
                                "false",
                                "0",
                                "-0",
                                "10",
                                "1.5e-3",
                                "1E+2",
                                "\"\"",
                                "[]",
                                "{}",
                                "[1,[2],{\"a\":null}]",
                                "{\"a\":1,\"b\":[ ]}",
                                "\"\\u00e9\\ud83d\\ude00\\n\\/\"",
                                "\"\xF0\x9F\x98\x80\"",
                                "\n[\t1 ,\r2 ]"};
    const char *const bad[] = {"",
                               " ",
                               "nul",
                               "True",
                               "01",
                               "-",
                               "1.",
                               ".5",
                               "1e",
                               "+1",
                               "0x1",
                               "NaN",
                               "\"",
                               "\"\\x\"",
                               "\"\\u12\"",
                               "\"\\ud800\"",
                               "\"\\udc00\"",
                               "\"\\ud800\\u0041\"",
                               "\"a\nb\"",
                               "\"\xFF\"",
                               "\"\xC0\x80\"",
                               "\"\xED\xA0\x80\"",
                               "\"\xE2\x82\"",
                               "[",
                               "[1",
                               "[1,]",
                               "[,1]",
                               "[1 2]",
                               "{",
                               "{\"a\"}",
                               "{\"a\":}",
                               "{\"a\":1,}",
                               "{a:1}",
                               "{1:1}",
                               "[1]]",
                               "1 2",
                               "[}",
                               "{]"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!json_check(good[i], strlen(good[i]))) {
            fail_msg("refused %s", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (json_check(bad[i], strlen(bad[i]))) {
            fail_msg("accepted %s", bad[i]);
        }
    }
    char deep[2 * JSON_CHECK_DEPTH];
    memset(deep, '[', sizeof deep);
    assert_false(json_check(deep, sizeof deep));
}

/* ------------------------------------------------------------------ structure */

static void write_sample(struct vr_json *json) {
    vr_json_object_begin(json, NULL);
    vr_json_text(json, "name", "sim");
    vr_json_array_begin(json, "sizes");
    vr_json_unsigned(json, NULL, 1);
    vr_json_unsigned(json, NULL, UINT64_MAX);
    vr_json_array_end(json);
    vr_json_object_begin(json, "empty");
    vr_json_object_end(json);
    vr_json_array_begin(json, "none");
    vr_json_array_end(json);
    vr_json_number(json, "half", -0.5);
    vr_json_value(json, "known", (vram_value){7, true});
    vr_json_value(json, "unknown", (vram_value){0, false});
    vr_json_text(json, "null", NULL);
    vr_json_object_end(json);
}

TEST(writes_all_kinds) {
    struct vr_json json = begin();
    write_sample(&json);
    assert_document(&json, "{\"name\":\"sim\",\"sizes\":[1,18446744073709551615],\"empty\":{},"
                           "\"none\":[],\"half\":-0.5,\"known\":7,\"unknown\":null,"
                           "\"null\":null}");
}

TEST(writes_pretty) {
    struct vr_json json = begin();
    vr_json_object_begin(&json, NULL);
    vr_json_array_begin(&json, "a");
    vr_json_unsigned(&json, NULL, 1);
    vr_json_object_begin(&json, NULL);
    vr_json_object_end(&json);
    vr_json_array_end(&json);
    vr_json_text(&json, "b", NULL);
    vr_json_object_end(&json);
    assert_int_equal(end(&json), VRAM_OK);
    assert_string_equal(page.text, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": null\n}\n");
}

TEST(scalars_may_stand_alone) {
    struct vr_json json = begin();
    vr_json_text(&json, NULL, "alone");
    assert_document(&json, "\"alone\"");
}

TEST(goes_32_levels_deep) {
    struct vr_json json = begin();
    char expected[2 * VR_JSON_LEVELS_MAX + 1] = "";
    for (int i = 0; i < VR_JSON_LEVELS_MAX; i++) {
        vr_json_array_begin(&json, NULL);
        expected[i] = '[';
        expected[2 * VR_JSON_LEVELS_MAX - 1 - i] = ']';
    }
    for (int i = 0; i < VR_JSON_LEVELS_MAX; i++) {
        vr_json_array_end(&json);
    }
    assert_document(&json, expected);

    json = begin();
    for (int i = 0; i <= VR_JSON_LEVELS_MAX; i++) {
        vr_json_object_begin(&json, i ? "k" : NULL);
    }
    assert_int_equal(json.depth, VR_JSON_LEVELS_MAX);
    assert_misuse(&json, "32 levels");
}

/* Objects and arrays alternate, so a level that forgot its kind or its comma would show. */
TEST(levels_do_not_leak_into_each_other) {
    struct vr_json json = begin();
    vr_json_array_begin(&json, NULL);
    for (int i = 0; i < 2; i++) {
        vr_json_object_begin(&json, NULL);
        vr_json_array_begin(&json, "x");
        vr_json_text(&json, NULL, NULL);
        vr_json_array_end(&json);
        vr_json_array_begin(&json, "y");
        vr_json_array_end(&json);
        vr_json_object_end(&json);
        vr_json_array_begin(&json, NULL);
        vr_json_object_begin(&json, NULL);
        vr_json_object_end(&json);
        vr_json_array_end(&json);
    }
    vr_json_array_end(&json);
    assert_document(&json, "[{\"x\":[null],\"y\":[]},[{}],{\"x\":[null],\"y\":[]},[{}]]");
}

/* --------------------------------------------------------------------- misuse */

TEST(misuse_is_told_and_writes_no_more) {
    struct vr_json json = begin();
    assert_misuse(&json, "no value at all");

    json = begin();
    vr_json_text(&json, NULL, NULL);
    vr_json_text(&json, NULL, NULL);
    assert_misuse(&json, "second value");
    assert_string_equal(page.text, "null");

    json = begin();
    vr_json_text(&json, "key", NULL);
    assert_misuse(&json, "key outside");
    assert_string_equal(page.text, "");

    json = begin();
    vr_json_array_begin(&json, NULL);
    vr_json_text(&json, "key", "x");
    vr_json_array_end(&json);
    assert_misuse(&json, "key outside");
    assert_string_equal(page.text, "[");

    json = begin();
    vr_json_object_begin(&json, NULL);
    vr_json_unsigned(&json, NULL, 1);
    vr_json_text(&json, NULL, "x");
    vr_json_object_end(&json);
    assert_misuse(&json, "without a key");
    assert_string_equal(page.text, "{");

    json = begin();
    vr_json_object_begin(&json, NULL);
    assert_misuse(&json, "without its end");
}

TEST(wrong_ends_are_misuse) {
    struct vr_json json = begin();
    vr_json_object_end(&json);
    assert_misuse(&json, "end of no object");

    json = begin();
    vr_json_array_end(&json);
    assert_misuse(&json, "end of no array");

    json = begin();
    vr_json_array_begin(&json, NULL);
    vr_json_object_end(&json);
    vr_json_array_end(&json);
    assert_misuse(&json, "end of no object");

    json = begin();
    vr_json_object_begin(&json, NULL);
    vr_json_array_end(&json);
    assert_misuse(&json, "end of no array");
}

TEST(writers_are_checked) {
    assert_int_equal(vr_writer_begin(&writer, VRAM_REPORT_JSON, NULL, NULL, "the test"),
                     VRAM_ERR_INVALID);
    assert_int_equal(
        vr_writer_begin(&writer, (vram_report_format)2, report_text_take, &page, "the test"),
        VRAM_ERR_INVALID);
    struct vr_json json = begin();
    page.room = 1;
    vr_json_array_begin(&json, NULL);
    vr_json_text(&json, NULL, "x");  /* refused, */
    vr_json_text(&json, "key", "x"); /* and then a mistake */
    assert_int_equal(end(&json), VRAM_ERR_IO);
    assert_string_equal(page.text, "[");
}

/* Refuses at every byte of the sample in turn. */
TEST(refusal_is_io_at_every_byte) {
    struct vr_json json = begin();
    write_sample(&json);
    size_t whole = page.bytes;
    static char sample[sizeof page.text];
    memcpy(sample, page.text, whole + 1);
    for (size_t room = 1; room < whole + 1; room++) {
        json = begin();
        page.room = room;
        write_sample(&json);
        assert_int_equal(end(&json), VRAM_ERR_IO);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_IO);
        assert_int_equal(page.calls_after_refusal, 0);
        assert_memory_equal(page.text, sample, page.bytes);
    }
    json = begin();
    page.room = whole + 1;
    write_sample(&json);
    assert_int_equal(end(&json), VRAM_OK);
}

/* -------------------------------------------------------------------- strings */

static void assert_string(const char *text, const char *expected) {
    struct vr_json json = begin();
    vr_json_text(&json, NULL, text);
    assert_document(&json, expected);
}

TEST(escapes_strings) {
    assert_string("", "\"\"");
    assert_string("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    assert_string("\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"");
    assert_string("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
                  "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
    assert_string("\xC2\x9B|\xE2\x80\xA8|\xE2\x80\xA9", "\"\\u009b|\\u2028|\\u2029\"");
    assert_string("</script>", "\"</script>\"");
}

#define REPLACED "\xEF\xBF\xBD"

TEST(replaces_what_is_not_utf8) {
    assert_string("a\xFFz", "\"a" REPLACED "z\"");
    assert_string("\xC3", "\"" REPLACED "\"");
    assert_string("\xC0\xAF", "\"" REPLACED REPLACED "\"");
    assert_string("\xED\xA0\x80", "\"" REPLACED REPLACED REPLACED "\"");
    assert_string("\xE2\x82\"", "\"" REPLACED REPLACED "\\\"\"");
}

TEST(keys_are_strings_too) {
    struct vr_json json = begin();
    vr_json_object_begin(&json, NULL);
    vr_json_text(&json, "a\"\n\xFF", NULL);
    vr_json_text(&json, "", NULL);
    vr_json_object_end(&json);
    assert_document(&json, "{\"a\\\"\\n" REPLACED "\":null,\"\":null}");
}

static uint64_t random_u64(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

TEST(any_bytes_make_valid_json) {
    uint64_t seed = 20240607;
    for (int round = 0; round < 30000; round++) {
        size_t bytes = random_u64(&seed) % 40;
        char *text = malloc(bytes + 1);
        assert_non_null(text);
        for (size_t i = 0; i < bytes; i++) {
            uint64_t random = random_u64(&seed);
            /* Half the time lead and continuation bytes only: nearly characters. */
            text[i] = (char)(round % 2 ? 1 + random % 255 : 0x80 + random % 128);
        }
        text[bytes] = '\0';
        struct vr_json json = begin();
        vr_json_object_begin(&json, NULL);
        vr_json_text(&json, text, text);
        vr_json_object_end(&json);
        if (end(&json) != VRAM_OK || !json_check(page.text, page.bytes)) {
            fail_msg("round %d", round);
        }
        free(text);
    }
}

/* Random calls in random order: whatever they are, an accepted document is valid. */
TEST(any_calls_make_valid_json_or_none) {
    uint64_t seed = 99;
    unsigned whole = 0;
    for (int round = 0; round < 60000; round++) {
        struct vr_json json = begin();
        unsigned calls = (unsigned)(random_u64(&seed) % 8);
        for (unsigned i = 0; i < calls; i++) {
            const char *key = random_u64(&seed) % 2 ? "k" : NULL;
            switch (random_u64(&seed) % 7) {
            case 0:
                vr_json_object_begin(&json, key);
                break;
            case 1:
                vr_json_array_begin(&json, key);
                break;
            case 2:
            case 3:
                vr_json_object_end(&json);
                break;
            case 4:
            case 5:
                vr_json_array_end(&json);
                break;
            default:
                vr_json_number(&json, key, 0.5);
            }
        }
        if (end(&json) == VRAM_OK) {
            whole++;
            assert_true(json_check(page.text, page.bytes));
        }
    }
    assert_true(whole > 100);
}

/* -------------------------------------------------------------------- numbers */

static void assert_number(double value, const char *expected) {
    struct vr_json json = begin();
    vr_json_number(&json, NULL, value);
    assert_document(&json, expected);
}

TEST(writes_numbers_as_people_do) {
    assert_number(0, "0");
    assert_number(-0.0, "-0");
    assert_number(1, "1");
    assert_number(100, "100");
    assert_number(-1000000, "-1000000");
    assert_number(999999999999999, "999999999999999");
    assert_number(1e15, "1e15");
    assert_number(0.1, "0.1");
    assert_number(0.30000000000000004, "0.30000000000000004");
    assert_number(-1.5, "-1.5");
    assert_number(1e-5, "1e-5");
    assert_number(1.25e-10, "1.25e-10");
    assert_number(1e100, "1e100");
    assert_number(DBL_MAX, "1.7976931348623157e308");
    assert_number(DBL_MIN, "2.2250738585072014e-308");
    assert_number(5e-324, "5e-324");
    assert_number((double)NAN, "null");
    assert_number((double)INFINITY, "null");
    assert_number(-(double)INFINITY, "null");
}

TEST(numbers_read_back_the_same) {
    uint64_t seed = 31337;
    for (int round = 0; round < 30000; round++) {
        uint64_t bits = random_u64(&seed);
        double value, again;
        memcpy(&value, &bits, sizeof value);
        if (round % 3 == 0) {
            value = (double)(bits % 100000) / 1000;
        }
        if (!isfinite(value)) {
            continue;
        }
        struct vr_json json = begin();
        vr_json_number(&json, NULL, value);
        assert_int_equal(end(&json), VRAM_OK);
        again = strtod(page.text, NULL);
        if (memcmp(&again, &value, sizeof value) != 0 || !json_check(page.text, page.bytes)) {
            fail_msg("%a became %s", value, page.text);
        }
    }
}

/* Makes a locale whose decimal point is a comma and enters it. Machines seldom have one installed,
   but the C library brings the compiler. */
static bool enter_comma_locale(const char *folder) {
    char path[64], command[256];
    snprintf(path, sizeof path, "%s/source", folder);
    FILE *source = fopen(path, "w");
    assert_non_null(source);
    fputs("LC_CTYPE\nEND LC_CTYPE\n"
          "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n",
          source);
    assert_int_equal(fclose(source), 0);
    snprintf(command, sizeof command,
             "localedef --no-archive -c -i %s %s/comma >/dev/null 2>&1 || true", path, folder);
    assert_int_equal(system(command), 0);
    setenv("LOCPATH", folder, 1);
    bool entered = setlocale(LC_NUMERIC, "comma") != NULL;
    unsetenv("LOCPATH");
    return entered || setlocale(LC_NUMERIC, "de_DE.UTF-8") || setlocale(LC_NUMERIC, "fr_FR.UTF-8");
}

TEST(numbers_ignore_the_locale) {
    char folder[] = "/tmp/vram-locale-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    bool entered = enter_comma_locale(folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!entered) {
        print_message("no locale with a decimal comma can be had here\n");
        skip();
    }
    char sample[8];
    snprintf(sample, sizeof sample, "%.1f", 0.5);
    assert_string_equal(sample, "0,5"); /* or the test would prove nothing */
    assert_number(1234.5, "1234.5");
    assert_number(1.25e-10, "1.25e-10");
    assert_number(100, "100");
    setlocale(LC_NUMERIC, "C");
}
