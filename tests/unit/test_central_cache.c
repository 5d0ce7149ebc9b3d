/* SPDX-License-Identifier: Apache-2.0 */
/* test_central_cache.c: the stacks of the central cache, on blocks of no space. */
#include "base/memory.h"
#include "core/cache/central_cache.h"
#include "vram/vram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COUNT = 3000, BYTES = 1024 };

static struct vr_block blocks[COUNT];
static struct vr_block *pointers[COUNT];
static struct vr_central_cache *central;

static const struct vr_queue_id queue = {0x4711}, other = {0x4712};

static int begin(void **state) {
    (void)state;
    central = vr_mem_alloc(1, sizeof *central, "test");
    assert_non_null(central);
    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = (struct vr_block){.state = VR_BLOCK_CACHED, .bytes = BYTES};
        pointers[i] = &blocks[i];
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    vr_central_free(central);
    assert_int_equal(central->table_bytes, 0);
    vr_mem_free(central);
    return 0;
}

/* Puts blocks that evict nothing; how many were kept. */
static uint32_t put(uint32_t first, uint32_t count) {
    struct vr_block *out;
    struct vr_queue_id out_queue;
    uint32_t kept =
        vr_central_put(central, queue, BYTES, pointers + first, count, &out, &out_queue);
    assert_null(out);
    return kept;
}

static uint32_t length_of(const struct vr_block *list) {
    uint32_t length = 0;
    for (; list; list = list->next) {
        length++;
    }
    return length;
}

static void the_youngest_leave_first(void **state) {
    struct vr_block *taken[64];
    (void)state;
    assert_int_equal(vr_central_take(central, queue, BYTES, taken, 64), 0);
    assert_int_equal(put(0, 100), 100);
    assert_int_equal(central->held_bytes, 100 * BYTES);
    assert_int_equal(vr_central_take(central, other, BYTES, taken, 64), 0);
    assert_int_equal(vr_central_take(central, queue, 2 * BYTES, taken, 64), 0);
    assert_int_equal(vr_central_take(central, queue, BYTES, taken, 30), 30);
    for (int i = 0; i < 30; i++) {
        assert_ptr_equal(taken[i], pointers[70 + i]);
    }
    assert_int_equal(vr_central_take(central, queue, BYTES, taken, 64), 64);
    assert_int_equal(vr_central_take(central, queue, BYTES, taken, 64), 6);
    assert_ptr_equal(taken[0], pointers[0]);
    assert_int_equal(vr_central_take(central, queue, BYTES, taken, 64), 0);
    assert_int_equal(central->held_bytes, 0);
}

/* A bin keeps what is within its bytes, and says before that it would. */
static void a_bin_is_bounded(void **state) {
    const uint32_t most = VR_CENTRAL_BIN_BYTES / BYTES;
    (void)state;
    assert_false(vr_central_has_room(central, queue, BYTES, 1)); /* no memory for it yet */
    assert_int_equal(put(0, 1), 1);
    assert_true(vr_central_has_room(central, queue, BYTES, 1));
    assert_false(vr_central_has_room(central, other, BYTES, 1));
    assert_int_equal(put(1, COUNT - 1), most - 1);
    assert_false(vr_central_has_room(central, queue, BYTES, 1));
    assert_int_equal(put(most, 1), 0);
    assert_int_equal(central->held_bytes, VR_CENTRAL_BIN_BYTES);
    assert_true(central->table_bytes >= most * sizeof(void *));
    struct vr_block *out[1];
    assert_int_equal(vr_central_take(central, queue, BYTES, out, 1), 1);
    assert_true(vr_central_has_room(central, queue, BYTES, 1));
    assert_false(vr_central_has_room(central, queue, BYTES, 2));
}

/* Another key with the same bin, found by trying, evicts all of the older one's. */
static void a_younger_key_evicts(void **state) {
    struct vr_block *out = NULL, *taken[1];
    struct vr_queue_id from = {0}, younger = {1};
    (void)state;
    assert_int_equal(put(0, 40), 40);
    blocks[50].bytes = BYTES;
    for (; !out; younger.handle += 0x100) {
        struct vr_block *one = &blocks[50];
        assert_int_equal(vr_central_put(central, younger, BYTES, &one, 1, &out, &from), 1);
        if (!out) {
            assert_int_equal(vr_central_take(central, younger, BYTES, taken, 1), 1);
        }
    }
    assert_int_equal(from.handle, queue.handle);
    assert_int_equal(length_of(out), 40);
    assert_int_equal(central->held_bytes, BYTES);
}

static void the_oldest_are_thinned(void **state) {
    struct vr_block *taken[4];
    struct vr_queue_id from;
    uint32_t at = 0;
    (void)state;
    assert_int_equal(put(0, 10), 10);
    while (!central->bins[at].count) {
        at++;
    }
    assert_null(vr_central_thin(central, at, 0));
    struct vr_block *list = vr_central_thin(central, at, 7);
    assert_int_equal(length_of(list), 7);
    for (; list; list = list->next) {
        assert_true(list < &blocks[7]);
    }
    assert_int_equal(vr_central_take(central, queue, BYTES, taken, 1), 1);
    assert_ptr_equal(taken[0], &blocks[9]);
    assert_null(vr_central_empty(central, other, &from));
    list = vr_central_empty(central, VR_NO_QUEUE, &from);
    assert_int_equal(length_of(list), 2);
    assert_int_equal(from.handle, queue.handle);
    assert_null(vr_central_empty(central, VR_NO_QUEUE, &from));
    assert_int_equal(central->held_bytes, 0);
    assert_int_equal(central->table_bytes, 0);
}

/* Without memory for its pointers a block is not kept, and nothing is reported: a free succeeds. */
static void host_memory_may_run_out(void **state) {
    (void)state;
    vram_error_clear();
    vr_mem_fail_at(1, false);
    assert_int_equal(put(0, 3), 0);
    vr_mem_fail_at(0, false);
    assert_int_equal(vram_error_get()->status, VRAM_OK);
    assert_int_equal(central->held_bytes, 0);
    assert_int_equal(put(0, 3), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_youngest_leave_first, begin, end),
        cmocka_unit_test_setup_teardown(a_bin_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(a_younger_key_evicts, begin, end),
        cmocka_unit_test_setup_teardown(the_oldest_are_thinned, begin, end),
        cmocka_unit_test_setup_teardown(host_memory_may_run_out, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
