/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_leaks.c: reports of what was never freed: every leak with its tag and site, nothing else,
 * and nothing at all unless somebody asks.
 */
#include "core/object/pool_object.h"
#include "track/suppress.h"
#include "unit/child.h"
#include "unit/json_check.h"
#include "unit/report_text.h"
#include "unit/track_world.h"
#include "vram/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static int begin(void) {
    snprintf(path, sizeof path, "/tmp/vram-leaks-%d", (int)getpid());
    unlink(path);
    return start();
}

static int clean(void) {
    unlink(path);
    return track_clean();
}

/* The last report, and what it sums up. */
static char text[1 << 20];
static size_t text_bytes;
static vram_leak_summary summary;

static bool put(void *unused, const char *more, size_t bytes) {
    (void)unused;
    if (bytes >= sizeof text - text_bytes) {
        return false;
    }
    memcpy(text + text_bytes, more, bytes);
    text_bytes += bytes;
    text[text_bytes] = 0;
    return true;
}

static vram_status report(vram_live_query query, vram_report_format format) {
    query.size = sizeof query;
    summary = (vram_leak_summary){.size = sizeof summary};
    text_bytes = 0;
    return vram_leaks_write(&query, format, put, NULL, &summary);
}

static uint64_t times(const char *part) {
    uint64_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        count++;
    }
    return count;
}

/* What the file has in it; nothing, if there is none. */
static void read_file(void) {
    FILE *file = fopen(path, "r");
    text_bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[text_bytes] = 0;
    if (file) {
        fclose(file);
    }
}

static void write_file(const char *lines) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(lines, file);
    fclose(file);
}

/* Warnings of leaks. */
static unsigned warnings;
static char warning[512];

static void keep_warning(void *user, vram_log_level level, const char *line) {
    (void)user;
    if (level == VRAM_LOG_WARN && strstr(line, "never freed")) {
        warnings++;
        snprintf(warning, sizeof warning, "%s", line);
    }
}

/* ------------------------------------------------------------------- planted */

enum { LEAKS = 1000 };

__attribute__((noinline)) static vram_addr forget_one(vram_pool *pool, int i, vram_queue *queue) {
    char tag[32], name[32];
    snprintf(tag, sizeof tag, "leak/%d", i % 10);
    snprintf(name, sizeof name, "planted %d.", i);
    return take(pool, 1 + (uint64_t)i, tag, name, queue);
}

/* Every line of a block is that of a planted one, with its address and size; each is there once. */
static void find_planted(const vram_addr *planted) {
    static bool found[LEAKS];
    unsigned long long id, addr, bytes;
    uint32_t count = 0;
    memset(found, 0, sizeof found);
    for (const char *at = text; (at = strstr(at, "\n    #")); at++) {
        assert_int_equal(sscanf(at, "\n    #%llu at 0x%llx: %llu bytes", &id, &addr, &bytes), 3);
        assert_true(bytes >= 1 && bytes <= LEAKS);
        assert_int_equal(planted[bytes - 1], addr);
        assert_false(found[bytes - 1]);
        found[bytes - 1] = true;
        count++;
    }
    assert_int_equal(count, LEAKS);
}

/* A thousand blocks are forgotten among as many that come, go and are resized. */
TEST(every_planted_leak_is_named, "sim:memory=1G") {
    assert_ok(vram_option_set("track_stacks", "1"));
    vram_pool *pool = pool_make(rig->device, "pool");
    static vram_addr planted[LEAKS];
    for (int i = 0; i < LEAKS; i++) {
        vram_addr other = take(pool, 700, "innocent", "innocent", rig->queue);
        planted[i] = forget_one(pool, i, rig->queue);
        (void)vram_resize(other, 40 * KIB, rig->queue);
        assert_ok(vram_free(other, rig->queue));
    }
    const vram_live_query query = {.size = sizeof query, .pool = pool};
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_int_equal(summary.blocks, LEAKS);
    assert_int_equal(summary.bytes, LEAKS * (LEAKS + 1) / 2);
    assert_int_equal(summary.groups, 10);
    assert_int_equal(summary.lost_records, 0);
    assert_non_null(strstr(text, "500500 bytes in 1000 blocks were never freed"));
    assert_null(strstr(text, "innocent"));
    assert_int_equal(times("planted "), LEAKS);
    assert_int_equal(times("tag \"leak/"), 10);
    assert_true(times("    at ") >= 10);   /* each group has its site */
    assert_non_null(strstr(text, "unit")); /* the program, or its folder */
    find_planted(planted);
    assert_ok(report(query, VRAM_REPORT_JSON));
    assert_true(json_check(text, strlen(text)));
    assert_int_equal(times("\"planted "), LEAKS);
    assert_non_null(strstr(text, "\"schema\": \"vram.leaks/1\""));
    report_text_give("leaks", text);
    for (int i = 0; i < LEAKS; i++) {
        assert_ok(vram_free(planted[i], rig->queue));
    }
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_int_equal(summary.blocks, 0);
    assert_int_equal(times("\n"), 1);
}

