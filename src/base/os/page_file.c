/* SPDX-License-Identifier: Apache-2.0 */
/* page_file.c: the file of a live page, its folder and its name. See page_file.h. */
#include "base/os/page_file.h"

#include "base/error.h"
#include "base/os/platform.h"
#include "base/os/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t vr_os_thread_cpu(void) {
    struct timespec used;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0) {
        return 0;
    }
    return (uint64_t)used.tv_sec * UINT64_C(1000000000) + (uint64_t)used.tv_nsec;
}

/* ---------------------------------------------------------------- processes */

/* Field 22 of /proc/PID/stat, and whether the process has ended and was not waited for: its state
   is Z, and it has no other thread. False: it cannot be read. */
static bool stat_read(const char *path, uint64_t *start_ticks, bool *ended) {
    char line[1024];
    size_t bytes;
    if (vr_os_text_read(path, line, sizeof line - 1, &bytes) != VRAM_OK) {
        return false;
    }
    line[bytes] = 0;
    const char *at = strrchr(line, ')'); /* the name before it may have any characters */
    const char *state = at;
    for (int field = 2; at && field < 20; field++) {
        at = strchr(at + 1, ' ');
    }
    unsigned long long start = 0;
    long threads = 0;
    if (!at || sscanf(at, "%ld %*d %llu", &threads, &start) != 2) {
        return false;
    }
    *start_ticks = start;
    *ended = state[2] == 'Z' && threads <= 1;
    return true;
}

static uint64_t pid_space(void) {
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

void vr_os_process_identity(struct vr_process_identity *identity) {
    struct vram_error error;
    bool ended;
    vr_error_save(&error);
    *identity = (struct vr_process_identity){
        .pid = vr_os_process_id(), .pid_space = pid_space(), .user = vr_os_user()};
    if (!stat_read("/proc/self/stat", &identity->start_ticks, &ended)) {
        identity->start_ticks = 0;
    }
    vr_error_restore(&error);
}

bool vr_os_process_ended(const struct vr_process_identity *identity) {
    struct vram_error error;
    char path[40];
    uint64_t start = 0;
    bool zombie = false;
    if (identity->pid_space != pid_space() || identity->pid > INT_MAX) {
        return false;
    }
    if (kill((pid_t)identity->pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    vr_error_save(&error);
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)identity->pid);
    bool read = stat_read(path, &start, &zombie);
    vr_error_restore(&error);
    bool another = identity->start_ticks && start != identity->start_ticks;
    return read && (another || zombie);
}

void vr_os_command_line(char *text, size_t bytes) {
    struct vram_error error;
    size_t got = 0;
    int fd;
    uint64_t length;
    text[0] = 0;
    vr_error_save(&error);
    if (vr_os_disk_read_open("/proc/self/cmdline", &fd, &length) == VRAM_OK) {
        ssize_t some = read(fd, text, bytes - 1);
        got = some > 0 ? (size_t)some : 0;
        vr_os_file_close(fd);
    }
    vr_error_restore(&error);
    while (got > 0 && text[got - 1] == 0) {
        got--;
    }
    for (size_t i = 0; i < got; i++) {
        text[i] = text[i] ? text[i] : ' ';
    }
    text[got] = 0;
}

/* ------------------------------------------------------------------ folders */

/* Keeps (1): a folder of this user, or for `parent` one that root or a sticky bit protects. */
static int folder_problem(const char *path, bool parent) {
    struct stat about;
    if (lstat(path, &about) != 0) {
        return errno;
    }
    bool own = about.st_uid == geteuid(), open = about.st_mode & (S_IWGRP | S_IWOTH);
    bool safe = own ? !open || (parent && about.st_mode & S_ISVTX)
                    : parent && about.st_uid == 0 && (!open || about.st_mode & S_ISVTX);
    return !S_ISDIR(about.st_mode) ? ENOTDIR : safe ? 0 : EPERM;
}

static int folder_make(const char *parent, const char *path) {
    VR_UNCANCELLED;
    int error = vr_os_fault();
    error = error ? error : folder_problem(parent, true);
    if (!error && mkdir(path, 0700) != 0 && errno != EEXIST) {
        error = errno;
    }
    return error ? error : folder_problem(path, false);
}

static void names_write(struct vr_page_file *file) {
    const struct vr_process_identity *process = &file->process;
    char stem[VR_PAGE_PATH_MAX - 8];
    snprintf(stem, sizeof stem, "%s/%llu-%llu-%llu", file->folder, (unsigned long long)process->pid,
             (unsigned long long)process->start_ticks, (unsigned long long)process->pid_space);
    snprintf(file->path, sizeof file->path, "%s.page", stem);
    snprintf(file->socket, sizeof file->socket, "%s.sock", stem);
}

vram_status vr_page_file_place(struct vr_page_file *file) {
    const char *runtime = vr_os_environment("XDG_RUNTIME_DIR");
    int error = ENOENT;
    *file = (struct vr_page_file){.device = 0};
    vr_os_process_identity(&file->process);
    if (runtime && runtime[0] == '/' &&
        snprintf(file->folder, sizeof file->folder, "%s/vram", runtime) <
            (int)sizeof file->folder) {
        error = folder_make(runtime, file->folder);
    }
    if (error) {
        snprintf(file->folder, sizeof file->folder, "/dev/shm/vram-%u", vr_os_user());
        error = folder_make("/dev/shm", file->folder);
    }
    if (error) {
        return vr_os_error_as(VRAM_ERR_IO, error, "mkdir", 0);
    }
    names_write(file);
    return VRAM_OK;
}

/* -------------------------------------------------------------------- files */

static int file_note(struct vr_page_file *file, int fd) {
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return errno;
    }
    file->device = (uint64_t)about.st_dev;
    file->inode = (uint64_t)about.st_ino;
    return 0;
}

