/* SPDX-License-Identifier: Apache-2.0 */
/*
 * starved.c: stands between the command and the C library in a build of the command that must
 * survive a system that has nothing left. The linker's --wrap puts these in the place of the calls
 * that ask for memory, files, threads and processes, and counts them.
 *
 *     STARVE_CALL=N       the N-th of these calls fails, as it does when the system has no more;
 *     STARVE_FOREVER=1    and every one behind it;
 *     STARVE_LIST=FILE    none fails; the number of each that has a call stack of its own is
 *                         written to FILE, so that a test need not fail the same place twice.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, ...);

enum { FRAMES_MAX = 24, STACKS_MAX = 1 << 16 };

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static uint64_t calls;
static bool ending; /* exit was called: what the compiler's runtime does then is not counted */
static uint64_t stacks[STACKS_MAX]; /* hashes of the call stacks seen, in a table with open ends */

/* Whether no earlier call had this call stack. Where there is no backtrace, every call is new. */
static bool is_new_stack(void) {
#ifdef __GLIBC__
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < count; i++) {
        hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(1099511628211);
    }
    hash |= 1; /* 0 is an empty place */
    size_t place = (size_t)(hash >> 20) % STACKS_MAX;
    for (size_t i = 0; i < STACKS_MAX; i++, place = (place + 1) % STACKS_MAX) {
        if (stacks[place] == hash) {
            return false;
        }
        if (stacks[place] == 0) {
            stacks[place] = hash;
            return true;
        }
    }
#endif
    return true;
}

static void end_count(void) {
    ending = true;
}

/* The first handler of exit to be set is the last to be called. */
__attribute__((constructor)) static void begin_count(void) {
    if (atexit(end_count) != 0) {
        abort();
    }
}

static void list_call(const char *path, uint64_t call) {
    static int list = -1;
    if (list < 0) {
        list = __real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (list < 0 || (is_new_stack() && dprintf(list, "%llu\n", (unsigned long long)call) < 0)) {
        abort();
    }
}

/* Counts a call. True if it is one that fails. */
static bool starves(void) {
    if (ending) {
        return false;
    }
    const char *wish = getenv("STARVE_CALL");
    const char *path = getenv("STARVE_LIST");
    uint64_t wanted = wish != NULL ? strtoull(wish, NULL, 10) : 0;
    pthread_mutex_lock(&counting);
    uint64_t call = ++calls;
    if (path != NULL) {
        list_call(path, call);
    }
    pthread_mutex_unlock(&counting);
    bool later = call > wanted && getenv("STARVE_FOREVER") != NULL;
    bool fails = wanted != 0 && (call == wanted || later);
    if (fails) {
        errno = ENOMEM;
    }
    return fails;
}

/* A function that gives a pointer, or NULL and errno. */
#define STARVED(name, parameters, arguments)                                                       \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        return starves() ? NULL : __real_##name arguments;                                         \
    }

STARVED(malloc, (size_t bytes), (bytes))
STARVED(calloc, (size_t count, size_t bytes), (count, bytes))
STARVED(realloc, (void *memory, size_t bytes), (memory, bytes))
STARVED(aligned_alloc, (size_t to, size_t bytes), (to, bytes))
STARVED(strdup, (const char *text), (text))
STARVED(open_memstream, (char **text, size_t *bytes), (text, bytes))
STARVED(fopen, (const char *path, const char *mode), (path, mode))
STARVED(fdopen, (int file, const char *mode), (file, mode))
STARVED(tmpfile, (void), ())
STARVED(opendir, (const char *path), (path))
STARVED(realpath, (const char *path, char *to), (path, to))

/* A function that gives -1 and errno. */
#define REFUSED(name, parameters, arguments)                                                       \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters {                                                                 \
        return starves() ? -1 : __real_##name arguments;                                           \
    }

REFUSED(pipe, (int ends[2]), (ends))
REFUSED(pipe2, (int ends[2], int flags), (ends, flags))
REFUSED(fork, (void), ())
REFUSED(socket, (int family, int type, int protocol), (family, type, protocol))
REFUSED(socketpair, (int family, int type, int protocol, int ends[2]),
        (family, type, protocol, ends))
REFUSED(mkstemp, (char *path), (path))
REFUSED(ftruncate, (int file, off_t bytes), (file, bytes))

/* With its mode, whether there is one or not: the C library ignores it then. */
int __wrap_open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return starves() ? -1 : __real_open(path, flags, mode);
}

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *with) {
    return starves() ? EAGAIN : __real_pthread_create(thread, attributes, run, with);
}
