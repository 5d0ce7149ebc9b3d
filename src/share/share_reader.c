/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_reader.c: one connection of a server: a request, its answer, then a reader.
 *
 * The peer may be hostile. Of its request only the first VR_WIRE_OPEN_BYTES of the payload are
 * used, and no number in it is trusted: a slot is compared with the number of slots, a key with the
 * export's. What is wrong is answered with a status, or by closing the connection if the bytes are
 * no message at all. A reader that sends anything more is dropped.
 */
#include "share/share_server.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "device/ops.h"

#include <string.h>

/* ------------------------------------------------------------------- answers */

/* A message of `bytes` of payload, which the caller fills. NULL: no memory. */
static uint8_t *answer_make(struct vr_connection *connection, enum vr_wire_type type,
                            vram_status status, uint32_t bytes) {
    connection->answer = vr_mem_alloc(1, VR_WIRE_HEADER_BYTES + bytes, vr_operation());
    if (!connection->answer) {
        return NULL;
    }
    connection->answer_bytes = VR_WIRE_HEADER_BYTES + bytes;
    connection->sent = 0;
    vr_wire_header_write(connection->answer, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                                      .type = (uint8_t)type,
                                                                      .status = status,
                                                                      .bytes = bytes});
    return connection->answer + VR_WIRE_HEADER_BYTES;
}

void vr_refusal_write(uint8_t *to, vram_status status) {
    vr_wire_header_write(to, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                      .type = VR_WIRE_REFUSED,
                                                      .status = status});
}

/* Tells the peer why it gets nothing, or no more. */
static void answer_refusal(struct vr_connection *connection, vram_status status) {
    vr_mem_free(connection->answer);
    connection->answer = NULL;
    vr_refusal_write(connection->refusal, status);
    connection->answer_bytes = VR_WIRE_HEADER_BYTES;
    connection->sent = 0;
    connection->state = VR_CONNECTION_ANSWERING;
}

/*
 * The payload of VR_WIRE_OPENED
 *
 *      0        16      32     33      34   36     40       48        52       56       64
 *     +--------+-------+------+-------+----+------+--------+---------+--------+--------+- - -
 *     |backend | UUID  |known?|read   | 0  |driver|granule | handles | parts  | bytes  | lists
 *     |        |       |      |only?  |    |      |        |         |        |        |
 *     +--------+-------+------+-------+----+------+--------+---------+--------+--------+- - -
 */
static void answer_opened(struct vr_connection *connection, const struct vr_share *share) {
    const struct vr_device *device = &share->export_state.pool->device->base;
    const struct vram_device_info *info = &device->info;
    uint32_t bytes = VR_WIRE_OPENED_BYTES + share->handle_count * VR_WIRE_HANDLE_BYTES +
                     share->part_count * VR_WIRE_PART_BYTES;
    uint8_t *to = answer_make(connection, VR_WIRE_OPENED, VRAM_OK, bytes);
    if (!to) {
        answer_refusal(connection, VRAM_ERR_HOST_MEMORY);
        return;
    }
    strncpy((char *)to, info->backend, 15);
    memcpy(to + 16, info->uuid, 16);
    to[32] = info->uuid_known;
    to[33] = share->read_only;
    vr_wire_put(to + 36, device->driver_id, 4);
    vr_wire_put(to + 40, vr_share_granule(device), 8);
    vr_wire_put(to + 48, share->handle_count, 4);
    vr_wire_put(to + 52, share->part_count, 4);
    vr_wire_put(to + 56, share->bytes, 8);
    to += VR_WIRE_OPENED_BYTES;
    for (uint32_t i = 0; i < share->handle_count; i++, to += VR_WIRE_HANDLE_BYTES) {
        vr_wire_put(to, share->handles[i].bytes, 8);
    }
    for (uint32_t i = 0; i < share->part_count; i++, to += VR_WIRE_PART_BYTES) {
        vr_wire_put(to, share->offsets[i], 8);
        vr_wire_put(to + 8, share->parts[i].bytes, 8);
    }
    connection->next_descriptor = 0;
    connection->state = VR_CONNECTION_ANSWERING;
}

/* ------------------------------------------------------------------ requests */

/* The export in a slot, with a reference to it and a reader more; NULL with the error set. Under
   the lock. */
