/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.c: files that have a name and outlive the process.
 *
 * (1) Any process may truncate a file at any time, and an access to mapped memory past its new end
 *     raises SIGBUS. So mapped memory is guarded against that (bus_error.c).
 * (2) A file that is written in steps is locked before it is truncated, and a process that finds it
 *     locked leaves it alone. The lock belongs to the open file description, which a forked child
 *     shares and would keep after the parent has ended. So the child closes it in a fork handler;
 *     and closing unlocks explicitly, for children made without fork handlers (a raw clone).
 */
#include "base/error.h"
#include "base/lock.h"
#include "base/os/platform.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH_CAPACITY = 1024, LOCKED_MAX = 8 };

static vram_status open_refuse(int fd, vram_status status, int error, const char *call) {
    vr_os_file_close(fd);
    return vr_os_error_as(status, error, call, 0);
}

/* -------------------------------------------------------------- locked files */

static struct vr_mutex locked_lock = VR_MUTEX_INIT(VR_RANK_DISK); /* no fork while it is held */
static int locked[LOCKED_MAX]; /* descriptor + 1; 0: unused; see (2) */
static pthread_once_t locked_once = PTHREAD_ONCE_INIT;

/* Runs in the child, which has one thread. */
static void locked_drop(void) {
    for (int i = 0; i < LOCKED_MAX; i++) {
        if (locked[i]) {
            (void)close(locked[i] - 1);
            locked[i] = 0;
        }
    }
}

/* Without the handler a child that outlives its parent keeps the lock. That is not worth a
   failure. */
static void locked_start(void) {
    vram_error before;
    vr_error_save(&before);
    (void)vr_os_at_fork(NULL, NULL, locked_drop);
    vr_error_restore(&before);
}

/* Replaces the entry `from` by `to`; false: there is no such entry. */
static bool locked_change(int from, int to) {
    for (int i = 0; i < LOCKED_MAX; i++) {
        if (locked[i] == from) {
            locked[i] = to;
            return true;
        }
    }
    return false;
}

/* Of files that are created: names of models, tags and functions are for nobody else's eyes. */
#define PRIVATE_MODE 0600

/* Never blocks: opening or locking a file that is not a regular file could block for ever. */
static vram_status open_locked(const char *path, int *fd) {
    struct stat about;
    int error = vr_os_fault(), got = -1;
    while (!error && got < 0) {
        got = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, PRIVATE_MODE);
        error = got < 0 && errno != EINTR ? errno : 0;
    }
    if (error) {
        return vr_os_error_as(error == ENOMEM ? VRAM_ERR_HOST_MEMORY : VRAM_ERR_IO, error, "open",
                              0);
    }
    if (fstat(got, &about) != 0) {
        return open_refuse(got, VRAM_ERR_IO, errno, "fstat");
    }
    if (!S_ISREG(about.st_mode)) {
        return open_refuse(got, VRAM_ERR_INVALID, ESPIPE, "open");
    }
    if (flock(got, LOCK_EX | LOCK_NB) != 0) {
        return open_refuse(got, errno == EWOULDBLOCK ? VRAM_ERR_BUSY : VRAM_ERR_IO, errno, "flock");
    }
    if (ftruncate(got, 0) != 0) {
        return open_refuse(got, VRAM_ERR_IO, errno, "ftruncate");
    }
    if (!locked_change(0, got + 1)) {
        return open_refuse(got, VRAM_ERR_LIMIT, EMFILE, "open");
    }
    *fd = got;
    return VRAM_OK;
}

vram_status vr_os_disk_open(const char *path, int *fd) {
    VR_UNCANCELLED;
    pthread_once(&locked_once, locked_start);
    vr_mutex_lock(&locked_lock);
    vram_status status = open_locked(path, fd);
    vr_mutex_unlock(&locked_lock);
    return status;
}

void vr_os_disk_close(int fd) {
    VR_UNCANCELLED;
    vr_mutex_lock(&locked_lock);
    if (locked_change(fd + 1, 0)) {
        (void)flock(fd, LOCK_UN);
        (void)close(fd);
    }
    vr_mutex_unlock(&locked_lock);
}

void vr_os_disk_abandon(int fd) {
    VR_UNCANCELLED;
    vr_mutex_lock(&locked_lock);
    if (locked_change(fd + 1, 0)) {
        (void)close(fd);
    }
    vr_mutex_unlock(&locked_lock);
}

/* ------------------------------------------------------------------- writing */

