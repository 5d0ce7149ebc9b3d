/* SPDX-License-Identifier: Apache-2.0 */
/* test_handle.c: the life of handles, numbers that are none, the ends of the table, and a storm. */
#include "base/atomic.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/os/os.h"
#include "rig/rig.h"

#include <errno.h>

struct object {
    uint64_t handle;
    vr_atomic_u32 destroyed;
    int value;
};

static void destroy(void *object) {
    vr_fetch_add(&((struct object *)object)->destroyed, 1, VR_RELAXED);
}

static const void *as_pointer(uint64_t handle) {
    return (const void *)(uintptr_t)handle;
}

static uint32_t destroyed(struct object *object) {
    return vr_load(&object->destroyed, VR_RELAXED);
}

static void publish(enum vr_kind kind, struct object *object) {
    assert_int_equal(vr_handle_publish(kind, object, destroy, &object->handle), VRAM_OK);
}

static void end(struct object *object) {
    assert_true(vr_handle_retire(object->handle));
    vr_handle_unpin(object->handle);
}

/* ----------------------------------------------------------------------- life */

TEST(a_handle_lives_and_dies) {
    struct object object = {.value = 5};
    uint64_t queues = vr_handle_live(VR_KIND_QUEUE), all = vr_handle_live(0);
    publish(VR_KIND_QUEUE, &object);
    assert_int_equal(object.handle & 0xff, VR_KIND_QUEUE);
    assert_int_equal(vr_handle_live(VR_KIND_QUEUE), queues + 1);
    assert_int_equal(vr_handle_live(0), all + 1);
    assert_int_equal(vr_handle_live(VR_KIND_CONTEXT), 0);
    assert_int_equal(vr_handle_live(200), 0);

    const void *handle = as_pointer(object.handle);
    assert_ptr_equal(vr_handle_pin(VR_KIND_QUEUE, handle), &object);
    assert_null(vr_handle_pin(VR_KIND_DEVICE, handle)); /* another kind */
    assert_false(vr_handle_was(VR_KIND_QUEUE, handle));
    vr_handle_ref(object.handle);

    assert_true(vr_handle_retire(object.handle));
    assert_false(vr_handle_retire(object.handle)); /* won once */
    assert_null(vr_handle_pin(VR_KIND_QUEUE, handle));
    assert_true(vr_handle_was(VR_KIND_QUEUE, handle));
    assert_false(vr_handle_was(VR_KIND_DEVICE, handle));
    assert_int_equal(vr_handle_live(VR_KIND_QUEUE), queues);
    vr_handle_ref(object.handle); /* dead, but referenced */

    for (int i = 0; i < 3; i++) {
        vr_handle_unpin(object.handle);
        assert_int_equal(destroyed(&object), 0);
    }
    vr_handle_unpin(object.handle);
    assert_int_equal(destroyed(&object), 1);
    assert_true(vr_handle_was(VR_KIND_QUEUE, handle));
    assert_null(vr_handle_pin(VR_KIND_QUEUE, handle));
}

/* --------------------------------------------------------------------- strangers */

static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

TEST(a_million_numbers_pin_nothing) {
    struct object object = {.value = 0};
    publish(VR_KIND_DEVICE, &object);
    uint64_t seed = 2463534242u, pinned = 0, was = 0;
    for (int i = 0; i < 1000000; i++) {
        uint64_t number = random_next(&seed);
        number = i % 2 ? number : object.handle ^ (UINT64_C(1) << number % 64); /* near misses */
        for (unsigned kind = 1; i % 16 < 2 && kind < VR_KIND_COUNT; kind++) {
            pinned += vr_handle_pin((enum vr_kind)kind, as_pointer(number)) != NULL;
        }
        pinned += vr_handle_pin(VR_KIND_DEVICE, as_pointer(number)) != NULL;
        was += vr_handle_was(VR_KIND_DEVICE, as_pointer(number));
        pinned += vr_handle_retire(number);
    }
    assert_int_equal(pinned, 0);
    assert_int_equal(was, 0);
    assert_ptr_equal(vr_handle_pin(VR_KIND_DEVICE, as_pointer(object.handle)), &object);
    vr_handle_unpin(object.handle);
    end(&object);
}

