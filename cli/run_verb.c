/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_verb.c: `vram run`: runs a program with libvram-run.so in front of its libraries, waits for
 * it, and reports what it did with device memory.
 *
 * Signals that end programs reach the program by themselves when they come from the terminal, and
 * are passed on otherwise. This process stays to report.
 */
#include "environment.h"
#include "run/run_before.h"
#include "run/run_child.h"
#include "run/run_live_pages.h"
#include "run/run_report.h"
#include "run/run_trace.h"
#include "verb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct run_job {
    struct invocation *invocation;
    struct run_child child;
    struct run_report report;
    struct run_suppressions suppressions;
    uint64_t error_code; /* 0: none */
    uint64_t started_ns;
    bool quiet;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ------------------------------------------------------------------------ options */

static bool settings_read(struct run_job *job, const char *program) {
    struct invocation *invocation = job->invocation;
    struct run_settings *settings = &job->child.page->settings;
    const char *limit = flag_value(invocation, "limit"), *stacks = flag_value(invocation, "stacks");
    const char *suppressions = flag_value(invocation, "suppressions");
    if (limit != NULL &&
        (vram_size_parse(limit, &settings->limit_bytes) != VRAM_OK || settings->limit_bytes == 0)) {
        say_error("--limit=%s: not a size: use a number with K, M, G or T, such as 8G", limit);
        return false;
    }
    if (flag_given(invocation, "tree") && limit == NULL) {
        say_error("--tree needs --limit: it says for whom the limit is");
        return false;
    }
    settings->stacks =
        stacks != NULL && strcmp(stacks, "off") == 0 ? RUN_STACKS_OFF : RUN_STACKS_NATIVE;
    settings->follow = flag_given(invocation, "follow-children");
    settings->tree = flag_given(invocation, "tree");
    settings->serve = flag_given(invocation, "serve");
    job->quiet = flag_given(invocation, "quiet");
    return flag_number(invocation, "error-exitcode", 1, 255, &job->error_code) &&
           run_trace_choose(job->child.trace, flag_value(invocation, "output"), program) &&
           (suppressions == NULL || run_suppressions_read(&job->suppressions, suppressions));
}

/* ------------------------------------------------------------------------ reports */

/* Text goes to standard error: standard output is the program's. */
static void report_show(struct run_job *job, bool running) {
    struct run_report *report = &job->report;
    report->running = running;
    report->wall_ns = now_ns() - job->started_ns;
    report->leaked_blocks = report->leaked_bytes = 0;
    report->lost_programs += run_child_lost(&job->child);
    run_report_doubt(report, NULL, NULL);
    if (job->invocation->json && !running) {
        (void)run_report_write(report);
    } else {
        run_report_print(report, job->quiet && !running);
    }
    fflush(stdout);
}

static void report_prepare(struct run_job *job, const char *const *words) {
    struct run_report *report = &job->report;
    if (!job->invocation->json) {
        fflush(stdout);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        terminal_detect(&job->invocation->terminal, job->invocation->color);
    }
    report->page = job->child.page;
    report->terminal = &job->invocation->terminal;
    report->suppressions = &job->suppressions;
    report->words = words;
    report->leaks = flag_given(job->invocation, "leaks");
}

/* ------------------------------------------------------------------------ waiting */

static void signals_choose(sigset_t *set) {
    static const int chosen[] = {SIGCHLD, SIGUSR1, SIGTERM, SIGHUP, SIGINT, SIGQUIT};
    sigemptyset(set);
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        sigaddset(set, chosen[i]);
    }
}

/* Whether the program has ended; its status. */
static bool child_ended(struct run_job *job) {
    int status = 0;
    pid_t pid = waitpid(job->child.pid, &status, WNOHANG);
    if (pid == 0) {
        return false;
    }
    job->report.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    job->report.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return true;
}

