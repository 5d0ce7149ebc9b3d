/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolate.c: see isolate.h.
 */
#include "isolate.h"
#include "crash.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the helper is asked to run. */
struct request {
    size_t index;     /* of the case, as check_case_at counts */
    char backend[32]; /* a name, as vram_context_options.backends takes it */
    uint32_t device;  /* index within the backend */
};

/* All of `bytes`, however many calls it takes. False at the end of the stream or on a failure. */
static bool read_all(int descriptor, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(descriptor, (char *)to + done, bytes - done);
        if (count == 0 || (count < 0 && errno != EINTR)) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool write_all(int descriptor, const void *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(descriptor, (const char *)from + done, bytes - done);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* ----------------------------------------------------------------- the case */

/* Ends as a program does: a driver's exit handlers are part of what is checked. */
static _Noreturn void run_case(const struct request *request, int results) {
    vram_context_options options = {.size = sizeof options, .backends = request->backend};
    struct check_target target = {.options = &options, .device = request->device, .alone = true};
    struct check_result result;
    check_run(check_case_at(request->index), &target, &result);
    exit(write_all(results, &result, sizeof result) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* --------------------------------------------------------------- the helper */

static void fail(struct check_result *result, const char *reason, const char *detail) {
    memset(result, 0, sizeof *result);
    result->outcome = CHECK_FAILED;
    snprintf(result->reason, sizeof result->reason, "%s%s", reason, detail);
}

/* `status` is waitpid's. A process that dies after its case has sent a result has failed too. */
static void judge_end(int status, bool sent, struct check_result *result) {
    char reason[64];
    const char *when = sent ? " when it exited after the case" : "";
    if (WIFSIGNALED(status)) {
        const char *name = crash_signal_name(WTERMSIG(status));
        snprintf(reason, sizeof reason, "%s ended its process",
                 name != NULL ? name : strsignal(WTERMSIG(status)));
        fail(result, reason, when);
    } else if (!sent || WEXITSTATUS(status) != EXIT_SUCCESS) {
        snprintf(reason, sizeof reason, "its process exited with code %d", WEXITSTATUS(status));
        fail(result, reason, when);
    }
}

static void run_isolated(int channel, const struct request *request, struct check_result *result) {
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        fail(result, "cannot make a pipe: ", strerror(errno));
        return;
    }
    pid_t process = fork();
    if (process == 0) {
        close(channel);
        close(ends[0]);
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        run_case(request, ends[1]);
    }
    if (process < 0) {
        fail(result, "cannot start a process: ", strerror(errno));
    }
    close(ends[1]);
    bool sent = process > 0 && read_all(ends[0], result, sizeof *result);
    close(ends[0]);
    if (process > 0) {
        while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
        }
        judge_end(status, sent, result);
    }
}

/* Until the other end of the channel is closed. */
static _Noreturn void serve(int channel) {
    struct request request;
    struct check_result result;
    while (read_all(channel, &request, sizeof request)) {
        run_isolated(channel, &request, &result);
        if (!write_all(channel, &result, sizeof result)) {
            break;
        }
    }
    _exit(EXIT_SUCCESS);
}

/* --------------------------------------------------------------- the caller */

bool isolate_start(struct isolate *isolate) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        say_error("cannot make a channel to the helper process: %s", strerror(errno));
        return false;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    fflush(stdout); /* what is buffered would be printed by every child too */
    isolate->helper = fork();
    if (isolate->helper == 0) {
        close(ends[0]);
        serve(ends[1]);
    }
    close(ends[1]);
    if (isolate->helper < 0) {
        say_error("cannot start the helper process: %s", strerror(errno));
        close(ends[0]);
        return false;
    }
    isolate->channel = ends[0];
    return true;
}

bool isolate_run(struct isolate *isolate, size_t index, const char *backend, uint32_t device,
                 struct check_result *result) {
    struct request request = {.index = index, .device = device};
    snprintf(request.backend, sizeof request.backend, "%s", backend);
    if (send(isolate->channel, &request, sizeof request, MSG_NOSIGNAL) == sizeof request &&
        read_all(isolate->channel, result, sizeof *result)) {
        return true;
    }
    say_error("the helper process that starts the cases is gone");
    return false;
}

void isolate_end(struct isolate *isolate) {
    close(isolate->channel);
    while (waitpid(isolate->helper, NULL, 0) < 0 && errno == EINTR) {
    }
}
