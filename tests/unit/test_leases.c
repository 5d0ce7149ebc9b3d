/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_leases.c: `vram info --leases`, with a broker whose answer the test writes.
 */
#include "leases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/printed.h"

static struct {
    vram_status status;
    const vram_lease_entry *entries;
    const vram_lease_record *records;
    uint32_t entry_count, record_count;
    uint32_t more;  /* leases that are opened between two questions */
    unsigned asked; /* times */
} broker;
static bool no_memory;

vram_status __wrap_vram_lease_list(const char *dir, vram_lease_entry *entries,
                                   uint32_t *entry_count, vram_lease_record *records,
                                   uint32_t *record_count);
vram_status __wrap_vram_lease_list(const char *dir, vram_lease_entry *entries,
                                   uint32_t *entry_count, vram_lease_record *records,
                                   uint32_t *record_count) {
    assert_null(dir);
    broker.asked++;
    for (uint32_t i = 0; i < *entry_count && i < broker.entry_count; i++) {
        entries[i] = broker.entries[i];
    }
    for (uint32_t i = 0; i < *record_count && i < broker.record_count; i++) {
        records[i] = broker.records[i];
    }
    *entry_count = broker.entry_count;
    *record_count = broker.record_count;
    broker.entry_count += broker.more;
    broker.more = 0;
    return broker.status;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    return no_memory ? NULL : __real_calloc(count, bytes);
}

static int show(bool json) {
    const struct invocation invocation = {.json = json, .terminal = {.width = 80}};
    printed_begin();
    int code = leases_show(&invocation);
    printed_end();
    return code;
}

static const vram_lease_entry entries[] = {
    {.device = "sim 0",
     .name = "train",
     .process = 11,
     .priority = 5,
     .min_bytes = 1 << 20,
     .want_bytes = 8 << 20,
     .granted_bytes = 4 << 20,
     .held_bytes = 3 << 20,
     .waiting_bytes = 2 << 20,
     .capacity_bytes = 16 << 20},
    {.device = "sim 0", .name = "serve", .process = 12, .asked_bytes = 5 << 20},
    {.device = "sim 1", .name = "other", .process = 13, .priority = -1},
};
static const vram_lease_record records[] = {
    {.number = 1,
     .ago_ns = 9000000000,
     .happening = VRAM_LEASE_LOG_OPENED,
     .bytes = 1 << 20,
     .to = "train",
     .to_process = 11},
    {.number = 2,
     .happening = VRAM_LEASE_LOG_GAVE,
     .bytes = 1 << 20,
     .waited_ns = 2000000,
     .from = "serve",
     .from_process = 12,
     .to = "train",
     .to_process = 11},
    {.number = 3, .happening = VRAM_LEASE_LOG_KEPT, .from_process = 12, .to_process = 11},
    {.number = 4, .happening = VRAM_LEASE_LOG_DENIED, .to = "train"},
    {.number = 5, .happening = VRAM_LEASE_LOG_CLOSED, .from = "other"},
};

static void all_is_shown(void **state) {
    (void)state;
    broker.entries = entries;
    broker.records = records;
    broker.entry_count = sizeof entries / sizeof entries[0];
    broker.record_count = sizeof records / sizeof records[0];
    assert_int_equal(show(false), EXIT_YES);
    assert_non_null(strstr(printed, "Device sim 0, 16.00 MiB for all leases\n"));
    assert_non_null(strstr(printed, "\n\nDevice sim 1, 0 B for all leases\n"));
    assert_int_equal(printed_count("Device "), 2);
    assert_non_null(strstr(printed, "  train (11)            4.00 MiB    3.00 MiB    1.00 MiB    "
                                    "8.00 MiB    5  waits for 2.00 MiB\n"));
    assert_non_null(strstr(printed, "0  is asked for 5.00 MiB\n"));
    assert_non_null(strstr(printed, "-1\n\nLog\n"));
    assert_non_null(strstr(printed, "-9.00 s     opened 1.00 MiB to train (11)\n"));
    assert_non_null(strstr(printed, "serve (12) gave 1.00 MiB to train (11) after 2.00 ms\n"));
    assert_non_null(strstr(printed, " (12) kept 0 B from  (11): "));
    assert_non_null(strstr(printed, "denied 0 B to train (0)\n"));
    assert_non_null(strstr(printed, "other (0) closed 0 B\n"));

    assert_int_equal(show(true), EXIT_YES);
    assert_non_null(strstr(printed, "\"broker\": true"));
    assert_int_equal(printed_count("\"capacity_bytes\""), 3);
    assert_int_equal(printed_count("\"number\""), 5);
    assert_int_equal(printed_count("\"from\": null"), 2);
    assert_int_equal(printed_count("\"to\": null"), 1);
    assert_int_equal(printed_count("\"why\": null"), 4);
}

/* However many there are, and though more are opened meanwhile. */
static void none_is_left_out(void **state) {
    (void)state;
    enum { MANY = 1000 };
    vram_lease_entry *many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(many[i].name, sizeof many[i].name, "lease-%u.", i);
    }
    broker.entries = many;
    broker.entry_count = 300;
    broker.more = MANY - 300;
    broker.record_count = broker.asked = 0;
    assert_int_equal(show(true), EXIT_YES);
    assert_int_equal(broker.asked, 3);
    assert_int_equal(printed_count("\"lease-"), MANY);
    assert_non_null(strstr(printed, "\"lease-999.\""));
    free(many);
}

static void nobody_is_there(void **state) {
    (void)state;
    broker.entry_count = broker.record_count = 0;
    assert_int_equal(show(false), EXIT_YES);
    assert_string_equal(printed, "No leases: a broker runs, and nobody uses it.\n");
    broker.entries = entries; /* left over: nobody answers, says the status */
    broker.entry_count = 3;
    broker.status = VRAM_ERR_STALE;
    assert_int_equal(show(false), EXIT_NO);
    assert_string_equal(printed, "No leases: no broker runs.\n");
    assert_int_equal(show(true), EXIT_NO);
    assert_non_null(strstr(printed, "\"broker\": false"));
    assert_int_equal(printed_count("\"name\""), 0);
    broker.status = VRAM_ERR_TIMEOUT;
    assert_int_equal(show(true), EXIT_MISUSE);
    assert_string_equal(printed, "");
    no_memory = true;
    assert_int_equal(show(true), EXIT_MISUSE);
    no_memory = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_shown),
        cmocka_unit_test(none_is_left_out),
        cmocka_unit_test(nobody_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
