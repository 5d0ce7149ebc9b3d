/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_peer.c: connections. A peer that the program opens asks; a peer that another process
 * opened to this one (it came with a HELLO) is served. Both are records of the same kind.
 *
 * A connection ends in this order: `state` is BROKEN, its transfers fail, the endpoint is closed
 * by force, UCX calls back for all requests, and then the record goes. Keeps (4).
 */
#include "adapters/ucx/remote_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>

enum {
    ABANDONED_MAX = 64,      /* connections that a HELLO lists */
    CLOSE_WAIT_NS = 20000000 /* for UCX to close an endpoint before its socket is reset */
};

/* ------------------------------------------------------------------ sessions */

/* A session is random; its low 16 bits are the place in the table. */
static vram_status session_make(struct vr_peer *peer) {
    struct vr_remote *remote = peer->remote;
    uint32_t at = 0;
    while (at < remote->session_count && remote->sessions[at]) {
        at++;
    }
    if (at == VR_REMOTE_SESSIONS_MAX) {
        return vr_fail(VRAM_ERR_LIMIT, "there are %d connections already", VR_REMOTE_SESSIONS_MAX);
    }
    if (at == remote->session_count) {
        uint32_t count = at ? 2 * at : 16;
        struct vr_peer **more = vr_mem_alloc(count, sizeof *more, vr_operation());
        if (!more) {
            return VRAM_ERR_HOST_MEMORY;
        }
        if (at) {
            memcpy(more, remote->sessions, at * sizeof *more);
        }
        vr_mem_free(remote->sessions);
        remote->sessions = more;
        remote->session_count = count;
    }
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) {
        return vr_fail(VRAM_ERR_IO, "the system has no random numbers");
    }
    peer->session = (number & ~(uint64_t)0xffff) | at;
    remote->sessions[at] = peer;
    return VRAM_OK;
}

struct vr_peer *vr_peer_find(struct vr_remote *remote, uint64_t session) {
    uint64_t at = session & 0xffff;
    struct vr_peer *peer = at < remote->session_count ? remote->sessions[at] : NULL;
    return peer && peer->session == session && peer->state != VR_PEER_BROKEN ? peer : NULL;
}

/* ------------------------------------------------------------------- records */

static void peer_free(void *memory) {
    struct vr_peer *peer = memory;
    struct vr_remote *remote = peer->remote;
    vr_mem_free(peer->old);
    vr_mem_free(peer->address);
    vr_mem_free(peer);
    vr_leave(remote);
}

static struct vr_peer *peer_make(struct vr_remote *remote) {
    struct vr_peer *peer = vr_mem_alloc(1, sizeof *peer, vr_operation());
    if (!peer) {
        return NULL;
    }
    struct vr_list *lists[] = {&peer->transfers, &peer->chunks, &peer->grants, &peer->holders,
                               &peer->serves};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        vr_list_init(lists[i]);
    }
    vr_handle_ref(remote->object.handle); /* keeps (3) */
    peer->remote = remote;
    peer->object.process = vr_os_process_generation();
    return peer;
}

/* Keeps (5). */
static void peer_failed(void *argument, ucp_ep_h ep, ucs_status_t status) {
    struct vr_peer *peer = argument;
    (void)ep;
    if (!peer->failed) {
        peer->failed = true;
        (void)vr_ucx_fail(status, "ucp_ep");
        vr_error_save(&peer->why);
    }
}

/* Opens the endpoint of a peer with a session, and lists the peer. UCX has taken the request of a
   connection then, also when it fails. */
static vram_status peer_connect(struct vr_peer *peer, ucp_ep_params_t *params) {
    params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params->err_handler = (ucp_err_handler_t){.cb = peer_failed, .arg = peer};
    ucs_status_t code = vr_ucx.ep_create(peer->remote->net.worker, params, &peer->ep);
    if (code != UCS_OK) {
        peer->ep = NULL;
        peer->remote->sessions[peer->session & 0xffff] = NULL;
        return vr_ucx_fail(code, "ucp_ep_create");
    }
    vr_list_append(&peer->remote->peers, &peer->link);
    vr_fetch_add(&peer->remote->peer_count, 1, VR_RELAXED);
    return VRAM_OK;
}

/* Shared memory with the peer, if it is on this machine. A worker of its own: an endpoint without
   error handling cannot be closed by force, but its worker can be destroyed. */
