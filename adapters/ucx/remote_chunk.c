/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_chunk.c: pieces of transfers, and of requests that this process serves. Several chunks are
 * under way at once, so that copies to and from the device run while the network is busy.
 *
 *     to the network:    [SLOT] [COPY_IN]  NET             END
 *     from the network:  [SLOT]            NET [COPY_OUT]  END      [ ]: memory needs a slot
 */
#include "adapters/ucx/remote_object.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <string.h>

/* ----------------------------------------------------------------- callbacks */

void vr_chunk_sent(void *request, ucs_status_t status, void *user) {
    struct vr_chunk *chunk = user;
    chunk->net_done = true;
    chunk->net_status = status;
    chunk->peer->requests--;
    chunk->peer->remote->busy = true;
    vr_ucx.request_free(request);
}

void vr_chunk_received(void *request, ucs_status_t status, size_t bytes, void *user) {
    struct vr_chunk *chunk = user;
    vr_chunk_sent(request,
                  status == UCS_OK && bytes != chunk->bytes ? UCS_ERR_MESSAGE_TRUNCATED : status,
                  user);
}

void vr_chunk_request(struct vr_chunk *chunk, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request)) {
        chunk->peer->requests++;
    } else {
        chunk->peer->remote->busy = true; /* the next turn of the loop ends it */
        chunk->net_done = true;
        chunk->net_status = UCS_PTR_STATUS(request);
    }
}

/* ------------------------------------------------------------------- network */

static ucp_request_param_t chunk_param(struct vr_chunk *chunk) {
    return (ucp_request_param_t){.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = vr_chunk_sent,
                                 .user_data = chunk};
}

static uint8_t *chunk_memory(const struct vr_chunk *chunk) {
    return chunk->host ? chunk->host : chunk->slot->memory;
}

/* In place: shared memory if the piece has it, otherwise the network. */
static void chunk_access(struct vr_chunk *chunk) {
    struct vr_peer *peer = chunk->peer;
    struct vr_transfer *transfer = chunk->transfer;
    const struct vr_grant *grant = transfer->grant;
    ucp_request_param_t param = chunk_param(chunk);
    ucp_rkey_h near = grant->near_keys[chunk->piece->key];
    ucp_rkey_h key = near ? near : grant->net_keys[chunk->piece->key];
    ucp_ep_h ep = near ? peer->near_ep : peer->ep;
    uint64_t at = chunk->piece->addr + chunk->piece_offset;
    *(near ? &transfer->shared : &transfer->direct) += chunk->bytes;
    vr_chunk_request(chunk,
                     chunk->to_network
                         ? vr_ucx.put_nbx(ep, chunk_memory(chunk), chunk->bytes, at, key, &param)
                         : vr_ucx.get_nbx(ep, chunk_memory(chunk), chunk->bytes, at, key, &param));
}

/* Sends the contents with a message: WRITE to the owner of a region, DATA to who asked. */
static void chunk_send(struct vr_chunk *chunk) {
    struct vr_peer *peer = chunk->peer;
    struct vr_message message = {.version = VR_REMOTE_VERSION,
                                 .type = chunk->transfer ? VR_REMOTE_WRITE : VR_REMOTE_DATA,
                                 .session = peer->other_session,
                                 .op = chunk->op,
                                 .part = chunk->part,
                                 .offset = chunk->offset,
                                 .bytes = chunk->bytes};
    if (chunk->transfer) {
        message.key = chunk->transfer->key;
        chunk->transfer->served += chunk->bytes;
    }
    vr_message_write(&message, chunk->header);
    ucp_request_param_t param = chunk_param(chunk);
    vr_chunk_request(chunk, vr_ucx.am_send_nbx(peer->ep, VR_REMOTE_MESSAGE_ID, chunk->header,
                                               sizeof chunk->header, chunk_memory(chunk),
                                               chunk->bytes, &param));
}

/* Receives contents that have arrived with a message. */
static void chunk_receive(struct vr_chunk *chunk) {
    ucp_worker_h worker = chunk->peer->remote->net.worker;
    void *desc = chunk->desc;
    chunk->desc = NULL;
    if (chunk->desc_is_data) {
        memcpy(chunk_memory(chunk), desc, chunk->bytes);
        vr_ucx.am_data_release(worker, desc);
        chunk->peer->remote->busy = true;
        chunk->net_done = true;
        chunk->net_status = UCS_OK;
        return;
    }
    ucp_request_param_t param = chunk_param(chunk);
    param.cb.recv_am = vr_chunk_received;
    vr_chunk_request(
        chunk, vr_ucx.am_recv_data_nbx(worker, desc, chunk_memory(chunk), chunk->bytes, &param));
}

