/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_batch.c: buffers that come together or not at all, lie side by side, and go together. Item
 * 24 of the acceptance list.
 */
#include "mem/owned_list.h"
#include "unit/mem_world.h"
#include "unit/pool_flags.h"
#include "vram/batch.h"
#include "vram/growth.h"
#include "vram/limits.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEM(...)                                                                                  \
    { .size = sizeof(vram_batch_item), __VA_ARGS__ }

static vram_batch_info info_of(vram_batch *batch) {
    vram_batch_info info = {.size = sizeof info};
    assert_ok(vram_batch_info_get(batch, &info));
    return info;
}

static vram_buffer_info buffer_of(vram_batch *batch, uint32_t index) {
    vram_buffer_info info = {.size = sizeof info};
    vram_buffer *buffer;
    assert_ok(vram_batch_get(batch, index, &buffer));
    assert_ok(vram_buffer_info_get(buffer, &info));
    return info;
}

/* ---------------------------------------------------------------- good batches */

static void acceptance_24_all_lie_and_go_together(void **state) {
    static const vram_batch_item items[] = {
        ITEM(.elements = 1000, .precision = VRAM_PRECISION_FP32, .name = "a"),
        ITEM(.elements = 1000, .precision = VRAM_PRECISION_FP16),
        ITEM(.elements = 0, .precision = VRAM_PRECISION_BF16),
        ITEM(.elements = 1000, .precision = VRAM_PRECISION_INT8, .name = "d"),
        ITEM(.elements = 513),
    };
    static const uint64_t bytes[] = {4000, 2000, 0, 1000, 513};
    static const uint64_t offsets[] = {0, 4096, 6144, 6656, 7680};
    vram_batch_options options = {.size = sizeof options, .tag = "model/layer"};
    vram_tag_info tag = {.size = sizeof tag};
    vram_batch *batch;
    uint32_t first = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_batch_create(pool, rig.queue, &options, &batch));
    assert_int_equal(info_of(batch).count, 0);
    assert_ok(vram_batch_add(batch, items, 5, &first));
    assert_int_equal(first, 0);
    vram_addr base = buffer_of(batch, 0).addr;
    for (uint32_t i = 0; i < 5; i++) {
        vram_buffer_info info = buffer_of(batch, i);
        assert_int_equal(info.addr, base + offsets[i]);
        assert_int_equal(info.capacity_bytes, bytes[i]);
        assert_int_equal(info.elements, items[i].elements);
        assert_int_equal(info.precision, items[i].precision);
        assert_string_equal(info.name, items[i].name ? items[i].name : "");
        assert_string_equal(info.tag, "model/layer");
        assert_ptr_equal(info.queue, rig.queue);
        assert_int_equal(info.location, VRAM_MEMORY_DEVICE);
    }
    assert_int_equal(live_in(pool), 1); /* one block for all */
    assert_int_equal(stats_of(pool).requested_bytes, 8704);
    assert_ok(vram_tag_info_get(rig.device, "model", &tag));
    assert_true(tag.used_bytes >= 8704);
    vram_batch_info info = info_of(batch);
    assert_int_equal(info.count, 5);
    assert_int_equal(info.blocks, 1);
    assert_int_equal(info.shared_bytes, 8704);
    assert_ptr_equal(info.pool, pool);
    assert_ptr_equal(info.queue, rig.queue);

    assert_ok(vram_batch_add(batch, items, 2, &first)); /* more, side by side with each other */
    assert_int_equal(first, 5);
    assert_int_equal(buffer_of(batch, 6).addr, buffer_of(batch, 5).addr + 4096);
    assert_int_equal(live_in(pool), 2);
    vram_buffer *kept;
    assert_ok(vram_batch_get(batch, 3, &kept));
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool), 0);
    assert_int_equal(vram_buffer_destroy(kept), VRAM_ERR_STALE);
    assert_ok(vram_tag_info_get(rig.device, "model", &tag));
    assert_int_equal(tag.used_bytes, 0);
    vram_error_clear();
    assert_ok(vram_batch_destroy(NULL));
    expect_no_record();
    rig_end_clean(&rig);
}