static void near_connect(struct vr_peer *peer, const struct vr_remote_address *address) {
    struct vr_remote *remote = peer->remote;
    ucp_worker_params_t kind = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                              .address = (const ucp_address_t *)address->near};
    if (!remote->near.worker || !address->near_bytes ||
        vr_ucx.worker_create(remote->near.context, &kind, &peer->near_worker) != UCS_OK) {
        peer->near_worker = NULL;
        return;
    }
    if (vr_ucx.ep_create(peer->near_worker, &params, &peer->near_ep) != UCS_OK) {
        vr_ucx.worker_destroy(peer->near_worker);
        peer->near_worker = NULL;
    }
}

/* -------------------------------------------------------------------- ending */

static void close_done(void *request, ucs_status_t status, void *user) {
    struct vr_peer *peer = user;
    (void)status;
    peer->closed = true;
    vr_ucx.request_free(request);
}

/* Remembers a connection that ends before the other process knows. The oldest are forgotten: who
   breaks so many without a success in between has lost more than their bytes. */
static void peer_abandon(struct vr_peer *peer) {
    struct vr_remote_address address;
    struct vr_abandoned *abandoned = vr_mem_alloc(1, sizeof *abandoned, vr_operation());
    if (abandoned && vr_address_read(peer->address, peer->address_bytes, &address) == VRAM_OK) {
        abandoned->secret = address.secret[0];
        abandoned->session = peer->other_session;
        vr_list_append(&peer->remote->abandoned, &abandoned->link);
    } else {
        vr_mem_free(abandoned);
    }
}

/* The sessions of this process that were abandoned; writes at most `most`. With `forgets`, they
   are forgotten. */
static uint32_t abandoned_list(struct vr_remote *remote, uint64_t secret, uint64_t *sessions,
                               bool forgets) {
    uint32_t count = 0;
    struct vr_link *link = vr_list_first(&remote->abandoned);
    while (link) {
        struct vr_abandoned *at = VR_CONTAINER(link, struct vr_abandoned, link);
        link = vr_list_next(&remote->abandoned, link);
        if (at->secret == secret && forgets) {
            vr_link_remove(&at->link);
            vr_mem_free(at);
        } else if (at->secret == secret && count < ABANDONED_MAX) {
            sessions[count++] = at->session;
        }
    }
    return count;
}

void vr_peer_break(struct vr_peer *peer) {
    if (peer->state == VR_PEER_BROKEN) {
        return;
    }
    if (!peer->failed) {
        vr_error_save(&peer->why);
    }
    if (peer->object.handle && peer->state == VR_PEER_READY) {
        peer_abandon(peer);
    }
    peer->state = VR_PEER_BROKEN;
    peer->deadline = vr_deadline_in(CLOSE_WAIT_NS);
    peer->remote->busy = true;
    if (peer->opening) {
        vr_error_restore(&peer->why);
        vr_command_end(peer->remote, peer->opening, peer->why.status);
        peer->opening = NULL;
        peer->forgotten = true;
    }
    vr_transfers_fail(peer);
    vr_serves_end(peer);
    struct vr_link *link;
    while ((link = vr_list_first(&peer->holders)) != NULL) {
        vr_holder_end(VR_CONTAINER(link, struct vr_holder, link));
    }
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE,
                                 .cb.send = close_done,
                                 .user_data = peer};
    ucs_status_ptr_t request = vr_ucx.ep_close_nbx(peer->ep, &param);
    peer->closed = !UCS_PTR_IS_PTR(request);
}

/* Resets the connection of a broken peer that UCX does not let go of. */
static void peer_hurry(struct vr_peer *peer) {
    struct vr_remote_address address;
    if (peer->object.handle && (!peer->closed || peer->requests) &&
        vr_deadline_passed(peer->deadline) &&
        vr_address_read(peer->address, peer->address_bytes, &address) == VRAM_OK) {
        vr_sockets_reset(peer->remote->event_fd, address.net);
        peer->deadline = vr_deadline_in(CLOSE_WAIT_NS); /* again, should that not help */
    }
}

