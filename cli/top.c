/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top.c: `vram top`: every process that uses libvram, those that drivers know, and the devices,
 * live.
 */
#include "top/screen.h"
#include "top/top_output.h"
#include "verb.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INTERVAL_LEAST_MS = 100, INTERVAL_MOST_S = 3600, ROWS_ONCE_MAX = 16384 };

struct top_job {
    struct invocation *invocation;
    struct machine_sources sources;
    struct machine machine;
    struct view view;
};

static uint64_t now_ms(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static bool look(struct top_job *job) {
    machine_free(&job->machine);
    if (!machine_read(&job->sources, &job->machine)) {
        say_error("out of host memory");
        return false;
    }
    past_add(&job->view.past, &job->machine);
    return true;
}

/* ------------------------------------------------------------------------ output */

/* The whole view as text, as wide as the terminal. */
static bool print_view(struct top_job *job) {
    struct terminal *terminal = &job->invocation->terminal;
    struct canvas canvas;
    int rows = view_rows(&job->view, &job->machine, (int)terminal->width);
    if (!canvas_begin(&canvas, rows < ROWS_ONCE_MAX ? rows : ROWS_ONCE_MAX, (int)terminal->width,
                      job->view.utf8)) {
        say_error("out of host memory");
        return false;
    }
    view_draw(&job->view, &job->machine, &canvas);
    canvas_write(&canvas, canvas.rows, terminal);
    canvas_end(&canvas);
    return true;
}

static bool print_sample(struct top_job *job, bool first) {
    view_arrange(&job->view, &job->machine);
    if (job->invocation->json) {
        return top_json(&job->view, &job->machine);
    }
    if (flag_given(job->invocation, "csv")) {
        top_csv(&job->view, &job->machine, first);
        return true;
    }
    return print_view(job);
}

/* Once, or with -i again and again until the reader is gone. */
static int run_printed(struct top_job *job) {
    bool once = flag_given(job->invocation, "once") || !flag_given(job->invocation, "interval");
    bool good = true;
    for (bool first = true; good; first = false) {
        good = look(job) && print_sample(job, first) && fflush(stdout) == 0;
        if (once || !good) {
            break;
        }
        struct timespec wait = {.tv_sec = (time_t)job->view.interval_s};
        wait.tv_nsec = (long)((job->view.interval_s - (double)wait.tv_sec) * 1e9);
        while (nanosleep(&wait, &wait) != 0 && errno == EINTR) {
        }
    }
    bool found = job->view.mode != VIEW_PROCESS || view_process(&job->view, &job->machine) != NULL;
    return !good ? EXIT_MISUSE : found ? EXIT_YES : EXIT_NO;
}

/* ------------------------------------------------------------------------ screen */

static bool show(struct top_job *job) {
    struct canvas canvas;
    int rows, width;
    screen_size(&rows, &width);
    if (!canvas_begin(&canvas, rows, width, job->view.utf8)) {
        return false;
    }
    view_arrange(&job->view, &job->machine);
    view_draw(&job->view, &job->machine, &canvas);
    screen_show(&canvas);
    canvas_end(&canvas);
    return true;
}

static volatile sig_atomic_t ended;

static void on_end(int number) {
    (void)number;
    ended = 1;
}

static bool is_due(const struct top_job *job, uint64_t looked) {
    return !job->view.paused && now_ms() - looked >= (uint64_t)(job->view.interval_s * 1000);
}

static bool watch(struct top_job *job) {
    enum view_action action = ACTION_REFRESH;
    uint64_t looked = 0;
    while (!ended && action != ACTION_QUIT) {
        if (action == ACTION_REFRESH || is_due(job, looked)) {
            if (!look(job)) {
                return false;
            }
            looked = now_ms();
        }
        if (!show(job)) {
            return false;
        }
        uint32_t key;
        int wait = (int)(job->view.interval_s * 1000) - (int)(now_ms() - looked);
        action = screen_key(job->view.paused ? 1000 : wait, &key)
                     ? view_press(&job->view, &job->machine, key)
                     : ACTION_NONE;
    }
    return true;
}

static int run_screen(struct top_job *job) {
    char problem[SCREEN_PROBLEM_MAX];
    struct sigaction end = {.sa_handler = on_end};
    job->view.interactive = true;
    sigaction(SIGINT, &end, NULL); /* the terminal is given back in order */
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGHUP, &end, NULL);
    if (!screen_begin(job->invocation->terminal.color, problem)) {
        say_error("%s", problem);
        return EXIT_MISUSE;
    }
    bool good = watch(job);
    screen_end();
    return good ? EXIT_YES : EXIT_MISUSE;
}

/* ----------------------------------------------------------------------- options */

