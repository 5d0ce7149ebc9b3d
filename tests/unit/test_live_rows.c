/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_live_rows.c: what the live page and the answer of a process say when there is too much:
 * devices, pools, tags, groups and blocks; foreign memory; and readers that stop reading.
 */
#include "base/writer.h"
#include "core/live/live_answer.h"
#include "core/live/page_rows.h"
#include "unit/test_time.h"
#include "unit/track_world.h"
#include "vram/vram.h"

#include <stdio.h>
#include <stdlib.h>

static int begin(void) {
    test_time_begin(1000 * SECOND, 0);
    return start();
}

static int clean(void) {
    test_time_end();
    return track_clean();
}

/* ------------------------------------------------------------------------- rows */

/* The rows of a context's pools, which the caller frees. */
static struct vr_page_rows *rows_of(vram_context *handle, struct vr_page_rows *rows) {
    struct vr_context *context = vr_handle_pin(VR_KIND_CONTEXT, handle);
    rows = rows ? rows : calloc(1, sizeof *rows);
    assert_non_null(rows);
    vr_page_rows_begin(rows, test_time_ns);
    vr_page_rows_add(rows, context);
    vr_page_rows_end(rows);
    vr_leave(context);
    return rows;
}

/* Tags are sorted by what they use, and the least used are left out. */
TEST(the_largest_tags_have_rows) {
    enum { TAGS = VRAM_LIVE_PAGE_TAGS + 20 };
    char tag[32];
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_make(rig.device, "pool");
    for (uint64_t i = 0; i < TAGS; i++) { /* rising, falling */
        snprintf(tag, sizeof tag, "tag%llu", (unsigned long long)i);
        take(pool, 1024 * (i % 2 ? i + 1 : 2 * TAGS - i), tag, NULL, rig.queue);
    }
    assert_ok(vram_tag_quota_set(rig.device, "tag0", MIB, 2 * MIB));
    struct vr_page_rows *rows = rows_of(rig.context, NULL);
    assert_int_equal(rows->image.head.tags.count, VRAM_LIVE_PAGE_TAGS);
    for (uint32_t i = 1; i < VRAM_LIVE_PAGE_TAGS; i++) {
        assert_true(rows->image.tags[i - 1].used_bytes >= rows->image.tags[i].used_bytes);
    }
    assert_string_equal(rows->image.tags[0].name, "tag0");
    assert_int_equal(rows->image.tags[0].soft_bytes, MIB);
    assert_int_equal(rows->image.tags[0].hard_bytes, 2 * MIB);
    assert_int_equal(rows->image.tags[1].soft_bytes, VRAM_LIVE_PAGE_UNKNOWN);
    free(rows);
    vram_context_destroy(rig.context);
}

/* Pools beyond those whose rates are kept still count. */
TEST(more_pools_than_are_known) {
    enum { POOLS = VR_PAGE_POOLS_KNOWN + 4 };
    vram_pool *pool;
    vram_addr addr;
    struct rig rig = rig_make("sim", "memory=1G");
    for (int i = 0; i < POOLS; i++) {
        assert_ok(vram_pool_create(rig.device, NULL, &pool));
    }
    assert_ok(vram_alloc(pool, 1, rig.queue, &addr)); /* of the last */
    struct vr_page_rows *rows = rows_of(rig.context, NULL);
    assert_int_equal(rows->known_count, VR_PAGE_POOLS_KNOWN);
    assert_int_equal(rows->image.head.pools.total, POOLS);
    assert_int_equal(rows->image.head.pools.count, VRAM_LIVE_PAGE_POOLS);
    assert_int_equal(rows->image.head.sum.live_blocks, 1);
    rows_of(rig.context, rows);
    assert_int_not_equal(rows->walk.pool, 0); /* the histogram goes on from pool to pool */
    free(rows);
    vram_context_destroy(rig.context);
}

/* Devices beyond the rows of the page: their pools count, without a device. */
TEST(more_devices_than_rows) {
    enum { DEVICES = VRAM_LIVE_PAGE_DEVICES + 2 };
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    vram_context_options options = {
        .size = sizeof options, .backends = "sim", .sim = "memory=64M,devices=18"};
    vram_context *context;
    assert_ok(vram_context_create(&options, &context));
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_ok(vram_device_open(context, i, &device));
        assert_ok(vram_pool_create(device, NULL, &pool));
        assert_ok(vram_alloc(pool, 1000, NULL, &addr));
    }
    struct vr_page_rows *rows = rows_of(context, NULL);
    assert_int_equal(rows->image.head.devices.count, VRAM_LIVE_PAGE_DEVICES);
    assert_int_equal(rows->image.head.devices.total, DEVICES);
    assert_int_equal(rows->image.head.pools.count, DEVICES);
    assert_int_equal(rows->image.head.sum.live_blocks, DEVICES);
    uint64_t pools = 0;
    for (uint32_t i = 0; i < VRAM_LIVE_PAGE_DEVICES; i++) {
        pools += rows->image.devices[i].pools;
    }
    assert_int_equal(pools, VRAM_LIVE_PAGE_DEVICES);
    free(rows);
    vram_context_destroy(context);
}