/* A block that was resized, in place or not, is one leak of its present size. */
TEST(a_resize_leaves_no_phantom, "sim:memory=1G") {
    vram_pool *pool = pool_make(rig->device, "pool");
    const vram_live_query query = {.size = sizeof query, .pool = pool};
    vram_addr addr = take(pool, MIB, "t", NULL, rig->queue);
    assert_ok(vram_resize(addr, 3 * MIB + 7, rig->queue));
    assert_ok(vram_resize(addr, 2 * MIB + 5, rig->queue));
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_int_equal(summary.blocks, 1);
    assert_int_equal(summary.bytes, 2 * MIB + 5);
    vram_live_stats stats = {.size = sizeof stats};
    assert_ok(vram_live_stats_get(&query, &stats));
    assert_int_equal(stats.peak_bytes, 3 * MIB + 7);
    assert_int_equal(stats.resizes, 2);
    assert_int_equal(stats.held_bytes % 512, 0);
    vram_live_block block = {.size = sizeof block};
    assert_ok(vram_live_get(addr, &block));
    assert_int_equal(block.requested_bytes, 2 * MIB + 5);
    assert_int_equal(block.held_bytes, stats.held_bytes);
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_live_stats_get(&query, &stats));
    assert_int_equal(stats.live_bytes + stats.held_bytes + stats.live_blocks, 0);
}

/* Names and tags may hold anything; what is printed is one line each. */
TEST(names_are_cleaned_where_they_are_printed, "sim:memory=1G") {
    vram_pool *pool = pool_make(rig->device, "pool");
    const vram_live_query query = {.size = sizeof query, .pool = pool};
    vram_addr addr = take(pool, 10, NULL, "a\n\x1b[31mb\xff\"", rig->queue);
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "a??[31mb?"));
    assert_ok(report(query, VRAM_REPORT_JSON));
    assert_true(json_check(text, strlen(text)));
    assert_ok(vram_free(addr, rig->queue));
}

/* --------------------------------------------------------------- suppressions */

/* A long name is gone through once for each star, not once from each of its bytes. */
TEST(long_names_take_no_longer) {
    enum { BYTES = 1 << 18 };
    memset(text, 'a', BYTES);
    text[BYTES] = 0;
    uint64_t begin = vr_os_now();
    assert_false(vr_suppress_matches("a*b", 3, text));
    assert_false(vr_suppress_matches("a*a*b$", 6, text));
    assert_true(vr_suppress_matches("a*a$", 4, text));
    assert_true(vr_os_now() - begin < UINT64_C(1000000000)); /* it was over a minute */
}

/* The last line of a file counts, also of one that is longer than files usually are; the error from
   before stays when it is read in the second try. */
TEST(long_files_are_read_whole) {
    enum { COMMENT = 20000, MOST = 1 << 20 };
    static char lines[MOST + 1];
    struct vr_suppressions read;
    memset(lines, '#', COMMENT);
    strcpy(lines + COMMENT, "\nleak:^last$\n");
    write_file(lines);
    vr_error_clear();
    assert_ok(vr_suppressions_read(path, &read));
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_true(vr_suppressed(&read, "last"));
    assert_int_equal(read.bad_lines, 0);
    vr_suppressions_free(&read);
    memset(lines, '#', MOST);
    write_file(lines);
    assert_int_equal(vr_suppressions_read(path, &read), VRAM_ERR_LIMIT);
}

