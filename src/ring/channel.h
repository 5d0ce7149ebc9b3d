/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h: the host's end of one ring, whichever memory the ring lies in.
 *
 * A channel is pointers to the counters and slots of one direction and the ring's measures. The
 * measures are the host's own copy: what a device may have written is compared with them and never
 * followed, so a damaged ring is found out and harms nothing. vram/ring_layout.h has the convention
 * and the picture.
 *
 * Several producers
 *  (1) `claim` gives each message number to one producer, by compare and swap, after a look at
 *      `tail`.
 *  (2) Who has filled a slot stores its sequence. Then any producer may raise `head` over it, one
 *      message at a time and in order, by compare and swap: nobody waits for a producer that is
 *      slow, and one that died with a number holds up the messages behind it, but no thread.
 *  (3) A producer stores its own sequence and then looks at its neighbours'. Two that do so at the
 *      same time must not both miss the other's, or a message would stay behind for ever: so these
 *      stores and loads are sequentially consistent. tests/ring/explore.c finds what happens when
 *      they are not.
 *
 * One producer needs neither: it stores `head` itself, with release order.
 */
#ifndef VR_CHANNEL_H
#define VR_CHANNEL_H

#include "base/atomic.h"
#include "vram/ring.h"

struct vr_channel {
    vr_atomic_u64 *head;    /* messages published */
    vr_atomic_u64 *claim;   /* messages that have an owner; only with `multi` */
    vr_atomic_u64 *tail;    /* messages taken */
    unsigned char *slots;   /* capacity * stride bytes */
    uint64_t capacity;      /* messages; a power of two */
    uint64_t stride;        /* bytes from slot to slot */
    uint32_t message_bytes; /* the largest payload */
    bool multi;             /* several producers */
    bool crc;               /* slots carry the CRC of their payload */
};

static inline vram_ring_slot *vr_channel_slot(const struct vr_channel *channel, uint64_t message) {
    return (vram_ring_slot *)(void *)(channel->slots +
                                      (message & (channel->capacity - 1)) * channel->stride);
}

/*
 * None of these records an error: VRAM_ERR_NOT_READY is no failure, and for VRAM_ERR_CORRUPT the
 * caller knows what to say.
 */

/* Puts as many of `count` messages into the ring as there is room for; *sent, which may be 0. Each
   is at most message_bytes long, and stamped with `stamp_ns`. One thread at a time unless `multi`.
   VRAM_ERR_CORRUPT: the counters are damaged. */
vram_status vr_channel_send(const struct vr_channel *channel, const vram_ring_message *messages,
                            uint64_t count, uint64_t stamp_ns, uint64_t *sent);

/* Copies the oldest message's payload to `data` and takes it off. VRAM_ERR_NOT_READY: the ring is
   empty. VRAM_ERR_LIMIT: it is longer than `room`; *slot tells how long, and it stays.
   VRAM_ERR_CORRUPT: counters, sequence or length are damaged, and nothing was taken. VRAM_ERR_IO:
   the payload is not what its CRC was made of; it was taken off, and what came is in `data`. One
   thread at a time. *slot is the header. */
vram_status vr_channel_receive(const struct vr_channel *channel, void *data, uint32_t room,
                               vram_ring_slot *slot);

/* Messages in the ring; UINT64_MAX when the counters are damaged. */
uint64_t vr_channel_depth(const struct vr_channel *channel);

#endif
