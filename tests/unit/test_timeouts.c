/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_timeouts.c: what every call that waits makes of VRAM_TIMEOUT_NONE, _DEFAULT and _INFINITE. A
 * gate on the host holds the work up; for the last of the three another thread opens it, long after
 * the option wait_timeout.
 */
#include "unit/gate_world.h"
#include "unit/ring_world.h"
#include "vram/feed.h"
#include "vram/readback.h"
#include "vram/stream.h"
#include "vram/transfer.h"

#include <pthread.h>

#define MS UINT64_C(1000000)

enum { BYTES = 4096, DEFAULT_MS = 100, OPENS_MS = 250 };

/* Everything that can be waited for, behind one gate. */
struct scene {
    struct rig rig;
    struct gate gate;
    vram_addr memory;
    vram_point point;
    vram_async async;
    vram_stream_set *set;
    vram_readback *readback;
    vram_feed *feed;
    vram_pool *pool;
    vram_ring *ring;
    vram_kernel *peer;
    uint8_t host[BYTES];
};

static void scene_readback(struct scene *scene) {
    vram_readback_options options = {.size = sizeof options, .policy = VRAM_READBACK_EVERY};
    assert_ok(vram_readback_create(scene->rig.device, &options, &scene->readback));
    assert_ok(vram_readback_start(scene->readback, scene->rig.queue, scene->memory, BYTES, NULL));
}

/* Both slots of the feed are on their way. */
static void scene_feed(struct scene *scene) {
    vram_feed_options options = {.size = sizeof options, .mode = VRAM_FEED_DIRECT};
    vram_feed_block block;
    assert_ok(vram_feed_create(scene->rig.device, &options, &scene->feed));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_feed_begin(scene->feed, BYTES, VRAM_TIMEOUT_NONE, &block));
        assert_ok(vram_feed_submit(scene->feed, scene->rig.queue, scene->memory, block.number,
                                   BYTES, NULL));
    }
}

/* The input is full, and the kernel that echoes it is behind the gate. */
static void scene_ring(struct scene *scene) {
    vram_ring_options options = {.size = sizeof options, .input_capacity = 2, .output_capacity = 8};
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)echo_kernel,
                                 .entry = "peer"};
    struct kernel_order order = {.resident = 1};
    vram_ring_info info = {.size = sizeof info};
    assert_ok(vram_pool_create(scene->rig.device, NULL, &scene->pool));
    assert_ok(vram_ring_create(scene->pool, &options, &scene->ring));
    assert_ok(vram_ring_info_get(scene->ring, &info));
    assert_ok(vram_kernel_create(scene->rig.device, &source, &scene->peer));
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 2,
                          .arguments = (const void *[]){&info.control, &order},
                          .argument_bytes = (size_t[]){sizeof info.control, sizeof order},
                          .address_mask = 1};
    assert_ok(vram_queue_launch(scene->rig.other_queue, scene->peer, &launch));
    for (int i = 0; i < 2; i++) {
        assert_ok(vram_ring_send(scene->ring, "a", 1, 0, VRAM_TIMEOUT_NONE));
    }
}

static void scene_make(struct scene *scene) {
    vram_queue *stream;
    *scene = (struct scene){.rig = rig_make("host", NULL)};
    vram_device *device = scene->rig.device;
    assert_ok(vram_device_alloc(device, BYTES, VRAM_MEMORY_DEVICE, &scene->memory));
    if (!scene->rig.other_queue) {
        assert_ok(vram_queue_create(device, NULL, &scene->rig.other_queue));
    }
    gate_shut(device, scene->rig.queue, &scene->gate);
    assert_ok(vram_queue_mark(scene->rig.queue, &scene->point));
    assert_ok(vram_async_of_point(scene->point, "work", &scene->async));
    assert_ok(vram_stream_set_create(device, NULL, &scene->set));
    assert_ok(vram_stream_set_get(scene->set, 0, &stream));
    assert_ok(vram_queue_after(stream, scene->point));
    assert_ok(vram_queue_after(scene->rig.other_queue, scene->point));
    scene_readback(scene);
    scene_feed(scene);
    scene_ring(scene);
}

/* All has passed the gate, and little is left to wait for. Beside eight builds on two cores the end
   of the context once took more than the 100 ms. */
static void scene_end(struct scene *scene) {
    assert_ok(vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_INFINITE));
    assert_ok(vram_stream_set_wait(scene->set, VRAM_TIMEOUT_INFINITE));
    assert_ok(vram_readback_wait(scene->readback, 0, VRAM_TIMEOUT_INFINITE));
    assert_ok(vram_ring_stop(scene->ring));
    assert_ok(vram_ring_join(scene->ring, VRAM_TIMEOUT_INFINITE));
    assert_ok(vram_queue_wait(scene->rig.other_queue, VRAM_TIMEOUT_INFINITE));
    assert_ok(vram_ring_destroy(scene->ring));
    assert_ok(vram_context_destroy(scene->rig.context));
}

/* ---------------------------------------------------------------- the calls */

typedef vram_status wait_fn(struct scene *scene, uint64_t timeout);

static vram_status wait_queue(struct scene *scene, uint64_t timeout) {
    return vram_queue_wait(scene->rig.queue, timeout);
}

static vram_status wait_point(struct scene *scene, uint64_t timeout) {
    return vram_point_wait(scene->point, timeout);
}

static vram_status wait_async(struct scene *scene, uint64_t timeout) {
    return vram_async_wait(&scene->async, timeout);
}

