/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs_streams.c: bugs of others with streams, events, captures and several devices. Most of them
 * on the fake CUDA driver, which counts what no correct caller does.
 */
#include "others_bugs/bugs.h"

#include "byte_units.h"
#include "fake/fake_cuda.h"
#include "unit/device_world.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/limits.h"
#include "vram/oom.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct fake_cuda_control *fake;
static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static vram_pool *pool;

static int others_bugs_begin(void) {
    const struct fake_cuda_control *(*get)(void) = NULL;
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&get = dlsym(library, "fake_cuda_control");
    fake = get();
    fake->reset();
    fake->devices(2);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    return start();
}

static int others_bugs_end(void) {
    const char *text = "";
    struct fake_cuda_live live;
    fake->live(&live);
    assert_int_equal(live.total, 0);
    if (fake->violations(&text)) {
        fail_msg("the driver's rules were broken: %s", text);
    }
    return nothing_left();
}

static void world_open(uint64_t memory, const char *timeout) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    fake->capacity(memory);
    assert_ok(vram_option_set("wait_timeout", timeout));
    assert_ok(vram_context_create(&options, &context));
    assert_ok(vram_device_open(context, 0, &device));
    assert_ok(vram_queue_create(device, NULL, &queue));
    whole_device(device);
    assert_ok(vram_pool_create(device, NULL, &pool));
}

static vram_queue *stream_adopt(struct vr_cu_stream **stream) {
    vram_queue *adopted;
    *stream = fake->stream_make(0, false, false);
    assert_ok(vram_queue_adopt(device, *stream, &adopted));
    return adopted;
}

/* Ends that wait: a busy machine may need more than one of the short deadlines here. */
static void end_in_time(vram_status (*end)(vram_queue *), vram_queue *ended) {
    vram_status status = end(ended);
    for (int i = 0; i < 1000 && status == VRAM_ERR_TIMEOUT; i++) {
        status = end(ended);
    }
    assert_ok(status);
}

static void stream_leave(vram_queue *adopted, struct vr_cu_stream *stream) {
    end_in_time(vram_queue_end, adopted);
    fake->stream_end(stream);
}

static uint64_t driver_frees(void) {
    return fake->calls("cuMemFree") + fake->calls("cuMemUnmap") + fake->calls("cuMemRelease");
}

/* ------------------------------------------------------------------------ captures */

/* Memory runs out while a stream is captured, and the pool has some that it could give back. */
BUG(03, out_of_memory_beside_a_capture) {
    struct vr_cu_stream *stream;
    vram_addr graph, idle, none;
    world_open(128 * MIB, "50ms");
    vram_queue *captured = stream_adopt(&stream);
    assert_ok(vram_alloc(pool, 40 * MIB, captured, &graph));
    assert_ok(vram_alloc(pool, 40 * MIB, queue, &idle));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_queue_fill(captured, graph, 1, 4, MIB));
    assert_ok(vram_free(graph, captured));
    assert_int_equal(vram_alloc(pool, 100 * MIB, queue, &none), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    assert_true(fake->reaches(0, graph)); /* the graph's memory is mapped */
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    assert_ok(vram_free(idle, queue));
    assert_ok(vram_queue_wait(captured, 10 * SECOND));
    assert_ok(vram_queue_wait(queue, 10 * SECOND));
    assert_ok(vram_alloc(pool, 100 * MIB, queue, &idle));
    stream_leave(captured, stream);
    vram_context_destroy(context);
}

/* The same for an allocation of the captured stream itself: a status, and a report that says so. */
BUG(04, out_of_memory_in_a_capture) {
    struct vr_cu_stream *stream;
    vram_queue *region;
    vram_addr block, none, small;
    vram_oom_report report = {.size = sizeof report};
    world_open(128 * MIB, "50ms");
    vram_queue *adopted = stream_adopt(&stream);
    assert_ok(vram_capture_begin(adopted, &region));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_alloc(pool, 90 * MIB, region, &block));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vram_alloc(pool, 90 * MIB, region, &none), VRAM_ERR_DEVICE_MEMORY);
        assert_ok(vram_oom_report_get(pool, &report));
        assert_int_equal(report.asked_bytes, 90 * MIB);
        assert_ok(vram_alloc(pool, MIB, region, &small));
    }
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    end_in_time(vram_capture_end, region);
    stream_leave(adopted, stream);
    vram_context_destroy(context);
}

