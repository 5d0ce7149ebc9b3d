/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_labels.c: mappings of labels, found again, bounded in number and bytes, and asked for by
 * many threads. Item 22 of the acceptance list.
 */
#include "base/lock.h"
#include "unit/mem_world.h"
#include "vram/labels.h"

#include <pthread.h>
#include <string.h>

static vram_labels *cache_of(uint64_t entries, uint64_t bytes) {
    vram_labels_options options = {.size = sizeof options, .entries = entries, .max_bytes = bytes};
    vram_labels *cache;
    assert_ok(vram_labels_create(&options, &cache));
    return cache;
}

static vram_labels_info info_of(vram_labels *cache) {
    vram_labels_info info = {.size = sizeof info};
    assert_ok(vram_labels_info_get(cache, &info));
    return info;
}

struct counted {
    uint32_t calls;
    vram_status answer;
};

/* A label's mapping is how many different labels came before it. */
static vram_status dense(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                         size_t room, size_t *mapped) {
    struct counted *counted = user;
    int32_t next = 0;
    counted->calls++;
    assert_int_equal(vr_locks_held(), 0);
    for (size_t i = 0; i < count && i < room; i++) {
        size_t j = 0;
        while (labels[j] != labels[i]) {
            j++;
        }
        mapping[i] = j < i ? mapping[j] : next++;
    }
    *mapped = count;
    return counted->answer;
}

static const int32_t three[] = {7, 40, 7}, other[] = {7, 41, 7};

static void acceptance_22_hit_miss_and_rate(void **state) {
    struct counted counted = {0};
    int32_t mapping[4] = {-1, -1, -1, -1};
    size_t mapped = 99;
    (void)state;
    vram_labels *cache = cache_of(0, 0);
    assert_true(info_of(cache).hit_rate == 0.0);
    assert_int_equal(info_of(cache).entries_max, 1000);
    assert_ok(vram_labels_get(cache, three, 3, dense, &counted, mapping, 4, &mapped));
    assert_int_equal(mapped, 3);
    assert_int_equal(mapping[1], 1);
    memset(mapping, 0xff, sizeof mapping);
    assert_ok(vram_labels_get(cache, three, 3, dense, &counted, mapping, 3, &mapped));
    assert_int_equal(counted.calls, 1);
    assert_int_equal(mapping[0], 0);
    assert_int_equal(mapping[1], 1);
    assert_int_equal(mapping[2], 0);
    assert_int_equal(mapping[3], -1);
    assert_ok(vram_labels_get(cache, other, 3, dense, &counted, mapping, 4, &mapped));
    assert_ok(vram_labels_get(cache, three, 2, dense, &counted, mapping, 4, &mapped)); /* shorter */
    assert_int_equal(counted.calls, 3);
    int32_t moved[3];
    memcpy(moved, three, sizeof moved); /* found by contents, not by place */
    assert_ok(vram_labels_get(cache, moved, 3, dense, &counted, mapping, 4, &mapped));
    assert_int_equal(counted.calls, 3);
    vram_labels_info info = info_of(cache);
    assert_int_equal(info.hits, 2);
    assert_int_equal(info.misses, 3);
    assert_true(info.hit_rate > 0.3999 && info.hit_rate < 0.4001);
    assert_int_equal(info.entries, 3);
    assert_ok(vram_labels_destroy(cache));
    assert_int_equal(vram_labels_destroy(cache), VRAM_ERR_STALE);
    assert_ok(vram_labels_destroy(NULL));
}

static void acceptance_22_an_empty_key_is_a_key(void **state) {
    struct counted counted = {0};
    size_t mapped = 99;
    (void)state;
    vram_labels *cache = cache_of(0, 0);
    assert_ok(vram_labels_get(cache, NULL, 0, dense, &counted, NULL, 0, &mapped));
    assert_int_equal(mapped, 0);
    assert_ok(vram_labels_get(cache, three, 0, dense, &counted, NULL, 0, &mapped));
    assert_int_equal(counted.calls, 1);
    assert_int_equal(info_of(cache).entries, 1);
    assert_int_equal(info_of(cache).hits, 1);
    assert_ok(vram_labels_destroy(cache));
}

static uint32_t ask(vram_labels *cache, int32_t label) {
    struct counted counted = {0};
    int32_t mapping;
    size_t mapped;
    assert_ok(vram_labels_get(cache, &label, 1, dense, &counted, &mapping, 1, &mapped));
    return counted.calls;
}

/* What was asked for longest ago goes, one at a time: never the whole cache. */
static void acceptance_22_bound_and_eviction(void **state) {
    (void)state;
    vram_labels *cache = cache_of(100, 0);
    for (int32_t i = 0; i < 100; i++) {
        assert_int_equal(ask(cache, i), 1);
    }
    assert_int_equal(ask(cache, 0), 0); /* now the youngest */
    assert_int_equal(ask(cache, 100), 1);
    assert_int_equal(info_of(cache).entries, 100);
    assert_int_equal(info_of(cache).evictions, 1);
    assert_int_equal(ask(cache, 0), 0);
    for (int32_t i = 2; i < 101; i++) {
        assert_int_equal(ask(cache, i), 0);
    }
    assert_int_equal(ask(cache, 1), 1);
    uint64_t held = info_of(cache).bytes, bytes;
    assert_ok(vram_labels_clear(cache, &bytes));
    assert_int_equal(bytes, held);
    assert_int_equal(info_of(cache).bytes, 0);
    assert_int_equal(info_of(cache).entries, 0);
    assert_int_equal(ask(cache, 5), 1);
    assert_ok(vram_labels_destroy(cache));
}

