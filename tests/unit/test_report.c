/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report.c: what is said when memory has run out. One planted exhaustion for each cause, whose
 * text is compared with what tests/golden/oom.txt has under that name; OOM_UPDATE=FILE adds them to
 * another such file instead.
 */
#include "unit/json_check.h"
#include "unit/ladder_world.h"
#include "unit/report_text.h"
#include "unit/test_time.h"

#include "vram/buffer.h"
#include "vram/foreign.h"

#include <stdlib.h>

/* What is another number in another process or build becomes a question mark: handles,
   "0x800000203", and the sizes of the library's own structs. */
static void hide_numbers(char *text) {
    static const char *const before[] = {"0x", "failure of "};
    char *to = text;
    for (const char *at = text; *at;) {
        size_t bytes = 0;
        for (int i = 0; i < 2 && !bytes; i++) {
            bytes = strncmp(at, before[i], strlen(before[i])) == 0 ? strlen(before[i]) : 0;
        }
        if (bytes) {
            size_t digits = strspn(at + bytes, "0123456789abcdef");
            memmove(to, at, bytes);
            to += bytes;
            at += bytes + digits;
            if (digits) {
                *to++ = '?';
            }
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

static void expect_known(const char *name, const char *text) {
    static char all[64 << 10], heading[64];
    const char *update = getenv("OOM_UPDATE");
    FILE *file = fopen(update ? update : OOM_TEXTS, update ? "a" : "r");
    assert_non_null(file);
    snprintf(heading, sizeof heading, "== %s\n", name);
    if (update) {
        fprintf(file, "%s%s", heading, text);
    } else {
        all[fread(all, 1, sizeof all - 1, file)] = '\0';
        char *known = strstr(all, heading);
        assert_non_null(known);
        known += strlen(heading);
        char *next = strstr(known, "\n== ");
        known[next ? (size_t)(next + 1 - known) : strlen(known)] = '\0';
        assert_string_equal(text, known);
    }
    fclose(file);
}

/* For golden/reports_test.py, which holds it against the schema. */
static void give_document(const char *name, const char *document) {
    const char *folder = getenv("OOM_JSON");
    if (folder) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.json", folder, name);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(document, file);
        fclose(file);
    }
}

static vram_oom_report report_of(vram_pool *pool) {
    vram_oom_report report = {.size = sizeof report};
    assert_ok(vram_oom_report_get(pool, &report));
    return report;
}

static struct report_text written;

/* The report in that format, whole: its text is `written.text`. */
static const char *write_report(const vram_oom_report *report, vram_report_format format) {
    memset(&written, 0, sizeof written);
    assert_ok(vram_oom_report_write(report, format, report_text_take, &written));
    return written.text;
}

static void expect_numbers(const char *document, const vram_oom_report *report) {
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"queue", (uintptr_t)report->queue},        {"asked_bytes", report->asked_bytes},
        {"needed_bytes", report->needed_bytes},     {"alignment_bytes", report->alignment},
        {"process_bytes", report->process_bytes},   {"reserved_bytes", report->reserved_bytes},
        {"live_bytes", report->live_bytes},         {"rounding_bytes", report->rounding_bytes},
        {"cached_bytes", report->cached_bytes},     {"unused_bytes", report->unused_bytes},
        {"largest_bytes", report->largest_bytes},   {"elsewhere_bytes", report->elsewhere_bytes},
        {"spare_bytes", report->spare_bytes},       {"lost_bytes", report->lost_bytes},
        {"pending_bytes", report->pending_bytes},   {"pinned_bytes", report->pinned_bytes},
        {"asleep_bytes", report->asleep_bytes},     {"fallback_bytes", report->fallback_bytes},
        {"stranded_bytes", report->stranded_bytes}, {"address_bytes", report->address_bytes},
        {"longest_bytes", report->longest_bytes},   {"shared_bytes", report->shared_bytes},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "\"%s\": %llu", numbers[i].name,
                 (unsigned long long)numbers[i].value);
        if (!strstr(document, wanted)) {
            fail_msg("no %s in %s", wanted, document);
        }
    }
}

