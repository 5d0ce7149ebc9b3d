/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_opencl_queue.c: order, points in time and waits on OpenCL's queues, queues of the program's,
 * ends, and lost devices.
 */
#include "unit/opencl_world.h"

#include <pthread.h>

enum { BYTES = 64 * 1024 };

static vram_status upload(vram_queue *queue, vram_addr to, const char *text) {
    return vram_queue_upload(queue, to, text, 8);
}

static vram_status poll_ready(vram_queue *queue) {
    uint64_t late = vr_os_now() + FOR_EVER;
    vram_status status;
    do {
        status = vram_queue_poll(queue);
    } while (status == VRAM_ERR_NOT_READY && vr_os_now() < late);
    return status;
}

/* ------------------------------------------------------------------- points */

/* Callbacks that come late, and in the other order, neither hold a wait up nor set a point back;
   also to a queue that is gone. */
TEST(late_callbacks_do_no_harm) {
    struct stage stage;
    vram_point points[5];
    stage_open(&stage, "svm");
    fake->settings->late_callbacks = 1;
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_queue_mark(stage.queue, &points[i]));
    }
    assert_ok(vram_point_wait(points[4], FOR_EVER));
    fake->call_back();
    for (int i = 0; i < 5; i++) {
        assert_ok(vram_point_poll(points[i]));
    }
    assert_ok(vram_queue_mark(stage.queue, &points[0]));
    assert_ok(vram_queue_destroy(stage.queue));
    for (int round = 0; round < 3; round++) { /* nor are they taken for another queue's */
        vram_queue *later;
        assert_ok(vram_queue_create(stage.device, NULL, &later));
        fake->hold(true);
        assert_ok(vram_queue_mark(later, &points[0]));
        fake->call_back();
        assert_int_equal(vram_point_poll(points[0]), VRAM_ERR_NOT_READY);
        fake->hold(false);
        assert_ok(vram_point_wait(points[0], FOR_EVER));
        assert_ok(vram_queue_destroy(later));
    }
    fake->settle();
    fake->call_back();
    stage_close(&stage);
    fake->call_back(); /* to a queue that is gone: its line is still there */
}

TEST(an_idle_queue_says_so) {
    struct stage stage;
    stage_open(&stage, "buffer");
    vram_addr addr = take(&stage, BYTES);
    assert_ok(poll_ready(stage.queue));
    fake->hold(true);
    assert_ok(upload(stage.queue, addr, "libvram"));
    assert_int_equal(vram_queue_poll(stage.queue), VRAM_ERR_NOT_READY);
    uint64_t markers = plan->calls("clEnqueueMarkerWithWaitList");
    for (int i = 0; i < 10; i++) { /* one question is open: no more are asked */
        assert_int_equal(vram_queue_poll(stage.queue), VRAM_ERR_NOT_READY);
    }
    assert_int_equal(plan->calls("clEnqueueMarkerWithWaitList"), markers);
    fake->hold(false);
    assert_ok(poll_ready(stage.queue));
    stage_close(&stage);
}

/* Queues of one context of the driver's, and of two, where events are no good. */
TEST(a_queue_waits_for_another) {
    for (int apart = 0; apart < 2; apart++) {
        struct stage stage;
        vram_device *other;
        vram_queue *second;
        vram_point point;
        char text[8] = "";
        stage_open(&stage, "svm");
        assert_ok(vram_device_open(stage.context, 0, &other));
        assert_ok(vram_queue_create(apart ? other : stage.device, NULL, &second));
        vram_addr addr = take(&stage, BYTES);
        fake->hold(true);
        assert_ok(upload(stage.queue, addr, "libvram"));
        assert_ok(vram_queue_mark(stage.queue, &point));
        assert_ok(vram_queue_after(second, point));
        if (!apart) {
            assert_ok(vram_queue_download(second, text, addr, 8));
        }
        assert_int_equal(vram_queue_poll(second), VRAM_ERR_NOT_READY);
        fake->hold(false);
        assert_ok(vram_queue_wait(second, FOR_EVER));
        assert_ok(vram_point_poll(point));
        assert_string_equal(text, apart ? "" : "libvram");
        assert_ok(vram_queue_after(second, point)); /* which has passed */
        stage_close(&stage);
    }
}