TEST(suppressed_leaks_are_counted_apart, "sim:memory=1G") {
    vram_pool *pool = pool_make(rig->device, "pool");
    take(pool, 100, "known/cache", "x", rig->queue);
    take(pool, 200, "model", "y", rig->queue);
    write_file("\xef\xbb\xbf \tleak:^known/*  \r\n# what we know of\n\nleak: \r\nnonsense\n");
    assert_ok(vram_option_set("leak_suppressions", path));
    const vram_live_query query = {.size = sizeof query, .device = rig->device};
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_int_equal(summary.blocks, 1);
    assert_int_equal(summary.bytes, 200);
    assert_int_equal(summary.suppressed_blocks, 1);
    assert_int_equal(summary.suppressed_bytes, 100);
    assert_null(strstr(text, "known/cache"));
    assert_non_null(strstr(text, "suppressed: 100 bytes in 1 block\n"));
    assert_ok(vram_option_set("leak_suppressions", "/nonexistent/file"));
    assert_int_equal(report(query, VRAM_REPORT_TEXT), VRAM_ERR_IO);
    assert_ok(vram_option_set("leak_suppressions", ""));
}

/* A function of the stack, or the module it is in. */
TEST(functions_suppress_too) {
    assert_ok(vram_option_set("track_stacks", "1"));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "pool");
    assert_ok(vram_alloc(pool, 100, rig.queue, &(vram_addr){0}));
    write_file("leak:unit\n");
    assert_ok(vram_option_set("leak_suppressions", path));
    const vram_live_query query = {.size = sizeof query, .pool = pool};
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_int_equal(summary.suppressed_blocks, 1);
    assert_int_equal(summary.blocks, 0);
    vram_context_destroy(rig.context);
}

/* What is suppressed is in neither report, foreign memory as well; groups of one size are both
   there; what was lost is said. */
TEST(reports_of_all_kinds) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "pool");
    vram_foreign_options named = {.size = sizeof named, .tag = "known/lib"};
    const vram_live_query query = {.size = sizeof query, .device = rig.device};
    uint64_t id;
    take(pool, 100, "first", NULL, rig.queue);
    take(pool, 100, "second", NULL, rig.queue);
    take(pool, 300, "known/cache", NULL, rig.queue);
    assert_ok(vram_foreign_track(rig.device, 1234, &named, &id));
    vr_mem_fail_at(1, true); /* a new tag's record */
    vram_alloc_options options = {.size = sizeof options, .tag = "lost"};
    (void)vram_alloc_with(pool, 700, rig.queue, &options, &(vram_addr){0});
    vr_mem_fail_at(0, false);
    write_file("leak:^known/*\nnonsense\n");
    assert_ok(vram_option_set("leak_suppressions", path));
    for (int json = 0; json < 2; json++) {
        assert_ok(report(query, json ? VRAM_REPORT_JSON : VRAM_REPORT_TEXT));
        assert_int_equal(summary.suppressed_blocks, 2);
        assert_int_equal(summary.foreign_blocks, 0);
        assert_null(strstr(text, "known/"));
        assert_non_null(strstr(text, "\"first\""));
        assert_non_null(strstr(text, "\"second\""));
    }
    vram_log_set(keep_warning, NULL, VRAM_LOG_WARN);
    vram_context_destroy(rig.context); /* warns about the line without a pattern */
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    assert_ok(vram_option_set("leak_suppressions", ""));
}

/* ------------------------------------------------------------------------ ends */

/* A pool that ends with live blocks, by itself, with its device or with its context. */
TEST(ends_are_reported) {
    for (int way = 0; way < 3; way++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(rig.device, "mine");
        vram_pool *empty = pool_make(rig.device, "empty");
        assert_ok(vram_option_set("leaks", way == 1 ? "json" : "text"));
        assert_ok(vram_option_set("leak_file", path));
        warnings = 0;
        vram_log_set(keep_warning, NULL, VRAM_LOG_WARN);
        assert_ok(vram_free(take(empty, 50, NULL, NULL, rig.queue), rig.queue));
        take(pool, 1234, "tenant/x", "lost", rig.queue);
        if (way == 0) {
            assert_ok(vram_pool_destroy(pool));
        } else if (way == 1) {
            vram_device_close(rig.device);
        }
        vram_context_destroy(rig.context);
        vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
        read_file();
        assert_int_equal(warnings, 1);
        assert_int_equal(times("lost"), way == 1 ? 2 : 1); /* JSON has lost_records */
        assert_int_equal(times("tenant/x"), 1);
        assert_null(strstr(text, "empty"));
        assert_true(way != 1 || json_check(text, strlen(text)));
        unlink(path);
    }
}

static vram_pool *plain_pool(vram_device *device, const char *name) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_OFF};
    vram_pool_options options = {.size = sizeof options, .limits = &limits, .name = name};
    vram_pool *pool;
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