/* What is given on the host is there once the queue has completed that work, and nowhere else. */
static void acceptance_24_host_bytes_are_uploaded(void **state) {
    enum { COUNT = 3, BYTES = 5000 };
    static uint8_t sent[COUNT][BYTES], got[COUNT][BYTES];
    vram_batch_item items[COUNT] = {
        ITEM(.elements = 1250, .precision = VRAM_PRECISION_FP32),
        ITEM(.elements = 2500, .precision = VRAM_PRECISION_FP16),
        ITEM(.elements = 5000, .precision = VRAM_PRECISION_INT8),
    };
    vram_batch *batch;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,lag=5");
    vram_pool *pool = pool_of(&rig, 0);
    for (size_t i = 0; i < sizeof sent; i++) {
        ((uint8_t *)sent)[i] = (uint8_t)(i * 31 >> 3);
    }
    for (int i = 0; i < COUNT; i++) {
        items[i].host = sent[i];
        items[i].host_bytes = BYTES;
    }
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, COUNT, &first));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(vram_queue_download(rig.queue, got[i], buffer_of(batch, i).addr, BYTES));
    }
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_memory_equal(sent, got, sizeof sent);
    assert_ok(vram_batch_destroy(batch));
    rig_end_clean(&rig);
}

/* Each kind in one batch, each with what it was given. */
static void mixed_kinds(void **state) {
    static const char *const backends[] = {"sim", "host"};
    static const vram_buffer_kind kinds[] = {VRAM_BUFFER_DEVICE,  VRAM_BUFFER_PINNED,
                                             VRAM_BUFFER_MANAGED, VRAM_BUFFER_MAPPED,
                                             VRAM_BUFFER_DEVICE,  VRAM_BUFFER_FALLBACK};
    enum { COUNT = 6, BYTES = 4000 };
    static uint8_t sent[COUNT][BYTES], got[BYTES];
    (void)state;
    for (int round = 0; round < 2; round++) {
        vram_batch_item items[COUNT];
        vram_batch *batch;
        uint32_t first;
        struct rig rig = rig_make(backends[round], "memory=1G,real=on");
        vram_pool *pool = pool_of(&rig, 0);
        for (int i = 0; i < COUNT; i++) {
            memset(sent[i], 10 + i, BYTES);
            items[i] = (vram_batch_item)ITEM(.kind = kinds[i], .elements = BYTES / 2,
                                             .precision = VRAM_PRECISION_BF16, .host = sent[i],
                                             .host_bytes = BYTES);
        }
        assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
        assert_ok(vram_batch_add(batch, items, COUNT, &first));
        assert_int_equal(info_of(batch).shared_bytes, 2 * 4096);
        assert_int_equal(buffer_of(batch, 4).addr, buffer_of(batch, 0).addr + 4096);
        for (uint32_t i = 0; i < COUNT; i++) {
            vram_buffer_info info = buffer_of(batch, i);
            assert_int_equal(info.kind, kinds[i]);
            if (info.location == VRAM_MEMORY_DEVICE || info.location == VRAM_MEMORY_MANAGED) {
                assert_ok(vram_queue_download(rig.queue, got, info.addr, BYTES));
                assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
            } else {
                memcpy(got, info.host, BYTES);
            }
            assert_memory_equal(got, sent[i], BYTES);
        }
        assert_ok(vram_batch_destroy(batch));
        assert_int_equal(live_in(pool), 0);
        vram_device_close(rig.device);
        vram_context_destroy(rig.context);
    }
}

/* A device whose kernels take whole blocks only: each item is one. */
static void blocks_of_their_own(void **state) {
    static const vram_batch_item items[] = {ITEM(.elements = 100), ITEM(.elements = 200)};
    vram_batch *batch;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    device->base.info.caps |= VRAM_CAP_HANDLES;
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, 2, &first));
    assert_int_equal(info_of(batch).blocks, 0);
    assert_int_equal(live_in(pool), 2);
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool), 0);
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_HANDLES;
    vr_leave(device);
    rig_end_clean(&rig);
}

