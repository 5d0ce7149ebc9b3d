/* SPDX-License-Identifier: Apache-2.0 */
/* share_server.c: starting and ending servers, their loop and their slots. See share_server.h. */
#include "share/share_server.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <string.h>

static struct vr_list servers; /* struct vr_share_server.link */
static bool servers_listed;    /* the list and the fork handler were set up */

#define HURRY_NS  UINT64_C(50000)      /* between two looks at marks that are pending */
#define IDLE_NS   UINT64_C(1000000000) /* longest wait */
#define SETTLE_NS UINT64_C(10000000)   /* between two wakes of a thread that is waited for */
#define BREATH_NS UINT64_C(20000000)   /* wait after the system refused a connection */

static void connection_drop(struct vr_share_server *server, struct vr_connection *connection) {
    vr_mutex_lock(&vr_share_lock);
    vr_link_remove(&connection->link);
    server->connection_count--;
    vr_mutex_unlock(&vr_share_lock);
    vr_connection_free(connection);
}

/* --------------------------------------------------------------------- forks */

/* In the child, which has one thread; keeps (4). */
static void servers_forget(void) {
    for (struct vr_link *link = vr_list_first(&servers); link;
         link = vr_list_next(&servers, link)) {
        struct vr_share_server *server = VR_CONTAINER(link, struct vr_share_server, link);
        if (server->process == vr_os_process_generation()) {
            continue;
        }
        vr_os_file_close(server->listener);
        vr_os_event_close(server->wake[0]);
        vr_os_event_close(server->wake[1]);
        for (struct vr_link *at = vr_list_first(&server->connections); at;
             at = vr_list_next(&server->connections, at)) {
            vr_os_file_close(VR_CONTAINER(at, struct vr_connection, link)->fd);
        }
    }
    vr_list_init(&servers);
    vr_kept_forget();
}

/* Without the handler a child keeps sockets open until it ends. That is not worth a failure. */
static void servers_start(void) {
    struct vram_error error;
    if (!servers_listed) {
        vr_list_init(&servers);
        vr_error_save(&error);
        (void)vr_os_at_fork(NULL, NULL, servers_forget);
        vr_error_restore(&error);
        servers_listed = true;
    }
}

/* ---------------------------------------------------------------------- loop */

/* Whether a user may open any of the exports. Any other could connect, too: a socket is open to all
   once an export names a user. */
static bool user_is_known(struct vr_share_server *server, uint32_t user) {
    bool known = user == vr_os_user();
    vr_mutex_lock(&vr_share_lock);
    for (uint32_t i = 0; i < server->slot_count && !known; i++) {
        const struct vr_share *share = server->slots[i];
        known = share && share->export_state.user_allowed && share->export_state.user == user;
    }
    vr_mutex_unlock(&vr_share_lock);
    return known;
}

static bool connection_accept(struct vr_share_server *server) {
    int fd;
    vram_status status = vr_os_socket_accept(server->listener, &fd);
    if (status == VRAM_ERR_LIMIT && vr_kept_close_all()) {
        vr_error_clear();
        status = vr_os_socket_accept(server->listener, &fd);
    }
    if (status != VRAM_OK) {
        return false;
    }
    struct vr_os_peer peer;
    status = vr_os_socket_peer(fd, &peer);
    if (status == VRAM_OK && !user_is_known(server, peer.user)) {
        status = VRAM_ERR_BUSY; /* and takes no place from those who are */
    }
    struct vr_connection *connection =
        status == VRAM_OK ? vr_mem_alloc(1, sizeof *connection, "vram_share_export") : NULL;
    if (!connection) {
        uint8_t refusal[VR_WIRE_HEADER_BYTES];
        size_t sent;
        vr_refusal_write(refusal, status == VRAM_OK ? VRAM_ERR_HOST_MEMORY : status);
        (void)vr_os_socket_send(fd, refusal, sizeof refusal, NULL, 0, &sent);
        vr_os_file_close(fd);
        return true;
    }
    connection->fd = fd;
    connection->peer = peer;
    connection->deadline = vr_deadline_in(VR_READER_NS);
    vr_mutex_lock(&vr_share_lock);
    vr_list_append(&server->connections, &connection->link);
    server->connection_count++;
    vr_mutex_unlock(&vr_share_lock);
    return true;
}