static struct vr_share *export_find(struct vr_share_server *server, uint32_t slot,
                                    const uint8_t *key, const struct vr_os_peer *peer) {
    struct vr_share *share = slot < server->slot_count ? server->slots[slot] : NULL;
    if (!share || !vr_share_key_same(share->export_state.ticket.key, key)) {
        (void)vr_fail(VRAM_ERR_STALE, "the export was closed, or there never was one");
        return NULL;
    }
    const struct vr_share_export *state = &share->export_state;
    if (peer->user != vr_os_user() && !(state->user_allowed && peer->user == state->user)) {
        (void)vr_fail(VRAM_ERR_BUSY, "user %u may not open it", peer->user);
        return NULL;
    }
    if (state->closed || !vr_handle_try_ref(share->object.handle)) {
        (void)vr_fail(VRAM_ERR_STALE, "the export was closed");
        return NULL;
    }
    share->export_state.readers++;
    return share;
}

static void request_open(struct vr_share_server *server, struct vr_connection *connection) {
    const uint8_t *payload = connection->request + VR_WIRE_HEADER_BYTES;
    vr_mutex_lock(&vr_share_lock);
    struct vr_share *share =
        export_find(server, (uint32_t)vr_wire_get(payload, 4), payload + 8, &connection->peer);
    connection->share = share;
    vr_mutex_unlock(&vr_share_lock);
    if (share && vr_export_begin(share)) {
        answer_opened(connection, share);
        vr_pool_reader_change(share->export_state.pool, connection->peer.process, share->bytes,
                              true);
        connection->noted = true;
        vr_export_end(share);
    } else {
        answer_refusal(connection, share ? VRAM_ERR_STALE : vr_error_get()->status);
    }
}

static void request_read(struct vr_share_server *server, struct vr_connection *connection) {
    struct vr_wire_header header;
    size_t got = 0;
    uint32_t none = 0, want = VR_WIRE_HEADER_BYTES;
    if (connection->received >= VR_WIRE_HEADER_BYTES) {
        want += (uint32_t)vr_wire_get(connection->request + 8, 4); /* checked below */
    }
    vram_status status =
        vr_os_socket_receive(connection->fd, connection->request + connection->received,
                             want - connection->received, &got, NULL, &none);
    if (status == VRAM_ERR_STALE) {
        connection->state = VR_CONNECTION_OVER;
    } else if (status != VRAM_OK && status != VRAM_ERR_NOT_READY) {
        answer_refusal(connection, status);
    }
    if (status != VRAM_OK) {
        return;
    }
    connection->received += (uint32_t)got;
    if (connection->received < VR_WIRE_HEADER_BYTES) {
        return;
    }
    if (!vr_wire_header_read(connection->request, VR_WIRE_REQUEST_MAX, &header)) {
        connection->state = VR_CONNECTION_OVER; /* not one of us */
    } else if (header.version != VR_WIRE_VERSION || header.type != VR_WIRE_OPEN) {
        answer_refusal(connection, VRAM_ERR_UNSUPPORTED);
    } else if (header.bytes < VR_WIRE_OPEN_BYTES) {
        connection->state = VR_CONNECTION_OVER;
    } else if (connection->received == VR_WIRE_HEADER_BYTES + header.bytes) {
        request_open(server, connection);
    } else if (want == VR_WIRE_HEADER_BYTES) {
        request_read(server, connection); /* the payload usually comes with the header */
    }
}

/* --------------------------------------------------------------- descriptors */

/* The descriptor of the timeline (0), or of a handle: one that was kept, or a new one. Between
   vr_export_begin and _end. */
static vram_status descriptor_make(struct vr_share *share, uint32_t number, int *fd) {
    if (number == 0) {
        return vr_os_shared_reopen(share->export_state.timeline_file, true, fd);
    }
    const struct vr_share_handle *handle = &share->handles[number - 1];
    *fd = vr_kept_take(share, number - 1);
    return *fd >= 0 ? VRAM_OK
                    : vr_share_export_handle(&share->export_state.pool->device->base,
                                             handle->native, handle->bytes, share->read_only, fd);
}

/* After one was sent, or could not be. */
static void descriptor_give(struct vr_share *share, uint32_t number, int fd) {
    if (number == 0) {
        vr_os_file_close(fd);
    } else {
        vr_kept_give(share, number - 1, fd, true);
    }
}

