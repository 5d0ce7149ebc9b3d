/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_name.c: names with versions.
 *
 * A name is a file in the directory, replaced as a whole, so that a reader finds the old or the new
 * version and nothing in between:
 *
 *     vram-n-weights%2Flayer0       "vram-name 1\n<version>\n<token in hexadecimal>\n<name>\n"
 *
 * The token has a checksum, and its key is as unguessable as before: the file can be read by this
 * user and the one that the export names, and by nobody else. Changes are made with the directory's
 * lock, which the system removes with a process that is killed.
 */
#include "share/share_server.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_PREFIX "vram-n-"
#define FILE_HEAD   "vram-name 1\n"

enum {
    PATH_BYTES = VR_RUNTIME_DIR_MAX + sizeof NAME_PREFIX + 3UL * VRAM_SHARE_NAME_MAX,
    FILE_BYTES = 512
};

/* A file's contents. */
struct name_file {
    uint64_t version;
    vram_share_token token;
    char name[VRAM_SHARE_NAME_MAX];
};

/* --------------------------------------------------------------------- paths */

static vram_status name_check(const char *name) {
    size_t bytes = name ? strnlen(name, VRAM_SHARE_NAME_MAX) : 0;
    bool good = bytes > 0 && bytes < VRAM_SHARE_NAME_MAX && name[0] != '.';
    for (size_t i = 0; good && i < bytes; i++) {
        good = name[i] > ' ' && name[i] <= '~';
    }
    return good ? VRAM_OK
                : vr_fail(VRAM_ERR_INVALID,
                          "a name has 1 to %d printable bytes without spaces and does not begin "
                          "with a dot",
                          VRAM_SHARE_NAME_MAX - 1);
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* Every other byte becomes %XX, so that different names have different files in one folder. */
static void name_path(const char *dir, const char *name, char path[PATH_BYTES]) {
    int at = snprintf(path, PATH_BYTES, "%s/" NAME_PREFIX, dir);
    for (; *name; name++) {
        at += is_plain(*name)
                  ? snprintf(path + at, (size_t)(PATH_BYTES - at), "%c", *name)
                  : snprintf(path + at, (size_t)(PATH_BYTES - at), "%%%02X", (unsigned char)*name);
    }
}

/* --------------------------------------------------------------------- files */

static size_t file_write(const struct name_file *file, char text[FILE_BYTES]) {
    char token[2 * VRAM_SHARE_TOKEN_BYTES + 1];
    for (size_t i = 0; i < VRAM_SHARE_TOKEN_BYTES; i++) {
        snprintf(token + 2 * i, 3, "%02x", file->token.bytes[i]);
    }
    return (size_t)snprintf(text, FILE_BYTES, FILE_HEAD "%llu\n%s\n%s\n",
                            (unsigned long long)file->version, token, file->name);
}

static int digit_value(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool token_read(const char *text, vram_share_token *token) {
    for (size_t i = 0; i < VRAM_SHARE_TOKEN_BYTES; i++) {
        int high = digit_value(text[2 * i]), low = high < 0 ? -1 : digit_value(text[2 * i + 1]);
        if (low < 0) {
            return false;
        }
        token->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[(size_t)2 * VRAM_SHARE_TOKEN_BYTES] == '\n';
}

/* Reads the text of a file that anybody with access to the folder may have written. */
static bool file_parse(const char *text, struct name_file *file) {
    char *end;
    if (strncmp(text, FILE_HEAD, sizeof FILE_HEAD - 1) != 0) {
        return false;
    }
    const char *at = text + sizeof FILE_HEAD - 1;
    file->version = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
    if (!file->version || file->version == UINT64_MAX || *end != '\n' ||
        strlen(++end) < 2 * VRAM_SHARE_TOKEN_BYTES + 1 || !token_read(end, &file->token)) {
        return false;
    }
    end += 2 * VRAM_SHARE_TOKEN_BYTES + 1;
    size_t length = strcspn(end, "\n");
    if (length == 0 || length >= sizeof file->name) {
        return false;
    }
    memcpy(file->name, end, length);
    file->name[length] = 0;
    return true;
}

/* Whether there is no such file, or one that is no name whatever it says: too long, a pipe, a
   socket, a link that leads nowhere, or not ours to read. One such file must not hide all other
   names. */
static bool file_is_none(vram_status status) {
    static const int none[] = {ENOENT, EFBIG, EACCES, EPERM, ELOOP, ENOTDIR, ENAMETOOLONG, ENXIO};
    bool is_none = status == VRAM_ERR_INVALID;
    for (size_t i = 0; i < sizeof none / sizeof none[0] && status != VRAM_OK && !is_none; i++) {
        is_none = vr_error_get()->native_code == none[i];
    }
    return is_none;
}

/* VRAM_OK with *found false: there is no such file, or it is not a name. */
static vram_status file_read(const char *path, struct name_file *file, bool *found) {
    char text[FILE_BYTES];
    size_t bytes = 0;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vr_os_text_read(path, text, sizeof text - 1, &bytes);
    bool absent = file_is_none(status);
    *found = false;
    if (status == VRAM_OK) {
        text[bytes] = 0;
        *found = file_parse(text, file);
    } else if (absent) {
        vr_error_restore(&error);
    }
    return absent ? VRAM_OK : status;
}

/* ---------------------------------------------------------------- publishing */

/* Replaces the file of the name. With the directory's lock. */
static vram_status name_replace(const char *path, struct name_file *file,
                                const struct vr_share_export *state) {
    struct name_file before;
    char text[FILE_BYTES];
    bool found;
    vram_status status = file_read(path, &before, &found);
    if (status != VRAM_OK) {
        return status;
    }
    file->version = found ? before.version + 1 : 1;
    bool other = state->user_allowed && state->user != vr_os_user();
    status = vr_os_text_replace(path, text, file_write(file, text), other ? &state->user : NULL);
    return status == VRAM_ERR_UNSUPPORTED
               ? vr_fail(status,
                         "%s has no access lists, so user %u could not read the name; give "
                         "that user the token",
                         path, state->user)
               : status;
}

static vram_status publish_entered(struct vr_share *share, const char *name, uint64_t *version) {
    const char *dir = share->export_state.server->dir;
    char path[PATH_BYTES];
    struct name_file file;
    int lock;
    vr_share_token_write(&file.token, &share->export_state.ticket);
    memcpy(file.name, name, strlen(name) + 1);
    name_path(dir, name, path);
    vr_mutex_lock(&vr_share_lock);
    bool named = share->export_state.name[0] && strcmp(share->export_state.name, name) != 0;
    vr_mutex_unlock(&vr_share_lock);
    if (named) {
        return vr_fail(VRAM_ERR_BUSY, "the share is published under another name; export it again");
    }
    vram_status status = vr_runtime_dir_lock(dir, vr_deadline_in(VR_SHARE_TIMEOUT_NS), &lock);
    if (status != VRAM_OK) {
        return status;
    }
    status = name_replace(path, &file, &share->export_state);
    vr_os_file_close(lock);
    if (status == VRAM_OK) {
        vr_mutex_lock(&vr_share_lock);
        memcpy(share->export_state.name, name, strlen(name) + 1);
        share->version = file.version;
        vr_mutex_unlock(&vr_share_lock);
        if (version) {
            *version = file.version;
        }
    }
    return status;
}

vram_status vram_share_publish(vram_share *handle, const char *name, uint64_t *version) {
    VR_CALL;
    void *entered;
    vram_status status = name_check(name);
    if (status != VRAM_OK || (status = vr_enter(VR_KIND_SHARE, handle, &entered)) != VRAM_OK) {
        return status;
    }
    struct vr_share *share = entered;
    status = share->exported
                 ? publish_entered(share, name, version)
                 : vr_fail(VRAM_ERR_INVALID, "only the process that exported a share publishes it");
    /* It was closed meanwhile. */
    if (status == VRAM_OK && vr_handle_was(VR_KIND_SHARE, handle)) {
        (void)vr_name_withdraw(share);
        status = vr_fail(VRAM_ERR_STALE, "the share was closed meanwhile");
    }
    vr_leave(share);
    return status;
}

vram_status vr_name_withdraw(struct vr_share *share) {
    char name[VRAM_SHARE_NAME_MAX], path[PATH_BYTES];
    struct name_file file;
    vram_share_token token;
    bool found = false;
    int lock;
    vr_mutex_lock(&vr_share_lock);
    memcpy(name, share->export_state.name, sizeof name);
    vr_mutex_unlock(&vr_share_lock);
    if (!name[0]) {
        return VRAM_OK;
    }
    const char *dir = share->export_state.server->dir;
    vr_share_token_write(&token, &share->export_state.ticket);
    name_path(dir, name, path);
    vram_status status = vr_runtime_dir_lock(dir, vr_deadline_in(VR_SHARE_TIMEOUT_NS), &lock);
    if (status != VRAM_OK) {
        return status;
    }
    status = file_read(path, &file, &found);
    if (status == VRAM_OK && found && memcmp(&file.token, &token, sizeof token) == 0) {
        vr_os_folder_remove(path);
    }
    vr_os_file_close(lock);
    return status;
}

/* ------------------------------------------------------------------- finding */

static vram_status open_name(vram_device *device, const char *name,
                             const vram_share_options *options, vram_share **share) {
    vram_share_options taken;
    char dir[VR_RUNTIME_DIR_MAX], path[PATH_BYTES];
    struct name_file file;
    vram_status status = name_check(name);
    if (status != VRAM_OK || (status = vr_share_options_read(options, &taken)) != VRAM_OK ||
        (status = vr_share_dir(&taken, false, dir)) != VRAM_OK) {
        return status;
    }
    name_path(dir, name, path);
    bool found;
    status = file_read(path, &file, &found);
    if (status != VRAM_OK) {
        return status;
    }
    if (!found || strcmp(file.name, name) != 0) {
        return vr_fail(VRAM_ERR_INVALID, "nothing is published as %s in %s", name, dir);
    }
    return vr_share_open_token(device, &file.token, &taken, file.version, share);
}

/* The handle is looked at first, so that its answer does not depend on files. */
vram_status vram_share_open_name(vram_device *device, const char *name,
                                 const vram_share_options *options, vram_share **share) {
    VR_CALL;
    void *entered;
    if (!share) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the share is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, device, &entered);
    if (status == VRAM_OK) {
        status = open_name(device, name, options, share);
        vr_leave(entered);
    }
    return status;
}

/* The list that is being made. */
struct name_list {
    const char *dir;
    vram_share_name *names;
    uint32_t capacity, count;
    vram_status status;
};

static bool name_add(void *user, const char *entry) {
    struct name_list *list = user;
    char path[PATH_BYTES], again[PATH_BYTES];
    struct name_file file;
    bool found;
    _Static_assert(PATH_BYTES > VR_RUNTIME_DIR_MAX + NAME_MAX, "any entry's path fits");
    if (strncmp(entry, NAME_PREFIX, sizeof NAME_PREFIX - 1) != 0) {
        return true;
    }
    snprintf(path, sizeof path, "%s/%s", list->dir, entry);
    list->status = file_read(path, &file, &found);
    if (list->status != VRAM_OK || !found) {
        return list->status == VRAM_OK;
    }
    name_path(list->dir, file.name, again);
    if (strcmp(path, again) != 0) {
        return true; /* not a file of that name: half written, or planted */
    }
    if (list->count < list->capacity) {
        vram_share_name *name = &list->names[list->count];
        memcpy(name->name, file.name, sizeof name->name);
        name->version = file.version;
        name->token = file.token;
    }
    list->count++;
    return true;
}

vram_status vram_share_list(const vram_share_options *options, vram_share_name *names,
                            uint32_t *count) {
    VR_CALL;
    vram_share_options taken;
    char dir[VR_RUNTIME_DIR_MAX];
    if (!count || (!names && *count)) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the %s is NULL",
                       count ? "names" : "number of names");
    }
    struct name_list list = {.dir = dir, .names = names, .capacity = *count};
    vram_status status = vr_share_options_read(options, &taken);
    if (status != VRAM_OK || (status = vr_share_dir(&taken, true, dir)) != VRAM_OK ||
        (status = vr_os_folder_list(dir, name_add, &list)) != VRAM_OK ||
        (status = list.status) != VRAM_OK) {
        return status;
    }
    *count = list.count;
    return VRAM_OK;
}
