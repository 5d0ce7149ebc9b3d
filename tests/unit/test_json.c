/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_json.c: the two JSON writers, the library's (base/json.h) and the command's (json_out.h),
 * judged by a checker that shares no code with them. Both must do the same with the same script, a
 * text with a letter for each call:
 *
 *   { } [ ]   begin and end of an object and of an array      k ?  a value, known and unknown
 *   u h t 0   UINT64_MAX, -0.5, a text, the text NULL         y n  true and false
 *   :         the next call has the key "k"
 */
#include "base/json.h"
#include "json_out.h"
#include "rig/rig.h"
#include "unit/json_check.h"
#include "unit/report_text.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum writer { LIBRARY, COMMAND, WRITERS };

/* A document of one of the writers, which `written` has when it is ended. */
static struct document {
    enum writer by;
    struct vr_json json;
    struct vr_writer writer;
    struct report_text page;
    struct json_out out;
    FILE *stream;
    char text[REPORT_TEXT_MAX];
    const char *written;
} document;

static void begin(enum writer by) {
    memset(&document, 0, sizeof document);
    document.by = by;
    if (by == LIBRARY) {
        assert_int_equal(vr_writer_begin(&document.writer, VRAM_REPORT_JSON, report_text_take,
                                         &document.page, "the test"),
                         VRAM_OK);
        vr_json_document_begin(&document.json, &document.writer);
        document.written = document.page.text;
    } else {
        document.stream = fmemopen(document.text, sizeof document.text, "w");
        assert_non_null(document.stream);
        json_begin(&document.out, document.stream);
        document.written = document.text;
    }
}

/* NULL, or what was wrong with the document. */
static const char *end(void) {
    if (document.by == LIBRARY) {
        vram_status status = vr_json_document_end(&document.json, "the test");
        if (status != VRAM_OK) {
            assert_int_equal(vram_error_get()->status, status);
            assert_string_equal(vram_error_get()->operation, "the test");
        }
        return status == VRAM_OK ? NULL : vram_error_get()->text;
    }
    const char *mistake = json_end(&document.out);
    assert_int_equal(fclose(document.stream), 0);
    document.text[strlen(document.text) - (mistake != NULL)] = 0; /* the line break behind it */
    return mistake;
}

#define EITHER(library, command) (document.by == LIBRARY ? (library) : (command))

static void text_put(const char *key, const char *text) {
    EITHER(vr_json_text(&document.json, key, text), json_text(&document.out, key, text));
}

static void number_put(double value) {
    EITHER(vr_json_number(&document.json, NULL, value), json_number(&document.out, NULL, value));
}

static void call(char letter, const char *key) {
    struct vr_json *json = &document.json;
    struct json_out *out = &document.out;
    vram_value value = {7, letter == 'k'};
    switch (letter) {
    case '{':
        EITHER(vr_json_object_begin(json, key), json_object_begin(out, key));
        break;
    case '}':
        EITHER(vr_json_object_end(json), json_object_end(out));
        break;
    case '[':
        EITHER(vr_json_array_begin(json, key), json_array_begin(out, key));
        break;
    case ']':
        EITHER(vr_json_array_end(json), json_array_end(out));
        break;
    case 'u':
        EITHER(vr_json_unsigned(json, key, UINT64_MAX), json_unsigned(out, key, UINT64_MAX));
        break;
    case 'h':
        EITHER(vr_json_number(json, key, -0.5), json_number(out, key, -0.5));
        break;
    case 'y':
    case 'n':
        EITHER(vr_json_bool(json, key, letter == 'y'), json_bool(out, key, letter == 'y'));
        break;
    case 't':
        text_put(key, "sim");
        break;
    case '0':
        text_put(key, NULL);
        break;
    default:
        EITHER(vr_json_value(json, key, value), json_value(out, key, value));
    }
}

static void play(const char *script) {
    for (const char *key = NULL; *script; script++) {
        if (*script != ':') {
            call(*script, key);
        }
        key = *script == ':' ? "k" : NULL;
    }
}

