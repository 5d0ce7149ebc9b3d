/* SPDX-License-Identifier: Apache-2.0 */
/* The command's JSON writer, judged by a checker that shares no code with it. */
#include "json_out.h"

#include "rig/rig.h"
#include "unit/json_check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 16];
static FILE *stream;

static struct json_out begin(void) {
    struct json_out json;
    memset(text, 0, sizeof text);
    stream = fmemopen(text, sizeof text, "w");
    assert_non_null(stream);
    json_begin(&json, stream);
    return json;
}

/* What json_end says, once the text is there. */
static const char *end(struct json_out *json) {
    const char *mistake = json_end(json);
    assert_int_equal(fclose(stream), 0);
    return mistake;
}

static void assert_document(struct json_out *json, const char *expected) {
    assert_null(end(json));
    assert_true(json_check(text, strlen(text)));
    assert_int_equal(text[strlen(text) - 1], '\n');
    text[strlen(text) - 1] = '\0';
    assert_string_equal(text, expected);
}

static void assert_misuse(struct json_out *json, const char *mistake, const char *written) {
    const char *said = end(json);
    assert_non_null(said);
    assert_non_null(strstr(said, mistake));
    text[strlen(text) - 1] = '\0'; /* the line break */
    assert_string_equal(text, written);
}

TEST(writes_every_kind) {
    struct json_out json = begin();
    json_object_begin(&json, NULL);
    json_text(&json, "name", "sim");
    json_text(&json, "null", NULL);
    json_array_begin(&json, "sizes");
    json_unsigned(&json, NULL, UINT64_MAX);
    json_signed(&json, NULL, INT64_MIN);
    json_array_end(&json);
    json_object_begin(&json, "empty");
    json_object_end(&json);
    json_array_begin(&json, "none");
    json_array_end(&json);
    json_bool(&json, "on", true);
    json_bool(&json, "off", false);
    json_null(&json, "nothing");
    json_value(&json, "known", (vram_value){7, true});
    json_value(&json, "unknown", (vram_value){0, false});
    json_object_end(&json);
    assert_document(&json, "{\n  \"name\": \"sim\",\n  \"null\": null,\n  \"sizes\": [\n"
                           "    18446744073709551615,\n    -9223372036854775808\n  ],\n"
                           "  \"empty\": {},\n  \"none\": [],\n  \"on\": true,\n  \"off\": false,\n"
                           "  \"nothing\": null,\n  \"known\": 7,\n  \"unknown\": null\n}");
}

TEST(goes_32_levels_deep) {
    struct json_out json = begin();
    for (int i = 0; i < JSON_LEVELS_MAX; i++) {
        json_array_begin(&json, NULL);
    }
    for (int i = 0; i < JSON_LEVELS_MAX; i++) {
        json_array_end(&json);
    }
    assert_null(end(&json));
    assert_true(json_check(text, strlen(text)));
    json = begin();
    for (int i = 0; i <= JSON_LEVELS_MAX; i++) {
        json_object_begin(&json, i ? "k" : NULL);
    }
    assert_int_equal(json.depth, JSON_LEVELS_MAX);
    assert_non_null(strstr(end(&json), "32 levels"));
}

TEST(misuse_is_told_and_writes_no_more) {
    struct json_out json = begin();
    assert_misuse(&json, "no value at all", "");

    json = begin();
    json_null(&json, NULL);
    json_null(&json, NULL);
    assert_misuse(&json, "second value", "null");

    json = begin();
    json_array_begin(&json, NULL);
    json_text(&json, "key", "x");
    json_array_end(&json);
    assert_misuse(&json, "key outside", "[");

    json = begin();
    json_object_begin(&json, NULL);
    json_unsigned(&json, NULL, 1);
    json_object_end(&json);
    assert_misuse(&json, "without a key", "{");

    json = begin();
    json_object_begin(&json, NULL);
    assert_misuse(&json, "without its end", "{");

    json = begin();
    json_array_begin(&json, NULL);
    json_object_end(&json);
    assert_misuse(&json, "end of no object", "[");

    json = begin();
    json_array_end(&json);
    assert_misuse(&json, "end of no array", "");
}

static void assert_string(const char *value, const char *expected) {
    struct json_out json = begin();
    json_text(&json, NULL, value);
    assert_document(&json, expected);
}

#define REPLACED "\xEF\xBF\xBD"

TEST(escapes_strings) {
    assert_string("", "\"\"");
    assert_string("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    assert_string("\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"");
    assert_string("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
                  "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
    assert_string("\xC2\x9B|\xE2\x80\xA8|\xE2\x80\xA9", "\"\\u009b|\\u2028|\\u2029\"");
    assert_string("a\xFFz", "\"a" REPLACED "z\"");
    assert_string("\xC3", "\"" REPLACED "\"");
    assert_string("\xC0\xAF", "\"" REPLACED REPLACED "\"");
    assert_string("\xED\xA0\x80", "\"" REPLACED REPLACED REPLACED "\"");
    assert_string("\xE2\x82\"", "\"" REPLACED REPLACED "\\\"\"");
}

static uint64_t random_u64(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

TEST(any_bytes_make_valid_json) {
    uint64_t seed = 20240607;
    for (int round = 0; round < 4000; round++) {
        char bytes[41];
        size_t count = random_u64(&seed) % 40;
        for (size_t i = 0; i < count; i++) {
            uint64_t random = random_u64(&seed);
            /* Half the time lead and continuation bytes only: nearly characters. */
            bytes[i] = (char)(round % 2 ? 1 + random % 255 : 0x80 + random % 128);
        }
        bytes[count] = '\0';
        struct json_out json = begin();
        json_object_begin(&json, NULL);
        json_text(&json, bytes, bytes);
        json_object_end(&json);
        if (end(&json) || !json_check(text, strlen(text))) {
            fail_msg("round %d", round);
        }
    }
}

static void assert_number(double value, const char *expected) {
    struct json_out json = begin();
    json_number(&json, NULL, value);
    assert_document(&json, expected);
}

TEST(writes_numbers_as_people_do) {
    assert_number(0, "0");
    assert_number(-0.0, "-0");
    assert_number(-1000000, "-1000000");
    assert_number(999999999999999, "999999999999999");
    assert_number(1e15, "1e15");
    assert_number(0.1, "0.1");
    assert_number(0.30000000000000004, "0.30000000000000004");
    assert_number(-1.5, "-1.5");
    assert_number(1e-5, "1e-5");
    assert_number(1.25e-10, "1.25e-10");
    assert_number(DBL_MAX, "1.7976931348623157e308");
    assert_number(5e-324, "5e-324");
    assert_number((double)NAN, "null");
    assert_number(-(double)INFINITY, "null");
}
