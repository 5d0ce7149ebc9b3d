/* SPDX-License-Identifier: Apache-2.0 */
/*
 * system_call.h: system calls that fail in their turn. The linker leads the library's calls here
 * (WRAPS in CMakeLists.txt: the list is SYSTEM_CALLS there). Where the C library checks sizes it
 * calls by other names, so loops count what they reach instead of expecting a number.
 */
#ifndef TEST_SYSTEM_CALL_H
#define TEST_SYSTEM_CALL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Threads of the library read it while a test changes it. */
static struct {
    atomic_uint calls;              /* since the plan was made */
    atomic_uint nth;                /* the call that fails; 0: none */
    atomic_int error;               /* with this errno */
    _Atomic(const char *) failed;   /* the wrapper of the last one that did, for messages */
    atomic_bool clock;              /* the clock fails */
    _Atomic uint32_t owner;         /* files seem to be this user's; 0: whose they are */
    _Atomic(void (*)(void *)) peer; /* changes what getsockopt says */
} system_call;

/* Whether this call is the one; errno is set. */
static inline bool system_call_fails(const char *name) {
    if (atomic_fetch_add(&system_call.calls, 1) + 1 != system_call.nth) {
        return false;
    }
    system_call.failed = name;
    errno = system_call.error;
    return true;
}

static inline void system_call_plan(unsigned nth, int error) {
    system_call.nth = nth;
    system_call.error = error;
    atomic_store(&system_call.calls, 0);
}

/* Fails call 1, 2, 3 ... of `work` with each of these errors, which end with 0. */
static inline void system_call_each(void (*work)(void), void (*check)(void), const int *errors,
                                    unsigned step) {
    system_call_plan(0, 0);
    work();
    unsigned calls = atomic_load(&system_call.calls);
    check();
    for (; *errors; errors++) {
        for (unsigned nth = 1; nth <= calls; nth += step) {
            system_call_plan(nth, *errors);
            work();
            system_call.nth = 0;
            check();
        }
    }
}

#define SYSTEM_CALL(type, failed, name, parameters, arguments)                                     \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return system_call_fails(__func__) ? (failed) : __real_##name arguments;                   \
    }

SYSTEM_CALL(int, -1, fstat, (int file, struct stat *about), (file, about))
SYSTEM_CALL(int, -1, stat, (const char *path, struct stat *about), (path, about))
SYSTEM_CALL(int, -1, ftruncate, (int file, off_t bytes), (file, bytes))
SYSTEM_CALL(int, -1, flock, (int file, int how), (file, how))
SYSTEM_CALL(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
SYSTEM_CALL(int, -1, socket, (int family, int type, int protocol), (family, type, protocol))
SYSTEM_CALL(int, -1, bind, (int file, const struct sockaddr *to, socklen_t bytes),
            (file, to, bytes))
SYSTEM_CALL(int, -1, chmod, (const char *path, mode_t mode), (path, mode))
SYSTEM_CALL(int, -1, listen, (int file, int backlog), (file, backlog))
SYSTEM_CALL(int, -1, accept, (int file, struct sockaddr *from, socklen_t *bytes),
            (file, from, bytes))
SYSTEM_CALL(int, -1, connect, (int file, const struct sockaddr *to, socklen_t bytes),
            (file, to, bytes))
SYSTEM_CALL(ssize_t, -1, sendmsg, (int file, const struct msghdr *message, int flags),
            (file, message, flags))
SYSTEM_CALL(ssize_t, -1, recvmsg, (int file, struct msghdr *message, int flags),
            (file, message, flags))
SYSTEM_CALL(ssize_t, -1, read, (int file, void *to, size_t bytes), (file, to, bytes))
SYSTEM_CALL(ssize_t, -1, write, (int file, const void *from, size_t bytes), (file, from, bytes))
SYSTEM_CALL(ssize_t, -1, pread, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at))
SYSTEM_CALL(ssize_t, -1, getrandom, (void *to, size_t bytes, unsigned flags), (to, bytes, flags))
SYSTEM_CALL(int, -1, memfd_create, (const char *name, unsigned flags), (name, flags))
SYSTEM_CALL(int, -1, eventfd, (unsigned first, int flags), (first, flags))
SYSTEM_CALL(int, -1, sigaction,
            (int number, const struct sigaction *action, struct sigaction *before),
            (number, action, before))
