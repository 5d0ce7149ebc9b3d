/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_folder.h: the directory that processes of a user meet in. The first of:
 *
 *     the one that the call names; option share_dir; XDG_RUNTIME_DIR; /tmp/vram-UID
 *
 *     DIR/vram-<user id>.lock   locked while a socket or a name is made or removed there
 */
#ifndef VR_RUNTIME_FOLDER_H
#define VR_RUNTIME_FOLDER_H

#include "base/os/unix_socket.h"

enum { VR_RUNTIME_DIR_MAX = 72 }; /* bytes of a directory, so that a socket's path fits */

/* Finds the directory and checks it; `given` may be NULL. It belongs to this user, root or `owner`.
   `create`: makes the last one of the list, which is the library's own, if it does not exist. */
vram_status vr_runtime_dir(const char *given, uint32_t owner, bool create,
                           char dir[VR_RUNTIME_DIR_MAX]);
/* Locks the directory against other processes of this user, until vr_os_file_close. */
vram_status vr_runtime_dir_lock(const char *dir, uint64_t deadline, int *fd);

#endif
