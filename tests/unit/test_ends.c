/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ends.c: how queues, devices and contexts end when work, captures or drivers stand in the
 * way, what points say meanwhile, and what is in the error record afterwards.
 */
#include "unit/child.h"
#include "unit/device_world.h"
#include "vram/vmm.h"

#include <stdlib.h>
#include <unistd.h>

/* Leaves a child with the line number of what did not hold. */
#define EXPECT(fact)                                                                               \
    do {                                                                                           \
        if (!(fact)) {                                                                             \
            return __LINE__ % 250 + 1;                                                             \
        }                                                                                          \
    } while (0)

/* ------------------------------------------------------------ work that never ends */

static atomic_bool gate;
static atomic_bool running;

/* Writes until the gate opens; memory that is taken away meanwhile kills the process. */
static void write_until_gate(const vram_kernel_call *call) {
    volatile uint64_t *memory = (void *)*(uintptr_t *)call->arguments[0];
    atomic_store(&running, true);
    do {
        *memory += 1;
    } while (!atomic_load(&gate));
}

static int launch_endless(vram_device *device, vram_queue *queue, vram_addr addr) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)write_until_gate,
                                 .entry = "write_until_gate"};
    const void *arguments[] = {&addr};
    const size_t sizes[] = {sizeof addr};
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = arguments,
                          .argument_bytes = sizes};
    vram_kernel *kernel;
    EXPECT(vram_kernel_create(device, &source, &kernel) == VRAM_OK);
    EXPECT(vram_queue_launch(queue, kernel, &launch) == VRAM_OK);
    while (!atomic_load(&running)) {
        usleep(100);
    }
    return 0;
}

/* A kernel that writes into `kind` of memory is left alone with it, whatever is ended around it. */
enum scene { PLAIN, MAPPED };
enum end { END_DEVICE, END_CONTEXT, END_QUEUE_FIRST };

struct play {
    enum scene scene;
    enum end end;
};

static int get_memory(vram_device *device, enum scene scene, vram_addr *addr) {
    vram_physical *physical;
    if (scene == PLAIN) {
        EXPECT(vram_device_alloc(device, MIB, VRAM_MEMORY_DEVICE, addr) == VRAM_OK);
        return 0;
    }
    EXPECT(vram_range_create(device, 2 * MIB, addr) == VRAM_OK);
    EXPECT(vram_physical_create(device, 2 * MIB, &physical) == VRAM_OK);
    EXPECT(vram_range_map(device, *addr, &physical, 1) == VRAM_OK);
    return 0;
}

static int play_endless(void *argument) {
    const struct play *play = argument;
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_point point;
    vram_addr addr;
    EXPECT(vram_option_set("wait_timeout", "20ms") == VRAM_OK);
    EXPECT(vram_context_create(&options, &context) == VRAM_OK);
    EXPECT(vram_device_open(context, 0, &device) == VRAM_OK);
    EXPECT(vram_queue_create(device, NULL, &queue) == VRAM_OK);
    EXPECT(get_memory(device, play->scene, &addr) == 0);
    EXPECT(launch_endless(device, queue, addr) == 0);
    EXPECT(vram_queue_mark(queue, &point) == VRAM_OK);
    if (play->end == END_QUEUE_FIRST) {
        EXPECT(vram_queue_destroy(queue) == VRAM_ERR_TIMEOUT);
        EXPECT(vram_queue_destroy(queue) == VRAM_ERR_STALE);
    }
    if (play->end == END_CONTEXT) {
        EXPECT(vram_context_destroy(context) == VRAM_ERR_TIMEOUT);
        EXPECT(strcmp(vram_error_get()->operation, "vram_context_destroy") == 0);
    } else {
        EXPECT(vram_device_close(device) == VRAM_ERR_TIMEOUT);
        EXPECT(strcmp(vram_error_get()->operation, "vram_device_close") == 0);
    }
    EXPECT(vram_error_get()->status == VRAM_ERR_TIMEOUT);
    EXPECT(vram_device_close(device) == VRAM_ERR_STALE);
    usleep(20000); /* the kernel goes on writing */
    EXPECT(vram_point_poll(point) == VRAM_ERR_NOT_READY);
    EXPECT(vram_queue_wait(queue, 0) == VRAM_ERR_STALE);
    EXPECT(vram_device_alloc(device, 1, VRAM_MEMORY_DEVICE, &addr) == VRAM_ERR_STALE);
    atomic_store(&gate, true);
    EXPECT(vram_point_wait(point, 10 * SECOND) == VRAM_OK);
    EXPECT(vram_context_destroy(context) == (play->end == END_CONTEXT ? VRAM_ERR_STALE : VRAM_OK));
    return 0;
}

