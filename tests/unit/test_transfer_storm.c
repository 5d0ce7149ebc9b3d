/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer_storm.c: many threads that transfer, wait, poll, call back and give up at once, on
 * queues that are destroyed under them. Every callback comes exactly once, every byte of a finished
 * copy is right, and nothing is left.
 */
#include "unit/gate_world.h"
#include "unit/transfer_world.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 60, PIECES = 24, EACH = 512 };

struct worker {
    pthread_t thread;
    struct rig *rig;
    vram_queue *shared;
    unsigned seed;
    vr_atomic_u32 asked, told; /* callbacks */
};

static void count(void *user, vram_status status) {
    struct worker *worker = user;
    (void)status;
    vr_fetch_add(&worker->told, 1, VR_RELAXED);
}

static unsigned draw(struct worker *worker, unsigned limit) {
    worker->seed = worker->seed * 1103515245u + 12345u;
    return (worker->seed >> 16) % limit;
}

/* One of the things that a program does with a handle. */
static void treat(struct worker *worker, vram_async *async) {
    vram_status status = VRAM_OK;
    switch (draw(worker, 5)) {
    case 0:
        status = vram_async_wait(async, VRAM_TIMEOUT_DEFAULT);
        break;
    case 1:
        status = vram_async_then(async, count, worker);
        vr_fetch_add(&worker->asked, status == VRAM_OK, VR_RELAXED);
        break;
    case 2:
        vram_async_end(async);
        break;
    case 3:
        status = vram_async_poll_all(worker->rig->device, NULL);
        break;
    default:
        (void)vram_async_is_ready(async);
    }
    assert_int_equal(status, VRAM_OK);
}

static vram_status list(struct worker *worker, vram_queue *queue, vram_addr to, unsigned char *from,
                        vram_async *async) {
    vram_copy copies[PIECES];
    (void)worker;
    for (uint64_t i = 0; i < PIECES; i++) {
        copies[i] = (vram_copy){
            .to = to + i * EACH, .from_host = from + (i * 5 % PIECES) * EACH, .bytes = EACH};
    }
    return vram_transfer_batch(queue, copies, PIECES, NULL, async);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    unsigned char *from = pattern_of(PIECES * EACH, worker->seed);
    unsigned char *back = pattern_of(PIECES * EACH, 0);
    vram_addr mine = memory_of(worker->rig->device, PIECES * EACH);
    vram_queue *own;
    assert_ok(vram_queue_create(worker->rig->device, NULL, &own));
    for (int round = 0; round < ROUNDS; round++) {
        vram_async async = {{0}}, down = {{0}};
        vram_transfer_options options = by((vram_transfer_strategy)draw(worker, 3));
        bool listed = draw(worker, 2);
        assert_ok(listed ? list(worker, own, mine, from, &async)
                         : vram_transfer_upload(own, mine, from, PIECES * EACH, &options, &async));
        assert_ok(vram_transfer_download(own, back, mine, PIECES * EACH, NULL, &down));
        treat(worker, &async);
        assert_ok(vram_async_wait(&down, VRAM_TIMEOUT_DEFAULT));
        for (uint64_t i = 0; i < PIECES; i++) {
            assert_memory_equal(back + i * EACH, from + (listed ? i * 5 % PIECES : i) * EACH, EACH);
        }
        /* On the shared queue, which goes at some time: it takes the copy, or says that it is
           gone. */
        vram_status status = vram_transfer_fill(worker->shared, mine, 1, 1, 64, NULL, &async);
        assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
        if (status == VRAM_OK) {
            assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
        }
        if (round == ROUNDS / 2 && worker->seed % 2) {
            vram_queue_destroy(worker->shared);
        }
    }
    free(from);
    free(back);
    return NULL; /* queues and memory go with the device */
}

static void storm(const char *backend, const char *sim) {
    struct rig rig = rig_make(backend, sim);
    static struct worker workers[THREADS];
    memset(workers, 0, sizeof workers);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].rig = &rig;
        workers[i].shared = rig.queue;
        workers[i].seed = i + 1;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    vram_context_destroy(rig.context);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(vr_load(&workers[i].told, VR_RELAXED),
                         vr_load(&workers[i].asked, VR_RELAXED));
    }
}

static void on_the_host(void **state) {
    (void)state;
    storm("host", NULL);
}

static void on_a_simulated_device(void **state) {
    (void)state;
    storm("sim", "memory=64M,lag=7,seed=3");
}

/* Threads that make the first handle of a device at once make one list of them. */
struct starter {
    pthread_t thread;
    vram_device *device;
    vram_queue *queue;
};

static void *start_first(void *argument) {
    struct starter *starter = argument;
    vram_point point;
    vram_async async;
    assert_ok(vram_queue_mark(starter->queue, &point));
    assert_ok(vram_async_of_point(point, "first", &async));
    assert_ok(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    return NULL;
}

static void the_first_handles_of_a_device(void **state) {
    static struct gate gate;
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct rig rig = rig_make("host", NULL);
        struct starter starters[THREADS];
        gate_shut(rig.device, rig.queue, &gate);
        for (int i = 0; i < THREADS; i++) {
            starters[i] = (struct starter){.device = rig.device, .queue = rig.queue};
            assert_int_equal(pthread_create(&starters[i].thread, NULL, start_first, &starters[i]),
                             0);
        }
        gate_open(&gate);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(starters[i].thread, NULL);
        }
        vram_context_destroy(rig.context);
    }
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(on_the_host),
        HERE(on_a_simulated_device),
        HERE(the_first_handles_of_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
