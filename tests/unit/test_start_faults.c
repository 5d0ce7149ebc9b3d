/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_start_faults.c: everything that a program starts on a device, when the system or the library
 * cannot give it what it needs: a condition variable, a thread, a descriptor, a handle, a place in
 * the list of a device that stays open. Each of these fails in turn, once and for ever.
 *
 * The linker leads the library's calls here (WRAPS in CMakeLists.txt). The plan of base/os/fault.c
 * would also strike the files that a simulated device keeps its memory in.
 */
#include "unit/transfer_world.h"
#include "vram/vram.h"

#include "base/lock.h"
#include "core/space/space.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* ---------------------------------------------------------------------- the plan */

static struct {
    unsigned calls, nth, failed; /* counted since the plan was made; which fails; how many did */
    bool for_ever;               /* and all after it */
} plan;

static void plan_make(unsigned nth, bool for_ever) {
    plan.calls = plan.failed = 0;
    plan.nth = nth;
    plan.for_ever = for_ever;
}

/* Only the test's thread starts anything. */
static bool plan_strikes(void) {
    unsigned call = ++plan.calls;
    bool strikes = plan.nth && (call == plan.nth || (plan.for_ever && call > plan.nth));
    plan.failed += strikes;
    return strikes;
}

int __real_vr_os_cond_init(pthread_cond_t *cond);
int __wrap_vr_os_cond_init(pthread_cond_t *cond);
int __wrap_vr_os_cond_init(pthread_cond_t *cond) {
    return plan_strikes() ? EAGAIN : __real_vr_os_cond_init(cond);
}

vram_status __real_vr_handle_publish(enum vr_kind kind, void *object, void (*destroy)(void *object),
                                     uint64_t *handle);
vram_status __wrap_vr_handle_publish(enum vr_kind kind, void *object, void (*destroy)(void *object),
                                     uint64_t *handle);
vram_status __wrap_vr_handle_publish(enum vr_kind kind, void *object, void (*destroy)(void *object),
                                     uint64_t *handle) {
    return plan_strikes() ? vr_fail(VRAM_ERR_LIMIT, "all handles are in use")
                          : __real_vr_handle_publish(kind, object, destroy, handle);
}

/* As if the device had begun to close in another thread. */
vram_status __real_vr_device_list_watcher(struct vr_device_object *device,
                                          struct vr_watcher *watcher);
vram_status __wrap_vr_device_list_watcher(struct vr_device_object *device,
                                          struct vr_watcher *watcher);
vram_status __wrap_vr_device_list_watcher(struct vr_device_object *device,
                                          struct vr_watcher *watcher) {
    return plan_strikes() ? vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed")
                          : __real_vr_device_list_watcher(device, watcher);
}

vram_status __real_vr_os_event_open(int fds[2]);
vram_status __wrap_vr_os_event_open(int fds[2]);
vram_status __wrap_vr_os_event_open(int fds[2]) {
    return plan_strikes() ? vr_fail(VRAM_ERR_LIMIT, "all descriptors are in use")
                          : __real_vr_os_event_open(fds);
}

vram_status __real_vr_os_thread_start(struct vr_thread *thread, const char *name,
                                      void (*run)(void *), void *argument);
vram_status __wrap_vr_os_thread_start(struct vr_thread *thread, const char *name,
                                      void (*run)(void *), void *argument);
vram_status __wrap_vr_os_thread_start(struct vr_thread *thread, const char *name,
                                      void (*run)(void *), void *argument) {
    return plan_strikes() ? vr_fail(VRAM_ERR_LIMIT, "no thread is left")
                          : __real_vr_os_thread_start(thread, name, run, argument);
}

/* -------------------------------------------------------------- what is started */

typedef vram_status start_fn(struct rig *rig);

enum { BLOCK = 900001 };
static vram_addr block, other; /* of the device, written before anything fails */

static void no_pressure(void *user, const vram_pressure_event *event) {
    (void)user, (void)event;
}