/* Frees a broken peer once UCX has let go and the program has closed it; false: not yet. */
static bool peer_gone(struct vr_peer *peer) {
    struct vr_remote *remote = peer->remote;
    if (peer->state != VR_PEER_BROKEN || !peer->closed || peer->requests ||
        !vr_list_empty(&peer->chunks) || !vr_list_empty(&peer->transfers)) {
        return false;
    }
    vr_grants_end(peer);
    if (peer->near_worker) {
        vr_ucx.worker_destroy(peer->near_worker);
        peer->near_worker = NULL;
    }
    if (!peer->forgotten) {
        return true; /* until the program closes it */
    }
    remote->sessions[peer->session & 0xffff] = NULL;
    vr_link_remove(&peer->link);
    vr_fetch_sub(&remote->peer_count, 1, VR_RELAXED);
    if (peer->object.handle) {
        vr_handle_unpin(peer->object.handle); /* the owner's */
    } else {
        peer_free(peer);
    }
    return true;
}

/* ----------------------------------------------------------- hello, welcome */

/* Bytes of a broken connection may still be in the network, and would be written over newer ones.
   So before a peer is welcome, what it lists as broken is closed on this side, too. */
static bool old_are_closed(const struct vr_peer *peer) {
    const struct vr_remote *remote = peer->remote;
    bool closed = true;
    for (uint32_t i = 0; i < peer->old_count; i++) {
        uint64_t at = peer->old[i] & 0xffff;
        struct vr_peer *old = at < remote->session_count ? remote->sessions[at] : NULL;
        if (old && old != peer && old->session == peer->old[i] && !old->object.handle) {
            (void)vr_fail(VRAM_ERR_IO, "the other process has given up this connection");
            vr_peer_break(old);
            closed = closed && old->closed && !old->requests;
        }
    }
    return closed;
}

static void welcome_send(struct vr_peer *peer) {
    if (!peer->old || !old_are_closed(peer)) {
        return; /* no HELLO yet */
    }
    peer->state = VR_PEER_READY;
    vr_mail_send(peer, (struct vr_message){.type = VR_REMOTE_WELCOME,
                                           .status = peer->welcome,
                                           .value = peer->session,
                                           .bytes = peer->chunk_bytes});
    if (peer->welcome != VRAM_OK) {
        vr_fetch_add(&peer->remote->refused, 1, VR_RELAXED);
        peer->session ^= UINT64_C(1) << 63; /* nothing from it is taken; the other side hangs up */
    }
}

void vr_peer_arrives(ucp_conn_request_h request, void *argument) {
    struct vr_remote *remote = argument;
    struct vr_arrival *arrival = vr_mem_alloc(1, sizeof *arrival, vr_operation());
    if (!arrival) {
        (void)vr_ucx.listener_reject(remote->listener, request);
        return;
    }
    arrival->request = request;
    vr_list_append(&remote->arrivals, &arrival->link);
    remote->busy = true;
}

/* Accepts a connection; the peer must say HELLO in time. UCX watches the socket of a request that
   is neither accepted nor rejected for ever, with a pointer to the worker. */
static void arrival_accept(struct vr_remote *remote, struct vr_arrival *arrival) {
    struct vr_peer *peer = remote->ending ? NULL : peer_make(remote);
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST,
                              .conn_request = arrival->request};
    vram_status status = peer ? session_make(peer) : VRAM_ERR_SHUTDOWN;
    if (status != VRAM_OK) {
        (void)vr_ucx.listener_reject(remote->listener, arrival->request);
    } else {
        peer->forgotten = true;
        peer->deadline = vr_deadline_in(remote->timeout_ns);
        status = peer_connect(peer, &params);
    }
    if (peer && status != VRAM_OK) {
        peer_free(peer);
    }
}

void vr_peer_hello(struct vr_remote *remote, struct vr_mail *mail) {
    const struct vr_message *message = &mail->message;
    struct vr_peer *peer = NULL;
    for (struct vr_link *link = vr_list_first(&remote->peers); link && !peer;
         link = vr_list_next(&remote->peers, link)) {
        struct vr_peer *at = VR_CONTAINER(link, struct vr_peer, link);
        peer =
            at->ep == mail->from && at->state == VR_PEER_OPENING && !at->object.handle && !at->old
                ? at
                : NULL;
    }
    if (!peer || message->part > ABANDONED_MAX || message->bytes == 0) {
        vr_fetch_add(&remote->refused, 1, VR_RELAXED);
        return;
    }
    peer->old = vr_mem_alloc(message->part + 1, sizeof *peer->old, vr_operation());
    if (!peer->old) {
        return; /* the other process meets its deadline */
    }
    struct vr_cursor cursor = {.at = mail->desc, .end = (const uint8_t *)mail->desc + mail->bytes};
    while (peer->old_count < message->part) {
        peer->old[peer->old_count++] = vr_cursor_take(&cursor);
    }
    uint64_t differs =
        (message->key.secret[0] ^ remote->secret[0]) | (message->key.secret[1] ^ remote->secret[1]);
    peer->welcome = message->version != VR_REMOTE_VERSION ? VRAM_ERR_UNSUPPORTED
                    : differs                             ? VRAM_ERR_BUSY
                                                          : VRAM_OK;
    peer->old_count = peer->welcome == VRAM_OK ? peer->old_count : 0;
    peer->other_session = message->value;
    peer->chunk_bytes = message->bytes < remote->chunk_bytes ? message->bytes : remote->chunk_bytes;
}

