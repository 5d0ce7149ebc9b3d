/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_races.c: two calls that meet at the worst moment. Hooks make each meeting happen every time;
 * where there is no place for one, threads try often.
 */
#include "unit/device_world.h"
#include "vram/vmm.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* ------------------------------------------------------------------ second threads */

/* Runs `call` on a thread of its own and gives it time to get as far as it can: to its end, or to
   where it waits for the call that we stand in. */
struct errand {
    void (*call)(struct rig *rig);
    struct rig *rig;
    pthread_t thread;
    atomic_bool done;
};

static void *errand_run(void *argument) {
    struct errand *errand = argument;
    errand->call(errand->rig);
    atomic_store(&errand->done, true);
    return NULL;
}

static void errand_start(void *argument) {
    struct errand *errand = argument;
    assert_int_equal(pthread_create(&errand->thread, NULL, errand_run, errand), 0);
    for (int i = 0; i < 100 && !atomic_load(&errand->done); i++) {
        usleep(1000);
    }
}

static void destroy_queue(struct rig *rig) {
    vram_queue_destroy(rig->queue);
}

static void close_device(struct rig *rig) {
    vram_device_close(rig->device);
}

static void close_other(struct rig *rig) {
    vram_device_close(rig->other);
}

static void destroy_context(struct rig *rig) {
    vram_context_destroy(rig->context);
}

/* ------------------------------------------------------- ends beside submissions */

static unsigned char host[4096];

/* An upload is on its way to the driver when its queue, device or context is ended by another
   thread: it belongs to what is waited for. */
static void submit_beside(void (*end)(struct rig *rig)) {
    vram_addr addr;
    struct rig rig = rig_make("sim", "memory=1G,lag=40");
    struct errand errand = {.call = end, .rig = &rig};
    assert_ok(vram_device_alloc(rig.device, sizeof host, VRAM_MEMORY_DEVICE, &addr));
    hook_set(rig.device);
    hook.meanwhile = errand_start;
    hook.argument = &errand;
    vram_status status = vram_queue_upload(rig.queue, addr, host, sizeof host);
    assert_true(status == VRAM_OK || status == VRAM_ERR_STALE);
    pthread_join(errand.thread, NULL);
    vram_context_destroy(rig.context);
}

TEST(a_queue_is_not_destroyed_before_a_submission) {
    submit_beside(destroy_queue);
}

TEST(a_device_is_not_closed_before_a_submission) {
    submit_beside(close_device);
}

TEST(a_context_is_not_destroyed_before_a_submission) {
    submit_beside(destroy_context);
}

/* After the end of an adoption nobody touches the native queue, though another thread was about to
   ask it while it ended. */
static vram_queue *adopted;

static void end_adoption(struct rig *rig) {
    (void)rig;
    assert_ok(vram_queue_end(adopted));
}

static void *wait_for_point(void *point) {
    assert_ok(vram_point_wait(*(vram_point *)point, 30 * SECOND));
    return NULL;
}

static atomic_bool polled;
static atomic_bool gate;

static void stay_in_poll(void *argument) {
    (void)argument;
    atomic_store(&polled, true);
    for (int i = 0; i < 200 && !atomic_load(&gate); i++) {
        usleep(1000);
    }
    atomic_store(&polled, false);
}

TEST(an_ended_adoption_is_left_by_all, "sim:memory=1G,lag=20") {
    int native;
    vram_point point;
    pthread_t waiter;
    assert_ok(vram_queue_adopt(rig->device, &native, &adopted));
    assert_ok(vram_queue_mark(adopted, &point));
    atomic_store(&gate, false);
    hook_set(rig->device);
    hook.meanwhile = stay_in_poll;
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_point, &point), 0);
    while (!atomic_load(&polled)) {
        usleep(1000);
    }
    end_adoption(rig);
    assert_false(atomic_load(&polled)); /* else that thread still asks about the native queue */
    atomic_store(&gate, true);
    pthread_join(waiter, NULL);
}

/* ------------------------------------------------------------------------- marks */

static vram_point overtaker;