/* A pool without records warns too, once: how much, and the tags that have most of it. */
TEST(ends_of_untracked_pools_are_logged) {
    for (int way = 0; way < 2; way++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = plain_pool(rig.device, "mine"), *empty = plain_pool(rig.device, "empty");
        assert_ok(vram_free(take(empty, 50, NULL, NULL, rig.queue), rig.queue));
        assert_ok(vram_free(take(pool, 70000, "gone", NULL, rig.queue), rig.queue));
        take(pool, 1000, "t/small", NULL, rig.queue);
        take(pool, 40000, "t/large", NULL, rig.queue);
        take(pool, 40000, "t/large", NULL, rig.queue);
        take(pool, 3 << 20, NULL, NULL, rig.queue);
        take(pool, 500, "t/least", NULL, rig.queue);
        warnings = 0;
        vram_log_set(keep_warning, NULL, VRAM_LOG_WARN);
        if (way == 0) {
            assert_ok(vram_pool_destroy(pool));
        }
        vram_context_destroy(rig.context);
        vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
        assert_int_equal(warnings, 1);
        assert_string_equal(warning,
                            "pool \"mine\": 3227228 bytes in 5 blocks were never freed: 3145728 "
                            "without a tag, 80000 tagged \"t/large\", 1000 tagged \"t/small\", 500 "
                            "with other tags");
    }
}

/* Whether the first entry of the pool's table of blocks has a live one. */
static bool first_is_used(vram_pool *handle) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, handle);
    uint64_t at = 0;
    assert_non_null(pool);
    vr_mutex_lock(&pool->lock);
    const struct vr_block *block = vr_block_table_next(&pool->table, &at);
    bool used = block && at == 1 && vr_block_is_live(block);
    vr_mutex_unlock(&pool->lock);
    vr_leave(pool);
    return used;
}

/* Each is counted, also the one at the beginning of the table. */
TEST(every_untracked_block_is_counted, "sim:memory=1G") {
    unsigned count = 0;
    char wanted[64];
    vram_pool *pool = plain_pool(rig->device, "mine");
    do {
        take(pool, 512, NULL, NULL, rig->queue);
    } while (++count < 10000 && !first_is_used(pool));
    assert_true(first_is_used(pool));
    warnings = 0;
    vram_log_set(keep_warning, NULL, VRAM_LOG_WARN);
    assert_ok(vram_pool_destroy(pool));
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    snprintf(wanted, sizeof wanted, "%u bytes in %u block", count * 512, count);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, wanted));
}

/* Who asks for a report need not ask for records. */
TEST(reports_imply_tracking) {
    for (int way = 0; way < 2; way++) {
        assert_ok(vram_option_set("leaks", way ? "text" : "off"));
        assert_ok(vram_option_set("leak_file", path));
        struct rig rig = rig_make("sim", "memory=1G");
        take(plain_pool(rig.device, "mine"), 1234, "tenant/x", "lost", rig.queue);
        vram_context_destroy(rig.context);
        assert_int_equal(access(path, F_OK) == 0, way);
    }
    read_file();
    assert_int_equal(times("1234 bytes in 1 block was never freed"), 1);
    assert_int_equal(times("\"lost\""), 1);
}

/* Records of foreign memory are leaks that a context has at its end, and in reports before. */
TEST(foreign_memory_is_reported) {
    struct rig rig = rig_make("sim", "memory=1G");
    vram_foreign_options named = {.size = sizeof named, .tag = "lib", .name = "workspace"};
    const vram_live_query query = {.size = sizeof query, .device = rig.device};
    uint64_t id, other;
    take(pool_make(rig.device, "mine"), 1000, "lib", NULL, rig.queue);
    assert_ok(vram_foreign_track(rig.device, 1234, &named, &id));
    assert_ok(vram_foreign_track(rig.device, 50, NULL, &other));
    assert_ok(report(query, VRAM_REPORT_TEXT));
    assert_int_equal(summary.blocks, 3);
    assert_int_equal(summary.bytes, 2284);
    assert_int_equal(summary.groups, 3);
    assert_int_equal(summary.foreign_blocks, 2);
    assert_int_equal(summary.foreign_bytes, 1284);
    assert_int_equal(times("  1234 bytes in 1 foreign record, tag \"lib\"\n"), 1);
    assert_int_equal(times(": 1234 bytes \"workspace\", "), 1);
    assert_int_equal(times("  1000 bytes in 1 block, tag \"lib\"\n"), 1);
    assert_ok(report(query, VRAM_REPORT_JSON));
    assert_int_equal(times("\"foreign\": true"), 2);
    assert_int_equal(times("\"foreign\": false"), 1);
    assert_int_equal(times("\"address\": \"0x"), 1);
    assert_int_equal(times("\"address\": null"), 2);
    report_text_give("foreign", text);
    assert_ok(vram_foreign_untrack(rig.device, other));
    vram_device_close(rig.device); /* the pool, but not the record */
    warnings = 0;
    vram_log_set(keep_warning, NULL, VRAM_LOG_WARN);
    assert_ok(vram_context_destroy(rig.context));
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    assert_int_equal(warnings, 1);
    assert_string_equal(warning, "foreign memory: 1234 bytes in 1 block was never freed: 1234 "
                                 "tagged \"lib\"");
}

