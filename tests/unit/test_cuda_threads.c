/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_threads.c: the default streams of threads (CU_STREAM_PER_THREAD), over the fake driver:
 * the process's queue for each, what becomes of memory that they use, and the end of their threads.
 * The fake computes late while it is held; that a stream is used after its thread's end is a
 * violation.
 */
#include "byte_units.h"
#include "device/objects.h"
#include "unit/cuda_world.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/shared.h"
#include "vram/vram.h"

static vram_device *device;
static vram_pool *pool;
static uint64_t kept_pages; /* of words that may still be written: they outlive the device */

static int begin(void) {
    if (!fake) {
        fake = fake_open(FAKE_CUDA_PATH);
    }
    fake->reset();
    fake->devices(2);
    fake->capacity(256 * MIB);
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    assert_ok(vram_option_set("wait_timeout", "5s"));
    assert_ok(vram_device_shared("cuda", 0, &device));
    whole_device(device);
    assert_ok(vram_pool_shared(device, &pool));
    return 0;
}

static int end(void) {
    void *object;
    fake->hold(false);
    assert_ok(vr_enter(VR_KIND_DEVICE, device, &object));
    uint64_t context = ((struct vr_device_object *)object)->context->object.handle;
    vr_leave(object);
    assert_ok(vram_context_destroy((vram_context *)(uintptr_t)context));
    assert_int_equal(live_total(), kept_pages);
    assert_clean();
    kept_pages = 0;
    assert_ok(vram_option_set("cuda_library", NULL));
    assert_ok(vram_option_set("wait_timeout", NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

static vram_queue *own_queue(void) {
    vram_queue *queue = NULL;
    assert_ok(vram_queue_shared(device, PER_THREAD, &queue));
    return queue;
}

static void await_others(void) {
    vram_queue *legacy;
    assert_ok(vram_queue_shared(device, LEGACY, &legacy));
    assert_ok(vram_queue_wait(legacy, FOR_EVER));
}

static bool is_filled(vram_addr addr, uint64_t bytes, unsigned char with) {
    static unsigned char found[MIB];
    assert_true(bytes <= sizeof found && fake->peek(addr, found, bytes));
    for (uint64_t i = 0; i < bytes; i++) {
        if (found[i] != with) {
            return false;
        }
    }
    return true;
}

/* What a thread does with its stream. */
struct worker {
    uint64_t bytes;
    bool keeps;
    unsigned char sign; /* what its last fill writes, behind the others */
    vram_queue *queue;
    vram_addr addr;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    worker->queue = own_queue();
    assert_ptr_equal(own_queue(), worker->queue);
    assert_ok(vram_alloc(pool, worker->bytes, worker->queue, &worker->addr));
    for (int i = 0; i < 16; i++) {
        assert_ok(vram_queue_fill(worker->queue, worker->addr, 7, 1, MIB / 2));
    }
    assert_ok(vram_queue_fill(worker->queue, worker->addr + MIB / 2, worker->sign, 1, 1));
    if (!worker->keeps) {
        assert_ok(vram_free(worker->addr, worker->queue));
    }
    return NULL;
}

/* Until the last fill of its work has run. */
static void await_work(const struct worker *worker) {
    for (int i = 0; i < 5000 && !is_filled(worker->addr + MIB / 2, 1, worker->sign); i++) {
        vr_os_sleep(1000000);
    }
    assert_true(is_filled(worker->addr + MIB / 2, 1, worker->sign));
}

TEST(each_thread_has_its_own) {
    struct worker worker = {.bytes = MIB, .sign = 1};
    vram_device *second;
    vram_queue *mine = own_queue(), *elsewhere;
    assert_ok(vram_device_shared("cuda", 1, &second));
    assert_ok(vram_queue_shared(second, PER_THREAD, &elsewhere));
    in_a_thread(work, &worker);
    assert_ptr_equal(own_queue(), mine);
    assert_ptr_not_equal(worker.queue, mine);
    assert_ptr_not_equal(elsewhere, mine);
}

/* A thread's own next block is the one that it freed; another's is not, while the work runs. */
TEST(memory_is_reused_in_each_threads_order) {
    struct worker worker = {.bytes = MIB, .sign = 1};
    vram_queue *mine = own_queue();
    vram_addr first, again;
    assert_ok(vram_alloc(pool, MIB, mine, &first));
    fake->hold(true);
    assert_ok(vram_queue_fill(mine, first, 1, 1, MIB / 2));
    assert_ok(vram_free(first, mine));
    worker.keeps = true;
    in_a_thread(work, &worker);
    assert_true(worker.addr != first);
    assert_ok(vram_alloc(pool, MIB, mine, &again));
    assert_true(again == first);
    assert_ok(vram_queue_fill(mine, again, 2, 1, MIB / 2));
    fake->hold(false);
    assert_ok(vram_queue_wait(mine, FOR_EVER));
    await_work(&worker);
    assert_true(is_filled(worker.addr, MIB / 2, 7));
    assert_true(is_filled(again, MIB / 2, 2));
    assert_ok(vram_free(again, mine));
    assert_ok(vram_free(worker.addr, worker.queue));
}

/* ------------------------------------------------------------------ the thread's end */

/* A stream of the program that waits for a word: the legacy stream is not idle meanwhile. */
struct blocker {
    vr_atomic_u64 *word;
    vram_addr addr;
    struct vr_cu_stream *stream;
};

static void *entry(const char *name) {
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_NOLOAD);
    void *found = dlsym(library, name);
    dlclose(library);
    assert_non_null(found);
    return found;
}

static void block_legacy(struct blocker *blocker) {
    vr_cu_result (*retain)(struct vr_cu_context **, int), (*push)(struct vr_cu_context *),
        (*pop)(struct vr_cu_context **),
        (*wait)(struct vr_cu_stream *, vr_cu_addr, uint64_t, unsigned);
    struct vr_cu_context *context;
    *(void **)&retain = entry("cuDevicePrimaryCtxRetain");
    *(void **)&push = entry("cuCtxPushCurrent_v2");
    *(void **)&pop = entry("cuCtxPopCurrent_v2");
    *(void **)&wait = entry("cuStreamWaitValue64_v2");
    assert_ok(vram_device_alloc(device, 4096, VRAM_MEMORY_PINNED, &blocker->addr));
    blocker->word = (vr_atomic_u64 *)(uintptr_t)blocker->addr;
    vr_store(blocker->word, 0, VR_RELAXED);
    blocker->stream = fake->stream_make(0, true, false);
    assert_int_equal(retain(&context, 0), 0);
    assert_int_equal(push(context), 0);
    assert_int_equal(wait(blocker->stream, blocker->addr, 1, VR_CU_WAIT_GEQ), 0);
    assert_int_equal(pop(&context), 0);
}

static void unblock_legacy(struct blocker *blocker) {
    vr_cu_result (*release)(int);
    *(void **)&release = entry("cuDevicePrimaryCtxRelease_v2");
    vr_store(blocker->word, 1, VR_RELEASE);
    await_others();
    fake->stream_end(blocker->stream);
    assert_int_equal(release(0), 0);
    assert_ok(vram_device_free(device, blocker->addr));
}

static void release(void) {
    fake->hold(false);
}

/* The device has room for one of these blocks. The next one's fill comes behind those of the
   worker, which the fake would else run in turn with it: on the device, or because the host
   waits. */
static void only_after_its_work(const struct worker *worker) {
    vram_queue *mine = own_queue();
    vram_addr next;
    fake->meanwhile("cuStreamQuery", release);
    assert_ok(vram_alloc(pool, worker->bytes, mine, &next));
    assert_ok(vram_queue_fill(mine, next, 3, 1, MIB / 2));
    fake->hold(false);
    assert_ok(vram_queue_wait(mine, FOR_EVER));
    await_work(worker);
    assert_true(is_filled(next, MIB / 2, 3));
    assert_ok(vram_free(next, mine));
}

/* Its work runs on; what it freed serves others when that is done, also while other default streams
   have work. */
TEST(work_outlives_its_thread) {
    for (int ops = 1; ops >= 0; ops--) {
        struct worker worker = {.bytes = 200 * MIB, .sign = 1};
        struct blocker blocker;
        if (!ops) {
            fake->host_functions(false);
            fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
        }
        fake->hold(true);
        in_a_thread(work, &worker);
        block_legacy(&blocker);
        only_after_its_work(&worker);
        unblock_legacy(&blocker);
        if (ops) {
            assert_int_equal(end(), 0);
            assert_int_equal(begin(), 0);
        }
    }
}

/* A block that outlives the thread is freed in the order of its queue, or without one when the
   queue has ended. */
TEST(blocks_outlive_their_thread) {
    struct worker worker = {.bytes = 200 * MIB, .sign = 1, .keeps = true};
    struct blocker blocker;
    fake->hold(true);
    in_a_thread(work, &worker);
    block_legacy(&blocker);
    assert_ok(vram_free(worker.addr, worker.queue));
    only_after_its_work(&worker);
    in_a_thread(work, &worker); /* ends the queue of the thread before */
    assert_ok(vram_free(worker.addr, worker.queue));
    unblock_legacy(&blocker);
}

/* The driver refuses the last mark: the legacy stream tells when the work is done. */
TEST(the_last_mark_may_fail) {
    struct worker worker = {.bytes = 200 * MIB, .sign = 1};
    fake->hold(true);
    fake->refuse("cuStreamWriteValue64", 1, VR_CU_OUT_OF_MEMORY, true);
    in_a_thread(work, &worker);
    fake->refuse(NULL, 0, 0, false);
    only_after_its_work(&worker);
    do { /* the legacy stream is idle a moment later */
        in_a_thread(work, &worker);
        await_work(&worker);
    } while (vr_handle_live(VR_KIND_QUEUE) > 2 && ++worker.sign);
    assert_int_equal(vr_handle_live(VR_KIND_QUEUE), 2);
    kept_pages = 1;
}

/* Threads that come and go leave no queues. */
TEST(ended_threads_leave_nothing) {
    struct worker worker = {.bytes = MIB, .sign = 1};
    for (int i = 0; i < 50; i++, worker.sign++) {
        in_a_thread(work, &worker);
        await_work(&worker);
    }
    assert_true(vr_handle_live(VR_KIND_QUEUE) <= 2);
    assert_in_range(stats_of(pool).peak_reserved_bytes, 0, 4 * MIB);
}

static void *adopt_often(void *unused) {
    (void)unused;
    vram_queue *queue;
    for (int i = 0; i < 100; i++) {
        assert_ok(vram_queue_adopt(device, PER_THREAD, &queue));
        if (i % 4) {
            assert_ok(vram_queue_end(queue));
        }
    }
    return NULL;
}

/* An adopted queue is the program's, and lasts until the program ends it. */
TEST(adopted_queues_stay_the_programs) {
    in_a_thread(adopt_often, NULL);
    (void)own_queue();
    assert_int_equal(vr_handle_live(VR_KIND_QUEUE), 26);
}

EACH_TEST(begin, end)