/* Texts stand under their own names, and so does what a quota says. */
static void expect_texts(const char *document, const vram_oom_report *report) {
    static const char *const names[] = {"summary", "advice", "error"};
    char wanted[96];
    assert_non_null(strstr(document, "\"schema\": \"vram.oom/1\""));
    snprintf(wanted, sizeof wanted, "\"status\": \"%s\"", vram_status_name(report->status));
    assert_non_null(strstr(document, wanted));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(wanted, sizeof wanted, "\"%s\": \"", names[i]);
        assert_non_null(strstr(document, wanted));
    }
    const char *quota = strstr(document, "\"quota\": ");
    assert_non_null(quota);
    if (*report->quota_tag) {
        snprintf(wanted, sizeof wanted, "\"hard_bytes\": %llu,",
                 (unsigned long long)report->quota_bytes);
        assert_non_null(strstr(quota, wanted));
        snprintf(wanted, sizeof wanted, "\"used_bytes\": %llu",
                 (unsigned long long)report->quota_used_bytes);
        assert_non_null(strstr(quota, wanted));
    }
}

static void expect_sum(const vram_oom_report *report) {
    assert_int_equal(report->reserved_bytes, report->live_bytes - report->asleep_bytes +
                                                 report->cached_bytes + report->unused_bytes +
                                                 report->pending_bytes + report->pinned_bytes +
                                                 report->lost_bytes);
}

/* The report of a planted exhaustion names its cause first, and its text is the one in the file. */
static void expect_report(vram_pool *pool, vram_oom_cause cause) {
    char first[64];
    vram_oom_report report = report_of(pool), last = report_of(NULL);
    assert_string_equal(vram_oom_cause_name(report.cause), vram_oom_cause_name(cause));
    assert_memory_equal(&report, &last, sizeof report);
    assert_true(vram_status_is_exhausted(report.status));
    expect_sum(&report);
    const char *text = write_report(&report, VRAM_REPORT_TEXT);
    snprintf(first, sizeof first, "out of memory (%s): ", vram_oom_cause_name(cause));
    assert_int_equal(strncmp(text, first, strlen(first)), 0);
    hide_numbers(written.text);
    expect_known(vram_oom_cause_name(cause), text);
    const char *document = write_report(&report, VRAM_REPORT_JSON);
    assert_true(json_check(document, strlen(document)));
    give_document(vram_oom_cause_name(cause), document);
    expect_numbers(document, &report);
    expect_texts(document, &report);
    snprintf(first, sizeof first, "\"cause\": \"%s\"", vram_oom_cause_name(cause));
    assert_non_null(strstr(document, first));
}

static vram_addr take_for(vram_pool *pool, uint64_t bytes, const char *tag) {
    vram_alloc_options options = {.size = sizeof options, .tag = tag};
    vram_addr addr = 0;
    assert_ok(vram_alloc_with(pool, bytes, NULL, &options, &addr));
    return addr;
}

/* -------------------------------------------------------------- a case for each cause */

