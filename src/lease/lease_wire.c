/* SPDX-License-Identifier: Apache-2.0 */
/* lease_wire.c: messages between holders of leases and their broker, as bytes. */
#include "lease/lease_wire.h"

#include "base/error.h"

#include <string.h>

/* ------------------------------------------------------------------ messages */

void vr_lease_message_write(uint8_t *to, const struct vr_lease_message *message) {
    uint8_t *at = to + VR_WIRE_HEADER_BYTES;
    vr_wire_header_write(to, &(struct vr_wire_header){.version = VR_LEASE_VERSION,
                                                      .type = message->type,
                                                      .status = message->status,
                                                      .bytes = VR_LEASE_PAYLOAD_BYTES});
    for (int i = 0; i < VR_LEASE_NUMBERS; i++, at += 8) {
        vr_wire_put(at, message->n[i], 8);
    }
    memcpy(at, message->name, VRAM_LEASE_NAME_MAX);
    memcpy(at + VRAM_LEASE_NAME_MAX, message->device, VRAM_LEASE_DEVICE_MAX);
}

static void text_read(char *to, const uint8_t *from, size_t bytes) {
    memcpy(to, from, bytes);
    to[bytes - 1] = 0;
    for (char *at = to; *at; at++) {
        *at = *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\' ? *at : '?';
    }
}

/* Rule (2): what is missing is 0. */
static void payload_read(const uint8_t *from, uint32_t bytes, struct vr_lease_message *message) {
    uint8_t all[VR_LEASE_PAYLOAD_BYTES] = {0}, *at = all;
    memcpy(all, from, bytes < sizeof all ? bytes : sizeof all);
    for (int i = 0; i < VR_LEASE_NUMBERS; i++, at += 8) {
        message->n[i] = vr_wire_get(at, 8);
    }
    text_read(message->name, at, VRAM_LEASE_NAME_MAX);
    text_read(message->device, at + VRAM_LEASE_NAME_MAX, VRAM_LEASE_DEVICE_MAX);
}

/* ------------------------------------------------------------------- receiving */

/* Receives until the reader has `bytes`. */
static vram_status reader_fill(struct vr_lease_reader *reader, int fd, uint32_t bytes) {
    while (reader->bytes < bytes) {
        size_t some;
        uint32_t none = 0;
        vram_status status = vr_os_socket_receive(fd, reader->data + reader->bytes,
                                                  bytes - reader->bytes, &some, NULL, &none);
        if (status != VRAM_OK) {
            return status;
        }
        reader->bytes += (uint32_t)some;
    }
    return VRAM_OK;
}

vram_status vr_lease_receive(struct vr_lease_reader *reader, int fd,
                             struct vr_lease_message *message) {
    struct vr_wire_header header;
    vram_status status = reader_fill(reader, fd, VR_WIRE_HEADER_BYTES);
    if (status != VRAM_OK) {
        return status;
    }
    if (!vr_wire_header_read(reader->data, VR_LEASE_PAYLOAD_MAX, &header)) {
        return vr_fail(VRAM_ERR_CORRUPT,
                       "the other side of a lease sent bytes that are no message");
    }
    *message = (struct vr_lease_message){
        .version = header.version, .type = header.type, .status = header.status};
    if (header.version != VR_LEASE_VERSION) {
        return VRAM_OK; /* its payload may mean anything */
    }
    status = reader_fill(reader, fd, VR_WIRE_HEADER_BYTES + header.bytes);
    if (status == VRAM_OK) {
        payload_read(reader->data + VR_WIRE_HEADER_BYTES, header.bytes, message);
        reader->bytes = 0;
    }
    return status;
}

vram_status vr_lease_send(int fd, const struct vr_lease_message *message) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    size_t sent;
    vr_lease_message_write(bytes, message);
    vram_status status = vr_os_socket_send(fd, bytes, sizeof bytes, NULL, 0, &sent);
    if (status == VRAM_ERR_NOT_READY || (status == VRAM_OK && sent < sizeof bytes)) {
        return vr_fail(VRAM_ERR_TIMEOUT, "the other side of a lease does not read its messages");
    }
    return status;
}