/* The document is whole, valid and this text. */
static void ends_as(const char *text) {
    const char *mistake = end();
    size_t bytes = strlen(document.written);
    if (mistake || !json_check(document.written, bytes) || document.written[bytes - 1] != '\n' ||
        strncmp(document.written, text, bytes - 1) != 0 || strlen(text) != bytes - 1) {
        fail_msg("writer %d: %s: %s\nwanted %s", (int)document.by, mistake, document.written, text);
    }
}

/* ------------------------------------------------------------ the checker itself */

static void check_each(const char *texts, bool valid) {
    for (; *texts; texts += texts[0] == '|') {
        size_t bytes = strcspn(texts, "|");
        if (json_check(texts, bytes) != valid) {
            fail_msg("%s: %.*s", valid ? "refused" : "accepted", (int)bytes, texts);
        }
        texts += bytes;
    }
}

TEST(checker_accepts_json_only) {
    char deep[2 * JSON_CHECK_DEPTH];
    check_each("null| true |false|0|-0|10|1.5e-3|1E+2|\"\"|[]|{}|[1,[2],{\"a\":null}]|"
               "{\"a\":1,\"b\":[ ]}|\"\\u00e9\\ud83d\\ude00\\n\\/\"|\"\xF0\x9F\x98\x80\"|"
               "\n[\t1 ,\r2 ]",
               true);
    check_each(" |nul|True|01|-|1.|.5|1e|+1|0x1|NaN|\"|\"\\x\"|\"\\u12\"|\"\\ud800\"|\"\\udc00\"|"
               "\"\\ud800\\u0041\"|\"a\nb\"|\"\xFF\"|\"\xC0\x80\"|\"\xED\xA0\x80\"|\"\xE2\x82\"|"
               "[|[1|[1,]|[,1]|[1 2]|{|{\"a\"}|{\"a\":}|{\"a\":1,}|{a:1}|{1:1}|[1]]|1 2|[}|{]",
               false);
    memset(deep, '[', sizeof deep);
    assert_false(json_check(deep, 0) || json_check(deep, sizeof deep));
}

/* ------------------------------------------------------------------ structure */

TEST(scripts_become_documents) {
    static const struct {
        const char *script, *text;
    } rows[] = {
        {"t", "\"sim\""},
        {"[]", "[]"},
        {"{:t:0:[uh]:{}:[]:y:n:k:?}",
         "{\n  \"k\": \"sim\",\n  \"k\": null,\n  \"k\": [\n    18446744073709551615,\n    -0.5\n  "
         "],"
         "\n  \"k\": {},\n  \"k\": [],\n  \"k\": true,\n  \"k\": false,\n  \"k\": 7,\n"
         "  \"k\": null\n}"},
        /* Objects and arrays alternate: a level that forgot its kind or its comma would show. */
        {"[{:[0]:[]}[{}]]",
         "[\n  {\n    \"k\": [\n      null\n    ],\n    \"k\": []\n  },\n  [\n    {}\n  ]\n]"},
    };
    for (enum writer by = LIBRARY; by < WRITERS; by++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            begin(by);
            play(rows[i].script);
            ends_as(rows[i].text);
        }
    }
    begin(COMMAND); /* which alone has negative whole numbers */
    json_signed(&document.out, NULL, INT64_MIN);
    ends_as("-9223372036854775808");
}

TEST(addresses_are_texts) {
    for (enum writer by = LIBRARY; by < WRITERS; by++) {
        begin(by);
        EITHER(vr_json_address(&document.json, NULL, UINT64_C(0x7f60c0000000)),
               json_address(&document.out, NULL, UINT64_C(0x7f60c0000000)));
        ends_as("\"0x7f60c0000000\"");
    }
    begin(LIBRARY);
    vr_json_address(&document.json, NULL, 0);
    ends_as("null");
}

