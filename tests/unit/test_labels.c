/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_labels.c: mappings of labels, found again, bounded in number and bytes, and asked for by
 * many threads. Item 22 of the acceptance list.
 */
#include "unit/mem_world.h"
#include "vram/labels.h"

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

TEST(acceptance_22_hit_miss_and_rate) {
    struct counted counted = {0};
    int32_t mapping[4] = {-1, -1, -1, -1};
    size_t mapped = 99;
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

static uint32_t ask(vram_labels *cache, int32_t label) {
    struct counted counted = {0};
    int32_t mapping;
    size_t mapped;
    assert_ok(vram_labels_get(cache, &label, 1, dense, &counted, &mapping, 1, &mapped));
    return counted.calls;
}

/* What was asked for longest ago goes, one at a time: never the whole cache. */
TEST(acceptance_22_bound_and_eviction) {
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

TEST(bytes_are_bounded) {
    struct counted counted = {0};
    static int32_t labels[1000], mapping[1000];
    size_t mapped;
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
