/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.c: the broker's loop. One thread serves all connections. Holders may be hostile: they may
 * send any bytes, none, or read nothing. A connection that breaks the protocol is closed; its
 * holder connects again, and says what it holds.
 *
 *  (1) A connection stands for its holder: when it ends, however it ends, the grant is free.
 *  (2) Nothing blocks: what a holder does not read yet waits in its connection's buffer, up to
 *      OUT_MOST bytes.
 *  (3) The socket's file is removed by an orderly end. A file that is left over means that the
 *      broker before was killed: then holders have RECOVER_NS to come back before anything is
 *      granted to others.
 */
#include "lease/broker.h"
#include "lease/broker_table.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/own_fd.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

enum { CONNECTIONS_MAX = 1024, OUT_MOST = 1 << 20 };

#define TURN_NS    UINT64_C(100000000)  /* longest wait between two questions whether to stop */
#define RECOVER_NS UINT64_C(300000000)  /* (3) */
#define FIRST_NS   UINT64_C(5000000000) /* for the first message of a connection */
#define LOCK_NS    UINT64_C(5000000000) /* for the lock of the directory */
#define BREATH_NS  UINT64_C(10000000)   /* pause when no connection can be accepted */

struct broker_connection {
    struct vr_link link;
    int fd;
    struct vr_os_peer peer;
    struct vr_lease_reader reader;
    struct vr_broker_lease *lease; /* NULL: none yet */
    uint64_t deadline;             /* for its first message, and for its last answer */
    uint8_t *out;                  /* waits to be sent */
    uint32_t out_bytes, out_capacity;
    bool closing; /* when `out` is sent */
    bool broken;  /* at once */
};

struct broker {
    const struct vr_broker_run *run;
    char path[VR_SOCKET_PATH_MAX];
    int listener;
    struct vr_list connections;
    uint32_t connection_count;
    struct vr_broker_table table;
};

void vr_broker_path(const char *dir, char path[VR_SOCKET_PATH_MAX]) {
    snprintf(path, VR_SOCKET_PATH_MAX, "%s/vram-b-%u", dir, vr_os_user());
}

/* --------------------------------------------------------------------- sending */

static void out_flush(struct broker_connection *connection) {
    size_t sent = 0;
    while (connection->out_bytes && !connection->broken) {
        vram_status status = vr_os_socket_send(connection->fd, connection->out,
                                               connection->out_bytes, NULL, 0, &sent);
        if (status == VRAM_ERR_NOT_READY) {
            return;
        }
        connection->broken = status != VRAM_OK;
        if (status == VRAM_OK) {
            connection->out_bytes -= (uint32_t)sent;
            memmove(connection->out, connection->out + sent, connection->out_bytes);
        }
    }
    connection->broken = connection->broken || connection->closing;
}

static void connection_put(struct broker_connection *connection,
                           const struct vr_lease_message *message) {
    uint32_t need = connection->out_bytes + VR_LEASE_MESSAGE_BYTES;
    if (need > connection->out_capacity) {
        uint32_t capacity = need < 4096 ? 4096 : need * 2;
        uint8_t *larger = capacity > OUT_MOST
                              ? NULL
                              : vr_mem_resize(connection->out, capacity, 1, vr_operation());
        if (!larger) { /* keeps (2) */
            connection->broken = true;
            return;
        }
        connection->out = larger;
        connection->out_capacity = capacity;
    }
    vr_lease_message_write(connection->out + connection->out_bytes, message);
    connection->out_bytes = need;
}

static void lease_send(struct vr_broker_lease *lease, const struct vr_lease_message *message) {
    struct broker_connection *connection = lease->user;
    connection_put(connection, message);
}

static void list_put(void *user, const struct vr_lease_message *message) {
    connection_put(user, message);
}

static void connection_refuse(struct broker_connection *connection, vram_status status) {
    connection_put(connection,
                   &(struct vr_lease_message){.type = VR_LEASE_REFUSED, .status = status});
    connection->closing = true;
}

/* ------------------------------------------------------------------- receiving */