/* ---------------------------------------------------------------------- answers */

struct reader {
    char *text;
    size_t bytes, capacity;
    unsigned calls, most; /* writes until it stops reading; 0: never */
};

static bool reader_take(void *user, const char *text, size_t bytes) {
    struct reader *reader = user;
    if (reader->most && ++reader->calls > reader->most) {
        return false;
    }
    if (reader->bytes + bytes >= reader->capacity) {
        reader->capacity = 2 * (reader->bytes + bytes) + 1;
        reader->text = realloc(reader->text, reader->capacity);
        assert_non_null(reader->text);
    }
    memcpy(reader->text + reader->bytes, text, bytes);
    reader->bytes += bytes;
    reader->text[reader->bytes] = '\0';
    return true;
}

/* The answer as a reader gets it; whether it is whole. */
static bool answer_read(vram_context *handle, struct reader *reader, uint64_t deadline) {
    struct vr_context *context = vr_handle_pin(VR_KIND_CONTEXT, handle);
    struct vr_live_answer *answer = vr_live_answer_make();
    struct vr_writer writer = {.write = reader_take, .user = reader};
    assert_non_null(answer);
    vr_live_answer_add(answer, context);
    bool whole = vr_live_answer_write(answer, &writer, deadline);
    vr_live_answer_free(answer);
    vr_leave(context);
    return whole;
}

static unsigned lines_with(const char *text, const char *first) {
    unsigned found = 0;
    for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        found += strncmp(at, first, strlen(first)) == 0;
    }
    return found;
}

/* Groups and blocks beyond the tables: those groups are one, the smallest blocks are left out. */
TEST(what_does_not_fit_is_one_group) {
    enum { TAGS = 4096, LISTED = 100 };
    char tag[32];
    struct rig rig = rig_make("sim", "memory=1G");
    struct reader reader = {0};
    vram_pool *pool = pool_make(rig.device, "pool");
    for (uint64_t i = 0; i < TAGS; i++) {
        snprintf(tag, sizeof tag, "t%llu", (unsigned long long)i);
        take(pool, 4096 + 4 * (i % 7 ? TAGS - i : i), tag, NULL, rig.queue);
    }
    assert_true(answer_read(rig.context, &reader, UINT64_MAX));
    assert_int_equal(lines_with(reader.text, "sum "), 1);
    assert_int_equal(lines_with(reader.text, "group "), TAGS / 4 * 3);
    assert_int_equal(lines_with(reader.text, "rest "), 1);
    assert_int_equal(lines_with(reader.text, "block "), LISTED);
    assert_int_equal(lines_with(reader.text, "end"), 1);
    char rest[64];
    unsigned long long bytes, blocks;
    const char *at = strstr(reader.text, "\nrest ");
    assert_int_equal(sscanf(at, "\n%60s %llu %llu", rest, &bytes, &blocks), 3);
    assert_int_equal(blocks, TAGS / 4);
    free(reader.text);
    vram_context_destroy(rig.context);
}

/* Old blocks, and memory that others have allocated. */
TEST(old_and_foreign_memory) {
    uint64_t id;
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    struct reader reader = {0};
    vram_foreign_options named = {.size = sizeof named, .tag = "lib", .name = "workspace"};
    vram_pool *pool = pool_make(rig.device, "pool");
    take(pool, 1000, "model", NULL, rig.queue);
    assert_ok(vram_foreign_track(rig.device, 1234, &named, &id));
    test_time_ns += 61 * SECOND;
    take(pool, 400, "model", NULL, rig.queue);
    assert_true(answer_read(rig.context, &reader, UINT64_MAX));
    assert_int_equal(lines_with(reader.text, "group "), 2);
    assert_non_null(strstr(reader.text, "group 1234 1 1234 1 "));
    assert_non_null(strstr(reader.text, " 1 lib\n"));
    assert_non_null(strstr(reader.text, "group 1400 2 1000 1 "));
    free(reader.text);
    assert_ok(vram_foreign_untrack(rig.device, id));
    vram_context_destroy(rig.context);
}

/* ----------------------------------------------------------------------- queries */

/* A text that does not fit is cut; without room there is none. */
TEST(stacks_that_do_not_fit) {
    char text[4096], cut[8] = "full";
    vram_live_block block = {.size = sizeof block};
    assert_ok(vram_option_set("track_stacks", "1"));
    struct rig rig = rig_make("sim", "memory=64M");
    vram_addr addr = take(pool_make(rig.device, "pool"), 1000, NULL, NULL, rig.queue);
    assert_ok(vram_live_get(addr, &block));
    assert_int_not_equal(block.stack, 0);
    size_t bytes = vram_stack_text(block.stack, text, sizeof text);
    assert_true(bytes > sizeof cut);
    assert_int_equal(vram_stack_text(block.stack, NULL, 0), bytes);
    assert_int_equal(vram_stack_text(block.stack, cut, 0), bytes);
    assert_string_equal(cut, "full");
    assert_int_equal(vram_stack_text(block.stack, cut, sizeof cut), bytes);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, text, sizeof cut - 1);
    vram_context_destroy(rig.context);
}

EACH_TEST(begin, clean)