/* Serves one connection and drops it when it is over. */
static void connection_step(struct vr_share_server *server, struct vr_connection *connection) {
    bool timed =
        connection->state == VR_CONNECTION_ASKING || connection->state == VR_CONNECTION_ANSWERING;
    if (connection->state != VR_CONNECTION_OVER) {
        vr_connection_serve(server, connection);
    }
    if (timed && connection->state != VR_CONNECTION_READING &&
        vr_clock_now() >= connection->deadline) {
        connection->state = VR_CONNECTION_OVER; /* keeps (1) */
    }
    if (connection->state == VR_CONNECTION_OVER) {
        connection_drop(server, connection);
    }
}

/* Raises the timelines of all exports; returns whether marks are left. */
static bool timelines_advance(struct vr_share_server *server) {
    bool left = false;
    vr_mutex_lock(&vr_share_lock);
    bool none = !server->marks;
    vr_mutex_unlock(&vr_share_lock);
    if (none) {
        return false;
    }
    for (uint32_t i = 0;; i++) {
        struct vr_share *share = NULL;
        vr_mutex_lock(&vr_share_lock);
        bool end = i >= server->slot_count;
        if (!end && server->slots[i] && server->slots[i]->export_state.marks &&
            vr_handle_try_ref(server->slots[i]->object.handle)) {
            share = server->slots[i];
        }
        vr_mutex_unlock(&vr_share_lock);
        if (share) {
            left |= vr_timeline_advance(share);
            vr_handle_unpin(share->object.handle);
        }
        if (end) {
            return left;
        }
    }
}

/* What to wait for: the event, the listener, the connections. Returns their number. */
static uint32_t polls_write(struct vr_share_server *server, struct vr_os_poll *polls, bool accept) {
    uint32_t count = 2;
    polls[0] = (struct vr_os_poll){.fd = server->wake[0], .read = true};
    bool room = accept && server->connection_count < VR_CONNECTIONS_MAX;
    polls[1] = (struct vr_os_poll){.fd = room ? server->listener : -1, .read = true};
    for (struct vr_link *link = vr_list_first(&server->connections); link;
         link = vr_list_next(&server->connections, link)) {
        const struct vr_connection *connection = VR_CONTAINER(link, struct vr_connection, link);
        polls[count++] = (struct vr_os_poll){
            .fd = connection->fd,
            .read = true,
            .write = connection->state == VR_CONNECTION_ANSWERING,
        };
    }
    return count;
}

/* The thread alone changes the list of connections, so it may walk it without the lock. */
static void connections_serve(struct vr_share_server *server, const struct vr_os_poll *polls) {
    uint32_t at = 2;
    struct vr_link *link = vr_list_first(&server->connections);
    while (link) {
        struct vr_connection *connection = VR_CONTAINER(link, struct vr_connection, link);
        link = vr_list_next(&server->connections, link);
        bool ready = polls[at].readable || polls[at].writable;
        at++;
        if (ready || (connection->state != VR_CONNECTION_READING &&
                      vr_clock_now() >= connection->deadline)) {
            connection_step(server, connection);
        }
    }
}

static bool server_is_needed(struct vr_share_server *server) {
    vr_mutex_lock(&vr_share_lock);
    bool needed = server->export_count != 0;
    vr_mutex_unlock(&vr_share_lock);
    return needed;
}

/* Called with the lock, which it releases; keeps (5). */
static void server_leave_unlock(struct vr_share_server *server) {
    bool last = --server->users == 0;
    vr_mutex_unlock(&vr_share_lock);
    if (last) {
        vr_cond_destroy(&server->changed);
        vr_mem_free(server->slots);
        vr_mem_free(server);
    }
}

/* Takes back what server_open made, with the list's lock not held. */
static void server_close(struct vr_share_server *server) {
    vr_os_folder_remove(server->path);
    vr_os_file_close(server->listener);
    vr_os_event_close(server->wake[0]);
    vr_os_event_close(server->wake[1]);
}

static void turn_end(struct vr_share_server *server) {
    vr_mutex_lock(&vr_share_lock);
    server->turns++;
    vr_cond_broadcast(&server->changed);
    vr_mutex_unlock(&vr_share_lock);
}

