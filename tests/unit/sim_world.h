/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_world.h: what the tests of the simulated driver share. Its tables are driven directly, with
 * objects made by hand as src/device makes them. A world is closed with nothing live, no violation
 * that the test did not expect, and no block of bookkeeping left.
 */
#ifndef TEST_SIM_WORLD_H
#define TEST_SIM_WORLD_H

#include "backend/sim/sim_backend.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "unit/assert_ok.h"

#include <errno.h>
#include <string.h>

#define PAGE    ((uint64_t)vr_os_page_bytes())
#define GRANULE (2 * VR_MIB)

struct world {
    struct vr_backend backend;
    struct vr_device device;
    struct vr_device second; /* another handle, opened by open_second */
    uint64_t blocks_before;
};

static inline vram_status start_world(struct world *world, const char *text) {
    struct vram_context_options options = {.size = sizeof options, .sim = text};
    *world = (struct world){.backend.ops = &vr_sim_backend};
    world->blocks_before = vr_mem_live_blocks();
    return world->backend.ops->start(&world->backend, &options);
}

static inline vram_status open_device(struct world *world, uint32_t index,
                                      struct vr_device *device) {
    *device = (struct vr_device){.backend = &world->backend, .index = index, .info.backend = "sim"};
    assert_ok(world->backend.ops->describe(&world->backend, index, &device->info));
    return world->backend.ops->device_open(device);
}

static inline void open_world(struct world *world, const char *text) {
    assert_ok(start_world(world, text));
    assert_ok(open_device(world, 0, &world->device));
    vram_error_clear();
}

static inline struct vram_sim_state state_of(struct world *world) {
    struct vram_sim_state state = {.size = sizeof state};
    world->backend.ops->sim->state(&world->backend, &state);
    return state;
}

/* The number of violations; the first that was not expected is printed. */
static inline void expect_violations(struct world *world, uint64_t count) {
    char text[VR_SIM_TEXT_MAX];
    uint64_t found = state_of(world).violations;
    if (found > count &&
        world->backend.ops->sim->violation(&world->backend, count, text, sizeof text) == VRAM_OK) {
        print_error("not expected: %s\n", text);
    }
    assert_int_equal(found, count);
}

/* The last violation says this. */
static inline void expect_violation(struct world *world, uint64_t count, const char *part) {
    char text[VR_SIM_TEXT_MAX];
    expect_violations(world, count);
    assert_ok(world->backend.ops->sim->violation(&world->backend, count - 1, text, sizeof text));
    if (!strstr(text, part)) {
        fail_msg("\"%s\" says nothing of \"%s\"", text, part);
    }
}

static inline void stop_world(struct world *world) {
    assert_int_equal(state_of(world).live_handles, 0);
    assert_int_equal(state_of(world).live_bytes, 0);
    world->backend.ops->stop(&world->backend);
    assert_null(world->backend.impl);
    assert_int_equal(vr_mem_live_blocks(), world->blocks_before);
}

/* Closes the world; `violations` is what the test provoked. */
static inline void close_world(struct world *world, uint64_t violations) {
    world->device.ops->close(&world->device);
    expect_violations(world, violations);
    stop_world(world);
}

static inline void plan(struct world *world, vram_sim_call call, uint64_t nth, bool for_ever,
                        int32_t code) {
    struct vram_sim_fault fault = {
        .size = sizeof fault, .call = call, .nth = nth, .for_ever = for_ever, .code = code};
    assert_ok(world->backend.ops->sim->fault(&world->backend, &fault));
}

static inline void plan_lie(struct world *world, vram_sim_call call, vram_sim_lie lie) {
    struct vram_sim_fault fault = {.size = sizeof fault, .call = call, .nth = 1, .lie = lie};
    assert_ok(world->backend.ops->sim->fault(&world->backend, &fault));
}

static inline void plan_none(struct world *world) {
    assert_ok(world->backend.ops->sim->fault(&world->backend, NULL));
}

/* -------------------------------------------------------------------- shortcuts */

static inline vram_addr alloc(struct vr_device *device, uint64_t bytes) {
    vram_addr addr = 0;
    assert_ok(device->ops->alloc(device, bytes, &addr));
    assert_int_not_equal(addr, 0);
    return addr;
}

static inline struct vr_queue create_queue(struct vr_device *device) {
    struct vr_queue queue = {.device = device};
    struct vram_queue_options options = {.size = sizeof options};
    assert_ok(device->queue_ops->create(&queue, &options));
    return queue;
}

static inline uint64_t word_of(const struct vr_queue *queue) {
    return vr_load(queue->word, VR_ACQUIRE);
}

static inline void signal_queue(struct vr_queue *queue, uint64_t value) {
    assert_ok(queue->device->queue_ops->signal(queue, value));
}

static inline vram_status poll_queue(struct vr_queue *queue) {
    return queue->device->queue_ops->poll(queue);
}

/* Polls until the word has reached `value`; how many polls that took. */
static inline unsigned wait_queue(struct vr_queue *queue, uint64_t value) {
    unsigned polls = 0;
    while (word_of(queue) < value) {
        vram_status status = poll_queue(queue);
        assert_true(status == VRAM_OK || status == VRAM_ERR_NOT_READY);
        assert_true(++polls < 100000);
    }
    return polls;
}

/* Waits for everything submitted so far. */
static inline void finish_queue(struct vr_queue *queue) {
    uint64_t value = ((struct vr_sim_queue *)queue->impl)->submitted + 1;
    signal_queue(queue, value);
    wait_queue(queue, value);
}

static inline void destroy_queue(struct vr_queue *queue) {
    finish_queue(queue);
    queue->device->queue_ops->destroy(queue);
}

/* A range with `count` handles of `bytes` mapped one behind the other, usable. */
struct mapped {
    vram_addr addr;
    uint64_t bytes; /* of each handle */
    uint32_t count;
    uint64_t handles[8];
};

static inline struct mapped map_range(struct vr_device *device, uint64_t bytes, uint32_t count) {
    struct mapped made = {.bytes = bytes, .count = count};
    assert_ok(device->vmm->reserve(device, bytes * count, GRANULE, &made.addr));
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(device->vmm->create(device, bytes, &made.handles[i]));
        assert_ok(device->vmm->map(device, made.addr + i * bytes, made.handles[i], bytes));
    }
    assert_ok(device->vmm->access(device, made.addr, bytes * count));
    return made;
}

static inline void unmap_range(struct vr_device *device, const struct mapped *made) {
    for (uint32_t i = 0; i < made->count; i++) {
        assert_ok(device->vmm->unmap(device, made->addr + i * made->bytes, made->bytes));
        assert_ok(device->vmm->release(device, made->handles[i], made->bytes));
    }
    assert_ok(device->vmm->unreserve(device, made->addr, made->bytes * made->count));
}

#endif
