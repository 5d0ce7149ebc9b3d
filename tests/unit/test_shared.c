/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shared.c: the devices, pools and queues that belong to the process (vram/shared.h). A test
 * ends the context behind them, so that the next one creates them anew.
 */
#include "base/handle.h"
#include "byte_units.h"
#include "device/objects.h"
#include "unit/assert_ok.h"
#include "unit/child.h"
#include "vram/vram.h"

#include <pthread.h>
#include <string.h>

static int simulate(void) {
    return vram_option_set("sim", "memory=1G,devices=2");
}

/* Destroys the context of a shared device, and with it all that is shared of its backend. */
static void end_shared(vram_device *device) {
    void *object;
    assert_ok(vr_enter(VR_KIND_DEVICE, device, &object));
    uint64_t context = ((struct vr_device_object *)object)->context->object.handle;
    vr_leave(object);
    assert_ok(vram_context_destroy((vram_context *)(uintptr_t)context));
}

TEST(each_device_has_one_handle_and_one_pool) {
    vram_device *first, *again, *second;
    vram_pool *pool, *same, *other;
    assert_ok(vram_device_shared("sim", 0, &first));
    assert_ok(vram_device_shared("sim", 0, &again));
    assert_ok(vram_device_shared("sim", 1, &second));
    assert_ptr_equal(first, again);
    assert_ptr_not_equal(first, second);
    assert_ok(vram_pool_shared(first, &pool));
    assert_ok(vram_pool_shared(first, &same));
    assert_ok(vram_pool_shared(second, &other));
    assert_ptr_equal(pool, same);
    assert_ptr_not_equal(pool, other);
    end_shared(first);
}

static vram_pool *pool_of_device(uint32_t id) {
    vram_device *device;
    vram_pool *pool;
    assert_ok(vram_device_shared("sim", id, &device));
    assert_ok(vram_pool_shared(device, &pool));
    return pool;
}

/* What a program does that keeps one object for all devices: buffers, limits, use, pressure and
   cleanup by the number of the device, and no table of its own. */
TEST(pools_by_the_number_of_the_device) {
    vram_device *devices[2], *none;
    uint64_t bytes = 0, peak = 0, released;
    for (uint32_t id = 0; id < 2; id++) {
        vram_limits limits = {.size = sizeof limits, .hard_bytes = (32 << id) * MIB};
        vram_pressure pressure = {.size = sizeof pressure};
        vram_buffer *buffer, *refused;
        assert_ok(vram_device_shared("sim", id, &devices[id]));
        assert_ok(vram_pool_limits_set(pool_of_device(id), &limits));
        assert_ok(vram_buffer_create_elements(pool_of_device(id), 4 << id << 20,
                                              VRAM_PRECISION_FP32, NULL, NULL, &buffer));
        assert_int_equal(vram_buffer_create_elements(pool_of_device(id), 8 << id << 20,
                                                     VRAM_PRECISION_FP32, NULL, NULL, &refused),
                         VRAM_ERR_LIMIT);
        assert_ok(vram_pool_pressure_get(pool_of_device(id), &pressure));
        assert_true(pressure.known && pressure.own >= 0.5);
        if (id == 0) {
            assert_ok(vram_buffer_destroy(buffer));
        }
    }
    for (uint32_t id = 0; vram_device_shared("sim", id, &none) == VRAM_OK; id++) {
        vram_pool_stats usage = {.size = sizeof usage};
        assert_ok(vram_device_stats_get(none, &usage));
        bytes += usage.requested_bytes;
        peak += usage.peak_requested_bytes;
    }
    assert_int_equal(vram_device_shared("sim", 2, &none), VRAM_ERR_NO_DEVICE);
    assert_int_equal(vram_device_shared("sim", 0, NULL), VRAM_ERR_INVALID);
    assert_false(vram_device_same(NULL, NULL));
    assert_int_equal(bytes, 32 * MIB);
    assert_int_equal(peak, 48 * MIB);
    assert_ok(vram_device_trim(devices[0], NULL, &released)); /* emergency_cleanup(0) */
    assert_true(released >= 16 * MIB);
    end_shared(devices[0]);
}

