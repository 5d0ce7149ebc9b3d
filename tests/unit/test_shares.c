/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shares.c: `vram info --shares`, with names and owners of the test.
 */
#include "shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/printed.h"

enum { MANY = 500 };

static struct {
    vram_status listing, opening, asking;
    uint32_t count, more;
    unsigned asked, closed;
} shares;
static unsigned allocs_left = UINT32_MAX;

vram_status __wrap_vram_share_list(const vram_share_options *options, vram_share_name *names,
                                   uint32_t *count);
vram_status __wrap_vram_share_list(const vram_share_options *options, vram_share_name *names,
                                   uint32_t *count) {
    assert_null(options);
    shares.asked++;
    for (uint32_t i = 0; i < *count && i < shares.count; i++) {
        names[i] = (vram_share_name){.version = i};
        snprintf(names[i].name, sizeof names[i].name, "name-%03u", MANY - i);
    }
    *count = shares.count;
    shares.count += shares.more;
    shares.more = 0;
    return shares.listing;
}

vram_status __wrap_vram_share_open(vram_device *device, const vram_share_token *token,
                                   const vram_share_options *options, vram_share **share);
vram_status __wrap_vram_share_open(vram_device *device, const vram_share_token *token,
                                   const vram_share_options *options, vram_share **share) {
    assert_true(device && token && options->flags == VRAM_SHARE_READ_ONLY);
    *share = (vram_share *)(uintptr_t)1;
    return shares.opening;
}

vram_status __wrap_vram_share_info_get(vram_share *share, vram_share_info *info);
vram_status __wrap_vram_share_info_get(vram_share *share, vram_share_info *info) {
    assert_non_null(share);
    info->bytes = 4096;
    return shares.asking;
}

vram_status __wrap_vram_share_close(vram_share *share);
vram_status __wrap_vram_share_close(vram_share *share) {
    assert_non_null(share);
    shares.closed++;
    return VRAM_OK;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    return allocs_left == 0 ? NULL : (allocs_left--, __real_calloc(count, bytes));
}

static int show(bool json) {
    const struct invocation invocation = {.json = json, .terminal = {.width = 80}};
    shares.asked = shares.closed = 0;
    printed_begin();
    int code = shares_show(&invocation);
    printed_end();
    return code;
}

static void no_name_is_left_out(void **state) {
    (void)state;
    shares.count = 200;
    shares.more = MANY - 200;
    assert_int_equal(show(false), EXIT_YES);
    assert_int_equal(shares.asked, 3);
    assert_int_equal(shares.closed, MANY);
    assert_int_equal(printed_count("served, 4.00 KiB\n"), MANY);
    assert_true(strstr(printed, "name-001 ") < strstr(printed, "name-002 "));
    assert_non_null(strstr(printed, "name-500 "));
}

static void owners_answer_or_do_not(void **state) {
    (void)state;
    static const struct {
        vram_status opening, asking;
        const char *owner, *bytes;
    } rows[] = {
        {VRAM_OK, VRAM_OK, "\"owner\": \"served\"", "\"bytes\": 4096"},
        {VRAM_OK, VRAM_ERR_STALE, "\"owner\": \"served\"", "\"bytes\": null"},
        {VRAM_ERR_UNSUPPORTED, VRAM_OK, "\"owner\": \"served\"", "\"bytes\": null"},
        {VRAM_ERR_BUSY, VRAM_OK, "\"owner\": \"served\"", "\"bytes\": null"},
        {VRAM_ERR_STALE, VRAM_OK, "\"owner\": \"gone\"", "\"bytes\": null"},
        {VRAM_ERR_TIMEOUT, VRAM_OK, "\"owner\": \"unknown\"", "\"bytes\": null"},
    };
    shares.count = 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shares.opening = rows[i].opening;
        shares.asking = rows[i].asking;
        assert_int_equal(show(true), EXIT_YES);
        assert_non_null(strstr(printed, rows[i].owner));
        assert_non_null(strstr(printed, rows[i].bytes));
        assert_int_equal(shares.closed, rows[i].opening == VRAM_OK);
    }
    assert_int_equal(show(false), EXIT_YES);
    assert_non_null(strstr(printed, " unknown\n"));
}

static void there_are_none(void **state) {
    (void)state;
    shares.count = 0;
    assert_int_equal(show(false), EXIT_NO);
    assert_non_null(strstr(printed, "No names: "));
    assert_int_equal(show(true), EXIT_NO);
    assert_non_null(strstr(printed, "\"shares\": []"));
    shares.listing = VRAM_ERR_TIMEOUT;
    assert_int_equal(show(true), EXIT_MISUSE);
    assert_string_equal(printed, "");
    shares.listing = VRAM_OK;
}

/* Each allocation in turn: those of the library, too. */
static void memory_runs_out(void **state) {
    (void)state;
    unsigned failing = 0;
    shares.count = 2;
    shares.opening = VRAM_OK;
    for (int code = EXIT_MISUSE; code != EXIT_YES; failing++) {
        allocs_left = failing;
        code = show(true);
        allocs_left = UINT32_MAX;
        assert_true(code == EXIT_YES || (code == EXIT_MISUSE && printed[0] == 0));
    }
    assert_true(failing > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_name_is_left_out),
        cmocka_unit_test(owners_answer_or_do_not),
        cmocka_unit_test(there_are_none),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
