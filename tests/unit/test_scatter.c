/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scatter.c: lists of small copies that are no neighbours: one launch copies them all, from
 * ordinary and from page-locked memory, to it, and within the device; and what happens where it
 * cannot be launched.
 */
#include "unit/transfer_world.h"

enum { N = 100, EACH = 100, GAP = 7, ROOM = N * (EACH + GAP) };

/* What a list is made of. */
enum side { ORDINARY, LOCKED, DEVICE };

struct scene {
    struct rig rig;
    vram_addr device, other, locked;
    unsigned char *ordinary, *expected;
};

static struct scene scene_make(const char *sim) {
    struct scene scene = {.rig = rig_make("sim", sim)};
    scene.device = memory_of(scene.rig.device, ROOM);
    scene.other = memory_of(scene.rig.device, ROOM);
    assert_ok(vram_device_alloc(scene.rig.device, ROOM, VRAM_MEMORY_PINNED, &scene.locked));
    scene.ordinary = pattern_of(ROOM, 1);
    scene.expected = pattern_of(ROOM, 2);
    memcpy((void *)(uintptr_t)scene.locked, scene.ordinary, ROOM);
    put(scene.rig.queue, scene.other, scene.ordinary, ROOM);
    put(scene.rig.queue, scene.device, scene.expected, ROOM);
    return scene;
}

static void scene_end(struct scene *scene) {
    free(scene->ordinary);
    free(scene->expected);
    rig_end_clean(&scene->rig);
}

/* A list from a side to the device, all over the place and with gaps; the model has what it must
   do. */
static void list_make(struct scene *scene, enum side side, vram_copy *list) {
    for (uint64_t i = 0; i < N; i++) {
        uint64_t to = i * 37 % N * (EACH + GAP), from = i * 53 % N * (EACH + GAP);
        list[i] = (vram_copy){.to = scene->device + to, .bytes = EACH};
        list[i].from_host = side == ORDINARY ? scene->ordinary + from : NULL;
        list[i].from = side == LOCKED   ? scene->locked + from
                       : side == DEVICE ? scene->other + from
                                        : 0;
        memcpy(scene->expected + to, scene->ordinary + from, EACH);
    }
}

TEST(one_launch_for_a_list) {
    for (int side = ORDINARY; side <= DEVICE; side++) {
        struct scene scene = scene_make("memory=64M,real=on");
        vram_copy list[N];
        vram_async async;
        list_make(&scene, (enum side)side, list);
        unsigned uploads = calls_of(&scene.rig, VRAM_SIM_UPLOAD);
        assert_ok(vram_transfer_batch(scene.rig.queue, list, N, NULL, &async));
        expect_result(&async, N * EACH);
        assert_int_equal(calls_of(&scene.rig, VRAM_SIM_LAUNCH), 1);
        assert_int_equal(calls_of(&scene.rig, VRAM_SIM_UPLOAD), uploads);
        assert_int_equal(calls_of(&scene.rig, VRAM_SIM_COPY), 0);
        expect_contents(scene.rig.queue, scene.device, scene.expected, ROOM);
        scene_end(&scene);
    }
}

/* Code that is not taken, a launch that is refused, no page-locked memory: the copies go one by
   one. */
TEST(without_a_launch_it_goes_all_the_same) {
    static const vram_sim_call calls[] = {VRAM_SIM_KERNEL_LOAD, VRAM_SIM_LAUNCH,
                                          VRAM_SIM_PINNED_ALLOC};
    for (int i = 0; i < 3; i++) {
        for (int side = ORDINARY; side <= DEVICE; side++) {
            struct scene scene = scene_make("memory=64M,real=on");
            vram_copy list[N];
            vram_async async;
            list_make(&scene, (enum side)side, list);
            fault(&scene.rig, calls[i], 1, true, 9999);
            for (int round = 0; round < 2; round++) {
                vram_error_clear();
                assert_ok(vram_transfer_batch(scene.rig.queue, list, N, NULL, &async));
                expect_no_record();
                expect_result(&async, N * EACH);
            }
            assert_ok(vram_sim_fault_set(scene.rig.context, NULL));
            expect_contents(scene.rig.queue, scene.device, scene.expected, ROOM);
            scene_end(&scene);
        }
    }
}
