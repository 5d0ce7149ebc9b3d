/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_open.c: opening a share of another process.
 *
 * The other process may be hostile, too: it may send any bytes, too few or too late, and any
 * descriptors. Every read has the deadline of the call. Every count and size is checked before it
 * is used, and all are copied out of the message first. A descriptor is checked by the backend that
 * imports it. What was received before a failure is released.
 */
#include "share/share_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/own_fd.h"
#include "base/size.h"
#include "base/status.h"

#include <string.h>

/* ------------------------------------------------------------------ transport */

static vram_status fail_answer(const char *what) {
    return vr_fail(VRAM_ERR_CORRUPT, "the exporting process answered with %s", what);
}

/* What the other process failed with, if it is one of these. */
static vram_status fail_refused(vram_status status) {
    static const vram_status known[] = {
        VRAM_ERR_HOST_MEMORY, VRAM_ERR_DEVICE_MEMORY, VRAM_ERR_LIMIT,  VRAM_ERR_DEVICE_LOST,
        VRAM_ERR_IO,          VRAM_ERR_BACKEND,       VRAM_ERR_INVALID};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (status == known[i]) {
            return vr_fail(status, "the exporting process could not answer: %s",
                           vr_status_text(status));
        }
    }
    return vr_fail(VRAM_ERR_UNSUPPORTED, "the exporting process refused the request");
}

/* Receives a header; a refusal becomes its status. */
static vram_status exchange_header(const struct vr_wire_exchange *exchange, enum vr_wire_type type,
                                   uint32_t most, struct vr_wire_header *header, int *descriptors,
                                   uint32_t *count) {
    uint8_t bytes[VR_WIRE_HEADER_BYTES];
    vram_status status = vr_wire_receive(exchange, bytes, sizeof bytes, descriptors, count);
    if (status != VRAM_OK) {
        return status == VRAM_ERR_STALE
                   ? vr_fail(status, "the exporting process ended, or refused without a reason")
                   : status;
    }
    if (!vr_wire_header_read(bytes, most, header)) {
        status = fail_answer("bytes that are no message");
    } else if (header->version != VR_WIRE_VERSION) {
        status = vr_fail(VRAM_ERR_UNSUPPORTED,
                         "the exporting process speaks version %u of the protocol, this libvram "
                         "version %d: use the same libvram on both sides",
                         header->version, VR_WIRE_VERSION);
    } else if (header->type == VR_WIRE_REFUSED && header->status == VRAM_ERR_STALE) {
        status = vr_fail(VRAM_ERR_STALE, "the export was closed, or the token names none");
    } else if (header->type == VR_WIRE_REFUSED && header->status == VRAM_ERR_BUSY) {
        status = vr_fail(VRAM_ERR_BUSY, "this user may not open it: the export has to name user %u",
                         vr_os_user());
    } else if (header->type == VR_WIRE_REFUSED) {
        status = fail_refused(header->status);
    } else if (header->type != type) {
        status = fail_answer("an unexpected message");
    }
    while (status != VRAM_OK && *count) {
        vr_os_file_close(descriptors[--*count]);
    }
    return status;
}

/* ------------------------------------------------------------------- connect */

