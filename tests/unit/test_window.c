/* SPDX-License-Identifier: Apache-2.0 */
/* test_window.c: addresses that stand for objects, found from end to end, without memory, and
   while others open and close theirs. */
#include "base/memory.h"
#include "base/os/os.h"
#include "base/window.h"

#include <errno.h>

#include "base/atomic.h"
#include "rig/rig.h"

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
