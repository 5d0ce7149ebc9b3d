/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_handle.c: handles (base/handle.c). An object's `value` is written before it is published
 * and by its users, each of whom holds a reference; it is cleared by its destructor.
 */
#include "explore_scenario.h"

#include "base/handle.h"

#define KIND VR_KIND_QUEUE

enum { ALIVE = 7, RESULT = 9 };

struct object {
    int value;
    int destroyed;
    int result;  /* written before the handle is retired */
    int used[2]; /* written by a thread that has a reference */
};

static struct object objects[2];
static uint64_t handle; /* of objects[0] */
static uint64_t second; /* of objects[1], where a scenario publishes it */

static const void *number(uint64_t value) {
    return (const void *)(uintptr_t)value;
}

static void object_destroy(void *memory) {
    struct object *object = memory;
    CHECK(object->value == ALIVE && !object->destroyed);
    object->value = object->used[0] = object->used[1] = 0;
    object->destroyed = 1;
}

static uint64_t object_publish(struct object *object) {
    uint64_t made = 0;
    object->value = ALIVE;
    CHECK(vr_handle_publish(KIND, object, object_destroy, &made) == VRAM_OK);
    return made;
}

static void one_published(void) {
    handle = object_publish(&objects[0]);
}

/* The slot was used before: it is on the free list, and the old number is in `handle`. */
static void one_retired(void) {
    one_published();
    CHECK(vr_handle_retire(handle));
    vr_handle_unpin(handle);
    objects[0].destroyed = 0;
}

static void pin_use_unpin(int user) {
    struct object *object = vr_handle_pin(KIND, number(handle));
    if (object) {
        CHECK(object->value == ALIVE);
        object->used[user] = 1;
        vr_handle_unpin(handle);
    }
}

static void first_user(void) {
    pin_use_unpin(0);
}

static void second_user(void) {
    pin_use_unpin(1);
}

static void retirer(void) {
    objects[0].result = RESULT;
    if (vr_handle_retire(handle)) {
        vr_handle_unpin(handle);
    }
}

/* Two of them: one retires, and the other one learns from the dead handle that the result is
   there. */
static void loser_reads(void) {
    if (vr_handle_was(KIND, number(handle))) {
        CHECK(objects[0].result == RESULT);
    }
    first_user();
}

static void is_destroyed(void) {
    CHECK(objects[0].destroyed == 1 && vr_handle_live(0) == 0);
    CHECK(!vr_handle_pin(KIND, number(handle)) && vr_handle_was(KIND, number(handle)));
}

/* The same by a pin that fails. */
static void late_user(void) {
    struct object *object = vr_handle_pin(KIND, number(handle));
    if (object) {
        vr_handle_unpin(handle);
    } else {
        CHECK(objects[0].result == RESULT);
    }
}

/* ------------------------------------------------------------ the last user */

/* The owner waits for nobody: it knows that no other call is inside, or leaves the end to it. */
static void owner_ends(void) {
    void *object = vr_handle_pin(KIND, number(handle));
    CHECK(object && vr_handle_retire(handle));
    if (vr_handle_is_last(handle)) {
        CHECK(objects[0].used[0] == 0 || objects[0].used[0] == 1);
        objects[0].used[0] = 2;
    }
    vr_handle_unpin(handle);
    vr_handle_unpin(handle);
}

static void child_begins(void) {
    if (vr_handle_pin(KIND, number(handle))) {
        vr_handle_ref(handle);
        vr_handle_unpin(handle);
        objects[0].used[0] = 1;
        vr_handle_unpin(handle);
    }
}

static void holder(void) {
    struct object *object = vr_handle_hold(KIND, number(handle));
    if (object) {
        CHECK(object->value == ALIVE);
        object->used[1] = 1;
        vr_handle_unpin(handle);
    }
}

/* ------------------------------------------------------------ used slots again */

static void publisher(void) {
    second = object_publish(&objects[1]);
    CHECK(second != handle);
}

static void publish_and_end(void) {
    publisher();
    CHECK(vr_handle_pin(KIND, number(second)) == &objects[1]);
    vr_handle_unpin(second);
    CHECK(vr_handle_retire(second));
    vr_handle_unpin(second);
}

/* The next number of the slot, which another thread publishes meanwhile: a guess. */
static void guesser(void) {
    uint64_t next = handle ^ (UINT64_C(1) ^ UINT64_C(2)) << 32; /* generation 2 for 1 */
    struct object *object = vr_handle_pin(KIND, number(next));
    if (object) {
        CHECK(object == &objects[1] && object->value == ALIVE);
        vr_handle_unpin(next);
    }
    CHECK(!vr_handle_pin(KIND, number(handle)));
}

static void second_is_left(void) {
    CHECK(vr_handle_live(0) == 1 && objects[1].value == ALIVE && !objects[1].destroyed);
}

static void retire_and_publish(void) {
    retirer();
    publisher();
}

static void both_went_on(void) {
    CHECK(objects[0].destroyed == 1 && objects[0].value == 0);
    second_is_left();
}

/* A new chunk of slots is published while another thread looks into it. */
static void chunk_is_full(void) {
    static struct object many[1024];
    for (int i = 0; i < 1024; i++) {
        handle = object_publish(&many[i]);
    }
    /* Slots 1024 and on are in the next chunk; its first number, as publish will make it. */
    uint64_t generation_and_kind = UINT64_C(1) << 32 | KIND;
    uint64_t last = UINT64_C(1) << 32 | UINT64_C(1023) << 8 | KIND;
    handle = handle ^ last ^ (generation_and_kind | UINT64_C(1024) << 8);
}

static void chunk_reader(void) {
    struct object *object = vr_handle_pin(KIND, number(handle));
    if (object) {
        CHECK(object == &objects[1] && object->value == ALIVE);
        vr_handle_unpin(handle);
    }
}

static void chunk_publisher(void) {
    second = object_publish(&objects[1]);
    CHECK(second == handle);
}

static void chunk_is_used(void) {
    CHECK(vr_handle_live(0) == 1025 && vr_handle_pin(KIND, number(second)) == &objects[1]);
}

const struct scenario handle_scenarios[] = {
    {"handles", "two users beside the end", one_published, {first_user, retirer}, is_destroyed, 0},
    {"handles",
     "three beside each other",
     one_published,
     {first_user, second_user, retirer},
     is_destroyed,
     true},
    {"handles",
     "a result behind a dead handle",
     one_published,
     {loser_reads, retirer},
     is_destroyed,
     0},
    {"handles",
     "a result behind a pin that fails",
     one_published,
     {late_user, retirer},
     is_destroyed,
     0},
    {"handles", "two ends", one_published, {retirer, second_user}, is_destroyed, 0},
    {"handles", "the last call inside", one_published, {owner_ends, child_begins}, is_destroyed, 0},
    {"handles", "held while it ends", one_published, {owner_ends, holder}, is_destroyed, 0},
    {"handles", "a number guessed", one_retired, {publisher, guesser}, second_is_left, 0},
    {"handles", "published and ended", one_published, {publish_and_end, first_user}, NULL, 0},
    {"handles",
     "a slot used again",
     one_published,
     {retire_and_publish, first_user},
     both_went_on,
     0},
    {"handles", "a new chunk", chunk_is_full, {chunk_publisher, chunk_reader}, chunk_is_used, 0},
    {.name = NULL}};
