/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_wire.h: what processes send each other: messages, addresses, tokens and tables of regions.
 *
 * Everything is a row of 64-bit little-endian numbers, so that compilers and processors agree. A
 * message is the header of a UCX active message; what follows it (tables of regions,
 * contents of memory) is its data.
 *
 *     word   0                        1        2   3       4 5  6     7       8      9      10
 *          +-------+---------+------+---------+--+--------+----+-----+-------+------+------+-------+
 *          | magic | version | type | session |op| region |key | part|offset |bytes |value |-status|
 *          +-------+---------+------+---------+--+--------+----+-----+-------+------+------+-------+
 *            32       16       16
 *
 * Rules of versions: words 0 to 2 and HELLO never change. Who gets a HELLO of another version
 * answers WELCOME with VRAM_ERR_UNSUPPORTED; any other message of another version is dropped.
 *
 * `session` is the receiver's random number for the connection, from HELLO or WELCOME. A message
 * with a session that does not exist is dropped.
 *
 *     who asks                    who owns the region
 *     HELLO + sessions        ->                          connections that were given up
 *                             <-  WELCOME                 value: session of the owner
 *     OPEN region, key        ->
 *                             <-  OPENED + table          or its status
 *     AWAIT region, value     ->
 *                             <-  REACHED                 when the mark is at least value
 *     WRITE + contents        ->                          served regions
 *     COMMIT bytes, value     ->                          value: the mark
 *                             <-  DONE                    when all WRITEs of the op are in memory
 *     READ                    ->                          served regions
 *                             <-  DATA + contents
 *     CANCEL op               ->                          the deadline of an op has passed
 *                             <-  REVOKE region           the region is being closed
 *     RELEASE region          ->                          no access by this peer any more
 */
#ifndef VR_REMOTE_WIRE_H
#define VR_REMOTE_WIRE_H

#include "vram/remote.h"

enum {
    VR_REMOTE_VERSION = 1,
    VR_REMOTE_WORDS = 11, /* of a message */
    VR_REMOTE_MESSAGE_BYTES = 8 * VR_REMOTE_WORDS,
    VR_REMOTE_TABLE_MAX = 256 << 20, /* bytes of a region's table */
    VR_REMOTE_RKEY_MAX = 4096        /* bytes of a packed key of UCX */
};

enum vr_remote_type {
    VR_REMOTE_HELLO = 1,
    VR_REMOTE_WELCOME,
    VR_REMOTE_OPEN,
    VR_REMOTE_OPENED,
    VR_REMOTE_AWAIT,
    VR_REMOTE_REACHED,
    VR_REMOTE_WRITE,
    VR_REMOTE_COMMIT,
    VR_REMOTE_DONE,
    VR_REMOTE_READ,
    VR_REMOTE_DATA,
    VR_REMOTE_CANCEL,
    VR_REMOTE_REVOKE,
    VR_REMOTE_RELEASE,
    VR_REMOTE_TYPES
};

/* Names a region and the right to it. */
struct vr_remote_key {
    uint64_t region;
    uint64_t secret[2];
};

struct vr_message {
    uint16_t version, type;
    uint64_t session, op;
    struct vr_remote_key key;
    uint64_t part, offset, bytes, value;
    vram_status status;
};

void vr_message_write(const struct vr_message *message, uint8_t to[VR_REMOTE_MESSAGE_BYTES]);
/* False if it is not a message: wrong length, magic, type or status. The version is not checked. */
bool vr_message_read(const void *from, size_t bytes, struct vr_message *message);

/* A token's contents. */
void vr_token_write(const struct vr_remote_key *key, vram_remote_token *token);
/* VRAM_ERR_INVALID for a damaged one, VRAM_ERR_UNSUPPORTED for another version. */
vram_status vr_token_read(const vram_remote_token *token, struct vr_remote_key *key);

/* An address: what a peer needs to connect. The pointers are borrowed. */
struct vr_remote_address {
    uint64_t secret[2]; /* that HELLO must contain */
    const uint8_t *net; /* of a socket: remote_object.h */
    uint32_t net_bytes;
    const uint8_t *near; /* worker address for shared memory */
    uint32_t near_bytes; /* 0: none */
};

/* Returns the bytes it takes; writes them if `capacity` is enough. */
size_t vr_address_write(const struct vr_remote_address *address, uint8_t *to, size_t capacity);
/* As vr_token_read. */
vram_status vr_address_read(const void *from, size_t bytes, struct vr_remote_address *address);

/* Little-endian numbers in a row of bytes, with a check of the end. */
struct vr_cursor {
    uint8_t *at; /* NULL: bytes are only counted */
    const uint8_t *end;
    size_t bytes; /* so far */
    bool overrun; /* reading: there were not enough */
};

void vr_cursor_number(struct vr_cursor *cursor, uint64_t value);
void vr_cursor_bytes(struct vr_cursor *cursor, const void *from, size_t bytes);
uint64_t vr_cursor_take(struct vr_cursor *cursor);
/* Borrowed; NULL with `overrun` set if there are fewer. */
const uint8_t *vr_cursor_take_bytes(struct vr_cursor *cursor, size_t bytes);

#endif