static vram_status exchange_begin(const struct vr_share_ticket *ticket,
                                  const vram_share_options *options,
                                  struct vr_wire_exchange *exchange) {
    char dir[VR_RUNTIME_DIR_MAX], path[VR_SOCKET_PATH_MAX];
    struct vr_os_peer peer;
    uint64_t boot = vr_os_boot();
    if (ticket->boot && boot && ticket->boot != boot) {
        return vr_fail(VRAM_ERR_STALE, "the token is from before the last boot of the machine");
    }
    vram_status status = vr_share_dir(options, false, dir);
    if (status != VRAM_OK) {
        return status;
    }
    vr_share_socket_path(dir, ticket->server, path);
    exchange->silent = "the exporting process does not answer";
    exchange->deadline =
        vr_deadline_in(options->timeout_ns ? options->timeout_ns : VR_SHARE_TIMEOUT_NS);
    status = vr_os_socket_connect(path, exchange->deadline, &exchange->fd);
    if (status != VRAM_OK) {
        return status != VRAM_ERR_STALE
                   ? status
                   : vr_fail(status,
                             "the exporting process has ended, or its sockets are not in "
                             "%s: both sides need the same directory (VRAM_SHARE_DIR)",
                             dir);
    }
    vr_own_fd_note(exchange->fd);
    status = vr_os_socket_peer(exchange->fd, &peer);
    if (status == VRAM_OK && peer.user != vr_os_user() &&
        !(options->flags & VRAM_SHARE_USER && peer.user == options->user)) {
        status = vr_fail(VRAM_ERR_BUSY,
                         "the exporting process belongs to user %u; name that user in the options "
                         "to trust it",
                         peer.user);
    }
    if (status != VRAM_OK) {
        vr_own_fd_close(exchange->fd);
    }
    return status;
}

static vram_status exchange_ask(const struct vr_wire_exchange *exchange,
                                const struct vr_share_ticket *ticket) {
    uint8_t request[VR_WIRE_HEADER_BYTES + VR_WIRE_OPEN_BYTES] = {0};
    vr_wire_header_write(request, &(struct vr_wire_header){.version = VR_WIRE_VERSION,
                                                           .type = VR_WIRE_OPEN,
                                                           .bytes = VR_WIRE_OPEN_BYTES});
    vr_wire_put(request + VR_WIRE_HEADER_BYTES, ticket->slot, 4);
    memcpy(request + VR_WIRE_HEADER_BYTES + 8, ticket->key, VR_SHARE_KEY_BYTES);
    return vr_wire_send(exchange, request, sizeof request);
}

/* -------------------------------------------------------------------- answer */

static vram_status device_check(const struct vr_device *device, const uint8_t *from) {
    const struct vram_device_info *info = &device->info;
    char backend[16] = {0};
    memcpy(backend, from, sizeof backend - 1);
    bool same = strcmp(backend, info->backend) == 0 &&
                (!from[32] || !info->uuid_known || memcmp(from + 16, info->uuid, 16) == 0);
    if (!same) {
        for (size_t i = 0; backend[i]; i++) {
            backend[i] = backend[i] >= ' ' && backend[i] <= '~' ? backend[i] : '?';
        }
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the memory is of another device (%s), not of %s device %u", backend,
                       info->backend, info->backend_index);
    }
    if (vr_wire_get(from + 36, 4) != device->driver_id) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the exporting process uses another driver, or another version of it, for "
                       "%s device %u",
                       info->backend, info->backend_index);
    }
    if (vr_wire_get(from + 40, 8) != vr_share_granule(device)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the exporting process maps memory in units of %llu bytes, this one of %llu",
                       (unsigned long long)vr_wire_get(from + 40, 8),
                       (unsigned long long)vr_share_granule(device));
    }
    return VRAM_OK;
}

/* Reads the sizes of the handles, which follow each other. */
static vram_status handles_read(struct vr_share *share, const uint8_t *from, uint64_t granule) {
    for (uint32_t i = 0; i < share->handle_count; i++, from += VR_WIRE_HANDLE_BYTES) {
        uint64_t bytes = vr_wire_get(from, 8);
        share->handles[i] = (struct vr_share_handle){.bytes = bytes, .offset = share->bytes};
        if (!bytes || bytes % granule || !vr_add(share->bytes, bytes, &share->bytes)) {
            return fail_answer("an impossible size of memory");
        }
    }
    return VRAM_OK;
}

