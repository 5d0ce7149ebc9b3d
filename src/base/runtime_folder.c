/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_folder.c: the directory that processes of a user meet in. See runtime_folder.h. */
#include "base/runtime_folder.h"

#include "base/error.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdio.h>
#include <string.h>

static vram_status dir_take(const char *path, char dir[VR_RUNTIME_DIR_MAX]) {
    if (strlen(path) >= VR_RUNTIME_DIR_MAX) {
        return vr_fail(VRAM_ERR_LIMIT,
                       "the directory for sockets has more than %d bytes; set share_dir "
                       "(VRAM_SHARE_DIR) to a shorter one: %s",
                       VR_RUNTIME_DIR_MAX - 1, path);
    }
    memcpy(dir, path, strlen(path) + 1);
    return VRAM_OK;
}

/* Only the last, our own, is created: the others are the user's. */
vram_status vr_runtime_dir(const char *given, uint32_t owner, bool create,
                           char dir[VR_RUNTIME_DIR_MAX]) {
    char text[VR_OPTION_TEXT_MAX], own[VR_RUNTIME_DIR_MAX];
    vr_option_text(VR_OPTION_SHARE_DIR, text);
    const char *runtime = vr_os_environment("XDG_RUNTIME_DIR"), *path = given;
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

vram_status vr_runtime_dir_lock(const char *dir, uint64_t deadline, int *fd) {
    char path[VR_SOCKET_PATH_MAX];
    snprintf(path, sizeof path, "%s/vram-%u.lock", dir, vr_os_user());
    return vr_os_lock_file(path, deadline, fd);
}
