/* SPDX-License-Identifier: Apache-2.0 */
/* linux_shared.c: what only Linux has for several processes: sealed files, who a peer is, random
   bytes, the boot. */
#include "base/error.h"
#include "base/os/platform.h"
#include "base/os/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* --------------------------------------------------------------- sealed files */

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

vram_status vr_os_shared_create(const char *name, uint64_t bytes, int *fd) {
    int error = vr_os_fault();
    int got = error ? -1 : memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (got < 0) {
        return vr_os_error(error ? error : errno, "memfd_create", bytes);
    }
    vram_status status = vr_os_file_resize(got, bytes);
    if (status == VRAM_OK && fcntl(got, F_ADD_SEALS, SEALS) != 0) {
        status = vr_os_error(errno, "fcntl", bytes);
    }
    if (status != VRAM_OK) {
        vr_os_file_close(got);
        return status;
    }
    *fd = got;
    return VRAM_OK;
}

vram_status vr_os_shared_check(int fd, uint64_t bytes) {
    struct stat about;
    int seals = fcntl(fd, F_GET_SEALS);
    bool good = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &about) == 0 &&
                about.st_size >= 0 && (uint64_t)about.st_size >= bytes;
    return good ? VRAM_OK : vr_os_error_as(VRAM_ERR_INVALID, EBADF, "fcntl", bytes);
}

/* A file that is opened anew by its path in /proc has the rights of that open. */
vram_status vr_os_shared_reopen(int fd, bool read_only, int *out) {
    char path[40];
    if (!read_only) {
        return vr_os_shared_duplicate(fd, out);
    }
    int error = vr_os_fault(), got = -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!error && (got = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        error = errno;
    }
    if (error) {
        return vr_os_error(error, "open", 0);
    }
    *out = got;
    return VRAM_OK;
}

/* -------------------------------------------------------------- unix_socket.h */

/* The file is opened without its contents, so that what is examined is what is changed. */
int vr_os_socket_mode(const char *path, uint32_t mode) {
    char name[40];
    struct stat about;
    int error = 0, fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &about) != 0) {
        error = errno;
    } else if (!S_ISSOCK(about.st_mode) || about.st_uid != geteuid()) {
        error = ENOTSOCK;
    } else if ((about.st_mode & 0777) != mode) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        error = chmod(name, mode) == 0 ? 0 : errno;
    }
    vr_os_file_close(fd);
    return error;
}

vram_status vr_os_socket_peer(int fd, struct vr_os_peer *peer) {
    struct ucred found;
    socklen_t bytes = sizeof found;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0) {
        return vr_os_error(errno, "getsockopt", 0);
    }
    *peer =
        (struct vr_os_peer){.process = found.pid > 0 ? (uint64_t)found.pid : 0, .user = found.uid};
    return VRAM_OK;
}

vram_status vr_os_random(void *bytes, size_t count) {
    VR_UNCANCELLED;
    int error = vr_os_fault();
    for (size_t done = 0; !error && done < count;) {
        ssize_t some = getrandom((char *)bytes + done, count - done, 0);
        error = some < 0 && errno != EINTR ? errno : 0;
        done += some > 0 ? (size_t)some : 0;
    }
    return error ? vr_os_error(error, "getrandom", count) : VRAM_OK;
}

/* The boot's UUID as text, of which the first 16 digits make the number. */
uint64_t vr_os_boot(void) {
    char text[64];
    size_t bytes = 0;
    uint64_t number = 0;
    struct vram_error error;
    vr_error_save(&error);
    if (vr_os_text_read("/proc/sys/kernel/random/boot_id", text, sizeof text, &bytes) != VRAM_OK) {
        bytes = 0;
    }
    vr_error_restore(&error);
    for (size_t i = 0, digits = 0; i < bytes && digits < 16; i++) {
        char c = text[i];
        if (c != '-') {
            number = number << 4 | (uint64_t)((c >= 'a' ? c - 'a' + 10 : c - '0') & 15);
            digits++;
        }
    }
    return number;
}
