/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sim_rules.c: how strict the simulated driver is, and when and in which order its work is
 * done. The wrappers of src/device break none of its rules, so its tables are called directly.
 */
#include "base/log.h"
#include "sim_world.h"

#include <stdio.h>

/* ---------------------------------------------------------------------- protocol */

/* The window of synthetic addresses is large, not endless. */
TEST(addresses_run_out) {
    struct world world;
    vram_addr ranges[64];
    unsigned count = 0;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    uint64_t bytes = UINT64_C(1) << 50;
    while (count < 64 && device->vmm->reserve(device, bytes, GRANULE, &ranges[count]) == VRAM_OK) {
        count++;
    }
    assert_in_range(count, 50, 60);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(device->vmm->reserve(device, UINT64_MAX - GRANULE + 1, GRANULE, ranges),
                     VRAM_ERR_DEVICE_MEMORY);
    while (count) {
        assert_ok(device->vmm->unreserve(device, ranges[--count], bytes));
    }
    close_world(&world, 0);
}

TEST(wrong_frees) {
    struct world world;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    vram_addr addr = alloc(device, 2 * PAGE), pinned;
    assert_ok(device->pinned->alloc(device, PAGE, &pinned));
    const struct {
        vram_addr addr;
        uint64_t bytes;
        vr_memory_free_fn *free;
    } rows[] = {
        {0, PAGE, device->ops->free},
        {addr + PAGE, PAGE, device->ops->free},
        {addr, PAGE, device->ops->free},
        {addr, 2 * PAGE, device->pinned->free},
        {addr, 2 * PAGE, device->vmm->unreserve},
        {pinned, PAGE, device->managed->free},
        {addr + VR_GIB, PAGE, device->ops->free},
        {UINT64_MAX, PAGE, device->ops->free},
    };
    uint64_t count = sizeof rows / sizeof rows[0];
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].free(device, rows[i].addr, rows[i].bytes), VRAM_ERR_INVALID);
        expect_violations(&world, i + 1);
        assert_int_equal(state_of(&world).live_handles, 3);
    }
    assert_ok(device->ops->free(device, addr, 2 * PAGE));
    assert_int_equal(device->ops->free(device, addr, 2 * PAGE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "given back before");
    assert_int_equal(device->ops->alloc(device, PAGE + 1, &addr), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "granule");
    assert_int_equal(device->ops->alloc(device, 0, &addr), VRAM_ERR_INVALID);
    assert_ok(device->pinned->free(device, pinned, PAGE));
    close_world(&world, count + 1);
}

static char logged[4096];

