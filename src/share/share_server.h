/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_server.h: the thread that serves the exports of one directory, and its connections.
 *
 *  (1) One thread, one poll, no blocking call: a peer that is silent, slow or hostile delays no
 *      other. A request must be complete, and its answer received, within VR_READER_NS.
 *  (2) vr_share_lock guards the list of servers, slots, the list of connections and the counts of
 *      readers. The thread alone uses the rest of a connection. The lock is never held across a
 *      driver call or while something is sent.
 *  (3) The thread is detached and ends by itself when its server has no export left. Who removes
 *      the last export waits for that, unless it is that thread.
 *  (4) In a forked child there is no such thread: a handler closes the descriptors there, and the
 *      child starts servers of its own.
 *  (5) Its memory lasts as long as anyone's pointer: the thread, each export until that is freed
 *      (a call on it may go on while another ends it), and who waits for a turn count as users.
 */
#ifndef VR_SHARE_SERVER_H
#define VR_SHARE_SERVER_H

#include "base/list.h"
#include "base/lock.h"
#include "share/share_object.h"

enum { VR_CONNECTIONS_MAX = 1024 }; /* of one server; more wait in the socket's queue */

#define VR_READER_NS UINT64_C(1000000000) /* see (1) */

struct vr_share_server {
    struct vr_link link; /* in the list of servers */
    uint64_t process;    /* vr_os_process_generation of the process that made it */
    char dir[VR_RUNTIME_DIR_MAX];
    char path[VR_SOCKET_PATH_MAX]; /* of its socket */
    uint64_t name[2];              /* in its path and its tickets */
    int listener;
    int wake[2];             /* vr_os_event_open */
    struct vr_thread thread; /* detached; see (3) */
    struct vr_cond changed;  /* `running` became false, or a turn has passed */
    bool running;            /* the thread is */
    uint64_t turns;          /* of its loop, complete */
    bool closed;             /* its descriptors are, or will be at any moment */
    uint64_t thread_number;  /* of the thread; 0: it has not begun */
    uint32_t marks;          /* of its exports, not reached yet */
    bool unprepared;         /* exports may have descriptors to be made ahead */
    uint32_t users;          /* see (5) */
    struct vr_share **slots; /* the exports; NULL: unused */
    uint32_t slot_count;     /* of the array */
    uint32_t export_count;   /* of the exports */
    struct vr_list connections;
    uint32_t connection_count;
};

enum vr_connection_state {
    VR_CONNECTION_ASKING,    /* its request is not complete */
    VR_CONNECTION_ANSWERING, /* the answer is being sent */
    VR_CONNECTION_READING,   /* it is a reader */
    VR_CONNECTION_OVER       /* to be closed */
};

struct vr_connection {
    struct vr_link link; /* in the server's list; see (2) */
    int fd;
    struct vr_os_peer peer;
    enum vr_connection_state state;
    uint64_t deadline; /* of asking and answering */
    uint8_t request[VR_WIRE_HEADER_BYTES + VR_WIRE_REQUEST_MAX];
    uint32_t received;                     /* bytes of the request */
    uint8_t refusal[VR_WIRE_HEADER_BYTES]; /* needs no memory, which may be what is missing */
    uint8_t *answer;                       /* header and payload; NULL: none */
    size_t answer_bytes, sent;
    uint32_t next_descriptor; /* 0: of the timeline, then those of the handles */
    bool noted;               /* its pool knows of it: vr_pool_reader_change */
    struct vr_share *share;   /* what it reads, with a reference; NULL: nothing; changed under the
                               lock */
};

/* A change that the server's thread has to see. Under the lock. */
static inline void vr_share_wake(struct vr_share_server *server) {
    if (!server->closed) {
        vr_os_event_send(server->wake[1]);
    }
}

/* share_kept.c: takes the kept descriptor of a handle; -1: there is none. */
int vr_kept_take(const struct vr_share *share, uint32_t handle);
/* Keeps a descriptor for the next reader, or closes it. */
void vr_kept_give(struct vr_share *share, uint32_t handle, int fd, bool asked_for);
/* Makes one descriptor ahead; returns whether there may be more to make. */
bool vr_kept_prepare(struct vr_share_server *server);
void vr_kept_forget(void);

/* share_reader.c: moves a connection on, as far as it can without waiting. */
void vr_connection_serve(struct vr_share_server *server, struct vr_connection *connection);
/* Writes a refusal with that status. */
void vr_refusal_write(uint8_t *to, vram_status status);
/* Releases what a connection has, once it is off the list. No lock held. */
void vr_connection_free(struct vr_connection *connection);

#endif
