/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c: see output.h.
 */
#include "output.h"
#include "terminal.h"
#include "verb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MESSAGE_MAX = 1024,     /* bytes of one message; of longer ones the middle is left out, */
    MESSAGE_TEXT_MAX = 8192 /* and what is beyond these */
};

/*
 * open gives the lowest free descriptor, and the lower ones are taken by then, so /dev/null lands
 * exactly where the hole is. It is opened for the wrong direction: writes to a stdout that was
 * closed must fail, not vanish.
 */
static void descriptors_fill(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) {
            if (open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) != descriptor) {
                _exit(EXIT_MISUSE);
            }
        }
    }
}

/* What these signals did when the command was started. */
static void (*file_limit_was)(int), (*child_end_was)(int);

void output_start(void) {
    descriptors_fill();
    file_limit_was = signal(SIGXFSZ, SIG_IGN);
    child_end_was = signal(SIGCHLD, SIG_DFL);
}

void output_start_program(void) {
    signal(SIGXFSZ, file_limit_was == SIG_IGN ? SIG_IGN : SIG_DFL);
    signal(SIGCHLD, child_end_was == SIG_IGN ? SIG_IGN : SIG_DFL);
}

FILE *output_create(const char *path) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (descriptor >= 0 && !file) {
        int reason = errno;
        struct stat about;
        if (fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode)) {
            unlink(path); /* an empty file is no part of what was asked for */
        }
        close(descriptor);
        errno = reason;
    }
    return file;
}

static bool cut; /* output_cut was called */

void *output_alloc(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        output_cut();
    }
    return memory;
}

void output_cut(void) {
    if (!cut) {
        say_error("out of host memory: what is written lacks a part");
    }
    cut = true;
}

bool output_is_whole(void) {
    return !cut;
}

static bool beside_program;

void output_beside_program(void) {
    beside_program = true;
    signal(SIGPIPE, SIG_IGN);
}

bool output_finish(void) {
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fclose(stdout) == 0 && !failed) {
        return output_is_whole() || beside_program;
    }
    say_error("cannot write to standard output%s%s", errno != 0 ? ": " : "",
              errno != 0 ? strerror(errno) : "");
    return beside_program;
}

static void say(const char *kind, const char *format, va_list arguments) {
    char message[MESSAGE_TEXT_MAX];
    const int part = MESSAGE_MAX / 2 - 2;
    vsnprintf(message, sizeof message, format, arguments);
    size_t bytes = strlen(message);
    if (bytes >= MESSAGE_MAX) { /* the reason mostly stands behind the value that is too long */
        memset(message + part, '.', 3);
        memmove(message + part + 3, message + bytes - part, (size_t)part + 1);
    }
    text_sanitize(message);
    fflush(stdout); /* so that what was printed before stands before it */
    fprintf(stderr, "vram: %s%s\n", kind, message);
}

void say_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("", format, arguments);
    va_end(arguments);
}

void say_warning(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("warning: ", format, arguments);
    va_end(arguments);
}

const char *failure_text(vram_status status) {
    const vram_error *error = vram_error_get();
    bool recorded = error->status == status && error->text[0] != 0;
    return recorded ? error->text : vram_status_text(status);
}

int say_failure(const char *doing, vram_status status) {
    say_error("%s: %s (%s)", doing, failure_text(status), vram_status_name(status));
    return EXIT_MISUSE;
}

void output_json_begin(struct json_out *json, const char *schema) {
    json_begin(json, stdout);
    json_object_begin(json, NULL);
    json_text(json, "schema", schema);
    json_text(json, "version", vram_version_text());
}

/*
 * output_finish reports a failed write, once and with its cause: here only a document that is wrong
 * in itself is reported.
 */
bool output_json_end(struct json_out *json) {
    json_object_end(json);
    const char *mistake = json_end(json);
    if (mistake != NULL) {
        say_error("the JSON document is incomplete: %s", mistake);
    }
    return mistake == NULL && !ferror(stdout);
}

/* ---------------------------------------------------------------------- files */

bool is_same_file(const char *one, const char *other) {
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino && S_ISREG(a.st_mode);
}

const char *replace_problem(const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0) {
        return errno == ENOENT ? NULL : strerror(errno);
    }
    return S_ISREG(status.st_mode) ? NULL : "it is not a plain file; name one that may be replaced";
}

void remove_file(const char *path) {
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        (void)unlink(path);
    }
}
