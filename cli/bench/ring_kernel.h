/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_kernel.h: the other ends of `vram bench ring`, in the words that C and CUDA C share. Each
 * looks at every byte of what it takes, and works until it is told to end; where kernels cannot
 * stay, until there is nothing to do. The conformance suite and the tests' drivers echo with the
 * same function.
 */
#ifndef RING_KERNEL_H
#define RING_KERNEL_H

#include <vram/ring_device.h>

/* A kernel that finds nothing to do lets others run, where it has a processor of the host's. */
#if defined(__CUDACC__) || defined(__HIPCC__)
#define RING_REST() ((void)0)
#else
#include <sched.h>
#define RING_REST() ((void)sched_yield())
#endif

/* Word i of message n. */
VRAM_RING_FN uint64_t ring_word(uint64_t message, uint32_t i) {
    return (message + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)i << 56 ^ message;
}

VRAM_RING_FN int ring_is_whole(const uint64_t *words, uint32_t bytes, uint64_t message) {
    int whole = 1;
    for (uint32_t i = 0; i < bytes / 8; i++) {
        whole &= words[i] == ring_word(message, i);
    }
    return whole;
}

VRAM_RING_FN void ring_write(uint64_t *words, uint32_t bytes, uint64_t message) {
    for (uint32_t i = 0; i < bytes / 8; i++) {
        words[i] = ring_word(message, i);
    }
}

VRAM_RING_FN int ring_stays(const vram_ring_peer *peer) {
    return (peer->flags & VRAM_RING_FLAG_SYSTEM) != 0;
}

VRAM_RING_FN void ring_leave(vram_ring_peer *peer, int done) {
    vram_ring_peer_end(peer, done ? VRAM_RING_DONE : VRAM_RING_RELAUNCHABLE);
}

/* Takes messages. */
VRAM_RING_FN void ring_sink(vram_ring_control *control) {
    vram_ring_peer peer;
    uint32_t bytes;
    if (vram_ring_peer_open(control, &peer) != 0) {
        return;
    }
    for (;;) {
        const uint64_t *in = (const uint64_t *)vram_ring_peer_take(&peer, &bytes);
        if (in) {
            peer.errors += !ring_is_whole(in, bytes, peer.input.mine);
            vram_ring_peer_done(&peer);
        } else if (!ring_stays(&peer) || vram_ring_peer_stopping(&peer)) {
            break;
        } else {
            RING_REST();
        }
    }
    ring_leave(&peer, ring_stays(&peer));
}

/* Gives `count` messages of `bytes`. */
VRAM_RING_FN void ring_source(vram_ring_control *control, uint64_t count, uint32_t bytes) {
    vram_ring_peer peer;
    if (vram_ring_peer_open(control, &peer) != 0) {
        return;
    }
    while (peer.output.mine < count) {
        uint64_t *out = (uint64_t *)vram_ring_peer_room(&peer);
        if (out) {
            ring_write(out, bytes, peer.output.mine);
            vram_ring_peer_publish(&peer, bytes, 0);
        } else if (!ring_stays(&peer) ||
                   vram_ring_load_i32_(&peer.control->should_terminate, peer.flags)) {
            break;
        } else {
            RING_REST();
        }
    }
    ring_leave(&peer, peer.output.mine >= count);
}

enum { RING_ECHO_KIND = 9 }; /* of the messages of every echo, in OpenCL C and GLSL too */

/*
 * Gives the oldest message back, in whole words, and returns 1. Returns 0 if there is no message,
 * and -1 if there is one but no room for the answer yet.
 */
VRAM_RING_FN int ring_echo_one(vram_ring_peer *peer) {
    uint32_t bytes;
    const uint64_t *in = (const uint64_t *)vram_ring_peer_take(peer, &bytes);
    uint64_t *out = in ? (uint64_t *)vram_ring_peer_room(peer) : 0;
    if (!out) {
        return in ? -1 : 0;
    }
    for (uint32_t i = 0; i < bytes / 8; i++) {
        out[i] = in[i];
    }
    vram_ring_peer_publish(peer, bytes, RING_ECHO_KIND);
    vram_ring_peer_done(peer);
    return 1;
}

/* Gives back what it takes; leaves after `patience` ns in which nothing came. */
VRAM_RING_FN void ring_echo(vram_ring_control *control, uint64_t patience) {
    vram_ring_peer peer;
    if (vram_ring_peer_open(control, &peer) != 0) {
        return;
    }
    uint64_t last = vram_ring_ticks_();
    for (;;) {
        int echoed = ring_echo_one(&peer);
        if (echoed > 0) {
            last = vram_ring_ticks_();
        } else if (!ring_stays(&peer) || (echoed == 0 && vram_ring_peer_stopping(&peer)) ||
                   vram_ring_ticks_() - last > patience) {
            break;
        } else {
            RING_REST();
        }
    }
    ring_leave(&peer, ring_stays(&peer));
}

#endif
