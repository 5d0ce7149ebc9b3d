/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_wire.h: what holders of leases and their broker send each other. base/wire.h has the
 * header. Every message has the same payload, of which a type uses some fields:
 *
 *      0              64              128             192
 *     +--------------+---------------+---------------+
 *     | 8 numbers    | name          | device        |
 *     +--------------+---------------+---------------+
 *
 * Grants travel as differences, never as sums: a grant and a gift may cross each other on the way,
 * and both sides still come to the same sum.
 *
 * Rules of versions
 *  (1) The header never changes. A broker that receives another version answers VR_LEASE_REFUSED,
 *      status VRAM_ERR_UNSUPPORTED, with its own version, and closes; the holder reports both. The
 *      lowest version that is still served is not known to the other side: there is only one.
 *  (2) Within a version, a payload may only become longer. A reader ignores the bytes behind the
 *      fields that it knows, and takes missing ones as 0. VR_LEASE_PAYLOAD_MAX is the most.
 *  (3) A type that a reader does not know is skipped. So new types may be added within a version if
 *      the other side need not understand them.
 */
#ifndef VR_LEASE_WIRE_H
#define VR_LEASE_WIRE_H

#include "base/wire.h"
#include "vram/lease.h"

enum {
    VR_LEASE_VERSION = 1,
    VR_LEASE_NUMBERS = 8,
    VR_LEASE_PAYLOAD_BYTES = VR_LEASE_NUMBERS * 8 + VRAM_LEASE_NAME_MAX + VRAM_LEASE_DEVICE_MAX,
    VR_LEASE_MESSAGE_BYTES = VR_WIRE_HEADER_BYTES + VR_LEASE_PAYLOAD_BYTES,
    VR_LEASE_PAYLOAD_MAX = 1024
};

/* The numbers are listed with each type, in order. */
enum vr_lease_type {
    /* From a holder. */
    VR_LEASE_OPEN = 64, /* min, want, grant that it has already, held, capacity, priority + 1000,
                           resumed, process; name, device */
    VR_LEASE_NEED = 65, /* number, bytes, ns that it may take, held, free and 1 or 0, refused */
    VR_LEASE_GIVE = 66, /* number of the revocation or 0, bytes, why, final, held */
    VR_LEASE_HELD = 67, /* held */
    VR_LEASE_LIST = 68, /* nothing; the connection is for this alone */
    /* From the broker. */
    VR_LEASE_OPENED = 80,  /* bytes granted, process of the broker, capacity */
    VR_LEASE_GRANTED = 81, /* number, bytes */
    VR_LEASE_DENIED = 82,  /* number, lenders that precede it, capacity */
    VR_LEASE_LENDER = 83,  /* number, process, asked, given, why, priority + 1000; name */
    VR_LEASE_REVOKE = 84, /* number, bytes, ns left, process, priority + 1000, unused alone; name */
    VR_LEASE_CANCEL = 85, /* number of a revocation that is over */
    VR_LEASE_REFUSED = 86,    /* nothing: the header's status says why; then it closes */
    VR_LEASE_ENTRY = 87,      /* process, priority + 1000, min, want, grant, held, waiting, asked;
                              name, device */
    VR_LEASE_ENTRY_MORE = 88, /* capacity; follows its entry */
    VR_LEASE_RECORD = 89, /* number, ago ns, happening, why, bytes, waited ns, from, to; names of
                                 from and to */
    VR_LEASE_END = 90     /* of a list */
};

struct vr_lease_message {
    uint8_t version; /* in: of the sender */
    uint8_t type;
    vram_status status;
    uint64_t n[VR_LEASE_NUMBERS];
    char name[VRAM_LEASE_NAME_MAX], device[VRAM_LEASE_DEVICE_MAX];
};

/* Writes VR_LEASE_MESSAGE_BYTES. */
void vr_lease_message_write(uint8_t *to, const struct vr_lease_message *message);

/* Collects the bytes of messages as they come. */
struct vr_lease_reader {
    uint32_t bytes; /* that are in it */
    uint8_t data[VR_WIRE_HEADER_BYTES + VR_LEASE_PAYLOAD_MAX];
};

/* Receives from the socket and takes one message. VRAM_ERR_NOT_READY: it is not complete yet.
   VRAM_ERR_STALE: the other side has gone. VRAM_ERR_CORRUPT: the bytes are no message. A message of
   another version has only its header. Texts are printable and end with 0. */
vram_status vr_lease_receive(struct vr_lease_reader *reader, int fd,
                             struct vr_lease_message *message);

/* Sends a message as a whole. Messages are short and their number is bounded by the protocol: a
   socket whose buffer is full belongs to a peer that does not read, which is VRAM_ERR_TIMEOUT. */
vram_status vr_lease_send(int fd, const struct vr_lease_message *message);

/* Priorities are sent as positive numbers. */
enum { VR_LEASE_PRIORITY_BIAS = 1000, VR_LEASE_PRIORITY_MOST = 100 };
static inline uint64_t vr_lease_priority_put(int32_t priority) {
    return (uint64_t)((int64_t)priority + VR_LEASE_PRIORITY_BIAS);
}
static inline int32_t vr_lease_priority_get(uint64_t sent) {
    uint64_t most = VR_LEASE_PRIORITY_BIAS + VR_LEASE_PRIORITY_MOST;
    uint64_t least = VR_LEASE_PRIORITY_BIAS - VR_LEASE_PRIORITY_MOST;
    return (int32_t)(sent > most ? most : sent < least ? least : sent) - VR_LEASE_PRIORITY_BIAS;
}

#endif