/* Work of another queue on one of the buffers keeps the whole block, until it is done. */
static void uses_by_other_queues(void **state) {
    static const vram_batch_item items[] = {ITEM(.elements = 2 * MIB), ITEM(.elements = 2 * MIB)};
    vram_batch *batch;
    vram_buffer *second;
    vram_queue *other;
    vram_addr addr;
    uint32_t first;
    (void)state;
    SKIP_UNDER(
        VRAM_POOL_DETERMINISTIC | VRAM_POOL_RED_ZONES | VRAM_POOL_POISON, false,
        "there the queue, or the call, waits for the other users: it may have the block at once");
    struct rig rig = rig_make("sim", "memory=1G,lag=10000");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_queue_create(rig.device, NULL, &other));
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, 2, &first));
    vram_addr base = buffer_of(batch, 0).addr;
    assert_ok(vram_batch_get(batch, 1, &second));
    assert_ok(vram_queue_fill(other, buffer_of(batch, 1).addr, 7, 1, 2 * MIB));
    assert_ok(vram_buffer_use(second, other));
    assert_ok(vram_batch_destroy(batch));
    assert_ok(vram_alloc(pool, 4 * MIB, rig.queue, &addr)); /* its own queue may not have it yet */
    assert_int_not_equal(addr, base);
    assert_ok(vram_queue_wait(other, VRAM_TIMEOUT_DEFAULT));
    rig_end_clean(&rig);
}

/* A buffer of a common block that goes early leaves its share to the batch. */
static void early_ends(void **state) {
    static const vram_batch_item items[] = {ITEM(.elements = 1000), ITEM(.elements = 1000)};
    vram_batch *batch;
    vram_buffer *buffer;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, 2, &first));
    assert_ok(vram_batch_get(batch, 0, &buffer));
    assert_ok(vram_buffer_destroy(buffer));
    assert_int_equal(live_in(pool), 1);
    assert_int_equal(buffer_of(batch, 1).capacity_bytes, 1000);
    vram_error_clear();
    assert_ok(vram_batch_destroy(batch));
    expect_no_record();
    assert_int_equal(live_in(pool), 0);
    assert_int_equal(vram_batch_destroy(batch), VRAM_ERR_STALE);
    rig_end_clean(&rig);
}

/* Growing leads a buffer out of the common block; what its neighbours have there stays. */
static void growing_out_of_the_block(void **state) {
    enum { COUNT = 3, BYTES = 1024 };
    static uint8_t sent[COUNT][BYTES], got[COUNT][BYTES];
    vram_batch_item items[COUNT];
    vram_batch *batch;
    vram_buffer *buffer;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    for (int i = 0; i < COUNT; i++) {
        memset(sent[i], i + 1, BYTES);
        items[i] = (vram_batch_item)ITEM(.elements = BYTES, .host = sent[i], .host_bytes = BYTES);
    }
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, items, COUNT, &first));
    vram_addr base = buffer_of(batch, 0).addr;
    for (uint32_t i = 0; i < 2; i++) { /* the first begins where the block does */
        assert_ok(vram_batch_get(batch, i, &buffer));
        assert_ok(vram_buffer_fit(buffer, rig.queue)); /* has nothing to give back */
        assert_ok(vram_buffer_resize(buffer, 5000, rig.queue));
        assert_int_not_equal(buffer_of(batch, i).addr, base + i * BYTES);
        assert_int_equal(live_in(pool), 2 + i);
        assert_ok(vram_queue_fill(rig.queue, buffer_of(batch, i).addr + BYTES, 9, 1, 5000 - BYTES));
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(vram_queue_download(rig.queue, got[i], buffer_of(batch, i).addr, BYTES));
    }
    assert_ok(vram_queue_wait(rig.queue, VRAM_TIMEOUT_DEFAULT));
    assert_memory_equal(sent, got, sizeof sent);
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

static void acceptance_24_buffers_of_another_context_are_refused(void **state) {
    static const vram_batch_item item = ITEM(.elements = 1000);
    vram_batch *batch;
    vram_buffer *mine, *distant, *strange;
    vram_pool *second;
    uint32_t index = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    struct rig elsewhere = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0), *far = pool_of(&elsewhere, 0);
    assert_ok(test_pool_create(rig.other, NULL, &second));
    assert_ok(vram_buffer_create(pool, 3000, rig.queue, NULL, &mine));
    assert_ok(vram_buffer_create(second, 3000, rig.other_queue, NULL, &distant));
    assert_ok(vram_buffer_create(far, 3000, elsewhere.queue, NULL, &strange));
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, &item, 1, &index));
    assert_int_equal(vram_batch_give(batch, strange, &index), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "another context"));
    assert_int_equal(index, 0);
    assert_ok(vram_batch_give(batch, mine, &index));
    assert_int_equal(index, 1);
    assert_ok(vram_batch_give(batch, distant, &index));
    assert_int_equal(index, 2);
    assert_int_equal(vram_batch_give(batch, mine, &index), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_give(batch, NULL, &index), VRAM_ERR_INVALID);
    assert_int_equal(index, 2);
    assert_ok(vram_batch_destroy(batch));
    assert_int_equal(live_in(pool) + live_in(second), 0);
    assert_int_equal(live_in(far), 1);
    rig_end_clean(&elsewhere);
    rig_end_clean(&rig);
}

