/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_copy.c: transfers on CUDA, over the fake driver: small downloads of ordinary memory,
 * which the driver would keep their caller for; and ordinary memory beside pages that are locked.
 */
#include "byte_units.h"
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"
#include "vram/vram.h"

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr;
    unsigned char sent[MIB], back[MIB];
};

static void stage_open(struct stage *stage) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    assert_ok(vram_context_create(&options, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    assert_ok(vram_device_alloc(stage->device, MIB, VRAM_MEMORY_DEVICE, &stage->addr));
    for (size_t i = 0; i < sizeof stage->sent; i++) {
        stage->sent[i] = (unsigned char)(i * 31 + i / 256);
    }
    assert_ok(vram_queue_upload(stage->queue, stage->addr, stage->sent, MIB));
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
}

static void stage_end(struct stage *stage) {
    const char *text = "";
    vram_context_destroy(stage->context);
    assert_int_equal(live_total(), 0);
    assert_int_equal(fake->violations(&text), 0);
}

static void stage_close(struct stage *stage) {
    stage_end(stage);
    assert_clean();
}

static int begin(void) {
    static struct stage stage;
    if (!fake) {
        fake = fake_open(FAKE_CUDA_PATH);
    }
    fake->reset();
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("staging_slot", "256K"));
    assert_ok(vram_option_set("staging_slots", "4"));
    assert_ok(vram_option_set("staging_threads", "2"));
    memset(&stage, 0, sizeof stage);
    rig_state = &stage;
    return 0;
}

static int end(void) {
    static const char *const names[] = {"cuda_library", "staging_slot", "staging_slots",
                                        "staging_threads", "wait_timeout"};
    fake->hold(false);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_ok(vram_option_set(names[i], NULL));
    }
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

static uint64_t staged(struct stage *stage) {
    vram_pinned_info info = {.size = sizeof info};
    assert_ok(vram_pinned_info_get(stage->device, &info));
    return info.downloads;
}

/* Nothing is in front of it: the call makes it, and its handle is ready without a marker. */
TEST(idle_queues_are_read_in_the_call) {
    static const uint64_t sizes[] = {1, 4 * KIB, 100000, 300000};
    struct stage *stage = rig_state;
    stage_open(stage);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        vram_async async;
        memset(stage->back, 0, sizeof stage->back);
        assert_ok(vram_transfer_download(stage->queue, stage->back, stage->addr + 3, sizes[i], NULL,
                                         &async));
        assert_ok(vram_async_poll(&async));
        assert_int_equal(staged(stage), i + 1);
        assert_memory_equal(stage->back, stage->sent + 3, sizes[i]);
        assert_int_equal(stage->back[sizes[i]], 0);
        vram_async_end(&async);
    }
    stage_close(stage);
}

/* Work is in front of it: the caller goes on, however small the copy is, and a worker sees to
   it. */
TEST(busy_queues_leave_the_caller_alone) {
    struct stage *stage = rig_state;
    stage_open(stage);
    fake->hold(true);
    assert_ok(vram_queue_fill(stage->queue, stage->addr, 0x55, 1, 64 * KIB));
    vram_async async;
    assert_ok(
        vram_transfer_download(stage->queue, stage->back, stage->addr, 4 * KIB, NULL, &async));
    assert_int_equal(vram_async_poll(&async), VRAM_ERR_NOT_READY);
    assert_int_equal(vram_async_wait(&async, 2000000), VRAM_ERR_TIMEOUT);
    fake->hold(false);
    assert_ok(vram_async_wait(&async, FOR_EVER));
    for (size_t i = 0; i < 4 * KIB; i++) {
        assert_int_equal(stage->back[i], 0x55);
    }
    vram_async_end(&async);
    vram_error_clear();
    stage_close(stage);
}

/* What was written to a mapping comes back in the order of the buffer's own queue. */
TEST(an_unmap_leaves_the_caller_alone) {
    struct stage *stage = rig_state;
    vram_pool *pool;
    vram_buffer *buffer;
    void *seen;
    assert_ok(vram_option_set("wait_timeout", "2s"));
    stage_open(stage);
    assert_ok(vram_pool_create(stage->device, NULL, &pool));
    assert_ok(vram_buffer_create(pool, MIB, stage->queue, NULL, &buffer));
    assert_ok(vram_buffer_map(buffer, 0, MIB, VRAM_MAP_WRITE, NULL, &seen));
    fake->hold(true);
    assert_ok(vram_buffer_unmap(buffer));
    assert_int_equal(vram_queue_poll(stage->queue), VRAM_ERR_NOT_READY);
    fake->hold(false);
    assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
    stage_close(stage);
}

/* Pages of locked memory extend into neighbouring memory, as in any heap. */
TEST(ordinary_memory_next_to_locked_pages) {
    enum { LOCKED = 12 * 1024 };
    static const size_t starts[] = {0, 4096, 8292, LOCKED - 1, 20480};
    struct stage *stage = rig_state;
    static _Alignas(65536) unsigned char host[1 << 18];
    uint64_t bytes = sizeof host / 2;
    stage_open(stage);
    assert_ok(vram_pinned_begin(stage->device, host, LOCKED));
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        unsigned char *from = host + starts[i];
        for (size_t j = 0; j < sizeof host; j++) {
            host[j] = (unsigned char)(j * 7 + i);
        }
        memcpy(stage->back, from, bytes);
        assert_ok(vram_queue_upload(stage->queue, stage->addr, from, bytes));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
        memset(host, 0, sizeof host);
        assert_ok(vram_queue_download(stage->queue, from, stage->addr, bytes));
        assert_ok(vram_queue_wait(stage->queue, FOR_EVER));
        assert_memory_equal(from, stage->back, bytes);
    }
    assert_ok(vram_pinned_end(stage->device, host, LOCKED));
    stage_close(stage);
}

EACH_TEST(begin, end)
