/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_radix.c: the address map against a naive one, and without memory. Readers beside a writer
 * are the model checker's (scenario_radix.c).
 */
#include "base/list.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/radix.h"
#include "base/size.h"
#include "rig/rig.h"

#include <errno.h>

#define PAGE      VR_RADIX_PAGE
#define SYNTHETIC UINT64_C(0x5a00000000000000)

/* A range as the naive map and the readers know it; both fields are 0 when it is not mapped. */
struct record {
    vr_atomic_u64 base;
    vr_atomic_u64 bytes;
};

static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void insert(struct vr_radix *radix, uint64_t base, uint64_t bytes, void *record) {
    assert_int_equal(vr_radix_insert(radix, base, bytes, record), VRAM_OK);
}

static void erase(struct vr_radix *radix, uint64_t base, uint64_t bytes, void *record) {
    assert_int_equal(vr_radix_remove(radix, base, bytes, record), VRAM_OK);
}

/* ---------------------------------------------------------------- single cases */

static struct record a, b;

TEST(nothing_is_found_in_an_empty_map) {
    static struct vr_radix radix = VR_RADIX_INIT;
    assert_null(vr_radix_find(&radix, 0));
    assert_null(vr_radix_find(&radix, UINT64_MAX));
    assert_int_equal(vr_radix_remove(&radix, 0, PAGE, &a), VRAM_ERR_INVALID);
}

TEST(a_range_is_found_from_end_to_end) {
    static struct vr_radix radix = VR_RADIX_INIT;
    static const struct {
        uint64_t base, bytes;
    } ranges[] = {
        {PAGE, PAGE},
        {0, PAGE},
        {3 * PAGE, 1000 * PAGE},
        {2 * VR_MIB, 2 * VR_MIB},
        {2 * VR_MIB - PAGE, 2 * VR_MIB},
        {VR_GIB - PAGE, 2 * PAGE},
        {UINT64_C(0x7f0000000000), 80 * VR_GIB},
        {UINT64_C(0x7f0000201000), 80 * VR_GIB + 5 * PAGE},
        {SYNTHETIC, VR_GIB},
        {SYNTHETIC - 7 * PAGE, 20 * PAGE},
        {UINT64_MAX - PAGE + 1, PAGE},
        {UINT64_C(1) << 63, UINT64_C(1) << 63},
        {0, UINT64_MAX - PAGE + 1},
        {UINT64_C(1) << 57, UINT64_C(1) << 57},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        uint64_t base = ranges[i].base, bytes = ranges[i].bytes, last = base + (bytes - 1);
        uint64_t nodes = vr_radix_nodes();
        insert(&radix, base, bytes, &a);
        assert_ptr_equal(vr_radix_find(&radix, base), &a);
        assert_ptr_equal(vr_radix_find(&radix, last), &a);
        assert_ptr_equal(vr_radix_find(&radix, base + bytes / 2 + 1), &a);
        assert_true(base == 0 || vr_radix_find(&radix, base - 1) == NULL);
        assert_true(last == UINT64_MAX || vr_radix_find(&radix, last + 1) == NULL);
        assert_true(vr_radix_nodes() <= nodes + 11); /* two edges, five levels, the root */
        erase(&radix, base, bytes, &a);
        assert_null(vr_radix_find(&radix, base));
        assert_null(vr_radix_find(&radix, last));
        assert_true(vr_radix_nodes() == nodes || i == 0); /* the first made the root */
    }
}

TEST(what_is_taken_is_refused) {
    static struct vr_radix radix = VR_RADIX_INIT;
    insert(&radix, 4 * VR_MIB, 2 * VR_MIB, &a);
    insert(&radix, 8 * VR_MIB, PAGE, &a);
    uint64_t nodes = vr_radix_nodes();
    static const struct {
        uint64_t base, bytes;
    } taken[] = {
        {4 * VR_MIB, 2 * VR_MIB},
        {4 * VR_MIB, PAGE},
        {6 * VR_MIB - PAGE, PAGE},
        {4 * VR_MIB - PAGE, 2 * PAGE},
        {0, VR_GIB},
        {8 * VR_MIB, 2 * VR_MIB},
        {8 * VR_MIB - 7 * PAGE, VR_MIB},
        {0, UINT64_MAX - PAGE + 1},
        {5 * VR_MIB, 10 * VR_GIB},
    };
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_int_equal(vr_radix_insert(&radix, taken[i].base, taken[i].bytes, &b), VRAM_ERR_BUSY);
        assert_int_equal(vram_error_get()->status, VRAM_ERR_BUSY);
        assert_int_equal(vr_radix_nodes(), nodes);
        assert_null(vr_radix_find(&radix, 4 * VR_MIB - 1));
        assert_null(vr_radix_find(&radix, 6 * VR_MIB));
    }
    erase(&radix, 4 * VR_MIB, 2 * VR_MIB, &a);
    erase(&radix, 8 * VR_MIB, PAGE, &a);
}

