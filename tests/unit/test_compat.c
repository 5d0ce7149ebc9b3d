/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compat.c: the deprecated names over the pool, from many threads. Items 14 and 28 of the
 * acceptance list; that a compiler warns of them is tests/consumers/wrappers.sh's to see.
 */
#include "unit/mem_world.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "vram/compat.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 16, ROUNDS = 2000, KEPT = 8 };

struct crowd {
    vram_pool *pool;
    atomic_int failed;
};

/* Each thread writes its own mark into what it has: two owners of one block would see each
   other's. */
static void *acquire_and_release(void *argument) {
    struct crowd *crowd = argument;
    vram_addr kept[KEPT] = {0};
    uint64_t self = vr_os_thread_number();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        vram_addr *place = &kept[i % KEPT];
        bool good = !*place || *(uint64_t *)(uintptr_t)*place == self;
        good = vram_release(crowd->pool, *place) == VRAM_OK && good;
        good = vram_acquire(crowd->pool, 600 + i * 37 % 9000, place) == VRAM_OK && good;
        if (good) {
            *(uint64_t *)(uintptr_t)*place = self;
        }
        atomic_fetch_add(&crowd->failed, !good);
    }
    for (int i = 0; i < KEPT; i++) {
        atomic_fetch_add(&crowd->failed, vram_release(crowd->pool, kept[i]) != VRAM_OK);
    }
    return NULL;
}

TEST(acceptance_14_acquire_and_release_from_16_threads) {
    pthread_t threads[THREADS];
    struct rig rig = rig_make("host", NULL);
    struct crowd crowd = {.pool = pool_of(&rig, 0)};
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, acquire_and_release, &crowd), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&crowd.failed), 0);
    vram_pool_stats stats = stats_of(crowd.pool);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.allocs, THREADS * ROUNDS);
    assert_int_equal(stats.frees, THREADS * ROUNDS);
    vram_context_destroy(rig.context);
}

static char told[1024];

static void on_warning(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}

/* What is live when its pool ends is told, to the byte; a pool with nothing outstanding is
   silent. */
TEST(acceptance_14_outstanding_blocks_are_reported) {
    assert_ok(vram_option_set("tracking", "on"));
    for (int outstanding = 0; outstanding < 2; outstanding++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, 0);
        vram_buffer *buffer;
        vram_addr first, second;
        told[0] = 0;
        vram_log_set(on_warning, NULL, VRAM_LOG_WARN);
        assert_ok(vram_acquire(pool, 600, &first));
        assert_ok(vram_acquire(pool, 1000, &second));
        assert_ok(vram_get_buffer(pool, 100, VRAM_PRECISION_FP32, &buffer));
        assert_ok(vram_release(pool, second));
        if (!outstanding) {
            assert_ok(vram_release(pool, first));
            assert_ok(vram_return_buffer(buffer));
        }
        assert_ok(vram_pool_destroy(pool));
        assert_int_equal(strstr(told, "1000 bytes in 2 blocks were never freed") != NULL,
                         outstanding);
        assert_int_equal(told[0] != 0, outstanding);
        rig_end_clean(&rig);
    }
}