/* Priorities are asked for where there are any; names of extensions are whole words. */
TEST(priorities_are_asked_for_where_there_are_any) {
    static const struct {
        const char *extensions;
        bool known;
    } rows[] = {{"cl_khr_priority_hints2 xcl_khr_priority_hints", false},
                {"cl_khr_icd", false},
                {"cl_khr_priority_hints", true},
                {"cl_khr_icd cl_khr_priority_hints", true},
                {"cl_khr_priority_hints2 cl_khr_priority_hints cl_khr_icd", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const vram_queue_options options = {.size = sizeof options, .priority = 3};
        struct stage stage;
        vram_queue *queue;
        fake->settings->extensions = rows[i].extensions;
        stage_open(&stage, "svm");
        plan->refuse(NULL, 0, 0, false);
        assert_ok(vram_queue_create(stage.device, &options, &queue));
        assert_int_equal(plan->calls("clCreateCommandQueueWithProperties"), rows[i].known);
        stage_close(&stage);
    }
}

/* ---------------------------------------------------------- the program's own */

/* A queue like the stage's, as the program makes it. */
static struct vr_cl_queue *program_queue(struct stage *stage, bool unordered, bool elsewhere) {
    void *own;
    assert_ok(vram_queue_native(stage->queue, &own));
    return fake->queue_new(own, unordered, elsewhere);
}

static void release(struct vr_cl_queue *queue) {
    vr_cl_int (*give)(struct vr_cl_queue *) = NULL;
    void *library = dlopen(FAKE_OPENCL_PATH, RTLD_NOW | RTLD_LOCAL);
    *(void **)&give = dlsym(library, "clReleaseCommandQueue");
    assert_int_equal(give(queue), VR_CL_SUCCESS);
}

/* The fake runs such a queue last come first served: only barriers keep the order, and without its
   barrier nothing is submitted. */
TEST(adopted_queues_are_in_order) {
    for (int unordered = 0; unordered < 2; unordered++) {
        struct stage stage;
        vram_queue *queue;
        vram_addr managed;
        char text[8] = "";
        stage_open(&stage, "svm");
        struct vr_cl_queue *native = program_queue(&stage, unordered, false);
        assert_ok(vram_queue_adopt(stage.device, native, &queue));
        vram_addr addr = take(&stage, BYTES);
        assert_ok(vram_device_alloc(stage.device, 4096, VRAM_MEMORY_MANAGED, &managed));
        fake->hold(true);
        assert_ok(upload(queue, addr, "before "));
        assert_ok(vram_queue_copy(queue, addr + 64, addr, 8));
        assert_ok(upload(queue, addr, "behind "));
        assert_ok(vram_queue_download(queue, text, addr + 64, 8));
        fake->hold(false);
        assert_ok(vram_queue_wait(queue, FOR_EVER));
        assert_string_equal(text, "before ");
        plan->refuse("clEnqueueBarrierWithWaitList", 1, VR_CL_OUT_OF_RESOURCES, true);
        vram_status expected = unordered ? VRAM_ERR_DEVICE_MEMORY : VRAM_OK;
        assert_int_equal(upload(queue, addr, "nobody "), expected);
        assert_int_equal(vram_queue_copy(queue, addr + 64, addr, 8), expected);
        assert_int_equal(vram_queue_fill(queue, addr, 0, 4, 8), expected);
        assert_int_equal(vram_queue_prefetch(queue, managed, 64, VRAM_TARGET_HOST), expected);
        assert_int_equal(vram_queue_download(queue, text, addr, 8), expected);
        plan->refuse(NULL, 0, 0, false);
        assert_ok(vram_queue_wait(queue, FOR_EVER));
        assert_true(!unordered || strcmp(text, "before ") == 0);
        assert_ok(vram_queue_end(queue));
        release(native); /* it is still the program's */
        stage_close(&stage);
    }
}

/* The program's own command comes behind the library's. */
TEST(the_programs_commands_are_in_order) {
    vr_cl_int (*copy)(struct vr_cl_queue *, vr_cl_uint, void *, const void *, size_t, vr_cl_uint,
                      struct vr_cl_event *const *, struct vr_cl_event **) = NULL;
    struct stage stage;
    vram_queue *queue;
    char text[8] = "";
    stage_open(&stage, "svm");
    *(void **)&copy = dlsym(dlopen(FAKE_OPENCL_PATH, RTLD_NOW | RTLD_LOCAL), "clEnqueueSVMMemcpy");
    struct vr_cl_queue *native = program_queue(&stage, true, false);
    assert_ok(vram_queue_adopt(stage.device, native, &queue));
    vram_addr addr = take(&stage, BYTES);
    assert_ok(vram_queue_fill(queue, addr, 0, 4, 8));
    assert_ok(vram_queue_wait(queue, FOR_EVER));
    fake->hold(true);
    assert_ok(upload(queue, addr, "libvram"));
    assert_int_equal(copy(native, 0, text, (const void *)(uintptr_t)addr, 8, 0, NULL, NULL), 0);
    fake->hold(false);
    assert_ok(vram_queue_wait(queue, FOR_EVER));
    assert_string_equal(text, "libvram");
    assert_ok(vram_queue_end(queue));
    release(native);
    stage_close(&stage);
}

/* Of another context, of no device, or none at all. */
TEST(queues_that_will_not_do) {
    struct stage stage;
    vram_queue *queue = NULL;
    stage_open(&stage, "svm");
    struct vr_cl_queue *foreign = program_queue(&stage, false, true);
    struct vr_cl_queue *native = program_queue(&stage, false, false);
    assert_int_equal(vram_queue_adopt(stage.device, foreign, &queue), VRAM_ERR_INVALID);
    assert_opencl_error(VRAM_ERR_INVALID, "clGetCommandQueueInfo", 0);
    assert_int_equal(vram_queue_adopt(stage.device, NULL, &queue), VRAM_ERR_INVALID);
    plan->refuse("clGetCommandQueueInfo", 2, VR_CL_SUCCESS, false);
    assert_int_equal(vram_queue_adopt(stage.device, native, &queue), VRAM_ERR_INVALID);
    plan->refuse(NULL, 0, 0, false);
    assert_null(queue);
    release(foreign);
    release(native);
    stage_close(&stage);
}

/* ------------------------------------------------------------------------- ends */

static void *let_go(void *unused) {
    (void)unused;
    while (!plan->calls("clFinish") && !plan->calls("clEnqueueMarkerWithWaitList")) {
        vr_os_yield();
    }
    fake->hold(false);
    return NULL;
}

/* What comes behind a queue's end gives memory back that its work writes to; a driver that never
   waits is asked four times, and the queue ends all the same. */
TEST(a_queue_ends_behind_its_work) {
    for (int refused = 0; refused < 3; refused++) {
        struct stage stage;
        pthread_t thread;
        stage_open(&stage, "svm");
        vram_addr addr = take(&stage, BYTES);
        fake->hold(true);
        assert_ok(upload(stage.queue, addr, "libvram"));
        plan->refuse(refused ? "clFinish" : NULL, 1, VR_CL_OUT_OF_RESOURCES, refused > 1);
        assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
        assert_ok(vram_queue_destroy(stage.queue));
        assert_memory_equal((const void *)(uintptr_t)addr, "libvram", 8);
        pthread_join(thread, NULL);
        assert_int_equal(plan->struck(), refused > 1 ? 4 : refused);
        plan->refuse(NULL, 0, 0, false);
        stage_close(&stage);
    }
}

/* -------------------------------------------------------------------------- loss */

EACH_TEST(begin, end)

/* An invalid queue of our own is a lost device; one of the program's is its mistake. */
TEST_IN(begin, end_lost, invalid_queues_are_somebodys) {
    struct stage stage;
    vram_queue *queue;
    stage_open(&stage, "svm");
    struct vr_cl_queue *native = program_queue(&stage, false, false);
    assert_ok(vram_queue_adopt(stage.device, native, &queue));
    vram_addr addr = take(&stage, BYTES);
    plan->refuse("clEnqueueSVMMemcpy", 1, VR_CL_INVALID_COMMAND_QUEUE, true);
    assert_int_equal(upload(queue, addr, "libvram"), VRAM_ERR_INVALID);
    assert_int_equal(upload(stage.queue, addr, "libvram"), VRAM_ERR_DEVICE_LOST);
    assert_opencl_error(VRAM_ERR_DEVICE_LOST, "clEnqueueSVMMemcpy", VR_CL_INVALID_COMMAND_QUEUE);
    plan->refuse(NULL, 0, 0, false);
    release(native);
    stage_close(&stage);
}

/* Work that ends abnormally loses the device and passes no point; who waits elsewhere goes on. Then
   no driver is called any more. */
TEST_IN(begin, end_lost, failed_work_loses_the_device) {
    struct stage stage;
    vram_device *other;
    vram_queue *waiter;
    vram_point point, more;
    stage_open(&stage, "buffer");
    assert_ok(vram_device_open(stage.context, 0, &other));
    assert_ok(vram_queue_create(other, NULL, &waiter));
    vram_addr addr = take(&stage, BYTES);
    fake->hold(true);
    assert_ok(upload(stage.queue, addr, "libvram"));
    assert_ok(vram_queue_mark(stage.queue, &point));
    assert_ok(vram_queue_after(waiter, point));
    fake->crash(VR_CL_OUT_OF_RESOURCES);
    fake->hold(false);
    assert_int_equal(poll_ready(stage.queue), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_point_poll(point), VRAM_ERR_DEVICE_LOST);
    assert_int_equal(vram_queue_mark(stage.queue, &more), VRAM_ERR_DEVICE_LOST);
    fake->crash(0);
    fake->settle(); /* callbacks call the driver */
    uint64_t calls = plan->calls("any");
    assert_ok(vram_device_free(stage.device, addr));
    (void)vram_queue_destroy(stage.queue);
    vram_device_close(stage.device);
    assert_int_equal(plan->calls("any"), calls);
    assert_ok(vram_queue_wait(waiter, FOR_EVER)); /* was let go */
    stage_close(&stage);
}

/* A device that is given up before its work came to an end lets go of those who wait for it. */
TEST_IN(begin, end_lost, a_lost_queue_lets_go) {
    struct stage stage;
    vram_device *other;
    vram_queue *waiter;
    vram_point point;
    stage_open(&stage, "svm");
    assert_ok(vram_device_open(stage.context, 0, &other));
    assert_ok(vram_queue_create(other, NULL, &waiter));
    vram_addr addr = take(&stage, BYTES);
    fake->settings->late_callbacks = 1; /* they never come, as far as anyone can tell */
    assert_ok(vram_queue_mark(stage.queue, &point));
    assert_ok(vram_queue_after(waiter, point));
    fake->settings->late_callbacks = 0;
    plan->refuse("clEnqueueSVMMemFill", 1, VR_CL_CONTEXT_TERMINATED_KHR, false);
    assert_int_equal(vram_queue_fill(stage.queue, addr, 0, 4, 8), VRAM_ERR_DEVICE_LOST);
    (void)vram_queue_destroy(stage.queue);
    assert_ok(vram_queue_wait(waiter, FOR_EVER));
    stage_close(&stage);
    fake->call_back();
}