/* ----------------------------------------------------------- all, or nothing */

/* The last of many does not fit: the batch is as it was, and so is the pool. */
static void acceptance_24_partial_failure_leaves_nothing(void **state) {
    static const vram_batch_item small = ITEM(.elements = 1000);
    vram_batch_item items[10];
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 * MIB};
    vram_batch *batch;
    uint32_t first = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    struct vr_device_object *device = vr_handle_pin(VR_KIND_DEVICE, rig.device);
    vram_pool *pool = pool_of(&rig, 0);
    (void)vram_pool_limits_set(pool, &limits);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, &small, 1, &first));
    for (int i = 0; i < 10; i++) {
        items[i] = (vram_batch_item)ITEM(.elements = 7 * MIB);
    }
    for (int own = 0; own < 2; own++) { /* in one block, and in one each */
        vram_pool_stats before = stats_of(pool);
        first = 77;
        assert_int_equal(vram_batch_add(batch, items, 10, &first), VRAM_ERR_LIMIT);
        assert_int_equal(first, 77);
        assert_int_equal(info_of(batch).count, 1);
        assert_int_equal(stats_of(pool).live_blocks, before.live_blocks);
        assert_int_equal(stats_of(pool).requested_bytes, before.requested_bytes);
        assert_int_equal(vr_handle_live(VR_KIND_BUFFER), 1);
        device->base.info.caps |= VRAM_CAP_HANDLES;
    }
    assert_ok(vram_batch_add(batch, items, 8, &first)); /* these do */
    assert_int_equal(first, 1);
    device->base.info.caps &= ~(uint32_t)VRAM_CAP_HANDLES;
    vr_leave(device);
    rig_end_clean(&rig);
}

static vram_status part(struct rig *rig, vram_pool *pool) {
    static uint8_t bytes[4000];
    static const vram_batch_item items[] = {
        ITEM(.elements = 1000, .precision = VRAM_PRECISION_FP32, .host = bytes,
             .host_bytes = sizeof bytes),
        ITEM(.elements = 40000, .precision = VRAM_PRECISION_INT8),
        ITEM(.elements = 100, .kind = VRAM_BUFFER_MANAGED, .host = bytes, .host_bytes = 100),
        ITEM(.elements = 100, .kind = VRAM_BUFFER_PINNED, .host = bytes, .host_bytes = 100),
        ITEM(.elements = 2000, .precision = VRAM_PRECISION_FP16, .host = bytes,
             .host_bytes = sizeof bytes),
    };
    vram_batch *batch = NULL;
    vram_buffer *buffer;
    uint32_t index, count = 0;
    vram_status status = vram_batch_create(pool, rig->queue, NULL, &batch);
    for (int i = 0; i < 4 && status == VRAM_OK; i++) { /* more than fit into the list at first */
        status = vram_batch_add(batch, items, 5, &index);
        count += status == VRAM_OK ? 5 : 0;
    }
    if (status == VRAM_OK) {
        status = vram_buffer_create(pool, 100, rig->queue, NULL, &buffer);
    }
    if (status == VRAM_OK) {
        status = vram_batch_give(batch, buffer, &index);
        count += status == VRAM_OK;
        if (status != VRAM_OK) {
            assert_ok(vram_buffer_destroy(buffer));
        }
    }
    if (batch) {
        struct vram_error error;
        vr_error_save(&error);
        assert_int_equal(info_of(batch).count, count); /* fives: all or none */
        vr_error_restore(&error);
    }
    assert_ok(vram_batch_destroy(batch));
    return status;
}

