/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_queue_end.c: buffers, scopes and batches beside the end of a queue that they use: a call of several steps is
 * not cut in two by it, and memory that is let go of meanwhile comes back when the queue has ended.
 *
 * Hooks in the driver's tables begin the end of the queue inside a call, on a thread of its own, so that each meeting
 * happens every time. A kernel that waits for a gate holds a queue up for as long as a test wants.
 */
#include "unit/buffer_world.h"

#include "base/clock.h"
#include "vram/batch.h"
#include "vram/scope.h"

#include <pthread.h>
#include <unistd.h>

/* Idle and trimmed, the pool has nothing left, and nothing else is held on its device. */
static void expect_empty(struct rig *rig, vram_pool *pool) {
    uint64_t deadline = vr_os_now() + 10 * SECOND;
    assert_ok(vram_pool_trim(pool, 0));
    while (held_by(rig) && vr_os_now() < deadline) { /* safety modes have work of their own */
        usleep(1000);
        assert_ok(vram_pool_trim(pool, 0));
    }
    vram_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.other_bytes, 0);
    assert_int_equal(stats.fallback_bytes, 0);
    assert_int_equal(held_by(rig), 0);
}

/* ----------------------------------------------------- ends inside a driver's call */

/* A queue and the thread that ends it. */
static struct {
    const struct vr_queue_ops *ops; /* the driver's own */
    struct vr_queue_ops copy;
    vram_queue *queue; /* NULL: nothing happens */
    pthread_t thread;
} ending;

static void *end_queue(void *queue) {
    vram_queue_destroy(queue);
    return NULL;
}

/* Begins the end and returns when the queue takes no more calls; it cannot end before the call that we stand in. */
static void begin_end(void) {
    vram_queue *handle = ending.queue;
    if (handle) {
        struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
        ending.queue = NULL;
        assert_non_null(queue);
        assert_int_equal(pthread_create(&ending.thread, NULL, end_queue, handle), 0);
        while (vr_queue_is_open(queue)) {
            usleep(100);
        }
        vr_leave(queue);
    }
}

static vram_status end_upload(struct vr_queue *queue, vram_addr to, const void *from,
                              uint64_t bytes) {
    begin_end();
    return ending.ops->upload(queue, to, from, bytes);
}

static vram_status end_download(struct vr_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    begin_end();
    return ending.ops->download(queue, to, from, bytes);
}

static vram_status end_copy(struct vr_queue *queue, vram_addr to, vram_addr from, uint64_t bytes) {
    begin_end();
    return ending.ops->copy(queue, to, from, bytes);
}

static void ending_set(vram_device *handle) {
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, handle);
    assert_non_null(device);
    ending.ops = device->base.queue_ops;
    ending.copy = *ending.ops;
    ending.copy.upload = end_upload;
    ending.copy.download = end_download;
    ending.copy.copy = end_copy;
    ending.queue = NULL;
    device->base.queue_ops = &ending.copy;
    vr_leave(device);
}

/* What one call does with a buffer, on a queue that ends in the middle of it. */
typedef vram_status call_fn(vram_buffer *buffer, uint8_t *host, vram_queue *queue);

static vram_status span_upload(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    return vram_span_upload(all_of(buffer), host, queue);
}

static vram_status span_download(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    return vram_span_download(all_of(buffer), host, queue);
}

static vram_status map_to_read(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    void *mapped;
    vram_status status = vram_buffer_map(buffer, 0, MIB, VRAM_MAP_READ, queue, &mapped);
    if (status == VRAM_OK) {
        memcpy(host, mapped, MIB);
        status = vram_buffer_unmap(buffer);
    }
    return status;
}

static vram_status map_to_write(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    void *mapped;
    vram_status status = vram_buffer_map(buffer, 0, MIB, VRAM_MAP_WRITE, queue, &mapped);
    if (status == VRAM_OK) {
        memcpy(mapped, host, MIB);
        status = vram_buffer_unmap(buffer);
    }
    return status;
}

static vram_status resize(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    (void)host;
    return vram_buffer_resize(buffer, 32 * MIB, queue); /* it has to move */
}

