/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_transfer.c: the calls put and get, and the life of a transfer:
 *
 *     POINT -> GRANT -> AWAIT -> MOVE -> FLUSH -> COMMIT -> OVER
 *                       gets with        puts over  puts
 *                       `after`          the network
 *
 * A failure goes to OVER from anywhere. A transfer in OVER is finished when it has no chunks and no
 * flush under way. Keeps (4).
 */
#include "adapters/ucx/remote_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/struct_tail.h"

/* ------------------------------------------------------------------ failures */

void vr_transfer_fail(struct vr_transfer *transfer, vram_status status) {
    if (transfer->error.status == VRAM_OK) {
        vr_error_save(&transfer->error);
        transfer->error.status = status;
    }
    transfer->stage = VR_TRANSFER_OVER;
    transfer->peer->remote->busy = true;
}

void vr_transfers_fail(struct vr_peer *peer) {
    for (struct vr_link *link = vr_list_first(&peer->transfers); link;
         link = vr_list_next(&peer->transfers, link)) {
        vr_error_restore(&peer->why);
        vr_transfer_fail(VR_CONTAINER(link, struct vr_transfer, link), peer->why.status);
    }
}

/* Whether UCX may use memory of the transfer. */
static bool transfer_on_network(const struct vr_transfer *transfer) {
    if (transfer->flushing) {
        return true;
    }
    const struct vr_peer *peer = transfer->peer;
    for (struct vr_link *link = vr_list_first(&peer->chunks); link;
         link = vr_list_next(&peer->chunks, link)) {
        const struct vr_chunk *chunk = VR_CONTAINER(link, struct vr_chunk, link);
        if (chunk->transfer == transfer && chunk->stage == VR_CHUNK_NET && !chunk->net_done &&
            chunk->answered) {
            return true;
        }
    }
    return false;
}

/* The deadline has passed. If the network still has the transfer's memory, only the end of the
   connection takes it back. */
static void transfer_timeout(struct vr_transfer *transfer) {
    struct vr_peer *peer = transfer->peer;
    static const char *const waits[] = {
        "for its queue",         "for the other process to open the region",
        "for the region's mark", "for the network",
        "for the network",       "for the other process to confirm"};
    bool on_network = transfer_on_network(transfer);
    if (transfer->stage == VR_TRANSFER_AWAIT || transfer->stage == VR_TRANSFER_COMMIT ||
        transfer->stage == VR_TRANSFER_MOVE) {
        vr_mail_send(peer, (struct vr_message){.type = VR_REMOTE_CANCEL, .op = transfer->op});
    }
    (void)vr_fail(VRAM_ERR_TIMEOUT, "the deadline passed; the transfer waited %s",
                  waits[transfer->stage]);
    vr_transfer_fail(transfer, VRAM_ERR_TIMEOUT);
    if (on_network) {
        (void)vr_fail(VRAM_ERR_IO, "the connection was closed, since a transfer on it passed its "
                                   "deadline; open the peer again");
        vr_peer_break(peer);
    }
}

/* -------------------------------------------------------------------- stages */

static void locals_unpin(struct vr_transfer *transfer) {
    struct vram_error error;
    vr_error_save(&error);
    for (size_t i = 0; i < transfer->count; i++) {
        if (transfer->copies[i].pinned) {
            (void)vram_unpin(transfer->copies[i].copy.addr);
        }
    }
    vr_error_restore(&error);
}

static void transfer_finish(struct vr_transfer *transfer) {
    struct vr_peer *peer = transfer->peer;
    struct vr_remote *remote = peer->remote;
    vram_status status = transfer->error.status;
    vr_link_remove(&transfer->link);
    if (transfer->grant) {
        vr_grant_put(peer, transfer->grant);
    }
    locals_unpin(transfer);
    if (status == VRAM_OK) {
        vr_fetch_add(transfer->put ? &remote->put_bytes : &remote->get_bytes, transfer->bytes,
                     VR_RELAXED);
        vr_fetch_add(&remote->shared_bytes, transfer->shared, VR_RELAXED);
        vr_fetch_add(&remote->direct_bytes, transfer->direct, VR_RELAXED);
        vr_fetch_add(&remote->served_bytes, transfer->served, VR_RELAXED);
    } else {
        vr_fetch_add(&remote->failures, 1, VR_RELAXED);
        vr_error_restore(&transfer->error);
    }
    (void)vram_async_finish(transfer->work, status);
    uint64_t handle = peer->object.handle;
    vr_mem_free(transfer);
    remote->busy = true;
    vr_handle_unpin(handle);
}

