/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.c: Unix sockets that carry descriptors. See unix_socket.h. */
#include "base/os/unix_socket.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Systems without these flags set them by fcntl, or raise no SIGPIPE for a socket that says so. */
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { BACKLOG = 128, POLLED_MAX = 4096 };

#define RETRY_NS UINT64_C(1000000) /* between two tries of a connect whose peer is busy */

/* ---------------------------------------------------------------- addresses */

static vram_status address_make(const char *path, struct sockaddr_un *address) {
    size_t bytes = strlen(path) + 1;
    _Static_assert(VR_SOCKET_PATH_MAX <= sizeof address->sun_path, "it has to fit");
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (bytes > VR_SOCKET_PATH_MAX) {
        return vr_error_set(VRAM_ERR_LIMIT, "os", "bind", ENAMETOOLONG,
                            "the path of a socket is longer than %d bytes; choose a shorter "
                            "directory: %s",
                            VR_SOCKET_PATH_MAX - 1, path);
    }
    memcpy(address->sun_path, path, bytes);
    return VRAM_OK;
}

static int socket_make(int *error) {
    *error = vr_os_fault();
    int fd = *error ? -1 : socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) {
        *error = *error ? *error : errno;
        return -1;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* A socket, and the address of `path` for it. */
static vram_status socket_begin(const char *path, struct sockaddr_un *address, int *fd) {
    int error;
    vram_status status = address_make(path, address);
    if (status != VRAM_OK) {
        return status;
    }
    *fd = socket_make(&error);
    return *fd < 0 ? vr_os_error(error, "socket", 0) : VRAM_OK;
}

/* A path that is no socket any more is the fault of the directory. */
static vram_status mode_error(int error) {
    return error == ENOTSOCK ? vr_os_error_as(VRAM_ERR_IO, error, "chmod", 0)
                             : vr_os_error(error, "chmod", 0);
}

vram_status vr_os_socket_listen(const char *path, int *fd) {
    VR_UNCANCELLED;
    struct sockaddr_un address;
    int got, error;
    vram_status status = socket_begin(path, &address, &got);
    if (status != VRAM_OK) {
        return status;
    }
    (void)fchmod(got, 0600); /* Linux makes the name with it; other systems by the chmod below */
    const char *call = "bind";
    error = bind(got, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    if (!error) {
        call = "chmod";
        error = vr_os_socket_mode(path, 0600);
        if (!error) {
            call = "listen";
            error = listen(got, BACKLOG) == 0 ? 0 : errno;
        }
        if (error) {
            (void)unlink(path);
        }
    }
    if (error) {
        (void)close(got);
        return vr_os_error(error, call, 0);
    }
    *fd = got;
    return VRAM_OK;
}

vram_status vr_os_socket_admit(const char *path) {
    int error = vr_os_fault();
    error = error ? error : vr_os_socket_mode(path, 0666);
    return error ? mode_error(error) : VRAM_OK;
}

vram_status vr_os_socket_accept(int listener, int *fd) {
    VR_UNCANCELLED;
    int error = vr_os_fault(), got = -1;
    while (!error && (got = accept(listener, NULL, NULL)) < 0) {
        error = errno == EINTR || errno == ECONNABORTED ? 0 : errno;
    }
    if (error == EAGAIN) {
        return VRAM_ERR_NOT_READY;
    }
    if (error) {
        return vr_os_error(error, "accept", 0);
    }
    (void)fcntl(got, F_SETFD, FD_CLOEXEC);
    (void)fcntl(got, F_SETFL, O_NONBLOCK);
    *fd = got;
    return VRAM_OK;
}

/* A connect to a socket whose queue is full would block: it is tried again until the deadline. */
vram_status vr_os_socket_connect(const char *path, uint64_t deadline, int *fd) {
    VR_UNCANCELLED;
    struct sockaddr_un address;
    int got, error;
    vram_status status = socket_begin(path, &address, &got);
    if (status != VRAM_OK) {
        return status;
    }
    for (;;) {
        error = connect(got, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
        if ((error != EAGAIN && error != EINTR) || vr_clock_now() >= deadline) {
            break;
        }
        vr_os_sleep(RETRY_NS);
    }
    if (!error) {
        *fd = got;
        return VRAM_OK;
    }
    (void)close(got);
    if (error == EAGAIN || error == EINTR) {
        return vr_os_error_as(VRAM_ERR_TIMEOUT, error, "connect", 0);
    }
    bool gone = error == ECONNREFUSED || error == ENOENT;
    bool denied = error == EACCES || error == EPERM;
    return gone     ? vr_os_error_as(VRAM_ERR_STALE, error, "connect", 0)
           : denied ? vr_os_error_as(VRAM_ERR_BUSY, error, "connect", 0)
                    : vr_os_error(error, "connect", 0);
}

void vr_os_socket_shut(int fd) {
    (void)shutdown(fd, SHUT_RDWR);
}

bool vr_os_socket_is_dead(const char *path) {
    VR_UNCANCELLED;
    struct sockaddr_un address;
    struct stat about;
    struct vram_error error;
    int code;
    if (lstat(path, &about) != 0 || !S_ISSOCK(about.st_mode) || about.st_uid != geteuid()) {
        return false;
    }
    vr_error_save(&error);
    int fd = address_make(path, &address) == VRAM_OK ? socket_make(&code) : -1;
    vr_error_restore(&error);
    if (fd < 0) {
        return false;
    }
    bool dead =
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED;
    (void)close(fd);
    return dead;
}

/* -------------------------------------------------------------------- bytes */

/* Room for the descriptors of one message, aligned as the system wants it. */
union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(VR_SOCKET_DESCRIPTORS_MAX * sizeof(int))];
};

_Static_assert(sizeof(union control) <= 1024, "musl's sendmsg takes no more: ENOMEM");

static vram_status peer_failed(int error, const char *call) {
    if (error == EAGAIN) {
        return VRAM_ERR_NOT_READY;
    }
    bool gone = error == EPIPE || error == ECONNRESET || error == ENOTCONN;
    return gone ? vr_os_error_as(VRAM_ERR_STALE, error, call, 0) : vr_os_error(error, call, 0);
}

vram_status vr_os_socket_send(int fd, const void *data, size_t bytes, const int *descriptors,
                              uint32_t count, size_t *sent) {
    VR_UNCANCELLED;
    union control control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen =
            (__typeof__(message.msg_controllen))CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = (__typeof__(head->cmsg_len))CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
    }
    int error = vr_os_fault();
    ssize_t some = -1;
    while (!error && (some = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0) {
        error = errno == EINTR ? 0 : errno;
    }
    if (error) {
        return peer_failed(error, "sendmsg");
    }
    *sent = (size_t)some;
    return VRAM_OK;
}

/* Takes the descriptors out of a message. Those that do not fit are closed. */
static uint32_t descriptors_take(struct msghdr *message, int *descriptors, uint32_t capacity,
                                 bool *excess) {
    uint32_t taken = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (taken < capacity) {
                descriptors[taken++] = fd;
            } else {
                (void)close(fd);
                *excess = true;
            }
        }
    }
    return taken;
}

