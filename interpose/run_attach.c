/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_attach.c: see run_attach.h.
 *
 * The descriptor is what reaches the page as another user and in other namespaces. A program may
 * close all descriptors before it starts the one that changes user or namespace (Python's
 * subprocess does): so whoever finds the page by its path puts the descriptor back for its
 * successors. Who has neither tells `vram run`, by a socket that a program in a network namespace
 * of its own does not reach.
 */
#include "run_attach.h"

#include "base/lock.h"
#include "base/os/os.h"
#include "base/text.h"
#include "run_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct vr_once attach_once = VR_ONCE_INIT;
static struct run_page *page;
static const char *page_path;       /* NULL: not known before the environment */
static const char *trace_given;     /* the same of the trace's */
static char trace_wanted[RUN_PATH]; /* a copy: programs write over their environment. "": none */

static struct run_page *page_map(int fd) {
    struct stat about;
    bool good = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                about.st_size >= (off_t)sizeof(struct run_page);
    void *bytes =
        good ? mmap(NULL, sizeof(struct run_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
             : MAP_FAILED;
    struct run_page *found = bytes != MAP_FAILED ? bytes : NULL;
    if (found && (found->magic != RUN_PAGE_MAGIC || found->version != RUN_PAGE_VERSION ||
                  found->bytes != sizeof *found)) {
        munmap(found, sizeof *found);
        found = NULL;
    }
    return found;
}

/* Only the user's own: another one could have put a file there. The descriptor gets the number
   `inherited` if that is free; -1: none. */
static struct run_page *page_open(const char *path, int inherited) {
    struct stat about;
    bool of_process = strncmp(path, "/proc/", 6) == 0; /* a link of the kernel's */
    int fd = open(path, O_RDWR | O_CLOEXEC | (of_process ? 0 : O_NOFOLLOW));
    bool own = fd >= 0 && fstat(fd, &about) == 0 && about.st_uid == geteuid();
    struct run_page *found = own ? page_map(fd) : NULL;
    if (found && inherited >= 0 && fcntl(inherited, F_GETFD) < 0) {
        int again = fcntl(fd, F_DUPFD, inherited);
        if (again >= 0 && again != inherited) {
            close(again);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

/* `vram run` cannot know of a program that does not find the page. A program that outlives it and
   starts others says nothing: there is no run any more. */
static void loss_tell(const char *name, size_t bytes, bool denied) {
    static const char text[] = "vram run: a program that is another user's or in a container lost "
                               "the descriptor of the page: nothing of it is recorded, and no "
                               "limit holds for it\n";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    bool told = false;
    if (bytes > 0 && bytes < sizeof to.sun_path) {
        memcpy(to.sun_path + 1, name, bytes); /* no file: an abstract name */
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
        told = fd >= 0 && (sendto(fd, "", 1, MSG_DONTWAIT, (struct sockaddr *)&to, length) >= 0 ||
                           errno == EAGAIN);
        if (fd >= 0) {
            close(fd);
        }
    }
    if (told || denied) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
    }
}

static void page_attach(void) {
    const char *path = page_path ? page_path : vr_os_environment(RUN_PAGE_VARIABLE);
    const char *trace = trace_given ? trace_given : vr_os_environment(RUN_TRACE_VARIABLE);
    const char *name = path;
    char *behind = NULL;
    int inherited = -1;
    if (!trace || !vr_text_copy(trace_wanted, sizeof trace_wanted, trace)) {
        trace_wanted[0] = 0;
    }
    long fd = path ? strtol(path, &behind, 10) : 0;
    if (path && behind != path && *behind == ':') { /* inherited, so nobody else put it there */
        name = behind + 1;
        path = strchr(name, '/') ? strchr(name, '/') : name;
        inherited = fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
        page = inherited >= 0 ? page_map(inherited) : NULL;
    }
    errno = 0;
    if (!page && path && *path && !(page = page_open(path, inherited))) {
        bool denied = errno == EACCES || errno == EPERM;
        loss_tell(name, path > name ? (size_t)(path - name) - 1 : 0, denied);
    }
}

void run_page_path(const char *path) {
    page_path = path;
}

void run_trace_path(const char *path) {
    trace_given = path;
}

struct run_page *run_page_attach(void) {
    vr_once(&attach_once, page_attach);
    return page;
}

const struct run_page *run_page_get(void) {
    return run_page_attach();
}

const char *run_trace_wanted(void) {
    return trace_wanted[0] ? trace_wanted : NULL;
}