/* Bounds of the copies, now that the region is known. */
static vram_status bounds_check(const struct vr_transfer *transfer) {
    const struct vr_grant *grant = transfer->grant;
    if (transfer->put && grant->read_only) {
        return vr_fail(VRAM_ERR_INVALID, "the region is read-only");
    }
    for (size_t i = 0; i < transfer->count; i++) {
        const struct vram_remote_copy *copy = &transfer->copies[i].copy;
        if (copy->part >= grant->part_count) {
            return vr_fail(VRAM_ERR_INVALID, "the region has %u parts, and copy %zu names part %u",
                           grant->part_count, i, copy->part);
        }
        uint64_t bytes = grant->parts[copy->part].bytes;
        if (copy->offset > bytes || copy->bytes > bytes - copy->offset) {
            return vr_fail(VRAM_ERR_INVALID,
                           "copy %zu: %llu + %llu bytes reaches past part %u of %llu bytes", i,
                           (unsigned long long)copy->offset, (unsigned long long)copy->bytes,
                           copy->part, (unsigned long long)bytes);
        }
    }
    return VRAM_OK;
}

static void flush_done(void *request, ucs_status_t code, void *user) {
    struct vr_transfer *transfer = user;
    transfer->flushing = 0;
    transfer->peer->requests--;
    if (code != UCS_OK) {
        vr_transfer_fail(transfer, vr_ucx_fail(code, "ucp_ep_flush_nbx"));
    }
    vr_ucx.request_free(request);
}

static void flush_begin(struct vr_transfer *transfer) {
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = flush_done,
                                 .user_data = transfer};
    transfer->stage = VR_TRANSFER_FLUSH;
    transfer->peer->remote->busy = true;
    ucs_status_ptr_t request = vr_ucx.ep_flush_nbx(transfer->peer->ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        transfer->flushing = 1;
        transfer->peer->requests++;
    } else if (UCS_PTR_IS_ERR(request)) {
        vr_transfer_fail(transfer, vr_ucx_fail(UCS_PTR_STATUS(request), "ucp_ep_flush_nbx"));
    }
}

static void commit_send(struct vr_transfer *transfer) {
    transfer->stage = VR_TRANSFER_COMMIT;
    vr_mail_send(transfer->peer, (struct vr_message){.type = VR_REMOTE_COMMIT,
                                                     .op = transfer->op,
                                                     .key = transfer->key,
                                                     .bytes = transfer->served,
                                                     .value = transfer->mark});
}

static void step_point(struct vr_transfer *transfer) {
    vram_status status = vram_point_poll(transfer->point);
    if (status == VRAM_ERR_NOT_READY) {
        vr_remote_wake_in(transfer->peer->remote, VR_REMOTE_POLL_NS);
        return;
    }
    transfer->stage = VR_TRANSFER_GRANT;
    if (status == VRAM_OK) {
        status = vr_grant_get(transfer->peer, &transfer->key, &transfer->grant);
    }
    if (status != VRAM_OK) {
        vr_transfer_fail(transfer, status);
    }
    transfer->peer->remote->busy = true;
}

static void step_grant(struct vr_transfer *transfer) {
    if (!transfer->grant->ready) {
        return;
    }
    vram_status status = bounds_check(transfer);
    if (status != VRAM_OK) {
        vr_transfer_fail(transfer, status);
    } else if (transfer->after) {
        transfer->stage = VR_TRANSFER_AWAIT;
        vr_mail_send(transfer->peer, (struct vr_message){.type = VR_REMOTE_AWAIT,
                                                         .op = transfer->op,
                                                         .key = transfer->key,
                                                         .value = transfer->after});
    } else {
        transfer->stage = VR_TRANSFER_MOVE;
    }
    transfer->peer->remote->busy = true;
}