/* A call that is under way finishes, since the queue waits for all of its steps: what it says is true, and nothing
   stays behind. */
static void a_call_is_not_cut_in_two(void **state) {
    static const struct {
        call_fn *call;
        bool reads; /* the bytes of the buffer arrive; else those of the host do, or stay */
    } calls[] = {{span_upload, false},
                 {span_download, true},
                 {map_to_read, true},
                 {map_to_write, false},
                 {resize, false}};
    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (uint32_t flags = 0; flags <= VRAM_POOL_DETERMINISTIC; flags++) {
            struct rig rig = rig_make("sim", "memory=64M,lag=200");
            vram_pool_options options = {.size = sizeof options, .flags = flags};
            vram_pool *pool;
            vram_queue *queue;
            vram_addr behind;
            whole_device(rig.device);
            assert_ok(vram_pool_create(rig.device, &options, &pool));
            assert_ok(vram_queue_create(rig.device, NULL, &queue));
            vram_buffer *buffer = buffer_kind(pool, MIB, VRAM_BUFFER_DEVICE, rig.queue);
            assert_ok(vram_alloc(pool, MIB, rig.queue, &behind)); /* no growth in place */
            bool moves = calls[i].call == resize, reads = calls[i].reads;
            uint8_t *host = bytes_of(1, MIB), *expected = bytes_of(1, MIB);
            write_all(buffer, reads || moves ? 1 : 2, rig.queue);
            if (reads) {
                memset(host, 0, MIB);
            }
            ending_set(rig.device);
            ending.queue = queue;
            assert_ok(calls[i].call(buffer, host, queue));
            assert_null(ending.queue); /* it has met the end */
            assert_ok(pthread_join(ending.thread, NULL));
            assert_true(vr_handle_was(VR_KIND_QUEUE, queue)); /* and the queue is gone */
            if (!reads) {
                memset(host, 0, MIB);
                assert_ok(vram_queue_download(rig.queue, host, info_of(buffer).addr, MIB));
                assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
            }
            assert_memory_equal(host, expected, MIB);
            free(host);
            free(expected);
            assert_ok(vram_buffer_destroy(buffer));
            assert_ok(vram_free(pool, behind, rig.queue));
            expect_empty(&rig, pool);
            rig_end_clean(&rig);
        }
    }
}

/* ------------------------------------------------------------ memory of such a queue */

static atomic_bool gate, running;

static void wait_for_gate(const vram_kernel_call *call) {
    (void)call;
    atomic_store(&running, true);
    while (!atomic_load(&gate)) {
        usleep(100);
    }
}

/* Holds the queue up until the gate opens. */
static void hold_up(vram_device *device, vram_queue *queue) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)wait_for_gate,
                                 .entry = "wait_for_gate"};
    vram_launch launch = {.size = sizeof launch, .groups = {1, 1, 1}, .group_size = {1, 1, 1}};
    vram_kernel *kernel;
    atomic_store(&gate, false);
    atomic_store(&running, false);
    assert_ok(vram_kernel_create(device, &source, &kernel));
    assert_ok(vram_queue_launch(queue, kernel, &launch));
    while (!atomic_load(&running)) {
        usleep(100);
    }
}

static void *open_gate_soon(void *unused) {
    usleep(5000);
    atomic_store(&gate, true);
    return unused;
}

/* Who has the memory, and lets go of it on another thread than the one that made it. */
struct owner {
    vram_buffer *buffer;
    vram_scope *scope;
    vram_batch *batch;
    vram_status status;
};

static void *let_go(void *argument) {
    struct owner *owner = argument;
    owner->status = vram_buffer_destroy(owner->buffer);
    vram_status scope = vram_scope_end(owner->scope), batch = vram_batch_destroy(owner->batch);
    owner->status = owner->status != VRAM_OK ? owner->status : scope != VRAM_OK ? scope : batch;
    return NULL;
}

enum { OWNERS = 4 };

