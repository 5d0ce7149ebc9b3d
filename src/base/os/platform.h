/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform.h: the interface between the platforms and the rest of this folder. linux.c and darwin.c
 * each define all of the first part, so that no other file asks which system it is compiled for.
 */
#ifndef VR_PLATFORM_H
#define VR_PLATFORM_H

#include "base/atomic.h"
#include "base/os/os.h"

#include <pthread.h>

/* ------------------------------------------------- defined by each platform */

/* A word in memory that the kernel sets to 0 in a forked child, however it was created; NULL if the
   system cannot do that. Called once. */
vr_atomic_u64 *vr_os_fork_word(void);

/* Keeps pages out of a forked child, which would otherwise write into the parent's shared
   memory. */
void vr_os_pages_keep(void *pages, uint64_t bytes);

/* Allocates disk blocks for [offset, offset + bytes) of a file; new bytes are zero. Returns an
   errno. */
int vr_os_file_allocate(int fd, uint64_t offset, uint64_t bytes);

/* The calling thread's stack; both 0 if unknown. */
void vr_os_stack_bounds(uintptr_t *low, uintptr_t *high);

/* A place on the stack: where a function continues, and its registers there. */
struct vr_stack_frame {
    uintptr_t pc, sp, fp;
};

/* The return addresses from a frame of the calling thread on, at most `capacity`; the first is the
   frame's own. False: the walk ended early. */
bool vr_os_frames_walk(const struct vr_stack_frame *from, uint64_t *frames, uint32_t capacity,
                       uint32_t *count);

/* What the file mapped at `pc` says about it. `module` distinguishes modules that were loaded at
   the same address at different times. */
void vr_os_source_at(uint64_t pc, uint64_t module, struct vr_code_source *source);

/* Two descriptors for one event, as vr_os_event_open. Returns an errno. */
int vr_os_event_pair(int fds[2]);

/* Sets the mode of a socket of this user in the file system, and of nothing else: in a directory of
   another user the path may have become a link. Returns an errno, ENOTSOCK for another file. */
int vr_os_socket_mode(const char *path, uint32_t mode);

/* Lets one more user read a file of this user: by an access list. Returns an errno. */
int vr_os_file_show(int fd, uint32_t user);

/* Names the calling thread. */
void vr_os_thread_name(const char *name);

/* A condition whose waits use the monotonic clock. init returns an errno, wait returns 0 or
   ETIMEDOUT. */
int vr_os_cond_init(pthread_cond_t *cond);
int vr_os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns);

/* ---------------------------------------------------- shared by the folder */

/* A return address without the signature that aarch64 may have put into it. */
static inline uintptr_t vr_os_plain_address(uintptr_t address) {
#if defined(__aarch64__)
    register uintptr_t plain __asm__("x30") = address;
    __asm__("hint #7" : "+r"(plain)); /* xpaclri; older processors do nothing */
    return plain;
#else
    return address;
#endif
}

/* How mmap reserves addresses, without memory behind them. */
#define VR_OS_RESERVED (MAP_PRIVATE | MAP_ANON | MAP_NORESERVE)

/* Counts a fallible call; returns the errno that the plan makes it fail with, or 0. */
int vr_os_fault(void);

/* Records that `call` with `bytes` (0: no size) failed with `error`, and returns the matching
   status. */
vram_status vr_os_error(int error, const char *call, uint64_t bytes);

/* The same with the status given. */
vram_status vr_os_error_as(vram_status status, int error, const char *call, uint64_t bytes);

/* Whether a file may have that size: growth past the process's limit raises SIGXFSZ. */
bool vr_os_within_file_limit(uint64_t end);

/* Has bus errors in mapped pages of a file replaced by memory; bus_error.c. */
bool vr_os_bus_guard(const void *pages, uint64_t bytes);
void vr_os_bus_release(const void *pages);

/* code_source.c, on Linux: the code at file offset `place`; inode 0 accepts any. False: nothing is
   known. For tests. */
bool vr_os_source_in(const char *path, uint64_t inode, uint64_t place,
                     struct vr_code_source *source);

/* meminfo.c: vr_os_memory with `root` as a prefix of every path. */
void vr_os_memory_under(const char *root, vram_value *total, vram_value *available);

#endif