static void keep_log(void *user, vram_log_level level, const char *text) {
    (void)user;
    (void)level;
    assert_int_equal(vr_locks_held(), 0);
    vr_error_set(VRAM_ERR_BUSY, "", "log", 0, "the callback fails at something of its own");
    strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

TEST(violations_are_logged_and_kept) {
    struct world world;
    char text[VR_SIM_TEXT_MAX];
    open_world(&world, "");
    logged[0] = 0;
    vram_log_set(keep_log, NULL, VRAM_LOG_DEBUG);
    for (unsigned i = 0; i < 70; i++) {
        assert_int_equal(world.device.ops->free(&world.device, 4096 + i, PAGE), VRAM_ERR_INVALID);
    }
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_true(strstr(logged, "protocol: call 2, device 0, free: 0x1000") != NULL);
    assert_string_equal(vram_error_get()->operation, "free"); /* not the callback's */
    const struct vr_sim_ops *sim = world.backend.ops->sim;
    assert_ok(sim->violation(&world.backend, 63, text, sizeof text));
    assert_int_equal(sim->violation(&world.backend, 64, text, sizeof text), VRAM_ERR_INVALID);
    assert_ok(sim->violation(&world.backend, 0, text, 5));
    assert_string_equal(text, "call");
    close_world(&world, 70);
}

TEST(leaks_are_found_at_close) {
    struct world world;
    vram_addr addr;
    open_world(&world, "");
    struct vr_device *device = &world.device;
    alloc(device, PAGE);
    assert_ok(device->pinned->alloc(device, PAGE, &addr));
    assert_ok(device->managed->alloc(device, PAGE, &addr));
    map_range(device, GRANULE, 2);
    create_queue(device);
    device->ops->close(device);
    expect_violations(&world, 7);
    stop_world(&world); /* with nothing live */
}

#ifdef VR_DEBUG
TEST(calls_under_a_lock) {
    struct world world;
    struct vr_mutex lock;
    vram_addr addr = 0;
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_false(vr_log_enabled(VRAM_LOG_ERROR)); /* under the lock nobody may ask */
    open_world(&world, "");
    vr_mutex_init(&lock, VR_RANK_DEVICE);
    vr_mutex_lock(&lock);
    assert_int_equal(world.device.ops->alloc(&world.device, PAGE, &addr), VRAM_ERR_INVALID);
    vr_mutex_unlock(&lock);
    vr_mutex_destroy(&lock);
    expect_violation(&world, 1, "locks of the library held");
    close_world(&world, 1);
}
#endif

TEST(calls_after_stop) {
    struct world world;
    vram_addr addr = 0;
    open_world(&world, "");
    logged[0] = 0;
    vram_log_set(keep_log, NULL, VRAM_LOG_ERROR);
    world.backend.ops->stop(&world.backend);
    assert_true(strstr(logged, "stopped with 1 devices open") != NULL);
    assert_int_equal(world.device.ops->alloc(&world.device, PAGE, &addr), VRAM_ERR_SHUTDOWN);
    assert_true(strstr(logged, "after the backend was stopped") != NULL);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    world.device.ops->close(&world.device); /* frees the machine */
    assert_int_equal(vr_mem_live_blocks(), world.blocks_before);
}

/* ----------------------------------------------------------------------- mapping */

/* One handle at two places: the same contents, and each place has users of its own. */
static void handles_have_aliases(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    const struct vr_vmm_ops *vmm = device->vmm;
    struct mapped made = map_range(device, GRANULE, 1);
    struct vr_queue queue = create_queue(device);
    static uint8_t data[GRANULE];
    uint64_t value = 0x4711, back = 0;
    vram_addr other;
    assert_ok(vmm->reserve(device, GRANULE, GRANULE, &other));
    assert_ok(vmm->map(device, other, made.handles[0], GRANULE));
    assert_ok(vmm->access(device, other, GRANULE));
    assert_ok(device->queue_ops->upload(&queue, made.addr + 8, &value, 8));
    assert_ok(device->queue_ops->download(&queue, &back, other + 8, 8));
    finish_queue(&queue);
    assert_int_equal(back, value);
    /* Work at one place does not hold the other. */
    assert_ok(device->queue_ops->upload(&queue, other, data, GRANULE));
    assert_int_equal(vmm->unmap(device, other, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "unfinished work");
    finish_queue(&queue);
    assert_ok(device->queue_ops->upload(&queue, other, data, GRANULE));
    assert_ok(vmm->unmap(device, made.addr, GRANULE));
    finish_queue(&queue);
    assert_int_equal(vmm->release(device, made.handles[0], GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "is mapped");
    assert_ok(vmm->map(device, made.addr, made.handles[0], GRANULE));
    assert_ok(vmm->unmap(device, other, GRANULE));
    assert_ok(vmm->unreserve(device, other, GRANULE));
    destroy_queue(&queue);
    unmap_range(device, &made);
    close_world(&world, 2);
}

/* Aliases that the library forgets are taken down with their handle. */
static void aliases_are_swept(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    struct mapped made = map_range(device, GRANULE, 1);
    vram_addr other;
    assert_ok(device->vmm->reserve(device, GRANULE, GRANULE, &other));
    assert_ok(device->vmm->map(device, other, made.handles[0], GRANULE));
    close_world(&world, 3); /* two ranges and a handle */
}

TEST(aliases_may_be_switched_off) {
    struct world world;
    open_world(&world, "alias=off");
    struct vr_device *device = &world.device;
    struct mapped made = map_range(device, GRANULE, 1);
    vram_addr other;
    assert_ok(device->vmm->reserve(device, GRANULE, GRANULE, &other));
    assert_int_equal(device->vmm->map(device, other, made.handles[0], GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "is mapped");
    assert_ok(device->vmm->unreserve(device, other, GRANULE));
    unmap_range(device, &made);
    close_world(&world, 1);
}

/* Every breach is refused, written down, and changes nothing. */
static void breaches(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    const struct vr_vmm_ops *vmm = device->vmm;
    struct mapped made = map_range(device, GRANULE, 2);
    uint64_t spare, other, big, none = 0, count = 0;
    vram_addr place = 0;
    assert_ok(vmm->create(device, GRANULE, &spare));
    assert_ok(vmm->create(device, 2 * GRANULE, &big));
    assert_ok(vmm->create(device, GRANULE, &other));
    assert_ok(vmm->release(device, other, GRANULE));
    assert_ok(vmm->reserve(device, 4 * GRANULE, GRANULE, &place));
    uint64_t live = state_of(&world).live_handles;
#define BREACH(call, part)                                                                         \
    do {                                                                                           \
        assert_int_equal(call, VRAM_ERR_INVALID);                                                  \
        expect_violation(&world, ++count, part);                                                   \
        assert_int_equal(state_of(&world).live_handles, live);                                     \
    } while (0)
    vram_addr at = made.addr;
    /* Sizes. */
    BREACH(vmm->reserve(device, GRANULE + 1, GRANULE, &none), "granule");
    BREACH(vmm->reserve(device, GRANULE, GRANULE / 2, &none), "granule");
    BREACH(vmm->reserve(device, GRANULE, 3 * GRANULE, &none), "alignment");
    BREACH(vmm->create(device, 0, &none), "granule");
    BREACH(vmm->map(device, place + PAGE, spare, GRANULE), "granule");
    /* In part, twice, elsewhere. */
    BREACH(vmm->map(device, place, big, GRANULE), "has");
    BREACH(vmm->map(device, at, spare, GRANULE), "mapped in");
    BREACH(vmm->map(device, place, other, GRANULE), "no handle");
    BREACH(vmm->map(device, place, 12345, GRANULE), "no handle");
    BREACH(vmm->map(device, place + 3 * GRANULE, big, 2 * GRANULE), "no reserved range");
    BREACH(vmm->map(device, 0x100000 * GRANULE, spare, GRANULE), "no reserved range");
    BREACH(vmm->unmap(device, at, 2 * GRANULE), "has");
    BREACH(vmm->unmap(device, at + GRANULE / 2, GRANULE), "no handle");
    BREACH(vmm->unmap(device, place, GRANULE), "no handle");
    BREACH(vmm->access(device, at, 4 * GRANULE), "no handle");
    BREACH(vmm->access(device, place, GRANULE), "no handle");
    BREACH(vmm->protect(device, place, GRANULE, true), "no handle");
    /* While something depends on it. */
    BREACH(vmm->release(device, made.handles[0], GRANULE), "is mapped");
    BREACH(vmm->release(device, spare, 2 * GRANULE), "has");
    BREACH(vmm->release(device, other, GRANULE), "released before");
    BREACH(vmm->unreserve(device, at, 2 * GRANULE), "still mapped");
    BREACH(vmm->unreserve(device, place, GRANULE), "bytes, not");
    BREACH(vmm->unreserve(device, place + GRANULE, GRANULE), "not given out so");
#undef BREACH
    assert_int_equal(none, 0);
    /* A handle that covers the seam of the range asked for. */
    assert_ok(vmm->map(device, place, big, 2 * GRANULE));
    assert_int_equal(vmm->access(device, place, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "splits");
    assert_int_equal(vmm->map(device, place + GRANULE, spare, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "mapped in");
    assert_ok(vmm->unmap(device, place, 2 * GRANULE));
    assert_ok(vmm->map(device, place + GRANULE, spare, GRANULE));
    assert_int_equal(vmm->map(device, place, big, 2 * GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, ++count, "mapped in");
    assert_ok(vmm->unmap(device, place + GRANULE, GRANULE));
    assert_ok(vmm->release(device, spare, GRANULE));
    assert_ok(vmm->release(device, big, 2 * GRANULE));
    assert_ok(vmm->unreserve(device, place, 4 * GRANULE));
    unmap_range(device, &made);
    close_world(&world, count);
}

/* Memory that is not mapped, or not made accessible, cannot be copied. */
static void access_is_needed(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    struct mapped made = {.bytes = GRANULE, .count = 1};
    uint64_t value = 1;
    assert_ok(device->vmm->reserve(device, 2 * GRANULE, GRANULE, &made.addr));
    assert_ok(device->vmm->create(device, GRANULE, &made.handles[0]));
    assert_int_equal(device->queue_ops->upload(&queue, made.addr, &value, 8), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "not mapped");
    assert_ok(device->vmm->map(device, made.addr, made.handles[0], GRANULE));
    assert_int_equal(device->queue_ops->upload(&queue, made.addr, &value, 8), VRAM_ERR_INVALID);
    assert_ok(device->vmm->access(device, made.addr, GRANULE));
    assert_ok(device->queue_ops->upload(&queue, made.addr, &value, 8));
    vram_addr over = made.addr + GRANULE - 4; /* runs out of the mapped part */
    assert_int_equal(device->queue_ops->copy(&queue, over, made.addr, 8), VRAM_ERR_INVALID);
    assert_int_equal(device->queue_ops->copy(&queue, made.addr, over, 8), VRAM_ERR_INVALID);
    assert_int_equal(device->queue_ops->fill(&queue, 64, 0, 1, 8), VRAM_ERR_INVALID);
    expect_violations(&world, 5);
    finish_queue(&queue);
    /* Mapped again, it has to be made accessible again. */
    assert_ok(device->vmm->unmap(device, made.addr, GRANULE));
    assert_ok(device->vmm->map(device, made.addr, made.handles[0], GRANULE));
    assert_int_equal(device->queue_ops->download(&queue, &value, made.addr, 8), VRAM_ERR_INVALID);
    destroy_queue(&queue);
    assert_ok(device->vmm->unmap(device, made.addr, GRANULE));
    assert_ok(device->vmm->release(device, made.handles[0], GRANULE));
    assert_ok(device->vmm->unreserve(device, made.addr, 2 * GRANULE));
    close_world(&world, 6);
}

/* Nothing is taken from under unfinished work. */
static void busy_memory_stays(void) {
    struct world world;
    open_world(&world, rig_state);
    struct vr_device *device = &world.device;
    struct vr_queue queue = create_queue(device);
    struct mapped made = map_range(device, GRANULE, 3);
    vram_addr plain = alloc(device, PAGE);
    static uint8_t data[GRANULE];
    /* The first takes about 38 us; all in all, the first two handles and the plain memory. */
    assert_ok(device->queue_ops->upload(&queue, made.addr + GRANULE / 2, data, GRANULE));
    assert_ok(device->queue_ops->copy(&queue, plain, made.addr, 8));
    assert_int_equal(device->vmm->unmap(device, made.addr + GRANULE, GRANULE), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "unfinished work");
    finish_queue(&queue);
    assert_ok(device->queue_ops->upload(&queue, made.addr, data, GRANULE));
    assert_ok(device->queue_ops->copy(&queue, plain, made.addr, 8));
    assert_int_equal(device->ops->free(device, plain, PAGE), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "unfinished work");
    finish_queue(&queue);
    unmap_range(device, &made);
    assert_ok(device->ops->free(device, plain, PAGE));
    destroy_queue(&queue);
    close_world(&world, 2);
}

/* Access is charged per handle. */
TEST(access_costs_per_handle) {
    struct world world;
    open_world(&world, "profile=h200");
    struct vr_device *device = &world.device;
    struct mapped made = map_range(device, GRANULE, 4);
    assert_int_equal(state_of(&world).clock_ns, 21000 + 4 * (15000 + 1000) + 4 * 60000);
    uint64_t before = state_of(&world).clock_ns;
    unmap_range(device, &made);
    assert_int_equal(state_of(&world).clock_ns - before, 4 * (40000 + 15000) + 21000);
    close_world(&world, 0);
}

static char synthetic[] = "profile=h200", real[] = "real=on,memory=64M,profile=h200";

static int on_synthetic(void) {
    rig_state = synthetic;
    return 0;
}

static int on_real(void) {
    rig_state = real;
    return 0;
}

#define BOTH(function)                                                                             \
    RUN_AS(#function, on_synthetic, NULL, function)                                                \
    RUN_AS(#function "_really", on_real, NULL, function)
BOTH(handles_have_aliases)
BOTH(aliases_are_swept)
BOTH(breaches)
BOTH(access_is_needed)
BOTH(busy_memory_stays)

/* Lets one call pass that has nothing to do with any queue. */
static void pass_call(struct world *world) {
    vram_value free, total;
    assert_ok(world->device.ops->memory_info(&world->device, &free, &total));
}

/* ------------------------------------------------------------------- asynchrony */

TEST(lag_keeps_work_back) {
    struct world world;
    open_world(&world, "lag=200,seed=4");
    struct vr_queue queue = create_queue(&world.device);
    unsigned longest = 0;
    for (uint64_t value = 1; value <= 50; value++) {
        unsigned calls = 0;
        signal_queue(&queue, value);
        for (; word_of(&queue) < value; calls++) {
            pass_call(&world);
        }
        assert_in_range(calls, 1, 201);
        longest = calls > longest ? calls : longest;
    }
    assert_true(longest > 100);
    assert_true(poll_queue(&queue) == VRAM_OK);
    /* Who waits is not kept waiting: polls in a row count for more and more. */
    for (uint64_t value = 51; value <= 100; value++) {
        signal_queue(&queue, value);
        assert_true(wait_queue(&queue, value) <= 9);
    }
    destroy_queue(&queue);
    close_world(&world, 0);
}

/* ------------------------------------------------------------------------- order */

/* Has eight queues signal at once; writes down in which order they are seen to. */
static void finishing_order(const char *text, uint64_t order[8]) {
    struct world world;
    struct vr_queue queues[8];
    open_world(&world, text);
    for (unsigned i = 0; i < 8; i++) {
        queues[i] = create_queue(&world.device);
    }
    for (unsigned i = 0; i < 8; i++) {
        signal_queue(&queues[i], 1);
    }
    uint64_t seen = 0;
    for (unsigned count = 0; count < 8;) {
        pass_call(&world);
        for (unsigned i = 0; i < 8; i++) {
            if (word_of(&queues[i]) && !(seen & 1u << i)) {
                seen |= 1u << i;
                order[count++] = i;
            }
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        destroy_queue(&queues[i]);
    }
    close_world(&world, 0);
}

TEST(seed_decides_across_queues) {
    uint64_t first[8], again[8], other[8];
    unsigned different = 0, sorted = 0;
    finishing_order("lag=40,seed=1", first);
    finishing_order("lag=40,seed=1", again);
    assert_memory_equal(first, again, sizeof first);
    for (unsigned seed = 2; seed < 12; seed++) {
        char text[32];
        snprintf(text, sizeof text, "lag=40,seed=%u", seed);
        finishing_order(text, other);
        different += memcmp(first, other, sizeof first) != 0;
        bool in_order = true;
        for (unsigned i = 1; i < 8; i++) {
            in_order = in_order && other[i - 1] < other[i];
        }
        sorted += in_order;
    }
    assert_true(different >= 8 && sorted <= 2);
}

/* ------------------------------------------------------------------------- after */

TEST(after_what_cannot_come) {
    struct world world, elsewhere;
    open_world(&elsewhere, "");
    struct vr_queue foreign = create_queue(&elsewhere.device);
    open_world(&world, "");
    struct vr_queue one = create_queue(&world.device), two = create_queue(&world.device);
    const struct vr_queue_ops *ops = world.device.queue_ops;
    signal_queue(&one, 3);
    assert_int_equal(ops->after(&two, &one, 4), VRAM_ERR_INVALID);
    expect_violation(&world, 1, "not told to signal 4");
    assert_int_equal(ops->after(&two, &foreign, 0), VRAM_ERR_INVALID);
    expect_violation(&world, 2, "another machine");
    assert_ok(ops->after(&two, &one, 3)); /* has passed by now */
    destroy_queue(&one);
    destroy_queue(&two);
    close_world(&world, 2);
    destroy_queue(&foreign);
    elsewhere.device.ops->close(&elsewhere.device);
    stop_world(&elsewhere);
}

/* ----------------------------------------------------------------- native queues */

/* A late signal has lowered the word, and the higher number is not written again: a queue that
   waits for it waits for ever. Nobody who ends something may be held up by that. */
TEST(late_signals_hold_up_nobody) {
    for (unsigned ending = 0; ending < 3; ending++) {
        struct world world;
        open_world(&world, "");
        struct vr_device *device = &world.device;
        struct vr_queue queue = create_queue(device), other = create_queue(device);
        vram_addr addr = alloc(device, PAGE);
        signal_queue(&queue, 8);
        signal_queue(&queue, 7);
        assert_int_equal(poll_queue(&queue), VRAM_OK);
        assert_int_equal(word_of(&queue), 7);
        assert_ok(device->queue_ops->after(&other, &queue, 8));
        assert_ok(device->queue_ops->fill(&other, addr, 1, 1, PAGE));
        assert_int_equal(poll_queue(&other), VRAM_ERR_NOT_READY);
        if (ending == 0) { /* the work was never done: it goes with its queue */
            device->queue_ops->destroy(&other);
            expect_violation(&world, 1, "unfinished work");
            assert_ok(device->ops->free(device, addr, PAGE));
            destroy_queue(&queue);
            close_world(&world, 1);
        } else if (ending == 1) { /* a driver that waits, since a poll was refused, does not wait */
            plan(&world, VRAM_SIM_POLL, 1, false, 99);
            assert_int_equal(poll_queue(&queue), VRAM_ERR_BACKEND);
            assert_int_equal(device->ops->free(device, addr, PAGE), VRAM_ERR_INVALID);
            expect_violation(&world, 1, "in use by unfinished work");
            destroy_queue(&queue); /* lets the other one go on */
            destroy_queue(&other);
            assert_ok(device->ops->free(device, addr, PAGE));
            close_world(&world, 1);
        } else { /* nothing was ended at all: the queues and the memory are three breaches */
            close_world(&world, 3);
        }
    }
}

/* A library whose signals or polls fail cannot know what is done: then the driver waits. */
TEST(unknown_progress_is_excused) {
    static const vram_sim_call calls[] = {VRAM_SIM_SIGNAL, VRAM_SIM_POLL};
    for (unsigned i = 0; i < 2; i++) {
        struct world world;
        uint32_t back = 0;
        open_world(&world, "lag=1000");
        struct vr_device *device = &world.device;
        struct vr_queue queue = create_queue(device);
        vram_addr addr = alloc(device, PAGE);
        assert_ok(device->queue_ops->fill(&queue, addr, 5, 4, PAGE));
        assert_ok(device->queue_ops->download(&queue, &back, addr, 4));
        plan(&world, calls[i], 1, true, 99);
        assert_int_equal(calls[i] == VRAM_SIM_POLL ? poll_queue(&queue)
                                                   : device->queue_ops->signal(&queue, 1),
                         VRAM_ERR_BACKEND);
        assert_ok(device->ops->free(device, addr, PAGE));
        assert_int_equal(back, 5);
        device->queue_ops->destroy(&queue);
        close_world(&world, 0);
    }
}