TEST(endless_work_keeps_its_memory) {
    for (int scene = PLAIN; scene <= MAPPED; scene++) {
        for (int end = END_DEVICE; end <= END_QUEUE_FIRST; end++) {
            struct play play = {(enum scene)scene, (enum end)end};
            assert_int_equal(in_child(play_endless, &play), 0);
        }
    }
}

/* All queues of a context share one deadline. */
static int play_many_endless(void *argument) {
    enum { QUEUES = 12 };
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_addr addr;
    (void)argument;
    EXPECT(vram_option_set("wait_timeout", "1s") == VRAM_OK);
    EXPECT(vram_context_create(&options, &context) == VRAM_OK);
    EXPECT(vram_device_open(context, 0, &device) == VRAM_OK);
    for (int i = 0; i < QUEUES; i++) {
        EXPECT(vram_queue_create(device, NULL, &queue) == VRAM_OK);
        EXPECT(get_memory(device, PLAIN, &addr) == 0);
        EXPECT(launch_endless(device, queue, addr) == 0);
    }
    uint64_t before = vr_os_now();
    EXPECT(vram_context_destroy(context) == VRAM_ERR_TIMEOUT);
    EXPECT(vr_os_now() - before < QUEUES * SECOND); /* a busy machine may take its time */
    atomic_store(&gate, true);
    return 0;
}

TEST(a_deadline_is_for_all_queues_together) {
    assert_int_equal(in_child(play_many_endless, NULL), 0);
}

/* ------------------------------------------------------------------------ captures */

/* A queue that is captured when it is destroyed cannot be asked: it is kept like unfinished work,
   its points tell the truth, and closing the device asks again. */
TEST(a_captured_queue_is_kept_aside, "sim:memory=1G,lag=500,seed=2") {
    vram_point point, late;
    vram_addr addr;
    assert_ok(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_queue_fill(rig->queue, addr, 1, 1, MIB));
    assert_ok(vram_queue_mark(rig->queue, &point));
    hook_set(rig->device);
    hook.signal_answer = VRAM_ERR_CAPTURE;
    assert_int_equal(vram_queue_destroy(rig->queue), VRAM_ERR_CAPTURE);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_CAPTURE);
    assert_string_equal(vram_error_get()->operation, "vram_queue_destroy");
    assert_int_equal(vram_queue_mark(rig->queue, &late), VRAM_ERR_STALE);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_NOT_READY);
    assert_ok(vram_point_wait(point, 30 * SECOND));
    hook.signal_answer = VRAM_OK;
}

/* -------------------------------------------------------------------------- points */

/* Memory of the program is in use until the wait says that it is not: a refused marker is no reason
   to say so. */
TEST(a_wait_needs_no_mark) {
    static char from[MIB], to[MIB];
    vram_addr addr;
    struct rig rig = rig_make("sim", "memory=1G,real=on,lag=100");
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    assert_ok(vram_queue_fill(rig.queue, addr, 7, 1, MIB));
    fault(&rig, VRAM_SIM_SIGNAL, 1, true, 9999);
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    expect_no_record();
    assert_ok(vram_queue_poll(rig.queue));
    assert_ok(vram_device_free(rig.device, addr));
    rig_end_clean(&rig);

    rig = rig_make("host", NULL);
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    memset(from, 5, sizeof from);
    for (int i = 0; i < 50; i++) {
        assert_ok(vram_queue_upload(rig.queue, addr, from, MIB));
    }
    assert_ok(vram_queue_download(rig.queue, to, addr, MIB));
    vram_error_clear();
    vr_mem_fail_at(1, true); /* and so no command for the marker */
    vram_status status = vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT);
    bool struck = vr_mem_failed() > 0;
    vr_mem_fail_at(0, false);
    assert_ok(status);
    assert_true(struck);
    expect_no_record();
    assert_memory_equal(to, from, MIB);
    vram_device_close(rig.device);
    vram_context_destroy(rig.context);
}

/* A program may clean up right where the log tells it that a device is lost: inside a call on a
   queue of that device. */
static vram_context *doomed;

static void destroy_on_loss(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    if (strstr(text, "was lost")) {
        vram_context_destroy(doomed);
    }
}

