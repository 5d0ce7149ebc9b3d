/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_watchers.c: watchers of a device, notified on one thread while another thread closes the
 * device.
 */
#include "unit/device_world.h"
#include "vram/vram.h"
#include "xfer/flight.h"

#include <pthread.h>
#include <time.h>

enum { SMALL = 4096, ENTRIES = 16 };

static _Alignas(65536) unsigned char pages[ENTRIES][65536];

/* ------------------------------------------------------------- a cleanup, and an end */

static pthread_t closer;
static struct rig *meets;
static atomic_int unlocking;
static vr_pinned_unregister_fn *plain_unregister;

static void *close_now(void *argument) {
    vram_device_close(((struct rig *)argument)->device);
    return NULL;
}

/* Inside the first call: closes the device on another thread, up to where that waits. */
static vram_status slow_unregister(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    if (atomic_fetch_add(&unlocking, 1) == 0) {
        struct timespec moment = {.tv_nsec = 50000000};
        assert_int_equal(pthread_create(&closer, NULL, close_now, meets), 0);
        nanosleep(&moment, NULL);
    }
    return plain_unregister(device, addr, bytes);
}

/* A cleanup that is unlocking memory when the device closes finishes; nothing is unlocked twice. */
TEST(a_cleanup_ends_before_its_device) {
    for (int of_context = 0; of_context < 2; of_context++) {
        struct rig rig = rig_make("sim", "memory=64M");
        struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
        struct vr_pinned_ops pinned = *device->base.pinned;
        uint64_t bytes;
        for (int i = 0; i < ENTRIES; i++) {
            assert_ok(vram_pinned_begin(rig.device, pages[i], SMALL));
            assert_ok(vram_pinned_end(rig.device, pages[i], SMALL));
        }
        atomic_store(&unlocking, 0);
        plain_unregister = pinned.unregister_pages;
        pinned.unregister_pages = slow_unregister;
        device->base.pinned = &pinned;
        vr_leave(device);
        meets = &rig;
        vram_status status = of_context ? vram_context_trim(rig.context, NULL, &bytes)
                                        : vram_device_trim(rig.device, NULL, &bytes);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        pthread_join(closer, NULL);
        expect_protocol(&rig);
        vram_context_destroy(rig.context);
    }
}

/* -------------------------------------------------------------- ends inside of ends */

enum { QUEUES = 80 };

static struct {
    vram_queue *queues[QUEUES];
    unsigned destroyed, depth, deepest;
} chain;

/* The end of each queue is told to a callback that destroys the next one. */
static void destroy_next(void *user, vram_status status) {
    (void)user;
    assert_ok(status);
    chain.depth++;
    chain.deepest = chain.depth > chain.deepest ? chain.depth : chain.deepest;
    if (chain.destroyed < QUEUES) {
        vram_queue_destroy(chain.queues[chain.destroyed++]);
    }
    chain.depth--;
}

/* Any number of ends may be told at the same time, one inside the other. */
TEST(ends_may_be_nested, "sim:memory=64M,lag=1000") {
    vram_addr addr;
    memset(&chain, 0, sizeof chain);
    assert_ok(vram_device_alloc(rig->device, SMALL, VRAM_MEMORY_DEVICE, &addr));
    for (unsigned i = 0; i < QUEUES; i++) {
        vram_async async;
        vram_point point;
        assert_ok(vram_queue_create(rig->device, NULL, &chain.queues[i]));
        assert_ok(vram_queue_fill(chain.queues[i], addr, 1, 1, SMALL));
        assert_ok(vram_queue_mark(chain.queues[i], &point));
        assert_ok(vram_async_of_point(point, "fill", &async));
        assert_ok(vram_async_then(&async, destroy_next, NULL));
    }
    vram_queue_destroy(chain.queues[chain.destroyed++]);
    assert_int_equal(chain.destroyed, QUEUES);
    assert_true(chain.deepest > 64);
    assert_ok(vram_device_free(rig->device, addr));
}