/* Opens descriptors for the next message: at least one, or the reason why there is none. */
static vram_status descriptors_open(struct vr_connection *connection, int *descriptors,
                                    uint32_t *opened) {
    struct vr_share *share = connection->share;
    uint32_t count = 0, all = share->handle_count + 1;
    vram_status status = vr_timeline_make(share);
    if (status == VRAM_ERR_LIMIT && vr_kept_close_all()) {
        status = vr_timeline_make(share);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (!vr_export_begin(share)) {
        return VRAM_ERR_STALE;
    }
    for (uint32_t i = connection->next_descriptor;
         i < all && count < VR_SOCKET_DESCRIPTORS_MAX && status == VRAM_OK; i++) {
        status = descriptor_make(share, i, &descriptors[count]);
        if (status != VRAM_OK && vr_kept_close_all()) { /* drivers do not say what ran out */
            status = descriptor_make(share, i, &descriptors[count]);
        }
        count += status == VRAM_OK;
    }
    vr_export_end(share);
    *opened = count;
    return count ? VRAM_OK : status; /* if some are used up, what there is goes first */
}

/* Sends one message with descriptors. */
static vram_status descriptors_send(struct vr_connection *connection) {
    uint8_t header[VR_WIRE_HEADER_BYTES];
    int descriptors[VR_SOCKET_DESCRIPTORS_MAX];
    uint32_t count = 0;
    size_t sent = 0;
    vram_status status = descriptors_open(connection, descriptors, &count);
    if (status != VRAM_OK) {
        return status;
    }
    vr_wire_header_write(
        header, &(struct vr_wire_header){.version = VR_WIRE_VERSION, .type = VR_WIRE_HANDLES});
    status = vr_os_socket_send(connection->fd, header, sizeof header, descriptors, count, &sent);
    for (uint32_t i = 0; i < count; i++) {
        descriptor_give(connection->share, connection->next_descriptor + i, descriptors[i]);
    }
    if (status == VRAM_OK && sent != sizeof header) {
        return VRAM_ERR_IO;
    }
    connection->next_descriptor += status == VRAM_OK ? count : 0;
    return status;
}

static void answer_send(struct vr_connection *connection) {
    const uint8_t *answer = connection->answer ? connection->answer : connection->refusal;
    bool refused = !connection->answer;
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && connection->sent < connection->answer_bytes) {
        size_t some = 0;
        status = vr_os_socket_send(connection->fd, answer + connection->sent,
                                   connection->answer_bytes - connection->sent, NULL, 0, &some);
        connection->sent += status == VRAM_OK ? some : 0;
    }
    bool whole = status == VRAM_OK || !connection->sent; /* a refusal may still follow */
    while (status == VRAM_OK && !refused &&
           connection->next_descriptor <= connection->share->handle_count) {
        status = descriptors_send(connection);
    }
    if (status == VRAM_ERR_NOT_READY) {
        return;
    }
    if (whole && status != VRAM_OK && status != VRAM_ERR_STALE && !refused) {
        answer_refusal(connection, status); /* instead of the answer or its descriptors */
        answer_send(connection);
        return;
    }
    connection->state = status == VRAM_OK && !refused ? VR_CONNECTION_READING : VR_CONNECTION_OVER;
    vr_mem_free(connection->answer);
    connection->answer = NULL;
    if (connection->state == VR_CONNECTION_READING) {
        vr_log(VRAM_LOG_INFO, "share: %llu bytes are shared with process %llu of user %u",
               (unsigned long long)connection->share->bytes,
               (unsigned long long)connection->peer.process, connection->peer.user);
    }
}

/* ------------------------------------------------------------------- serving */

void vr_connection_serve(struct vr_share_server *server, struct vr_connection *connection) {
    uint8_t byte;
    size_t got;
    uint32_t none = 0;
    if (connection->state == VR_CONNECTION_ASKING) {
        request_read(server, connection);
    }
    if (connection->state == VR_CONNECTION_ANSWERING) {
        answer_send(connection);
    } else if (connection->state == VR_CONNECTION_READING &&
               vr_os_socket_receive(connection->fd, &byte, 1, &got, NULL, &none) !=
                   VRAM_ERR_NOT_READY) {
        connection->state = VR_CONNECTION_OVER; /* it has gone, or sends what it must not */
    }
}

void vr_connection_free(struct vr_connection *connection) {
    vr_os_file_close(connection->fd);
    vr_mem_free(connection->answer);
    if (connection->share) {
        uint64_t handle = connection->share->object.handle;
        if (connection->noted && vr_export_begin(connection->share)) {
            vr_pool_reader_change(connection->share->export_state.pool, connection->peer.process,
                                  connection->share->bytes, false);
            vr_export_end(connection->share);
        }
        connection->share->export_state.reader_gone(connection->share);
        vr_handle_unpin(handle);
    }
    vr_mem_free(connection);
}