/* What was freed inside a capture is asked about only after it, and then is there for all. */
BUG(12, no_question_about_captured_events) {
    struct vr_cu_stream *stream;
    vram_addr block, next;
    world_open(128 * MIB, "5s");
    vram_queue *captured = stream_adopt(&stream);
    for (int round = 0; round < 4; round++) {
        assert_ok(vram_alloc(pool, 100 * MIB, captured, &block));
        fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
        assert_ok(vram_queue_fill(captured, block, 1, 4, MIB));
        assert_ok(vram_free(block, captured));
        assert_ok(vram_pool_trim(pool, NULL, NULL)); /* asks the other stream */
        assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        assert_ok(vram_alloc(pool, 100 * MIB, queue, &next));
        assert_ok(vram_free(next, queue));
        assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    }
    stream_leave(captured, stream);
    vram_context_destroy(context);
}

/* A capture that fails, and one that was never closed: the next one begins as the first did. */
BUG(13, failed_captures_leave_nothing) {
    struct vr_cu_stream *stream;
    vram_addr block, other;
    vram_point point;
    world_open(128 * MIB, "5s");
    vram_queue *adopted = stream_adopt(&stream);
    for (int round = 0; round < 4; round++) {
        vram_queue *region;
        assert_ok(vram_capture_begin(adopted, &region));
        fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
        assert_ok(vram_alloc(pool, 60 * MIB, region, &block));
        assert_ok(vram_free(block, region));
        fake->capture(stream, VR_CU_CAPTURE_INVALIDATED);
        assert_int_equal(vram_capture_end(region), VRAM_ERR_CAPTURE);
        fake->capture(stream, VR_CU_CAPTURE_NONE);
        end_in_time(vram_capture_end, region);
        assert_ok(vram_queue_mark(adopted, &point));
        assert_ok(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_alloc(pool, 120 * MIB, queue, &other)); /* all of it is back */
        assert_ok(vram_free(other, queue));
        assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    }
    stream_leave(adopted, stream);
    vram_context_destroy(context);
}

/* A pool that has nothing to do with the capture reuses and returns memory as always. */
BUG(14, other_pools_beside_a_capture) {
    struct vr_cu_stream *stream;
    vram_queue *region;
    vram_pool *mine;
    vram_addr graph, block, again;
    world_open(1024 * MIB, "5s");
    assert_ok(vram_pool_create(device, NULL, &mine));
    vram_queue *adopted = stream_adopt(&stream);
    assert_ok(vram_capture_begin(adopted, &region));
    fake->capture(stream, VR_CU_CAPTURE_ACTIVE);
    assert_ok(vram_alloc(pool, 20 * MIB, region, &graph));
    assert_ok(vram_alloc(mine, 40 * MIB, queue, &block));
    assert_ok(vram_queue_fill(queue, block, 1, 4, MIB));
    assert_ok(vram_free(block, queue));
    assert_ok(vram_alloc(mine, 40 * MIB, queue, &again));
    assert_int_equal(again, block);
    assert_ok(vram_free(again, queue));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(mine, NULL, NULL));
    assert_int_equal(stats_of(mine).reserved_bytes, 0);
    assert_true(stats_of(pool).reserved_bytes >= 20 * MIB);
    assert_int_equal(fake->capture_status(stream), VR_CU_CAPTURE_ACTIVE);
    fake->capture(stream, VR_CU_CAPTURE_NONE);
    end_in_time(vram_capture_end, region);
    stream_leave(adopted, stream);
    vram_context_destroy(context);
}

/* Regions begun twice, ended twice, left open at the end: a status each time, never an assertion,
   and the pool goes on. */
BUG(15, begun_and_ended_too_often) {
    struct vr_cu_stream *stream;
    vram_queue *first, *second = NULL;
    vram_addr block;
    world_open(128 * MIB, "5s");
    vram_queue *adopted = stream_adopt(&stream);
    assert_ok(vram_capture_begin(adopted, &first));
    vram_status twice = vram_capture_begin(adopted, &second);
    assert_ok(vram_alloc(pool, MIB, first, &block));
    assert_ok(vram_free(block, first));
    assert_ok(vram_capture_end(first));
    assert_int_equal(vram_capture_end(first), VRAM_ERR_STALE);
    if (twice == VRAM_OK) {
        assert_ok(vram_capture_end(second));
        assert_int_equal(vram_capture_end(second), VRAM_ERR_STALE);
    }
    assert_int_equal(vram_capture_end(queue), VRAM_ERR_INVALID);
    assert_int_equal(vram_alloc(pool, MIB, first, &block), VRAM_ERR_STALE);
    assert_ok(vram_alloc(pool, 120 * MIB, queue, &block));
    assert_ok(vram_capture_begin(adopted, &first)); /* left open */
    assert_ok(vram_context_destroy(context));
    fake->stream_end(stream);
}

/* ------------------------------------------------------------------ streams, events */

static vram_addr taken_meanwhile;
static vram_status status_meanwhile;

static void take_meanwhile(void *argument) {
    struct rig *rig = argument;
    vram_queue *other;
    assert_ok(vram_queue_create(rig->device, NULL, &other));
    status_meanwhile = vram_alloc(pool, 8 * MIB, other, &taken_meanwhile);
}

