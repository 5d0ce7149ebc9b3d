/* SPDX-License-Identifier: Apache-2.0 */
/* spawn.c: starting another program. See spawn.h. */
#include "base/os/spawn.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define WAIT_NS UINT64_C(500000) /* between two looks whether it has ended */

/* What a program needs of the environment to be found and loaded. */
static const char *const kept_names[] = {"PATH",         "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
                                         "HOME",         "ASAN_OPTIONS",    "TSAN_OPTIONS",
                                         "UBSAN_OPTIONS"};
enum { KEPT = sizeof kept_names / sizeof kept_names[0], TEXT_MAX = 4096 };

struct environment {
    char texts[KEPT][TEXT_MAX];
    char *list[KEPT + 1];
};

static void environment_make(struct environment *environment) {
    size_t count = 0;
    for (size_t i = 0; i < KEPT; i++) {
        const char *value = vr_os_environment(kept_names[i]);
        int bytes =
            value ? snprintf(environment->texts[i], TEXT_MAX, "%s=%s", kept_names[i], value) : 0;
        if (bytes > 0 && bytes < TEXT_MAX) {
            environment->list[count++] = environment->texts[i];
        }
    }
    environment->list[count] = NULL;
}

/* Standard streams lead nowhere; signals are at their defaults, and none is blocked. */
static int settings_make(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes) {
    sigset_t none, all;
    int error = 0;
    sigemptyset(&none);
    sigfillset(&all);
    for (int fd = 0; fd < 3 && !error; fd++) {
        error = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    }
    error = error ? error : posix_spawnattr_setsigmask(attributes, &none);
    error = error ? error : posix_spawnattr_setsigdefault(attributes, &all);
    return error ? error
                 : posix_spawnattr_setflags(attributes,
                                            POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int program_start(const char *const *arguments, pid_t *pid) {
    _Static_assert(sizeof(struct environment) <= 65536, "it lies on the stack");
    struct environment environment;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    environment_make(&environment);
    int error = vr_os_fault();
    if (error || (error = posix_spawn_file_actions_init(&actions)) != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = settings_make(&actions, &attributes);
        if (!error) {
            error = posix_spawnp(pid, arguments[0], &actions, &attributes,
                                 (char *const *)(uintptr_t)arguments, environment.list);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

vram_status vr_os_spawn(const char *const *arguments, uint64_t deadline, int *code) {
    VR_UNCANCELLED;
    pid_t pid = -1, ended = 0;
    int state = 0;
    if (!vr_os_environment("PATH")) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "os", "posix_spawn", EPERM,
                            "%s cannot be started: there is no PATH, or the process must not trust "
                            "it",
                            arguments[0]);
    }
    int error = program_start(arguments, &pid);
    if (error) {
        return vr_error_set(VRAM_ERR_UNSUPPORTED, "os", "posix_spawn", error,
                            "%s cannot be started: %s", arguments[0], strerror(error));
    }
    while ((ended = waitpid(pid, &state, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (vr_deadline_passed(deadline)) {
            (void)kill(pid, SIGKILL);
            ended = waitpid(pid, &state, 0);
            break;
        }
        vr_os_sleep(WAIT_NS);
    }
    *code = ended == pid && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    return VRAM_OK;
}
