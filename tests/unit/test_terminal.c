/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_terminal.c: what may be printed, and what a terminal is taken for.
 */
#include "rig/rig.h"
#include "terminal.h"

#include <locale.h>
#include <stdlib.h>

#include "unit/printed_text.h"

static void sanitize_as(const char *text, const char *wanted) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    text_sanitize(copy);
    assert_string_equal(copy, wanted);
}

/* Characters at the edges of what UTF-8 allows; each has another behind it. */
TEST(characters_of_utf8) {
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        {"plain", "plain"},
        {"\x01\x1f\x7f ~", "??? ~"},
        {"\xc2\xa0|", "\xc2\xa0|"},         /* U+00A0 */
        {"\xc2\x9f|", "??|"},               /* a control character */
        {"\xc1\xbf|", "??|"},               /* overlong */
        {"\x80|\xbf|", "?|?|"},             /* nothing begins with these */
        {"\xdf\xbf|", "\xdf\xbf|"},         /* U+07FF */
        {"\xdf|", "?|"},                    /* cut off */
        {"\xdf", "?"},                      /* by the end */
        {"\xe0\x9f\xbf|", "???|"},          /* overlong */
        {"\xe0\xa0\x80|", "\xe0\xa0\x80|"}, /* U+0800 */
        {"\xe1\x80|", "??|"},
        {"\xed\x9f\xbf|", "\xed\x9f\xbf|"}, /* U+D7FF */
        {"\xed\xa0\x80|", "???|"},          /* a surrogate */
        {"\xef\xbf\xbd|", "\xef\xbf\xbd|"},
        {"\xf0\x8f\xbf\xbf|", "????|"}, /* overlong */
        {"\xf0\x90\x80\x80|", "\xf0\x90\x80\x80|"},
        {"\xf4\x8f\xbf\xbf|", "\xf4\x8f\xbf\xbf|"}, /* U+10FFFF */
        {"\xf4\x90\x80\x80|", "????|"},
        {"\xf5\x80\x80\x80|", "????|"},
        {"\xf3\x80\x80|", "???|"},
        {"\xe2\x80\xa7|", "\xe2\x80\xa7|"}, /* U+2027, before those that turn a line */
        {"\xe2\x80\xa8|", "???|"},
        {"\xe2\x80\xae|", "???|"},
        {"\xe2\x80\xaf|", "\xe2\x80\xaf|"},
        {"\xe2\x81\xa5|", "\xe2\x81\xa5|"},
        {"\xe2\x81\xa6|", "???|"},
        {"\xe2\x81\xa9|", "???|"},
        {"\xe2\x81\xaa|", "\xe2\x81\xaa|"},
        {"\xe2\x82\xac|", "\xe2\x82\xac|"},
    };
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sanitize_as(rows[i].text, rows[i].wanted);
    }
    assert_int_equal(terminal_columns("\xe2\x82\xac|"), 2);
    setlocale(LC_CTYPE, "C");
}

/* Elsewhere than in UTF-8 a character is one question mark, however many bytes it has. */
TEST(characters_of_ascii) {
    setlocale(LC_CTYPE, "C");
    sanitize_as("a\xe2\x82\xac"
                "b",
                "a?b");
    sanitize_as("a\xff"
                "b",
                "a?b");
}

TEST(pieces_that_do_not_fit) {
    char text[8] = "abc";
    text_add(text, sizeof text, "defgh");
    assert_string_equal(text, "abc");
    text_add(text, sizeof text, "defg");
    assert_string_equal(text, "abcdefg");
}

static struct terminal detected(const char *color) {
    struct terminal terminal;
    printed_begin(); /* a file, no terminal */
    terminal_detect(&terminal, color);
    printed_end();
    return terminal;
}

TEST(wishes_of_the_user) {
    static const struct {
        const char *word, *no, *force;
        bool color;
    } rows[] = {
        {"always", "1", NULL, true}, {"never", NULL, "1", false}, {"auto", NULL, "1", true},
        {NULL, NULL, "1", true},     {NULL, NULL, "0", false},    {NULL, NULL, "", false},
        {NULL, "1", "1", false},     {NULL, "", "1", true},       {NULL, NULL, NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsetenv("NO_COLOR");
        unsetenv("CLICOLOR_FORCE");
        if (rows[i].no != NULL) {
            setenv("NO_COLOR", rows[i].no, 1);
        }
        if (rows[i].force != NULL) {
            setenv("CLICOLOR_FORCE", rows[i].force, 1);
        }
        assert_true(detected(rows[i].word).color == rows[i].color);
    }
}

TEST(widths) {
    static const struct {
        const char *columns;
        uint32_t width;
    } rows[] = {{"100", 100}, {"7", 40}, {"99999", 1000}, {"0", 80},
                {"", 80},     {":", 80}, {"wide", 80}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv("COLUMNS", rows[i].columns, 1);
        assert_int_equal(detected(NULL).width, rows[i].width);
    }
    unsetenv("COLUMNS");
    assert_int_equal(detected(NULL).width, 80);
}

TEST(lines_and_bars) {
    const struct terminal narrow = {.width = 10}, colored = {.width = 80, .color = true};
    printed_begin();
    terminal_wrap(&narrow, STYLE_PLAIN, 20, "one two"); /* no room: a word each */
    printed_end();
    assert_string_equal(printed, "one\n                    two\n");

    static const struct {
        uint64_t part, whole;
        const char *bar;
    } bars[] = {{0, 0, "...."}, {5, 0, "...."}, {0, 9, "...."},  {1, 1000, "#..."},
                {1, 2, "##.."}, {9, 9, "####"}, {99, 9, "####"}, {UINT64_MAX, 1, "####"}};
    for (size_t i = 0; i < sizeof bars / sizeof bars[0]; i++) {
        printed_begin();
        terminal_bar(&narrow, 4, bars[i].part, bars[i].whole);
        printed_end();
        assert_string_equal(printed, bars[i].bar);
    }
    printed_begin();
    terminal_bar(&colored, 4, 3, 4);
    terminal_print(&colored, STYLE_BOLD, "%s", "");
    printed_end();
    assert_string_equal(printed, "\033[33m###\033[0m\033[2m.\033[0m");
}
