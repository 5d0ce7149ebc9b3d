/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h: messages between processes, byte by byte, and their exchange with a deadline. The bytes
 * of a struct are never sent: padding and layout differ between compilers.
 *
 * A message is a header of 16 bytes and a payload. All numbers are little-endian.
 *
 *      0        4    5    6        8          12       16
 *     +--------+----+----+--------+----------+--------+----------------- - -
 *     | magic  |ver.|type| status | bytes of payload  | payload
 *     +--------+----+----+--------+----------+--------+----------------- - -
 *                          as -status          0
 *
 * The header never changes. Each protocol has its own types and version number, and says what a
 * version promises: share/share_wire.h, lease/lease_wire.h.
 */
#ifndef VR_WIRE_H
#define VR_WIRE_H

#include "base/os/unix_socket.h"

enum { VR_WIRE_HEADER_BYTES = 16 };

struct vr_wire_header {
    uint8_t version, type;
    vram_status status;
    uint32_t bytes; /* of the payload */
};

void vr_wire_header_write(uint8_t *to, const struct vr_wire_header *header);
/* False if the bytes are not a header, or the length exceeds `most`. The version is not checked. */
bool vr_wire_header_read(const uint8_t *from, uint32_t most, struct vr_wire_header *header);

static inline void vr_wire_put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

static inline uint64_t vr_wire_get(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << 8 * i;
    }
    return value;
}

/* --------------------------------------------------------------- exchanges */

/* A connection that is used by one thread, which waits for the other side until the deadline. */
struct vr_wire_exchange {
    int fd;
    uint64_t deadline;  /* vr_clock_now */
    const char *silent; /* the text of VRAM_ERR_TIMEOUT */
};

/* Sends all bytes. VRAM_ERR_STALE if the other side has gone, VRAM_ERR_TIMEOUT. */
vram_status vr_wire_send(const struct vr_wire_exchange *exchange, const uint8_t *data,
                         size_t bytes);
/* Receives exactly `bytes`, and up to *count descriptors with them (NULL: none). After a failure
   there are no descriptors. */
vram_status vr_wire_receive(const struct vr_wire_exchange *exchange, uint8_t *data, size_t bytes,
                            int *descriptors, uint32_t *count);

#endif