static void open_take(struct broker *broker, struct broker_connection *connection,
                      const struct vr_lease_message *message) {
    struct vr_broker_lease *lease = NULL;
    vram_status status = vr_broker_open(&broker->table, message, connection->peer.process,
                                        connection, vr_clock_now(), &lease);
    if (status != VRAM_OK) {
        connection_refuse(connection, status);
        return;
    }
    connection->lease = lease;
    connection_put(connection,
                   &(struct vr_lease_message){.type = VR_LEASE_OPENED,
                                              .n = {lease->grant - message->n[2],
                                                    vr_os_process_id(), lease->device->capacity}});
}

static void message_take(struct broker *broker, struct broker_connection *connection,
                         const struct vr_lease_message *message) {
    if (message->version != VR_LEASE_VERSION) {
        connection_refuse(connection, VRAM_ERR_UNSUPPORTED);
    } else if (connection->lease) {
        bool good = vr_broker_take(&broker->table, connection->lease, message, vr_clock_now());
        connection->broken = connection->broken || !good; /* an answer may not have fitted */
    } else if (message->type == VR_LEASE_OPEN) {
        open_take(broker, connection, message);
    } else if (message->type == VR_LEASE_LIST) {
        vr_broker_list(&broker->table, vr_clock_now(), list_put, connection);
        connection->closing = true;
    } else {
        connection->broken = true;
    }
}

static void connection_read(struct broker *broker, struct broker_connection *connection) {
    struct vr_lease_message message;
    vram_status status = VRAM_OK;
    while (!connection->broken && !connection->closing &&
           (status = vr_lease_receive(&connection->reader, connection->fd, &message)) == VRAM_OK) {
        message_take(broker, connection, &message);
    }
    connection->broken = connection->broken || (status != VRAM_OK && status != VRAM_ERR_NOT_READY);
}

/* ----------------------------------------------------------------- connections */

/* Keeps (1). */
static void connection_end(struct broker *broker, struct broker_connection *connection) {
    if (connection->lease) {
        vr_broker_close(&broker->table, connection->lease, vr_clock_now());
    }
    vr_link_remove(&connection->link);
    broker->connection_count--;
    vr_own_fd_close(connection->fd);
    vr_mem_free(connection->out);
    vr_mem_free(connection);
}

/* False: no more are waiting, or none can be accepted now. */
static bool connection_accept(struct broker *broker) {
    int fd;
    if (vr_os_socket_accept(broker->listener, &fd) != VRAM_OK) {
        return false;
    }
    vr_own_fd_note(fd);
    struct broker_connection *connection = vr_mem_alloc(1, sizeof *connection, vr_operation());
    struct vr_os_peer peer;
    if (!connection || vr_os_socket_peer(fd, &peer) != VRAM_OK || peer.user != vr_os_user()) {
        vr_mem_free(connection);
        vr_own_fd_close(fd);
        return true;
    }
    connection->fd = fd;
    connection->peer = peer;
    connection->deadline = vr_deadline_in(FIRST_NS);
    vr_list_append(&broker->connections, &connection->link);
    broker->connection_count++;
    return true;
}

/* Sends what is waiting, and ends connections that are broken. Ending one may give others something
   to send, so it begins again until nothing changes. */
static void connections_settle(struct broker *broker) {
    uint64_t now = vr_clock_now();
    for (bool again = true; again;) {
        again = false;
        struct vr_link *link = vr_list_first(&broker->connections);
        while (link) {
            struct broker_connection *connection =
                VR_CONTAINER(link, struct broker_connection, link);
            link = vr_list_next(&broker->connections, link);
            out_flush(connection);
            bool late = (!connection->lease || connection->closing) && now >= connection->deadline;
            if (connection->broken || late) {
                connection_end(broker, connection);
                again = true;
                break;
            }
        }
    }
}

/* ------------------------------------------------------------------------ turns */

static uint32_t polls_write(const struct broker *broker, struct vr_os_poll *polls) {
    uint32_t count = 2;
    bool room = broker->connection_count < CONNECTIONS_MAX;
    polls[0] = (struct vr_os_poll){.fd = broker->run->wake, .read = true};
    polls[1] = (struct vr_os_poll){.fd = room ? broker->listener : -1, .read = true};
    for (struct vr_link *link = vr_list_first(&broker->connections); link;
         link = vr_list_next(&broker->connections, link)) {
        const struct broker_connection *connection =
            VR_CONTAINER(link, struct broker_connection, link);
        polls[count++] = (struct vr_os_poll){
            .fd = connection->fd, .read = !connection->closing, .write = connection->out_bytes};
    }
    return count;
}