TEST(truly_full, "sim:" SIM) {
    vram_addr layers[10];
    vram_pool *pool = pool_on(rig->device, "model", 0);
    for (int i = 0; i < 10; i++) {
        layers[i] = take_for(pool, 4 * MIB, "weights/layer");
    }
    (void)take_for(pool, 12 * MIB, "kv");
    (void)take(pool, 6 * MIB, NULL);
    vram_alloc_options options = {.size = sizeof options, .tag = "activations"};
    vram_addr addr = 0;
    assert_int_equal(vram_alloc_with(pool, 10 * MIB - 100, rig->queue, &options, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    expect_report(pool, VRAM_OOM_FULL);
    vram_oom_report report = report_of(pool);
    assert_int_equal(report.asked_bytes, 10 * MIB - 100);
    assert_int_equal(report.needed_bytes, 10 * MIB);
    assert_string_equal(report.tag, "activations");
    assert_string_equal(report.holders[0].tag, "weights/layer");
    assert_int_equal(report.holders[0].bytes, 40 * MIB);
    assert_int_equal(report.holders[0].blocks, 10);
    assert_string_equal(report.holders[1].tag, "kv");
    assert_string_equal(report.holders[2].tag, "");
    assert_int_equal(report.process_bytes, report.reserved_bytes);
    assert_int_equal(report.others_bytes.value, 0);
    assert_ptr_equal(report.queue, rig->queue);
    assert_non_null(strstr(report.advice, "free some of what \"weights/layer\" holds"));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_free(layers[i], NULL));
    }
    (void)take(pool, 10 * MIB - 100, rig->queue);
}

TEST(limit_reached) {
    assert_ok(vram_option_set("device_limit", "32M"));
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "model", 0);
    (void)take_for(pool, 30 * MIB, "weights");
    refused(pool, 8 * MIB, rig.queue, VRAM_ERR_LIMIT);
    expect_report(pool, VRAM_OOM_LIMIT);
    assert_int_equal(report_of(pool).limit_bytes.value, 32 * MIB);
    rig_end_clean(&rig);
}

TEST(fragmented_without_vmm, "sim:" SIM ",vmm=off") {
    enum { COUNT = 30 };
    vram_pool *pool = pool_on(rig->device, "model", 0);
    vram_addr addrs[COUNT];
    int count = 0;
    while (count < COUNT && vram_alloc(pool, 2 * MIB - 512, NULL, &addrs[count]) == VRAM_OK) {
        count++;
    }
    for (int i = 0; i < count; i += 2) {
        assert_ok(vram_free(addrs[i], NULL));
    }
    vram_addr addr = 0;
    vram_status status = vram_alloc(pool, 20 * MIB, rig->queue, &addr);
    assert_true(vram_status_is_exhausted(status));
    expect_report(pool, VRAM_OOM_FRAGMENTED);
    assert_true(report_of(pool).unused_bytes >= 20 * MIB);
    assert_true(report_of(pool).largest_bytes < 20 * MIB);
    (void)take(pool, report_of(pool).largest_bytes, rig->queue); /* as it advises */
}

/* A limit refuses, because what is free is in pieces: the status names the one, the cause the
   other, and the text both. */
TEST(pieces_below_a_limit, "sim:memory=256M,granule=2M") {
    enum { COUNT = 32 };
    vram_pool *pool = pool_on(rig->device, "model", 0);
    vram_limits limits = {.size = sizeof limits, .hard_bytes = COUNT * MIB};
    vram_addr addrs[COUNT];
    assert_ok(vram_pool_limits_set(pool, &limits));
    for (int i = 0; i < COUNT; i++) {
        addrs[i] = take(pool, MIB, NULL);
    }
    refused(pool, 8 * MIB, NULL, VRAM_ERR_LIMIT);
    assert_null(strstr(vram_error_get()->text, "are free in pieces"));
    for (int i = 0; i < COUNT; i += 2) {
        assert_ok(vram_free(addrs[i], NULL));
    }
    refused(pool, 8 * MIB, NULL, VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text,
                           "of which 16.00 MiB are free in pieces of at most 1.00 MiB"));
    assert_int_equal(report_of(pool).cause, VRAM_OOM_FRAGMENTED);
    assert_int_equal(report_of(pool).status, VRAM_ERR_LIMIT);
}

