/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_pages.c: shareable pools map their memory: what is exported stays where it is, awake
 * and whole, while the rest of the pool moves, sleeps and goes back to the driver. Both sides are
 * in this process, on two handles of the device.
 */
#include "share_world.h"
#include "stats_of.h"

enum { BLOCKS = 8 };

struct stage {
    struct share_world world;
    vram_device *reader;
    vram_queue *other;
    uint64_t granule;
    vram_addr blocks[BLOCKS];
    vram_share *share, *opened;
    vram_share_part part;
};

static uint32_t pattern_of(int i) {
    return 0x1000u + (uint32_t)i;
}

static void stage_open(struct stage *stage, const char *backend, uint32_t flags, uint64_t bytes) {
    vram_device_info info = {.size = sizeof info};
    share_backend = backend;
    share_world_open(&stage->world, flags);
    assert_ok(vram_device_info_get(stage->world.context, 0, &info));
    assert_ok(vram_device_open(stage->world.context, 0, &stage->reader));
    assert_ok(vram_queue_create(stage->reader, NULL, &stage->other));
    stage->granule = info.vmm_granule.value;
    for (int i = 0; i < BLOCKS; i++) {
        stage->blocks[i] = share_block(&stage->world, bytes, pattern_of(i));
    }
}

static void stage_share(struct stage *stage, int block, uint32_t flags) {
    vram_share_token token;
    share_export_one(stage->blocks[block], flags, &stage->share, &token);
    assert_ok(vram_share_open(stage->reader, &token, NULL, &stage->opened));
    assert_ok(vram_share_parts_get(stage->opened, 0, 1, &stage->part));
}

static void stage_close(struct stage *stage) {
    assert_ok(vram_share_close(stage->opened));
    share_world_close(&stage->world);
}

/* All of a block's words, on either side, are its pattern. */
static void assert_block(struct stage *stage, int block, uint64_t bytes) {
    assert_int_equal(share_count(&stage->world, stage->blocks[block], bytes, pattern_of(block)),
                     bytes / 4);
}

static void assert_reader(struct stage *stage, uint32_t pattern) {
    struct share_world reader = {.queue = stage->other};
    assert_int_equal(share_count(&reader, stage->part.addr, stage->part.bytes, pattern),
                     stage->part.bytes / 4);
}

/* -------------------------------------------------------------------- sleep */

static void sleeps_around_exports(const char *backend, uint32_t flags,
                                  vram_sleep_contents contents) {
    const vram_sleep_options options = {.size = sizeof options, .contents = contents};
    const uint64_t bytes = MIB + 4096;
    struct stage stage;
    stage_open(&stage, backend, flags, bytes);
    stage_share(&stage, 3, 0);
    uint64_t awake = stats_of(stage.world.pool).reserved_bytes;
    assert_ok(vram_pool_sleep(stage.world.pool, &options));
    vram_pool_stats stats = stats_of(stage.world.pool);
    assert_true(stats.asleep_bytes > 0);
    assert_true(stats.reserved_bytes > 0 && stats.reserved_bytes < awake);
    if (flags == VRAM_POOL_SHAREABLE) {
        assert_int_equal(stats.reserved_bytes,
                         (bytes + stage.granule - 1) / stage.granule * stage.granule);
        assert_int_equal(vram_queue_fill(stage.world.queue, stage.blocks[4], 0, 4, 64),
                         VRAM_ERR_INVALID);
        assert_int_equal(vram_pin(stage.blocks[4]), VRAM_ERR_BUSY);
    }
    assert_reader(&stage, pattern_of(3));
    assert_block(&stage, 3, bytes);
    assert_ok(vram_queue_fill(stage.other, stage.part.addr, 77, 4, bytes));
    assert_ok(vram_queue_wait(stage.other, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_wake(stage.world.pool, NULL));
    assert_int_equal(share_count(&stage.world, stage.blocks[3], bytes, 77), bytes / 4);
    for (int i = 0; i < BLOCKS && contents != VRAM_SLEEP_DROP; i++) {
        if (i != 3) {
            assert_block(&stage, i, bytes);
        }
    }
    stage_close(&stage);
}

TEST(exports_stay_awake) {
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        vram_sleep_contents keep = i ? VRAM_SLEEP_PINNED : VRAM_SLEEP_HOST;
        sleeps_around_exports(backends[i], VRAM_POOL_SHAREABLE, keep);
        sleeps_around_exports(backends[i], VRAM_POOL_SHAREABLE, VRAM_SLEEP_DROP);
        sleeps_around_exports(backends[i], VRAM_POOL_SHARE_GROUP, keep);
    }
}