/* While the marker of a freed block is being submitted, another stream asks for that size. */
BUG(07, not_free_before_it_is_marked) {
    vram_addr block, large;
    struct rig rig = rig_make("sim", "memory=64M,lag=100");
    whole_device(rig.device);
    assert_ok(vram_pool_create(rig.device, NULL, &pool));
    hook_set(rig.device);
    hook.argument = &rig;
    assert_ok(vram_alloc(pool, 8 * MIB, rig.queue, &block));
    assert_ok(vram_queue_fill(rig.queue, block, 1, 4, 8 * MIB));
    hook.poll_answer = VRAM_ERR_NOT_READY;
    hook.signal_meanwhile = take_meanwhile;
    assert_ok(vram_free(block, rig.queue));
    (void)vram_pool_trim(pool, NULL, NULL);
    if (hook.signal_meanwhile) { /* nobody has needed the marker yet, and the stream is not idle */
        (void)vram_alloc(pool, 60 * MIB, NULL, &large);
        assert_null(hook.signal_meanwhile);
    }
    assert_true(status_meanwhile != VRAM_OK || taken_meanwhile != block);
    hook.poll_answer = VRAM_OK;
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

struct other_thread {
    vram_queue *queue;
    vram_addr addr;
};

#define PER_THREAD ((void *)(uintptr_t)VR_CU_STREAM_PER_THREAD)

static void *use_default_stream(void *argument) {
    struct other_thread *thread = argument;
    assert_ok(vram_queue_adopt(device, PER_THREAD, &thread->queue));
    assert_ok(vram_alloc(pool, 40 * KIB, thread->queue, &thread->addr));
    return NULL;
}

/* Two threads, two default streams, one handle. */
BUG(08, default_streams_of_threads) {
    struct other_thread other;
    vram_queue *mine;
    vram_addr addr;
    pthread_t thread;
    world_open(UINT64_C(4) << 30, "5s");
    assert_ok(vram_queue_adopt(device, PER_THREAD, &mine));
    assert_ok(vram_alloc(pool, 40 * KIB, mine, &addr));
    fake->hold(true);
    assert_ok(vram_queue_fill(mine, addr, 1, 4, 400));
    assert_ok(vram_free(addr, mine));
    assert_int_equal(pthread_create(&thread, NULL, use_default_stream, &other), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(other.addr, addr);
    fake->hold(false);
    vram_context_destroy(context);
}

/* Another device is current on the thread that trims. */
BUG(09, trims_with_another_device_current) {
    vram_addr blocks[8];
    world_open(128 * MIB, "5s");
    fake->push_other(1);
    struct vr_cu_context *current = fake->current();
    fake->hold(true);
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_alloc(pool, 10 * MIB, queue, &blocks[i]));
        assert_ok(vram_queue_fill(queue, blocks[i], 1, 4, 400));
        assert_ok(vram_free(blocks[i], queue));
    }
    uint64_t frees = driver_frees();
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(driver_frees(), frees); /* all of it is under work */
    fake->hold(false);
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    assert_true(fake->current() == current);
    fake->pop();
    vram_context_destroy(context);
}

/* The work that still uses the memory is queued on another device. A queue writes memory of its own
   device only; what it reads of a peer is waited for. */
BUG(10, work_on_a_peer) {
    vram_addr own, block;
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    struct rig rig = rig_make("sim", "memory=64M,devices=2");
    assert_ok(vram_pool_create(rig.device, NULL, &pool));
    assert_ok(vram_alloc(pool, 4 * MIB, rig.queue, &block));
    assert_ok(vram_device_alloc(rig.other, 4 * MIB, VRAM_MEMORY_DEVICE, &own));
    assert_ok(vram_device_peer_enable(rig.other, rig.device));
    hook_set(rig.other);
    assert_int_equal(vram_queue_copy(rig.other_queue, block, own, 4 * MIB), VRAM_ERR_INVALID);
    assert_ok(vram_queue_copy(rig.other_queue, own, block, 4 * MIB));
    assert_ok(vram_use(block, rig.other_queue));
    hook.poll_answer = VRAM_ERR_NOT_READY;
    assert_ok(vram_free(block, rig.queue));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_true(stats_of(pool).reserved_bytes >= 4 * MIB);
    assert_int_equal(vram_pool_destroy(pool), VRAM_ERR_TIMEOUT);
    hook.poll_answer = VRAM_OK;
    rig_end_clean(&rig);
}

