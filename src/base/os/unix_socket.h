/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unix_socket.h: Unix sockets between processes, with descriptors, and the folders they lie in. All
 * sockets are non-blocking and close-on-exec; VRAM_ERR_NOT_READY, without an error record, means
 * that a call would block. A peer may be hostile: nothing that it sends can block a call, raise a
 * signal or leave a descriptor behind.
 */
#ifndef VR_UNIX_SOCKET_H
#define VR_UNIX_SOCKET_H

#include "vram/base.h"

enum {
    VR_SOCKET_PATH_MAX = 104,       /* bytes of a socket's path, the final 0 included */
    VR_SOCKET_DESCRIPTORS_MAX = 252 /* in one message: Linux takes 253, musl 1024 bytes */
};

/* Binds a new socket file, for this user only, and listens. */
vram_status vr_os_socket_listen(const char *path, int *fd);
/* Lets every user connect who may use its folder. */
vram_status vr_os_socket_admit(const char *path);
/* The next connection. VRAM_ERR_LIMIT when descriptors are used up. */
vram_status vr_os_socket_accept(int listener, int *fd);
/* Connects until `deadline` (vr_clock_now). VRAM_ERR_STALE if nobody listens there. */
vram_status vr_os_socket_connect(const char *path, uint64_t deadline, int *fd);
/* Shuts a connection down for both sides; the descriptor stays open. */
void vr_os_socket_shut(int fd);

/* Who is at the other end, as of its connect or listen. */
struct vr_os_peer {
    uint64_t process; /* its id; 0: it is not visible in this pid namespace */
    uint32_t user;
};
vram_status vr_os_socket_peer(int fd, struct vr_os_peer *peer);

/* Sends some of the bytes, *sent of them, with descriptors at the first; `count` 0: none. VRAM_ERR_
   STALE if the peer has gone. */
vram_status vr_os_socket_send(int fd, const void *data, size_t bytes, const int *descriptors,
                              uint32_t count, size_t *sent);
/* Receives some of the bytes and up to *count descriptors, which belong to the caller; *count
   becomes their number. More than `*count` descriptors, or 0 bytes, are VRAM_ERR_STALE: the peer
   has gone or does not keep to the protocol, and no descriptor is left open. */
vram_status vr_os_socket_receive(int fd, void *data, size_t bytes, size_t *received,
                                 int *descriptors, uint32_t *count);

/* One descriptor to wait for. */
struct vr_os_poll {
    int fd;                  /* below 0: none */
    bool read, write;        /* in: what to wait for */
    bool readable, writable; /* out; readable includes a peer that has gone */
};
/* Waits for at most `ns`. A failure of the system counts as a timeout. */
void vr_os_poll(struct vr_os_poll *list, uint32_t count, uint64_t ns);

/* Unpredictable bytes. */
vram_status vr_os_random(void *bytes, size_t count);
/* A number of this boot of the machine; 0: unknown. */
uint64_t vr_os_boot(void);
uint32_t vr_os_user(void);

/* ------------------------------------------------------------------ folders */

/* Checks that a folder may hold sockets: a folder, not a link, owned by this user or by root or
   `owner`, and nobody else may write there, except in a sticky folder. `create`: makes it, for this
   user only, if it does not exist. */
vram_status vr_os_folder_check(const char *path, bool create, uint32_t owner);
/* Calls `each` for every entry until it returns false. */
vram_status vr_os_folder_list(const char *path, bool (*each)(void *user, const char *name),
                              void *user);
/* Removes a file or socket; failures are ignored. */
void vr_os_folder_remove(const char *path);
/* Whether a socket file of this user exists and nobody listens on it any more. */
bool vr_os_socket_is_dead(const char *path);
/* Opens and locks a file, creating it for this user only, and waits for the lock until `deadline`.
   The lock ends with vr_os_file_close, and with the process. */
vram_status vr_os_lock_file(const char *path, uint64_t deadline, int *fd);

#endif
