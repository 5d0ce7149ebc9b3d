/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_rdma.c: memory that network cards may register. The fake driver counts the handles that
 * were created for it, and those of them that were mapped at a second address: a card would go on
 * writing there.
 */
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"
#include "unit/stats_of.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
};

static void stage_open(struct stage *stage) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_pool_options tight = {.size = sizeof tight, .slack_bytes = 1};
    assert_ok(vram_context_create(&options, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    assert_ok(vram_pool_create(stage->device, &tight, &stage->pool));
}

static void stage_close(struct stage *stage) {
    vram_context_destroy(stage->context);
    assert_int_equal(live_total(), 0);
    assert_clean();
}

static struct fake_cuda_live live_now(void) {
    struct fake_cuda_live live;
    fake->live(&live);
    return live;
}

/* Every other small block is freed, so that a large one finds memory, but none in one piece. */
static void make_gaps(struct stage *stage) {
    enum { COUNT = 16 };
    vram_addr addrs[COUNT], large;
    for (int i = 0; i < COUNT; i++) {
        assert_ok(vram_alloc(stage->pool, 2 * MIB, stage->queue, &addrs[i]));
    }
    for (int i = 0; i < COUNT; i += 2) {
        assert_ok(vram_free(addrs[i], stage->queue));
    }
    assert_ok(vram_queue_wait(stage->queue, VRAM_TIMEOUT_DEFAULT));
    uint64_t held = stats_of(stage->pool).reserved_bytes;
    assert_ok(vram_alloc(stage->pool, 12 * MIB, stage->queue, &large));
    assert_true(stats_of(stage->pool).reserved_bytes < held + 8 * MIB);
}

static int begin(void) {
    static struct stage stage;
    if (!fake) {
        fake = fake_open(FAKE_CUDA_PATH);
    }
    fake->reset();
    fake->devices(1);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("move_credit", "1s"));
    memset(&stage, 0, sizeof stage);
    rig_state = &stage;
    return 0;
}

static int end(void) {
    for (const char *const *name =
             (const char *const[]){"cuda_library", "move_credit", "rdma", "system_root", NULL};
         *name; name++) {
        assert_ok(vram_option_set(*name, NULL));
    }
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

TEST(cards_may_register_it_where_the_driver_says_so) {
    struct stage *stage = rig_state;
    for (int supported = 0; supported <= 1; supported++) {
        vram_device_info info = {.size = sizeof info};
        vram_addr addr;
        fake->attribute(VR_CU_ATTRIBUTE_RDMA, supported);
        stage_open(stage);
        assert_ok(vram_device_describe(stage->device, &info));
        assert_int_equal((info.caps & VRAM_CAP_RDMA) != 0, supported);
        assert_ok(vram_alloc(stage->pool, 4 * MIB, stage->queue, &addr));
        assert_int_equal(live_now().rdma, supported ? live_now().physicals : 0);
        assert_true(live_now().physicals > 0);
        stage_close(stage);
    }
    assert_ok(vram_option_set("rdma", "off"));
    vram_addr addr;
    stage_open(stage);
    assert_ok(vram_alloc(stage->pool, 4 * MIB, stage->queue, &addr));
    assert_int_equal(live_now().rdma, 0);
    stage_close(stage);
}

/* It is asked for once only, and other refusals are what they are. */
TEST(a_driver_that_refuses_gives_other_memory) {
    struct stage *stage = rig_state;
    vram_addr addr;
    stage_open(stage);
    fake->attribute(VR_CU_ATTRIBUTE_RDMA, 0);
    assert_ok(vram_alloc(stage->pool, 2 * MIB, stage->queue, &addr));
    assert_int_equal(live_now().rdma, 0);
    uint64_t calls = fake->calls("cuMemCreate"), held = live_now().physicals;
    assert_ok(vram_alloc(stage->pool, 64 * MIB, stage->queue, &addr));
    assert_int_equal(fake->calls("cuMemCreate") - calls, live_now().physicals - held);
    stage_close(stage);
    fake->reset();
    fake->devices(1);
    stage_open(stage);
    fake->refuse("cuMemCreate", 1, VR_CU_INVALID_VALUE, true);
    assert_int_equal(vram_alloc(stage->pool, 2 * MIB, stage->queue, &addr), VRAM_ERR_INVALID);
    fake->refuse(NULL, 0, 0, false);
    assert_ok(vram_alloc(stage->pool, 2 * MIB, stage->queue, &addr));
    assert_int_equal(live_now().rdma, live_now().physicals); /* it was not for that */
    stage_close(stage);
}

TEST(what_cards_may_have_registered_stays_where_it_is) {
    struct stage *stage = rig_state;
    for (int on = 0; on <= 1; on++) {
        vram_rebuild_result result = {.size = sizeof result};
        assert_ok(vram_option_set("rdma", on ? "on" : NULL));
        assert_ok(vram_option_set("system_root", "/nowhere"));
        uint64_t moved = live_now().rdma_moved;
        stage_open(stage);
        make_gaps(stage);
        assert_int_equal(live_now().rdma_moved > moved, !on);
        assert_int_equal(vram_pool_rebuild(stage->pool, NULL, &result),
                         on ? VRAM_ERR_UNSUPPORTED : VRAM_OK);
        stage_close(stage);
    }
}

/* Cards are there, and the process loads the library that registers: before, memory moves. */
TEST(the_library_that_registers_decides) {
    struct stage *stage = rig_state;
    char root[] = "/tmp/vram-rdma-XXXXXX", path[64];
    assert_non_null(mkdtemp(root));
    static const char *const folders[] = {"", "/sys", "/sys/class", "/sys/class/infiniband",
                                          "/sys/class/infiniband/mlx5_0"};
    for (size_t i = 1; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_ok(vram_option_set("system_root", root));
    stage_open(stage);
    make_gaps(stage);
    uint64_t moved = live_now().rdma_moved;
    assert_true(moved > 0);
    assert_non_null(dlopen(FAKE_NVTX_PATH, RTLD_NOW)); /* and stays */
    make_gaps(stage);
    assert_int_equal(live_now().rdma_moved, moved);
    stage_close(stage);
    for (size_t i = 5; i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

EACH_TEST(begin, end)
