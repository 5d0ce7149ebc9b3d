/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_memory_log.c: at debug level the log has one line for each allocation, free, resize, move,
 * fallback and change of sleep, with name, tag, size and pool; at lower levels it has none. And a
 * tracked pool's blocks are called what their buffers are, in every kind of memory.
 */
#include "unit/ladder_world.h"
#include "unit/mem_world.h"

#include "vram/growth.h"
#include "vram/limits.h"
#include "vram/stats.h"
#include "vram/vram.h"

#include <stdlib.h>

enum { LINES = 64 };

static struct {
    char text[LINES][256];
    unsigned count;
} sheet;

static void on_line(void *user, vram_log_level level, const char *text) {
    (void)user;
    if (level == VRAM_LOG_DEBUG && sheet.count < LINES) {
        snprintf(sheet.text[sheet.count++], sizeof sheet.text[0], "%s", text);
    }
}

static void log_at(vram_log_level level) {
    sheet.count = 0;
    vram_log_set(on_line, NULL, level);
}

/* The lines so far are these, each without the address that it may have behind " at ". */
static void lines_are(const char *const *wanted, unsigned count) {
    for (unsigned i = 0; i < sheet.count && i < count; i++) {
        char seen[256];
        const char *at = strstr(sheet.text[i], " at 0x");
        size_t before = at ? (size_t)(at - sheet.text[i]) : strlen(sheet.text[i]);
        snprintf(seen, sizeof seen, "%.*s%s", (int)before, sheet.text[i],
                 at ? at + strcspn(at, ",") : "");
        assert_string_equal(seen, wanted[i]);
    }
    assert_int_equal(sheet.count, count);
    sheet.count = 0;
}

#define LINES_ARE(...)                                                                             \
    lines_are((const char *const[]){__VA_ARGS__},                                                  \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static vram_addr take_named(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_alloc_options options = {.size = sizeof options, .tag = "model/a", .name = "weights"};
    vram_addr addr = 0;
    assert_ok(vram_alloc_with(pool, bytes, queue, &options, &addr));
    return addr;
}

/* Blocks new and cached, with and without a name, and refusals. */
TEST(blocks_are_logged, "sim:" SIM) {
    log_at(VRAM_LOG_DEBUG);
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_addr addr = take_named(pool, 5000, rig->queue);
    assert_ok(vram_resize(addr, 3000, rig->queue));
    assert_ok(vram_free(addr, rig->queue));
    LINES_ARE("alloc: 5000 bytes, name \"weights\", tag \"model/a\", pool \"main\"",
              "resize: 5000 to 3000 bytes, name \"weights\", tag \"model/a\", pool \"main\"",
              "free: 3000 bytes, name \"weights\", tag \"model/a\", pool \"main\"");
    for (int i = 0; i < 2; i++) {
        addr = take(pool, 777, rig->queue);
        assert_ok(vram_free(addr, rig->queue));
        LINES_ARE("alloc: 777 bytes, name none, tag none, pool \"main\"",
                  "free: 777 bytes, name none, tag none, pool \"main\"");
    }
    refused(pool, 65 * MIB, rig->queue, VRAM_ERR_DEVICE_MEMORY);
    LINES_ARE("refused: 68157440 bytes: out of device memory, name none, tag none, "
              "pool \"main\"");
    vram_error_clear();
    assert_ok(vram_pool_destroy(pool));
    assert_int_equal(sheet.count, 0);
}

TEST(sleep_is_logged, "sim:" SIM) {
    vram_pool *pool = pool_on(rig->device, "main", 0);
    vram_addr addr = take_named(pool, 3 * MIB, rig->queue);
    vram_sleep_options options = {.size = sizeof options, .tag = "model"};
    log_at(VRAM_LOG_DEBUG); /* in any pool, made before or after */
    assert_ok(vram_pool_sleep(pool, &options));
    assert_ok(vram_pool_wake(pool, NULL));
    LINES_ARE("sleep: 4194304 bytes, name none, tag \"model\", pool \"main\"",
              "wake: 4194304 bytes, name none, tag none, pool \"main\"");
    log_at(VRAM_LOG_INFO);
    assert_ok(vram_free(addr, rig->queue));
}

/* Of buffers between kinds of memory, and of free memory to other addresses. */
TEST(moves_and_fallbacks_are_logged, "sim:" SIM) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_OFF};
    vram_pool_options options = {.size = sizeof options, .name = "main", .limits = &limits};
    vram_pool *pool;
    vram_addr addrs[32];
    whole_device(rig->device);
    assert_ok(vram_pool_create(rig->device, &options, &pool));
    for (int i = 0; i < 32; i++) {
        addrs[i] = take(pool, GRANULE, rig->queue);
    }
    vram_buffer_options wanted = {
        .size = sizeof wanted, .kind = VRAM_BUFFER_FALLBACK, .tag = "cache", .name = "keys"};
    vram_buffer *buffer;
    log_at(VRAM_LOG_DEBUG);
    assert_ok(vram_buffer_create(pool, MIB, rig->queue, &wanted, &buffer));
    LINES_ARE(
        "fallback: 1048576 bytes of pinned memory, name \"keys\", tag \"cache\", pool \"main\"");
    assert_ok(vram_free(addrs[5], rig->queue));
    assert_ok(vram_buffer_promote(buffer, rig->queue));
    LINES_ARE("move: 1048576 bytes from pinned to device memory, name \"keys\", tag \"cache\", "
              "pool \"main\"");
    assert_ok(vram_free(addrs[9], rig->queue));
    assert_ok(vram_free(addrs[17], rig->queue));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    (void)take(pool, 2 * GRANULE, rig->queue);
    LINES_ARE("move: 4194304 bytes of free memory in 2 pieces, name none, tag none, "
              "pool \"main\"");
    log_at(VRAM_LOG_INFO);
    assert_ok(vram_buffer_destroy(buffer));
}

