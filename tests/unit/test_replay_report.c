/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_replay_report.c: the table of `vram replay`: whatever the figures are, a row has as many
 * words as it has columns.
 */
#include "byte_units.h"
#include "replay/replay_report.h"
#include "rig/rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the report prints, taken from standard output. */
static void take_print(const struct replay_report *report, char *text, size_t bytes) {
    const struct terminal plain = {.width = 80};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    assert_true(before >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    replay_report_print(report, &plain);
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = '\0';
    fclose(file);
}

static unsigned count_words(const char *row) {
    unsigned words = 0;
    for (const char *at = row; *at && *at != '\n'; at += strcspn(at, " \n")) {
        at += strspn(at, " ");
        words += *at && *at != '\n';
    }
    return words;
}

TEST(columns_never_touch) {
    static const uint64_t counts[] = {0, 9999999, 123456789, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct trace trace = {.peak_bytes = 1000 * MIB};
        struct pass pass = {.trace = &trace,
                            .policy = &policy_caching,
                            .repeat = 1000 * (uint32_t)i + 1,
                            .result = PASS_DONE,
                            .op_count = 1,
                            .spent_ns = 1 + counts[i],
                            .counts = {.peak_reserved_bytes = UINT64_C(1023) << 40,
                                       .moved_handles = counts[i],
                                       .calls = {counts[i] + 1}}};
        struct target target = {.info = {.backend = "sim", .name = "test"}};
        struct replay_report report = {
            .target = &target, .repeats = 9999, .passes = &pass, .pass_count = 1};
        char text[4096];
        take_print(&report, text, sizeof text);
        const char *row = strstr(text, "\n  caching #");
        assert_non_null(row);
        /* name, #n, bar, size and unit, ratio, moved, share and %, calls, time and unit */
        assert_int_equal(count_words(row + 1), 12);
    }
}
