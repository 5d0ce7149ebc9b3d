/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_wire.h: what processes that share memory send each other. base/wire.h has the header.
 *
 * Rules of versions
 *  (1) The header never changes. Who receives another version answers with VR_WIRE_REFUSED, status
 *      VRAM_ERR_UNSUPPORTED and its own version, and closes.
 *  (2) Within a version a payload may only become longer: who reads it ignores bytes behind the
 *      fields that it knows, and takes missing ones as 0.
 *  (3) A length is checked against VR_WIRE_REQUEST_MAX or VR_WIRE_REPLY_MAX before anything is
 *      allocated for it.
 *
 * An exchange: the client sends one VR_WIRE_OPEN. The server answers VR_WIRE_OPENED, whose payload
 * describes handles and parts, and then sends the descriptors with VR_WIRE_HANDLES messages, in
 * order, at most VR_SOCKET_DESCRIPTORS_MAX with each: first the one of the timeline, then one for
 * each handle. From then on the connection stands for the reader, and nothing more is sent: when it
 * ends, however it ends, the reader has gone.
 */
#ifndef VR_SHARE_WIRE_H
#define VR_SHARE_WIRE_H

#include "base/wire.h"
#include "vram/share.h"

enum {
    VR_WIRE_VERSION = 1,
    VR_WIRE_OPEN_BYTES = 24,     /* payload of VR_WIRE_OPEN */
    VR_WIRE_OPENED_BYTES = 64,   /* payload of VR_WIRE_OPENED before the lists */
    VR_WIRE_HANDLE_BYTES = 8,    /* of each handle in the list: its bytes */
    VR_WIRE_PART_BYTES = 16,     /* of each part: offset, bytes */
    VR_WIRE_REQUEST_MAX = 256,   /* bytes of a request's payload */
    VR_WIRE_HANDLES_MAX = 65536, /* in one export */
    VR_WIRE_PARTS_MAX = 1 << 20, /* in one export */
    VR_WIRE_REPLY_MAX = VR_WIRE_OPENED_BYTES + VR_WIRE_HANDLES_MAX * VR_WIRE_HANDLE_BYTES +
                        VR_WIRE_PARTS_MAX * VR_WIRE_PART_BYTES + 4096
};

enum vr_wire_type {
    VR_WIRE_OPEN = 1,
    VR_WIRE_OPENED = 2,
    VR_WIRE_HANDLES = 3,
    VR_WIRE_REFUSED = 4
};

/* ------------------------------------------------------------------- tokens */

enum { VR_SHARE_KEY_BYTES = 16 };

/* What a token says. */
struct vr_share_ticket {
    uint64_t server[2];              /* the socket's name */
    uint64_t boot;                   /* vr_os_boot of the exporter; 0: unknown */
    uint32_t slot;                   /* of the export in its process */
    uint8_t key[VR_SHARE_KEY_BYTES]; /* unguessable */
};

void vr_share_token_write(vram_share_token *token, const struct vr_share_ticket *ticket);
/* VRAM_ERR_INVALID for bytes that are no token, VRAM_ERR_UNSUPPORTED for one of another version. */
vram_status vr_share_token_read(const vram_share_token *token, struct vr_share_ticket *ticket);

/* Whether two keys are the same, in a time that does not depend on where they differ. */
bool vr_share_key_same(const uint8_t *a, const uint8_t *b);

#endif