void vr_peer_welcome(struct vr_peer *peer, const struct vr_message *message) {
    if (peer->state != VR_PEER_OPENING) {
        vr_mail_refuse(peer, "a second welcome");
        return;
    }
    if (message->status != VRAM_OK) {
        (void)vr_fail(message->status,
                      message->status == VRAM_ERR_UNSUPPORTED
                          ? "the other process speaks another version of the protocol"
                          : "the other process refuses: the address is not its own any more");
        vr_peer_break(peer);
        return;
    }
    if (message->bytes == 0 || message->bytes > peer->remote->chunk_bytes) {
        vr_mail_refuse(peer, "a size of chunks that was not offered");
        return;
    }
    struct vr_remote_address address;
    peer->other_session = message->value;
    peer->chunk_bytes = message->bytes;
    peer->state = VR_PEER_READY;
    if (vr_address_read(peer->address, peer->address_bytes, &address) == VRAM_OK) {
        (void)abandoned_list(peer->remote, address.secret[0], NULL, true);
        near_connect(peer, &address);
    }
    vr_command_end(peer->remote, peer->opening, VRAM_OK);
    peer->opening = NULL;
}

/* --------------------------------------------------------------------- steps */

void vr_peers_step(struct vr_remote *remote) {
    struct vr_link *link;
    while ((link = vr_list_first(&remote->arrivals)) != NULL) {
        struct vr_arrival *arrival = VR_CONTAINER(link, struct vr_arrival, link);
        vr_link_remove(link);
        arrival_accept(remote, arrival);
        vr_mem_free(arrival);
    }
    link = vr_list_first(&remote->peers);
    while (link) {
        struct vr_peer *peer = VR_CONTAINER(link, struct vr_peer, link);
        link = vr_list_next(&remote->peers, link);
        if (peer->failed) {
            vr_peer_break(peer);
        } else if (peer->state == VR_PEER_OPENING) {
            vr_remote_wake_in(remote, 1000000);
            if (vr_deadline_passed(peer->deadline)) {
                (void)vr_fail(VRAM_ERR_TIMEOUT, "the other process does not answer");
                vr_peer_break(peer);
            } else if (!peer->object.handle) {
                welcome_send(peer);
            }
        }
        vr_chunks_step(peer);
        vr_transfers_step(peer);
        vr_serves_step(peer);
        if (peer->state == VR_PEER_BROKEN && !peer_gone(peer)) {
            vr_remote_wake_in(remote, 1000000);
            peer_hurry(peer);
        }
    }
}

void vr_peers_end(struct vr_remote *remote) {
    for (struct vr_link *link = vr_list_first(&remote->peers); link;
         link = vr_list_next(&remote->peers, link)) {
        struct vr_peer *peer = VR_CONTAINER(link, struct vr_peer, link);
        (void)vr_fail(VRAM_ERR_SHUTDOWN, "the remote is being closed");
        vr_peer_break(peer);
        peer->forgotten = true;
        if (peer->object.handle) {
            (void)vr_handle_retire(peer->object.handle);
        }
    }
}

/* -------------------------------------------------------- the program's calls */

struct peer_command {
    struct vr_command command;
    struct vr_peer *peer;
};

