/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses and versions: numbers are an ABI, so each is written down here a second time. */
#include "rig/rig.h"
#include "vram/base.h"

#include <stdio.h>
#include <string.h>

struct pinned {
    int number;
    const char *name;
    bool exhausted;
};

static const struct pinned pinned[] = {
    {0, "VRAM_OK", false},
    {-1, "VRAM_ERR_INVALID", false},
    {-2, "VRAM_ERR_OVERFLOW", false},
    {-3, "VRAM_ERR_STALE", false},
    {-20, "VRAM_ERR_HOST_MEMORY", true},
    {-21, "VRAM_ERR_DEVICE_MEMORY", true},
    {-22, "VRAM_ERR_LIMIT", true},
    {-23, "VRAM_ERR_FRAGMENTED", true},
    {-40, "VRAM_ERR_UNSUPPORTED", false},
    {-41, "VRAM_ERR_NO_DRIVER", false},
    {-42, "VRAM_ERR_NO_DEVICE", false},
    {-60, "VRAM_ERR_DEVICE_LOST", false},
    {-61, "VRAM_ERR_BUSY", false},
    {-62, "VRAM_ERR_CAPTURE", false},
    {-80, "VRAM_ERR_NOT_READY", false},
    {-81, "VRAM_ERR_TIMEOUT", false},
    {-82, "VRAM_ERR_FORKED", false},
    {-83, "VRAM_ERR_SHUTDOWN", false},
    {-100, "VRAM_ERR_CORRUPT", false},
    {-101, "VRAM_ERR_IO", false},
    {-102, "VRAM_ERR_BACKEND", false},
};

enum { PINNED_COUNT = sizeof pinned / sizeof pinned[0] };

static const struct pinned *find(int number) {
    for (size_t i = 0; i < PINNED_COUNT; i++) {
        if (pinned[i].number == number) {
            return &pinned[i];
        }
    }
    return NULL;
}

TEST(every_number_is_pinned) {
    size_t listed = 0;
#define CHECK(NAME, value, text)                                                                   \
    assert_non_null(find(VRAM_##NAME));                                                            \
    assert_string_equal(find(VRAM_##NAME)->name, "VRAM_" #NAME);                                   \
    listed++;
    VRAM_STATUS_MAP(CHECK)
#undef CHECK
    assert_int_equal(listed, PINNED_COUNT);
}

TEST(names_and_texts) {
    for (size_t i = 0; i < PINNED_COUNT; i++) {
        vram_status status = (vram_status)pinned[i].number;
        assert_string_equal(vram_status_name(status), pinned[i].name);
        assert_true(strlen(vram_status_text(status)) > 5);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(vram_status_text(status),
                                    vram_status_text((vram_status)pinned[j].number));
        }
    }
    assert_string_equal(vram_status_text(VRAM_ERR_LIMIT),
                        "a limit set by the user or the system was reached");
}

TEST(only_what_ran_out_is_exhausted) {
    for (int number = -200; number <= 200; number++) {
        const struct pinned *known = find(number);
        assert_int_equal(vram_status_is_exhausted((vram_status)number), known && known->exhausted);
    }
}

TEST(foreign_numbers_have_a_name) {
    const int foreign[] = {1, -4, -19, -24, -103, 9999, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_string_equal(vram_status_name((vram_status)foreign[i]), "VRAM_ERR_UNKNOWN");
        assert_non_null(strstr(vram_status_text((vram_status)foreign[i]), "does not know"));
    }
}

TEST(version_text_and_number_agree) {
    char text[32];
    uint32_t version = vram_version();
    assert_int_equal(version, VRAM_VERSION);
    snprintf(text, sizeof text, "%u.%u.%u" VRAM_VERSION_PRE, version / 1000000,
             version / 1000 % 1000, version % 1000);
    assert_string_equal(vram_version_text(), text);
}
