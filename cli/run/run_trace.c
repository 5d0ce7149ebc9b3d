/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_trace.c: see run_trace.h.
 */
#include "run_trace.h"
#include "environment.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_BYTES = 128 << 10 }; /* about what the library makes room for at its first event */

/* 0, or why a file cannot be written; closes it. Another program holds a lock while it writes. */
static int descriptor_error(int fd, bool fresh) {
    struct stat about;
    int error = fstat(fd, &about) != 0 ? errno : S_ISREG(about.st_mode) ? 0 : ESPIPE;
    if (error == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        error = errno == EWOULDBLOCK ? ETXTBSY : errno;
    }
    if (error == 0 && fresh) { /* what is there already gives its room back */
        error = posix_fallocate(fd, 0, FIRST_BYTES);
        error = error == ENOSPC || error == EDQUOT || error == EFBIG ? error : 0;
    }
    close(fd);
    return error;
}

/* The same of a folder: a file of any name. */
static int folder_error(const char *folder) {
    char path[RUN_PATH + 16];
    snprintf(path, sizeof path, "%s/.vram-XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0) {
        return errno;
    }
    unlink(path);
    return descriptor_error(fd, true);
}

/* The same of a file, which is left as it was. */
static int file_error(const char *path) {
    const int flags = O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd = open(path, flags | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) {
        unlink(path);
        return descriptor_error(fd, true);
    }
    if (errno != EEXIST) {
        return errno;
    }
    fd = open(path, flags);
    if (fd < 0) {
        return errno == ENOENT ? 0 : errno; /* a link to nothing: its file will be made */
    }
    return descriptor_error(fd, false);
}

/* The same of a path in which the library replaces %p and %h: then its folder is what is known. */
static int pattern_error(const char *path) {
    char folder[RUN_PATH];
    const char *name = strrchr(path, '/') + 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    if (strcmp(path, "/dev/null") == 0 || strstr(folder, "%p") || strstr(folder, "%h")) {
        return 0;
    }
    if (strstr(name, "%p") || strstr(name, "%h")) {
        return folder_error(folder);
    }
    return *name != 0 ? file_error(path) : EISDIR;
}

static const char *error_text(int error) {
    return error == ESPIPE    ? "it is not a plain file"
           : error == ETXTBSY ? "another program writes it now"
                              : strerror(error);
}

/* The report is made from the trace: where the working folder takes none, another one does. */
static void folder_choose(char folder[RUN_PATH]) {
    const char *const others[] = {environment_get("TMPDIR"), "/tmp", "/dev/shm"};
    int error = folder_error(folder);
    for (size_t i = 0; i < sizeof others / sizeof others[0] && error != 0; i++) {
        if (others[i] != NULL && others[i][0] == '/' && strlen(others[i]) < RUN_PATH &&
            folder_error(others[i]) == 0) {
            say_warning("%.200s cannot be written; the trace goes to %.200s", folder, others[i]);
            snprintf(folder, RUN_PATH, "%s", others[i]);
            return;
        }
    }
    if (error != 0) {
        say_warning("no folder takes the trace (%.200s: %s): the report will say little; name a "
                    "file with -o",
                    folder, strerror(error));
    }
}

bool run_trace_choose(char to[RUN_PATH], const char *wanted, const char *program) {
    char folder[RUN_PATH] = "";
    const char *slash = strrchr(program, '/');
    bool absolute = wanted != NULL && wanted[0] == '/';
    if (!absolute && getcwd(folder, sizeof folder - 1) == NULL) {
        say_error("the working folder is gone: %s", strerror(errno));
        return false;
    }
    if (wanted == NULL) {
        folder_choose(folder);
    }
    int bytes = wanted != NULL
                    ? snprintf(to, RUN_PATH, "%s%s%s", folder, absolute ? "" : "/", wanted)
                    : snprintf(to, RUN_PATH, "%s/vram.%s.%%p.vrt", folder,
                               slash != NULL ? slash + 1 : program);
    if (bytes < 0 || bytes >= RUN_PATH) {
        say_error("--output=%.200s: the path is too long", wanted != NULL ? wanted : program);
        return false;
    }
    int error = wanted != NULL ? pattern_error(to) : 0;
    if (error != 0) {
        say_error("--output=%.200s: the trace cannot be written: %s", wanted, error_text(error));
        return false;
    }
    return true;
}
