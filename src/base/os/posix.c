/* SPDX-License-Identifier: Apache-2.0 */
/*
 * posix.c: what Linux and macOS have in common: pages, files in memory once they are open, threads,
 * time, standard error and shared libraries.
 */
#include "base/os/platform.h"
#include "base/size.h"

#include <assert.h>
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

#define RESERVED_FLAGS (MAP_PRIVATE | MAP_ANON | MAP_NORESERVE)
#define TRANSFER_MAX   (UINT64_C(1) << 30) /* bytes in one read or write; systems stop below 2 GiB */

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

/* mmap with the fault plan in front and an errno for an answer. */
static int map(uint64_t bytes, int access, int flags, void **pages) {
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

vram_status vr_os_pages_alloc(uint64_t bytes, void **pages) {
    int error = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, pages);
    return error ? vr_os_error(error, "mmap", bytes) : VRAM_OK;
}

/* Gives back the ends of a reservation that was made larger so as to contain an aligned part. */
static void *trim(char *pages, uint64_t total, uint64_t bytes, uint64_t align) {
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
    int error = map(total, PROT_NONE, RESERVED_FLAGS, &got);
    if (error) {
        return vr_os_error(error, "mmap", bytes);
    }
    *pages = slack ? trim(got, total, bytes, align) : got;
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

vram_status vr_os_pages_access(void *pages, uint64_t bytes) {
    int error = vr_os_fault();
    if (!error && mprotect(pages, (size_t)bytes, PROT_READ | PROT_WRITE) != 0) {
        error = errno;
    }
    return error ? vr_os_error(error, "mprotect", bytes) : VRAM_OK;
}

vram_status vr_os_pages_unmap(void *pages, uint64_t bytes) {
    if (mmap(pages, (size_t)bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED, -1, 0) == MAP_FAILED) {
        return vr_os_error(errno, "mmap", bytes);
    }
    return VRAM_OK;
}

/* -------------------------------------------------------- files in memory */

void vr_os_file_close(int fd) {
    VR_UNCANCELLED;
    /* Not repeated on EINTR: the descriptor is gone then, and its number may be another's. */
    (void)close(fd);
}

/* A file that grows past the limit on file sizes would bring SIGXFSZ upon the process, also a file
   in memory. So the limit is looked at first. */
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

/* Reads into `to` or, where that is NULL, writes from `from`; an errno. */
static int transfer(int fd, uint64_t offset, char *to, const char *from, uint64_t bytes) {
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
    error = error ? error : transfer(fd, offset, to, NULL, bytes);
    return error ? vr_os_error(error, "pread", bytes) : VRAM_OK;
}

vram_status vr_os_file_write(int fd, uint64_t offset, const void *from, uint64_t bytes) {
    int error = vr_os_fault();
    error = error ? error : transfer(fd, offset, NULL, from, bytes);
    return error ? vr_os_error(error, "pwrite", bytes) : VRAM_OK;
}

/* The system may have taken the reserved pages away before it found that it could not map the file
   there. They are reserved again, so that nothing else is ever put in the middle of a range. */
vram_status vr_os_file_map(int fd, uint64_t offset, void *pages, uint64_t bytes) {
    int error = vr_os_fault();
    if (!error && mmap(pages, (size_t)bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd,
                       (off_t)offset) == MAP_FAILED) {
        error = errno;
        (void)mmap(pages, (size_t)bytes, PROT_NONE, RESERVED_FLAGS | MAP_FIXED, -1, 0);
    }
    if (error) {
        return vr_os_error(error, "mmap", bytes);
    }
    vr_os_pages_keep(pages, bytes);
    return VRAM_OK;
}

/* ------------------------------------------------------------------ threads */

static pthread_key_t end_key;
static bool end_key_made;

bool vr_os_thread_end_start(void (*end)(void *value)) {
    end_key_made = pthread_key_create(&end_key, end) == 0;
    return end_key_made;
}

void vr_os_thread_end_set(void *value) {
    if (end_key_made) {
        (void)pthread_setspecific(end_key, value);
    }
}

uint64_t vr_os_process_id(void) {
    return (uint64_t)getpid();
}

/* Neither addresses nor the system's own numbers will do: both are used again. */
_Thread_local uint64_t vr_os_thread_own __attribute__((tls_model("initial-exec")));

uint64_t vr_os_thread_number_first(void) {
    static vr_atomic_u64 last;
    vr_os_thread_own = vr_fetch_add(&last, 1, VR_RELAXED) + 1;
    return vr_os_thread_own;
}

static _Thread_local struct {
    uint32_t depth;
    int before; /* state before the outermost call */
} cancellation;

bool vr_os_cancel_off(void) {
    if (cancellation.depth++ == 0) {
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation.before);
    }
    return true;
}

void vr_os_cancel_on(const bool *unused) {
    (void)unused;
    if (--cancellation.depth == 0) {
        int off;
        (void)pthread_setcancelstate(cancellation.before, &off);
    }
}

static void *thread_main(void *argument) {
    struct vr_thread *thread = argument;
    vr_os_thread_name(thread->name);
    thread->run(thread->argument);
    return NULL;
}

/* Signals are the program's business: with all of them blocked while the thread is created, it
   inherits that, and no handler of the program ever runs on a thread it does not know. */
static int thread_create(struct vr_thread *thread) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t native;
    int error = pthread_create(&native, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) {
        thread->native = (uintptr_t)native;
    }
    return error;
}

vram_status vr_os_thread_start(struct vr_thread *thread, const char *name, void (*run)(void *),
                               void *argument) {
    *thread = (struct vr_thread){.run = run, .argument = argument};
    snprintf(thread->name, sizeof thread->name, "%s", name);
    int error = vr_os_fault();
    error = error ? error : thread_create(thread);
    if (error) {
        return vr_os_error(error, "pthread_create", 0);
    }
    thread->running = true;
    return VRAM_OK;
}

void vr_os_thread_join(struct vr_thread *thread) {
    VR_UNCANCELLED;
    if (thread->running) {
        (void)pthread_join((pthread_t)thread->native, NULL);
        thread->running = false;
    }
}

void vr_os_thread_detach(struct vr_thread *thread) {
    if (thread->running) {
        (void)pthread_detach((pthread_t)thread->native);
        thread->running = false;
    }
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

static vr_atomic_bool exiting;

void vr_os_exit_begins(void) {
    vr_store(&exiting, true, VR_RELEASE);
}

bool vr_os_exiting(void) {
    return vr_load(&exiting, VR_ACQUIRE);
}

void *vr_os_library_open(const char *name, char *why, size_t why_bytes) {
    VR_UNCANCELLED;
    struct stat about;
    if (name && strchr(name, '/') && stat(name, &about) == 0 && !S_ISREG(about.st_mode)) {
        snprintf(why, why_bytes, "%s: it is no plain file", name); /* the loader may wait for it */
        return NULL;
    }
    /* An empty name would mean the program itself. */
    void *library = name && *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        const char *reason = name && *name ? dlerror() : "no file name";
        snprintf(why, why_bytes, "%s", reason ? reason : "unknown reason");
    }
    return library;
}

void *vr_os_library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

void vr_os_library_close(void *library) {
    VR_UNCANCELLED;
    if (library) {
        (void)dlclose(library);
    }
}
