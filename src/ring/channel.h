/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h: the host's end of one direction of a ring, in any kind of memory.
 *
 * A channel has pointers to the counters and slots of one direction, and the ring's sizes. The
 * sizes are the host's own copy: what a device may have written is only compared with them, so a
 * damaged ring is detected and does no harm. vram/ring_layout.h has the layout and a drawing.
 *
 * Several producers
 *  (1) `claim` gives each message number to one producer, by compare and swap, after a check of
 *      `tail`.
 *  (2) A producer that has filled a slot stores its sequence. Then any producer may advance `head`
 *      past it, one message at a time and in order, by compare and swap. So no producer waits for a
 *      slow one. A producer that died with a number holds up the messages after it, but no thread.
 *  (3) A producer stores its own sequence and then reads its neighbours'. Two that do so at the
 *      same time must not both miss the other's, or a message would stay unpublished for ever. So
 *      these stores and loads are sequentially consistent. tests/ring/explore.c finds what happens
 *      if they are not.
 *
 * A single producer needs none of this: it stores `head` itself, with release order.
 */
#ifndef VR_CHANNEL_H
#define VR_CHANNEL_H

#include "base/atomic.h"
#include "vram/ring.h"

struct vr_channel {
    vr_atomic_u64 *head;    /* messages published */
    vr_atomic_u64 *claim;   /* messages that have a producer; only with `multi` */
    vr_atomic_u64 *tail;    /* messages taken */
    unsigned char *slots;   /* capacity * stride bytes */
    uint64_t capacity;      /* messages; a power of two */
    uint64_t stride;        /* bytes from slot to slot */
    uint32_t message_bytes; /* the largest payload, in bytes */
    bool multi;             /* several producers */
    bool crc;               /* slots carry the CRC of their payload */
};

static inline vram_ring_slot *vr_channel_slot(const struct vr_channel *channel, uint64_t message) {
    return (vram_ring_slot *)(void *)(channel->slots +
                                      (message & (channel->capacity - 1)) * channel->stride);
}

/*
 * None of these records an error: VRAM_ERR_NOT_READY is not a failure, and the caller writes the
 * text for VRAM_ERR_CORRUPT.
 */

/* Sends as many of `count` messages as fit; *sent is their number, which may be 0. Each has at most
   message_bytes, and is stamped with `stamp_ns`. One thread at a time unless `multi`.
   VRAM_ERR_CORRUPT: the counters are damaged. */
vram_status vr_channel_send(const struct vr_channel *channel, const vram_ring_message *messages,
                            uint64_t count, uint64_t stamp_ns, uint64_t *sent);

/* Copies the oldest message's payload to `data` and removes the message. VRAM_ERR_NOT_READY: the
   ring is empty. VRAM_ERR_LIMIT: it is longer than `data_capacity`; *slot has its length, and it
   stays. VRAM_ERR_CORRUPT: counters, sequence or length are damaged, and nothing was removed.
   VRAM_ERR_IO: the payload does not match its CRC; the message was removed, and its payload is in
   `data`. One thread at a time. *slot is the header. */
vram_status vr_channel_receive(const struct vr_channel *channel, void *data, uint32_t data_capacity,
                               vram_ring_slot *slot);

/* Messages in the ring; UINT64_MAX if the counters are damaged. */
uint64_t vr_channel_depth(const struct vr_channel *channel);

#endif
