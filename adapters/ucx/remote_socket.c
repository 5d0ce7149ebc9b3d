/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_socket.c: addresses of sockets, which UCX connects by, and the end of TCP connections that
 * UCX holds on to.
 *
 * UCX closes an endpoint by force only after the other side has acknowledged what was put to it.
 * On a network that has stopped, that takes until TCP gives up, which is minutes; and meanwhile
 * bytes that are in the socket may still be sent. So the socket is made to reset the connection and
 * to forget its bytes, and is shut down: UCX then finds a failed connection and ends all requests.
 *
 * UCX does not tell which sockets an endpoint has. They are among those that the worker's event
 * descriptor waits for, which the system lists, and are connected to the address of the other
 * process. Connections of this remote to other processes at the same address end with it: they use
 * the same network, and their peers are opened again.
 */
#include "adapters/ucx/remote_object.h"

#include "base/error.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { DEPTH_MAX = 4, FAMILY_4 = 4, FAMILY_6 = 6 };

union any_address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_storage storage;
};

/* ----------------------------------------------------------------- addresses */

void vr_socket_write(const struct sockaddr_storage *from, uint8_t to[VR_SOCKET_BYTES]) {
    union any_address address;
    memcpy(&address.storage, from, sizeof address.storage);
    bool six = from->ss_family == AF_INET6;
    memset(to, 0, VR_SOCKET_BYTES);
    to[0] = six ? FAMILY_6 : FAMILY_4;
    memcpy(to + 1, six ? (const void *)&address.in6.sin6_addr : &address.in.sin_addr, six ? 16 : 4);
    memcpy(to + 17, six ? &address.in6.sin6_port : &address.in.sin_port, 2);
}

bool vr_socket_read(const uint8_t *from, size_t bytes, struct sockaddr_storage *to) {
    union any_address address;
    memset(&address, 0, sizeof address);
    if (bytes != VR_SOCKET_BYTES || (from[0] != FAMILY_4 && from[0] != FAMILY_6)) {
        return false;
    }
    if (from[0] == FAMILY_6) {
        address.in6.sin6_family = AF_INET6;
        memcpy(&address.in6.sin6_addr, from + 1, 16);
        memcpy(&address.in6.sin6_port, from + 17, 2);
    } else {
        address.in.sin_family = AF_INET;
        memcpy(&address.in.sin_addr, from + 1, 4);
        memcpy(&address.in.sin_port, from + 17, 2);
    }
    *to = address.storage;
    return true;
}

/* Whether `name` is a word of the list; every name is one of NULL. */
static bool list_has(const char *list, const char *name) {
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strcspn(at, ",") == strlen(name) && strncmp(at, name, strlen(name)) == 0) {
            return true;
        }
    }
    return !list;
}

vram_status vr_socket_choose(const char *interfaces, struct sockaddr_storage *to) {
    struct ifaddrs *all, *best = NULL;
    union any_address address;
    if (getifaddrs(&all)) {
        return vr_error_set(VRAM_ERR_IO, "", vr_operation(), errno,
                            "the network interfaces cannot be listed");
    }
    for (struct ifaddrs *at = all; at; at = at->ifa_next) {
        bool usable = at->ifa_addr && (at->ifa_flags & IFF_UP) &&
                      (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6) &&
                      list_has(interfaces, at->ifa_name);
        /* Best an address that other machines reach, and of the older kind. */
        if (usable &&
            (!best || ((best->ifa_flags & IFF_LOOPBACK) && !(at->ifa_flags & IFF_LOOPBACK) &&
                       at->ifa_addr->sa_family == AF_INET))) {
            best = at;
        }
    }
    if (best) {
        memset(&address, 0, sizeof address);
        memcpy(&address, best->ifa_addr,
               best->ifa_addr->sa_family == AF_INET6 ? sizeof address.in6 : sizeof address.in);
        address.in.sin_port = 0; /* at the same place in both kinds */
        *to = address.storage;
    }
    freeifaddrs(all);
    return best ? VRAM_OK
                : vr_fail(VRAM_ERR_UNSUPPORTED, "no network interface%s%s is up and has an address",
                          interfaces ? " of " : "", interfaces ? interfaces : "");
}

/* --------------------------------------------------------------------- resets */

static bool socket_matches(int fd, const uint8_t target[VR_SOCKET_BYTES]) {
    union any_address peer;
    uint8_t bytes[VR_SOCKET_BYTES];
    socklen_t length = sizeof peer;
    memset(&peer, 0, sizeof peer);
    if (getpeername(fd, &peer.any, &length) ||
        (peer.any.sa_family != AF_INET && peer.any.sa_family != AF_INET6)) {
        return false;
    }
    vr_socket_write(&peer.storage, bytes);
    return memcmp(bytes, target, 17) == 0; /* family and address; the port differs */
}

/* Goes through the descriptors that an event descriptor waits for, and those of these. */
static void events_reset(int fd, const uint8_t target[VR_SOCKET_BYTES], int depth) {
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    char name[64], line[256];
    (void)snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(name, "re");
    int found;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "tfd: %d", &found) != 1) {
            continue;
        }
        if (socket_matches(found, target)) {
            (void)setsockopt(found, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            (void)shutdown(found, SHUT_RDWR);
        } else if (depth < DEPTH_MAX) {
            events_reset(found, target, depth + 1);
        }
    }
    if (file) {
        (void)fclose(file);
    }
}

void vr_sockets_reset(int event_fd, const uint8_t target[VR_SOCKET_BYTES]) {
    events_reset(event_fd, target, 0);
}
