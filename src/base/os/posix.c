/* SPDX-License-Identifier: Apache-2.0 */
/*
 * posix.c: what Linux and macOS have in common: pages, time, the process and its cancellation,
 * standard error and shared libraries. See memory_file.c for files in memory, os_thread.c for
 * threads.
 */
#include "base/os/platform.h"
#include "base/size.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(size_t) == 8 && sizeof(off_t) == 8, "sizes and offsets have 64 bits");

/* -------------------------------------------------------------------- pages */

size_t vr_os_page_bytes(void) {
    static vr_atomic_u64 cached;
    uint64_t bytes = vr_load(&cached, VR_RELAXED);
    if (bytes == 0) {
        long answer = sysconf(_SC_PAGESIZE);
        bytes = answer > 0 ? (uint64_t)answer : 4096;
        vr_store(&cached, bytes, VR_RELAXED);
    }
    return (size_t)bytes;
}

/* mmap with the fault plan applied first; returns an errno. */
static int pages_map(uint64_t bytes, int access, int flags, void **pages) {
    int error = vr_os_fault();
    if (error) {
        return error;
    }
    void *got = mmap(NULL, (size_t)bytes, access, flags, -1, 0);
    if (got == MAP_FAILED) {
        return errno;
    }
    *pages = got;
    return 0;
}

static vram_status pages_alloc(uint64_t bytes, int sharing, void **pages) {
    int error = pages_map(bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANON, pages);
    return error ? vr_os_error(error, "mmap", bytes) : VRAM_OK;
}

vram_status vr_os_pages_alloc(uint64_t bytes, void **pages) {
    return pages_alloc(bytes, MAP_PRIVATE, pages);
}

vram_status vr_os_pages_alloc_shared(uint64_t bytes, void **pages) {
    return pages_alloc(bytes, MAP_SHARED, pages);
}

/* Unmaps the ends of a reservation that was enlarged to contain an aligned part. */
static void *pages_trim(char *pages, uint64_t total, uint64_t bytes, uint64_t align) {
    uint64_t head = (align - (uintptr_t)pages % align) % align;
    uint64_t tail = total - bytes - head;
    if (head) {
        (void)munmap(pages, (size_t)head);
    }
    if (tail) {
        (void)munmap(pages + head + bytes, (size_t)tail);
    }
    return pages + head;
}

vram_status vr_os_pages_reserve(uint64_t bytes, uint64_t align, void **pages) {
    assert(vr_is_power_of_two(align));
    uint64_t page = vr_os_page_bytes();
    uint64_t slack = align > page ? align - page : 0;
    uint64_t total;
    if (!vr_add(bytes, slack, &total)) {
        return vr_os_error(ENOMEM, "mmap", bytes);
    }
    void *got = NULL;
    int error = pages_map(total, PROT_NONE, VR_OS_RESERVED, &got);
    if (error) { /* valgrind reports EINVAL for a length that is too large */
        return vr_os_error(error == EINVAL ? ENOMEM : error, "mmap", bytes);
    }
    *pages = slack ? pages_trim(got, total, bytes, align) : got;
    return VRAM_OK;
}

vram_status vr_os_pages_free(void *pages, uint64_t bytes) {
    if (munmap(pages, (size_t)bytes) != 0) {
        return vr_os_error(errno, "munmap", bytes);
    }
    return VRAM_OK;
}

vram_status vr_os_pages_lock(void *pages, uint64_t bytes) {
    int error = vr_os_fault();
    if (!error && mlock(pages, (size_t)bytes) != 0) {
        error = errno;
    }
    if (error == EPERM || error == ENOMEM || error == EAGAIN) {
        return vr_os_error_as(VRAM_ERR_LIMIT, error, "mlock", bytes);
    }
    return error ? vr_os_error(error, "mlock", bytes) : VRAM_OK;
}

void vr_os_pages_unlock(void *pages, uint64_t bytes) {
    (void)munlock(pages, (size_t)bytes);
}