static void child_wait(struct run_job *job, const sigset_t *signals) {
    siginfo_t about;
    struct run_live_pages *pages = run_live_pages_begin(job->child.page);
    const struct timespec interval = {.tv_nsec = RUN_LIVE_INTERVAL};
    while (!child_ended(job)) {
        int signal =
            pages != NULL ? sigtimedwait(signals, &about, &interval) : sigwaitinfo(signals, &about);
        run_live_pages_update(pages);
        if (signal == SIGUSR1) {
            report_show(job, true);
        } else if (signal > 0 && signal != SIGCHLD && about.si_code <= 0) {
            kill(job->child.pid, signal); /* sent by a process: the terminal reaches the program */
        }
    }
    run_live_pages_end(pages);
}

static int job_run(struct run_job *job, char *const *words) {
    sigset_t signals, before;
    int code = run_child_find(&job->child, words[0]);
    if (code != 0) {
        return code;
    }
    run_before_read(job->child.page);
    signals_choose(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    job->child.to_stderr = job->invocation->json;
    job->started_ns = now_ns();
    code = run_child_start(&job->child, words, &before);
    if (code != 0) {
        return code;
    }
    output_beside_program();
    report_prepare(job, (const char *const *)words);
    child_wait(job, &signals);
    report_show(job, false);
    if (job->error_code == 0) {
        return job->report.exit_code;
    }
    if (job->report.doubt[0] != 0) { /* a gate that does not know stays closed */
        say_error("--error-exitcode: it is not known whether anything was never freed: %s",
                  job->report.doubt);
        return (int)job->error_code;
    }
    return job->report.leaked_blocks > 0 ? (int)job->error_code : job->report.exit_code;
}

static int run(struct invocation *invocation) {
    char *const *words = invocation->rest;
    if (words == NULL || words[0] == NULL) {
        say_error("`vram run` needs a program: vram run -- PROGRAM [ARGUMENT]...");
        return EXIT_MISUSE;
    }
    struct run_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return say_failure("cannot start", VRAM_ERR_HOST_MEMORY);
    }
    job->invocation = invocation;
    int code = run_child_prepare(&job->child) && settings_read(job, words[0]) ? job_run(job, words)
                                                                              : EXIT_MISUSE;
    run_suppressions_free(&job->suppressions);
    run_child_end(&job->child);
    free(job);
    return code;
}

static const struct flag flags[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "write the trace there; %p is the process, %h the host; vram.PROGRAM.%p.vrt if not "
             "given"},
    {.name = "stacks",
     .value = "WHICH",
     .help = "record who allocated: native (the default) or off",
     .choices = "native off"},
    {.name = "leaks", .letter = 'l', .help = "list what was never freed, with stacks"},
    {.name = "suppressions",
     .value = "FILE",
     .help = "leave out what matches its lines leak:PATTERN, as LeakSanitizer has them"},
    {.name = "error-exitcode",
     .value = "N",
     .help = "exit with N, 1 to 255, if anything was never freed, or if that is not known"},
    {.name = "limit",
     .value = "SIZE",
     .help = "make each device look that small: 8G; allocations beyond it fail"},
    {.name = "tree", .help = "the limit is for the program and its children together"},
    {.name = "serve",
     .help = "serve CUDA's stream-ordered memory from libvram's pools instead of the driver's"},
    {.name = "follow-children", .help = "record the programs that it starts as well"},
    {.name = "quiet", .letter = 'q', .help = "print no report at the end"},
    FLAG_END,
};

const struct verb verb_run = {
    .name = "run",
    .summary = "Run a program and report what it did with device memory",
    .usage = "[OPTION]... -- PROGRAM [ARGUMENT]...",
    .examples = "vram run -- python train.py              # report on stderr, trace in a file\n"
                "vram run --leaks --error-exitcode 99 -- ./test   # for CI\n"
                "vram run --limit 24G -- python train.py  # does it fit on a smaller card?\n"
                "vram run --serve -- ./app                # cudaMallocAsync served by libvram\n",
    .flags = flags,
    .run = run,
    .operands = OPERANDS_PROGRAM,
};
