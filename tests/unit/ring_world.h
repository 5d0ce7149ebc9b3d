/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_world.h: what the tests of rings share: a ring with a kernel in C at its other end. On the
 * host the kernel runs all the while, on a queue of its own; elsewhere it is launched again and
 * again on the ring's.
 */
#ifndef TEST_RING_WORLD_H
#define TEST_RING_WORLD_H

#include "unit/device_world.h"
#include "vram/ring.h"
#include "vram/ring_device.h"

#include "track/crc32.h"

/* What a message of the tests is. */
struct note {
    uint64_t number, twice;
    uint8_t rest[40]; /* as many bytes as note_bytes says */
};

static inline uint32_t note_bytes(uint64_t number) {
    return (uint32_t)(16 + number % 41);
}

static inline struct note note_of(uint64_t number) {
    struct note note = {.number = number, .twice = number * 2};
    memset(note.rest, (int)(number % 251), sizeof note.rest);
    return note;
}

static inline bool note_is(const struct note *note, uint32_t bytes, uint64_t number) {
    struct note expected = note_of(number);
    return bytes == note_bytes(number) && memcmp(note, &expected, bytes) == 0;
}

/* What kernels have seen, for who has waited for their end. */
static struct {
    uint64_t taken;  /* messages, in order and whole */
    uint64_t wrong;  /* those that were not */
    uint64_t opened; /* launches */
} seen;

struct kernel_order {
    /* source: notes to give in all; echo, sink: messages after which it dies; 0: never */
    uint64_t count;
    uint64_t resident; /* works until it is stopped; else until there is nothing to do */
};

static inline vram_ring_control *control_of(const vram_kernel_call *call) {
    return *(vram_ring_control *const *)call->arguments[0];
}

static inline struct kernel_order order_of(const vram_kernel_call *call) {
    return *(const struct kernel_order *)call->arguments[1];
}

static inline void look_at(const void *data, uint32_t bytes) {
    if (note_is(data, bytes, seen.taken)) {
        seen.taken++;
    } else {
        seen.wrong++;
    }
}

/* Takes all there is. */
static inline void sink_kernel(const vram_kernel_call *call) {
    struct kernel_order order = order_of(call);
    vram_ring_peer peer;
    uint32_t bytes;
    if (vram_ring_peer_open(control_of(call), &peer) != 0) {
        return;
    }
    seen.opened++;
    while (!vram_ring_peer_stopping(&peer)) {
        const void *in = vram_ring_peer_take(&peer, &bytes);
        if (in) {
            look_at(in, bytes);
            vram_ring_peer_done(&peer);
            if (order.count && seen.taken == order.count) {
                return; /* dies, and says nothing */
            }
        } else if (!order.resident) {
            vram_ring_peer_end(&peer, VRAM_RING_RELAUNCHABLE);
            return;
        } else {
            vr_os_yield();
        }
    }
    vram_ring_peer_end(&peer, VRAM_RING_DONE);
}

/* Gives `count` notes. */
static inline void source_kernel(const vram_kernel_call *call) {
    struct kernel_order order = order_of(call);
    vram_ring_peer peer;
    if (vram_ring_peer_open(control_of(call), &peer) != 0) {
        return;
    }
    seen.opened++;
    while (peer.output.mine < order.count) {
        struct note *out = vram_ring_peer_room(&peer);
        if (out) {
            uint64_t number = peer.output.mine;
            struct note note = note_of(number);
            memcpy(out, &note, note_bytes(number));
            vram_ring_peer_publish(&peer, note_bytes(number), (uint32_t)number);
        } else if (!order.resident ||
                   vram_ring_load_i32_(&peer.control->should_terminate, peer.flags)) {
            break;
        } else {
            vr_os_yield();
        }
    }
    vram_ring_peer_end(&peer,
                       peer.output.mine < order.count ? VRAM_RING_RELAUNCHABLE : VRAM_RING_DONE);
}

/* Gives back what it takes. */
static inline void echo_kernel(const vram_kernel_call *call) {
    struct kernel_order order = order_of(call);
    vram_ring_peer peer;
    uint32_t bytes;
    if (vram_ring_peer_open(control_of(call), &peer) != 0) {
        return;
    }
    seen.opened++;
    while (!vram_ring_peer_stopping(&peer)) {
        const void *in = vram_ring_peer_take(&peer, &bytes);
        void *out = in ? vram_ring_peer_room(&peer) : NULL;
        if (out) {
            look_at(in, bytes);
            memcpy(out, in, bytes);
            vram_ring_peer_publish(&peer, bytes, 5);
            vram_ring_peer_done(&peer);
        } else if (!order.resident) {
            break;
        } else {
            vr_os_yield();
        }
    }
    vram_ring_peer_end(&peer, order.resident ? VRAM_RING_DONE : VRAM_RING_RELAUNCHABLE);
}

/* A ring, its pool, and the kernel at its other end. */
struct ring_rig {
    struct rig rig;
    vram_pool *pool;
    vram_ring *ring;
    vram_ring_info info;
    vram_kernel *kernel;
    struct kernel_order order;
};

static inline struct ring_rig ring_rig_make(const char *backend, const vram_ring_options *options,
                                            vram_kernel_fn *function) {
    struct ring_rig world = {.rig = rig_make(backend, "real=on,memory=64M")};
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)function,
                                 .entry = "peer"};
    memset(&seen, 0, sizeof seen);
    assert_ok(vram_pool_create(world.rig.device, NULL, &world.pool));
    assert_ok(vram_ring_create(world.pool, options, &world.ring));
    world.info = (vram_ring_info){.size = sizeof world.info};
    assert_ok(vram_ring_info_get(world.ring, &world.info));
    assert_ok(vram_kernel_create(world.rig.device, &source, &world.kernel));
    return world;
}

/* Launches the kernel on `queue`, or the ring's own. */
static inline void ring_launch(struct ring_rig *world, vram_queue *queue) {
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 2,
                          .arguments = (const void *[]){&world->info.control, &world->order},
                          .argument_bytes =
                              (size_t[]){sizeof world->info.control, sizeof world->order},
                          .address_mask = 1};
    assert_ok(vram_queue_launch(queue ? queue : world->info.queue, world->kernel, &launch));
}

static inline vram_ring_stats ring_stats(struct ring_rig *world) {
    vram_ring_stats stats = {.size = sizeof stats};
    assert_ok(vram_ring_stats_get(world->ring, &stats));
    return stats;
}

/* The ring tells what went through it. What else a kernel wrote is its queue's to tell. */
static inline void kernel_ends(struct ring_rig *world) {
    assert_ok(vram_queue_wait(world->rig.queue, 20 * SECOND));
}

static inline void ring_rig_end(struct ring_rig *world) {
    assert_ok(vram_queue_wait(world->rig.queue, 60 * SECOND));
    assert_ok(vram_ring_destroy(world->ring));
    vram_kernel_destroy(world->kernel);
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(world->pool, &stats));
    assert_int_equal(stats.live_blocks, 0);
    vram_pool_destroy(world->pool);
    vram_context_destroy(world->rig.context);
}

#endif
