/* SPDX-License-Identifier: Apache-2.0 */
/* socket_folder.c: the folders that sockets of several processes lie in. See unix_socket.h. */
#include "base/clock.h"
#include "base/error.h"
#include "base/os/platform.h"
#include "base/os/unix_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_RETRY_NS UINT64_C(1000000)

uint32_t vr_os_user(void) {
    return geteuid();
}

static vram_status folder_refuse(const char *path, const char *why) {
    return vr_error_set(VRAM_ERR_IO, "os", "stat", EPERM, "%s %s", path, why);
}

vram_status vr_os_folder_check(const char *path, bool create, uint32_t owner) {
    VR_UNCANCELLED;
    struct stat about;
    int error = vr_os_fault();
    if (!error && create && mkdir(path, 0700) != 0 && errno != EEXIST) {
        error = errno;
    }
    if (!error && lstat(path, &about) != 0) {
        error = errno;
    }
    if (error) {
        vram_error cause;
        (void)vr_os_error(error, "stat", 0);
        vr_error_save(&cause);
        return vr_error_set(VRAM_ERR_IO, "os", cause.operation, error,
                            "the directory %s cannot be used: %s; set share_dir "
                            "(VRAM_SHARE_DIR) to another",
                            path, cause.text);
    }
    if (!S_ISDIR(about.st_mode)) {
        return folder_refuse(path, "is not a directory; set share_dir (VRAM_SHARE_DIR) to one");
    }
    if (about.st_uid != geteuid() && about.st_uid != 0 && about.st_uid != owner) {
        return folder_refuse(path, "belongs to another user; set share_dir (VRAM_SHARE_DIR) to a "
                                   "directory of this user");
    }
    if (about.st_mode & (S_IWGRP | S_IWOTH) && !(about.st_mode & S_ISVTX)) {
        return folder_refuse(path, "can be written by other users; remove their write permission");
    }
    return VRAM_OK;
}

vram_status vr_os_folder_list(const char *path, bool (*each)(void *user, const char *name),
                              void *user) {
    VR_UNCANCELLED;
    int error = vr_os_fault();
    DIR *folder = error ? NULL : opendir(path);
    if (!folder) {
        return vr_os_error_as(VRAM_ERR_IO, error ? error : errno, "opendir", 0);
    }
    bool going = true;
    for (struct dirent *entry; going && (entry = readdir(folder));) {
        going = entry->d_name[0] == '.' || each(user, entry->d_name);
    }
    (void)closedir(folder);
    return VRAM_OK;
}

void vr_os_folder_remove(const char *path) {
    VR_UNCANCELLED;
    (void)unlink(path);
}

vram_status vr_os_lock_file(const char *path, uint64_t deadline, int *fd) {
    VR_UNCANCELLED;
    int error = vr_os_fault();
    int got = error ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (got < 0) {
        return vr_os_error_as(VRAM_ERR_IO, error ? error : errno, "open", 0);
    }
    while (flock(got, LOCK_EX | LOCK_NB) != 0) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || vr_clock_now() >= deadline) {
            error = errno;
            (void)close(got);
            return vr_os_error_as(error == EWOULDBLOCK ? VRAM_ERR_TIMEOUT : VRAM_ERR_IO, error,
                                  "flock", 0);
        }
        vr_os_sleep(LOCK_RETRY_NS);
    }
    *fd = got;
    return VRAM_OK;
}
