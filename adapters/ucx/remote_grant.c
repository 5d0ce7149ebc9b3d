/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_grant.c: regions of other processes, as this one may use them. The first transfer with a
 * token asks for the region's table (remote_region.c), which is kept until the owner revokes it or
 * the connection ends.
 *
 * The table comes from another process: every number is checked before it is used. Addresses in it
 * are the other process's, and are only passed to UCX.
 */
#include "adapters/ucx/remote_object.h"

#include "base/error.h"
#include "base/memory.h"

enum { TABLE_SERVED = 1, TABLE_READ_ONLY = 2 };

static void grant_free(struct vr_grant *grant) {
    for (uint32_t i = 0; grant->net_keys && i < grant->key_count; i++) {
        if (grant->net_keys[i]) {
            vr_ucx.rkey_destroy(grant->net_keys[i]);
        }
        if (grant->near_keys && grant->near_keys[i]) {
            vr_ucx.rkey_destroy(grant->near_keys[i]);
        }
    }
    vr_link_remove(&grant->link);
    vr_mem_free(grant->parts);
    vr_mem_free(grant->pieces);
    vr_mem_free(grant->net_keys);
    vr_mem_free(grant->near_keys);
    vr_mem_free(grant);
}

vram_status vr_grant_get(struct vr_peer *peer, const struct vr_remote_key *key,
                         struct vr_grant **out) {
    for (struct vr_link *link = vr_list_first(&peer->grants); link;
         link = vr_list_next(&peer->grants, link)) {
        struct vr_grant *grant = VR_CONTAINER(link, struct vr_grant, link);
        if (grant->key.region != key->region) {
            continue;
        }
        if (grant->key.secret[0] != key->secret[0] || grant->key.secret[1] != key->secret[1]) {
            return vr_fail(VRAM_ERR_INVALID, "the token's key is not the region's");
        }
        if (grant->revoked) {
            return vr_fail(VRAM_ERR_STALE, "the other process has closed the region");
        }
        grant->users++;
        *out = grant;
        return VRAM_OK;
    }
    struct vr_grant *grant = vr_mem_alloc(1, sizeof *grant, vr_operation());
    if (!grant) {
        return VRAM_ERR_HOST_MEMORY;
    }
    grant->key = *key;
    grant->op = ++peer->remote->next_op;
    grant->users = 1;
    vr_list_append(&peer->grants, &grant->link);
    vr_mail_send(peer, (struct vr_message){.type = VR_REMOTE_OPEN,
                                           .op = grant->op,
                                           .key = *key,
                                           .value = peer->near_worker != NULL});
    *out = grant;
    return VRAM_OK;
}

/* Lets go of a region that was revoked and is not used any more. */
static void grant_settle(struct vr_peer *peer, struct vr_grant *grant) {
    if (grant->revoked && !grant->users) {
        vr_mail_send(peer, (struct vr_message){.type = VR_REMOTE_RELEASE, .key = grant->key});
        grant_free(grant);
    }
}

void vr_grant_put(struct vr_peer *peer, struct vr_grant *grant) {
    grant->users--;
    grant_settle(peer, grant);
}

void vr_grant_revoked(struct vr_peer *peer, uint64_t region) {
    struct vr_link *link = vr_list_first(&peer->grants);
    while (link) {
        struct vr_grant *grant = VR_CONTAINER(link, struct vr_grant, link);
        link = vr_list_next(&peer->grants, link);
        if (grant->key.region == region) {
            grant->revoked = true;
            grant_settle(peer, grant);
        }
    }
}

void vr_grants_end(struct vr_peer *peer) {
    struct vr_link *link;
    while ((link = vr_list_first(&peer->grants)) != NULL) {
        grant_free(VR_CONTAINER(link, struct vr_grant, link));
    }
}

/* --------------------------------------------------------------------- table */

