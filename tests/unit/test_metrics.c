/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metrics.c: the metrics of a context are the figures of its pools, in both forms, whatever
 * the names of pools and tags.
 */
#include "core/live/page_rows.h"
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

static void figures_are_those_of_the_pool(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "a/b"};
    vram_addr addr;
    assert_ok(vram_tag_quota_set(rig.device, "a", 0, 32 * MIB));
    assert_ok(vram_alloc_with(pool, 3 * MIB, rig.queue, &tagged, &addr));
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_free(take(pool, 40 * KIB, rig.queue), rig.queue));
    }
    refused(pool, 65 * MIB, rig.queue, VRAM_ERR_DEVICE_MEMORY);
    vram_pool_stats stats = stats_of(pool);
    const char *text = metrics_of(rig.context, VRAM_METRICS_OPENMETRICS);
    char pid[24], labels[128], line[256];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_describe(rig.device, &info));
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
    assert_ok(vram_free(addr, rig.queue));
    rig_end_clean(&rig);
}

/* A pool's limit is shown with it. */
static void limits_are_shown(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 24 * MIB};
    vram_pool_options options = {.size = sizeof options, .name = "bounded", .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(rig.device, &options, &pool));
    assert_ok(vram_free(take(pool, MIB, rig.queue), rig.queue));
    const char *text = metrics_of(rig.context, VRAM_METRICS_PROMETHEUS);
    assert_true(sample(text, "vram_pool_limit_bytes{") == 24.0 * MIB);
    rig_end_clean(&rig);
}

static void count_thread(struct vr_thread_state *thread, void *user) {
    (void)thread;
    ++*(unsigned *)user;
}

/* Threads that are in no call are visited without waiting. */
static void idle_threads_are_visited(void **state) {
    unsigned threads = 0;
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    vram_pool *pool = pool_on(rig.device, "main", 0);
    assert_ok(vram_free(take(pool, 4 * KIB, rig.queue), rig.queue));
    assert_true(vr_thread_visit_idle(count_thread, &threads));
    assert_true(threads >= 1);
    rig_end_clean(&rig);
}

/* The other form differs in its heads alone. */
static void both_forms_have_the_same_samples(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    pool_on(rig.device, "main", 0);
    static char open[sizeof said.text];
    strcpy(open, metrics_of(rig.context, VRAM_METRICS_OPENMETRICS));
    const char *plain = metrics_of(rig.context, VRAM_METRICS_PROMETHEUS);
    assert_non_null(strstr(open, "# TYPE vram_pool_allocations counter\n"));
    assert_non_null(strstr(plain, "# TYPE vram_pool_allocations_total counter\n"));
    assert_non_null(strstr(open, "# TYPE vram_pool_pressure stateset\n"));
    assert_non_null(strstr(plain, "# TYPE vram_pool_pressure gauge\n"));
    assert_non_null(strstr(open, "# UNIT vram_pool_held_bytes bytes\n"));
    assert_null(strstr(plain, "# UNIT"));
    assert_null(strstr(plain, "# EOF"));
    assert_int_equal(times(open, "\nvram_"), times(plain, "\nvram_"));
    rig_end_clean(&rig);
}

static void names_are_escaped_and_told_apart(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    pool_on(rig.device, "a\"b\\c\nd\xff", 0);
    pool_on(rig.device, "same", 0);
    pool_on(rig.device, "same", 0);
    const char *text = metrics_of(rig.context, VRAM_METRICS_OPENMETRICS);
    assert_non_null(strstr(text, "pool=\"a\\\"b\\\\c?d?\""));
    /* five families' worth at least, and each line once */
    assert_int_equal(times(text, "pool=\"same\"} "), times(text, "pool=\"same#2\"} "));
    assert_true(times(text, "pool=\"same#2\"} ") > 10);
    rig_end_clean(&rig);
}

/* More pools than become labels: the largest do, and the sum has all of them. */
static void labels_are_bounded(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,granule=64K");
    for (int i = 0; i < 80; i++) {
        pool_on(rig.device, "many", 0);
    }
    for (int i = 0; i < 100; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "tag%d", i);
        assert_ok(vram_tag_quota_set(rig.device, tag, 0, MIB));
    }
    const char *text = metrics_of(rig.context, VRAM_METRICS_PROMETHEUS);
    assert_int_equal(times(text, "\nvram_pool_held_bytes{"), VRAM_LIVE_PAGE_POOLS);
    assert_int_equal(times(text, "\nvram_tag_used_bytes{"), VRAM_LIVE_PAGE_TAGS);
    assert_true(sample(text, "vram_process_pools{") == 80);
    rig_end_clean(&rig);
}

