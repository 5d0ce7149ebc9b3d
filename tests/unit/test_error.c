/* SPDX-License-Identifier: Apache-2.0 */
/* The thread-local error record. */
#include "base/error.h"
#include "rig/rig.h"

#include <pthread.h>
#include <string.h>
#include <wchar.h>

static int fresh(void) {
    vram_error_clear();
    return 0;
}

TEST(keeps_all_it_is_told) {
    vram_status status = vr_error_set(VRAM_ERR_LIMIT, "cuda", "cuMemHostAlloc", INT64_MIN,
                                      "out of %s, %d of %d", "pages", 3, 4);
    const vram_error *error = vram_error_get();
    assert_int_equal(status, VRAM_ERR_LIMIT);
    assert_int_equal(error->status, VRAM_ERR_LIMIT);
    assert_string_equal(error->backend, "cuda");
    assert_string_equal(error->operation, "cuMemHostAlloc");
    assert_true(error->native_code == INT64_MIN);
    assert_string_equal(error->text, "out of pages, 3 of 4");

    assert_int_equal(vr_fail_in(VRAM_ERR_INVALID, "vram_x", "plain"), VRAM_ERR_INVALID);
    assert_string_equal(error->backend, "");
    assert_string_equal(error->operation, "vram_x");
    assert_int_equal(error->native_code, 0);
    assert_string_equal(error->text, "plain");
}

static vram_status vram_inner(void) {
    VR_CALL;
    return vr_fail(VRAM_ERR_INVALID, "%d is %s", 1, "wrong");
}

static vram_status helper(void) {
    VR_OPERATION("vram_helped");
    return vram_inner();
}

/* As a call from a callback of the program's is inside the call that made the callback. */
TEST(failures_have_the_name_of_the_innermost_operation) {
    const vram_error *error = vram_error_get();
    assert_string_equal(vr_operation(), "");
    {
        VR_OPERATION("vram_outer");
        assert_int_equal(helper(), VRAM_ERR_INVALID);
        assert_string_equal(error->operation, "vram_inner");
        assert_string_equal(error->text, "1 is wrong");
        assert_int_equal(vr_fail(VRAM_ERR_BUSY, "plain"), VRAM_ERR_BUSY);
        assert_string_equal(error->operation, "vram_outer");
        assert_int_equal(vr_fail_in(VRAM_ERR_BUSY, "cuMemMap", "plain"), VRAM_ERR_BUSY);
        assert_string_equal(error->operation, "cuMemMap");
    }
    vr_fail(VRAM_ERR_BUSY, "outside of any");
    assert_string_equal(error->operation, "");
}

TEST(missing_names_become_empty) {
    vr_error_set(VRAM_ERR_BACKEND, NULL, NULL, 1, "%s", "x");
    assert_string_equal(vram_error_get()->backend, "");
    assert_string_equal(vram_error_get()->operation, "");
}

TEST(is_one_line_of_utf8) {
    vr_fail_in(VRAM_ERR_IO, "x", "a\nb\tc\x1b[31m\x7f %s", "caf\xC3\xA9 \xFF\xC3+");
    assert_string_equal(vram_error_get()->text, "a?b?c?[31m? caf\xC3\xA9 ??+");
    /* C1 control, line separator, overlong slash, surrogate half, beyond the last plane. */
    vr_fail_in(VRAM_ERR_IO, "x", "%s",
               "\xC2\x9B|\xE2\x80\xA8|\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80");
    assert_string_equal(vram_error_get()->text, "?|?|??|???|????");
}

/* At every alignment of a long run of 2, 3 and 4 byte characters against the end of the buffer. */
TEST(truncation_keeps_characters_whole) {
    const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t c = 0; c < 3; c++) {
        size_t width = strlen(characters[c]);
        for (size_t lead = 0; lead < 5; lead++) {
            char text[2 * VRAM_ERROR_TEXT_MAX] = "";
            memset(text, 'a', lead);
            for (size_t at = lead; at + width < sizeof text; at += width) {
                memcpy(text + at, characters[c], width + 1);
            }
            vr_fail_in(VRAM_ERR_IO, "x", "%s", text);
            size_t kept = strlen(vram_error_get()->text);
            assert_int_equal((kept - lead) % width, 0);
            assert_true(kept < VRAM_ERROR_TEXT_MAX && kept + width >= VRAM_ERROR_TEXT_MAX);
            assert_memory_equal(vram_error_get()->text, text, kept);
        }
    }
}

TEST(may_quote_itself) {
    vr_fail_in(VRAM_ERR_IO, "inner", "the disk is full");
    vr_fail_in(VRAM_ERR_BACKEND, "outer", "%s: %s", vram_error_get()->operation,
               vram_error_get()->text);
    assert_string_equal(vram_error_get()->text, "inner: the disk is full");
}

TEST(survives_a_failing_printf) {
    const wchar_t unwritable[] = {(wchar_t)0x7FFFFFFF, 0};
    assert_int_equal(vr_fail_in(VRAM_ERR_IO, "x", "%ls", unwritable), VRAM_ERR_IO);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_IO);
    assert_string_equal(vram_error_get()->text, "");
}

TEST(saves_and_restores) {
    vram_error copy;
    vr_error_set(VRAM_ERR_DEVICE_LOST, "sim", "alloc", 6, "first");
    vr_error_save(&copy);
    vr_fail_in(VRAM_ERR_IO, "clean-up", "second");
    vr_error_restore(&copy);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_LOST);
    assert_string_equal(vram_error_get()->backend, "sim");
    assert_string_equal(vram_error_get()->operation, "alloc");
    assert_int_equal(vram_error_get()->native_code, 6);
    assert_string_equal(vram_error_get()->text, "first");
}

/* What libraries on top of this one do: fail by a record of their own, and put one back. */
TEST(others_set_it) {
    vram_error error = {VRAM_ERR_LIMIT, NULL, "other_call", -7, "one line\nof \x01 text"};
    vram_error before;
    assert_int_equal(vram_error_set(&error), VRAM_ERR_LIMIT);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_LIMIT);
    assert_string_equal(vram_error_get()->backend, "");
    assert_string_equal(vram_error_get()->operation, "other_call");
    assert_int_equal(vram_error_get()->native_code, -7);
    assert_string_equal(vram_error_get()->text, "one line?of ? text");
    before = *vram_error_get();
    vr_fail_in(VRAM_ERR_BUSY, "clean_up", "that fails as well");
    assert_int_equal(vram_error_set(&before), VRAM_ERR_LIMIT);
    assert_memory_equal(vram_error_get()->text, before.text, strlen(before.text) + 1);
    memset(error.text, 'x', sizeof error.text); /* without an end */
    assert_int_equal(vram_error_set(&error), VRAM_ERR_LIMIT);
    assert_int_equal(strlen(vram_error_get()->text), sizeof error.text - 1);
    error.status = VRAM_OK;
    assert_int_equal(vram_error_set(&error), VRAM_OK);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_string_equal(vram_error_get()->text, "");
    assert_int_equal(vram_error_set(&before), VRAM_ERR_LIMIT);
    assert_int_equal(vram_error_set(NULL), VRAM_OK);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
}

EACH_TEST(fresh, NULL)
