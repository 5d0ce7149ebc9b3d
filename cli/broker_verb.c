/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker_verb.c: `vram broker`: shares out device memory among the leases of a user's processes.
 * The library starts it on demand, with --detach.
 */
#include "verb.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;

static void stop_note(int number) {
    (void)number;
    stopped = 1;
}

static bool is_stopped(void *user) {
    (void)user;
    return stopped;
}

static void say_listening(void *user, const char *path) {
    (void)user;
    printf("the broker listens at %s\n", path);
    fflush(stdout);
}

/* Ends in good order at a signal, so that its socket goes with it. */
static void signals_take(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = stop_note};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, NULL);
    }
}

/* Descriptors that the starting program had open are none of the broker's business: a pipe that it
   kept would never end for its reader. */
static void descriptors_close(void) {
    long most = sysconf(_SC_OPEN_MAX);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++) {
        dup2(null, fd);
    }
#ifdef SYS_close_range /* Linux 5.9; not every C library has a function for it */
    if (syscall(SYS_close_range, 3, ~0U, 0) == 0) {
        return;
    }
#endif
    for (int fd = 3; fd < (most > 0 && most < 65536 ? most : 65536); fd++) {
        close(fd);
    }
}

/* Goes on in a process that belongs to no terminal and no parent. Returns in that process; -1: no
   process can be made. */
static int detach(void) {
    pid_t child = fork();
    if (child < 0) {
        return -1;
    }
    if (child > 0) {
        _exit(EXIT_YES);
    }
    setsid();
    if (chdir("/") != 0) {
        return -1;
    }
    descriptors_close();
    return 0;
}

static int run(struct invocation *invocation) {
    uint64_t idle = 10;
    vram_broker_options options = {
        .size = sizeof options, .dir = flag_value(invocation, "dir"), .stop = is_stopped};
    if (!flag_number(invocation, "idle", 0, 1000000000, &idle)) {
        return EXIT_MISUSE;
    }
    options.idle_ns = idle == 0 ? UINT64_MAX : idle * UINT64_C(1000000000);
    if (!flag_given(invocation, "detach")) {
        options.started = say_listening;
    } else if (detach() != 0) {
        say_error("cannot start another process");
        return EXIT_MISUSE;
    }
    signals_take();
    vram_status status = vram_broker_run(&options);
    if (status == VRAM_ERR_BUSY) {
        say_error("%s", failure_text(status));
        return EXIT_NO;
    }
    return status == VRAM_OK ? EXIT_YES : say_failure("cannot be the broker", status);
}

static const struct flag flags[] = {
    {.name = "dir",
     .value = "DIR",
     .help = "directory of the socket; XDG_RUNTIME_DIR or /tmp/vram-UID if not given"},
    {.name = "idle",
     .value = "SECONDS",
     .help = "end after so long without a lease, 10 if not given; 0: never"},
    {.name = "detach", .help = "go on in the background, without a terminal"},
    FLAG_END,
};

const struct verb verb_broker = {
    .name = "broker",
    .summary = "Share out device memory among the leases of this user's processes",
    .usage = "[OPTION]...",
    .examples = "vram broker                     # until nobody has used it for 10 seconds\n"
                "vram broker --idle 0 --detach   # for ever, in the background\n",
    .flags = flags,
    .run = run,
};