/* What was written before the mistake stays, and nothing comes behind it. */
TEST(misuse_is_told_and_writes_no_more) {
    char deep[2 * VR_JSON_LEVELS_MAX + 4] = "{", levels[VR_JSON_LEVELS_MAX + 1];
    const struct {
        const char *script, *mistake, *written;
    } rows[] = {
        {"", "no value at all", ""},
        {"00", "second value", "null"},
        {":0", "key outside", ""},
        {"[:t]", "key outside", "["},
        {"{ut}", "without a key", "{"},
        {"{", "without its end", "{"},
        {"[[]", "without its end", "[\n  []"},
        {"}", "end of no object", ""},
        {"]", "end of no array", ""},
        {"[}]", "end of no object", "["},
        {"{]}", "end of no array", "{"},
        {deep, "32 levels", NULL},
    };
    for (int i = 0; i < VR_JSON_LEVELS_MAX; i++) {
        memcpy(deep + 1 + 2 * i, ":{", 3);
    }
    memset(levels, '[', VR_JSON_LEVELS_MAX);
    levels[VR_JSON_LEVELS_MAX] = 0;
    for (enum writer by = LIBRARY; by < WRITERS; by++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            begin(by);
            play(rows[i].script);
            const char *mistake = end();
            if (!mistake || !strstr(mistake, rows[i].mistake) ||
                (rows[i].written && strcmp(document.written, rows[i].written) != 0)) {
                fail_msg("writer %d, %s: %s", (int)by, rows[i].script, mistake);
            }
        }
        begin(by); /* so many levels are none too many */
        play(levels);
        for (int i = 0; i < VR_JSON_LEVELS_MAX; i++) {
            call(']', NULL);
        }
        assert_null(end());
        assert_true(json_check(document.written, strlen(document.written)));
    }
}

static uint64_t random_u64(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Random calls in random order: what is accepted is valid. */
TEST(any_calls_make_valid_json_or_none) {
    uint64_t seed = 99;
    unsigned whole = 0;
    for (int round = 0; round < 60000; round++) {
        char script[17] = "";
        for (size_t i = 0, letters = random_u64(&seed) % 16; i < letters; i++) {
            script[i] = ":::{[}}]]h"[random_u64(&seed) % 10];
        }
        begin((enum writer)(round % WRITERS));
        play(script);
        if (!end()) {
            whole++;
            assert_true(json_check(document.written, strlen(document.written)));
        }
    }
    assert_true(whole > 100);
}

/* ------------------------------------------------------------------- refusals */

TEST(writers_are_checked) {
    struct vr_writer writer;
    assert_int_equal(vr_writer_begin(&writer, VRAM_REPORT_JSON, NULL, NULL, "the test"),
                     VRAM_ERR_INVALID);
    assert_int_equal(vr_writer_begin(&writer, (vram_report_format)2, report_text_take,
                                     &document.page, "the test"),
                     VRAM_ERR_INVALID);
    begin(LIBRARY);
    document.page.room = 1;
    play("[t:t"); /* the text is refused, and the key is a mistake */
    assert_non_null(end());
    assert_int_equal(vram_error_get()->status, VRAM_ERR_IO);
    assert_string_equal(document.written, "[");
}

/* Refuses at every byte of a document in turn. */
TEST(refusal_is_io_at_every_byte) {
    static const char script[] = "{:t:0:[uh]:{}:[]:y:n:k:?}";
    static char sample[sizeof document.page.text];
    begin(LIBRARY);
    play(script);
    size_t whole = document.page.bytes;
    memcpy(sample, document.page.text, whole + 1);
    for (size_t room = 1; room <= whole + 1; room++) {
        begin(LIBRARY);
        document.page.room = room;
        play(script);
        bool refused = end() != NULL;
        assert_int_equal(refused, room <= whole);
        assert_true(!refused || vram_error_get()->status == VRAM_ERR_IO);
        assert_int_equal(document.page.calls_after_refusal, 0);
        assert_memory_equal(document.page.text, sample, document.page.bytes - !refused);
    }
}

/* -------------------------------------------------------------------- strings */

#define REPLACED "\xEF\xBF\xBD"

TEST(strings_are_escaped) {
    static const struct {
        const char *text, *written;
    } rows[] = {
        {"", "\"\""},
        {"a\"b\\c/d", "\"a\\\"b\\\\c/d\""},
        {"\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\""},
        {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
         "\"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"\xC2\x9B|\xE2\x80\xA8|\xE2\x80\xA9", "\"\\u009b|\\u2028|\\u2029\""},
        {"</script>", "\"</script>\""},
        {"a\xFFz", "\"a" REPLACED "z\""},
        {"\xC3", "\"" REPLACED "\""},
        {"\xC0\xAF", "\"" REPLACED REPLACED "\""},
        {"\xED\xA0\x80", "\"" REPLACED REPLACED REPLACED "\""},
        {"\xE2\x82\"", "\"" REPLACED REPLACED "\\\"\""},
    };
    for (enum writer by = LIBRARY; by < WRITERS; by++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            begin(by);
            text_put(NULL, rows[i].text);
            ends_as(rows[i].written);
        }
        begin(by);
        call('{', NULL);
        text_put("a\"\n\xFF", NULL);
        call('}', NULL);
        ends_as("{\n  \"a\\\"\\n" REPLACED "\": null\n}");
    }
}