TEST(a_loss_may_be_cleaned_up_from_the_log) {
    vram_addr addr;
    assert_ok(vram_option_set("wait_timeout", "30s"));
    struct rig rig = rig_make("sim", "memory=1G");
    doomed = rig.context;
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    vram_log_set(destroy_on_loss, NULL, VRAM_LOG_ERROR);
    fault(&rig, VRAM_SIM_ANY, 1, false, VRAM_SIM_DEVICE_LOST);
    uint64_t before = vr_os_now();
    assert_int_equal(vram_queue_fill(rig.queue, addr, 1, 1, MIB), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_LOST);
    assert_true(vr_os_now() - before < 30 * SECOND);
    assert_int_equal(vram_queue_poll(rig.queue), VRAM_ERR_STALE);
}

/* ------------------------------------------------------------------ the error record */

/* A call that fails is told by its own failure, though leaving it closes the device and the driver
   refuses there. */
static void close_meanwhile(void *argument) {
    vram_device_close(argument);
}

TEST(the_record_is_of_the_call_that_failed) {
    vram_addr addr;
    struct rig rig = rig_make("sim", "memory=1G");
    assert_ok(vram_option_set("wait_timeout", "10ms"));
    assert_ok(vram_device_alloc(rig.device, MIB, VRAM_MEMORY_DEVICE, &addr));
    hook_set(rig.device);
    hook.alloc_meanwhile = close_meanwhile;
    hook.argument = rig.device;
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    fault(&rig, VRAM_SIM_FREE, 1, true, 9999);
    assert_int_equal(vram_device_alloc(rig.device, 1024 * MIB, VRAM_MEMORY_DEVICE, &addr),
                     VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_MEMORY);
    vram_context_destroy(rig.context);
}

/* ------------------------------------------------------------------ the end of it all */

static vram_context *watched_context;
static vram_device *watched_device;

/* Registered between two contexts: it must run after the flag is up, since the second one started a
   driver whose own handlers might stand here. */
static void late_handler(void) {
    vram_context *context;
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, watched_device);
    bool good = vram_context_create(NULL, &context) == VRAM_ERR_SHUTDOWN && device;
    if (good) { /* calls that are inside still reach no driver */
        uint64_t calls = vr_load(&device->driver_calls, VR_RELAXED);
        vram_addr addr = 0;
        good = vr_memory_alloc(&device->base, MIB, &addr) == VRAM_ERR_SHUTDOWN &&
               vr_memory_free(&device->base, MIB, MIB) == VRAM_ERR_SHUTDOWN &&
               vr_load(&device->driver_calls, VR_RELAXED) == calls;
    }
    _exit(good ? 0 : 1);
}

static int play_late_driver(void *argument) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    (void)argument;
    EXPECT(vram_context_create(&options, &watched_context) == VRAM_OK);
    EXPECT(atexit(late_handler) == 0);
    options.backends = "sim";
    EXPECT(vram_context_create(&options, &watched_context) == VRAM_OK);
    EXPECT(vram_device_open(watched_context, 0, &watched_device) == VRAM_OK);
    exit(2);
}

TEST_FIRST(a_driver_started_later_is_watched_too) {
    assert_int_equal(in_child(play_late_driver, NULL), 0);
}

/* Nor is a driver that did not answer when it was asked. One that never answers is believed in the
   end. */
TEST(a_wait_asks_again, "sim:memory=1G,real=on,lag=100") {
    vram_addr addr;
    vram_point point;
    assert_ok(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, &addr));
    for (int signals = 0; signals < 2; signals++) {
        assert_ok(vram_queue_fill(rig->queue, addr, 7, 1, MIB));
        assert_int_equal(vram_queue_poll(rig->queue), VRAM_ERR_NOT_READY);
        fault(rig, signals ? VRAM_SIM_POLL : VRAM_SIM_ANY, signals ? 1 : 2, false, 9999);
        assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
        expect_no_record();
        assert_ok(vram_queue_poll(rig->queue));
    }
    assert_ok(vram_queue_fill(rig->queue, addr, 7, 1, MIB));
    assert_ok(vram_queue_mark(rig->queue, &point));
    fault(rig, VRAM_SIM_POLL, 1, true, 9999);
    assert_int_equal(vram_point_wait(point, 0), VRAM_ERR_BACKEND);
    assert_int_equal(vram_error_get()->native_code, 9999);
    uint64_t before = vr_os_now();
    assert_int_equal(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT), VRAM_ERR_BACKEND);
    assert_true(vr_os_now() - before < 30 * SECOND);
    assert_int_equal(vram_error_get()->native_code, 9999);
    assert_ok(vram_sim_fault_set(rig->context, NULL));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_device_free(rig->device, addr));
}