/* A pin of the program's own still refuses, and is not the export's. */
TEST(pins_are_told_apart) {
    struct stage stage;
    stage_open(&stage, "host", VRAM_POOL_SHAREABLE, 4096);
    stage_share(&stage, 0, 0);
    assert_int_equal(vram_unpin(stage.blocks[0]), VRAM_ERR_INVALID);
    assert_ok(vram_pin(stage.blocks[0]));
    assert_int_equal(vram_pool_sleep(stage.world.pool, NULL), VRAM_ERR_BUSY);
    assert_ok(vram_unpin(stage.blocks[0]));
    assert_int_equal(vram_unpin(stage.blocks[0]), VRAM_ERR_INVALID);
    assert_ok(vram_pool_sleep(stage.world.pool, NULL));
    assert_reader(&stage, pattern_of(0));
    stage_close(&stage);
}

TEST(seals_and_writers_exclude_each_other) {
    vram_share *share = NULL;
    struct stage stage;
    stage_open(&stage, "host", VRAM_POOL_SHAREABLE, 4096);
    stage_share(&stage, 0, 0);
    assert_int_equal(vram_pool_seal(stage.world.pool, NULL), VRAM_ERR_BUSY);
    assert_non_null(strstr(vram_error_get()->text, "vram_share_close"));
    assert_int_equal(stats_of(stage.world.pool).sealed_bytes, 0);
    assert_ok(vram_share_close(stage.opened));
    assert_ok(vram_share_close(stage.share));
    assert_ok(vram_pool_seal(stage.world.pool, NULL));
    assert_int_equal(vram_share_export(stage.blocks, 1, NULL, &share), VRAM_ERR_BUSY);
    assert_non_null(strstr(vram_error_get()->text, "VRAM_SHARE_READ_ONLY"));
    stage_share(&stage, 0, VRAM_SHARE_READ_ONLY);
    assert_ok(vram_pool_sleep(stage.world.pool, NULL));
    assert_reader(&stage, pattern_of(0));
    assert_ok(vram_pool_wake(stage.world.pool, NULL));
    assert_ok(vram_pool_unseal(stage.world.pool, NULL));
    assert_block(&stage, 1, 4096);
    stage_close(&stage);
}

/* ------------------------------------------------------------------ reports */

/* Who has memory open is in the counters' report and in that of a shortage, until it closes. */
TEST(readers_are_reported) {
    const vram_limits limits = {
        .size = sizeof limits, .hard_bytes = 64 * MIB, .cpu_fallback = VRAM_SWITCH_OFF};
    static char text[16384];
    static vram_oom_report report;
    char line[64], number[64];
    struct stage stage;
    vram_addr addr;
    stage_open(&stage, "sim", VRAM_POOL_SHAREABLE, 4096);
    snprintf(line, sizeof line, "shared with pid %d: %llu", (int)getpid(),
             (unsigned long long)stage.granule);
    snprintf(number, sizeof number, "\"process\": %d", (int)getpid());
    assert_false(share_stats_say(stage.world.pool, VRAM_REPORT_TEXT, "shared with"));
    stage_share(&stage, 2, 0);
    assert_true(share_stats_say(stage.world.pool, VRAM_REPORT_TEXT, line));
    assert_true(share_stats_say(stage.world.pool, VRAM_REPORT_JSON, number));
    assert_ok(vram_pool_limits_set(stage.world.pool, &limits));
    assert_int_equal(vram_alloc(stage.world.pool, 100 * MIB, stage.world.queue, &addr),
                     VRAM_ERR_LIMIT);
    report.size = sizeof report;
    assert_ok(vram_oom_report_get(stage.world.pool, &report));
    assert_int_equal(report.reader_count, 1);
    assert_int_equal(report.readers[0].process, getpid());
    assert_int_equal(report.shared_bytes, stage.granule);
    text[0] = 0;
    assert_ok(vram_oom_report_write(&report, VRAM_REPORT_TEXT, share_text_add, text));
    snprintf(line, sizeof line, "shared with pid %d", (int)getpid());
    assert_non_null(strstr(text, line));
    assert_ok(vram_share_close(stage.opened));
    share_await_readers(stage.share, 0);
    assert_false(share_stats_say(stage.world.pool, VRAM_REPORT_TEXT, "shared with"));
    share_world_close(&stage.world);
}