static vram_status start_pool(struct rig *rig) {
    vram_pool *pool = NULL;
    vram_addr addr;
    vram_status status = vram_pool_create(rig->device, NULL, &pool);
    if (status == VRAM_OK) {
        assert_ok(vram_alloc(pool, 100, NULL, &addr));
        assert_ok(vram_free(addr, NULL));
        assert_ok(vram_pool_destroy(pool));
    }
    return status;
}

static vram_status start_device_watch(struct rig *rig) {
    vram_watch_options options = {.size = sizeof options, .call = no_pressure};
    vram_watch *watch = NULL;
    vram_status status = vram_device_watch_begin(rig->device, &options, &watch);
    assert_ok(vram_watch_end(watch));
    return status;
}

static vram_status start_monitor(struct rig *rig) {
    vram_monitor *monitor = NULL;
    vram_status status = vram_monitor_begin(rig->context, NULL, &monitor);
    assert_ok(vram_monitor_end(monitor));
    return status;
}

static vram_status start_trace(struct rig *rig) {
    char path[64];
    snprintf(path, sizeof path, "start_faults.%lld.vrt", (long long)getpid());
    vram_trace_options options = {.size = sizeof options, .path = path};
    vram_trace *trace = NULL;
    vram_status status = vram_trace_begin(rig->context, &options, &trace);
    assert_ok(vram_trace_end(trace));
    (void)unlink(path);
    return status;
}

static vram_status start_readback(struct rig *rig) {
    vram_readback_options options = {.size = sizeof options, .bytes = 4096};
    vram_readback *readback = NULL;
    vram_status status = vram_readback_create(rig->device, &options, &readback);
    assert_ok(vram_readback_destroy(readback));
    return status;
}

static vram_status start_feed(struct rig *rig) {
    vram_feed_options options = {.size = sizeof options, .bytes = 4096};
    vram_feed *feed = NULL;
    vram_status status = vram_feed_create(rig->device, &options, &feed);
    assert_ok(vram_feed_destroy(feed));
    return status;
}

static vram_status start_stream_set(struct rig *rig) {
    vram_stream_set *set = NULL;
    vram_status status = vram_stream_set_create(rig->device, NULL, &set);
    assert_ok(vram_stream_set_destroy(set));
    return status;
}

static vram_status start_queue(struct rig *rig) {
    vram_queue *queue = NULL;
    vram_status status = vram_queue_create(rig->device, NULL, &queue);
    assert_ok(vram_queue_destroy(queue));
    return status;
}

static vram_status start_physical(struct rig *rig) {
    vram_physical *physical = NULL;
    vram_status status = vram_physical_create(rig->device, 2 * MIB, &physical);
    assert_ok(vram_physical_destroy(physical));
    return status;
}

/* A handle for work that is not complete, and a descriptor for it. */
static vram_status start_async(struct rig *rig) {
    vram_async async = {{0}};
    vram_point point;
    struct pollfd file = {.fd = -1, .events = POLLIN};
    assert_ok(vram_queue_fill(rig->queue, block, 1, 1, BLOCK));
    assert_ok(vram_queue_mark(rig->queue, &point));
    vram_status status = vram_async_of_point(point, "fill", &async);
    if (status == VRAM_OK) {
        status = vram_async_fd_open(&async, 1, &file.fd);
    }
    vram_error kept = *vram_error_get();
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    if (status == VRAM_OK) {
        assert_int_equal(poll(&file, 1, 20000), 1);
        close(file.fd);
    }
    vram_async_end(&async);
    vr_error_restore(&kept);
    return status;
}