static vram_status wait_set(struct scene *scene, uint64_t timeout) {
    return vram_stream_set_wait(scene->set, timeout);
}

static vram_status wait_readback(struct scene *scene, uint64_t timeout) {
    return vram_readback_wait(scene->readback, 0, timeout);
}

static vram_status wait_next(struct scene *scene, uint64_t timeout) {
    vram_frame frame;
    return vram_readback_next(scene->readback, timeout, &frame);
}

static vram_status wait_feed(struct scene *scene, uint64_t timeout) {
    vram_feed_block block;
    return vram_feed_begin(scene->feed, BYTES, timeout, &block);
}

static vram_status wait_send(struct scene *scene, uint64_t timeout) {
    return vram_ring_send(scene->ring, "b", 1, 0, timeout);
}

static vram_status wait_send_many(struct scene *scene, uint64_t timeout) {
    vram_ring_message message = {.data = "c", .bytes = 1};
    uint64_t sent;
    return vram_ring_send_many(scene->ring, &message, 1, timeout, &sent);
}

static vram_status wait_receive(struct scene *scene, uint64_t timeout) {
    char message[96];
    return vram_ring_receive(scene->ring, message, sizeof message, timeout, NULL);
}

static vram_status wait_drain(struct scene *scene, uint64_t timeout) {
    return vram_ring_drain(scene->ring, timeout);
}

static vram_status wait_join(struct scene *scene, uint64_t timeout) {
    return vram_ring_join(scene->ring, timeout);
}

/* 0 in an options struct is the default: there is no look alone. */
static vram_status wait_transfer(struct scene *scene, uint64_t timeout) {
    vram_transfer_options options = {
        .size = sizeof options, .strategy = VRAM_TRANSFER_SYNC, .timeout_ns = timeout};
    return vram_transfer_upload(scene->rig.queue, scene->memory, scene->host, BYTES, &options,
                                NULL);
}

static const struct {
    const char *name;
    wait_fn *wait;
    vram_status none; /* what VRAM_TIMEOUT_NONE answers */
} calls[] = {
    {"vram_queue_wait", wait_queue, VRAM_ERR_TIMEOUT},
    {"vram_point_wait", wait_point, VRAM_ERR_TIMEOUT},
    {"vram_async_wait", wait_async, VRAM_ERR_TIMEOUT},
    {"vram_stream_set_wait", wait_set, VRAM_ERR_TIMEOUT},
    {"vram_readback_wait", wait_readback, VRAM_ERR_TIMEOUT},
    {"vram_readback_next", wait_next, VRAM_ERR_TIMEOUT},
    {"vram_feed_begin", wait_feed, VRAM_ERR_TIMEOUT},
    {"vram_ring_send", wait_send, VRAM_ERR_NOT_READY},
    {"vram_ring_send_many", wait_send_many, VRAM_ERR_NOT_READY},
    {"vram_ring_receive", wait_receive, VRAM_ERR_NOT_READY},
    {"vram_ring_drain", wait_drain, VRAM_ERR_TIMEOUT},
    {"vram_ring_join", wait_join, VRAM_ERR_TIMEOUT},
};

/* -------------------------------------------------------------------- tests */

TEST(the_numbers) {
    assert_true(VRAM_TIMEOUT_NONE == 0);
    assert_true(VRAM_TIMEOUT_DEFAULT == UINT64_MAX - 1);
    assert_true(VRAM_TIMEOUT_INFINITE == UINT64_MAX);
}

/* One looks once, the other waits for as long as the option says. */
TEST(none_and_default_give_up) {
    static struct scene scene;
    assert_ok(vram_option_set("wait_timeout", "100ms"));
    scene_make(&scene);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        vram_status none = calls[i].wait(&scene, VRAM_TIMEOUT_NONE);
        uint64_t before = vr_os_now();
        vram_status late = calls[i].wait(&scene, VRAM_TIMEOUT_DEFAULT);
        uint64_t took = vr_os_now() - before;
        if (none != calls[i].none || late != VRAM_ERR_TIMEOUT || took < DEFAULT_MS * MS) {
            fail_msg("%s: %s, %s after %llu ns", calls[i].name, vram_status_name(none),
                     vram_status_name(late), (unsigned long long)took);
        }
    }
    assert_took(assert_int_equal(wait_transfer(&scene, 0), VRAM_ERR_TIMEOUT), DEFAULT_MS * MS,
                30 * SECOND);
    gate_open(&scene.gate);
    scene_end(&scene);
}

static void *open_later(void *argument) {
    vr_os_sleep(OPENS_MS * MS);
    gate_open(argument);
    return NULL;
}

/* Waits past the option, and past any other number. Each has a scene of its own. */
TEST(infinite_waits) {
    static struct scene scene;
    assert_ok(vram_option_set("wait_timeout", "100ms"));
    for (size_t i = 0; i <= sizeof calls / sizeof calls[0]; i++) {
        pthread_t opener;
        wait_fn *wait = i < sizeof calls / sizeof calls[0] ? calls[i].wait : wait_transfer;
        scene_make(&scene);
        assert_int_equal(pthread_create(&opener, NULL, open_later, &scene.gate), 0);
        if (wait == wait_join) {
            assert_ok(vram_ring_stop(scene.ring));
        }
        vram_status status = wait(&scene, VRAM_TIMEOUT_INFINITE);
        assert_int_equal(pthread_join(opener, NULL), 0);
        if (status != VRAM_OK) {
            fail_msg("call %u: %s", (unsigned)i, vram_status_name(status));
        }
        scene_end(&scene);
    }
}