static void chunk_network(struct vr_chunk *chunk) {
    chunk->stage = VR_CHUNK_NET;
    chunk->answered = true;
    if (chunk->peer->state == VR_PEER_BROKEN) {
        chunk->net_done = true;
        chunk->net_status = UCS_ERR_CANCELED;
    } else if (chunk->piece) {
        chunk_access(chunk);
    } else if (chunk->to_network) {
        chunk_send(chunk);
    } else if (chunk->desc) {
        chunk_receive(chunk);
    } else {
        assert(chunk->transfer); /* a peer's chunk has a piece, is sent, or came with its bytes */
        chunk->answered = false; /* DATA comes */
        chunk->transfer->served += chunk->bytes;
        vr_mail_send(chunk->peer, (struct vr_message){.type = VR_REMOTE_READ,
                                                      .op = chunk->op,
                                                      .key = chunk->transfer->key,
                                                      .part = chunk->part,
                                                      .offset = chunk->offset,
                                                      .bytes = chunk->bytes});
    }
}

void vr_chunk_data(struct vr_peer *peer, struct vr_mail *mail) {
    for (struct vr_link *link = vr_list_first(&peer->chunks); link;
         link = vr_list_next(&peer->chunks, link)) {
        struct vr_chunk *chunk = VR_CONTAINER(link, struct vr_chunk, link);
        if (chunk->op != mail->message.op || chunk->stage != VR_CHUNK_NET || chunk->answered) {
            continue;
        }
        if (mail->message.status != VRAM_OK) {
            chunk->status = mail->message.status;
            chunk->answered = chunk->net_done = true;
            (void)vr_fail(chunk->status, "the other process answers: %s",
                          vram_status_text(chunk->status));
            vr_transfer_fail(chunk->transfer, chunk->status);
        } else if (mail->bytes != chunk->bytes) {
            vr_mail_refuse(peer, "contents of another size than asked for");
        } else {
            chunk->answered = true;
            chunk->desc = mail->desc;
            chunk->desc_is_data = mail->desc_is_data;
            mail->desc = NULL;
            chunk_receive(chunk);
        }
        peer->remote->busy = true;
        return;
    }
    /* Otherwise the transfer has ended meanwhile, and the contents are dropped. */
}

/* -------------------------------------------------------------------- stages */

static void chunk_fail(struct vr_chunk *chunk, vram_status status) {
    chunk->status = chunk->status == VRAM_OK ? status : chunk->status;
    chunk->stage = VR_CHUNK_END;
    if (chunk->transfer) {
        vr_transfer_fail(chunk->transfer, status);
    }
}

/* Begins a copy between the slot and the device. */
static void chunk_copy(struct vr_chunk *chunk, enum vr_chunk_stage stage) {
    struct vr_remote *remote = chunk->peer->remote;
    vram_status status = stage == VR_CHUNK_COPY_IN
                             ? vram_transfer_download(remote->queue, chunk->slot->memory,
                                                      chunk->addr, chunk->bytes, NULL, &chunk->copy)
                             : vram_transfer_upload(remote->queue, chunk->addr, chunk->slot->memory,
                                                    chunk->bytes, NULL, &chunk->copy);
    vr_fetch_add(&remote->staged_bytes, chunk->bytes, VR_RELAXED);
    chunk->stage = stage;
    if (status != VRAM_OK) {
        chunk_fail(chunk, status);
    }
}

static void step_slot(struct vr_chunk *chunk) {
    vram_status status;
    chunk->slot = vr_remote_slot_take(chunk->peer->remote, &status);
    if (status != VRAM_OK) {
        chunk_fail(chunk, status);
    } else if (chunk->slot) {
        chunk->peer->remote->busy = true;
        if (chunk->to_network) {
            chunk_copy(chunk, VR_CHUNK_COPY_IN);
        } else {
            chunk_network(chunk);
        }
    }
}

static void step_copy(struct vr_chunk *chunk) {
    vram_status status = vram_async_poll(&chunk->copy);
    if (status == VRAM_ERR_NOT_READY) {
        vr_remote_wake_in(chunk->peer->remote, VR_REMOTE_POLL_NS);
        return;
    }
    (void)vram_async_end(&chunk->copy);
    chunk->peer->remote->busy = true;
    if (status != VRAM_OK) {
        chunk_fail(chunk, status);
    } else if (chunk->stage == VR_CHUNK_COPY_IN) {
        chunk_network(chunk);
    } else {
        chunk->stage = VR_CHUNK_END;
    }
}

static void step_network(struct vr_chunk *chunk) {
    bool over = chunk->transfer && chunk->transfer->stage == VR_TRANSFER_OVER;
    if (!chunk->net_done) {
        if (!chunk->answered && (over || chunk->peer->state == VR_PEER_BROKEN)) {
            chunk->stage = VR_CHUNK_END; /* UCX does not know its memory */
        }
        return;
    }
    bool good = chunk->status == VRAM_OK;
    if (good && chunk->net_status != UCS_OK) {
        chunk_fail(chunk, vr_ucx_fail(chunk->net_status, "ucp_put_nbx"));
    } else if (good && !chunk->to_network && !chunk->host && !over) {
        chunk_copy(chunk, VR_CHUNK_COPY_OUT);
    } else {
        chunk->stage = VR_CHUNK_END;
    }
}

