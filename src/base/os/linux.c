/* SPDX-License-Identifier: Apache-2.0 */
/* linux.c: what only Linux with glibc has. meminfo.c, beside it, reads /proc and control groups. */
#include "base/os/platform.h"
#include "base/os/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* --------------------------------------------------------------- os.h: files */

vram_status vr_os_file_create(const char *name, int *fd) {
    int error = vr_os_fault();
    int got = error ? -1 : memfd_create(name, MFD_CLOEXEC);
    if (got < 0) {
        return vr_os_error(error ? error : errno, "memfd_create", 0);
    }
    *fd = got;
    return VRAM_OK;
}

vram_status vr_os_file_punch(int fd, uint64_t offset, uint64_t bytes) {
    VR_UNCANCELLED;
    int error = offset > INT64_MAX || bytes > INT64_MAX ? EFBIG : EINTR;
    while (error == EINTR) {
        int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        error = fallocate(fd, mode, (off_t)offset, (off_t)bytes) == 0 ? 0 : errno;
    }
    return error ? vr_os_error(error, "fallocate", bytes) : VRAM_OK;
}

int vr_os_file_allocate(int fd, uint64_t offset, uint64_t bytes) {
    VR_UNCANCELLED;
    int error = EINTR;
    while (error == EINTR) {
        error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    }
    return error;
}

/* ----------------------------------------------------------- os.h: threads */

#if defined(__SANITIZE_THREAD__)
#define BARRIER_IS_UNDERSTOOD false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BARRIER_IS_UNDERSTOOD false
#endif
#endif
#ifndef BARRIER_IS_UNDERSTOOD
#define BARRIER_IS_UNDERSTOOD true
#endif

static long membarrier_call(int command) {
    return syscall(SYS_membarrier, command, 0, 0);
}

bool vr_os_barrier_start(void) {
    return BARRIER_IS_UNDERSTOOD && membarrier_call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

bool vr_os_barrier(void) {
    return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

/* ------------------------------------------------------- os.h: environment */

const char *vr_os_environment(const char *name) {
    return secure_getenv(name);
}

char **vr_os_environment_all(void) {
    return getauxval(AT_SECURE) ? NULL : environ;
}

/* ----------------------------------------------------------------- platform.h */

vr_atomic_u64 *vr_os_fork_word(void) {
    size_t bytes = vr_os_page_bytes();
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    /* Some emulators accept any advice and ignore it: one that accepts invalid advice is not
       trusted with MADV_WIPEONFORK. */
    if (madvise(page, bytes, -1) == 0 || madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, bytes);
        return NULL;
    }
    return page;
}

void vr_os_pages_wipe(void *pages, uint64_t bytes) {
    (void)madvise(pages, (size_t)bytes, MADV_WIPEONFORK);
}

void vr_os_pages_enlarge(void *pages, uint64_t bytes) {
    (void)madvise(pages, (size_t)bytes, MADV_HUGEPAGE);
}

void vr_os_pages_keep(void *pages, uint64_t bytes) {
    (void)madvise(pages, (size_t)bytes, MADV_DONTFORK);
}

void vr_os_thread_name(const char *name) {
    (void)pthread_setname_np(pthread_self(), name);
}

int vr_os_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes); /* fills the struct; cannot fail in glibc */
    int error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = error ? error : pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return error;
}

int vr_os_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns) {
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    /* At most 584 years from now, so neither field can overflow. */
    uint64_t below = (uint64_t)until.tv_nsec + ns % UINT64_C(1000000000);
    until.tv_sec += (time_t)(ns / UINT64_C(1000000000) + below / UINT64_C(1000000000));
    until.tv_nsec = (long)(below % UINT64_C(1000000000));
    return pthread_cond_timedwait(cond, mutex, &until);
}

/* Ticks of the counter that last half a millisecond at most; 0: there is none, and a time is never
   reused. */
static uint64_t half_ticks(void) {
#if defined(__x86_64__)
    return UINT64_C(1) << 19; /* at 1 GHz or more */
#elif defined(__aarch64__)
    return vr_os_counter_rate() / 2048;
#else
    return 0;
#endif
}

/* If the counter was set back (another processor or machine), the difference is large, and the
   clock is read. */
uint64_t vr_os_now_recent(void) {
    static _Thread_local struct {
        uint64_t counter, now;
    } last __attribute__((tls_model("initial-exec")));
    uint64_t counter = vr_os_counter();
    if (__builtin_expect(counter - last.counter >= half_ticks(), 0)) {
        last.now = vr_os_now();
        last.counter = counter;
    }
    return last.now;
}

/* Linux has a clock that the timer interrupt advances; reading it is a memory read. Other systems
   that run Linux programs may implement it by the fine clock, which its resolution shows. */
static bool coarse_is_coarse(void) {
    static vr_atomic_u32 known; /* 1: no, 2: yes */
    uint32_t answer = vr_load(&known, VR_RELAXED);
    if (__builtin_expect(!answer, 0)) {
        struct timespec step = {0};
        answer =
            clock_getres(CLOCK_MONOTONIC_COARSE, &step) == 0 && !step.tv_sec && step.tv_nsec < 1000
                ? 1
                : 2;
        vr_store(&known, answer, VR_RELAXED);
    }
    return answer == 2;
}

uint64_t vr_os_now_coarse(void) {
    struct timespec now;
    if (!coarse_is_coarse()) {
        return vr_os_now_recent();
    }
    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void vr_os_stack_bounds(uintptr_t *low, uintptr_t *high) {
    pthread_attr_t attributes;
    void *start = NULL;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &start, &bytes);
        (void)pthread_attr_destroy(&attributes);
    }
    *low = (uintptr_t)start;
    *high = (uintptr_t)start + bytes;
}

int vr_os_event_pair(int fds[2]) {
    fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fds[0] < 0) {
        return errno;
    }
    fds[1] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    if (fds[1] >= 0) {
        return 0;
    }
    int error = errno;
    close(fds[0]);
    return error;
}

/* glibc calls these before the destructors of pthread keys. `object` keeps this library loaded.
   Other C libraries may have no such function. */
extern int __cxa_thread_atexit_impl(void (*end)(void *), void *argument, void *object)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

bool vr_os_thread_end_first(void (*end)(void *argument), void *argument) {
    return __cxa_thread_atexit_impl && !vr_os_fault() &&
           __cxa_thread_atexit_impl(end, argument, &__dso_handle) == 0;
}

/* The kernel's own format of an access list: version 2, and entries in the order of their tags.
   Both architectures store numbers as the format does. */
int vr_os_file_show(int fd, uint32_t user) {
    enum { OWNER = 1, USER = 2, GROUP = 4, MASK = 16, OTHERS = 32, READ = 4, WRITE = 2 };
    const uint32_t nobody = UINT32_MAX;
    const struct {
        uint32_t version;
        struct {
            uint16_t tag, rights;
            uint32_t user;
        } entries[5];
    } list = {2,
              {{OWNER, READ | WRITE, nobody},
               {USER, READ, user},
               {GROUP, 0, nobody},
               {MASK, READ, nobody},
               {OTHERS, 0, nobody}}};
    return fsetxattr(fd, "system.posix_acl_access", &list, sizeof list, 0) == 0 ? 0 : errno;
}