static void mark_meanwhile(void *queue) {
    assert_ok(vram_queue_mark(queue, &overtaker));
}

/* Two marks reach the driver in the wrong order, and it refuses to write the higher number again.
   The word then stays below a point that was given out: no device may be left waiting for it. */
TEST(a_refused_repeat_blocks_no_queue, "sim:memory=1G") {
    vram_queue *waiting;
    vram_point point;
    assert_ok(vram_queue_create(rig->device, NULL, &waiting));
    hook_set(rig->device);
    for (int rounds = 0; rounds < 2; rounds++) {
        hook.signal_meanwhile = mark_meanwhile;
        hook.argument = rig->queue;
        hook.signals_left = 3;           /* the overtaker's, the late one's, its repetition ... */
        hook.refusals = rounds ? 20 : 1; /* ... refused once, or until somebody needs it */
        assert_ok(vram_queue_mark(rig->queue, &point));
        assert_true(overtaker.value == point.value + 1);
        expect_no_record();
        while (vram_queue_poll(rig->queue) == VRAM_ERR_NOT_READY) {
        }
        if (rounds) {
            assert_int_equal(vram_queue_after(waiting, overtaker), VRAM_ERR_HOST_MEMORY);
            hook.refusals = 0;
        }
        assert_ok(vram_queue_after(waiting, overtaker));
        assert_ok(vram_queue_wait(waiting, 30 * SECOND));
    }
}

/* Marks of one queue overtake each other while two queues wait for each other's points in turn. The
   word falls for a moment then, and what would lift it again must not come to lie behind such a
   wait. */
enum { CROSSINGS = 20000 };

struct marker {
    vram_queue *queue;
    atomic_bool stop;
};

static void *mark_on(void *argument) {
    struct marker *marker = argument;
    vram_point point;
    while (!atomic_load(&marker->stop)) {
        assert_ok(vram_queue_mark(marker->queue, &point));
        sched_yield(); /* not as fast as it can: the work would pile up */
    }
    return NULL;
}

TEST(queues_that_wait_for_each_other_go_on, "sim:memory=1G") {
    static struct marker marker;
    pthread_t threads[3];
    vram_queue *second;
    assert_ok(vram_queue_create(rig->device, NULL, &second));
    marker.queue = rig->queue;
    atomic_store(&marker.stop, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, mark_on, &marker), 0);
    }
    for (int i = 0; i < CROSSINGS; i++) {
        vram_point here, there;
        assert_ok(vram_queue_mark(rig->queue, &here));
        assert_ok(vram_queue_after(second, here));
        assert_ok(vram_queue_mark(second, &there));
        assert_ok(vram_queue_after(rig->queue, there));
        if (i % 64 == 0) {
            assert_ok(vram_queue_wait(second, 30 * SECOND));
        }
    }
    atomic_store(&marker.stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_ok(vram_queue_wait(rig->queue, 30 * SECOND));
    assert_ok(vram_queue_wait(second, 30 * SECOND));
    vram_queue_destroy(second);
}

/* ------------------------------------------------------------------ peer memory */

static void prepare_peers(struct rig *rig, vram_addr *to, vram_addr *from) {
    assert_ok(vram_device_alloc(rig->device, MIB, VRAM_MEMORY_DEVICE, to));
    assert_ok(vram_device_alloc(rig->other, MIB, VRAM_MEMORY_DEVICE, from));
    assert_ok(vram_device_peer_enable(rig->device, rig->other));
}

/* Work of one device reads memory of another one that is closed, or ended with the context. */
static void read_peer_beside(void (*end)(struct rig *rig)) {
    vram_addr to, from;
    struct rig rig = rig_make("sim", "devices=2,memory=1G,lag=300");
    prepare_peers(&rig, &to, &from);
    for (int i = 0; i < 8; i++) {
        assert_ok(vram_queue_copy(rig.queue, to, from, MIB));
    }
    end(&rig);
    vram_context_destroy(rig.context);
}