/* Reads parts and pieces; false: they make no sense. */
static bool places_read(struct vr_grant *grant, struct vr_cursor *cursor) {
    uint64_t piece = 0;
    for (uint32_t i = 0; i < grant->part_count; i++) {
        struct vr_grant_part *part = &grant->parts[i];
        part->bytes = vr_cursor_take(cursor);
        uint64_t count = vr_cursor_take(cursor);
        part->first = (uint32_t)piece;
        part->count = (uint32_t)count;
        if (count > grant->piece_count - piece || part->bytes == 0) {
            return false;
        }
        piece += count;
    }
    if (piece != grant->piece_count) {
        return false;
    }
    for (uint32_t i = 0; i < grant->part_count; i++) {
        const struct vr_grant_part *part = &grant->parts[i];
        uint64_t left = part->bytes;
        for (uint32_t j = part->first; j < part->first + part->count; j++) {
            uint64_t addr = vr_cursor_take(cursor), bytes = vr_cursor_take(cursor);
            uint64_t key = vr_cursor_take(cursor);
            if (bytes == 0 || bytes > left || addr + bytes < addr || key >= grant->key_count) {
                return false;
            }
            left -= bytes;
            grant->pieces[j] = (struct vr_grant_piece){addr, bytes, (uint32_t)key};
        }
        if (!grant->served && left) {
            return false;
        }
    }
    return !cursor->overrun;
}

/* Unpacks a key, whose bytes are copied to where UCX may read past a damaged one's end. */
static bool key_unpack(ucp_ep_h ep, struct vr_cursor *cursor, uint64_t bytes, ucp_rkey_h *key) {
    uint8_t copy[VR_REMOTE_RKEY_MAX + 256] = {0};
    const uint8_t *from = bytes <= VR_REMOTE_RKEY_MAX ? vr_cursor_take_bytes(cursor, bytes) : NULL;
    if (!from) {
        return false;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        copy[i] = from[i];
    }
    if (ep && vr_ucx.ep_rkey_unpack(ep, copy, key) != UCS_OK) {
        *key = NULL;
    }
    return true;
}

static bool keys_read(struct vr_peer *peer, struct vr_grant *grant, struct vr_cursor *cursor) {
    for (uint32_t i = 0; i < grant->key_count; i++) {
        uint64_t net = vr_cursor_take(cursor), near = vr_cursor_take(cursor);
        ucp_ep_h in_place = peer->remote->flags & VRAM_REMOTE_IN_PLACE ? peer->ep : NULL;
        if ((net && !key_unpack(in_place, cursor, net, &grant->net_keys[i])) ||
            (near && !key_unpack(peer->near_ep, cursor, near, &grant->near_keys[i]))) {
            return false;
        }
    }
    return !cursor->overrun && cursor->at + cursor->bytes == cursor->end;
}

static vram_status table_read(struct vr_peer *peer, struct vr_grant *grant, const uint8_t *table,
                              size_t bytes) {
    struct vr_cursor cursor = {.at = (uint8_t *)(uintptr_t)table, .end = table + bytes};
    uint64_t flags = vr_cursor_take(&cursor), parts = vr_cursor_take(&cursor);
    uint64_t pieces = vr_cursor_take(&cursor), keys = vr_cursor_take(&cursor);
    if (cursor.overrun || parts == 0 || parts > bytes / 16 || pieces > bytes / 24 ||
        keys > bytes / 16 || 16 * parts + 24 * pieces + 16 * keys > bytes) {
        return VRAM_ERR_CORRUPT; /* nothing is allocated for more than there is */
    }
    grant->served = flags & TABLE_SERVED;
    grant->read_only = flags & TABLE_READ_ONLY;
    grant->part_count = (uint32_t)parts;
    grant->piece_count = (uint32_t)pieces;
    grant->key_count = (uint32_t)keys;
    grant->parts = vr_mem_alloc(parts, sizeof *grant->parts, vr_operation());
    grant->pieces = vr_mem_alloc(pieces + 1, sizeof *grant->pieces, vr_operation());
    grant->net_keys = vr_mem_alloc(keys + 1, sizeof(ucp_rkey_h), vr_operation());
    grant->near_keys = vr_mem_alloc(keys + 1, sizeof(ucp_rkey_h), vr_operation());
    if (!grant->parts || !grant->pieces || !grant->net_keys || !grant->near_keys) {
        return VRAM_ERR_HOST_MEMORY;
    }
    return places_read(grant, &cursor) && keys_read(peer, grant, &cursor) ? VRAM_OK
                                                                          : VRAM_ERR_CORRUPT;
}