/* The driver has no more addresses: told apart from memory, with the knob. */
TEST(no_addresses_left, "sim:" SIM) {
    assert_ok(vram_option_set("range_bytes", "8M"));
    vram_pool *pool = pool_on(rig->device, "model", 0);
    assert_ok(vram_option_set("range_bytes", NULL));
    (void)take_for(pool, 6 * MIB, "weights");
    fault(rig, VRAM_SIM_RESERVE, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    refused(pool, 12 * MIB, rig->queue, VRAM_ERR_FRAGMENTED);
    expect_report(pool, VRAM_OOM_ADDRESSES);
    vram_oom_report report = report_of(pool);
    assert_int_equal(report.address_bytes, 8 * MIB);
    assert_int_equal(report.longest_bytes, 2 * MIB);
    assert_non_null(strstr(report.advice, "VRAM_RANGE_BYTES"));
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    (void)take(pool, 12 * MIB, rig->queue);
}

TEST(pending_on_another_queue, "sim:" SIM ",lag=10000") {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    vram_addr addr = take(pool, 40 * MIB, rig->queue);
    assert_ok(vram_queue_fill(rig->queue, addr, 7, 1, 4 * KIB)); /* which takes its time */
    assert_ok(vram_free(addr, rig->queue));
    test_time_begin(0, UINT64_C(60000000000)); /* every wait is over at the second look */
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    test_time_end();
    expect_report(pool, VRAM_OOM_PENDING);
    vram_oom_report report = report_of(pool);
    assert_int_equal(report.queue_count, 1);
    assert_ptr_equal(report.queues[0].queue, rig->queue);
    assert_int_equal(report.queues[0].bytes, report.pending_bytes);
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT)); /* as it advises */
    (void)take(pool, 40 * MIB, NULL);
}