static void every_call_may_fail(void **state) {
    (void)state;
    fail_every_call(part, "memory=1G,real=on");
}

/* The driver refuses the second of two uploads. */
static void an_upload_that_fails(void **state) {
    static uint8_t bytes[100];
    static const vram_batch_item items[] = {
        ITEM(.elements = 100, .host = bytes, .host_bytes = 100),
        ITEM(.elements = 100, .host = bytes, .host_bytes = 100),
    };
    vram_batch *batch;
    uint32_t first = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    fault(&rig, VRAM_SIM_UPLOAD, 2, false, VRAM_SIM_HOST_MEMORY);
    assert_int_equal(vram_batch_add(batch, items, 2, &first), VRAM_ERR_HOST_MEMORY);
    assert_int_equal(first, 77);
    assert_int_equal(live_in(pool), 0);
    assert_int_equal(vr_handle_live(VR_KIND_BUFFER), 0);
    assert_ok(vram_batch_add(batch, items, 2, &first));
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------------ other ends */

static void parents_that_go_first(void **state) {
    static const vram_batch_item item = ITEM(.elements = 1000);
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, 0);
        vram_batch *batch;
        uint32_t first;
        assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
        assert_ok(vram_batch_add(batch, &item, 1, &first));
        if (round == 0) {
            assert_ok(vram_pool_destroy(pool));
        } else if (round == 1) {
            vram_device_close(rig.device);
            rig.device = NULL;
        } else {
            vram_context_destroy(rig.context);
        }
        assert_int_equal(vram_batch_add(batch, &item, 1, &first), VRAM_ERR_STALE);
        assert_int_equal(vram_batch_destroy(batch), VRAM_ERR_STALE);
        if (round < 2) {
            rig_end_clean(&rig);
        }
    }
}

static void a_queue_that_has_ended(void **state) {
    static const vram_batch_item item = ITEM(.elements = 1000);
    vram_batch *batch;
    vram_queue *queue;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_queue_create(rig.device, NULL, &queue));
    assert_ok(vram_batch_create(pool, queue, NULL, &batch));
    assert_ok(vram_batch_add(batch, &item, 1, &first));
    vram_queue_destroy(queue);
    assert_int_equal(vram_batch_add(batch, &item, 1, &first), VRAM_ERR_STALE);
    vram_error_clear();
    assert_ok(vram_batch_destroy(batch));
    expect_no_record();
    assert_int_equal(live_in(pool), 0);
    rig_end_clean(&rig);
}