/* A free while kernels are queued, and all that gives memory back. */
BUG(11, frees_under_queued_work) {
    vram_addr block;
    world_open(128 * MIB, "20ms");
    assert_ok(vram_alloc(pool, 40 * MIB, queue, &block));
    fake->hold(true);
    assert_ok(vram_queue_fill(queue, block, 1, 4, 40 * MIB));
    uint64_t frees = driver_frees();
    assert_ok(vram_free(block, queue));
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    assert_int_equal(vram_pool_destroy(pool), VRAM_ERR_TIMEOUT);
    assert_int_equal(driver_frees(), frees);
    fake->hold(false);
    assert_ok(vram_queue_wait(queue, 10 * SECOND));
    vram_context_destroy(context);
}

/* --------------------------------------------------------------------- wrong drivers */

/* The application resets the device under a pool. */
BUG(59, device_reset_under_a_pool) {
    vram_addr block, none;
    world_open(128 * MIB, "1s");
    assert_ok(vram_alloc(pool, 40 * MIB, queue, &block));
    assert_ok(vram_free(block, queue));
    assert_ok(vram_alloc(pool, MIB, queue, &block));
    fake->device_reset(0);
    assert_int_equal(vram_alloc(pool, 60 * MIB, queue, &none), VRAM_ERR_DEVICE_LOST);
    assert_ok(vram_free(block, queue)); /* bookkeeping */
    uint64_t calls = fake->calls(NULL);
    assert_int_equal(vram_alloc(pool, 100 * MIB, queue, &none), VRAM_ERR_DEVICE_LOST);
    assert_ok(vram_pool_destroy(pool));
    vram_device_close(device);
    assert_int_equal(fake->calls(NULL), calls);
    vram_context_destroy(context);
    fake->reset(); /* what the reset device had is gone with it */
}

/* Whether this program, which has the whole library in it, can look that function up. The name
   comes in two parts, so that the test itself does not have it. */
static bool names_function(const char *begin, const char *end) {
    char name[64];
    bool found = false;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat info;
    snprintf(name, sizeof name, "%s%s", begin, end);
    assert_true(file >= 0 && fstat(file, &info) == 0);
    size_t bytes = (size_t)info.st_size;
    void *text = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    assert_true(text != MAP_FAILED);
    found = memmem(text, bytes, name, strlen(name)) != NULL;
    munmap(text, bytes);
    close(file);
    return found;
}

/* The driver's own stream-ordered memory is what failed: pools are not built on it. */
BUG(58, contents_without_the_drivers_pools) {
    enum { RUNS = 600, WORDS = 1024 };
    uint32_t words[WORDS];
    vram_addr block;
    world_open(UINT64_C(1) << 30, "5s");
    for (uint32_t run = 1; run <= RUNS; run++) {
        assert_ok(vram_alloc(pool, sizeof words, queue, &block));
        assert_ok(vram_queue_fill(queue, block, run, 4, sizeof words));
        assert_ok(vram_queue_download(queue, words, block, sizeof words));
        assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
        for (int i = 0; i < WORDS; i += 31) {
            assert_int_equal(words[i], run);
        }
        assert_ok(vram_free(block, queue));
    }
    assert_true(fake->calls("cuMemCreate") > 0);
    assert_false(names_function("cuMemAlloc", "Async") || names_function("hipMalloc", "Async"));
    assert_true(names_function("cuMem", "Create"));
    vram_context_destroy(context);
}

/* The management library hangs, as on a machine whose GPU is failing, while a report is made; and
   managed memory beyond the device's limit, whose pages could not be found, is refused. */
BUG(60, libraries_that_never_return) {
    char path[] = "/tmp/others_bugs-nvml-XXXXXX";
    int file = mkstemp(path);
    vram_oom_report report = {.size = sizeof report};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 * MIB};
    vram_addr addr;
    assert_true(file >= 0 && close(file) == 0);
    assert_int_equal(setenv("FAKE_NVML_HANG", path, 1), 0);
    assert_ok(vram_option_set("nvml_library", FAKE_NVML_PATH));
    world_open(64 * MIB, "5s");
    uint64_t began = vr_os_now();
    assert_int_equal(vram_alloc(pool, 100 * MIB, queue, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_oom_report_get(pool, &report));
    assert_false(report.processes_bytes.known);
    assert_true(vr_os_now() - began < 5 * SECOND);
    vram_pool_options managed = {.size = sizeof managed, .kind = VRAM_MEMORY_MANAGED};
    vram_pool *pages;
    assert_ok(vram_device_limits_set(device, &limits));
    assert_ok(vram_pool_create(device, &managed, &pages));
    assert_int_equal(vram_alloc(pages, 100 * MIB, queue, &addr), VRAM_ERR_LIMIT);
    vram_context_destroy(context);
    assert_int_equal(unlink(path), 0); /* it comes back after all, and leaves nothing */
    for (int i = 0; i < 5000 && vr_mem_live_bytes() > bytes_before; i++) {
        vr_os_sleep(1000000);
    }
}

EACH_TEST(others_bugs_begin, others_bugs_end)
