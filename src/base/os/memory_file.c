/* SPDX-License-Identifier: Apache-2.0 */
/* memory_file.c: open memory files: their size, contents and pages. */
#include "base/os/platform.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define TRANSFER_MAX (UINT64_C(1) << 30) /* bytes in one read or write; systems stop below 2 GiB */

uint64_t vr_os_descriptors_most(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

void vr_os_file_close(int fd) {
    VR_UNCANCELLED;
    /* Not repeated on EINTR: the descriptor is closed by then, and its number may be reused. */
    (void)close(fd);
}

vram_status vr_os_shared_duplicate(int fd, int *out) {
    int error = vr_os_fault();
    int got = error ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (got < 0) {
        return vr_os_error(error ? error : errno, "fcntl", 0);
    }
    *out = got;
    return VRAM_OK;
}

/* A file that grows past the limit on file sizes raises SIGXFSZ, also a file in memory. So the
   limit is checked first. */
bool vr_os_within_file_limit(uint64_t end) {
    struct rlimit limit;
    if (end > INT64_MAX) {
        return false;
    }
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           end <= limit.rlim_cur;
}

vram_status vr_os_file_resize(int fd, uint64_t bytes) {
    int error = vr_os_fault();
    if (!error && !vr_os_within_file_limit(bytes)) {
        error = EFBIG;
    }
    while (!error && ftruncate(fd, (off_t)bytes) != 0) {
        error = errno == EINTR ? 0 : errno;
    }
    return error ? vr_os_error(error, "ftruncate", bytes) : VRAM_OK;
}

/* One step of a transfer: bytes moved, or -1 with errno. */
static ssize_t transfer_some(int fd, uint64_t offset, void *to, const void *from, uint64_t bytes) {
    size_t some = (size_t)(bytes < TRANSFER_MAX ? bytes : TRANSFER_MAX);
    return to ? pread(fd, to, some, (off_t)offset) : pwrite(fd, from, some, (off_t)offset);
}

/* Reads into `to` or, if that is NULL, writes from `from`; returns an errno. */
static int file_transfer(int fd, uint64_t offset, char *to, const char *from, uint64_t bytes) {
    VR_UNCANCELLED;
    uint64_t end;
    if (!vr_add(offset, bytes, &end) || end > INT64_MAX || (!to && !vr_os_within_file_limit(end))) {
        return EFBIG;
    }
    for (uint64_t done = 0; done < bytes;) {
        ssize_t moved = transfer_some(fd, offset + done, to ? to + done : NULL,
                                      from ? from + done : NULL, bytes - done);
        if (moved == 0) {
            return EIO; /* the file ends here */
        }
        if (moved < 0 && errno != EINTR) {
            return errno;
        }
        done += moved > 0 ? (uint64_t)moved : 0;
    }
    return 0;
}

vram_status vr_os_file_read(int fd, uint64_t offset, void *to, uint64_t bytes) {
    int error = vr_os_fault();
    error = error ? error : file_transfer(fd, offset, to, NULL, bytes);
    return error ? vr_os_error(error, "pread", bytes) : VRAM_OK;
}

vram_status vr_os_file_write(int fd, uint64_t offset, const void *from, uint64_t bytes) {
    int error = vr_os_fault();
    error = error ? error : file_transfer(fd, offset, NULL, from, bytes);
    return error ? vr_os_error(error, "pwrite", bytes) : VRAM_OK;
}

/* A failed mmap may have unmapped the reserved pages. They are reserved again, so that nothing else
   is ever mapped in the middle of a range. */
vram_status vr_os_file_map(int fd, uint64_t offset, void *pages, uint64_t bytes) {
    int error = vr_os_fault();
    if (!error && mmap(pages, (size_t)bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd,
                       (off_t)offset) == MAP_FAILED) {
        error = errno;
        (void)mmap(pages, (size_t)bytes, PROT_NONE, VR_OS_RESERVED | MAP_FIXED, -1, 0);
    }
    if (error) {
        return vr_os_error(error, "mmap", bytes);
    }
    vr_os_pages_keep(pages, bytes);
    return VRAM_OK;
}