static void a_fork_leaves_it_alone(void **state) {
    static const vram_batch_item item = ITEM(.elements = 1000);
    vram_batch *batch;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    pid_t child = fork();
    if (child == 0) {
        bool good = vram_batch_add(batch, &item, 1, &first) == VRAM_ERR_FORKED &&
                    vram_batch_destroy(batch) == VRAM_OK &&
                    vram_batch_destroy(batch) == VRAM_ERR_STALE;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(vram_batch_destroy(batch));
    rig_end_clean(&rig);
}

enum { THREADS = 8, ROUNDS = 200 };

struct crowd {
    vram_batch *batch;
    atomic_int ended, numbers;
};

static void *fill(void *argument) {
    static const vram_batch_item items[] = {ITEM(.elements = 100), ITEM(.elements = 2000)};
    struct crowd *crowd = argument;
    uint32_t first;
    for (int i = 0; i < ROUNDS; i++) {
        if (vram_batch_add(crowd->batch, items, 2, &first) != VRAM_OK) {
            return NULL;
        }
        atomic_fetch_add(&crowd->numbers, (int)first);
    }
    return NULL;
}

static void *finish(void *argument) {
    struct crowd *crowd = argument;
    atomic_fetch_add(&crowd->ended, vram_batch_destroy(crowd->batch) == VRAM_OK);
    return NULL;
}

static void many_threads(void **state) {
    (void)state;
    for (int enders = 0; enders < 3; enders++) {
        pthread_t threads[THREADS];
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, 0);
        struct crowd crowd = {0};
        assert_ok(vram_batch_create(pool, rig.queue, NULL, &crowd.batch));
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(
                pthread_create(&threads[i], NULL, i < THREADS - enders ? fill : finish, &crowd), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        assert_int_equal(atomic_load(&crowd.ended), enders ? 1 : 0);
        if (!enders) { /* each pair has its number: 0, 2, 4 ... */
            int pairs = THREADS * ROUNDS;
            assert_int_equal(info_of(crowd.batch).count, 2 * pairs);
            assert_int_equal(atomic_load(&crowd.numbers), pairs * (pairs - 1));
            assert_ok(vram_batch_destroy(crowd.batch));
        }
        assert_int_equal(live_in(pool), 0);
        rig_end_clean(&rig);
    }
}

/* ------------------------------------------------------------------ bad input */

static void acceptance_24_host_bytes_are_checked(void **state) {
    static uint8_t bytes[100];
    static const struct {
        vram_batch_item item;
        vram_status status;
    } rows[] = {
        {ITEM(.elements = 25, .precision = VRAM_PRECISION_FP32, .host = bytes, .host_bytes = 25),
         VRAM_ERR_INVALID}, /* elements are not bytes */
        {ITEM(.elements = 100, .host = bytes, .host_bytes = 99), VRAM_ERR_INVALID},
        {ITEM(.elements = 100, .host = bytes, .host_bytes = 101), VRAM_ERR_INVALID},
        {ITEM(.elements = 100, .host = bytes), VRAM_ERR_INVALID},
        {ITEM(.elements = 100, .host_bytes = 100), VRAM_ERR_INVALID},
        {ITEM(.elements = 1, .precision = (vram_precision)99), VRAM_ERR_INVALID},
        {ITEM(.elements = 1, .kind = (vram_buffer_kind)99), VRAM_ERR_INVALID},
        {ITEM(.elements = 1, .flags = 0x80), VRAM_ERR_INVALID},
        {ITEM(.elements = UINT64_MAX, .precision = VRAM_PRECISION_FP16), VRAM_ERR_OVERFLOW},
        {ITEM(.elements = UINT64_MAX), VRAM_ERR_OVERFLOW},
        {ITEM(.elements = UINT64_MAX - 1000), VRAM_ERR_OVERFLOW}, /* with the good one */
        {ITEM(.elements = 1,
              .name = "a name that is longer than the sixty-three bytes that there are for it ..."),
         VRAM_ERR_INVALID},
        {{.size = 1, .elements = 1}, VRAM_ERR_INVALID},
        {{.size = sizeof(vram_batch_item) + 8, .elements = 1}, VRAM_ERR_INVALID},
    };
    vram_batch *batch;
    uint32_t first = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vram_batch_item items[] = {ITEM(.elements = 2000), rows[i].item};
        vram_error_clear();
        assert_int_equal(vram_batch_add(batch, items, 2, &first), rows[i].status);
        assert_int_equal(vram_error_get()->status, rows[i].status);
        assert_int_equal(first, 77);
        assert_int_equal(live_in(pool), 0);
        assert_int_equal(stats_of(pool).allocs, 0); /* found out before anything was taken */
    }
    assert_ok(vram_batch_destroy(batch));
    assert_ok(vram_batch_create(pool, NULL, NULL, &batch)); /* without a queue */
    vram_batch_item item = ITEM(.elements = 100, .host = bytes, .host_bytes = 100);
    assert_int_equal(vram_batch_add(batch, &item, 1, &first), VRAM_ERR_INVALID);
    item.elements = item.host_bytes = 0;
    assert_ok(vram_batch_add(batch, &item, 1, &first)); /* nothing to upload */
    rig_end_clean(&rig);
}

/* A caller of a later version has longer items: their further fields must be 0. */
static void items_of_another_version(void **state) {
    struct later {
        vram_batch_item item;
        uint64_t more;
    } items[2] = {{{.size = sizeof items[0], .elements = 100}, 0},
                  {{.size = sizeof items[0], .elements = 200}, 2}};
    vram_batch *batch;
    uint32_t first;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, 0);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_int_equal(vram_batch_add(batch, &items[0].item, 2, &first), VRAM_ERR_INVALID);
    items[1].more = 0;
    assert_ok(vram_batch_add(batch, &items[0].item, 2, &first));
    assert_int_equal(buffer_of(batch, 1).capacity_bytes, 200);
    rig_end_clean(&rig);
}