/* Two users of one native queue: what one frees serves the other at once. */
TEST(users_share_memory_under_their_own_tags) {
    static int stream, another;
    vram_device *device;
    vram_pool *pool;
    vram_queue *mine, *theirs, *beside;
    vram_addr a, b;
    assert_ok(vram_device_shared("sim", 0, &device));
    assert_ok(vram_pool_shared(device, &pool));
    assert_ok(vram_queue_shared(device, &stream, &mine));
    assert_ok(vram_queue_shared(device, &stream, &theirs));
    assert_ok(vram_queue_shared(device, &another, &beside));
    assert_ptr_equal(mine, theirs);
    assert_ptr_not_equal(mine, beside);

    const vram_alloc_options cupy = {.size = sizeof cupy, .tag = "cupy"};
    const vram_alloc_options torch = {.size = sizeof torch, .tag = "torch"};
    assert_ok(vram_alloc_with(pool, 64 << 20, mine, &cupy, &a));
    assert_ok(vram_free(a, mine));
    assert_ok(vram_alloc_with(pool, 64 << 20, theirs, &torch, &b));
    vram_tag_info tag = {.size = sizeof tag};
    assert_ok(vram_tag_info_get(device, "torch", &tag));
    assert_int_equal(tag.requested_bytes, 64 << 20);
    assert_ok(vram_tag_info_get(device, "cupy", &tag));
    assert_int_equal(tag.requested_bytes, 0);
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(pool, &stats));
    assert_true(stats.peak_reserved_bytes < UINT64_C(66) << 20);
    assert_ok(vram_free(b, theirs));
    end_shared(device);
}

/* A queue that has ended, and a captured region, are not handed out. */
TEST(an_ended_queue_is_adopted_again) {
    static int stream;
    vram_device *device;
    vram_queue *queue, *captured, *again;
    assert_ok(vram_device_shared("sim", 0, &device));
    assert_ok(vram_queue_shared(device, &stream, &queue));
    assert_ok(vram_capture_begin(queue, &captured));
    assert_ok(vram_queue_end(queue));
    assert_ok(vram_queue_shared(device, &stream, &again));
    assert_ptr_not_equal(again, captured);
    assert_ptr_not_equal(again, queue);
    assert_ok(vram_capture_end(captured));
    end_shared(device);
}

TEST(what_was_destroyed_is_created_again) {
    vram_device *device, *later;
    vram_pool *pool, *next;
    assert_ok(vram_device_shared("sim", 0, &device));
    assert_ok(vram_pool_shared(device, &pool));
    assert_ok(vram_pool_destroy(pool));
    assert_ok(vram_pool_shared(device, &next));
    assert_ptr_not_equal(pool, next);
    assert_ok(vram_device_close(device));
    assert_int_equal(vram_pool_shared(device, &next), VRAM_ERR_STALE);
    assert_ok(vram_device_shared("sim", 0, &later));
    assert_ptr_not_equal(later, device);
    end_shared(later);
    assert_ok(vram_device_shared("sim", 0, &device));
    end_shared(device);
}

/* ------------------------------------------------------------------ threads */

enum { THREADS = 8 };
static vr_atomic_u32 ready;
static struct found {
    vram_device *device;
    vram_pool *pool;
    vram_status status;
} founds[THREADS];

static void *find_all(void *argument) {
    struct found *found = argument;
    vr_fetch_add(&ready, 1, VR_ACQ_REL);
    while (vr_load(&ready, VR_ACQUIRE) < THREADS) {
    }
    found->status = vram_device_shared("sim", 0, &found->device);
    if (found->status == VRAM_OK) {
        found->status = vram_pool_shared(found->device, &found->pool);
    }
    return NULL;
}

TEST(threads_that_come_first_together_agree) {
    for (int round = 0; round < 20; round++) {
        pthread_t threads[THREADS];
        vr_store(&ready, 0, VR_RELEASE);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, find_all, &founds[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_ok(founds[i].status);
            assert_ptr_equal(founds[i].device, founds[0].device);
            assert_ptr_equal(founds[i].pool, founds[0].pool);
        }
        end_shared(founds[0].device);
    }
}

/* --------------------------------------------------------------------- fork */

static int uses_its_own(void *argument) {
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    if (vram_pool_shared(argument, &pool) != VRAM_ERR_FORKED) {
        return 1;
    }
    if (vram_device_shared("sim", 0, &device) != VRAM_OK || device == argument) {
        return 2;
    }
    return vram_pool_shared(device, &pool) == VRAM_OK &&
                   vram_alloc(pool, 4096, NULL, &addr) == VRAM_OK
               ? 0
               : 3;
}

TEST(a_forked_child_has_objects_of_its_own) {
    vram_device *device;
    vram_pool *pool;
    assert_ok(vram_device_shared("sim", 0, &device));
    assert_ok(vram_pool_shared(device, &pool));
    assert_int_equal(in_child(uses_its_own, device), 0);
    end_shared(device);
}

EACH_TEST(simulate, NULL)
