/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stats_write.c: the counters of pools, devices and contexts as text and as JSON: what they
 * say is what vram_X_stats_get says.
 */
#include "unit/json_check.h"
#include "unit/ladder_world.h"
#include "unit/report_text.h"
#include "vram/stats.h"

static struct report_text report;

static const char *fresh_text(void) {
    report = (struct report_text){.bytes = 0};
    return report.text;
}

/* The number behind `key` in a JSON document that has it once. */
static uint64_t number_of(const char *document, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(document, quoted);
    assert_non_null(at);
    assert_null(strstr(at + 1, quoted));
    return strtoull(at + strlen(quoted), NULL, 10);
}

/* A pool that has allocated, freed, been refused and slept. */
static vram_pool *used_pool(struct rig *rig) {
    vram_pool *pool = pool_on(rig->device, "main \"1\"", 0);
    vram_addr kept = take(pool, 3 * MIB + 7, rig->queue);
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_free(take(pool, 40 * KIB, rig->queue), rig->queue));
    }
    refused(pool, 65 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    vram_error_clear();
    assert_ok(vram_pool_sleep(pool, NULL));
    assert_ok(vram_pool_wake(pool, NULL));
    (void)kept;
    return pool;
}

static void expect_json(const char *document, const char *of, const vram_pool_stats *stats) {
    char quoted[64];
    assert_true(json_check(document, strlen(document)));
    assert_non_null(strstr(document, "\"schema\": \"vram.stats/1\""));
    snprintf(quoted, sizeof quoted, "\"of\": \"%s\"", of);
    assert_non_null(strstr(document, quoted));
    assert_int_equal(number_of(document, "requested_bytes"), stats->requested_bytes);
    assert_int_equal(number_of(document, "reserved_bytes"), stats->reserved_bytes);
    assert_int_equal(number_of(document, "peak_reserved_bytes"), stats->peak_reserved_bytes);
    assert_int_equal(number_of(document, "allocs"), stats->allocs);
    assert_int_equal(number_of(document, "hits"), stats->hits);
    assert_int_equal(number_of(document, "live_blocks"), 1);
    assert_int_equal(number_of(document, "refusals"), 1);
    assert_int_equal(number_of(document, "sleeps"), 1);
    assert_int_equal(number_of(document, "ladder_runs"), stats->ladder_runs);
    assert_int_equal(number_of(document, "unchecked_blocks"), 0);
}

/* Each of the three, as JSON. */
TEST(json_has_every_counter, "sim:" SIM) {
    vram_pool *pool = used_pool(rig);
    vram_pool_stats stats = stats_of(pool);
    assert_ok(
        vram_pool_stats_write(pool, VRAM_REPORT_JSON, report_text_take, (fresh_text(), &report)));
    expect_json(report.text, "pool", &stats);
    assert_non_null(strstr(report.text, "\"name\": \"main \\\"1\\\"\""));
    assert_non_null(strstr(report.text, "\"level\": \"low\""));
    report_text_give("stats_pool", report.text);

    assert_ok(vram_device_stats_get(rig->device, &stats));
    assert_ok(vram_device_stats_write(rig->device, VRAM_REPORT_JSON, report_text_take,
                                      (fresh_text(), &report)));
    expect_json(report.text, "device", &stats);
    report_text_give("stats_device", report.text);

    assert_ok(vram_context_stats_get(rig->context, &stats));
    assert_ok(vram_context_stats_write(rig->context, VRAM_REPORT_JSON, report_text_take,
                                       (fresh_text(), &report)));
    expect_json(report.text, "context", &stats);
    assert_non_null(strstr(report.text, "\"pressure\": null"));
    report_text_give("stats_context", report.text);
}

TEST(text_has_a_line_each, "sim:" SIM) {
    vram_pool *pool = used_pool(rig);
    vram_pool_stats stats = stats_of(pool);
    char line[80];
    assert_ok(
        vram_pool_stats_write(pool, VRAM_REPORT_TEXT, report_text_take, (fresh_text(), &report)));
    assert_int_equal(strncmp(report.text, "pool \"main \"1\"\"\n", 16), 0);
    snprintf(line, sizeof line, "\n  reserved_bytes: %llu\n",
             (unsigned long long)stats.reserved_bytes);
    assert_non_null(strstr(report.text, line));
    snprintf(line, sizeof line, "\n  ladder_steps.trim: %llu\n",
             (unsigned long long)stats.ladder_steps[VRAM_LADDER_TRIM]);
    assert_non_null(strstr(report.text, line));
    assert_non_null(strstr(report.text, "\n  response_steps.halve: 0\n"));
    assert_non_null(strstr(report.text, "\n  pressure: low\n"));
}