static void bad_input(void **state) {
    static const vram_batch_item item = ITEM(.elements = 1);
    vram_batch_options options = {.size = sizeof options, .tag = "a//b"};
    vram_batch_info info = {.size = 4};
    vram_batch *batch = NULL;
    vram_buffer *buffer = NULL;
    uint32_t first = 77;
    (void)state;
    struct rig rig = rig_make("sim", "memory=1G,devices=2");
    vram_pool *pool = pool_of(&rig, 0);
    assert_int_equal(vram_batch_create(pool, rig.queue, NULL, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_create(NULL, rig.queue, NULL, &batch), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_create(pool, rig.other_queue, NULL, &batch), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_create(pool, rig.queue, &options, &batch), VRAM_ERR_INVALID);
    options.size = 2;
    assert_int_equal(vram_batch_create(pool, rig.queue, &options, &batch), VRAM_ERR_INVALID);
    assert_null(batch);
    assert_ok(vram_batch_create(pool, rig.queue, NULL, &batch));
    assert_int_equal(vram_batch_add(batch, NULL, 1, &first), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_add(batch, &item, 0, &first), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_add(batch, &item, 1, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_add((void *)pool, &item, 1, &first), VRAM_ERR_INVALID);
    assert_ok(vram_buffer_create(pool, 1, NULL, NULL, &buffer));
    assert_int_equal(vram_batch_give(batch, buffer, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_give(batch, (void *)batch, &first), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_get(batch, 0, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_get(batch, 0, &buffer), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_get(batch, UINT32_MAX, &buffer), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_info_get(batch, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_info_get(batch, &info), VRAM_ERR_INVALID);
    assert_int_equal(vram_batch_destroy((void *)pool), VRAM_ERR_INVALID);
    assert_int_equal(first, 77);
    rig_end_clean(&rig);
}

/* Room for many is there at once, however little the list had. */
static void lists_have_the_room_that_was_asked_for(void **state) {
    struct vr_owned_list owned = {0};
    struct vr_owned item = {.kind = VR_OWNED_BLOCK};
    (void)state;
    for (size_t more = 1; more <= 1000; more = more * 5 + 1) {
        assert_ok(vr_owned_list_reserve(&owned, more));
        assert_true(owned.capacity - owned.count >= more);
        const struct vr_owned *items = owned.items;
        for (size_t i = 0; i < more; i++, item.number++) {
            assert_ok(vr_owned_list_add(&owned, &item));
        }
        assert_ptr_equal(owned.items, items);
    }
    while (item.number-- > 0) {
        struct vr_owned last = {0};
        assert_true(vr_owned_list_pop(&owned, &last));
        assert_int_equal(last.number, item.number);
    }
    vr_owned_list_free(&owned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(acceptance_24_all_lie_and_go_together, start, nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_24_host_bytes_are_uploaded, start, nothing_left),
        cmocka_unit_test_setup_teardown(mixed_kinds, start, nothing_left),
        cmocka_unit_test_setup_teardown(blocks_of_their_own, start, nothing_left),
        cmocka_unit_test_setup_teardown(uses_by_other_queues, start, nothing_left),
        cmocka_unit_test_setup_teardown(lists_have_the_room_that_was_asked_for, start,
                                        nothing_left),
        cmocka_unit_test_setup_teardown(early_ends, start, nothing_left),
        cmocka_unit_test_setup_teardown(growing_out_of_the_block, start, nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_24_buffers_of_another_context_are_refused, start,
                                        nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_24_partial_failure_leaves_nothing, start,
                                        nothing_left),
        cmocka_unit_test_setup_teardown(every_call_may_fail, start, nothing_left),
        cmocka_unit_test_setup_teardown(an_upload_that_fails, start, nothing_left),
        cmocka_unit_test_setup_teardown(parents_that_go_first, start, nothing_left),
        cmocka_unit_test_setup_teardown(a_queue_that_has_ended, start, nothing_left),
        cmocka_unit_test_setup_teardown(a_fork_leaves_it_alone, start, nothing_left),
        cmocka_unit_test_setup_teardown(many_threads, start, nothing_left),
        cmocka_unit_test_setup_teardown(acceptance_24_host_bytes_are_checked, start, nothing_left),
        cmocka_unit_test_setup_teardown(items_of_another_version, start, nothing_left),
        cmocka_unit_test_setup_teardown(bad_input, start, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