/* More tags than become labels, in use by different amounts: the largest do, each with its own. */
static void the_largest_tags_are_named(void **state) {
    (void)state;
    enum { TAGS = VRAM_LIVE_PAGE_TAGS + 6 };
    struct rig rig = rig_make("sim", "memory=256M,granule=64K");
    vram_pool *pool = pool_on(rig.device, "main", 0);
    vram_addr blocks[TAGS];
    char tag[32];
    for (int i = 0; i < TAGS; i++) {
        int size = i * 13 % TAGS; /* neither in rising nor in falling order */
        vram_alloc_options options = {.size = sizeof options, .tag = tag};
        snprintf(tag, sizeof tag, "t%d", size);
        assert_ok(vram_alloc_with(pool, (size + 1) * 4 * KIB, rig.queue, &options, &blocks[i]));
    }
    const char *text = metrics_of(rig.context, VRAM_METRICS_PROMETHEUS);
    const char *family = strstr(text, "\nvram_tag_used_bytes{");
    assert_non_null(family);
    for (int size = 0; size < TAGS; size++) {
        char line[64];
        snprintf(line, sizeof line, ",tag=\"t%d\"} %llu\n", size, (size + 1) * 4ull * 1024);
        assert_int_equal(strstr(family, line) != NULL, size >= TAGS - VRAM_LIVE_PAGE_TAGS);
    }
    for (int i = 0; i < TAGS; i++) {
        assert_ok(vram_free(blocks[i], rig.queue));
    }
    rig_end_clean(&rig);
}

static void bad_calls_are_refused(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", SIM);
    pool_on(rig.device, "main", 0);
    said.bytes = 0;
    said.room = 5000;
    assert_int_equal(vram_metrics_write(rig.context, say, NULL), VRAM_ERR_IO);
    assert_int_equal(vram_metrics_write(rig.context, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_metrics_write(NULL, say, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_metrics_write_as(rig.context, (vram_metrics_format)2, say, NULL),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_metrics_write_as(rig.context, VRAM_METRICS_PROMETHEUS, NULL, NULL),
                     VRAM_ERR_INVALID);
    vr_mem_fail_at(1, false);
    assert_int_equal(vram_metrics_write(rig.context, say, NULL), VRAM_ERR_HOST_MEMORY);
    vr_mem_fail_at(0, false);
    vram_error_clear();
    rig_end_clean(&rig);
    assert_int_equal(vram_metrics_write(rig.context, say, NULL), VRAM_ERR_STALE);
    vram_error_clear();
}

static void pages_are_checked(void **state) {
    (void)state;
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

/* Rows of a page stay in their tables: behind the tags lie the refusals, which nobody has written
   yet. */
static void tags_stay_in_their_table(void **state) {
    (void)state;
    struct rig rig = rig_make("sim", "memory=256M,granule=64K");
    struct vr_context *context = vr_handle_pin(VR_KIND_CONTEXT, rig.context);
    struct vr_page_rows *rows = calloc(1, sizeof *rows);
    vram_live_page_refusal marks[VRAM_LIVE_PAGE_REFUSALS];
    assert_true(context && rows);
    pool_on(rig.device, "main", 0);
    for (int i = 0; i < 2 * VRAM_LIVE_PAGE_TAGS; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "tag%d", i);
        assert_ok(vram_tag_quota_set(rig.device, tag, 0, MIB));
    }
    memset(marks, 0x5a, sizeof marks);
    memcpy(rows->image.refusals, marks, sizeof marks);
    vr_page_rows_begin(rows, 1);
    vr_page_rows_add(rows, context);
    assert_int_equal(rows->image.head.tags.count, VRAM_LIVE_PAGE_TAGS);
    assert_memory_equal(rows->image.refusals, marks, sizeof marks);
    vr_page_rows_end(rows);
    free(rows);
    vr_leave(context);
    rig_end_clean(&rig);
}

/* As many pools are known as fit: what lies behind them is not theirs. */
static void known_pools_stay_in_their_table(void **state) {
    (void)state;
    struct vr_page_rows *rows = calloc(1, sizeof *rows);
    struct vr_page_walk walk;
    assert_non_null(rows);
    for (uint64_t i = 0; i < VR_PAGE_POOLS_KNOWN; i++) {
        rows->known[i].handle = i + 1; /* no pool's */
    }
    rows->known_count = VR_PAGE_POOLS_KNOWN;
    rows->rate = (struct vr_page_rate){1, 2, 3, 4, 5};
    memset(&walk, 0x5a, sizeof walk);
    rows->walk = walk;
    vr_page_rows_begin(rows, 1);
    assert_memory_equal(&rows->rate, &((struct vr_page_rate){1, 2, 3, 4, 5}), sizeof rows->rate);
    assert_memory_equal(&rows->walk, &walk, sizeof walk);
    free(rows);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(figures_are_those_of_the_pool),
        HERE(limits_are_shown),
        HERE(idle_threads_are_visited),
        HERE(both_forms_have_the_same_samples),
        HERE(names_are_escaped_and_told_apart),
        HERE(labels_are_bounded),
        HERE(the_largest_tags_are_named),
        HERE(tags_stay_in_their_table),
        HERE(known_pools_stay_in_their_table),
        HERE(bad_calls_are_refused),
        HERE(pages_are_checked),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
