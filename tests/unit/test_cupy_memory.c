/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cupy_memory.c: the functions that CuPy calls (adapters/cupy), on a simulated device.
 * bindings/python/tests/test_adapters.py has them behind vram.cupy.
 */
#include "adapters/cupy/cupy_memory.h"

#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <pthread.h>
#include <stdint.h>

enum { THREADS = 3, ROUNDS = 300 };

struct world {
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    int native; /* its address stands for a stream */
    vram_queue *queue;
    void *stream;
};

static void world_make(struct world *world) {
    const vram_context_options options = {.size = sizeof options, .backends = "sim"};
    assert_ok(vram_option_set("sim", "memory=1G"));
    assert_ok(vram_context_create(&options, &world->context));
    assert_ok(vram_device_open(world->context, 0, &world->device));
    assert_ok(vram_pool_create(world->device, NULL, &world->pool));
    assert_ok(vram_queue_shared(world->device, &world->native, &world->queue));
    world->stream = vram_cupy_stream_make(vram_alloc_with, vram_free, world->pool, 0);
    assert_non_null(world->stream);
}

static uint64_t live_bytes(const struct world *world) {
    vram_tag_info tag = {.size = sizeof tag};
    assert_ok(vram_tag_info_get(world->device, "cupy", &tag));
    return tag.requested_bytes;
}

/* Takes a block that the pool has to grow for, and frees it: from then on the pool holds it. */
static void hold(const struct world *world, uint64_t bytes) {
    const vram_alloc_options options = {.size = sizeof options, .tag = "cupy"};
    vram_addr addr;
    assert_ok(vram_alloc_with(world->pool, bytes, world->queue, &options, &addr));
    assert_ok(vram_free(addr, world->queue));
}

TEST(only_what_the_pool_holds_is_handed_out) {
    static struct world world; /* records are never freed: a leak checker finds them by this */
    world_make(&world);
    assert_int_equal(vram_cupy_abi(), VRAM_CUPY_ABI);
    assert_null(vram_cupy_alloc(world.stream, 1 << 20, 0)); /* there is no queue yet */
    vram_cupy_stream_set(world.stream, world.queue);
    assert_null(vram_cupy_alloc(world.stream, 64 << 20, 0)); /* the pool would grow */
    hold(&world, 64 << 20);
    assert_null(vram_cupy_alloc(world.stream, 64 << 20, 1)); /* another device */
    void *block = vram_cupy_alloc(world.stream, 64 << 20, 0);
    assert_non_null(block);
    assert_int_equal(live_bytes(&world), 64 << 20);
    assert_null(vram_cupy_alloc(world.stream, SIZE_MAX, 0));
    assert_int_equal(vram_cupy_stream_retire(world.stream), 0); /* work may use the block */
    vram_cupy_free(world.stream, block, 0);
    vram_cupy_free(world.stream, block, 0); /* twice: nothing happens */
    assert_int_equal(live_bytes(&world), 0);
    assert_int_equal(vram_cupy_stream_retire(world.stream), 1);
    assert_null(vram_cupy_alloc(world.stream, 64 << 20, 0)); /* it has no queue any more */
    assert_ok(vram_context_destroy(world.context));
}

TEST(a_queue_that_ended_serves_no_more) {
    static struct world world;
    world_make(&world);
    vram_cupy_stream_set(world.stream, world.queue);
    hold(&world, 4 << 20);
    void *block = vram_cupy_alloc(world.stream, 4 << 20, 0);
    assert_non_null(block);
    assert_ok(vram_queue_end(world.queue));
    assert_null(vram_cupy_alloc(world.stream, 4 << 20, 0));
    vram_cupy_free(world.stream, block, 0);
    assert_int_equal(live_bytes(&world), 0);
    assert_ok(vram_queue_shared(world.device, &world.native, &world.queue));
    vram_cupy_stream_set(world.stream, world.queue);
    block = vram_cupy_alloc(world.stream, 4 << 20, 0);
    assert_non_null(block);
    vram_cupy_free(world.stream, block, 0);
    assert_ok(vram_context_destroy(world.context));
}

static void *take_and_free(void *argument) {
    struct world *world = argument;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        void *block = vram_cupy_alloc(world->stream, (size_t)512 << i % 12, 0);
        if (block != NULL) {
            vram_cupy_free(world->stream, block, 0);
        }
    }
    return NULL;
}

/* Threads use a stream whose queue is ended and adopted again meanwhile. */
TEST(threads_and_a_stream_that_comes_and_goes) {
    static struct world world;
    pthread_t threads[THREADS];
    world_make(&world);
    vram_cupy_stream_set(world.stream, world.queue);
    hold(&world, 16 << 20);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_free, &world), 0);
    }
    for (uint32_t i = 0; i < 20; i++) {
        assert_ok(vram_queue_end(world.queue));
        assert_ok(vram_queue_shared(world.device, &world.native, &world.queue));
        vram_cupy_stream_set(world.stream, world.queue);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(live_bytes(&world), 0);
    assert_ok(vram_context_destroy(world.context));
}
