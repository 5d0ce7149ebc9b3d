/* SPDX-License-Identifier: Apache-2.0 */
/* Text in fixed buffers, and the key=value,key=value reader. */
#include "base/text.h"

#include "base/conf.h"
#include "rig/rig.h"

#include <stdlib.h>
#include <string.h>

/* The encoding of every code point, made the other way round, reads back; nothing shorter does. */
TEST(reads_every_character) {
    for (uint32_t code = 0; code <= 0x110100; code++) {
        char text[4] = {0};
        size_t length;
        if (code < 0x80) {
            text[0] = (char)code, length = 1;
        } else if (code < 0x800) {
            text[0] = (char)(0xC0 | code >> 6), length = 2;
        } else if (code < 0x10000) {
            text[0] = (char)(0xE0 | code >> 12), length = 3;
        } else {
            text[0] = (char)(0xF0 | code >> 18), length = 4;
        }
        for (size_t i = 1; i < length; i++) {
            text[i] = (char)(0x80 | (code >> 6 * (length - 1 - i) & 0x3F));
        }
        bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        uint32_t found = 0xFFFFFFFF;
        size_t read = vr_text_char(text, length, &found);
        if (read != (valid ? length : 0) || found != (valid ? code : 0xFFFFFFFF) ||
            vr_text_char(text, length - 1, &found) != 0) {
            fail_msg("U+%04X", (unsigned)code);
        }
    }
}

TEST(refuses_what_is_no_character) {
    const char *const bad[] = {"\x80",
                               "\xBF",
                               "\xC0\x80",
                               "\xC1\xBF",
                               "\xE0\x80\x80",
                               "\xE0\x9F\xBF",
                               "\xF0\x80\x80\x80",
                               "\xF0\x8F\xBF\xBF",
                               "\xF5\x80\x80\x80",
                               "\xFE",
                               "\xFF",
                               "\xC3+",
                               "\xE2\x82+",
                               "\xF0\x9F\x98+"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t code;
        assert_int_equal(vr_text_char(bad[i], strlen(bad[i]), &code), 0);
    }
}

TEST(knows_control_characters) {
    unsigned found = 0;
    for (uint32_t code = 0; code < 0x3000; code++) {
        found += vr_text_is_control(code);
    }
    assert_int_equal(found, 32 + 33 + 2 + 9); /* C0; DEL, C1; separators; directions */
    assert_false(vr_text_is_control(' ') || vr_text_is_control('~') || vr_text_is_control(0xA0));
    assert_true(vr_text_is_control('\n') && vr_text_is_control(0x7F) && vr_text_is_control(0x9B));
}

TEST(changes_case_of_ascii_only) {
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        bool is_lower = i >= 'a' && i <= 'z', is_upper = i >= 'A' && i <= 'Z';
        assert_int_equal(vr_text_lower(c), is_upper ? c - 'A' + 'a' : c);
        assert_int_equal(vr_text_upper(c), is_lower ? c - 'a' + 'A' : c);
    }
}

TEST(formats_into_any_room) {
    char text[16] = "untouched";
    assert_false(vr_text_format(text, 0, "%d", 1));
    assert_string_equal(text, "untouched");
    assert_false(vr_text_format(text, 1, "%d", 1));
    assert_string_equal(text, "");
    assert_true(vr_text_format(text, 6, "%s", "12345"));
    assert_string_equal(text, "12345");
    assert_false(vr_text_format(text, 5, "%s", "12345"));
    assert_string_equal(text, "1234");
    assert_false(vr_text_format(text, 5, "%s", "123\xC3\xA9"));
    assert_string_equal(text, "123");
    /* What was no UTF-8 to begin with is cut like anything else and cleaned. */
    assert_false(vr_text_format(text, 6, "%s", "\x80\x80\x80\x80\x80\x80\x80"));
    assert_string_equal(text, "?????");
}