TEST(only_the_very_range_is_removed) {
    static struct vr_radix radix = VR_RADIX_INIT;
    uint64_t base = 4 * VR_MIB - 3 * PAGE, bytes = 2 * VR_MIB + 6 * PAGE; /* edges and a middle */
    insert(&radix, base, bytes, &a);
    insert(&radix, base + bytes, PAGE, &b);
    static const struct {
        int64_t front, back; /* pages off either end */
    } wrong[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {3, 3}, {-1, 1}, {2, 0}, {500, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t first = base + (uint64_t)wrong[i].front * PAGE;
        uint64_t end = base + bytes - (uint64_t)wrong[i].back * PAGE;
        assert_int_equal(vr_radix_remove(&radix, first, end - first, &a), VRAM_ERR_INVALID);
    }
    assert_int_equal(vr_radix_remove(&radix, base, bytes, &b), VRAM_ERR_INVALID);
    assert_int_equal(vr_radix_remove(&radix, 0, UINT64_MAX - PAGE + 1, &a), VRAM_ERR_INVALID);
    assert_int_equal(vr_radix_remove(&radix, SYNTHETIC, PAGE, &a), VRAM_ERR_INVALID);
    for (uint64_t at = base; at < base + bytes; at += PAGE) {
        assert_ptr_equal(vr_radix_find(&radix, at), &a);
    }
    erase(&radix, base, bytes, &a);
    assert_int_equal(vr_radix_remove(&radix, base, bytes, &a), VRAM_ERR_INVALID);
    erase(&radix, base + bytes, PAGE, &b);
}

TEST(what_is_no_range_is_refused) {
    static struct vr_radix radix = VR_RADIX_INIT;
    static const struct {
        uint64_t base, bytes;
    } wrong[] = {
        {0, 0},
        {1, PAGE},
        {PAGE, 1},
        {PAGE, PAGE + 1},
        {UINT64_MAX - PAGE + 1, 2 * PAGE},
        {2 * PAGE, UINT64_MAX - PAGE + 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t base = wrong[i].base, bytes = wrong[i].bytes;
        assert_int_equal(vr_radix_insert(&radix, base, bytes, &a), VRAM_ERR_INVALID);
        assert_int_equal(vr_radix_remove(&radix, base, bytes, &a), VRAM_ERR_INVALID);
    }
    assert_int_equal(vr_radix_insert(&radix, 0, PAGE, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vr_radix_insert(&radix, 0, PAGE, (char *)&a + 1), VRAM_ERR_INVALID);
    assert_int_equal(vr_radix_remove(&radix, 0, PAGE, NULL), VRAM_ERR_INVALID);
}

/* ----------------------------------------------------------------------- model */

#define RANGES 48

/* Places where levels meet, so that ranges straddle the borders of each. */
static const uint64_t centres[] = {
    0,
    2 * VR_MIB,
    VR_GIB,
    512 * VR_GIB,
    UINT64_C(1) << 48,
    UINT64_C(1) << 57,
    SYNTHETIC,
    UINT64_MAX - 64 * VR_MIB + 1,
};

/* A range near some centre, of some size; false when it would wrap. */
static bool random_range(uint64_t *seed, uint64_t *base, uint64_t *bytes) {
    static const uint64_t sizes[] = {4 * PAGE, 600 * PAGE, 3 * VR_MIB, 2 * VR_GIB};
    uint64_t unit = random_next(seed) % 3 ? PAGE : 2 * VR_MIB;
    uint64_t size = sizes[random_next(seed) % 4];
    uint64_t centre = centres[random_next(seed) % (sizeof centres / sizeof centres[0])];
    uint64_t back = random_next(seed) % (16 * VR_MIB);
    *base = (centre > back ? centre - back : back) / unit * unit;
    *bytes = (random_next(seed) % size + unit) / unit * unit;
    return *base + (*bytes - 1) >= *base;
}

static struct record *model_find(struct record *records, uint64_t addr) {
    for (int i = 0; i < RANGES; i++) {
        if (records[i].bytes && vr_inside(addr, 1, records[i].base, records[i].bytes)) {
            return &records[i];
        }
    }
    return NULL;
}

static bool model_taken(const struct record *records, uint64_t base, uint64_t bytes) {
    for (int i = 0; i < RANGES; i++) {
        if (vr_overlap(base, bytes, records[i].base, records[i].bytes)) {
            return true;
        }
    }
    return false;
}

/* Every edge of every range, and some addresses between. */
static void compare(struct vr_radix *radix, struct record *records, uint64_t *seed) {
    for (int i = 0; i < RANGES; i++) {
        uint64_t base = records[i].base, bytes = records[i].bytes;
        const uint64_t looks[] = {base - 1, base, base + bytes - 1, base + bytes,
                                  base + random_next(seed) % (bytes + VR_GIB)};
        for (size_t k = 0; k < sizeof looks / sizeof looks[0]; k++) {
            assert_ptr_equal(vr_radix_find(radix, looks[k]), model_find(records, looks[k]));
        }
    }
}

TEST(it_agrees_with_a_naive_map) {
    static struct vr_radix radix = VR_RADIX_INIT;
    static struct record records[RANGES];
    uint64_t seed = 88172645463325252u, done = 0, busy = 0;
    insert(&radix, UINT64_MAX - PAGE + 1, PAGE, &a); /* makes the root */
    erase(&radix, UINT64_MAX - PAGE + 1, PAGE, &a);
    uint64_t nodes = vr_radix_nodes();
    for (int step = 0; step < 4000; step++) {
        struct record *record = &records[random_next(&seed) % RANGES];
        uint64_t base, bytes;
        if (record->bytes) {
            erase(&radix, record->base, record->bytes, record);
            record->base = record->bytes = 0;
        } else if (random_range(&seed, &base, &bytes)) {
            bool taken = model_taken(records, base, bytes);
            vram_status status = vr_radix_insert(&radix, base, bytes, record);
            assert_int_equal(status, taken ? VRAM_ERR_BUSY : VRAM_OK);
            record->base = taken ? 0 : base;
            record->bytes = taken ? 0 : bytes;
            busy += taken;
            done += !taken;
        }
        if (step % 20 == 0) {
            compare(&radix, records, &seed);
        }
    }
    assert_true(done > 500 && busy > 50);
    for (int i = 0; i < RANGES; i++) {
        if (records[i].bytes) {
            erase(&radix, records[i].base, records[i].bytes, &records[i]);
        }
    }
    assert_int_equal(vr_radix_nodes(), nodes);
}

/* ------------------------------------------------------------- want of memory */

/* With no more pages to be had, insertions succeed while given-back nodes last, then fail whole;
   removals go on all the time. */
TEST(want_of_memory_changes_nothing) {
    static struct vr_radix radix = VR_RADIX_INIT;
    static const uint64_t step = UINT64_C(1) << 48; /* each in nodes of its own */
    uint64_t live = vr_mem_live_bytes();
    insert(&radix, PAGE, PAGE, &a);
    vr_os_fail_at(1, true, ENOMEM);
    uint64_t count = 1, nodes = vr_radix_nodes();
    while (vr_radix_insert(&radix, count * step - PAGE, 2 * PAGE, &b) == VRAM_OK) {
        count++;
        nodes = vr_radix_nodes();
        assert_true(count < 1000);
    }
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, VRAM_ERR_HOST_MEMORY);
    assert_string_equal(error->operation, "vr_radix_insert");
    assert_int_equal(vr_radix_nodes(), nodes);
    assert_null(vr_radix_find(&radix, count * step));
    assert_null(vr_radix_find(&radix, count * step - PAGE));
    for (uint64_t i = 1; i < count; i++) {
        assert_ptr_equal(vr_radix_find(&radix, i * step), &b);
        erase(&radix, i * step - PAGE, 2 * PAGE, &b);
    }
    assert_true(count == 1 || vr_radix_insert(&radix, step - PAGE, 2 * PAGE, &b) == VRAM_OK);
    vr_os_fail_at(0, false, 0);
    if (count > 1) {
        erase(&radix, step - PAGE, 2 * PAGE, &b);
    }
    insert(&radix, count * step - PAGE, 2 * PAGE, &b);
    erase(&radix, count * step - PAGE, 2 * PAGE, &b);
    erase(&radix, PAGE, PAGE, &a);
    assert_int_equal(vr_mem_live_bytes(), live);
}

/* ------------------------------------------------------------ the intrusive list */

struct item {
    int value;
    struct vr_link link;
};

static struct item *item_of(struct vr_link *link) {
    return link ? VR_CONTAINER(link, struct item, link) : NULL;
}

static int sum_in_order(const struct vr_list *list) {
    int sum = 0;
    for (struct vr_link *link = vr_list_first(list); link; link = vr_list_next(list, link)) {
        sum = sum * 10 + item_of(link)->value;
    }
    return sum;
}

TEST(any_item_can_go) {
    static const int left[4] = {234, 134, 124, 123};
    for (int gone = 0; gone < 4; gone++) {
        struct vr_list list;
        struct item items[4] = {{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
        vr_list_init(&list);
        for (int i = 0; i < 4; i++) {
            assert_false(vr_link_linked(&items[i].link));
            vr_list_append(&list, &items[i].link);
        }
        assert_int_equal(sum_in_order(&list), 1234);
        vr_link_remove(&items[gone].link);
        vr_link_remove(&items[gone].link); /* twice is once */
        assert_false(vr_link_linked(&items[gone].link));
        assert_int_equal(sum_in_order(&list), left[gone]);
        vr_list_append(&list, &items[gone].link); /* and comes back at the end */
        assert_int_equal(sum_in_order(&list), left[gone] * 10 + items[gone].value);
        for (int i = 0; i < 4; i++) {
            vr_link_remove(&items[i].link);
        }
        assert_true(vr_list_empty(&list));
    }
}
