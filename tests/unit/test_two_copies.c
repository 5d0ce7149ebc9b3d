/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_two_copies.c: the library twice in one process, once in this program and once as a shared
 * library that is loaded: neither accepts a handle of the other in any call.
 */
#include "unit/assert_ok.h"

#include <dlfcn.h>

#include <vram/vram.h>

/* The calls of one copy. */
#define CALLS(X)                                                                                   \
    X(vram_context_create)                                                                         \
    X(vram_context_destroy)                                                                        \
    X(vram_device_open)                                                                            \
    X(vram_device_close)                                                                           \
    X(vram_device_describe)                                                                        \
    X(vram_queue_create)                                                                           \
    X(vram_queue_upload)                                                                           \
    X(vram_queue_mark)                                                                             \
    X(vram_point_wait)                                                                             \
    X(vram_pool_create)                                                                            \
    X(vram_pool_destroy)                                                                           \
    X(vram_pool_stats_get)                                                                         \
    X(vram_alloc)                                                                                  \
    X(vram_free)                                                                                   \
    X(vram_buffer_create)                                                                          \
    X(vram_buffer_destroy)                                                                         \
    X(vram_error_get)

struct copy {
#define FIELD(name) __typeof__(&name) name;
    CALLS(FIELD)
#undef FIELD
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_buffer *buffer;
    vram_addr block;
    vram_point point;
};

static struct copy copies[2];

static void fill(struct copy *copy) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    assert_ok(copy->vram_context_create(&options, &copy->context));
    assert_ok(copy->vram_device_open(copy->context, 0, &copy->device));
    assert_ok(copy->vram_queue_create(copy->device, NULL, &copy->queue));
    assert_ok(copy->vram_pool_create(copy->device, NULL, &copy->pool));
    assert_ok(copy->vram_alloc(copy->pool, 1000, copy->queue, &copy->block));
    assert_ok(copy->vram_buffer_create(copy->pool, 4096, copy->queue, NULL, &copy->buffer));
    assert_ok(copy->vram_queue_mark(copy->queue, &copy->point));
}

static int load(void) {
#define OWN(name) copies[0].name = name;
    CALLS(OWN)
#undef OWN
    void *library = dlopen(LIBVRAM_PATH, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        print_error("%s\n", dlerror());
        return -1;
    }
#define OTHERS(name)                                                                               \
    *(void **)&copies[1].name = dlsym(library, #name);                                             \
    assert_non_null(copies[1].name);                                                               \
    assert_true(copies[1].name != copies[0].name);
    CALLS(OTHERS)
#undef OTHERS
    return 0;
}

/* Both copies were used in the same way, so without a mark they would have the same numbers. */
TEST(handles_of_the_other_copy_are_none) {
    fill(&copies[0]);
    fill(&copies[1]);
    for (int i = 0; i < 2; i++) {
        struct copy *mine = &copies[i], *other = &copies[1 - i];
        vram_device *device;
        vram_queue *queue;
        vram_pool *pool;
        vram_addr block;
        vram_device_info info = {.size = sizeof info};
        vram_pool_stats stats = {.size = sizeof stats};
        assert_int_equal(mine->vram_device_open(other->context, 0, &device), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_device_describe(other->device, &info), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_queue_create(other->device, NULL, &queue), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_pool_create(other->device, NULL, &pool), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_queue_upload(other->queue, mine->block, &info, 8),
                         VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_point_wait(other->point, 1000), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_pool_stats_get(other->pool, &stats), VRAM_ERR_INVALID);
        assert_string_equal(mine->vram_error_get()->text,
                            "vram_pool_stats_get: the handle is not a valid pool");
        assert_int_equal(mine->vram_alloc(other->pool, 1000, NULL, &block), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_alloc(mine->pool, 1000, other->queue, &block),
                         VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_free(other->block, mine->queue), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_free(other->block, NULL), VRAM_ERR_INVALID);
        assert_int_equal(mine->vram_pool_destroy(other->pool), VRAM_ERR_INVALID);
        mine->vram_context_destroy(other->context);
        mine->vram_device_close(other->device);
        mine->vram_buffer_destroy(other->buffer);
    }
    for (int i = 0; i < 2; i++) {
        vram_pool_stats stats = {.size = sizeof stats};
        assert_ok(copies[i].vram_pool_stats_get(copies[i].pool, &stats));
        assert_int_equal(stats.live_blocks, 2);
        assert_ok(copies[i].vram_point_wait(copies[i].point, UINT64_C(10000000000)));
        assert_ok(copies[i].vram_free(copies[i].block, copies[i].queue));
        copies[i].vram_buffer_destroy(copies[i].buffer);
        assert_ok(copies[i].vram_pool_destroy(copies[i].pool));
        copies[i].vram_context_destroy(copies[i].context);
    }
}

WHOLE_FILE(load, NULL)
