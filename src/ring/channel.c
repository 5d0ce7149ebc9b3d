/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c: sending and receiving on the host; numbers in parentheses are those of channel.h. */
#include "ring/channel.h"

#include "track/crc32.h"

#include <string.h>

_Static_assert(sizeof(vr_atomic_u64) == sizeof(uint64_t), "an atomic word is a word");

/* A slot's sequence as an atomic. */
static vr_atomic_u64 *sequence_of(const struct vr_channel *channel, uint64_t message) {
    return (vr_atomic_u64 *)(void *)&vr_channel_slot(channel, message)->sequence;
}

/* Fills the slot of message n, except its sequence. */
static void slot_fill(const struct vr_channel *channel, uint64_t n,
                      const vram_ring_message *message, uint64_t stamp_ns) {
    vram_ring_slot *slot = vr_channel_slot(channel, n);
    slot->stamp_ns = stamp_ns;
    slot->bytes = message->bytes;
    slot->kind = message->kind;
    slot->crc = channel->crc ? vr_crc32(0, message->data, message->bytes) : 0;
    if (message->bytes) {
        memcpy(slot + 1, message->data, message->bytes);
    }
}

static uint64_t lesser_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Advances head past every message that is ready, (2) and (3). */
static void head_advance(const struct vr_channel *channel) {
    uint64_t head = vr_load(channel->head, VR_SEQ_CST);
    while (vr_load(sequence_of(channel, head), VR_SEQ_CST) == head + 1) {
        if (vr_cas(channel->head, &head, head + 1, VR_SEQ_CST)) {
            head++;
        }
    }
}

static vram_status send_many(const struct vr_channel *channel, const vram_ring_message *messages,
                             uint64_t count, uint64_t stamp_ns, uint64_t *sent) {
    uint64_t claim = vr_load(channel->claim, VR_RELAXED), got;
    do {
        uint64_t used = claim - vr_load(channel->tail, VR_ACQUIRE);
        if (used > channel->capacity) {
            uint64_t now = vr_load(channel->claim, VR_RELAXED);
            if (now == claim) {
                return VRAM_ERR_CORRUPT;
            }
            claim = now;
            got = 0;
            continue;
        }
        got = lesser_of(count, channel->capacity - used);
        if (got == 0) {
            *sent = 0;
            return VRAM_OK;
        }
    } while (got == 0 || !vr_cas_weak(channel->claim, &claim, claim + got, VR_ACQ_REL));
    for (uint64_t i = 0; i < got; i++) {
        slot_fill(channel, claim + i, &messages[i], stamp_ns);
        vr_store(sequence_of(channel, claim + i), claim + i + 1, VR_SEQ_CST);
    }
    head_advance(channel);
    *sent = got;
    return VRAM_OK;
}

static vram_status send_one_producer(const struct vr_channel *channel,
                                     const vram_ring_message *messages, uint64_t count,
                                     uint64_t stamp_ns, uint64_t *sent) {
    uint64_t head = vr_load(channel->head, VR_RELAXED);
    uint64_t used = head - vr_load(channel->tail, VR_ACQUIRE);
    if (used > channel->capacity) {
        return VRAM_ERR_CORRUPT;
    }
    uint64_t got = lesser_of(count, channel->capacity - used);
    for (uint64_t i = 0; i < got; i++) {
        slot_fill(channel, head + i, &messages[i], stamp_ns);
        vr_store(sequence_of(channel, head + i), head + i + 1, VR_RELAXED);
    }
    if (got) {
        vr_store(channel->head, head + got, VR_RELEASE);
    }
    *sent = got;
    return VRAM_OK;
}

vram_status vr_channel_send(const struct vr_channel *channel, const vram_ring_message *messages,
                            uint64_t count, uint64_t stamp_ns, uint64_t *sent) {
    return channel->multi ? send_many(channel, messages, count, stamp_ns, sent)
                          : send_one_producer(channel, messages, count, stamp_ns, sent);
}

vram_status vr_channel_receive(const struct vr_channel *channel, void *data, uint32_t data_capacity,
                               vram_ring_slot *slot) {
    uint64_t tail = vr_load(channel->tail, VR_RELAXED);
    uint64_t depth = vr_load(channel->head, VR_ACQUIRE) - tail;
    if (depth == 0) {
        return VRAM_ERR_NOT_READY;
    }
    const vram_ring_slot *from = vr_channel_slot(channel, tail);
    slot->sequence = vr_load(sequence_of(channel, tail), VR_ACQUIRE);
    slot->stamp_ns = from->stamp_ns;
    slot->bytes = from->bytes; /* read once: a device may change it after the check */
    slot->crc = from->crc;
    slot->kind = from->kind;
    if (depth > channel->capacity || slot->sequence != tail + 1 ||
        slot->bytes > channel->message_bytes) {
        return VRAM_ERR_CORRUPT;
    }
    if (slot->bytes > data_capacity) {
        return VRAM_ERR_LIMIT;
    }
    if (slot->bytes) {
        memcpy(data, from + 1, slot->bytes);
    }
    vr_store(channel->tail, tail + 1, VR_RELEASE);
    return channel->crc && vr_crc32(0, data, slot->bytes) != slot->crc ? VRAM_ERR_IO : VRAM_OK;
}

uint64_t vr_channel_depth(const struct vr_channel *channel) {
    uint64_t tail = vr_load(channel->tail, VR_ACQUIRE), depth;
    for (;;) {
        depth = vr_load(channel->head, VR_ACQUIRE) - tail;
        uint64_t now = vr_load(channel->tail, VR_ACQUIRE);
        if (depth <= channel->capacity || now == tail) {
            return depth <= channel->capacity ? depth : UINT64_MAX;
        }
        tail = now; /* the ring wrapped around between the two loads */
    }
}
