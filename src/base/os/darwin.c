/* SPDX-License-Identifier: Apache-2.0 */
/*
 * darwin.c: what macOS has in place of linux.c and meminfo.c. There is no memfd, and shared memory
 * there can neither be read, nor resized twice, nor have holes; so files in memory are temporary
 * files that are unlinked at once. No page is wiped at a fork, so fork.c compares process ids.
 * Conditions wait for a relative time.
 */
#include "base/os/platform.h"
#include "base/os/unix_socket.h"

#include <crt_externs.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mach/mach.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* -------------------------------------------------------------- os.h: memory */

void vr_os_memory(vram_value *total, vram_value *available) {
    *total = *available = (vram_value){0, false};
    uint64_t bytes = 0;
    size_t length = sizeof bytes;
    if (sysctlbyname("hw.memsize", &bytes, &length, NULL, 0) == 0 && length == sizeof bytes) {
        *total = (vram_value){bytes, true};
    }
    vm_statistics64_data_t pages;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    mach_port_t host = mach_host_self();
    if (host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages, &count) == KERN_SUCCESS) {
        uint64_t usable = (uint64_t)pages.free_count + pages.inactive_count;
        *available = (vram_value){usable * vr_os_page_bytes(), true};
    }
    (void)mach_port_deallocate(mach_task_self(), host);
}

vram_value vr_os_memory_installed(void) {
    vram_value total, available;
    vr_os_memory(&total, &available);
    return total;
}

/* --------------------------------------------------------------- os.h: files */

/* An unlinked file in the user's own temporary folder; -1 with errno. */
static int file_without_name(void) {
    char path[PATH_MAX];
    static const char pattern[] = "vram.XXXXXX";
    size_t length = confstr(_CS_DARWIN_USER_TEMP_DIR, path, sizeof path - sizeof pattern);
    if (length == 0 || length > sizeof path - sizeof pattern) {
        length = sizeof "/tmp/";
        memcpy(path, "/tmp/", length);
    }
    memcpy(path + length - 1, pattern, sizeof pattern);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

vram_status vr_os_file_create(const char *name, int *fd) {
    (void)name; /* Linux shows it in /proc; macOS has no place for it */
    int error = vr_os_fault();
    int got = error ? -1 : file_without_name();
    if (got < 0) {
        return vr_os_error(error ? error : errno, "mkostemp", 0);
    }
    *fd = got;
    return VRAM_OK;
}

/* Files cannot be sealed, so no process can trust one of another. */
vram_status vr_os_shared_create(const char *name, uint64_t bytes, int *fd) {
    (void)name;
    (void)fd;
    return vr_os_error_as(VRAM_ERR_UNSUPPORTED, ENOTSUP, "memfd_create", bytes);
}

vram_status vr_os_shared_check(int fd, uint64_t bytes) {
    (void)fd;
    return vr_os_error_as(VRAM_ERR_UNSUPPORTED, ENOTSUP, "fcntl", bytes);
}

vram_status vr_os_shared_reopen(int fd, bool read_only, int *out) {
    (void)read_only;
    return vr_os_shared_duplicate(fd, out);
}

vram_status vr_os_file_punch(int fd, uint64_t offset, uint64_t bytes) {
    VR_UNCANCELLED;
    int error = offset > INT64_MAX || bytes > INT64_MAX ? EFBIG : EINTR;
    while (error == EINTR) {
        struct fpunchhole hole = {.fp_offset = (off_t)offset, .fp_length = (off_t)bytes};
        error = fcntl(fd, F_PUNCHHOLE, &hole) == 0 ? 0 : errno;
    }
    return error ? vr_os_error(error, "fcntl", bytes) : VRAM_OK;
}

/* Writes zeros, a page at a time: space reserved by F_PREALLOCATE is not part of the file yet. */
int vr_os_file_allocate(int fd, uint64_t offset, uint64_t bytes) {
    static const char zeros[4096];
    for (uint64_t done = 0; done < bytes;) {
        size_t some = (size_t)(bytes - done < sizeof zeros ? bytes - done : sizeof zeros);
        ssize_t moved = pwrite(fd, zeros, some, (off_t)(offset + done));
        if (moved < 0 && errno != EINTR) {
            return errno;
        }
        done += moved > 0 ? (uint64_t)moved : 0;
    }
    return 0;
}

/* ------------------------------------------------------- os.h: environment */

const char *vr_os_environment(const char *name) {
    return issetugid() ? NULL : getenv(name);
}

char **vr_os_environment_all(void) {
    return issetugid() ? NULL : *_NSGetEnviron();
}

/* ----------------------------------------------------------------- platform.h */

vr_atomic_u64 *vr_os_fork_word(void) {
    return NULL;
}

bool vr_os_barrier_start(void) {
    return false;
}

bool vr_os_barrier(void) {
    return false;
}

void vr_os_pages_wipe(void *pages, uint64_t bytes) {
    (void)pages, (void)bytes; /* fork is the only way to create a child, and its handlers run */
}

void vr_os_pages_enlarge(void *pages, uint64_t bytes) {
    (void)pages, (void)bytes; /* the system chooses */
}

void vr_os_pages_keep(void *pages, uint64_t bytes) {
    (void)minherit(pages, (size_t)bytes, VM_INHERIT_NONE);
}

/* The loader knows static functions too, unless the file was stripped. */
void vr_os_source_at(uint64_t pc, uint64_t module, struct vr_code_source *source) {
    (void)pc, (void)module;
    *source = (struct vr_code_source){.line = 0};
}

void vr_os_thread_name(const char *name) {
    (void)pthread_setname_np(name);
}

int vr_os_cond_init(pthread_cond_t *cond) {
    return pthread_cond_init(cond, NULL);
}

int vr_os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns) {
    struct timespec relative = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                                .tv_nsec = (long)(ns % UINT64_C(1000000000))};
    return pthread_cond_timedwait_relative_np(cond, mutex, &relative);
}