vram_status vr_os_disk_grow(int fd, uint64_t offset, uint64_t bytes) {
    uint64_t end;
    int error = vr_os_fault();
    if (!error && (!vr_add(offset, bytes, &end) || !vr_os_within_file_limit(end))) {
        error = EFBIG;
    }
    if (!error && !vr_os_disk_reaches(fd, offset)) {
        error = ESPIPE; /* truncated: the data written before is lost */
    }
    error = error ? error : vr_os_file_allocate(fd, offset, bytes);
    return error ? vr_os_error_as(VRAM_ERR_IO, error, "posix_fallocate", bytes) : VRAM_OK;
}

vram_status vr_os_disk_map(int fd, uint64_t offset, uint64_t bytes, void **pages) {
    int error = vr_os_fault();
    if (error) {
        return vr_os_error(error, "mmap", bytes);
    }
    void *got = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (got == MAP_FAILED) {
        return vr_os_error(errno, "mmap", bytes);
    }
    if (!vr_os_bus_guard(got, bytes)) {
        (void)munmap(got, (size_t)bytes);
        return vr_os_error(ENOMEM, "sigaction", bytes);
    }
    vr_os_pages_keep(got, bytes);
    *pages = got;
    return VRAM_OK;
}

void vr_os_disk_populate(void *pages, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
    (void)madvise(pages, (size_t)bytes, MADV_POPULATE_WRITE);
#else
    (void)pages, (void)bytes;
#endif
}

void vr_os_disk_unmap(void *pages, uint64_t bytes) {
    vr_os_bus_release(pages);
    (void)munmap(pages, (size_t)bytes);
}

void vr_os_disk_forget(const void *pages) {
    vr_os_bus_release(pages);
}

bool vr_os_disk_reaches(int fd, uint64_t bytes) {
    struct stat about;
    return fstat(fd, &about) == 0 && (uint64_t)about.st_size >= bytes;
}