static void open_run(struct vr_remote *remote, struct vr_command *command) {
    struct vr_peer *peer = ((struct peer_command *)command)->peer;
    struct vr_remote_address address;
    vram_status status = vr_address_read(peer->address, peer->address_bytes, &address);
    struct sockaddr_storage socket;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                              .sockaddr = {.addr = (const struct sockaddr *)&socket}};
    if (status == VRAM_OK && !vr_socket_read(address.net, address.net_bytes, &socket)) {
        status = vr_fail(VRAM_ERR_INVALID, "the address is damaged");
    }
    if (status == VRAM_OK) {
        params.sockaddr.addrlen =
            socket.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        status = session_make(peer);
    }
    if (status == VRAM_OK) {
        status = peer_connect(peer, &params);
    }
    if (status != VRAM_OK) {
        vr_command_end(remote, command, status);
        return;
    }
    vr_handle_ref(peer->object.handle); /* the list's; peer_gone drops it as the owner's */
    peer->opening = command;
    uint64_t old[ABANDONED_MAX];
    uint32_t count = abandoned_list(remote, address.secret[0], old, false);
    struct vr_cursor cursor = {.at = vr_mem_alloc(1, 8 * (size_t)count + 1, vr_operation())};
    if (!cursor.at) {
        vr_peer_break(peer);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        vr_cursor_number(&cursor, old[i]);
    }
    vr_mail_send_data(peer,
                      (struct vr_message){.type = VR_REMOTE_HELLO,
                                          .key.secret = {address.secret[0], address.secret[1]},
                                          .part = count,
                                          .bytes = remote->chunk_bytes,
                                          .value = peer->session},
                      cursor.at, cursor.bytes);
}

static vram_status peer_open(struct vr_remote *remote, const void *address, size_t bytes,
                             uint64_t timeout, vram_remote_peer **out) {
    struct vr_remote_address checked;
    vram_status status = vr_address_read(address, bytes, &checked);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_peer *peer = peer_make(remote);
    if (!peer) {
        return VRAM_ERR_HOST_MEMORY;
    }
    peer->address = vr_mem_alloc(1, bytes, vr_operation());
    peer->address_bytes = bytes;
    peer->deadline = vr_deadline_in(timeout ? timeout : remote->timeout_ns);
    status = peer->address
                 ? vr_handle_publish(VR_KIND_REMOTE_PEER, peer, peer_free, &peer->object.handle)
                 : VRAM_ERR_HOST_MEMORY;
    if (status != VRAM_OK) {
        peer_free(peer);
        return status;
    }
    memcpy(peer->address, address, bytes);
    uint64_t handle = peer->object.handle;
    struct peer_command open = {{.run = open_run}, peer};
    status = vr_remote_call(remote, &open.command);
    if (status == VRAM_OK) {
        *out = (vram_remote_peer *)(uintptr_t)handle;
    } else {
        (void)vr_handle_retire(handle);
    }
    vr_handle_unpin(handle); /* the list has its own */
    return status;
}

vram_status vram_remote_peer_open(vram_remote *handle, const void *address, size_t bytes,
                                  uint64_t timeout, vram_remote_peer **peer) {
    VR_CALL;
    void *remote;
    if (!peer) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the peer is NULL");
    }
    vram_status status = vr_enter(VR_KIND_REMOTE, handle, &remote);
    if (status == VRAM_OK) {
        status = peer_open(remote, address, bytes, timeout, peer);
        vr_leave(remote);
    }
    return status;
}

static void close_run(struct vr_remote *remote, struct vr_command *command) {
    struct vr_peer *peer = ((struct peer_command *)command)->peer;
    if (vr_link_linked(&peer->link)) {
        (void)vr_fail(VRAM_ERR_SHUTDOWN, "the peer was closed");
        vr_peer_break(peer);
        peer->forgotten = true;
    }
    vr_command_end(remote, command, VRAM_OK);
}

vram_status vram_remote_peer_close(vram_remote_peer *handle) {
    VR_CALL;
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_REMOTE_PEER, handle, &entered);
    if (!entered) {
        return status;
    }
    struct vr_peer *peer = entered;
    struct peer_command close = {{.run = close_run}, peer};
    if (vr_os_thread_number() == vr_load(&peer->remote->thread_number, VR_ACQUIRE)) {
        status = vr_fail(VRAM_ERR_BUSY, "a callback on the remote's own thread cannot close it");
    } else if (!vr_handle_retire(peer->object.handle)) {
        status = vr_fail(VRAM_ERR_STALE, "the peer is being closed already");
    } else {
        status = vr_remote_call(peer->remote, &close.command);
        status = status == VRAM_ERR_SHUTDOWN ? VRAM_OK : status; /* it ends with its remote */
    }
    vr_leave(peer);
    return status;
}