uint64_t vr_os_now_coarse(void) {
    return vr_os_now();
}

uint64_t vr_os_now_recent(void) {
    return vr_os_now();
}

void vr_os_stack_bounds(uintptr_t *low, uintptr_t *high) {
    *high = (uintptr_t)pthread_get_stackaddr_np(pthread_self());
    *low = *high - pthread_get_stacksize_np(pthread_self());
}

/* All code there has frame pointers: a frame begins with its caller's and the return address. */
bool vr_os_frames_walk(const struct vr_stack_frame *from, uint64_t *frames, uint32_t capacity,
                       uint32_t *count) {
    static _Thread_local uintptr_t low, high; /* of the thread's stack; 0: unknown yet */
    uintptr_t at = from->fp, pc = from->pc;
    *count = 0;
    if (!high) {
        vr_os_stack_bounds(&low, &high);
    }
    while (pc && *count < capacity) {
        frames[(*count)++] = pc;
        if (at < low || at >= high || high - at < 2 * sizeof at || at % sizeof at != 0) {
            break;
        }
        const uintptr_t *frame = (const uintptr_t *)at;
        pc = vr_os_plain_address(frame[1]);
        at = frame[0] > at ? frame[0] : 0;
    }
    return true;
}

/* Nobody asks for the frames of an interpreter where no module is found (track/python_layout.h). */
bool vr_os_module_keep(const void *address, struct vr_module *module) {
    (void)address, (void)module;
    return false;
}

bool vr_os_memory_copy(const struct vr_memory_part *parts, unsigned count) {
    (void)parts, (void)count;
    return false;
}

bool vr_os_thread_is_first(void) {
    return pthread_main_np();
}

/* Macs have one node. */
vram_value vr_os_numa_of_device(const char *root, const char *pci) {
    (void)root, (void)pci;
    return (vram_value){0, false};
}

vram_value vr_os_numa_of_page(const void *address) {
    (void)address;
    return (vram_value){0, false};
}

bool vr_os_numa_begin(uint64_t node, struct vr_numa *before) {
    (void)node, (void)before;
    return false;
}

void vr_os_numa_end(const struct vr_numa *before) {
    (void)before;
}

bool vr_os_numa_run(const char *root, uint64_t node) {
    (void)root, (void)node;
    return false;
}

uint32_t vr_os_processors(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

/* A write to a pipe that nobody reads any more raises no signal. */
int vr_os_event_pair(int fds[2]) {
    if (pipe(fds) != 0) {
        return errno;
    }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    (void)fcntl(fds[1], F_SETNOSIGPIPE, 1);
    return 0;
}

/* Its access lists have another format; nothing here needs them yet. */
int vr_os_file_show(int fd, uint32_t user) {
    (void)fd, (void)user;
    return ENOTSUP;
}

/* -------------------------------------------------------------- unix_socket.h */

int vr_os_socket_mode(const char *path, uint32_t mode) {
    return fchmodat(AT_FDCWD, path, (mode_t)mode, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

vram_status vr_os_socket_peer(int fd, struct vr_os_peer *peer) {
    uid_t user;
    gid_t group;
    pid_t process = 0;
    socklen_t bytes = sizeof process;
    if (getpeereid(fd, &user, &group) != 0) {
        return vr_os_error(errno, "getpeereid", 0);
    }
    if (getsockopt(fd, SOL_LOCAL, LOCAL_PEERPID, &process, &bytes) != 0) {
        process = 0;
    }
    *peer = (struct vr_os_peer){.process = (uint64_t)process, .user = user};
    return VRAM_OK;
}

vram_status vr_os_random(void *bytes, size_t count) {
    arc4random_buf(bytes, count);
    return VRAM_OK;
}

uint64_t vr_os_boot(void) {
    struct timeval boot = {0};
    size_t length = sizeof boot;
    return sysctlbyname("kern.boottime", &boot, &length, NULL, 0) == 0 ? (uint64_t)boot.tv_sec : 0;
}

/* No driver here has queues of threads. */
bool vr_os_thread_end_first(void (*end)(void *argument), void *argument) {
    (void)end;
    (void)argument;
    return false;
}
