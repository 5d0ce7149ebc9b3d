/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_queue_end.c: buffers, scopes and batches beside the end of a queue that they use: a call of
 * several steps is not interrupted by it, and memory that is freed meanwhile returns to the pool
 * when the queue has ended.
 *
 * A queue is destroyed from inside a driver's copy (queue_ender.h), or while a kernel that waits
 * holds it up (gate_world.h).
 */
#include "unit/buffer_world.h"
#include "unit/gate_world.h"
#include "unit/queue_ender.h"

#include "vram/batch.h"
#include "vram/scope.h"

/* The idle pool, once trimmed, has nothing left, and nothing else is held on its device. */
static void expect_empty(struct rig *rig, vram_pool *pool) {
    uint64_t deadline = vr_os_now() + 10 * SECOND;
    assert_ok(vram_pool_trim(pool, NULL, NULL));
    while (held_by(rig) && vr_os_now() < deadline) { /* safety modes have work of their own */
        usleep(1000);
        assert_ok(vram_pool_trim(pool, NULL, NULL));
    }
    expect_pool_empty(pool);
    assert_int_equal(held_by(rig), 0);
}

/* ----------------------------------------------------- ends inside a driver's call */

/* What one call does with a buffer, on a queue that ends in the middle of it. */
typedef vram_status call_fn(vram_buffer *buffer, uint8_t *host, vram_queue *queue);

static vram_status span_upload(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    return vram_span_upload(queue, all_of(buffer), host);
}

static vram_status span_download(vram_buffer *buffer, uint8_t *host, vram_queue *queue) {
    return vram_span_download(queue, host, all_of(buffer));
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

/* A call in progress finishes, since the end of the queue waits for all of its steps: its status is
   right, and nothing is left behind. */
TEST(a_call_is_not_cut_in_two) {
    static const struct {
        call_fn *call;
        bool reads; /* the bytes of the buffer arrive; else those of the host do, or stay */
    } calls[] = {{span_upload, false},
                 {span_download, true},
                 {map_to_read, true},
                 {map_to_write, false},
                 {resize, false}};
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
            ender_set(rig.device, queue, BEFORE_COPY);
            assert_ok(calls[i].call(buffer, host, queue));
            ender_join();
            assert_true(vr_handle_was(VR_KIND_QUEUE, queue));
            if (!reads) {
                memset(host, 0, MIB);
                assert_ok(vram_queue_download(rig.queue, host, info_of(buffer).addr, MIB));
                assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
            }
            assert_memory_equal(host, expected, MIB);
            free(host);
            free(expected);
            assert_ok(vram_buffer_destroy(buffer));
            assert_ok(vram_free(behind, rig.queue));
            expect_empty(&rig, pool);
            rig_end_clean(&rig);
        }
    }
}

/* ------------------------------------------------------------ memory of such a queue */

static struct gate gate;

static void *open_gate_soon(void *unused) {
    usleep(5000);
    gate_open(&gate);
    return unused;
}

/* The owner of the memory, which is freed on another thread than it was made on. */
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

/* Memory is freed while its queue is being destroyed and waits for its work. */
TEST(memory_let_go_of_meanwhile_comes_back) {
    static const uint32_t flags[] = {0, VRAM_POOL_DETERMINISTIC, VRAM_POOL_SEGMENTS,
                                     VRAM_POOL_ZERO_FREE, VRAM_POOL_TRACKED};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        for (int kind = 0; kind < OWNERS; kind++) {
            struct rig rig = rig_make("host", NULL);
            vram_pool_options options = {.size = sizeof options, .flags = flags[i]};
            vram_sleep_options sleep = {.size = sizeof sleep};
            vram_pool *pool;
            pthread_t destroyer, opener;
            assert_ok(vram_pool_create(rig.device, &options, &pool));
            struct owner owner = make_owner(pool, rig.queue, kind);
            gate_shut(rig.device, rig.queue, &gate);
            queue_destroy_begin(rig.queue, &destroyer);
            assert_ok(pthread_create(&opener, NULL, open_gate_soon, NULL));
            run_in_thread(let_go, &owner);
            assert_ok(owner.status);
            assert_ok(pthread_join(destroyer, NULL));
            assert_ok(pthread_join(opener, NULL));
            assert_true(vr_handle_was(VR_KIND_QUEUE, rig.queue));
            expect_empty(&rig, pool);
            vram_status slept = vram_pool_sleep(pool, &sleep);
            assert_true(slept == VRAM_OK || slept == VRAM_ERR_UNSUPPORTED);
            vram_context_destroy(rig.context);
        }
    }
}

/* The end of the queue timed out before its work was done. The memory returns when the work is
   done, although the queue is not ended again before the device closes. */
TEST(memory_of_a_queue_given_up_comes_back) {
    for (int kind = 0; kind < OWNERS; kind++) {
        assert_ok(vram_option_set("wait_timeout", "100ms"));
        struct rig rig = rig_make("host", NULL);
        vram_pool *pool;
        assert_ok(vram_option_set("wait_timeout", NULL));
        assert_ok(vram_pool_create(rig.device, NULL, &pool));
        struct owner owner = make_owner(pool, rig.queue, kind);
        gate_shut(rig.device, rig.queue, &gate);
        vram_queue_destroy(rig.queue);
        run_in_thread(let_go, &owner);
        assert_ok(owner.status);
        assert_ok(vram_pool_trim(pool, NULL, NULL));
        assert_int_not_equal(held_by(&rig), 0); /* not under work */
        gate_open(&gate);
        expect_empty(&rig, pool);
        vram_context_destroy(rig.context);
    }
}