/* A file or folder that somebody planted beside the names hides none of them, and looking past it
   is no error. */
TEST(planted_files_hide_no_name) {
    static const char *const links[][2] = {{"loop", "vram-n-loop"}, {"file", "/dev/null/x"}};
    char path[64], large[2000];
    vram_share_name names[4];
    uint32_t count = 4;
    struct stage stage;
    stage_open(&stage, "host", VRAM_POOL_SHAREABLE, 4096);
    stage_share(&stage, 0, 0);
    assert_ok(vram_share_publish(stage.share, "weights", NULL));
    memset(large, '1', sizeof large);
    snprintf(path, sizeof path, "%s/vram-n-large", share_dir);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(file, large, sizeof large), sizeof large);
    close(file);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/vram-n-%s", share_dir, links[i][0]);
        assert_int_equal(symlink(links[i][1], path), 0);
    }
    snprintf(path, sizeof path, "%s/vram-n-socket", share_dir);
    assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
    snprintf(path, sizeof path, "%s/vram-n-folder", share_dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(vram_share_publish(stage.share, "", NULL), VRAM_ERR_INVALID);
    vram_error before = *vram_error_get();
    assert_ok(vram_share_list(NULL, names, &count));
    assert_int_equal(count, 1);
    assert_int_equal(vram_error_get()->status, before.status);
    assert_string_equal(vram_error_get()->text, before.text);
    assert_string_equal(names[0].name, "weights");
    rmdir(path);
    stage_close(&stage);
    stage_open(&stage, "host", VRAM_POOL_SHAREABLE, 4096);
    stage_share(&stage, 0, 0);
    assert_ok(vram_share_publish(stage.share, "loop", NULL)); /* what is no name is replaced */
    stage_close(&stage);
}

/* -------------------------------------------------------------------- place */

/* A freed block's memory is the driver's at once, and no later block has it. */
TEST(handles_are_not_used_twice) {
    struct stage stage;
    stage_open(&stage, "host", VRAM_POOL_SHAREABLE, 4096);
    stage_share(&stage, 0, 0);
    assert_int_equal(stats_of(stage.world.pool).reserved_bytes, BLOCKS * stage.granule);
    for (int i = 1; i < BLOCKS; i++) {
        assert_ok(vram_free(stage.blocks[i], stage.world.queue));
    }
    assert_ok(vram_queue_wait(stage.world.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(stage.world.pool, NULL, NULL));
    assert_int_equal(stats_of(stage.world.pool).reserved_bytes, stage.granule);
    for (int i = 1; i < BLOCKS; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(stage.world.pool, stage.granule, stage.world.queue, &addr));
        assert_int_equal(share_count(&stage.world, addr, stage.granule, 0), stage.granule / 4);
    }
    assert_reader(&stage, pattern_of(0));
    assert_int_equal(stats_of(stage.world.pool).moved_bytes, 0);
    stage_close(&stage);
}

/* Sealed memory that wakes is mapped in larger pieces elsewhere; here each block keeps its own. */
TEST(waking_joins_no_neighbours) {
    struct stage stage;
    vram_share_info info = {.size = sizeof info};
    stage_open(&stage, "sim", VRAM_POOL_SHAREABLE, 2 * MIB);
    assert_int_equal(stage.granule, 2 * MIB);
    assert_ok(vram_pool_seal(stage.world.pool, NULL));
    assert_ok(vram_pool_sleep(stage.world.pool, NULL));
    assert_ok(vram_pool_wake(stage.world.pool, NULL));
    stage_share(&stage, 3, VRAM_SHARE_READ_ONLY);
    assert_ok(vram_share_info_get(stage.share, &info));
    assert_int_equal(info.bytes, stage.granule);
    assert_reader(&stage, pattern_of(3));
    stage_close(&stage);
}

