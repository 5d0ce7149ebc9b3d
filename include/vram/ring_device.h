/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/ring_device.h: the device's end of a ring, for kernels in CUDA C, HIP and C.
 *
 * A kernel includes this file and no other of libvram. It brings vram/ring_layout.h, the convention
 * that all ends keep. The kernel gets one argument, the address of the control block
 * (vram_ring_info.control). It opens its end, takes messages and publishes others:
 *
 *   __global__ void echo(vram_ring_control *control) {
 *       vram_ring_peer peer;
 *       if (vram_ring_peer_open(control, &peer) != 0) return;
 *       for (;;) {
 *           unsigned int bytes;
 *           const void *in = vram_ring_peer_take(&peer, &bytes);
 *           void *out = in ? vram_ring_peer_room(&peer) : 0;
 *           if (out) {
 *               ... out from in ...
 *               vram_ring_peer_publish(&peer, bytes, 0);
 *               vram_ring_peer_done(&peer);
 *           } else if (!in && vram_ring_peer_stopping(&peer)) {
 *               break;
 *           }
 *       }
 *       vram_ring_peer_end(&peer, VRAM_RING_DONE);
 *   }
 *
 * On the host and on simulated devices the same code is a kernel in C. vram/ring_opencl.h is the
 * same for OpenCL C, vram/ring_device.glsl for GLSL.
 */
#ifndef VRAM_RING_DEVICE_H
#define VRAM_RING_DEVICE_H

#include <vram/ring_layout.h>

/* ------------------------------------------------------------ words and fences */

/*
 * A word that the other side writes is loaded with acquire order, and one that it reads is stored
 * with release order. VRAM_RING_FLAG_SYSTEM gives the scope: the host, or the device alone. peek
 * and poke have no order, for words that a later store publishes or an earlier load has shown.
 */
#if defined(__CUDACC__) || defined(__HIPCC__)
#define VRAM_RING_FN  static __device__ inline
#define VRAM_RING_FAR static __device__ __noinline__

VRAM_RING_FN void vram_ring_fence_(uint32_t flags) {
    if (flags & VRAM_RING_FLAG_SYSTEM) {
        __threadfence_system();
    } else {
        __threadfence();
    }
}
VRAM_RING_FN uint64_t vram_ring_load_(const uint64_t *word, uint32_t flags) {
    uint64_t value = *(const volatile uint64_t *)word;
    vram_ring_fence_(flags);
    return value;
}
VRAM_RING_FN void vram_ring_store_(uint64_t *word, uint64_t value, uint32_t flags) {
    vram_ring_fence_(flags);
    *(volatile uint64_t *)word = value;
}
VRAM_RING_FN uint64_t vram_ring_peek_(const uint64_t *word) {
    return *(const volatile uint64_t *)word;
}
VRAM_RING_FN void vram_ring_poke_(uint64_t *word, uint64_t value) {
    *(volatile uint64_t *)word = value;
}
VRAM_RING_FN int32_t vram_ring_load_i32_(const int32_t *word, uint32_t flags) {
    int32_t value = *(const volatile int32_t *)word;
    vram_ring_fence_(flags);
    return value;
}
VRAM_RING_FN void vram_ring_store_i32_(int32_t *word, int32_t value, uint32_t flags) {
    vram_ring_fence_(flags);
    *(volatile int32_t *)word = value;
}
/* Words that only this device changes: a device-wide atomic is enough, wherever they lie. */
VRAM_RING_FN uint64_t vram_ring_cas_(uint64_t *word, uint64_t expected, uint64_t desired) {
    return atomicCAS((unsigned long long *)word, (unsigned long long)expected,
                     (unsigned long long)desired);
}
VRAM_RING_FN uint64_t vram_ring_ticks_(void) {
#if defined(__CUDACC__)
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#else
    return wall_clock64() * 10; /* of 100 MHz */
#endif
}
#else
#include <time.h>
#define VRAM_RING_FN  static inline
#define VRAM_RING_FAR static inline