static void assert_error(enum vr_kind kind, uint64_t number, vram_status status, const char *text) {
    VR_OPERATION("vram_test");
    assert_int_equal(vr_handle_error(kind, as_pointer(number)), status);
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->operation, "vram_test");
    assert_string_equal(error->text, text);
}

TEST(mistakes_are_told_apart) {
    struct object object = {.value = 0};
    publish(VR_KIND_KERNEL, &object);
    uint64_t handle = object.handle;
    assert_error(VR_KIND_CONTEXT, 0, VRAM_ERR_INVALID, "vram_test: the context is NULL");
    assert_error(VR_KIND_DEVICE, handle, VRAM_ERR_INVALID,
                 "vram_test: the handle is a kernel, not a device");
    assert_error(VR_KIND_QUEUE, 0x1234567, VRAM_ERR_INVALID,
                 "vram_test: the handle is not a valid queue");
    assert_error(VR_KIND_KERNEL, handle ^ UINT64_C(1) << 50, VRAM_ERR_INVALID,
                 "vram_test: the handle is not a valid kernel"); /* not issued yet */
    assert_error(VR_KIND_QUEUE, UINT64_MAX, VRAM_ERR_INVALID,
                 "vram_test: the handle is not a valid queue");
    end(&object);
    assert_error(VR_KIND_KERNEL, handle, VRAM_ERR_STALE, "vram_test: the kernel was destroyed");
    assert_error(VR_KIND_PHYSICAL, handle, VRAM_ERR_INVALID,
                 "vram_test: the handle is a kernel, not a physical memory");
}

/* ------------------------------------------------------------------------ ends */

TEST(a_slot_ends_with_its_generations) {
    static struct object objects[20];
    uint64_t slots[20];
    vr_handle_limits_set(4, 0);
    for (int i = 0; i < 20; i++) {
        publish(VR_KIND_PHYSICAL, &objects[i]);
        slots[i] = objects[i].handle >> 8 & 0xffffff;
        assert_in_range((objects[i].handle ^ objects[0].handle) >> 32, 0, 7);
        end(&objects[i]);
    }
    for (size_t i = 0; i < 20; i++) { /* four of each slot, then another, for ever */
        assert_int_equal(slots[i], slots[i / 4 * 4]);
        assert_true(i < 4 || slots[i] != slots[i - 4]);
        assert_null(vr_handle_pin(VR_KIND_PHYSICAL, as_pointer(objects[i].handle)));
        assert_true(vr_handle_was(VR_KIND_PHYSICAL, as_pointer(objects[i].handle)));
    }
    vr_handle_limits_set(0, 0);
}

#define MANY 3000

TEST(chunks_come_when_needed) {
    static struct object objects[MANY];
    uint64_t live = vr_handle_live(VR_KIND_CONTEXT);
    int count = 0;
    vr_os_fail_at(1, true, ENOMEM); /* the first slots need no memory at all */
    while (count < MANY && vr_handle_publish(VR_KIND_CONTEXT, &objects[count], destroy,
                                             &objects[count].handle) == VRAM_OK) {
        count++;
    }
    assert_in_range(count, 900, 1024);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
    assert_int_equal(vr_handle_live(VR_KIND_CONTEXT), live + (uint64_t)count);
    vr_os_fail_at(0, false, 0);
    for (; count < MANY; count++) {
        publish(VR_KIND_CONTEXT, &objects[count]);
    }
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(vr_handle_pin(VR_KIND_CONTEXT, as_pointer(objects[i].handle)),
                         &objects[i]);
        vr_handle_unpin(objects[i].handle);
    }
    struct object one_more = {.value = 0};
    vr_handle_limits_set(0, 100); /* no slot is left that was not used before */
    assert_int_equal(vr_handle_publish(VR_KIND_CONTEXT, &one_more, destroy, &one_more.handle),
                     VRAM_ERR_LIMIT);
    assert_int_equal(one_more.handle, 0);
    for (int i = 0; i < MANY; i++) {
        end(&objects[i]);
        assert_int_equal(destroyed(&objects[i]), 1);
    }
    publish(VR_KIND_CONTEXT, &one_more); /* used ones are taken again */
    end(&one_more);
    vr_handle_limits_set(0, 0);
    assert_int_equal(vr_handle_live(VR_KIND_CONTEXT), live);
}