/* A tracked pool follows the level at any time; one that is not costs nothing and logs nothing. */
TEST(lower_levels_have_no_lines, "sim:" SIM) {
    log_at(VRAM_LOG_INFO);
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_OFF};
    vram_pool_options options = {.size = sizeof options, .name = "plain", .limits = &limits};
    vram_pool *plain, *tracked;
    vram_live_block block = {.size = sizeof block};
    assert_ok(vram_pool_create(rig->device, &options, &plain));
    tracked = pool_on(rig->device, "tracked", VRAM_POOL_TRACKED);
    vram_addr one = take(plain, 777, rig->queue), two = take(tracked, 777, rig->queue);
    assert_int_equal(vram_live_get(one, &block), VRAM_ERR_UNSUPPORTED);
    vram_error_clear();
    assert_int_equal(sheet.count, 0);
    log_at(VRAM_LOG_DEBUG);
    assert_ok(vram_free(one, rig->queue));
    assert_ok(vram_free(two, rig->queue));
    LINES_ARE("free: 777 bytes, name none, tag none, pool \"tracked\"");
    log_at(VRAM_LOG_INFO);
    assert_ok(vram_free(take(tracked, 777, rig->queue), rig->queue));
    assert_int_equal(sheet.count, 0);
}

static vram_pool *trimmed;

static void empty_caches(void *user, vram_log_level level, const char *text) {
    (void)user;
    if (level == VRAM_LOG_DEBUG && strncmp(text, "free:", 5) == 0) {
        vram_trim_options options = {.size = sizeof options, .flags = VRAM_TRIM_CACHES};
        assert_ok(vram_pool_trim(trimmed, &options, NULL));
    }
}

/* A block enters its thread's cache after the log heard of its free. Caches that were emptied in
   between are emptied of it, too. */
