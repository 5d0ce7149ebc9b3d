/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_folder.c: what shared memory has in the directory that processes meet in.
 *
 *     DIR/vram-s-<24 hexadecimal digits>   the socket of one process
 *     DIR/vram-n-<name>                    a published name: share_name.c
 *
 * base/runtime_folder.h says which directory that is.
 */
#include "share/share_object.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define SOCKET_PREFIX "vram-s-"

vram_status vr_share_dir(const vram_share_options *options, bool create,
                         char dir[VR_RUNTIME_DIR_MAX]) {
    uint32_t owner = options->flags & VRAM_SHARE_USER ? options->user : vr_os_user();
    return vr_runtime_dir(options->dir, owner, create, dir);
}

void vr_share_socket_path(const char *dir, const uint64_t server[2],
                          char path[VR_SOCKET_PATH_MAX]) {
    _Static_assert(VR_RUNTIME_DIR_MAX + sizeof SOCKET_PREFIX + 24 <= VR_SOCKET_PATH_MAX,
                   "the longest path fits");
    snprintf(path, VR_SOCKET_PATH_MAX, "%s/" SOCKET_PREFIX "%016llx%08llx", dir,
             (unsigned long long)server[0], (unsigned long long)(server[1] & UINT32_MAX));
}

static bool socket_sweep(void *user, const char *name) {
    char path[VR_SOCKET_PATH_MAX];
    int bytes = snprintf(path, sizeof path, "%s/%s", (const char *)user, name);
    if (strncmp(name, SOCKET_PREFIX, sizeof SOCKET_PREFIX - 1) == 0 &&
        (size_t)bytes < sizeof path && vr_os_socket_is_dead(path)) {
        vr_os_folder_remove(path);
    }
    return true;
}

void vr_share_dir_sweep(const char *dir) {
    struct vram_error error;
    char copy[VR_RUNTIME_DIR_MAX];
    snprintf(copy, sizeof copy, "%s", dir);
    vr_error_save(&error);
    (void)vr_os_folder_list(dir, socket_sweep, copy);
    vr_error_restore(&error);
}