vram_status vr_page_file_create(struct vr_page_file *file, uint64_t bytes) {
    VR_UNCANCELLED;
    int error = vr_os_fault();
    int fd = -1;
    if (!error) {
        fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        error = fd < 0 ? errno : 0;
    }
    if (error) {
        return vr_os_error_as(error == EEXIST ? VRAM_ERR_BUSY : VRAM_ERR_IO, error, "open", 0);
    }
    error = file_note(file, fd);
    vram_status status = error ? vr_os_error_as(VRAM_ERR_IO, error, "fstat", 0)
                               : vr_os_disk_grow(fd, 0, bytes); /* keeps (3) */
    (void)close(fd);
    if (status != VRAM_OK) {
        (void)unlink(file->path);
        file->device = file->inode = 0;
    }
    file->bytes = bytes;
    return status;
}

bool vr_page_file_peek(const struct vr_page_file *file, uint64_t offset, void *to, uint64_t bytes) {
    struct vram_error error;
    uint64_t length;
    int fd;
    vr_error_save(&error);
    bool read = vr_os_disk_read_open(file->path, &fd, &length) == VRAM_OK;
    if (read) {
        read = vr_os_file_read(fd, offset, to, bytes) == VRAM_OK;
        vr_os_file_close(fd);
    }
    vr_error_restore(&error);
    return read;
}

/* Keeps (2). */
vram_status vr_page_file_open(const struct vr_page_file *file, int *fd) {
    VR_UNCANCELLED;
    struct stat about;
    int error = vr_os_fault();
    int got = error ? -1 : open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (got < 0) {
        error = error ? error : errno;
        return vr_os_error_as(error == ENOENT ? VRAM_ERR_STALE : VRAM_ERR_IO, error, "open", 0);
    }
    bool found = fstat(got, &about) == 0;
    bool same =
        found && (uint64_t)about.st_dev == file->device && (uint64_t)about.st_ino == file->inode;
    if (!same || (uint64_t)about.st_size != file->bytes) {
        (void)close(got);
        return vr_os_error_as(found && !same ? VRAM_ERR_BUSY : VRAM_ERR_STALE, ESTALE, "open", 0);
    }
    *fd = got;
    return VRAM_OK;
}

void vr_page_file_remove(struct vr_page_file *file) {
    VR_UNCANCELLED;
    if (file->inode) {
        (void)unlink(file->path);
        (void)unlink(file->socket);
        file->device = file->inode = 0;
    }
}

/* ----------------------------------------------------------------- sweeping */

struct folder_sweep {
    const char *folder;
    uint32_t removed, most;
};

/* PID-START-SPACE.page or .sock; false: another file. */
static bool name_read(const char *name, struct vr_process_identity *process) {
    unsigned long long pid, start, space;
    int end = 0;
    if (name[0] < '1' || name[0] > '9' || strlen(name) > 70 ||
        sscanf(name, "%19llu-%19llu-%19llu%n", &pid, &start, &space, &end) != 3 || end == 0) {
        return false;
    }
    *process = (struct vr_process_identity){.pid = pid, .start_ticks = start, .pid_space = space};
    return strcmp(name + end, ".page") == 0 || strcmp(name + end, ".sock") == 0;
}

static bool entry_sweep(void *user, const char *name) {
    struct folder_sweep *sweep = user;
    struct vr_process_identity process;
    char path[VR_PAGE_PATH_MAX];
    if (name_read(name, &process) && vr_os_process_ended(&process) &&
        snprintf(path, sizeof path, "%s/%s", sweep->folder, name) < (int)sizeof path) {
        vr_os_folder_remove(path);
        sweep->removed++;
    }
    return sweep->removed < sweep->most;
}

uint32_t vr_page_folder_sweep(const char *folder, uint32_t most) {
    struct folder_sweep sweep = {.folder = folder, .most = most};
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_os_folder_list(folder, entry_sweep, &sweep);
    vr_error_restore(&error);
    return sweep.removed;
}
