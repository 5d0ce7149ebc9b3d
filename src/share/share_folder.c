/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_folder.c: the directory that processes meet in.
 *
 *     DIR/vram-s-<24 hexadecimal digits>   the socket of one process
 *     DIR/vram-n-<name>                    a published name: share_name.c
 *     DIR/vram-<user id>.lock              locked while a socket or a name is made or removed
 */
#include "share/share_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdio.h>
#include <string.h>

#define SOCKET_PREFIX "vram-s-"

static vram_status dir_take(const char *path, char dir[VR_SHARE_DIR_MAX]) {
    if (strlen(path) >= VR_SHARE_DIR_MAX) {
        return vr_fail(VRAM_ERR_LIMIT,
                       "the directory for shared memory has more than %d bytes; set share_dir "
                       "(VRAM_SHARE_DIR) to a shorter one: %s",
                       VR_SHARE_DIR_MAX - 1, path);
    }
    memcpy(dir, path, strlen(path) + 1);
    return VRAM_OK;
}

/* Only the last, our own, is created: the others are the user's. */
vram_status vr_share_dir(const vram_share_options *options, bool create,
                         char dir[VR_SHARE_DIR_MAX]) {
    char text[VR_OPTION_TEXT_MAX], own[VR_SHARE_DIR_MAX];
    uint32_t owner = options->flags & VRAM_SHARE_USER ? options->user : vr_os_user();
    vr_option_text(VR_OPTION_SHARE_DIR, text);
    const char *runtime = vr_os_environment("XDG_RUNTIME_DIR"), *path = options->dir;
    if (!path && text[0]) {
        path = text;
    }
    if (!path && runtime && runtime[0] == '/') {
        path = runtime;
    }
    bool ours = !path;
    if (ours) {
        snprintf(own, sizeof own, "/tmp/vram-%u", vr_os_user());
        path = own;
    }
    vram_status status = dir_take(path, dir);
    return status == VRAM_OK ? vr_os_folder_check(dir, create && ours, owner) : status;
}

void vr_share_socket_path(const char *dir, const uint64_t server[2],
                          char path[VR_SOCKET_PATH_MAX]) {
    _Static_assert(VR_SHARE_DIR_MAX + sizeof SOCKET_PREFIX + 24 <= VR_SOCKET_PATH_MAX,
                   "the longest path fits");
    snprintf(path, VR_SOCKET_PATH_MAX, "%s/" SOCKET_PREFIX "%016llx%08llx", dir,
             (unsigned long long)server[0], (unsigned long long)(server[1] & UINT32_MAX));
}

static bool socket_sweep(void *user, const char *name) {
    char path[VR_SOCKET_PATH_MAX];
    int bytes = snprintf(path, sizeof path, "%s/%s", (const char *)user, name);
    if (strncmp(name, SOCKET_PREFIX, sizeof SOCKET_PREFIX - 1) == 0 && bytes > 0 &&
        (size_t)bytes < sizeof path && vr_os_socket_is_dead(path)) {
        vr_os_folder_remove(path);
    }
    return true;
}

void vr_share_dir_sweep(const char *dir) {
    struct vram_error error;
    char copy[VR_SHARE_DIR_MAX];
    snprintf(copy, sizeof copy, "%s", dir);
    vr_error_save(&error);
    (void)vr_os_folder_list(dir, socket_sweep, copy);
    vr_error_restore(&error);
}

vram_status vr_share_dir_lock(const char *dir, int *fd) {
    char path[VR_SOCKET_PATH_MAX];
    snprintf(path, sizeof path, "%s/vram-%u.lock", dir, vr_os_user());
    return vr_os_lock_file(path, vr_deadline_in(VR_SHARE_TIMEOUT_NS), fd);
}