/* Memory between live blocks of another pool cannot be given back. */
TEST(stranded_in_another_pool, "sim:" SIM) {
    enum { COUNT = 320, EACH = 20 }; /* of 100 KiB: one in EACH stays */
    vram_device *second;             /* another handle on the same memory */
    assert_ok(vram_device_open(rig->context, 0, &second));
    vram_pool *pool = pool_on(rig->device, "model", 0), *cache = pool_on(second, "cache", 0);
    vram_addr addrs[COUNT];
    (void)take_for(pool, 20 * MIB, "weights");
    for (int i = 0; i < COUNT; i++) {
        addrs[i] = take(cache, 100 * KIB, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % EACH != EACH / 2) {
            assert_ok(vram_free(addrs[i], NULL));
        }
    }
    refused(pool, 24 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    expect_report(pool, VRAM_OOM_STRANDED);
    vram_oom_report report = report_of(pool);
    assert_int_equal(report.pool_count, 1);
    assert_string_equal(report.pools[0].name, "cache");
    assert_ptr_equal(report.pools[0].pool, cache);
    assert_int_equal(report.pools[0].free_bytes, report.stranded_bytes);
    vram_device_close(second);
}

TEST(held_by_another_process, "sim:" SIM ",others=44M") {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    (void)take_for(pool, 8 * MIB, "weights");
    refused(pool, 20 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    expect_report(pool, VRAM_OOM_OTHERS);
    assert_int_equal(report_of(pool).others_bytes.value, 44 * MIB);
    assert_ok(vram_sim_others_set(rig->context, 0, 0));
    (void)take(pool, 20 * MIB, rig->queue);
}

TEST(larger_than_the_device, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    refused(pool, 80 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    expect_report(pool, VRAM_OOM_TOO_LARGE);
    assert_int_equal(report_of(pool).step_count, 1); /* only `fallback` could help */
    (void)take(pool, 60 * MIB, rig->queue);          /* less, as it advises */
}

TEST(refused_by_the_driver, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    fault(rig, VRAM_SIM_CREATE, 1, true, VRAM_SIM_OUT_OF_MEMORY);
    refused(pool, 8 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    expect_report(pool, VRAM_OOM_REFUSED);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
}

TEST(no_host_memory_left, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    (void)take_for(pool, 20 * MIB, "weights");
    vr_mem_fail_at(1, true);
    vram_addr addr = 0;
    vram_status status = vram_alloc(pool, 20 * MIB, NULL, &addr);
    vr_mem_fail_at(0, false);
    assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
    expect_report(pool, VRAM_OOM_HOST);
}

/* A tag of the tenant's runs into the tenant's quota; the device has plenty. */
TEST(quota_reached, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    assert_ok(vram_tag_quota_set(rig->device, "tenant", 0, 32 * MIB));
    (void)take_for(pool, 20 * MIB, "tenant/weights");
    (void)take_for(pool, 8 * MIB, "tenant/kv");
    vram_alloc_options options = {.size = sizeof options, .tag = "tenant/kv"};
    vram_addr addr = 0;
    assert_int_equal(vram_alloc_with(pool, 6 * MIB, rig->queue, &options, &addr), VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "the quota of tag \"tenant\""));
    expect_report(pool, VRAM_OOM_QUOTA);
    vram_oom_report report = report_of(pool);
    assert_string_equal(report.tag, "tenant/kv");
    assert_string_equal(report.quota_tag, "tenant");
    assert_int_equal(report.quota_bytes, 32 * MIB);
    assert_int_equal(report.quota_used_bytes, 28 * MIB);
    assert_int_equal(report.step_count, 0);
    options.flags = VRAM_ALLOC_CACHED_ONLY;
    assert_int_equal(vram_alloc_with(pool, 6 * MIB, rig->queue, &options, &addr), VRAM_ERR_LIMIT);
    assert_int_equal(report_of(pool).number, report.number); /* for cached memory alone: none */
    options.flags = 0;
    assert_ok(vram_tag_quota_set(rig->device, "tenant", 0, 34 * MIB)); /* as it advises */
    assert_ok(vram_alloc_with(pool, 6 * MIB, rig->queue, &options, &addr));
}

/* Freed memory that is pinned waits for no queue. */
TEST(pinned_is_not_pending, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    vram_addr addr = take(pool, 40 * MIB, rig->queue);
    assert_ok(vram_pin(addr));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    expect_report(pool, VRAM_OOM_PINNED);
    vram_oom_report report = report_of(pool);
    assert_int_equal(report.pending_bytes, 0);
    assert_int_equal(report.queue_count, 0);
    assert_int_equal(report.pinned_bytes, 40 * MIB);
    assert_ok(vram_unpin(addr)); /* as it advises */
    (void)take(pool, 40 * MIB, NULL);
}

/* A tag counts all below it, in every pool of the device and through every handle; what has nothing
   of its own beside one below it is left out. */
TEST(holders_nest, "sim:" SIM) {
    vram_device *second;
    assert_ok(vram_device_open(rig->context, 0, &second));
    vram_pool *pool = pool_on(rig->device, "model", 0), *other = pool_on(second, "other", 0);
    (void)take_for(pool, 8 * MIB, "a/x/1");
    (void)take_for(other, 6 * MIB, "a/x/2");
    (void)take_for(other, 4 * MIB, "a/y");
    (void)take_for(pool, 2 * MIB, "a");
    (void)take_for(pool, 10 * MIB, "b/only/one");
    vram_addr gone = take_for(pool, 2 * MIB, "c");
    (void)take(other, 12 * MIB, NULL);
    assert_ok(vram_free(gone, NULL));
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    vram_oom_report report = report_of(pool);
    static const struct {
        const char *tag;
        uint64_t bytes, blocks;
    } wanted[] = {{"a", 20 * MIB, 4},          {"a/x", 14 * MIB, 2},  {"", 12 * MIB, 1},
                  {"b/only/one", 10 * MIB, 1}, {"a/x/1", 8 * MIB, 1}, {"a/x/2", 6 * MIB, 1},
                  {"a/y", 4 * MIB, 1}};
    assert_int_equal(report.holder_count, sizeof wanted / sizeof wanted[0]);
    for (uint32_t i = 0; i < report.holder_count; i++) { /* the largest first */
        assert_string_equal(report.holders[i].tag, wanted[i].tag);
        assert_int_equal(report.holders[i].bytes, wanted[i].bytes);
        assert_int_equal(report.holders[i].blocks, wanted[i].blocks);
    }
    vram_device_close(second);
}

/* What the driver says of other processes is asked now and then, and counts more than what is left
   over. */
TEST(other_processes_are_told_apart, "sim:" SIM ",others=44M") {
    vram_pool *pool = pool_on(rig->device, "model", 0);
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    vram_oom_report report = report_of(pool);
    assert_int_equal(report.cause, VRAM_OOM_OTHERS);
    assert_true(report.processes_bytes.known);
    assert_int_equal(report.processes_bytes.value, 44 * MIB);
    assert_ok(vram_sim_others_set(rig->context, 0, 30 * MIB));
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(report_of(pool).others_bytes.value, 30 * MIB);
    assert_int_equal(report_of(pool).processes_bytes.value, 44 * MIB); /* of a moment ago */
    assert_ok(vram_sim_clock_advance(rig->context, 2 * SECOND));
    refused(pool, 40 * MIB, NULL, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(report_of(pool).processes_bytes.value, 30 * MIB);
}

/* ------------------------------------------------------------------ getting reports */

static void fill_text(char *text, size_t bytes) {
    memset(text, 'W', bytes - 1);
    text[bytes - 1] = '\0';
}

/* The most that a report can say is written whole. */
TEST(any_text_fits) {
    static vram_oom_report report;
    const uint64_t most = UINT64_C(1023) << 50;
    memset(&report, 0, sizeof report);
    report.size = sizeof report;
    report.number = 1;
    report.status = VRAM_ERR_DEVICE_MEMORY;
    fill_text(report.summary, sizeof report.summary);
    fill_text(report.advice, sizeof report.advice);
    fill_text(report.error, sizeof report.error);
    fill_text(report.pool_name, sizeof report.pool_name);
    fill_text(report.device_name, sizeof report.device_name);
    fill_text(report.tag, sizeof report.tag);
    fill_text(report.limit_name, sizeof report.limit_name);
    fill_text(report.quota_tag, sizeof report.quota_tag);
    report.asked_bytes = report.needed_bytes = report.alignment = UINT64_MAX;
    report.total_bytes = report.free_bytes = report.others_bytes = (vram_value){most, true};
    report.processes_bytes = report.limit_bytes = (vram_value){most, true};
    for (uint64_t *at = &report.reserved_bytes; at <= &report.stranded_bytes; at++) {
        *at = most;
    }
    report.process_bytes = report.quota_bytes = report.quota_used_bytes = most;
    report.queue_count = report.pool_count = report.holder_count = VRAM_OOM_LIST_MAX;
    for (int i = 0; i < VRAM_OOM_LIST_MAX; i++) {
        report.queues[i] = (vram_oom_queue){(vram_queue *)UINTPTR_MAX, most};
        fill_text(report.pools[i].name, sizeof report.pools[i].name);
        report.pools[i].reserved_bytes = report.pools[i].free_bytes = most;
        fill_text(report.holders[i].tag, sizeof report.holders[i].tag);
        report.holders[i].bytes = most;
        report.holders[i].blocks = UINT64_MAX;
    }
    report.step_count = VRAM_LADDER_STEPS;
    for (int i = 0; i < VRAM_LADDER_STEPS; i++) {
        report.steps[i] = (vram_oom_step){(vram_ladder_step)i, 9, most, 9};
    }
    const char *text = write_report(&report, VRAM_REPORT_TEXT);
    assert_in_range(strlen(text), 4096, 8191);
    for (size_t line = 0; *text; text += line + 1) {
        line = strcspn(text, "\n");
        assert_int_equal(text[line], '\n');
    }
    const char *document = write_report(&report, VRAM_REPORT_JSON);
    assert_true(json_check(document, strlen(document)));
}

/* What is under blocks and in no part of the pool's memory, or the other way around. */
enum odd_memory {
    PINNED_BUFFER,
    FALLBACK,
    FREED_FALLBACK,
    QUARANTINE,
    ASLEEP,
    FREED_ASLEEP,
    SEALED,
    SEALED_ASLEEP,
    KEPT_ASLEEP, /* the driver refuses to release it */
    ODD_MEMORY
};

static void make_odd(struct rig *rig, vram_pool *pool, enum odd_memory what) {
    vram_buffer_options pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    vram_sleep_options sleep = {.size = sizeof sleep, .tag = "odd"};
    vram_limits limits = {.size = sizeof limits, .cpu_fallback = VRAM_SWITCH_ON};
    vram_buffer *buffer;
    vram_addr odd[2] = {take_for(pool, 5 * MIB, "odd"), take_for(pool, 7 * MIB, "odd")};
    switch (what) {
    case PINNED_BUFFER:
        assert_ok(vram_buffer_create(pool, 12 * MIB, rig->queue, &pinned, &buffer));
        break;
    case FALLBACK:
    case FREED_FALLBACK:
        assert_ok(vram_pool_limits_set(pool, &limits));
        climb_by(pool, "fallback", VRAM_FALLBACK_PINNED);
        odd[0] = take(pool, 60 * MIB, rig->queue);
        limits.cpu_fallback = VRAM_SWITCH_OFF;
        assert_ok(vram_pool_limits_set(pool, &limits));
        if (what == FREED_FALLBACK) {
            assert_ok(vram_use(odd[0], rig->queue));
            assert_ok(vram_queue_fill(rig->queue, odd[1], 7, 1, 4 * KIB));
            assert_ok(vram_free(odd[0], NULL));
        }
        break;
    case QUARANTINE:
        /* A quota refuses before the quarantine is looked at. */
        assert_ok(vram_tag_quota_set(rig->device, "more", MIB, MIB));
        assert_ok(vram_free(odd[0], rig->queue));
        assert_true(stats_of(pool).quarantine_bytes >= 5 * MIB);
        break;
    case SEALED:
    case SEALED_ASLEEP:
        assert_ok(vram_pool_seal(pool, "odd"));
        assert_ok(vram_free(odd[0], rig->queue));
        if (what == SEALED) {
            break;
        } /* fall through */
    case ASLEEP:
    case FREED_ASLEEP:
    case KEPT_ASLEEP:
        fault(rig, VRAM_SIM_RELEASE, 2, what == KEPT_ASLEEP, 99);
        assert_ok(vram_pool_sleep(pool, &sleep));
        assert_ok(vram_sim_fault_set(rig->context, NULL));
        assert_true(stats_of(pool).asleep_bytes >= 2 * MIB);
        if (what != ASLEEP && what != SEALED_ASLEEP) {
            assert_ok(vram_free(odd[1], rig->queue));
        }
        break;
    case ODD_MEMORY:
        break;
    }
    climb_by(pool, "none", 0);
}

TEST(the_parts_are_the_whole) {
    for (int what = 0; what < ODD_MEMORY; what++) {
        struct rig rig = rig_make("sim", SIM ",lag=10000");
        vram_pool *pool = pool_on(rig.device, "model", what == QUARANTINE ? VRAM_POOL_POISON : 0);
        (void)take_for(pool, 3 * MIB + 512, "weights");
        make_odd(&rig, pool, (enum odd_memory)what);
        vram_alloc_options more = {.size = sizeof more, .tag = "more"};
        vram_addr addr;
        assert_true(
            vram_status_is_exhausted(vram_alloc_with(pool, 63 * MIB, rig.queue, &more, &addr)));
        vram_oom_report report = report_of(pool);
        assert_int_equal(report.pinned_bytes >= 5 * MIB, what == QUARANTINE || what >= SEALED);
        expect_sum(&report);
        assert_true(report.live_bytes >= 3 * MIB && report.live_bytes <= 20 * MIB);
        assert_int_equal(report.reserved_bytes, stats_of(pool).reserved_bytes);
        rig_end_clean(&rig);
    }
}