/* Fails all transfers that wait for a grant, with the thread's error record. */
static void grant_fail(struct vr_peer *peer, struct vr_grant *grant, vram_status status) {
    struct vr_link *link = vr_list_first(&peer->transfers);
    while (link) {
        struct vr_transfer *transfer = VR_CONTAINER(link, struct vr_transfer, link);
        link = vr_list_next(&peer->transfers, link);
        if (transfer->grant == grant) {
            transfer->grant = NULL;
            vr_transfer_fail(transfer, status);
        }
    }
    grant_free(grant);
}

/* Contents that came by rendezvous are fetched first. */
struct table_fetch {
    struct vr_peer *peer;
    uint64_t op;
    size_t bytes;
    uint8_t table[];
};

static void grant_use(struct vr_peer *peer, uint64_t op, vram_status status, const uint8_t *table,
                      size_t bytes) {
    struct vr_grant *grant = NULL;
    for (struct vr_link *link = vr_list_first(&peer->grants); link && !grant;
         link = vr_list_next(&peer->grants, link)) {
        struct vr_grant *at = VR_CONTAINER(link, struct vr_grant, link);
        grant = at->op == op && !at->ready ? at : NULL;
    }
    if (!grant) {
        vr_mail_refuse(peer, "a region that was not asked for");
        return;
    }
    if (status == VRAM_OK) {
        status = table_read(peer, grant, table, bytes);
        if (status == VRAM_ERR_CORRUPT) {
            vr_mail_refuse(peer, "a table of a region that makes no sense");
            return;
        }
    }
    if (status != VRAM_OK) {
        (void)vr_fail(status, status == VRAM_ERR_STALE ? "the other process has closed the region"
                              : status == VRAM_ERR_INVALID
                                  ? "the token names no region of the other process"
                                  : "the other process cannot open the region");
        grant_fail(peer, grant, status);
        return;
    }
    grant->ready = true;
    peer->remote->busy = true;
}

/* Called by UCX, after which the thread may use the table: it is in its progress. */
static void table_fetched(void *request, ucs_status_t code, size_t bytes, void *user) {
    struct table_fetch *fetch = user;
    struct vr_peer *peer = fetch->peer;
    (void)bytes;
    peer->requests--;
    if (code == UCS_OK && peer->state != VR_PEER_BROKEN) {
        grant_use(peer, fetch->op, VRAM_OK, fetch->table, fetch->bytes);
    }
    vr_mem_free(fetch);
    if (request) {
        vr_ucx.request_free(request);
    }
}

void vr_grant_opened(struct vr_peer *peer, struct vr_mail *mail) {
    if (!mail->desc || mail->desc_is_data) {
        grant_use(peer, mail->message.op, mail->message.status, mail->desc, mail->bytes);
        return;
    }
    struct table_fetch *fetch = vr_mem_alloc(1, sizeof *fetch + mail->bytes, vr_operation());
    if (!fetch) {
        return; /* transfers that wait meet their deadline */
    }
    *fetch = (struct table_fetch){peer, mail->message.op, mail->bytes};
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.recv_am = table_fetched,
                                 .user_data = fetch};
    peer->requests++;
    ucs_status_ptr_t request = vr_ucx.am_recv_data_nbx(peer->remote->net.worker, mail->desc,
                                                       fetch->table, mail->bytes, &param);
    mail->desc = NULL;
    if (!UCS_PTR_IS_PTR(request)) {
        table_fetched(NULL, UCS_PTR_STATUS(request), mail->bytes, fetch);
    }
}