/* ----------------------------------------------------------------------- storm */

#define PLACES  8
#define ROUNDS  3000
#define WORKERS 3

/* Objects come and go at a few places; everybody pins, unpins and retires whatever handle is or was
   there. An object is used only between publish and destroy, and destroyed once. */
struct storm {
    vr_atomic_u64 places[PLACES]; /* handles, live or dead */
    vr_atomic_u64 made, gone, wrong;
    struct object objects[WORKERS * ROUNDS];
};
static struct storm storm;

static void destroy_in_storm(void *object) {
    struct object *dying = object;
    if (vr_fetch_add(&dying->destroyed, 1, VR_RELAXED) != 0 || dying->value != 77) {
        vr_fetch_add(&storm.wrong, 1, VR_RELAXED);
    }
    dying->value = 0;
    vr_fetch_add(&storm.gone, 1, VR_RELAXED);
}

static void retire_in_storm(uint64_t handle) {
    if (vr_handle_retire(handle)) {
        vr_handle_unpin(handle);
    }
}

static void use_in_storm(uint64_t handle) {
    struct object *object = vr_handle_pin(VR_KIND_QUEUE, as_pointer(handle));
    if (!object) {
        return;
    }
    if (object->value != 77 || vr_load(&object->destroyed, VR_RELAXED) != 0) {
        vr_fetch_add(&storm.wrong, 1, VR_RELAXED);
    }
    vr_handle_ref(handle);
    vr_handle_unpin(handle);
    vr_handle_unpin(handle);
}

static void work_in_storm(void *argument) {
    uint64_t worker = *(uint64_t *)argument, seed = worker + 1;
    for (int i = 0; i < ROUNDS; i++) {
        struct object *object = &storm.objects[worker * ROUNDS + (uint64_t)i];
        object->value = 77;
        uint64_t handle;
        if (vr_handle_publish(VR_KIND_QUEUE, object, destroy_in_storm, &handle) != VRAM_OK) {
            vr_fetch_add(&storm.wrong, 1, VR_RELAXED);
            continue;
        }
        vr_fetch_add(&storm.made, 1, VR_RELAXED);
        uint64_t old = vr_exchange(&storm.places[random_next(&seed) % PLACES], handle, VR_ACQ_REL);
        for (int k = 0; k < 6; k++) {
            use_in_storm(vr_load(&storm.places[random_next(&seed) % PLACES], VR_ACQUIRE));
        }
        retire_in_storm(vr_load(&storm.places[random_next(&seed) % PLACES], VR_ACQUIRE));
        retire_in_storm(old);
        use_in_storm(old);
    }
}

TEST(a_storm_destroys_each_object_once) {
    struct vr_thread threads[WORKERS];
    uint64_t numbers[WORKERS], live = vr_handle_live(0);
    for (uint64_t i = 0; i < WORKERS; i++) {
        numbers[i] = i;
        assert_int_equal(vr_os_thread_start(&threads[i], "test", work_in_storm, &numbers[i]),
                         VRAM_OK);
    }
    for (int i = 0; i < WORKERS; i++) {
        vr_os_thread_join(&threads[i]);
    }
    for (int i = 0; i < PLACES; i++) {
        retire_in_storm(vr_load(&storm.places[i], VR_ACQUIRE));
    }
    assert_int_equal(vr_load(&storm.wrong, VR_RELAXED), 0);
    assert_int_equal(vr_load(&storm.made, VR_RELAXED), WORKERS * ROUNDS);
    assert_int_equal(vr_load(&storm.gone, VR_RELAXED), WORKERS * ROUNDS);
    assert_int_equal(vr_handle_live(0), live);
    for (int i = 0; i < WORKERS * ROUNDS; i++) {
        assert_int_equal(destroyed(&storm.objects[i]), 1);
    }
}
