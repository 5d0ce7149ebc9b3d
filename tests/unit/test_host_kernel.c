/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_kernel.c: C functions as kernels. */
#include "host_world.h"

/* A launch of 2^32 - 1 groups, each behind the gate, would never end by itself. */
TEST(a_lost_launch_stops_between_groups) {
    struct world *world = rig_state;
    struct vr_queue queue;
    struct gate gate = {false};
    struct opener opener = {.gate = &gate};
    vram_addr addr = (vram_addr)(uintptr_t)&gate;
    make_queue(world, &queue);
    assert_int_equal(launch(&queue, pass_gate, &addr, sizeof addr, UINT32_MAX), VRAM_OK);
    while (!vr_load(&gate.entered, VR_ACQUIRE)) {
        vr_os_yield();
    }
    vr_store(&world->device.lost, true, VR_RELEASE);
    assert_int_equal(vr_os_thread_start(&opener.thread, "opener", open_later, &opener), VRAM_OK);
    world->device.queue_ops->destroy(&queue);
    vr_os_thread_join(&opener.thread);
}

EACH_TEST(setup, teardown)