static vram_status pages_protect(void *pages, uint64_t bytes, int allowed) {
    int error = vr_os_fault();
    if (!error && mprotect(pages, (size_t)bytes, allowed) != 0) {
        error = errno;
    }
    return error ? vr_os_error(error, "mprotect", bytes) : VRAM_OK;
}

vram_status vr_os_pages_access(void *pages, uint64_t bytes) {
    return pages_protect(pages, bytes, PROT_READ | PROT_WRITE);
}

vram_status vr_os_pages_read_only(void *pages, uint64_t bytes) {
    return pages_protect(pages, bytes, PROT_READ);
}

vram_status vr_os_pages_unmap(void *pages, uint64_t bytes) {
    if (mmap(pages, (size_t)bytes, PROT_NONE, VR_OS_RESERVED | MAP_FIXED, -1, 0) == MAP_FAILED) {
        return vr_os_error(errno, "mmap", bytes);
    }
    return VRAM_OK;
}

/* --------------------------------------------------------------------- time */

uint64_t vr_os_now(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void vr_os_sleep(uint64_t ns) {
    VR_UNCANCELLED;
    struct timespec left = {.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
                            .tv_nsec = (long)(ns % UINT64_C(1000000000))};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* ------------------------------------------------------------------ process */

uint64_t vr_os_process_id(void) {
    return (uint64_t)getpid();
}

void vr_os_program_name(char *name, size_t capacity) {
#ifdef __APPLE__
    const char *own = getprogname();
#else
    const char *own = program_invocation_short_name;
#endif
    (void)snprintf(name, capacity, "%s", own ? own : "");
}

_Thread_local struct vr_os_cancellation vr_os_cancellation
    __attribute__((tls_model("initial-exec")));

void vr_os_cancel_off_first(void) {
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &vr_os_cancellation.before);
}

void vr_os_cancel_on_last(void) {
    int off;
    (void)pthread_setcancelstate(vr_os_cancellation.before, &off);
}

void vr_os_yield(void) {
    (void)sched_yield();
}

void vr_os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

void vr_os_stderr(const char *text, size_t bytes) {
    VR_UNCANCELLED;
    while (write(STDERR_FILENO, text, bytes) < 0 && errno == EINTR) {
    }
}

vram_status vr_os_at_exit(void (*fn)(void)) {
    int error = vr_os_fault();
    if (!error && atexit(fn) != 0) {
        error = ENOMEM;
    }
    return error ? vr_os_error(error, "atexit", 0) : VRAM_OK;
}

vr_atomic_bool vr_os_exit_began;

void vr_os_exit_begins(void) {
    vr_store(&vr_os_exit_began, true, VR_SEQ_CST);
}

void *vr_os_library_open(const char *name, char *why, size_t why_bytes) {
    VR_UNCANCELLED;
    struct stat about;
    if (name && strchr(name, '/') && stat(name, &about) == 0 && !S_ISREG(about.st_mode)) {
        snprintf(why, why_bytes, "%s: not a plain file", name); /* the loader could block on it */
        return NULL;
    }
    /* An empty name would open the program itself. */
    void *library = name && *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        const char *reason = name && *name ? dlerror() : "no file name";
        snprintf(why, why_bytes, "%s", reason ? reason : "unknown reason");
    }
    return library;
}

bool vr_os_library_is_loaded(const char *name) {
    VR_UNCANCELLED;
    void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        dlclose(library);
    }
    return library != NULL;
}

bool vr_os_folder_has_entries(const char *path) {
    VR_UNCANCELLED;
    DIR *folder = opendir(path);
    bool found = false;
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    if (folder) {
        closedir(folder);
    }
    return found;
}

void *vr_os_library_symbol(void *library, const char *name) {
    return dlsym(library ? library : RTLD_DEFAULT, name);
}

void vr_os_library_close(void *library) {
    VR_UNCANCELLED;
    if (library) {
        (void)dlclose(library);
    }
}