SYSTEM_CALL(int, -1, kill, (pid_t process, int number), (process, number))
SYSTEM_CALL(int, -1, fsync, (int file), (file))
SYSTEM_CALL(int, -1, rename, (const char *from, const char *to), (from, to))
SYSTEM_CALL(void *, MAP_FAILED, mmap,
            (void *at, size_t bytes, int access, int flags, int file, off_t offset),
            (at, bytes, access, flags, file, offset))
SYSTEM_CALL(int, errno, pthread_cond_init, (pthread_cond_t * cond, const pthread_condattr_t *how),
            (cond, how))

SYSTEM_CALL(int, errno, pthread_condattr_setclock, (pthread_condattr_t * how, clockid_t clock),
            (how, clock))
SYSTEM_CALL(int, errno, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * actions),
            (actions))
SYSTEM_CALL(int, errno, posix_spawn_file_actions_addopen,
            (posix_spawn_file_actions_t * actions, int file, const char *path, int flags,
             mode_t mode),
            (actions, file, path, flags, mode))
SYSTEM_CALL(int, errno, posix_spawnattr_init, (posix_spawnattr_t * attributes), (attributes))
SYSTEM_CALL(int, errno, posix_spawnattr_setsigmask,
            (posix_spawnattr_t * attributes, const sigset_t *set), (attributes, set))
SYSTEM_CALL(int, errno, posix_spawnattr_setsigdefault,
            (posix_spawnattr_t * attributes, const sigset_t *set), (attributes, set))
SYSTEM_CALL(int, errno, posix_spawnattr_setflags, (posix_spawnattr_t * attributes, short flags),
            (attributes, flags))
SYSTEM_CALL(pid_t, -1, waitpid, (pid_t process, int *state, int flags), (process, state, flags))
SYSTEM_CALL(int, -1, uname, (struct utsname * system), (system))
SYSTEM_CALL(int, -1, sched_getaffinity, (pid_t process, size_t bytes, cpu_set_t *set),
            (process, bytes, set))
SYSTEM_CALL(int, -1, sched_setaffinity, (pid_t process, size_t bytes, const cpu_set_t *set),
            (process, bytes, set))
SYSTEM_CALL(int, -1, madvise, (void *at, size_t bytes, int advice), (at, bytes, advice))
SYSTEM_CALL(int, -1, getrlimit, (__rlimit_resource_t what, struct rlimit *limit), (what, limit))
SYSTEM_CALL(int, errno, pthread_getattr_np, (pthread_t thread, pthread_attr_t *attributes),
            (thread, attributes))
SYSTEM_CALL(ssize_t, -1, pwrite, (int file, const void *from, size_t bytes, off_t at),
            (file, from, bytes, at))
SYSTEM_CALL(int, errno, pthread_create,
            (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *),
             void *user),
            (thread, attributes, run, user))
SYSTEM_CALL(DIR *, NULL, opendir, (const char *path), (path))

int __real_lstat(const char *path, struct stat *about);
int __wrap_lstat(const char *path, struct stat *about);
int __wrap_lstat(const char *path, struct stat *about) {
    int answer = system_call_fails(__func__) ? -1 : __real_lstat(path, about);
    if (answer == 0 && system_call.owner) {
        about->st_uid = system_call.owner;
    }
    return answer;
}

int __real_getsockopt(int file, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int file, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int file, int level, int name, void *value, socklen_t *bytes) {
    int answer =
        system_call_fails(__func__) ? -1 : __real_getsockopt(file, level, name, value, bytes);
    void (*peer)(void *) = system_call.peer;
    if (answer == 0 && peer) {
        peer(value);
    }
    return answer;
}

/* It does not count: loops that wait read it any number of times. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    return system_call.clock ? -1 : __real_clock_gettime(clock, now);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    return system_call_fails(__func__) ? -1 : __real_open(path, flags, mode);
}

/* Flags of an open descriptor can always be set. */
int __real_fcntl(int file, int what, ...);
int __wrap_fcntl(int file, int what, ...);
int __wrap_fcntl(int file, int what, ...) {
    va_list list;
    va_start(list, what);
    long argument = va_arg(list, long);
    va_end(list);
    bool flags = what == F_SETFD || what == F_SETFL;
    return !flags && system_call_fails(__func__) ? -1 : __real_fcntl(file, what, argument);
}

#endif
