/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_entry_guard.c: the guard of objects that end beside calls on them (base/entry_guard.h): no
 * call enters after the close, and the end waits for all calls inside, up to its deadline.
 */
#include "base/clock.h"
#include "base/entry_guard.h"
#include "base/os/os.h"
#include "rig/rig.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 60 };

#define SECOND UINT64_C(1000000000)

TEST(a_closed_guard_lets_nobody_in) {
    struct vr_entry_guard guard = {0};
    assert_true(vr_entry_enter(&guard));
    assert_true(vr_entry_enter(&guard));
    assert_int_equal(vr_entry_inside(&guard), 2);
    assert_true(vr_entry_close(&guard));
    assert_false(vr_entry_close(&guard));
    assert_false(vr_entry_is_open(&guard));
    assert_false(vr_entry_enter(&guard));
    assert_int_equal(vr_entry_inside(&guard), 2);
    vr_entry_leave(&guard);
    vr_entry_leave(&guard);
    assert_true(vr_entry_wait(&guard, 0, NULL));
    vr_entry_reopen(&guard);
    assert_true(vr_entry_enter(&guard));
    assert_false(vr_entry_close_empty(&guard));
    vr_entry_leave(&guard);
    assert_true(vr_entry_close_empty(&guard));
    assert_false(vr_entry_close_empty(&guard));
    assert_false(vr_entry_enter(&guard));
    vr_entry_close_to_enter(&guard);
    assert_true(vr_entry_is_open(&guard));
    assert_int_equal(vr_entry_inside(&guard), 1);
    vr_entry_leave(&guard);
    assert_int_equal(vr_entry_inside(&guard), 0);
}

TEST(the_wait_ends_at_its_deadline_or_when_it_is_stopped) {
    struct vr_entry_guard guard = {0};
    vr_atomic_bool stop = false;
    assert_true(vr_entry_enter(&guard));
    assert_true(vr_entry_close(&guard));
    uint64_t began = vr_os_now();
    assert_false(vr_entry_wait(&guard, vr_deadline_in(SECOND / 100), &stop));
    assert_true(vr_os_now() - began >= SECOND / 100);
    vr_store(&stop, true, VR_RELEASE);
    assert_false(vr_entry_wait(&guard, UINT64_MAX, &stop));
    vr_entry_leave(&guard);
}

/* What the threads use, and the end takes away. */
struct object {
    struct vr_entry_guard guard;
    uint64_t *memory;
    vr_atomic_u64 entries;
};

static void *use(void *argument) {
    struct object *object = argument;
    while (vr_entry_enter(&object->guard)) {
        vr_fetch_add(&object->entries, 1, VR_RELAXED);
        if (*object->memory != 42) {
            abort();
        }
        vr_entry_leave(&object->guard);
    }
    return NULL;
}

/* The memory is plain, so that ThreadSanitizer and AddressSanitizer see a use beside or after the
   end. */
TEST(the_end_comes_after_everybody_inside) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct object object = {.memory = malloc(sizeof *object.memory)};
        pthread_t threads[THREADS];
        assert_non_null(object.memory);
        *object.memory = 42;
        for (uint32_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, use, &object), 0);
        }
        while (vr_load(&object.entries, VR_RELAXED) < 1 + round % 50) {
            vr_os_yield();
        }
        assert_true(vr_entry_close(&object.guard));
        assert_true(vr_entry_wait(&object.guard, vr_deadline_in(60 * SECOND), NULL));
        *object.memory = 0;
        free(object.memory);
        for (uint32_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        assert_int_equal(vr_entry_inside(&object.guard), 0);
    }
}