static void step_move(struct vr_transfer *transfer) {
    while (transfer->stage == VR_TRANSFER_MOVE && vr_chunk_next(transfer)) {
    }
    if (transfer->stage != VR_TRANSFER_MOVE || transfer->at < transfer->count || transfer->chunks) {
        return;
    }
    transfer->peer->remote->busy = true;
    if (!transfer->put || (transfer->shared == transfer->bytes && !transfer->mark)) {
        transfer->stage = VR_TRANSFER_OVER; /* shared memory needs no confirmation */
    } else if (transfer->direct) {
        flush_begin(transfer);
    } else {
        commit_send(transfer);
    }
}

static void transfer_step(struct vr_transfer *transfer) {
    switch (transfer->stage) {
    case VR_TRANSFER_POINT:
        step_point(transfer);
        break;
    case VR_TRANSFER_GRANT:
        step_grant(transfer);
        break;
    case VR_TRANSFER_MOVE:
        step_move(transfer);
        break;
    case VR_TRANSFER_FLUSH:
        if (!transfer->flushing) {
            commit_send(transfer);
        }
        break;
    default:
        break;
    }
}

void vr_transfers_step(struct vr_peer *peer) {
    struct vr_link *link = vr_list_first(&peer->transfers);
    if (!link) {
        return;
    }
    uint64_t now = vr_clock_now();
    while (link) {
        struct vr_transfer *transfer = VR_CONTAINER(link, struct vr_transfer, link);
        link = vr_list_next(&peer->transfers, link);
        if (transfer->stage != VR_TRANSFER_OVER && now >= transfer->deadline) {
            transfer_timeout(transfer);
        }
        enum vr_transfer_stage before = VR_TRANSFER_OVER;
        while (transfer->stage != VR_TRANSFER_OVER && transfer->stage != before) {
            before = transfer->stage;
            transfer_step(transfer);
        }
        if (transfer->stage == VR_TRANSFER_OVER && !transfer->chunks && !transfer->flushing) {
            transfer_finish(transfer);
        } else if (transfer->deadline > now) {
            vr_remote_wake_in(peer->remote, transfer->deadline - now);
        }
    }
}

void vr_transfer_answer(struct vr_peer *peer, const struct vr_message *message) {
    enum vr_transfer_stage stage =
        message->type == VR_REMOTE_DONE ? VR_TRANSFER_COMMIT : VR_TRANSFER_AWAIT;
    for (struct vr_link *link = vr_list_first(&peer->transfers); link;
         link = vr_list_next(&peer->transfers, link)) {
        struct vr_transfer *transfer = VR_CONTAINER(link, struct vr_transfer, link);
        if (transfer->op != message->op || transfer->stage != stage) {
            continue;
        }
        if (message->status != VRAM_OK) {
            (void)vr_fail(message->status, "the other process answers: %s",
                          vram_status_text(message->status));
            vr_transfer_fail(transfer, message->status);
        } else {
            transfer->stage = stage == VR_TRANSFER_COMMIT ? VR_TRANSFER_OVER : VR_TRANSFER_MOVE;
        }
        peer->remote->busy = true;
        return;
    }
    /* Otherwise it came after the deadline. */
}

/* ------------------------------------------------------------------ starting */

static void transfer_run(struct vr_remote *remote, struct vr_command *command) {
    struct vr_transfer *transfer = VR_CONTAINER(command, struct vr_transfer, command);
    struct vr_peer *peer = transfer->peer;
    (void)remote;
    vr_list_append(&peer->transfers, &transfer->link);
    transfer->op = ++remote->next_op;
    if (peer->state != VR_PEER_READY) {
        vr_error_restore(&peer->why);
        vr_transfer_fail(transfer, peer->why.status);
    }
    if (!vr_link_linked(&peer->link)) { /* it was closed: no step comes to it any more */
        transfer_finish(transfer);
    }
}