TEST(copies_into_any_room) {
    char text[16] = "untouched";
    assert_false(vr_text_copy(text, 0, "x"));
    assert_string_equal(text, "untouched");
    assert_false(vr_text_copy(text, 1, "x"));
    assert_string_equal(text, "");
    assert_true(vr_text_copy(text, 1, ""));
    assert_true(vr_text_copy(text, sizeof text, "a\nb\xFF"));
    assert_string_equal(text, "a\nb\xFF"); /* as it is */
    assert_false(vr_text_copy(text, 4, "a\xE2\x82\xAC"));
    assert_string_equal(text, "a");
}

TEST(measures_slips_of_the_hand) {
    assert_int_equal(vr_text_distance("sim", 3, "sim"), 0);
    assert_int_equal(vr_text_distance("sin", 3, "sim"), 1);
    assert_int_equal(vr_text_distance("smi", 3, "sim"), 1);
    assert_int_equal(vr_text_distance("si", 2, "sim"), 1);
    assert_int_equal(vr_text_distance("simm", 4, "sim"), 1);
    assert_int_equal(vr_text_distance("", 0, "sim"), 3);
    assert_int_equal(vr_text_distance("sim", 3, ""), 3);
    assert_int_equal(vr_text_distance("simulation", 3, "sim"), 0); /* three bytes of it */
    assert_int_equal(vr_text_distance("kitten", 6, "sitting"), 3);
    char sixty_four[65];
    memset(sixty_four, 'a', 64);
    sixty_four[64] = '\0';
    assert_int_equal(vr_text_distance(sixty_four, 64, "a"), UINT32_MAX);
    assert_int_equal(vr_text_distance("a", 1, sixty_four), UINT32_MAX);
    assert_int_equal(vr_text_distance(sixty_four, 63, sixty_four + 1), 0);
}

/* ------------------------------------------------------------------ key=value */

static void assert_entry(const char **cursor, const char *key, const char *value, bool quoted) {
    struct vr_conf_entry entry;
    assert_true(vr_conf_next(cursor, &entry));
    assert_null(entry.problem);
    assert_int_equal(entry.key_bytes, strlen(key));
    assert_memory_equal(entry.key, key, entry.key_bytes);
    assert_int_equal(entry.value_bytes, strlen(value));
    assert_memory_equal(entry.value, value, entry.value_bytes);
    assert_int_equal(entry.quoted, quoted);
}

static void assert_broken(const char **cursor, const char *key, const char *problem) {
    struct vr_conf_entry entry;
    assert_true(vr_conf_next(cursor, &entry));
    assert_int_equal(entry.key_bytes, strlen(key));
    assert_memory_equal(entry.key, key, entry.key_bytes);
    assert_non_null(entry.problem);
    assert_non_null(strstr(entry.problem, problem));
}

static void assert_end(const char **cursor) {
    struct vr_conf_entry entry;
    assert_false(vr_conf_next(cursor, &entry));
    assert_false(vr_conf_next(cursor, &entry));
    assert_int_equal(**cursor, '\0');
}

TEST(reads_entries) {
    const char *cursor = " a=1 ,\tb = two words ,,c=\"x, y=z\" , d=,e=\"\",f=a=b,";
    assert_entry(&cursor, "a", "1", false);
    assert_entry(&cursor, "b", "two words", false);
    assert_entry(&cursor, "c", "x, y=z", true);
    assert_entry(&cursor, "d", "", false);
    assert_entry(&cursor, "e", "", true);
    assert_entry(&cursor, "f", "a=b", false);
    assert_end(&cursor);
    const char *nothing[] = {"", " ", ",", " ,, ,\t"};
    for (size_t i = 0; i < 4; i++) {
        assert_end(&nothing[i]);
    }
}

TEST(goes_on_behind_a_broken_entry) {
    const char *cursor = "bare , =1,q=\"a\"b,g=1";
    assert_broken(&cursor, "bare", "no value");
    assert_entry(&cursor, "", "1", false);
    assert_broken(&cursor, "q", "after the closing quote");
    assert_entry(&cursor, "g", "1", false);
    assert_end(&cursor);
    cursor = "a=1,q=\"never, closed=1";
    assert_entry(&cursor, "a", "1", false);
    assert_broken(&cursor, "q", "never closed");
    assert_end(&cursor);
}