static void server_run(void *argument) {
    VR_OPERATION("vram_share_export");
    struct vr_share_server *server = argument;
    struct vr_os_poll polls[VR_CONNECTIONS_MAX + 2];
    bool accept = true, marks = false, unprepared = false;
    vr_mutex_lock(&vr_share_lock);
    server->thread_number = vr_os_thread_number();
    vr_mutex_unlock(&vr_share_lock);
    while (server_is_needed(server)) {
        uint32_t count = polls_write(server, polls, accept);
        vr_os_poll(polls, count, unprepared ? 0 : marks ? HURRY_NS : accept ? IDLE_NS : BREATH_NS);
        if (polls[0].readable) {
            vr_os_event_clear(server->wake[0]);
        }
        connections_serve(server, polls);
        accept = true;
        if (polls[1].readable) {
            vr_error_clear();
            while (server->connection_count < VR_CONNECTIONS_MAX && connection_accept(server)) {
            }
            accept = vr_error_get()->status == VRAM_OK;
        }
        marks = timelines_advance(server);
        unprepared = vr_kept_prepare(server);
        turn_end(server);
    }
    vr_mutex_lock(&vr_share_lock);
    server->closed = true;
    vr_mutex_unlock(&vr_share_lock);
    struct vr_link *link;
    while ((link = vr_list_first(&server->connections))) {
        connection_drop(server, VR_CONTAINER(link, struct vr_connection, link));
    }
    server_close(server);
    vr_mutex_lock(&vr_share_lock);
    vr_link_remove(&server->link);
    server->running = false;
    vr_cond_broadcast(&server->changed);
    server_leave_unlock(server);
}

/* ----------------------------------------------------------- starting, ending */

static vram_status server_open(struct vr_share_server *server) {
    int lock;
    vram_status status = vr_os_random(server->name, sizeof server->name);
    if (status != VRAM_OK ||
        (status = vr_runtime_dir_lock(server->dir, vr_deadline_in(VR_SHARE_TIMEOUT_NS), &lock)) !=
            VRAM_OK) {
        return status;
    }
    vr_share_dir_sweep(server->dir);
    vr_share_socket_path(server->dir, server->name, server->path);
    status = vr_os_socket_listen(server->path, &server->listener);
    vr_os_file_close(lock);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_os_event_open(server->wake);
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        vr_os_folder_remove(server->path);
        vr_os_file_close(server->listener);
        vr_error_restore(&error);
    }
    return status;
}

static vram_status server_make(const char *dir, struct vr_share_server **out) {
    struct vr_share_server *server = vr_mem_alloc(1, sizeof *server, vr_operation());
    if (!server) {
        return VRAM_ERR_HOST_MEMORY;
    }
    memcpy(server->dir, dir, strlen(dir) + 1);
    server->process = vr_os_process_generation();
    server->users = 1;
    vr_list_init(&server->connections);
    vram_status status = vr_cond_init(&server->changed);
    if (status != VRAM_OK) {
        vr_mem_free(server);
        return status;
    }
    status = server_open(server);
    if (status != VRAM_OK) {
        vr_cond_destroy(&server->changed);
        vr_mem_free(server);
        return status;
    }
    *out = server;
    return VRAM_OK;
}

/* The running server of that directory that still has an export; NULL: none. Under the lock. */
static struct vr_share_server *server_find(const char *dir) {
    for (struct vr_link *link = vr_list_first(&servers); link;
         link = vr_list_next(&servers, link)) {
        struct vr_share_server *server = VR_CONTAINER(link, struct vr_share_server, link);
        if (server->export_count && strcmp(server->dir, dir) == 0) {
            return server;
        }
    }
    return NULL;
}

/* Puts an export into a slot. Under the lock. */
static vram_status slot_take(struct vr_share_server *server, struct vr_share *share) {
    uint32_t slot = 0;
    while (slot < server->slot_count && server->slots[slot]) {
        slot++;
    }
    if (slot == server->slot_count) {
        uint32_t count = slot ? slot * 2 : 8;
        struct vr_share **larger =
            vr_mem_resize(server->slots, count, sizeof(struct vr_share *), vr_operation());
        if (!larger) {
            return VRAM_ERR_HOST_MEMORY;
        }
        memset(larger + slot, 0, (count - slot) * sizeof(struct vr_share *));
        server->slots = larger;
        server->slot_count = count;
    }
    server->slots[slot] = share;
    server->export_count++;
    server->users++;
    share->export_state.server = server;
    share->export_state.ticket.slot = slot;
    memcpy(share->export_state.ticket.server, server->name, sizeof server->name);
    share->export_state.ticket.server[1] &= UINT32_MAX; /* as in the path */
    return VRAM_OK;
}

/* Adds the first export to a new server and starts its thread. */
static vram_status server_start(struct vr_share_server *server, struct vr_share *share) {
    vr_mutex_lock(&vr_share_lock);
    vram_status status = slot_take(server, share);
    if (status == VRAM_OK) {
        server->running = true;
        status = vr_os_thread_start(&server->thread, "vram-share", server_run, server);
        server->running = status == VRAM_OK;
    }
    if (status == VRAM_OK) {
        vr_os_thread_detach(&server->thread);
        vr_list_append(&servers, &server->link);
    }
    vr_mutex_unlock(&vr_share_lock);
    return status;
}