TEST(closing_waits_for_readers_of_other_devices) {
    read_peer_beside(close_other);
    read_peer_beside(destroy_context);
}

TEST(a_peer_is_not_closed_before_a_submission) {
    vram_addr to, from;
    struct rig rig = rig_make("sim", "devices=2,memory=1G,lag=40");
    struct errand errand = {.call = close_other, .rig = &rig};
    prepare_peers(&rig, &to, &from);
    hook_set(rig.device);
    hook.meanwhile = errand_start;
    hook.argument = &errand;
    vram_status status = vram_queue_copy(rig.queue, to, from, MIB);
    assert_true(status == VRAM_OK || status == VRAM_ERR_SHUTDOWN);
    pthread_join(errand.thread, NULL);
    assert_int_equal(vram_queue_copy(rig.queue, to, from, MIB), VRAM_ERR_INVALID);
    rig.other = NULL;
    rig_end_clean(&rig);
}

/* ------------------------------------------------------------ mapping, unmapping */

enum { HANDLES = 3 };

static void map_handles(struct rig *rig, vram_addr *base, vram_physical *handles[HANDLES]) {
    assert_ok(vram_range_create(rig->device, 64 * MIB, base));
    for (int i = 0; i < HANDLES; i++) {
        assert_ok(vram_physical_create(rig->device, 2 * MIB, &handles[i]));
    }
    assert_ok(vram_range_map(rig->device, *base, handles, HANDLES));
}

struct middle {
    vram_device *device;
    vram_addr addr;
};

static void unmap_middle(void *argument) {
    const struct middle *middle = argument;
    assert_ok(vram_range_unmap(middle->device, middle->addr, 2 * MIB));
}

/* While the first of two handles is unmapped somebody else unmaps the second. What lies behind them
   was not asked for. */
TEST(unmapping_never_takes_a_neighbour, "sim:memory=1G") {
    vram_addr base;
    vram_physical *handles[HANDLES];
    map_handles(rig, &base, handles);
    struct middle middle = {rig->device, base + 2 * MIB};
    hook_set(rig->device);
    hook.meanwhile = unmap_middle;
    hook.argument = &middle;
    assert_int_equal(vram_range_unmap(rig->device, base, 4 * MIB), VRAM_ERR_BUSY);
    assert_ok(vram_queue_fill(rig->queue, base + 4 * MIB, 1, 1, 2 * MIB));
    assert_ok(vram_queue_wait(rig->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_range_unmap(rig->device, base + 4 * MIB, 2 * MIB));
}

/* --------------------------------------------------------- freeing while allocating */

enum { LAST = 4, TURNS = 20000 };

/* ------------------------------------------------------------------------ limits */

struct greed {
    vram_device *device;
    atomic_bool stop;
};

static void *ask_too_much(void *argument) {
    struct greed *greed = argument;
    vram_addr addr;
    while (!atomic_load(&greed->stop)) {
        assert_int_equal(
            vram_device_alloc(greed->device, UINT64_C(1) << 62, VRAM_MEMORY_DEVICE, &addr),
            VRAM_ERR_LIMIT);
    }
    return NULL;
}

/* Who asks for more than there can be does not take it away from others meanwhile. */
TEST(a_refused_request_counts_for_nobody) {
    struct greed greed;
    pthread_t thread;
    assert_ok(vram_option_set("device_limit", "8M"));
    struct rig rig = rig_make("sim", "memory=1G");
    greed.device = rig.device;
    atomic_init(&greed.stop, false);
    assert_int_equal(pthread_create(&thread, NULL, ask_too_much, &greed), 0);
    for (unsigned i = 0; i < TURNS; i++) {
        vram_addr addr = 0;
        vram_status status = vram_device_alloc(rig.device, 65536, VRAM_MEMORY_DEVICE, &addr);
        if (status != VRAM_OK || vram_device_free(rig.device, addr) != VRAM_OK) {
            atomic_store(&greed.stop, true);
        }
        assert_ok(status);
    }
    atomic_store(&greed.stop, true);
    pthread_join(thread, NULL);
    rig_end_clean(&rig);
}