uint64_t vr_os_date(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || now.tv_sec < 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

vram_status vr_os_disk_read_open(const char *path, int *fd, uint64_t *bytes) {
    VR_UNCANCELLED;
    struct stat about;
    int error = vr_os_fault(), got = -1;
    while (!error && got < 0) {
        got = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        error = got < 0 && errno != EINTR ? errno : 0;
    }
    if (error) {
        return vr_os_error_as(VRAM_ERR_IO, error, "open", 0);
    }
    if (fstat(got, &about) != 0) {
        return open_refuse(got, VRAM_ERR_IO, errno, "fstat");
    }
    if (!S_ISREG(about.st_mode)) {
        return open_refuse(got, VRAM_ERR_INVALID, S_ISDIR(about.st_mode) ? EISDIR : ESPIPE, "open");
    }
    *fd = got;
    *bytes = (uint64_t)about.st_size;
    return VRAM_OK;
}

/* ---------------------------------------------------------------------- text */

/* Never waits. A pipe or a socket could block the caller until its peer acts, so it is refused with
   ESPIPE. Character devices such as terminals and /dev/null are accepted. */
static int open_text(const char *path, int flags, int *error) {
    struct stat about;
    int fd = -1;
    *error = vr_os_fault();
    while (!*error && fd < 0) {
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, PRIVATE_MODE);
        *error = fd < 0 && errno != EINTR ? errno : 0;
    }
    if (!*error &&
        (fstat(fd, &about) != 0 || !(S_ISREG(about.st_mode) || S_ISCHR(about.st_mode)))) {
        *error = ESPIPE;
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static vram_status open_text_error(int error) {
    return vr_os_error_as(error == ESPIPE ? VRAM_ERR_INVALID : VRAM_ERR_IO, error, "open", 0);
}

static int write_text(int fd, const char *text, size_t bytes) {
    struct stat about;
    bool fits = fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) ||
                vr_os_within_file_limit((uint64_t)about.st_size + bytes);
    int error = fits ? 0 : EFBIG;
    while (!error && bytes > 0) {
        ssize_t wrote = write(fd, text, bytes);
        if (wrote > 0) {
            text += wrote;
            bytes -= (size_t)wrote;
        } else {
            error = wrote == 0 ? ENOSPC : errno != EINTR ? errno : 0;
        }
    }
    return error;
}

vram_status vr_os_text_append(const char *path, const char *text, size_t bytes) {
    VR_UNCANCELLED;
    int error, fd = open_text(path, O_WRONLY | O_CREAT | O_APPEND, &error);
    if (error) {
        return open_text_error(error);
    }
    error = write_text(fd, text, bytes);
    (void)close(fd);
    return error ? vr_os_error_as(VRAM_ERR_IO, error, "write", bytes) : VRAM_OK;
}

/* Creates the folders of a path; a failure shows when the file is opened. */
static void make_folders(char *path) {
    for (char *at = path + 1; *at; at++) {
        if (*at == '/') {
            *at = 0;
            (void)mkdir(path, 0700);
            *at = '/';
        }
    }
}

/* One step of a replacement, which the tests' fault plan may fail. */
static int replace_step(int result) {
    int error = vr_os_fault();
    return error ? error : result != 0 ? errno : 0;
}

/* Whether the open file still has this name: its last writer may have renamed it to its final path,
   where it must not be changed. */
static bool is_named(int fd, const char *path) {
    struct stat about, named;
    return fstat(fd, &about) == 0 && lstat(path, &named) == 0 && S_ISREG(about.st_mode) &&
           about.st_nlink == 1 && about.st_dev == named.st_dev && about.st_ino == named.st_ino;
}

/* Removes a file that is not being written and cannot be taken over: one that is not a regular
   file, has other names too, or is not writable for this user. */
static bool path_clear(const char *path, int error) {
    struct stat about;
    if (lstat(path, &about) != 0) {
        return !error; /* renamed to its final path meanwhile */
    }
    bool plain = S_ISREG(about.st_mode) && about.st_nlink == 1 && error != EACCES;
    return plain ? !error : unlink(path) == 0;
}

/*
 * Opens the file of this name and locks it, so that no other process writes it. A process that
 * ended in the middle leaves a file without a lock, which is taken over. On a file system without
 * locks two processes may write at once and leave a mixture of both.
 */
static int open_replacement(const char *path, int *error) {
    for (int tries = 0; tries < 8; tries++) {
        int fd = open_text(path, O_WRONLY | O_CREAT | O_NOFOLLOW, error);
        bool busy = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (fd >= 0 && !busy && is_named(fd, path)) {
            return fd;
        }
        if (fd >= 0) {
            (void)close(fd);
        }
        if (busy || !path_clear(path, *error)) {
            break;
        }
    }
    *error = *error ? *error : EBUSY;
    return -1;
}

/* A file that was taken over may have had another reader: the mode ends an access list. */
static int readers_set(int fd, const uint32_t *reader) {
    int error = replace_step(fchmod(fd, PRIVATE_MODE));
    return error || !reader ? error : vr_os_file_show(fd, *reader);
}

vram_status vr_os_text_replace(const char *path, const char *text, size_t bytes,
                               const uint32_t *reader) {
    VR_UNCANCELLED;
    char replacement[PATH_CAPACITY];
    int length = snprintf(replacement, sizeof replacement, "%s.new", path);
    if ((size_t)length >= sizeof replacement) {
        return vr_os_error_as(VRAM_ERR_LIMIT, ENAMETOOLONG, "open", 0);
    }
    make_folders(replacement);
    int error = 0, fd = open_replacement(replacement, &error);
    if (fd < 0) {
        return vr_os_error_as(error == EBUSY ? VRAM_ERR_BUSY : VRAM_ERR_IO, error, "open", 0);
    }
    error = replace_step(ftruncate(fd, 0));
    error = error ? error : readers_set(fd, reader);
    error = error ? error : write_text(fd, text, bytes);
    error = error ? error : replace_step(fsync(fd));
    error = error ? error : replace_step(rename(replacement, path));
    if (error) {
        (void)unlink(replacement);
    }
    (void)flock(fd, LOCK_UN); /* a child forked meanwhile has the file open too */
    (void)close(fd);
    vram_status refused = error == ENOTSUP ? VRAM_ERR_UNSUPPORTED : VRAM_ERR_IO;
    return error ? vr_os_error_as(refused, error, "rename", bytes) : VRAM_OK;
}

vram_status vr_os_text_read(const char *path, char *text, size_t capacity, size_t *bytes) {
    VR_UNCANCELLED;
    int error, fd = open_text(path, O_RDONLY, &error);
    size_t got = 0;
    if (error) {
        return open_text_error(error);
    }
    for (bool more = true; !error && more && got < capacity;) {
        ssize_t count = read(fd, text + got, capacity - got);
        got += count > 0 ? (size_t)count : 0;
        more = count != 0;
        error = count < 0 && errno != EINTR ? errno : 0;
    }
    (void)close(fd);
    if (error || got == capacity) {
        return vr_os_error_as(error ? VRAM_ERR_IO : VRAM_ERR_LIMIT, error ? error : EFBIG, "read",
                              capacity);
    }
    *bytes = got;
    return VRAM_OK;
}