static vram_status parts_read(struct vr_share *share, const uint8_t *from) {
    bool in_one = !share->opened.device->base.vmm; /* handles do not follow each other there */
    for (uint32_t i = 0; i < share->part_count; i++, from += VR_WIRE_PART_BYTES) {
        uint64_t offset = vr_wire_get(from, 8), bytes = vr_wire_get(from + 8, 8);
        if (offset >= share->bytes || bytes > share->bytes - offset) {
            return fail_answer("a part that is not inside the memory");
        }
        const struct vr_share_handle *handle = vr_share_handle_at(share, offset);
        if (in_one && bytes > handle->offset + handle->bytes - offset) {
            return fail_answer("a part that is not inside one allocation");
        }
        share->offsets[i] = offset;
        share->parts[i].bytes = bytes;
    }
    return VRAM_OK;
}

static vram_status answer_read(struct vr_share *share, const uint8_t *from, uint32_t bytes) {
    const struct vr_device *device = &share->opened.device->base;
    if (bytes < VR_WIRE_OPENED_BYTES) {
        return fail_answer("a message that is too short");
    }
    vram_status status = device_check(device, from);
    uint64_t handles = vr_wire_get(from + 48, 4), parts = vr_wire_get(from + 52, 4);
    if (status != VRAM_OK) {
        return status;
    }
    if (!handles || !parts || handles > VR_WIRE_HANDLES_MAX || parts > VR_WIRE_PARTS_MAX ||
        handles * VR_WIRE_HANDLE_BYTES + parts * VR_WIRE_PART_BYTES >
            bytes - VR_WIRE_OPENED_BYTES) {
        return fail_answer("lists that are longer than its message");
    }
    share->read_only = share->read_only || from[33];
    from += VR_WIRE_OPENED_BYTES;
    status = vr_share_lists_make(share, (uint32_t)parts, (uint32_t)handles);
    if (status == VRAM_OK) {
        status = handles_read(share, from, vr_share_granule(device));
    }
    return status == VRAM_OK ? parts_read(share, from + handles * VR_WIRE_HANDLE_BYTES) : status;
}

static vram_status answer_receive(struct vr_share *share, const struct vr_wire_exchange *exchange) {
    struct vr_wire_header header;
    uint32_t none = 0;
    vram_status status =
        exchange_header(exchange, VR_WIRE_OPENED, VR_WIRE_REPLY_MAX, &header, NULL, &none);
    if (status != VRAM_OK) {
        return status;
    }
    uint8_t *payload = vr_mem_alloc(header.bytes ? header.bytes : 1, 1, vr_operation());
    if (!payload) {
        return VRAM_ERR_HOST_MEMORY;
    }
    none = 0;
    status = vr_wire_receive(exchange, payload, header.bytes, NULL, &none);
    if (status == VRAM_OK) {
        status = answer_read(share, payload, header.bytes);
    }
    vr_mem_free(payload);
    return status;
}

/* Receives the descriptors message by message and imports them at once, so that no more than one
   message's are open. */
static vram_status descriptors_receive(struct vr_share *share,
                                       const struct vr_wire_exchange *exchange) {
    int descriptors[VR_SOCKET_DESCRIPTORS_MAX];
    struct vr_wire_header header;
    vram_status status = VRAM_OK;
    uint32_t done = 0, all = share->handle_count + 1;
    while (done < all && status == VRAM_OK) {
        uint32_t count =
            all - done < VR_SOCKET_DESCRIPTORS_MAX ? all - done : VR_SOCKET_DESCRIPTORS_MAX;
        status = exchange_header(exchange, VR_WIRE_HANDLES, 0, &header, descriptors, &count);
        if (status == VRAM_OK && !count) {
            status = fail_answer("a message without descriptors: one of the two processes may "
                                 "have none left");
        }
        for (uint32_t i = 0; i < count; i++) {
            if (status == VRAM_OK) {
                status = done == 0 ? vr_timeline_import(share, descriptors[i])
                                   : vr_import_handle(share, done - 1, descriptors[i]);
                done++;
            }
            vr_os_file_close(descriptors[i]);
        }
    }
    return status;
}

