/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metrics.c: the metrics of a context are the figures of its pools, in both forms, whatever
 * the names of pools and tags.
 */
#include "unit/ladder_world.h"
#include "vram/limits.h"
#include "vram/metrics.h"
#include "vram/stats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
#define CAUSE(NAME, value, name, text) +1
    CAUSES = 0 VRAM_OOM_CAUSE_MAP(CAUSE) /* how many there are */
#undef CAUSE
};

static struct {
    char text[1 << 18];
    size_t bytes, room;
} said;

static bool say(void *user, const char *text, size_t bytes) {
    (void)user;
    if (bytes > said.room - said.bytes) {
        return false;
    }
    memcpy(said.text + said.bytes, text, bytes);
    said.bytes += bytes;
    said.text[said.bytes] = 0;
    return true;
}

static const char *metrics_of(vram_context *context, vram_metrics_format format) {
    said.bytes = 0;
    said.room = sizeof said.text - 1;
    assert_ok(vram_metrics_write_as(context, format, say, NULL));
    return said.text;
}

static unsigned times(const char *text, const char *part) {
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) {
        count++;
    }
    return count;
}

/* The value of the only sample whose line begins so. */
static double sample(const char *text, const char *begin) {
    char line[256];
    snprintf(line, sizeof line, "\n%s", begin);
    assert_int_equal(times(text, line), 1);
    const char *end = strchr(strstr(text, line) + 1, '\n');
    while (end[-1] != ' ') {
        end--;
    }
    return strtod(end, NULL);
}

TEST(figures_are_those_of_the_pool, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "a/b"};
    vram_addr addr;
    assert_ok(vram_tag_quota_set(rig->device, "a", 0, 32 * MIB));
    assert_ok(vram_alloc_with(pool, 3 * MIB, rig->queue, &tagged, &addr));
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_free(take(pool, 40 * KIB, rig->queue), rig->queue));
    }
    refused(pool, 65 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    vram_pool_stats stats = stats_of(pool);
    const char *text = metrics_of(rig->context, VRAM_METRICS_OPENMETRICS);
    char pid[24], labels[128], line[256];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_describe(rig->device, &info));
    assert_non_null(strstr(text, "vram_device_info{device=\"sim:0\",uuid=\""));
#define POOL(name)                                                                                 \
    (snprintf(line, sizeof line, "vram_pool_" name "{device=\"sim:0\",uuid=\""), line)
    assert_true(sample(text, POOL("held_bytes")) == (double)stats.reserved_bytes);
    assert_true(sample(text, POOL("live_bytes")) == 3.0 * MIB);
    assert_true(sample(text, POOL("allocations_total")) == 6);
    assert_true(sample(text, POOL("frees_total")) == 5);
    assert_true(sample(text, POOL("hits_total")) == (double)stats.hits);
    assert_true(sample(text, POOL("live_blocks")) == 1);
    snprintf(labels, sizeof labels, "pid=\"%s\",pool=\"main\",cause=\"memory\"} 1\n", pid);
    assert_int_equal(times(text, labels), 1);
    snprintf(labels, sizeof labels, "pid=\"%s\",pool=\"main\",vram_pool_pressure=\"low\"} 1\n",
             pid);
    assert_int_equal(times(text, labels), 1);
    snprintf(labels, sizeof labels, "pid=\"%s\",tag=\"a/b\"} ", pid);
    assert_non_null(strstr(text, labels));
    snprintf(labels, sizeof labels, "pid=\"%s\",tag=\"a\"} %llu\n", pid, 32ull * MIB);
    assert_non_null(strstr(text, labels)); /* its hard quota */
    assert_int_equal(times(text, "\nvram_process_refusals_total{"), CAUSES);
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    assert_ok(vram_free(addr, rig->queue));
}

/* A pool's limit is shown with it. */
TEST(limits_are_shown, "sim:" SIM) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 24 * MIB};
    vram_pool_options options = {.size = sizeof options, .name = "bounded", .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    assert_ok(vram_free(take(pool, MIB, rig->queue), rig->queue));
    const char *text = metrics_of(rig->context, VRAM_METRICS_PROMETHEUS);
    assert_true(sample(text, "vram_pool_limit_bytes{") == 24.0 * MIB);
}

/* The other form differs in its heads alone. */
TEST(both_forms_have_the_same_samples, "sim:" SIM) {
    pool_on(rig->device, "main", 0);
    static char open[sizeof said.text];
    strcpy(open, metrics_of(rig->context, VRAM_METRICS_OPENMETRICS));
    const char *plain = metrics_of(rig->context, VRAM_METRICS_PROMETHEUS);
    assert_non_null(strstr(open, "# TYPE vram_pool_allocations counter\n"));
    assert_non_null(strstr(plain, "# TYPE vram_pool_allocations_total counter\n"));
    assert_non_null(strstr(open, "# TYPE vram_pool_pressure stateset\n"));
    assert_non_null(strstr(plain, "# TYPE vram_pool_pressure gauge\n"));
    assert_non_null(strstr(open, "# UNIT vram_pool_held_bytes bytes\n"));
    assert_null(strstr(plain, "# UNIT"));
    assert_null(strstr(plain, "# EOF"));
    assert_int_equal(times(open, "\nvram_"), times(plain, "\nvram_"));
}