/* Without a log, and without the option, there is not a word. */
TEST(nothing_is_written_unasked) {
    assert_ok(vram_option_set("leak_file", path));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "mine");
    take(pool, 1234, "tenant/x", "lost", rig.queue);
    vram_context_destroy(rig.context);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* A file that cannot be written to is logged, and fails nothing. */
TEST(a_report_that_cannot_be_written_fails_nothing) {
    assert_ok(vram_option_set("leaks", "text"));
    assert_ok(vram_option_set("leak_file", "/nonexistent/dir/file"));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "mine");
    take(pool, 1234, NULL, NULL, rig.queue);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    vram_error_clear();
    assert_ok(vram_pool_destroy(pool));
    expect_no_record();
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    vram_context_destroy(rig.context);
}

/* Pipes, which nobody else has open: the pool ends, and the log says why there is no report. */
TEST(pipes_make_nobody_wait) {
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(vram_option_set("leaks", "text"));
    assert_ok(vram_option_set("leak_file", path));
    assert_ok(vram_option_set("leak_suppressions", path));
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "mine");
    take(pool, 1234, NULL, NULL, rig.queue);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    alarm(60);
    assert_ok(vram_pool_destroy(pool));
    alarm(0);
    expect_no_record();
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    assert_ok(vram_option_set("leak_suppressions", ""));
    vram_context_destroy(rig.context);
    assert_int_equal(unlink(path), 0);
}

/* Every allocation and system call of a pool's end fails in turn, with a report asked for. */
TEST(ends_without_memory_are_ends) {
    for (uint64_t nth = 1; nth < 30; nth++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_make(rig.device, "mine");
        assert_ok(vram_option_set("leaks", "text"));
        assert_ok(vram_option_set("leak_file", path));
        take(pool, 1234, NULL, NULL, rig.queue);
        vram_log_set(NULL, NULL, VRAM_LOG_OFF);
        vr_mem_fail_at(nth, true);
        vram_status status = vram_pool_destroy(pool);
        bool failed = vr_mem_failed() != 0;
        vr_mem_fail_at(0, false);
        vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
        assert_ok(status);
        rig_end_clean(&rig);
        if (!failed) {
            break;
        }
    }
}

/* Runs behind the library's own handlers, which come later. Nothing is left to the child's other
   ones: they are its parent's. */
static void leave_now(void) {
    _exit(7);
}

/* At the exit of a process, of all pools that are left; a child has its own. */
TEST(exits_are_reported_on_request) {
    for (int asked = 0; asked < 2; asked++) {
        unlink(path);
        pid_t child = fork();
        if (child == 0) {
            atexit(leave_now);
            vram_log_set(NULL, NULL, VRAM_LOG_OFF);
            assert_ok(vram_option_set("leaks", "text"));
            assert_ok(vram_option_set("leak_file", path));
            assert_ok(vram_option_set("leak_exit", asked ? "on" : "off"));
            struct rig rig = rig_make("sim", "memory=1G");
            take(pool_make(rig.device, "one"), 1000, "t/one", NULL, rig.queue);
            take(pool_make(rig.device, "two"), 2000, "t/two", NULL, rig.queue);
            exit(0);
        }
        assert_int_equal(child_end(child), 7);
        read_file();
        assert_int_equal(times("at exit: 3000 bytes in 2 blocks"), (uint64_t)asked);
        assert_int_equal(times("t/one") + times("t/two"), 2 * (uint64_t)asked);
    }
}

EACH_TEST(begin, clean)