static struct owner make_owner(vram_pool *pool, vram_queue *queue, int kind) {
    vram_batch_item item = {.size = sizeof item, .elements = MIB};
    uint32_t first;
    struct owner owner = {0};
    vram_addr addr;
    if (kind == 0) {
        owner.buffer = buffer_kind(pool, 8 * MIB, VRAM_BUFFER_DEVICE, queue);
    } else if (kind == 1) {
        owner.buffer = buffer_kind(pool, 8 * MIB, VRAM_BUFFER_PINNED, queue);
    } else if (kind == 2) {
        assert_ok(vram_scope_begin(pool, NULL, &owner.scope));
        assert_ok(vram_scope_alloc(owner.scope, 8 * MIB, queue, &addr));
    } else {
        assert_ok(vram_batch_create(pool, queue, NULL, &owner.batch));
        assert_ok(vram_batch_add(owner.batch, &item, 1, &first));
    }
    return owner;
}

static void run_in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    assert_ok(pthread_create(&thread, NULL, run, argument));
    assert_ok(pthread_join(thread, NULL));
}

static void wait_until_closed(vram_queue *handle) {
    struct vr_queue_object *queue = vr_handle_pin(VR_KIND_QUEUE, handle);
    assert_non_null(queue);
    while (vr_queue_is_open(queue)) {
        usleep(100);
    }
    vr_leave(queue);
}

/* The queue is being destroyed and waits for its work when its memory is let go of. */
static void memory_let_go_of_meanwhile_comes_back(void **state) {
    static const uint32_t flags[] = {0, VRAM_POOL_DETERMINISTIC, VRAM_POOL_SEGMENTS,
                                     VRAM_POOL_ZERO_FREE, VRAM_POOL_TRACKED};
    (void)state;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        for (int kind = 0; kind < OWNERS; kind++) {
            struct rig rig = rig_make("host", NULL);
            vram_pool_options options = {.size = sizeof options, .flags = flags[i]};
            vram_sleep_options sleep = {.size = sizeof sleep};
            vram_pool *pool;
            pthread_t ender, opener;
            assert_ok(vram_pool_create(rig.device, &options, &pool));
            struct owner owner = make_owner(pool, rig.queue, kind);
            hold_up(rig.device, rig.queue);
            assert_ok(pthread_create(&ender, NULL, end_queue, rig.queue));
            wait_until_closed(rig.queue);
            assert_ok(pthread_create(&opener, NULL, open_gate_soon, NULL));
            run_in_thread(let_go, &owner);
            assert_ok(owner.status);
            assert_ok(pthread_join(ender, NULL));
            assert_ok(pthread_join(opener, NULL));
            assert_true(vr_handle_was(VR_KIND_QUEUE, rig.queue));
            expect_empty(&rig, pool);
            vram_status slept = vram_pool_sleep(pool, &sleep);
            assert_true(slept == VRAM_OK || slept == VRAM_ERR_UNSUPPORTED);
            vram_context_destroy(rig.context);
        }
    }
}

/* The end of the queue has given up before its work was done. The memory comes back when that is done, although nobody
   ends the queue again before the device closes. */
static void memory_of_a_queue_given_up_comes_back(void **state) {
    (void)state;
    for (int kind = 0; kind < OWNERS; kind++) {
        assert_ok(vram_option_set("wait_timeout", "20ms"));
        struct rig rig = rig_make("host", NULL);
        vram_pool *pool;
        assert_ok(vram_option_set("wait_timeout", NULL));
        assert_ok(vram_pool_create(rig.device, NULL, &pool));
        struct owner owner = make_owner(pool, rig.queue, kind);
        hold_up(rig.device, rig.queue);
        vram_queue_destroy(rig.queue);
        run_in_thread(let_go, &owner);
        assert_ok(owner.status);
        assert_ok(vram_pool_trim(pool, 0));
        assert_int_not_equal(held_by(&rig), 0); /* not under work */
        atomic_store(&gate, true);
        expect_empty(&rig, pool);
        vram_context_destroy(rig.context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(a_call_is_not_cut_in_two),
        HERE(memory_let_go_of_meanwhile_comes_back),
        HERE(memory_of_a_queue_given_up_comes_back),
    };
    return cmocka_run_group_tests_name("queue_end", tests, NULL, NULL);
}
