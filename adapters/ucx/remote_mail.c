/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_mail.c: messages in both directions. All messages are active messages of one number, whose
 * header is a vr_message. What arrives is checked as far as a message alone can be, and put in a
 * list; the thread's loop then does what it asks for. Keeps (5).
 */
#include "adapters/ucx/remote_object.h"

#include "base/error.h"
#include "base/memory.h"

/* ------------------------------------------------------------------- sending */

/* A message until UCX has sent it. */
struct note {
    struct vr_peer *peer;
    void *data;
    uint8_t header[VR_REMOTE_MESSAGE_BYTES];
};

static void note_free(struct note *note) {
    vr_mem_free(note->data);
    vr_mem_free(note);
}

static void note_sent(void *request, ucs_status_t status, void *user) {
    struct note *note = user;
    (void)status; /* a failure is the endpoint's, which UCX reports */
    note->peer->requests--;
    note_free(note);
    vr_ucx.request_free(request);
}

void vr_mail_send_data(struct vr_peer *peer, struct vr_message message, void *data, size_t bytes) {
    struct note *note = vr_mem_alloc(1, sizeof *note, vr_operation());
    if (!note) {
        vr_mem_free(data);
        peer->failed = true; /* an answer is missing: the other process must not wait for it */
        vr_error_save(&peer->why);
        return;
    }
    *note = (struct note){.peer = peer, .data = data};
    message.version = VR_REMOTE_VERSION;
    message.session = peer->other_session;
    vr_message_write(&message, note->header);
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags =
            message.type == VR_REMOTE_HELLO ? UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY : 0,
        .cb.send = note_sent,
        .user_data = note};
    peer->requests++;
    ucs_status_ptr_t request = vr_ucx.am_send_nbx(peer->ep, VR_REMOTE_MESSAGE_ID, note->header,
                                                  sizeof note->header, data, bytes, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        peer->requests--;
        note_free(note);
        if (UCS_PTR_IS_ERR(request) && !peer->failed) {
            (void)vr_ucx_fail(UCS_PTR_STATUS(request), "ucp_am_send_nbx");
            vr_error_save(&peer->why);
            peer->failed = true;
        }
    }
}

void vr_mail_send(struct vr_peer *peer, struct vr_message message) {
    if (peer->state != VR_PEER_BROKEN) {
        vr_mail_send_data(peer, message, NULL, 0);
    }
}

/* ----------------------------------------------------------------- receiving */

/* Which messages may have data, and how much. */
static bool length_is_good(const struct vr_message *message, size_t bytes) {
    switch (message->type) {
    case VR_REMOTE_HELLO:
        return bytes <= VRAM_REMOTE_ADDRESS_MAX && bytes == 8 * message->part;
    case VR_REMOTE_OPENED:
        return bytes <= VR_REMOTE_TABLE_MAX && (bytes > 0) == (message->status == VRAM_OK);
    case VR_REMOTE_WRITE:
        return bytes > 0 && bytes == message->bytes;
    case VR_REMOTE_DATA:
        return message->status == VRAM_OK ? bytes > 0 && bytes == message->bytes : bytes == 0;
    default:
        return bytes == 0;
    }
}

static ucs_status_t mail_arrives(void *argument, const void *header, size_t header_bytes,
                                 void *data, size_t bytes, const ucp_am_recv_param_t *param) {
    struct vr_remote *remote = argument;
    struct vr_message message;
    bool rendezvous = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    bool keeps = rendezvous || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA);
    if (!vr_message_read(header, header_bytes, &message) || !length_is_good(&message, bytes) ||
        (message.version != VR_REMOTE_VERSION && message.type != VR_REMOTE_HELLO) ||
        (message.type == VR_REMOTE_HELLO && rendezvous) || (bytes && !keeps) ||
        (message.type != VR_REMOTE_HELLO && !vr_peer_find(remote, message.session))) {
        vr_fetch_add(&remote->refused, 1, VR_RELAXED);
        return rendezvous ? UCS_ERR_INVALID_PARAM : UCS_OK;
    }
    struct vr_mail *mail = vr_mem_alloc(1, sizeof *mail, vr_operation());
    if (!mail) {
        return rendezvous ? UCS_ERR_NO_MEMORY : UCS_OK; /* who sent it meets its deadline */
    }
    mail->message = message;
    mail->bytes = bytes;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        mail->from = param->reply_ep;
    }
    if (bytes) {
        mail->desc = data;
        mail->desc_is_data = !rendezvous;
    }
    vr_list_append(&remote->mail, &mail->link);
    remote->busy = true;
    return bytes ? UCS_INPROGRESS : UCS_OK;
}

vram_status vr_mail_open(struct vr_remote *remote) {
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = VR_REMOTE_MESSAGE_ID,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = mail_arrives,
        .arg = remote};
    ucs_status_t code = vr_ucx.worker_set_am_recv_handler(remote->net.worker, &param);
    return code == UCS_OK ? VRAM_OK : vr_ucx_fail(code, "ucp_worker_set_am_recv_handler");
}

void vr_mail_free(struct vr_remote *remote, struct vr_mail *mail) {
    if (mail->desc) {
        vr_ucx.am_data_release(remote->net.worker, mail->desc);
    }
    vr_mem_free(mail);
}

void vr_mail_refuse(struct vr_peer *peer, const char *what) {
    vr_fetch_add(&peer->remote->refused, 1, VR_RELAXED);
    if (!peer->failed) {
        (void)vr_fail(VRAM_ERR_CORRUPT, "the other process sent %s", what);
        vr_error_save(&peer->why);
        peer->failed = true; /* the loop breaks it; keeps (5) */
    }
}

/* Only who connected may ask, and only who was asked may answer. */
static bool direction_is_good(const struct vr_peer *peer, uint16_t type) {
    bool answer = type == VR_REMOTE_WELCOME || type == VR_REMOTE_OPENED ||
                  type == VR_REMOTE_REACHED || type == VR_REMOTE_DONE || type == VR_REMOTE_DATA ||
                  type == VR_REMOTE_REVOKE;
    return answer == (peer->object.handle != 0);
}

static void mail_deliver(struct vr_peer *peer, struct vr_mail *mail) {
    if (!direction_is_good(peer, mail->message.type)) {
        vr_mail_refuse(peer, "a message in the wrong direction");
        return;
    }
    switch (mail->message.type) {
    case VR_REMOTE_WELCOME:
        vr_peer_welcome(peer, &mail->message);
        break;
    case VR_REMOTE_OPENED:
        vr_grant_opened(peer, mail);
        break;
    case VR_REMOTE_REACHED:
    case VR_REMOTE_DONE:
        vr_transfer_answer(peer, &mail->message);
        break;
    case VR_REMOTE_DATA:
        vr_chunk_data(peer, mail);
        break;
    case VR_REMOTE_REVOKE:
        vr_grant_revoked(peer, mail->message.key.region);
        break;
    default:
        vr_serve_mail(peer, mail);
    }
}

/* Who takes over the contents of a message sets its `desc` to NULL. */
void vr_mail_step(struct vr_remote *remote) {
    struct vr_link *link;
    while ((link = vr_list_first(&remote->mail)) != NULL) {
        struct vr_mail *mail = VR_CONTAINER(link, struct vr_mail, link);
        vr_link_remove(link);
        if (mail->message.type == VR_REMOTE_HELLO) {
            vr_peer_hello(remote, mail);
        } else {
            struct vr_peer *peer = vr_peer_find(remote, mail->message.session);
            if (peer) {
                mail_deliver(peer, mail);
            }
        }
        vr_mail_free(remote, mail);
    }
}