TEST(names_are_escaped_and_told_apart, "sim:" SIM) {
    pool_on(rig->device, "a\"b\\c\nd\xff", 0);
    pool_on(rig->device, "same", 0);
    pool_on(rig->device, "same", 0);
    const char *text = metrics_of(rig->context, VRAM_METRICS_OPENMETRICS);
    assert_non_null(strstr(text, "pool=\"a\\\"b\\\\c?d?\""));
    /* five families' worth at least, and each line once */
    assert_int_equal(times(text, "pool=\"same\"} "), times(text, "pool=\"same#2\"} "));
    assert_true(times(text, "pool=\"same#2\"} ") > 10);
}

/* More pools than become labels: the largest do, and the sum has all of them. */
TEST(labels_are_bounded, "sim:memory=256M,granule=64K") {
    for (int i = 0; i < 80; i++) {
        pool_on(rig->device, "many", 0);
    }
    for (int i = 0; i < 100; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "tag%d", i);
        assert_ok(vram_tag_quota_set(rig->device, tag, 0, MIB));
    }
    const char *text = metrics_of(rig->context, VRAM_METRICS_PROMETHEUS);
    assert_int_equal(times(text, "\nvram_pool_held_bytes{"), VRAM_LIVE_PAGE_POOLS);
    assert_int_equal(times(text, "\nvram_tag_used_bytes{"), VRAM_LIVE_PAGE_TAGS);
    assert_true(sample(text, "vram_process_pools{") == 80);
}

/* More tags than become labels, in use by different amounts: the largest do, each with its own. */
TEST(the_largest_tags_are_named, "sim:memory=256M,granule=64K") {
    enum { TAGS = VRAM_LIVE_PAGE_TAGS + 6 };
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_addr blocks[TAGS];
    char tag[32];
    for (int i = 0; i < TAGS; i++) {
        int size = i * 13 % TAGS; /* neither in rising nor in falling order */
        vram_alloc_options options = {.size = sizeof options, .tag = tag};
        snprintf(tag, sizeof tag, "t%d", size);
        assert_ok(vram_alloc_with(pool, (size + 1) * 4 * KIB, rig->queue, &options, &blocks[i]));
    }
    const char *text = metrics_of(rig->context, VRAM_METRICS_PROMETHEUS);
    const char *family = strstr(text, "\nvram_tag_used_bytes{");
    assert_non_null(family);
    for (int size = 0; size < TAGS; size++) {
        char line[64];
        snprintf(line, sizeof line, ",tag=\"t%d\"} %llu\n", size, (size + 1) * 4ull * 1024);
        assert_int_equal(strstr(family, line) != NULL, size >= TAGS - VRAM_LIVE_PAGE_TAGS);
    }
    for (int i = 0; i < TAGS; i++) {
        assert_ok(vram_free(blocks[i], rig->queue));
    }
}

TEST(pages_are_checked) {
    vram_live_page page = {.pid = 7};
    vram_metrics_source source = {.size = sizeof source, .page = &page};
    const vram_metrics_source *list[] = {&source};
    said.bytes = 0;
    said.room = sizeof said.text - 1;
    assert_ok(vram_metrics_pages_write(NULL, 0, VRAM_METRICS_OPENMETRICS, say, NULL));
    assert_int_equal(times(said.text, "\nvram_"), 0);
    assert_ok(vram_metrics_pages_write(list, 1, VRAM_METRICS_OPENMETRICS, say, NULL));
    assert_int_equal(vram_metrics_pages_write(NULL, 1, VRAM_METRICS_OPENMETRICS, say, NULL),
                     VRAM_ERR_INVALID);
    page.pools = (vram_live_page_table){.stride = sizeof(vram_live_page_pool), .count = 1};
    assert_int_equal(vram_metrics_pages_write(list, 1, VRAM_METRICS_OPENMETRICS, say, NULL),
                     VRAM_ERR_INVALID);
    vram_live_page_pool pool = {.name = "p", .device = UINT32_MAX};
    source.pools = &pool;
    page.pools.stride = 8;
    assert_int_equal(vram_metrics_pages_write(list, 1, VRAM_METRICS_OPENMETRICS, say, NULL),
                     VRAM_ERR_INVALID);
    page.pools.stride = sizeof pool;
    pool.counts.limit_bytes = VRAM_LIVE_PAGE_UNKNOWN;
    said.bytes = 0;
    assert_ok(vram_metrics_pages_write(list, 1, VRAM_METRICS_OPENMETRICS, say, NULL));
    assert_non_null(
        strstr(said.text, "vram_pool_held_bytes{device=\"\",uuid=\"\",pid=\"7\",pool=\"p\"} 0\n"));
    assert_null(strstr(said.text, "\nvram_pool_limit_bytes{"));
    source.size = 8;
    assert_int_equal(vram_metrics_pages_write(list, 1, VRAM_METRICS_OPENMETRICS, say, NULL),
                     VRAM_ERR_INVALID);
    vram_error_clear();
}