static void bytes_are_bounded(void **state) {
    struct counted counted = {0};
    static int32_t labels[1000], mapping[1000];
    size_t mapped;
    (void)state;
    vram_labels *cache = cache_of(0, 4096);
    for (int32_t i = 0; i < 1000; i++) {
        assert_int_equal(ask(cache, i), 1);
        assert_true(info_of(cache).bytes <= 4096);
    }
    assert_true(info_of(cache).evictions > 0);
    uint64_t entries = info_of(cache).entries;
    /* 8 000 bytes do not fit: given all the same, and nothing goes for it. */
    assert_ok(vram_labels_get(cache, labels, 1000, dense, &counted, mapping, 1000, &mapped));
    assert_int_equal(mapped, 1000);
    assert_int_equal(info_of(cache).unkept, 1);
    assert_int_equal(info_of(cache).entries, entries);
    assert_ok(vram_labels_destroy(cache));
    cache = cache_of(0, 1); /* nothing fits */
    assert_int_equal(ask(cache, 1), 1);
    assert_int_equal(ask(cache, 1), 1);
    assert_ok(vram_labels_destroy(cache));
}

static vram_status liar(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                        size_t room, size_t *mapped) {
    (void)user, (void)labels, (void)count, (void)mapping;
    *mapped = room + 1;
    return VRAM_OK;
}

static void bad_input(void **state) {
    struct counted counted = {0};
    vram_labels_options old = {.size = 1};
    vram_labels_info info = {.size = 1};
    int32_t mapping[3];
    size_t mapped = 99;
    vram_labels *cache;
    (void)state;
    assert_int_equal(vram_labels_create(NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_create(&old, &cache), VRAM_ERR_INVALID);
    assert_ok(vram_labels_create(NULL, &cache));
    assert_int_equal(vram_labels_get(cache, NULL, 1, dense, &counted, mapping, 3, &mapped),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_get(cache, three, 3, NULL, NULL, mapping, 3, &mapped),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_get(cache, three, 3, dense, &counted, NULL, 3, &mapped),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_get(cache, three, 3, dense, &counted, mapping, 3, NULL),
                     VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_get(cache, three, 3, liar, NULL, mapping, 3, &mapped),
                     VRAM_ERR_CORRUPT);
    counted.answer = VRAM_ERR_DEVICE_LOST;
    assert_int_equal(vram_labels_get(cache, three, 3, dense, &counted, mapping, 3, &mapped),
                     VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_LOST);
    assert_int_equal(info_of(cache).entries, 0); /* what failed is not kept */
    assert_int_equal(mapped, 99);
    counted.answer = VRAM_OK;
    assert_ok(vram_labels_get(cache, three, 3, dense, &counted, mapping, 3, &mapped));
    mapped = 99;
    assert_int_equal(vram_labels_get(cache, three, 3, dense, &counted, mapping, 2, &mapped),
                     VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "3 numbers"));
    assert_int_equal(mapped, 99);
    assert_int_equal(vram_labels_info_get(cache, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_labels_info_get(cache, &info), VRAM_ERR_INVALID);
    assert_ok(vram_labels_clear(cache, NULL));
    assert_ok(vram_labels_destroy(cache));
    assert_int_equal(vram_labels_clear(cache, NULL), VRAM_ERR_STALE);
}

/* Without host memory a mapping is given and not kept; nothing is lost. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        bool struck = true;
        for (uint64_t nth = 1; struck; nth++) {
            vram_labels *cache = NULL;
            uint64_t before = vr_mem_live_blocks();
            vr_mem_fail_at(nth, for_ever);
            vram_status status = vram_labels_create(NULL, &cache);
            for (int32_t i = 0; status == VRAM_OK && i < 200; i++) {
                assert_true(ask(cache, i) == 1);
            }
            struck = vr_mem_failed() > 0;
            vr_mem_fail_at(0, false);
            if (status == VRAM_OK) {
                assert_int_equal(info_of(cache).entries + info_of(cache).unkept, 200);
            } else {
                assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
            }
            assert_ok(vram_labels_destroy(cache));
            assert_int_equal(vr_mem_live_blocks(), before);
            assert_true(nth < 300);
        }
    }
}

static void *asks_much(void *argument) {
    for (int32_t i = 0; i < 3000; i++) {
        struct counted counted = {0};
        int32_t labels[2] = {i % 37, i % 11}, mapping[2];
        size_t mapped;
        assert_ok(vram_labels_get(argument, labels, 2, dense, &counted, mapping, 2, &mapped));
        assert_int_equal(mapped, 2);
        assert_int_equal(mapping[1], labels[0] != labels[1]);
        if (i % 1000 == 0) {
            assert_ok(vram_labels_clear(argument, NULL));
        }
    }
    return NULL;
}

static void threads_share_a_cache(void **state) {
    pthread_t threads[4];
    (void)state;
    vram_labels *cache = cache_of(50, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, asks_much, cache), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    vram_labels_info info = info_of(cache);
    assert_int_equal(info.hits + info.misses, 12000);
    assert_true(info.entries <= 50);
    assert_ok(vram_labels_destroy(cache));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acceptance_22_hit_miss_and_rate),
        cmocka_unit_test(acceptance_22_an_empty_key_is_a_key),
        cmocka_unit_test(acceptance_22_bound_and_eviction),
        cmocka_unit_test(bytes_are_bounded),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(threads_share_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
