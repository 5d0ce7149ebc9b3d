/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_verb.c: `vram report`: what a trace shows: the peak and who had it, leaks, churn,
 * fragmentation, and what to do about them.
 */
#include "replay/trace_reader.h"
#include "report/report_view.h"
#include "verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A trace that was read, of either kind. */
struct report_job {
    struct trace_source source;
    struct recording recording;
    bool recorded, opened;
    struct trace trace;
    struct history history;
};

static const char *name_of(const char *path) {
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static bool read_recording(struct report_job *job, const char *path) {
    job->recorded = true;
    if (!recording_open(&job->recording, &job->source)) {
        say_error("%.200s: at offset %llu: %s", name_of(path),
                  (unsigned long long)job->recording.problem_at, job->recording.problem);
        return false;
    }
    if (!history_read(&job->history, &job->recording)) {
        say_error("%.200s: %s", name_of(path), job->history.problem);
        return false;
    }
    return true;
}

static bool read_csv(struct report_job *job, const char *path) {
    char problem[TRACE_PROBLEM_MAX];
    job->opened = false; /* the reader closes it */
    if (!trace_read_source(name_of(path), &job->source, &job->trace, problem)) {
        say_error("%s", problem);
        return false;
    }
    if (!history_take(&job->history, &job->trace)) {
        say_error("%.200s: %s", name_of(path), job->history.problem);
        return false;
    }
    return true;
}

static bool read_file(struct report_job *job, const char *path) {
    if (!history_begin(&job->history, name_of(path))) {
        say_error("out of host memory");
        return false;
    }
    if (!trace_source_open(&job->source, path)) {
        say_error("%.200s: %s", name_of(path), job->source.problem);
        return false;
    }
    job->opened = true;
    bool ours = trace_source_begins(&job->source, RECORDING_MAGIC, RECORDING_MAGIC_BYTES);
    return ours ? read_recording(job, path) : read_csv(job, path);
}

static void forget(struct report_job *job) {
    history_free(&job->history);
    if (job->recorded) {
        recording_close(&job->recording);
    }
    if (job->opened) {
        trace_source_close(&job->source);
    }
    trace_free(&job->trace);
    free(job);
}

static int show(struct invocation *invocation, const struct report_job *job, uint64_t top) {
    bool leaks = flag_given(invocation, "leaks");
    const struct report_view view = {.history = &job->history,
                                     .recording = job->recorded ? &job->recording : NULL,
                                     .terminal = &invocation->terminal,
                                     .top = (size_t)top};
    if (invocation->json) {
        if (!report_write(&view)) {
            return EXIT_MISUSE;
        }
    } else if (flag_given(invocation, "stacks")) {
        if (!report_print_stacks(&view, leaks)) {
            say_error("out of host memory");
            return EXIT_MISUSE;
        }
    } else if (leaks) {
        report_print_leaks(&view);
    } else {
        report_print(&view);
    }
    bool leaked = job->history.live_blocks > 0 || job->history.lost_blocks > 0;
    return leaks && leaked ? EXIT_NO : EXIT_YES;
}

static int run(struct invocation *invocation) {
    uint64_t top = 10;
    if (!flag_number(invocation, "top", 1, 1000000, &top)) {
        return EXIT_MISUSE;
    }
    if (invocation->operand_count != 1) {
        say_error("`vram report` needs one trace: a file, or - for standard input; run the program "
                  "with VRAM_TRACE=FILE to write one");
        return EXIT_MISUSE;
    }
    struct report_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return say_failure("cannot start", VRAM_ERR_HOST_MEMORY);
    }
    int code = read_file(job, invocation->operands[0]) ? show(invocation, job, top) : EXIT_MISUSE;
    forget(job);
    return code;
}

static const struct flag flags[] = {
    {.name = "leaks",
     .letter = 'l',
     .help = "show what was never freed, by tag and stack; exit with 1 if there is any"},
    {.name = "stacks",
     .letter = 's',
     .help = "write collapsed stacks by function for flame graphs: bytes live at the peak, or with "
             "--leaks "
             "never freed"},
    {.name = "top", .letter = 'n', .value = "N", .help = "rows of each table, 10 if not given"},
    FLAG_END,
};

const struct verb verb_report = {
    .name = "report",
    .summary = "Report on a trace: the peak and its owners, leaks, churn, and what to do",
    .usage = "FILE|- [OPTION]...",
    .examples = "VRAM_TRACE=run.vrt ./program; vram report run.vrt\n"
                "vram report run.vrt --leaks           # exit code 1 if anything leaked\n"
                "vram report run.vrt --stacks | flamegraph.pl > peak.svg\n"
                "vram report run.vrt --json | jq .peak\n"
                "vram report traces/gpt2_train_varlen.csv.gz\n",
    .flags = flags,
    .run = run,
    .operands = OPERANDS_FILES,
};