vram_status vr_share_serve(struct vr_share *share, const char *dir) {
    struct vr_share_server *made = NULL;
    struct vr_share_ticket *ticket = &share->export_state.ticket;
    vram_status status = vr_os_random(ticket->key, sizeof ticket->key);
    ticket->boot = vr_os_boot();
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&vr_share_lock);
    servers_start();
    struct vr_share_server *server = server_find(dir);
    status = server ? slot_take(server, share) : VRAM_OK;
    vr_mutex_unlock(&vr_share_lock);
    if (!server) { /* two threads may make one each: both work, by their own sockets */
        status = server_make(dir, &made);
        if (status == VRAM_ERR_LIMIT && vr_kept_close_all()) {
            status = server_make(dir, &made);
        }
        if (status != VRAM_OK) {
            return status;
        }
        server = made;
        status = server_start(made, share);
    }
    if (status == VRAM_OK && share->export_state.user_allowed) {
        status = vr_os_socket_admit(server->path);
        if (status != VRAM_OK) {
            struct vram_error error;
            vr_error_save(&error);
            vr_share_unserve(share);
            vr_error_restore(&error);
        }
    } else if (status != VRAM_OK && made) {
        struct vram_error error;
        vr_error_save(&error);
        server_close(made);
        vr_mutex_lock(&vr_share_lock);
        server_leave_unlock(made);
        vr_error_restore(&error);
    }
    return status;
}

void vr_share_unserve(struct vr_share *share) {
    struct vr_share_server *server = share->export_state.server;
    vr_mutex_lock(&vr_share_lock);
    server->slots[share->export_state.ticket.slot] = NULL;
    bool last = --server->export_count == 0;
    if (last) { /* no export finds it any more, and vr_share_settle waits for its end */
        vr_os_event_send(server->wake[1]);
    }
    if (last && server->thread_number != vr_os_thread_number()) {
        while (server->running) {
            (void)vr_cond_wait(&server->changed, &vr_share_lock, IDLE_NS);
        }
    }
    vr_mutex_unlock(&vr_share_lock);
}

void vr_share_prepare(struct vr_share *share) {
    struct vr_share_server *server = share->export_state.server;
    vr_mutex_lock(&vr_share_lock);
    server->unprepared = share->export_state.ready = true;
    vr_share_wake(server);
    vr_mutex_unlock(&vr_share_lock);
}

void vr_share_forget(struct vr_share *share) {
    if (share->export_state.server) {
        vr_mutex_lock(&vr_share_lock);
        server_leave_unlock(share->export_state.server);
    }
}

/* The server has seen all that happened before once it has ended the turn that it is in, and one
   more. One without exports left is waited for until it has ended. Called with the lock, which it
   releases. */
static void server_settle_unlock(struct vr_share_server *server) {
    uint64_t turns = server->turns + 2;
    server->users++;
    while (server->running && (server->turns < turns || !server->export_count)) {
        vr_share_wake(server);
        (void)vr_cond_wait(&server->changed, &vr_share_lock, SETTLE_NS);
    }
    server_leave_unlock(server);
}

void vr_share_settle(void) {
    struct vr_share_server *last = NULL;
    for (;;) {
        vr_mutex_lock(&vr_share_lock);
        servers_start();
        struct vr_link *first = vr_list_first(&servers), *link = first;
        while (link && last && VR_CONTAINER(link, struct vr_share_server, link) != last) {
            link = vr_list_next(&servers, link);
        }
        /* One that has ended meanwhile is not listed any more: then it begins again. */
        link = link && last ? vr_list_next(&servers, link) : first;
        last = link ? VR_CONTAINER(link, struct vr_share_server, link) : NULL;
        if (!last || last->thread_number == vr_os_thread_number()) {
            vr_mutex_unlock(&vr_share_lock);
            return;
        }
        server_settle_unlock(last);
    }
}

/* ------------------------------------------------------------------- lookups */

uint32_t vr_share_readers(const struct vr_share *share, uint64_t *readers, uint32_t most) {
    struct vr_share_server *server = share->export_state.server;
    uint32_t count = 0;
    for (struct vr_link *link = vr_list_first(&server->connections); link && count < most;
         link = vr_list_next(&server->connections, link)) {
        const struct vr_connection *connection = VR_CONTAINER(link, struct vr_connection, link);
        if (connection->share == share) {
            readers[count++] = connection->peer.process;
        }
    }
    return count;
}