TEST(the_log_may_empty_caches, "sim:" SIM) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    assert_ok(vram_pool_create(rig->device, &options, &trimmed));
    vram_addr addr = take(trimmed, 777, rig->queue);
    vram_log_set(empty_caches, NULL, VRAM_LOG_DEBUG);
    assert_ok(vram_free(addr, rig->queue));
    log_at(VRAM_LOG_INFO);
    assert_true(stats_of(trimmed).cached_bytes > 0);
    assert_ok(vram_pool_trim(trimmed, NULL, NULL));
    assert_int_equal(stats_of(trimmed).cached_bytes, 0);
    assert_int_equal(stats_of(trimmed).reserved_bytes, 0);
}

/* ----------------------------------------------------------------- names of blocks */

static vram_pool *tracked_pool(vram_device *device) {
    vram_limits limits = {.size = sizeof limits, .tracking = VRAM_SWITCH_ON};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_pool *pool;
    assert_ok(vram_pool_create(device, &options, &pool));
    return pool;
}

static vram_live_block live_of(vram_buffer *buffer) {
    vram_live_block block = {.size = sizeof block};
    vram_addr addr;
    assert_ok(vram_buffer_addr(buffer, &addr));
    assert_ok(vram_live_get(addr, &block));
    return block;
}

/* Whatever kind of memory they lie in, and wherever they move to. */
TEST(buffers_of_all_kinds_have_their_names, "sim:memory=64M,real=on") {
    static const struct {
        vram_buffer_kind kind;
        vram_memory_kind lies_in;
    } cases[] = {{VRAM_BUFFER_DEVICE, VRAM_MEMORY_DEVICE},
                 {VRAM_BUFFER_PINNED, VRAM_MEMORY_PINNED},
                 {VRAM_BUFFER_MANAGED, VRAM_MEMORY_MANAGED},
                 {VRAM_BUFFER_MAPPED, VRAM_MEMORY_DEVICE},
                 {VRAM_BUFFER_FALLBACK, VRAM_MEMORY_DEVICE}};
    vram_pool *pool = tracked_pool(rig->device);
    vram_buffer *buffer, *hog;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vram_buffer_options options = {.size = sizeof options,
                                       .kind = cases[i].kind,
                                       .precision = VRAM_PRECISION_FP32,
                                       .name = "momenta",
                                       .tag = "kinds"};
        assert_ok(vram_buffer_create(pool, 4000, rig->queue, &options, &buffer));
        vram_live_block block = live_of(buffer);
        assert_int_equal(block.kind, cases[i].lies_in);
        assert_string_equal(block.name, "momenta");
        assert_int_equal(block.elements, 1000);
        assert_ok(vram_buffer_resize(buffer, 3 << 20, rig->queue));
        assert_string_equal(live_of(buffer).name, "momenta");
        if (cases[i].kind == VRAM_BUFFER_FALLBACK) {
            assert_ok(vram_buffer_demote(buffer, rig->queue));
            assert_int_equal(live_of(buffer).kind, VRAM_MEMORY_PINNED);
            assert_string_equal(live_of(buffer).name, "momenta");
            assert_int_equal(live_of(buffer).elements, (3 << 20) / 4);
            assert_ok(vram_buffer_promote(buffer, rig->queue));
            assert_string_equal(live_of(buffer).name, "momenta");
        }
        assert_ok(vram_buffer_destroy(buffer));
    }
    /* One that falls back at once. */
    vram_buffer_options options = {
        .size = sizeof options, .kind = VRAM_BUFFER_FALLBACK, .name = "late"};
    assert_ok(vram_buffer_create(pool, 48 << 20, rig->queue, NULL, &hog));
    assert_ok(vram_buffer_create(pool, 24 << 20, rig->queue, &options, &buffer));
    assert_int_not_equal(live_of(buffer).kind, VRAM_MEMORY_DEVICE);
    assert_string_equal(live_of(buffer).name, "late");
    assert_ok(vram_buffer_destroy(buffer));
    assert_ok(vram_buffer_destroy(hog));
}