/* A group takes the free memory between exported blocks and maps it where it is needed. */
TEST(groups_move_around_exports) {
    const vram_limits limits = {.size = sizeof limits, .hard_bytes = 80 * MIB};
    const uint64_t bytes = 8 * MIB;
    struct stage stage;
    vram_addr large;
    stage_open(&stage, "sim", VRAM_POOL_SHARE_GROUP, bytes);
    stage_share(&stage, 4, 0);
    assert_ok(vram_pool_limits_set(stage.world.pool, &limits));
    for (int i = 0; i < BLOCKS; i += 2) {
        if (i != 4) {
            assert_ok(vram_free(stage.blocks[i], stage.world.queue));
        }
    }
    assert_ok(vram_queue_wait(stage.world.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_alloc(stage.world.pool, 3 * bytes, stage.world.queue, &large));
    assert_ok(vram_queue_fill(stage.world.queue, large, 55, 4, 3 * bytes));
    vram_pool_stats stats = stats_of(stage.world.pool);
    assert_true(stats.reserved_bytes <= limits.hard_bytes);
    assert_true(stats.moved_bytes > 0);
    assert_reader(&stage, pattern_of(4));
    for (int i = 1; i < BLOCKS; i += 2) {
        assert_block(&stage, i, bytes);
    }
    assert_int_equal(share_count(&stage.world, large, 3 * bytes, 55), 3 * bytes / 4);
    stage_close(&stage);
}

/* Neither trims nor rebuilds touch what is exported. */
TEST(rebuilds_leave_exports) {
    vram_rebuild_result result = {.size = sizeof result};
    struct stage stage;
    stage_open(&stage, "host", VRAM_POOL_SHARE_GROUP, 100000);
    stage_share(&stage, 5, 0);
    for (int i = 0; i < BLOCKS; i++) {
        if (i != 5) {
            assert_ok(vram_free(stage.blocks[i], stage.world.queue));
        }
    }
    assert_ok(vram_queue_wait(stage.world.queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_rebuild(stage.world.pool, NULL, &result));
    assert_ok(vram_pool_trim(stage.world.pool, NULL, NULL));
    assert_reader(&stage, pattern_of(5));
    assert_ok(vram_free(stage.blocks[5], stage.world.queue)); /* and reused only after the reader */
    assert_ok(vram_pool_rebuild(stage.world.pool, NULL, &result));
    assert_ok(vram_pool_trim(stage.world.pool, NULL, NULL));
    assert_true(stats_of(stage.world.pool).reserved_bytes > 0);
    assert_reader(&stage, pattern_of(5));
    assert_ok(vram_share_close(stage.share));
    assert_reader(&stage, pattern_of(5));
    stage_close(&stage);
}

/* A block that grows in place gets handles of its own behind the exported ones. */
TEST(growth_leaves_what_is_exported) {
    struct stage stage;
    vram_share *again;
    vram_share_info info = {.size = sizeof info};
    vram_share_token token;
    stage_open(&stage, "sim", VRAM_POOL_SHAREABLE, 4096);
    stage_share(&stage, BLOCKS - 1, 0);
    uint64_t bytes = 2 * stage.granule + 4096;
    assert_ok(vram_resize(stage.blocks[BLOCKS - 1], bytes, stage.world.queue));
    share_export_one(stage.blocks[BLOCKS - 1], 0, &again, &token);
    assert_ok(vram_share_info_get(again, &info));
    assert_int_equal(info.bytes, 3 * stage.granule);
    assert_int_equal(info.handles, 2);
    assert_ok(vram_share_close(again));
    assert_int_equal(stage.part.bytes, 4096);
    assert_reader(&stage, pattern_of(BLOCKS - 1));
    stage_close(&stage);
}

EACH_TEST(share_folder_make, share_folder_end)