static bool read_interval(const struct invocation *invocation, double *seconds) {
    const char *text = flag_value(invocation, "interval");
    char *end;
    if (text == NULL) {
        return true;
    }
    double value = strtod(text, &end);
    if (end == text || *end != 0 || !(value >= INTERVAL_LEAST_MS / 1000.0) ||
        !(value <= INTERVAL_MOST_S)) {
        say_error("--interval takes seconds from 0.1 to 3600, not \"%.40s\"", text);
        return false;
    }
    *seconds = value;
    return true;
}

static bool read_thresholds(const struct invocation *invocation, unsigned thresholds[THRESHOLDS]) {
    const char *text = flag_value(invocation, "thresholds");
    unsigned a, b, c;
    int used = 0;
    if (text == NULL) {
        return true;
    }
    if (sscanf(text, "%3u,%3u,%3u%n", &a, &b, &c, &used) != 3 || text[used] != 0 || a > b ||
        b > c || c > 100) {
        say_error("--thresholds takes three rising percentages, such as 60,80,95, not \"%.40s\"",
                  text);
        return false;
    }
    thresholds[0] = a;
    thresholds[1] = b;
    thresholds[2] = c;
    return true;
}

static bool read_sort(const struct invocation *invocation, struct view *view) {
    const char *name = flag_value(invocation, "sort");
    for (int i = 0; i < COLUMN_COUNT && name != NULL; i++) {
        if (strcmp(name, top_columns[i].key) == 0) {
            view->sort = (enum column_id)i;
        }
    }
    view->reversed = flag_given(invocation, "reverse");
    return true;
}

static bool read_options(struct top_job *job) {
    const struct invocation *invocation = job->invocation;
    struct view *view = &job->view;
    uint64_t pid = 0;
    const char *filter = flag_value(invocation, "filter");
    *view = (struct view){.sort = COLUMN_HELD,
                          .plots = true,
                          .interval_s = 2,
                          .utf8 = invocation->terminal.utf8 && !flag_given(invocation, "ascii"),
                          .thresholds = {60, 80, 95}};
    snprintf(view->filter, sizeof view->filter, "%s", filter != NULL ? filter : "");
    if (!flag_number(invocation, "pid", 1, INT32_MAX, &pid)) {
        return false;
    }
    if (pid != 0) {
        view->mode = VIEW_PROCESS;
        view->chosen = pid;
    }
    if (invocation->json && flag_given(invocation, "csv")) {
        say_error("--json and --csv exclude each other");
        return false;
    }
    return read_interval(invocation, &view->interval_s) &&
           read_thresholds(invocation, view->thresholds) && read_sort(invocation, view);
}

static int run(struct invocation *invocation) {
    struct top_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return say_failure("cannot start", VRAM_ERR_HOST_MEMORY);
    }
    job->invocation = invocation;
    int code = EXIT_MISUSE;
    if (read_options(job)) {
        bool printed = flag_given(invocation, "once") || invocation->json ||
                       flag_given(invocation, "csv") || !isatty(STDOUT_FILENO);
        job->sources.pages = flag_value(invocation, "pages");
        job->sources.pages_only = flag_given(invocation, "pages-only");
        job->sources.nvml = job->sources.pages_only ? NULL : nvml_open();
        code = printed ? run_printed(job) : run_screen(job);
        nvml_close(job->sources.nvml);
    }
    machine_free(&job->machine);
    free(job);
    return code;
}

static const struct flag flags[] = {
    {.name = "once", .letter = '1', .help = "print one look as text and end"},
    {.name = "interval",
     .letter = 'i',
     .value = "SECONDS",
     .help = "time between looks, 2 if not given; --json and --csv then go on until stopped"},
    {.name = "csv", .help = "print one line per process with commas; unknown figures are empty"},
    {.name = "pid", .letter = 'p', .value = "PID", .help = "open this process"},
    {.name = "filter",
     .letter = 'f',
     .value = "TEXT",
     .help = "only processes with this in their pid, user, device, tag or command"},
    {.name = "sort",
     .letter = 's',
     .value = "COLUMN",
     .help = "sort by this column",
     .choices = "pid user device held_bytes live_bytes cached_bytes ratio peak_held_bytes "
                "driver_bytes pressure allocations_per_second top_tag command"},
    {.name = "reverse", .letter = 'r', .help = "sort the other way round"},
    FLAG_PAGES,
    {.name = "pages-only",
     .help = "only processes with a live page: ask neither NVML nor /proc for others"},
    {.name = "thresholds",
     .value = "A,B,C",
     .help = "percentages from which colours change, 60,80,95 if not given"},
    {.name = "ascii", .letter = 'U', .help = "draw with plain characters alone"},
    FLAG_END,
};

const struct verb verb_top = {
    .name = "top",
    .summary = "Show the memory of devices and processes, live",
    .usage = "[OPTION]...",
    .examples = "vram top\n"
                "vram top --once                       # one look, for a mail or a log\n"
                "vram top --once --pid 4711            # one process: pools, tags, refusals\n"
                "vram top --json | jq '.processes[] | {pid, held_bytes}'\n"
                "vram top --csv -i 1 > memory.csv\n",
    .flags = flags,
    .run = run,
};