/* Copies through slots: without one of these they go the driver's way, or fail. */
static vram_status start_staging(struct rig *rig) {
    unsigned char *host = pattern_of(BLOCK, 1), *back = malloc(BLOCK);
    vram_async async = {{0}};
    vram_status status = vram_transfer_upload(rig->queue, block, host, BLOCK, NULL, &async);
    if (status == VRAM_OK) {
        status = vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT);
        vram_async_end(&async);
    }
    assert_ok(
        vram_queue_fill(rig->queue, other, 1, 1, 64)); /* the queue is busy: workers fetch it */
    if (status == VRAM_OK) {
        status = vram_transfer_download(rig->queue, back, block, BLOCK, NULL, &async);
    }
    if (status == VRAM_OK) {
        status = vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT);
    }
    vram_error kept = *vram_error_get();
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    if (status == VRAM_OK) {
        assert_memory_equal(host, back, BLOCK);
    }
    vram_async_end(&async);
    free(host);
    free(back);
    vr_error_restore(&kept);
    return status;
}

/* ----------------------------------------------------------------------- failing */

/* One start with a call that fails, and one after it: whatever failed, the next one works. */
static bool start_once(start_fn *begin, unsigned nth, bool for_ever) {
    struct rig rig = rig_make("sim", "memory=64M,lag=5");
    block = memory_of(rig.device, BLOCK);
    other = memory_of(rig.device, 64);
    assert_ok(vram_queue_fill(rig.queue, block, 1, 1, BLOCK));
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    vram_error_clear();
    plan_make(nth, for_ever);
    vram_status status = begin(&rig);
    bool struck = plan.failed > 0;
    plan_make(0, false);
    assert_int_equal(vram_error_get()->status, status);
    assert_true(status == VRAM_OK || struck);
    vram_error_clear();
    assert_ok(begin(&rig));
    assert_ok(vram_device_free(rig.device, block));
    assert_ok(vram_device_free(rig.device, other));
    rig_end_clean(&rig);
    return struck;
}

static void each_start(start_fn *begin) {
    assert_ok(vram_option_set("staging_slot", "64K"));
    assert_ok(vram_option_set("staging_slots", "16"));
    assert_ok(vram_option_set("staging_threads", "3"));
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        unsigned nth = 1;
        while (start_once(begin, nth, for_ever)) {
            assert_true(++nth < 200);
        }
        assert_true(nth > 1); /* there was something to fail */
    }
}

#define STARTS(name)                                                                               \
    static void name##_may_fail(void **state) {                                                    \
        (void)state;                                                                               \
        each_start(start_##name);                                                                  \
    }
STARTS(pool)
STARTS(device_watch)
STARTS(monitor)
STARTS(trace)
STARTS(readback)
STARTS(feed)
STARTS(stream_set)
STARTS(queue)
STARTS(physical)
STARTS(async)
STARTS(staging)

/* ------------------------------------------------------- addresses of a pool in the making */

static vram_queue *late_user; /* uses the addresses of the next pool while it is being made */

vram_status __real_vr_space_create(const struct vr_space_config *config, struct vr_space **space);
vram_status __wrap_vr_space_create(const struct vr_space_config *config, struct vr_space **space);
vram_status __wrap_vr_space_create(const struct vr_space_config *config, struct vr_space **space) {
    vram_queue *queue = late_user;
    if (!queue) {
        return __real_vr_space_create(config, space);
    }
    late_user = NULL;
    assert_int_equal(vram_use(config->base, queue), VRAM_ERR_INVALID);
    return vr_fail(VRAM_ERR_HOST_MEMORY, "host memory ran out");
}

/* A block of a pool that has ended is used in another thread, by mistake, and host memory runs out
   for the pool that has its addresses now. */
static void late_uses_leave_nothing_in_a_new_pool(void **state) {
    const vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = NULL;
    (void)state;
    late_user = rig.queue;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_HOST_MEMORY);
    assert_null(late_user); /* it was there */
    rig_end_clean(&rig);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name##_may_fail, start, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(pool),
        TEST(device_watch),
        TEST(monitor),
        TEST(trace),
        TEST(readback),
        TEST(feed),
        TEST(stream_set),
        TEST(queue),
        TEST(physical),
        TEST(async),
        TEST(staging),
        cmocka_unit_test_setup_teardown(late_uses_leave_nothing_in_a_new_pool, start, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