vram_status vr_os_socket_receive(int fd, void *data, size_t bytes, size_t *received,
                                 int *descriptors, uint32_t *count) {
    VR_UNCANCELLED;
    union control control;
    uint32_t capacity = *count;
    struct iovec part = {.iov_base = data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control};
    int error = vr_os_fault();
    ssize_t some = -1;
    *count = 0;
    while (!error && (some = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
        error = errno == EINTR ? 0 : errno;
    }
    if (error) {
        return peer_failed(error, "recvmsg");
    }
    bool excess = false, none_left = message.msg_flags & MSG_CTRUNC; /* for all that were sent */
    uint32_t taken = descriptors_take(&message, descriptors, capacity, &excess);
    if (some == 0 || excess || none_left) {
        while (taken > 0) {
            (void)close(descriptors[--taken]);
        }
        if (some && none_left && !excess) {
            return vr_os_error(EMFILE, "recvmsg", 0);
        }
        return vr_os_error_as(VRAM_ERR_STALE, some ? EPROTO : ECONNRESET, "recvmsg", 0);
    }
    *received = (size_t)some;
    *count = taken;
    return VRAM_OK;
}

void vr_os_poll(struct vr_os_poll *list, uint32_t count, uint64_t ns) {
    VR_UNCANCELLED;
    struct pollfd polled[POLLED_MAX];
    int timeout = ns / 1000000 < INT32_MAX ? (int)(ns / 1000000) : INT32_MAX;
    count = count < POLLED_MAX ? count : POLLED_MAX;
    for (uint32_t i = 0; i < count; i++) {
        short events = (short)((list[i].read ? POLLIN : 0) | (list[i].write ? POLLOUT : 0));
        polled[i] = (struct pollfd){.fd = list[i].fd, .events = events};
        list[i].readable = list[i].writable = false;
    }
    int ready = poll(polled, count, timeout);
    if (ready == 0 && ns && ns < 1000000) { /* poll counts milliseconds */
        vr_os_sleep(ns);
        ready = poll(polled, count, 0);
    }
    if (ready <= 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        list[i].readable = polled[i].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL);
        list[i].writable = polled[i].revents & POLLOUT;
    }
}