VRAM_RING_FN uint64_t vram_ring_load_(const uint64_t *word, uint32_t flags) {
    (void)flags;
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
VRAM_RING_FN void vram_ring_store_(uint64_t *word, uint64_t value, uint32_t flags) {
    (void)flags;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
VRAM_RING_FN uint64_t vram_ring_peek_(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}
VRAM_RING_FN void vram_ring_poke_(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
VRAM_RING_FN int32_t vram_ring_load_i32_(const int32_t *word, uint32_t flags) {
    (void)flags;
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
VRAM_RING_FN void vram_ring_store_i32_(int32_t *word, int32_t value, uint32_t flags) {
    (void)flags;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
VRAM_RING_FN uint64_t vram_ring_cas_(uint64_t *word, uint64_t expected, uint64_t desired) {
    (void)__atomic_compare_exchange_n(word, &expected, desired, 0, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE);
    return expected;
}
VRAM_RING_FN uint64_t vram_ring_ticks_(void) {
#if defined(TIME_UTC)
    struct timespec now;
    return timespec_get(&now, TIME_UTC) ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec
                                        : 0;
#else /* C99 */
    return (uint64_t)time(NULL) * 1000000000u;
#endif
}
#endif

/** CRC-32 as in gzip; `crc` is 0 or the result for the part before. */
VRAM_RING_FAR uint32_t vram_ring_crc(uint32_t crc, const void *data, uint32_t bytes) {
    const unsigned char *at = (const unsigned char *)data;
    crc = ~crc;
    for (uint32_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
        }
    }
    return ~crc;
}

/** The value that `reserved[1]` must have. */
VRAM_RING_FAR uint64_t vram_ring_check_of(const vram_ring_control *control) {
    const uint64_t words[9] = {control->input_queue_head_ptr,
                               control->input_queue_tail_ptr,
                               control->input_queue_buffer_ptr,
                               (uint64_t)(uint32_t)control->input_queue_capacity << 32 |
                                   (uint32_t)control->input_queue_message_size,
                               control->output_queue_head_ptr,
                               control->output_queue_tail_ptr,
                               control->output_queue_buffer_ptr,
                               (uint64_t)(uint32_t)control->output_queue_capacity << 32 |
                                   (uint32_t)control->output_queue_message_size,
                               control->reserved[2]};
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < 9; i++) {
        sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
        sum ^= sum >> 29;
    }
    return sum;
}

/* ------------------------------------------------------------ the device's end */

/** One ring, seen from the device. */
typedef struct vram_ring_way {
    vram_ring_line *head, *tail;
    unsigned char *slots;
    uint64_t capacity, stride;
    uint64_t mine;   /* this end's counter */
    uint64_t theirs; /* the other end's, as last read */
    uint32_t message_bytes;
} vram_ring_way;

/**
 * The device's end, used by one thread. One thread of the device takes messages. The same thread
 * publishes them, or with VRAM_RING_FLAG_MULTI_OUTPUT any thread that has opened an end of its own.
 */
typedef struct vram_ring_peer {
    vram_ring_control *control;
    vram_ring_telemetry *telemetry;
    vram_ring_way input, output;
    uint32_t flags;
    int32_t error;                            /* the last error found; 0: none */
    uint64_t taken_at;                        /* ticks */
    uint64_t processed, dropped;              /* messages */
    uint64_t total_ns, max_ns, min_ns, at_ns; /* for telemetry */
    int32_t errors;
} vram_ring_peer;

VRAM_RING_FN void *vram_ring_place_(vram_ring_control *control, uint64_t pointer, uint32_t flags) {
    return flags & VRAM_RING_FLAG_OFFSETS ? (void *)((unsigned char *)control + pointer)
                                          : (void *)(uintptr_t)pointer;
}

VRAM_RING_FN void vram_ring_way_open_(vram_ring_control *control, uint32_t flags, uint64_t head,
                                      uint64_t tail, uint64_t slots, int32_t capacity,
                                      int32_t message_bytes, vram_ring_way *way) {
    way->head = (vram_ring_line *)vram_ring_place_(control, head, flags);
    way->tail = (vram_ring_line *)vram_ring_place_(control, tail, flags);
    way->slots = (unsigned char *)vram_ring_place_(control, slots, flags);
    way->capacity = (uint64_t)(uint32_t)capacity;
    way->message_bytes = (uint32_t)message_bytes;
    way->stride = VRAM_RING_STRIDE(way->message_bytes);
    way->mine = way->theirs = 0;
}

/**
 * Opens the device's end where an earlier launch left off. Returns 0, or VRAM_RING_ERROR_CONTROL if
 * there is no valid control block: the kernel must then end and write nothing.
 */
VRAM_RING_FAR int vram_ring_peer_open(vram_ring_control *control, vram_ring_peer *peer) {
    uint32_t flags = (uint32_t)control->reserved[2];
    if (control->reserved[0] != VRAM_RING_MAGIC ||
        control->reserved[1] != vram_ring_check_of(control)) {
        vram_ring_store_i32_(&control->errors_encountered, 1, VRAM_RING_FLAG_SYSTEM);
        vram_ring_store_i32_(&control->has_terminated, VRAM_RING_DONE, VRAM_RING_FLAG_SYSTEM);
        return VRAM_RING_ERROR_CONTROL;
    }
    peer->control = control;
    peer->telemetry =
        (vram_ring_telemetry *)(void *)((unsigned char *)control + VRAM_RING_AT_TELEMETRY);
    peer->flags = flags;
    vram_ring_way_open_(control, flags, control->input_queue_head_ptr,
                        control->input_queue_tail_ptr, control->input_queue_buffer_ptr,
                        control->input_queue_capacity, control->input_queue_message_size,
                        &peer->input);
    vram_ring_way_open_(control, flags, control->output_queue_head_ptr,
                        control->output_queue_tail_ptr, control->output_queue_buffer_ptr,
                        control->output_queue_capacity, control->output_queue_message_size,
                        &peer->output);
    if (peer->input.capacity) {
        peer->input.mine = peer->input.theirs = vram_ring_load_(&peer->input.tail->count, flags);
    }
    if (peer->output.capacity) {
        peer->output.mine = vram_ring_load_(&peer->output.head->count, flags);
        peer->output.theirs = vram_ring_load_(&peer->output.tail->count, flags);
    }
    peer->error = VRAM_RING_ERROR_NONE;
    peer->errors = vram_ring_load_i32_(&control->errors_encountered, flags);
    peer->taken_at = 0;
    peer->processed = vram_ring_load_((uint64_t *)&control->messages_processed, flags);
    peer->dropped = vram_ring_load_(&peer->telemetry->messages_dropped, flags);
    peer->total_ns = vram_ring_load_(&peer->telemetry->total_latency_nanos, flags);
    peer->max_ns = vram_ring_load_(&peer->telemetry->max_latency_nanos, flags);
    peer->min_ns = vram_ring_load_(&peer->telemetry->min_latency_nanos, flags);
    peer->at_ns = 0;
    vram_ring_store_i32_(&control->has_terminated, VRAM_RING_RUNNING, flags);
    return VRAM_RING_ERROR_NONE;
}

/** Writes the telemetry for the host. done calls it now and then, end at last. */
VRAM_RING_FAR void vram_ring_peer_report(vram_ring_peer *peer) {
    vram_ring_telemetry *telemetry = peer->telemetry;
    vram_ring_poke_((uint64_t *)&peer->control->messages_processed, peer->processed);
    if (peer->flags & VRAM_RING_FLAG_TELEMETRY) {
        vram_ring_poke_((uint64_t *)&peer->control->last_activity_ticks, peer->at_ns);
        vram_ring_poke_(&telemetry->messages_processed, peer->processed);
        vram_ring_poke_(&telemetry->messages_dropped, peer->dropped);
        vram_ring_poke_((uint64_t *)&telemetry->last_processed_timestamp, peer->at_ns);
        vram_ring_poke_(&telemetry->total_latency_nanos, peer->total_ns);
        vram_ring_poke_(&telemetry->max_latency_nanos, peer->max_ns);
        vram_ring_poke_(&telemetry->min_latency_nanos, peer->min_ns);
        vram_ring_store_i32_(&telemetry->queue_depth,
                             (int32_t)(peer->input.theirs - peer->input.mine), peer->flags);
        vram_ring_store_i32_(&telemetry->error_code, peer->error, peer->flags);
    }
    vram_ring_store_i32_(&peer->control->errors_encountered, peer->errors, peer->flags);
}

VRAM_RING_FN void vram_ring_peer_fail_(vram_ring_peer *peer, int32_t error) {
    peer->error = error;
    peer->errors++;
    vram_ring_peer_report(peer);
}

/**
 * The payload and size of the oldest input message, or 0 if there is none or something is wrong
 * (peer->error). The message stays in the ring, and the same call returns it again, until
 * vram_ring_peer_done. A message whose CRC does not match is dropped and counted.
 */
VRAM_RING_FN const void *vram_ring_peer_take(vram_ring_peer *peer, uint32_t *bytes) {
    vram_ring_way *way = &peer->input;
    if (!way->capacity) {
        return 0;
    }
    if (way->theirs == way->mine) {
        way->theirs = vram_ring_load_(&way->head->count, peer->flags);
    }
    uint64_t depth = way->theirs - way->mine;
    if (depth == 0) {
        return 0;
    }
    vram_ring_slot *slot =
        (vram_ring_slot *)(void *)(way->slots + (way->mine & (way->capacity - 1)) * way->stride);
    uint32_t length = slot->bytes;
    int32_t wrong = depth > way->capacity                               ? VRAM_RING_ERROR_COUNTER
                    : vram_ring_peek_(&slot->sequence) != way->mine + 1 ? VRAM_RING_ERROR_SEQUENCE
                    : length > way->message_bytes                       ? VRAM_RING_ERROR_LENGTH
                                                                        : VRAM_RING_ERROR_NONE;
    if (wrong) {
        if (peer->error != wrong) {
            vram_ring_peer_fail_(peer, wrong);
        }
        return 0;
    }
    if (peer->flags & VRAM_RING_FLAG_CRC && vram_ring_crc(0, slot + 1, length) != slot->crc) {
        way->mine++;
        vram_ring_store_(&way->tail->count, way->mine, peer->flags);
        vram_ring_peer_fail_(peer, VRAM_RING_ERROR_CRC);
        return 0;
    }
    if (peer->flags & VRAM_RING_FLAG_TELEMETRY && !peer->taken_at) {
        peer->taken_at = vram_ring_ticks_();
    }
    *bytes = length;
    return slot + 1;
}

/** Releases the message that take returned: its slot belongs to the host again. */
VRAM_RING_FN void vram_ring_peer_done(vram_ring_peer *peer) {
    peer->input.mine++;
    peer->processed++;
    if (peer->flags & VRAM_RING_FLAG_TELEMETRY) {
        peer->at_ns = vram_ring_ticks_();
        uint64_t ns = peer->at_ns > peer->taken_at ? peer->at_ns - peer->taken_at : 1;
        peer->taken_at = 0;
        peer->total_ns += ns;
        peer->max_ns = ns > peer->max_ns ? ns : peer->max_ns;
        peer->min_ns = peer->min_ns == 0 || ns < peer->min_ns ? ns : peer->min_ns;
    }
    if (peer->processed % 256 == 0) {
        vram_ring_peer_report(peer);
    }
    vram_ring_store_(&peer->input.tail->count, peer->input.mine, peer->flags);
}

/** Where the payload of the next output message goes, or 0 while the ring is full. */
VRAM_RING_FN void *vram_ring_peer_room(vram_ring_peer *peer) {
    vram_ring_way *way = &peer->output;
    if (way->mine - way->theirs >= way->capacity) {
        if (!way->capacity) {
            return 0;
        }
        way->theirs = vram_ring_load_(&way->tail->count, peer->flags);
        if (way->mine - way->theirs >= way->capacity) {
            return 0;
        }
    }
    return way->slots + (way->mine & (way->capacity - 1)) * way->stride + sizeof(vram_ring_slot);
}

VRAM_RING_FN void vram_ring_fill_(vram_ring_peer *peer, uint64_t message, uint32_t bytes,
                                  uint32_t kind) {
    vram_ring_way *way = &peer->output;
    vram_ring_slot *slot =
        (vram_ring_slot *)(void *)(way->slots + (message & (way->capacity - 1)) * way->stride);
    slot->stamp_ns = 0;
    slot->bytes = bytes;
    slot->kind = kind;
    slot->crc = peer->flags & VRAM_RING_FLAG_CRC ? vram_ring_crc(0, slot + 1, bytes) : 0;
    vram_ring_poke_(&slot->sequence, message + 1); /* published by head, which is stored after it */
}

/** Publishes the message written at vram_ring_peer_room; `bytes` are at most the message size. */
VRAM_RING_FN void vram_ring_peer_publish(vram_ring_peer *peer, uint32_t bytes, uint32_t kind) {
    vram_ring_fill_(peer, peer->output.mine, bytes, kind);
    peer->output.mine++;
    vram_ring_store_(&peer->output.head->count, peer->output.mine, peer->flags);
}

/**
 * For several producers: claims a place for one output message; 0 while the ring is full. The
 * thread that claims a place must publish it. Threads with later places wait for that, so let one
 * thread of a warp do this.
 */
VRAM_RING_FN void *vram_ring_peer_claim(vram_ring_peer *peer, uint64_t *message) {
    vram_ring_way *way = &peer->output;
    if (!way->capacity) {
        return 0;
    }
    uint64_t claim = vram_ring_load_(&way->head->claim, peer->flags);
    for (;;) {
        if (claim - vram_ring_load_(&way->tail->count, peer->flags) >= way->capacity) {
            uint64_t now = vram_ring_load_(&way->head->claim, peer->flags);
            if (now == claim) {
                return 0;
            }
            claim = now;
            continue;
        }
        uint64_t found = vram_ring_cas_(&way->head->claim, claim, claim + 1);
        if (found == claim) {
            *message = claim;
            return way->slots + (claim & (way->capacity - 1)) * way->stride +
                   sizeof(vram_ring_slot);
        }
        claim = found;
    }
}

/** Publishes a claimed place, after all that were claimed before it. */
VRAM_RING_FN void vram_ring_peer_publish_claimed(vram_ring_peer *peer, uint64_t message,
                                                 uint32_t bytes, uint32_t kind) {
    vram_ring_fill_(peer, message, bytes, kind);
    while (vram_ring_load_(&peer->output.head->count, peer->flags) != message) {
    }
    vram_ring_store_(&peer->output.head->count, message + 1, peer->flags);
}

/**
 * Whether the kernel is to end: the host has asked for it, and no input message is left. Call it if
 * there is nothing else to do, because it reads the host's words each time.
 */
VRAM_RING_FN int vram_ring_peer_stopping(vram_ring_peer *peer) {
    if (!vram_ring_load_i32_(&peer->control->should_terminate, peer->flags)) {
        return 0;
    }
    return !peer->input.capacity || peer->error ||
           vram_ring_load_(&peer->input.head->count, peer->flags) == peer->input.mine;
}

/**
 * Ends the kernel's part, as its last call: VRAM_RING_DONE, or _RELAUNCHABLE if another launch goes
 * on.
 */
VRAM_RING_FN void vram_ring_peer_end(vram_ring_peer *peer, int32_t how) {
    vram_ring_peer_report(peer);
    vram_ring_store_i32_(&peer->control->has_terminated, how, peer->flags);
}

#endif
