/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sleep_copy.c: contents that several threads copy to the host and back, through slots and
 * without them: every word is compared, for small and large parts; any call of any
 * thread may fail; and the host's memory is what bounds a sleep.
 */
#include "unit/fault_step.h"
#include "unit/sleep_world.h"

enum { FILLED = 4 }; /* blocks of a large pool */

/* ThreadSanitizer takes long for large copies and for many runs, and the threads do the same for
   either kind of contents, and for calls that fail for ever. */
#ifdef __SANITIZE_THREAD__
enum { LARGE_LAST = VRAM_SLEEP_HOST, TURNS = 2 };
#else
enum { LARGE_LAST = VRAM_SLEEP_PINNED, TURNS = 4 };
#endif

/* Blocks whose sizes are no multiples of a chunk or of a piece. */
static void fill_words(struct rig *rig, uint64_t bytes) {
    for (uint32_t i = 0; i < FILLED; i++) {
        vram_alloc_options wish = {.size = sizeof wish, .tag = i % 2 ? "odd" : "even"};
        assert_ok(vram_alloc_with(rig->pool, bytes + i * 512, rig->queue, &wish, &rig->addrs[i]));
        for (uint64_t at = 0; at < bytes; at += 64 * KIB) {
            assert_ok(vram_queue_fill(rig->queue, rig->addrs[i] + at, (uint32_t)(at / 64 * 4 + i),
                                      4, 64 * KIB));
        }
    }
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
}

static void expect_words(const struct rig *rig, uint64_t bytes) {
    static uint32_t words[16384];
    for (uint32_t i = 0; i < FILLED; i++) {
        for (uint64_t at = 0; at < bytes; at += sizeof words) {
            assert_ok(vram_queue_download(rig->queue, words, rig->addrs[i] + at, sizeof words));
            assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
            for (size_t j = 0; j < sizeof words / sizeof words[0]; j += 1021) {
                assert_int_equal(words[j], (uint32_t)(at / 64 * 4 + i));
            }
        }
    }
}

/* Tags wake one after the other, and each gives its host memory back. */
static void sleep_and_wake(const char *threads, const char *sim, uint64_t bytes, int last) {
    assert_ok(vram_option_set("staging_threads", threads));
    for (int contents = VRAM_SLEEP_HOST; contents <= last; contents++) {
        struct rig rig = rig_make(sim, 0);
        fill_words(&rig, bytes);
        assert_ok(put_to_sleep(&rig, (vram_sleep_contents)contents, NULL));
        uint64_t host = stats_of(rig.pool).asleep_host_bytes;
        assert_true(host >= FILLED * bytes && host <= stats_of(rig.pool).asleep_bytes);
        assert_ok(vram_pool_wake(rig.pool, "odd"));
        assert_true(stats_of(rig.pool).asleep_host_bytes <= host / 2 + MIB);
        if (stats_of(rig.pool).asleep_bytes) {
            assert_ok(vram_pool_wake(rig.pool, NULL));
        }
        assert_int_equal(stats_of(rig.pool).asleep_host_bytes, 0);
        expect_words(&rig, bytes);
        rig_end(&rig, true);
    }
}

TEST(one_part) {
    for (int threads = 1; threads < 6; threads++) {
        sleep_and_wake((const char[]){(char)('0' + threads), 0}, "memory=8M,granule=64K,lag=3", MIB,
                       VRAM_SLEEP_PINNED);
    }
}

/* Parts of more than a chunk, and more than one. */
TEST(large_parts) {
    sleep_and_wake("3", "memory=1G", 68 * MIB, LARGE_LAST);
}

EACH_TEST(NULL, nothing_left)