TEST(any_bytes_make_valid_json) {
    uint64_t seed = 20240607;
    for (int round = 0; round < 20000; round++) {
        size_t bytes = random_u64(&seed) % 40;
        char *text = malloc(bytes + 1); /* exact, so that a sanitizer sees one byte too far */
        assert_non_null(text);
        for (size_t i = 0; i < bytes; i++) {
            uint64_t random = random_u64(&seed);
            /* Half the time lead and continuation bytes only: nearly characters. */
            text[i] = (char)(round & 2 ? 1 + random % 255 : 0x80 + random % 128);
        }
        text[bytes] = '\0';
        begin((enum writer)(round % WRITERS));
        call('{', NULL);
        text_put(text, text);
        call('}', NULL);
        if (end() || !json_check(document.written, strlen(document.written))) {
            fail_msg("round %d", round);
        }
        free(text);
    }
}

/* -------------------------------------------------------------------- numbers */

static void number_is(enum writer by, double value, const char *text) {
    begin(by);
    number_put(value);
    ends_as(text);
}

TEST(numbers_are_written_as_people_do) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "-0"},
        {100, "100"},
        {-1000000, "-1000000"},
        {999999999999999, "999999999999999"},
        {1e15, "1e15"},
        {0.1, "0.1"},
        {0.30000000000000004, "0.30000000000000004"},
        {-1.5, "-1.5"},
        {1e-5, "1e-5"},
        {1.25e-10, "1.25e-10"},
        {DBL_MAX, "1.7976931348623157e308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {5e-324, "5e-324"},
        {(double)NAN, "null"},
        {-(double)INFINITY, "null"},
    };
    for (enum writer by = LIBRARY; by < WRITERS; by++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            number_is(by, rows[i].value, rows[i].text);
        }
    }
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
        begin((enum writer)(round % WRITERS));
        number_put(value);
        assert_null(end());
        again = strtod(document.written, NULL);
        if (memcmp(&again, &value, sizeof value) != 0 ||
            !json_check(document.written, strlen(document.written))) {
            fail_msg("%a became %s", value, document.written);
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

/* The library's alone: the command leaves LC_NUMERIC as it is. */
TEST(numbers_ignore_the_locale) {
    char folder[] = "/tmp/vram-locale-XXXXXX", command[64], sample[8];
    assert_non_null(mkdtemp(folder));
    bool entered = enter_comma_locale(folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!entered) {
        print_message("no locale with a decimal comma can be had here\n");
        skip();
    }
    snprintf(sample, sizeof sample, "%.1f", 0.5);
    assert_string_equal(sample, "0,5"); /* or the test would prove nothing */
    number_is(LIBRARY, 1234.5, "1234.5");
    number_is(LIBRARY, 1.25e-10, "1.25e-10");
    number_is(LIBRARY, 100, "100");
    setlocale(LC_NUMERIC, "C");
}