/* ---------------------------------------------------------------------- open */

static vram_status open_exchange(struct vr_device_object *device, struct vr_wire_exchange *exchange,
                                 const struct vr_share_ticket *ticket,
                                 const vram_share_options *options, uint64_t version,
                                 vram_share **out) {
    struct vr_share *share = vr_share_make();
    if (!share) {
        return VRAM_ERR_HOST_MEMORY;
    }
    share->opened.device = device;
    share->read_only = options->flags & VRAM_SHARE_READ_ONLY;
    share->version = version;
    vram_status status = exchange_ask(exchange, ticket);
    if (status == VRAM_OK ||
        status == VRAM_ERR_STALE) { /* it may have refused before it was asked */
        status = answer_receive(share, exchange);
    }
    if (status == VRAM_OK) { /* meanwhile the exporter makes the descriptors */
        status = vr_import_reserve(share);
    }
    if (status == VRAM_OK) {
        status = descriptors_receive(share, exchange);
    }
    if (status == VRAM_OK) {
        status = vr_import_map(share);
    }
    if (status != VRAM_OK) {
        vr_opened_discard(share);
        return status;
    }
    for (uint32_t i = 0; i < share->part_count; i++) {
        const struct vr_share_handle *handle = vr_share_handle_at(share, share->offsets[i]);
        share->parts[i].addr = handle->base + (share->offsets[i] - handle->offset);
    }
    share->opened.socket = exchange->fd;
    exchange->fd = -1; /* the share's, from now on */
    vr_handle_ref(device->object.handle);
    return vr_opened_publish(share, out);
}

static vram_status open_once(struct vr_device_object *device, const vram_share_token *token,
                             const vram_share_options *options, uint64_t version,
                             vram_share **out) {
    struct vr_share_ticket ticket;
    struct vr_wire_exchange exchange;
    struct vram_error error;
    vram_share *opened = NULL;
    vram_status status = vr_share_token_read(token, &ticket);
    if (status != VRAM_OK || (status = exchange_begin(&ticket, options, &exchange)) != VRAM_OK) {
        return status;
    }
    status = open_exchange(device, &exchange, &ticket, options, version, &opened);
    if (status == VRAM_OK) {
        *out = opened;
    }
    if (exchange.fd >= 0) {
        vr_error_save(&error);
        vr_own_fd_close(exchange.fd);
        vr_share_settle(); /* the exporter may be in this process */
        vr_error_restore(&error);
    }
    return status;
}

/* Descriptors that this process keeps for readers of its own exports are closed first, if others
   are missing; share_kept.c (2). */
static vram_status open_entered(struct vr_device_object *device, const vram_share_token *token,
                                const vram_share_options *options, uint64_t version,
                                vram_share **out) {
    vram_status status = open_once(device, token, options, version, out);
    if (status == VRAM_ERR_LIMIT && vr_kept_close_all()) {
        vr_error_clear();
        status = open_once(device, token, options, version, out);
    }
    return status;
}

vram_status vr_share_open_token(vram_device *handle, const vram_share_token *token,
                                const vram_share_options *options, uint64_t version,
                                vram_share **out) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    status =
        device->base.share
            ? open_entered(device, token, options, version, out)
            : vr_fail(VRAM_ERR_UNSUPPORTED, "%s device %u cannot open memory of other processes",
                      device->base.info.backend, device->base.info.backend_index);
    vr_leave(device);
    return status;
}

vram_status vram_share_open(vram_device *device, const vram_share_token *token,
                            const vram_share_options *options, vram_share **share) {
    VR_CALL;
    vram_share_options taken;
    if (!token || !share) {
        return vr_fail(VRAM_ERR_INVALID, "the %s is NULL",
                       token ? "pointer that receives the share" : "token");
    }
    vram_status status = vr_share_options_read(options, &taken);
    return status == VRAM_OK ? vr_share_open_token(device, token, &taken, 0, share) : status;
}