/* Nothing is closed here, so the connections are those that were polled. */
static void connections_read(struct broker *broker, const struct vr_os_poll *polls) {
    uint32_t at = 2;
    for (struct vr_link *link = vr_list_first(&broker->connections); link;
         link = vr_list_next(&broker->connections, link), at++) {
        if (polls[at].readable) {
            connection_read(broker, VR_CONTAINER(link, struct broker_connection, link));
        }
    }
}

static void listener_read(struct broker *broker) {
    vr_error_clear();
    while (broker->connection_count < CONNECTIONS_MAX && connection_accept(broker)) {
    }
    if (vr_error_get()->status != VRAM_OK) {
        vr_os_sleep(BREATH_NS); /* no descriptors left, perhaps */
    }
}

static void broker_turns(struct broker *broker) {
    struct vr_os_poll polls[CONNECTIONS_MAX + 2];
    uint64_t used = vr_clock_now(), next = 0;
    while (!broker->run->stop(broker->run->user, broker->connection_count)) {
        uint64_t now = vr_clock_now();
        used = broker->connection_count ? now : used;
        if (now - used >= broker->run->idle_ns) {
            return;
        }
        uint32_t count = polls_write(broker, polls);
        vr_os_poll(polls, count, vr_smaller(TURN_NS, next > now ? next - now : 0));
        if (polls[0].readable) {
            vr_os_event_clear(broker->run->wake);
        }
        connections_read(broker, polls);
        if (polls[1].readable) {
            listener_read(broker);
        }
        next = vr_broker_tick(&broker->table, vr_clock_now());
        connections_settle(broker);
    }
}

/* ----------------------------------------------------------- beginning, ending */

/* Under the lock of the directory, so that of several brokers one listens. */
static vram_status broker_listen(struct broker *broker) {
    int lock, probe;
    vram_status status = vr_runtime_dir_lock(broker->run->dir, vr_deadline_in(LOCK_NS), &lock);
    if (status != VRAM_OK) {
        return status;
    }
    bool left = vr_os_socket_is_dead(broker->path);
    vram_status there = left ? VRAM_ERR_STALE : vr_os_socket_connect(broker->path, 0, &probe);
    if (left) {
        vr_os_folder_remove(broker->path);
        broker->table.ready_at = vr_deadline_in(RECOVER_NS); /* keeps (3) */
    }
    if (there == VRAM_OK) {
        vr_os_file_close(probe);
    }
    if (there == VRAM_ERR_STALE) {
        vr_error_clear();
        status = vr_os_socket_listen(broker->path, &broker->listener);
    } else { /* denied: another user's; no room in its line: a busy one */
        bool alive = there == VRAM_OK || there == VRAM_ERR_BUSY || there == VRAM_ERR_TIMEOUT;
        status =
            alive ? vr_fail(VRAM_ERR_BUSY, "there is a broker already: %s", broker->path) : there;
    }
    vr_os_file_close(lock);
    return status;
}

static void broker_close(struct broker *broker) {
    struct vr_link *link;
    int lock;
    vram_status status = vr_runtime_dir_lock(broker->run->dir, vr_deadline_in(LOCK_NS), &lock);
    vr_os_folder_remove(broker->path);
    vr_own_fd_close(broker->listener);
    if (status == VRAM_OK) {
        vr_os_file_close(lock);
    }
    broker->table.ready_at = UINT64_MAX; /* nobody is served any more */
    while ((link = vr_list_first(&broker->connections))) {
        connection_end(broker, VR_CONTAINER(link, struct broker_connection, link));
    }
    vr_broker_table_end(&broker->table);
}

vram_status vr_broker_serve(const struct vr_broker_run *run) {
    struct broker *broker = vr_mem_alloc(1, sizeof *broker, vr_operation());
    if (!broker) {
        return VRAM_ERR_HOST_MEMORY;
    }
    broker->run = run;
    vr_list_init(&broker->connections);
    vr_broker_table_init(&broker->table, lease_send);
    vr_broker_path(run->dir, broker->path);
    vram_status status = broker_listen(broker);
    if (status == VRAM_OK) {
        vr_own_fd_note(broker->listener);
        if (run->started) {
            run->started(run->user, broker->path);
        }
        broker_turns(broker);
        broker_close(broker);
    }
    vr_mem_free(broker);
    return status;
}