/* Finds the local memory of the copies and pins blocks; the others are the program's to keep. */
static vram_status locals_take(struct vr_remote *remote, struct vr_transfer *transfer,
                               const struct vram_remote_copy *copies) {
    struct vram_error error;
    for (size_t i = 0; i < transfer->count; i++) {
        struct vr_local *local = &transfer->copies[i];
        local->copy = copies[i];
        if (copies[i].bytes == 0) {
            continue;
        }
        if (transfer->bytes + copies[i].bytes < transfer->bytes) {
            return vr_fail(VRAM_ERR_OVERFLOW, "the copies have more than 2^64 bytes");
        }
        transfer->bytes += copies[i].bytes;
        vram_status status = vr_memory_find(remote, copies[i].addr, copies[i].bytes, &local->host);
        if (status != VRAM_OK) {
            return status;
        }
        vr_error_save(&error);
        local->pinned = vram_pin(copies[i].addr) == VRAM_OK;
        vr_error_restore(&error);
    }
    return VRAM_OK;
}

/* Starts a checked transfer; on failure the caller frees it. */
static vram_status transfer_start(struct vr_peer *peer, struct vr_transfer *transfer,
                                  const struct vram_remote_copy *copies, vram_queue *queue,
                                  vram_async *async) {
    vram_async started;
    vram_status status = locals_take(peer->remote, transfer, copies);
    if (status == VRAM_OK && queue) {
        status = vram_queue_mark(queue, &transfer->point);
    }
    if (status == VRAM_OK) {
        status = vram_async_begin(peer->remote->device, vr_operation(), transfer->bytes, &started,
                                  &transfer->work);
    }
    if (status != VRAM_OK) {
        locals_unpin(transfer);
        return status;
    }
    vram_async_work *work = transfer->work;
    vr_handle_ref(peer->object.handle);
    status = vr_remote_post(peer->remote, &transfer->command);
    if (status != VRAM_OK) {
        vr_handle_unpin(peer->object.handle);
        locals_unpin(transfer);
        (void)vram_async_finish(work, status);
        (void)vram_async_end(&started);
        return vr_fail(status, "the remote is being closed");
    }
    *async = started;
    return VRAM_OK;
}

static vram_status transfer_call(vram_remote_peer *handle, bool put, const vram_remote_token *token,
                                 const vram_remote_copy *copies, size_t count,
                                 const vram_remote_transfer *options, vram_async *async) {
    struct vram_remote_transfer taken;
    struct vr_remote_key key;
    void *entered;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK) {
        status = vr_token_read(token, &key);
    }
    if (status != VRAM_OK) {
        return status;
    }
    if (!async || !copies || count == 0 || count > VRAM_REMOTE_COPIES_MAX) {
        return !async || !copies
                   ? vr_fail(VRAM_ERR_INVALID, "the copies or the handle is NULL")
                   : vr_fail(VRAM_ERR_INVALID, "a transfer has 1 to %d copies, not %zu",
                             VRAM_REMOTE_COPIES_MAX, count);
    }
    if (put ? taken.after : taken.mark) {
        return vr_fail(VRAM_ERR_INVALID, "`after` is for gets, and `mark` for puts");
    }
    status = vr_enter(VR_KIND_REMOTE_PEER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_peer *peer = entered;
    struct vr_transfer *transfer =
        vr_mem_alloc(1, sizeof *transfer + count * sizeof *transfer->copies, vr_operation());
    status = transfer ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (transfer) {
        transfer->command.run = transfer_run;
        transfer->peer = peer;
        transfer->put = put;
        transfer->key = key;
        transfer->count = count;
        transfer->after = taken.after;
        transfer->mark = taken.mark;
        transfer->deadline =
            vr_deadline_in(taken.timeout_ns ? taken.timeout_ns : peer->remote->timeout_ns);
        status = transfer_start(peer, transfer, copies, taken.queue, async);
    }
    if (status != VRAM_OK) {
        vr_mem_free(transfer);
    }
    vr_leave(peer);
    return status;
}

vram_status vram_remote_put(vram_remote_peer *peer, const vram_remote_token *token,
                            const vram_remote_copy *copies, size_t count,
                            const vram_remote_transfer *options, vram_async *async) {
    VR_CALL;
    return transfer_call(peer, true, token, copies, count, options, async);
}

vram_status vram_remote_get(vram_remote_peer *peer, const vram_remote_token *token,
                            const vram_remote_copy *copies, size_t count,
                            const vram_remote_transfer *options, vram_async *async) {
    VR_CALL;
    return transfer_call(peer, false, token, copies, count, options, async);
}
