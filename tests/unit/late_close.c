/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late_close.c: close() for tests that have two remotes in one process: the number of a closed
 * descriptor is free again only after many others were closed.
 *
 * UCX 1.13 keeps the number of a closed connection in its worker's list of missed events. If
 * another worker of the process gets the number meanwhile, it fails its assertion `handler->async
 * == async` and ends the process, once in hundreds of runs. Later versions forget such events.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LATE = 128 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int late[LATE]; /* numbers that stand for nothing, and are taken; 0: none */
static unsigned next;
static int nothing = -1; /* what they stand for meanwhile */

static bool is_late(int fd) {
    for (unsigned i = 0; i < LATE; i++) {
        if (late[i] == fd) {
            return true;
        }
    }
    return false;
}

/* What was open under the number is closed at once. */
static bool close_late(int fd) {
    if (fd <= STDERR_FILENO || nothing < 0 || fcntl(fd, F_GETFD) < 0 ||
        dup3(nothing, fd, O_CLOEXEC) < 0) {
        return false;
    }
    int oldest = late[next];
    late[next] = fd;
    next = (next + 1) % LATE;
    if (oldest) {
        (void)syscall(SYS_close, oldest);
    }
    return true;
}

__attribute__((visibility("default"))) int close(int fd) {
    int result = 0;
    pthread_mutex_lock(&lock);
    nothing = nothing < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : nothing;
    if (is_late(fd)) {
        errno = EBADF;
        result = -1;
    } else if (!close_late(fd)) {
        result = (int)syscall(SYS_close, fd);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
