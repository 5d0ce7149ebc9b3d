/* SPDX-License-Identifier: Apache-2.0 */
/* test_stable.c: memory that stays of one type. */
#include "base/atomic.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/stable.h"
#include "base/window.h"
#include "rig/rig.h"

#include <errno.h>
#include <string.h>

static bool all_zero(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i]) {
            return false;
        }
    }
    return true;
}

struct item {
    uint64_t undefined;
    uint64_t generation;
    char rest[100];
};

TEST(things_are_reused_and_keep_their_contents) {
    static struct vr_stable items = VR_STABLE_INIT(struct item);
    uint64_t before = vr_mem_live_bytes();
    struct item *one = vr_stable_take(&items, "test");
    assert_non_null(one);
    assert_true(all_zero(one, sizeof *one));
    struct item *two = vr_stable_take(&items, "test");
    assert_true(two != one);
    one->generation = 41;
    vr_stable_give(&items, one);
    assert_int_equal(one->generation, 41); /* still to be looked at */
    struct item *again = vr_stable_take(&items, "test");
    assert_ptr_equal(again, one);
    assert_int_equal(again->generation, 41);
    assert_int_equal(vr_mem_live_bytes(), before); /* comes from the system, not from malloc */
    assert_true(items.page_bytes > 0);
    assert_int_equal(items.page_bytes % vr_os_page_bytes(), 0);
}

/* Enough for several blocks; none is handed out twice, and given back they do not grow it. */
TEST(many_things_are_apart) {
    enum { COUNT = 10000 };
    static struct vr_stable items = VR_STABLE_INIT(struct item);
    static struct item *all[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            all[i] = vr_stable_take(&items, "test");
            assert_non_null(all[i]);
            memset(all[i], 0xee, sizeof *all[i]);
            all[i]->generation = (uint64_t)i;
        }
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(all[i]->generation, i);
        }
        uint64_t bytes = items.page_bytes;
        assert_true(bytes >= COUNT * sizeof(struct item));
        assert_true(bytes < COUNT * sizeof(struct item) + VR_MIB);
        for (int i = 0; i < COUNT; i++) {
            vr_stable_give(&items, all[i]);
        }
    }
}

TEST(pages_may_be_refused) {
    static struct vr_stable items = VR_STABLE_INIT(struct item);
    vr_os_fail_at(1, false, EAGAIN);
    assert_null(vr_stable_take(&items, "the operation"));
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, VRAM_ERR_HOST_MEMORY);
    assert_string_equal(error->operation, "the operation");
    assert_int_equal(error->native_code, EAGAIN);
    assert_non_null(strstr(error->text, "mmap"));
    assert_non_null(vr_stable_take(&items, "the operation"));
    vr_os_fail_at(0, false, 0);
    static struct vr_stable absurd = {.lock = VR_MUTEX_INIT(VR_RANK_STABLE),
                                      .object_bytes = SIZE_MAX};
    assert_null(vr_stable_take(&absurd, "test"));
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
}

static struct vr_stable shared = VR_STABLE_INIT(struct item);

/* Whoever holds a thing holds it alone: the owner's mark stays. */
static void take_and_give(void *argument) {
    vr_atomic_u32 *wrong = argument;
    uint64_t mark = (uintptr_t)&mark;
    for (int i = 0; i < 5000; i++) {
        struct item *one = vr_stable_take(&shared, "test");
        struct item *two = vr_stable_take(&shared, "test");
        one->generation = mark;
        two->generation = mark + 1;
        vr_os_pause();
        if (one->generation != mark || two->generation != mark + 1) {
            vr_fetch_add(wrong, 1, VR_RELAXED);
        }
        vr_stable_give(&shared, one);
        vr_stable_give(&shared, two);
    }
}

TEST(threads_never_share_a_thing) {
    struct vr_thread threads[3];
    vr_atomic_u32 wrong = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vr_os_thread_start(&threads[i], "test", take_and_give, &wrong), VRAM_OK);
    }
    for (int i = 0; i < 3; i++) {
        vr_os_thread_join(&threads[i]);
    }
    assert_int_equal(vr_load(&wrong, VR_RELAXED), 0);
}

/* ---------------------------------------------- addresses that stand for objects */

enum { GRANULE = 64 << 10 };

TEST(an_object_is_found_from_end_to_end) {
    int object, other;
    vram_addr addr, next;
    uint64_t offset = 77;
    assert_int_equal(vr_window_open(3 * GRANULE, GRANULE, &object, "test", &addr), VRAM_OK);
    assert_int_equal(vr_window_open(GRANULE, GRANULE, &other, "test", &next), VRAM_OK);
    assert_int_equal(addr % GRANULE, 0);
    assert_int_equal(next % GRANULE, 0);
    assert_ptr_equal(vr_window_find(addr, &offset), &object);
    assert_int_equal(offset, 0);
    assert_ptr_equal(vr_window_find(addr + 3 * GRANULE - 1, &offset), &object);
    assert_int_equal(offset, 3 * GRANULE - 1);
    assert_ptr_equal(vr_window_find(next + 5, &offset), &other);
    assert_int_equal(offset, 5);
    vr_window_close(addr, 3 * GRANULE);
    offset = 77;
    assert_null(vr_window_find(addr, &offset));
    assert_int_equal(offset, 77);
    assert_ptr_equal(vr_window_find(next, &offset), &other);
    vr_window_close(next, GRANULE);
    vr_window_close(next, GRANULE); /* nothing is there any more */
    assert_null(vr_window_find(0, &offset));
    assert_null(vr_window_find(UINT64_MAX, &offset));
}

/* The n-th system call fails, until none is left: nothing is found, nothing is lost. */
TEST_FIRST(refusals_leave_nothing) {
    int object;
    vram_addr addr = 7;
    uint64_t failed = 1;
    for (uint64_t nth = 1; failed; nth++) {
        vr_os_fail_at(nth, false, ENOMEM);
        vram_status status = vr_window_open(GRANULE, GRANULE, &object, "test", &addr);
        failed = vr_os_failed();
        vr_os_fail_at(0, false, 0);
        assert_int_equal(status, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
        assert_true(failed ? addr == 7 : addr != 7);
    }
    vr_window_close(addr, GRANULE);
    assert_int_equal(vr_window_open(UINT64_C(1) << 62, GRANULE, &object, "test", &addr),
                     VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vr_mem_live_bytes(), 0);
}

/* Two threads open and close; a third looks at an address that is one thread's the whole time. */
static vr_atomic_bool stop;

static void churn(void *argument) {
    while (!vr_load(&stop, VR_RELAXED)) {
        vram_addr addr;
        uint64_t offset;
        assert_int_equal(vr_window_open(GRANULE, GRANULE, argument, "test", &addr), VRAM_OK);
        assert_ptr_equal(vr_window_find(addr + 1, &offset), argument);
        vr_window_close(addr, GRANULE);
    }
}

TEST(readers_are_not_disturbed) {
    struct vr_thread threads[2];
    int mine, theirs[2];
    vram_addr addr;
    uint64_t offset;
    assert_int_equal(vr_window_open(GRANULE, GRANULE, &mine, "test", &addr), VRAM_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vr_os_thread_start(&threads[i], "churn", churn, &theirs[i]), VRAM_OK);
    }
    for (int i = 0; i < 100000; i++) {
        assert_ptr_equal(vr_window_find(addr + 9, &offset), &mine);
        assert_int_equal(offset, 9);
    }
    vr_store(&stop, true, VR_RELAXED);
    for (int i = 0; i < 2; i++) {
        vr_os_thread_join(&threads[i]);
    }
    vr_window_close(addr, GRANULE);
}