static void chunk_end(struct vr_chunk *chunk) {
    struct vr_peer *peer = chunk->peer;
    vr_link_remove(&chunk->link);
    vr_remote_slot_give(peer->remote, chunk->slot);
    if (chunk->desc) {
        vr_ucx.am_data_release(peer->remote->net.worker, chunk->desc);
    }
    if (chunk->transfer) {
        chunk->transfer->chunks--;
        peer->moving--;
    } else {
        vr_serve_landed(chunk);
    }
    peer->remote->busy = true;
    vr_mem_free(chunk);
}

void vr_chunk_start(struct vr_chunk *chunk) {
    if (!chunk->host) {
        chunk->stage = VR_CHUNK_SLOT;
        step_slot(chunk);
    } else {
        chunk_network(chunk);
    }
}

void vr_chunks_step(struct vr_peer *peer) {
    struct vr_link *link = vr_list_first(&peer->chunks);
    if (link && peer->near_worker) {
        (void)vr_ucx.worker_progress(peer->near_worker);
    }
    while (link) {
        struct vr_chunk *chunk = VR_CONTAINER(link, struct vr_chunk, link);
        link = vr_list_next(&peer->chunks, link);
        bool over = peer->state == VR_PEER_BROKEN ||
                    (chunk->transfer && chunk->transfer->stage == VR_TRANSFER_OVER);
        if (chunk->stage == VR_CHUNK_SLOT && over) {
            chunk->stage = VR_CHUNK_END;
            chunk->status = VRAM_ERR_IO;
        } else if (chunk->stage == VR_CHUNK_SLOT) {
            step_slot(chunk);
        } else if (chunk->stage == VR_CHUNK_NET) {
            step_network(chunk);
        } else if (chunk->stage != VR_CHUNK_END) {
            step_copy(chunk);
        }
        if (chunk->stage == VR_CHUNK_END) {
            chunk_end(chunk);
        }
    }
}

/* ------------------------------------------------------------- of a transfer */

/* The piece of the region at `offset` of the part, and how much of it follows. */
static uint64_t piece_find(const struct vr_grant *grant, uint32_t number, uint64_t offset,
                           struct vr_chunk *chunk) {
    const struct vr_grant_part *part = &grant->parts[number];
    const struct vr_grant_piece *piece = &grant->pieces[part->first];
    while (offset >= piece->bytes) { /* bounds_check has found the offset inside */
        offset -= piece->bytes;
        piece++;
    }
    chunk->piece = piece;
    chunk->piece_offset = offset;
    return piece->bytes - offset;
}

/* Whether a piece is accessed in place: in shared memory, or if both sides have asked for it. Where
   the network has no such access, UCX sends messages for gets and small puts: they are served. */
static bool access_in_place(const struct vr_transfer *transfer, const struct vr_grant_piece *piece,
                            uint64_t bytes) {
    return transfer->grant->near_keys[piece->key] ||
           (transfer->put && bytes >= VR_REMOTE_DIRECT_BYTES &&
            transfer->grant->net_keys[piece->key]);
}

bool vr_chunk_next(struct vr_transfer *transfer) {
    struct vr_peer *peer = transfer->peer;
    while (transfer->at < transfer->count &&
           transfer->offset == transfer->copies[transfer->at].copy.bytes) {
        transfer->at++;
        transfer->offset = 0;
    }
    if (transfer->at == transfer->count || peer->moving >= VR_REMOTE_WINDOW ||
        peer->state != VR_PEER_READY) {
        return false;
    }
    struct vr_local *local = &transfer->copies[transfer->at];
    struct vr_chunk *chunk = vr_mem_alloc(1, sizeof *chunk, vr_operation());
    if (!chunk) {
        vr_transfer_fail(transfer, VRAM_ERR_HOST_MEMORY);
        return false;
    }
    uint64_t left = local->copy.bytes - transfer->offset;
    uint64_t bytes = left < peer->chunk_bytes ? left : peer->chunk_bytes;
    *chunk = (struct vr_chunk){.peer = peer,
                               .transfer = transfer,
                               .to_network = transfer->put,
                               .addr = local->copy.addr + transfer->offset,
                               .host = local->host ? local->host + transfer->offset : NULL,
                               .part = local->copy.part,
                               .offset = local->copy.offset + transfer->offset,
                               .op = transfer->put ? transfer->op : ++peer->remote->next_op};
    if (!transfer->grant->served) {
        uint64_t in_piece = piece_find(transfer->grant, local->copy.part, chunk->offset, chunk);
        bytes = bytes < in_piece ? bytes : in_piece;
        if (!access_in_place(transfer, chunk->piece, bytes)) {
            chunk->piece = NULL;
        }
    }
    chunk->bytes = bytes;
    transfer->offset += bytes;
    transfer->chunks++;
    peer->moving++;
    peer->remote->busy = true;
    vr_list_append(&peer->chunks, &chunk->link);
    vr_chunk_start(chunk);
    if (chunk->stage == VR_CHUNK_NET) {
        step_network(chunk); /* shared memory is written by now */
    }
    if (chunk->stage == VR_CHUNK_END) {
        chunk_end(chunk);
    }
    return true;
}
