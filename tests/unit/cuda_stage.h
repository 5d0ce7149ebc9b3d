/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_stage.h: the first of two devices of the fake driver, with a queue and a pool.
 */
#ifndef TEST_CUDA_STAGE_H
#define TEST_CUDA_STAGE_H

#include "byte_units.h"
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/pool.h"
#include "vram/vram.h"

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    bool lost;           /* what the driver has of it stays */
    uint64_t kept_pages; /* of words that may still be written: they outlive the device */
};

static inline void stage_open(struct stage *stage, uint64_t memory, const char *timeout) {
    vram_context_options options = {.size = sizeof options, .backends = WORLD_NAME};
    fake->capacity(memory);
    assert_ok(vram_option_set("wait_timeout", timeout));
    assert_ok(vram_context_create(&options, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    whole_device(stage->device);
    assert_ok(vram_pool_create(stage->device, NULL, &stage->pool));
}

static inline void stage_close(struct stage *stage) {
    vram_context_destroy(stage->context);
    assert_true(stage->lost || live_total() == stage->kept_pages);
    assert_clean();
}

static inline int stage_begin(void) {
    static struct stage stage;
    if (!fake) {
        fake = fake_open(WORLD_PATH);
    }
    fake->reset();
    fake->devices(2);
    assert_ok(vram_option_set(WORLD_OPTION, WORLD_PATH));
    memset(&stage, 0, sizeof stage);
    rig_state = &stage;
    return 0;
}

static inline int stage_end(void) {
    assert_ok(vram_option_set(WORLD_OPTION, NULL));
    assert_ok(vram_option_set("wait_timeout", NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* The program ends an adoption when it is done with the stream. */
static inline void adoption_end(vram_queue *queue, struct vr_cu_stream *stream) {
    assert_ok(vram_queue_end(queue));
    fake->stream_end(stream);
}

#endif
