/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_verb.c: `vram report`: what a trace shows: the peak and who had it, leaks, churn,
 * fragmentation, and what to do about them.
 */
#include "report/report_view.h"
#include "verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A trace that was read. */
struct report_job {
    struct report_input input;
    struct history history;
};

static bool read_file(struct report_job *job, const char *path) {
    const char *name = report_input_name(path);
    if (!history_begin(&job->history, name)) {
        say_error("out of host memory");
        return false;
    }
    if (!report_input_open(&job->input, path)) {
        say_error("%s", job->input.problem);
        return false;
    }
    if (!history_read(&job->history, &job->input, NULL)) {
        say_error("%.200s: %s", name, job->history.problem);
        return false;
    }
    return true;
}

static void forget(struct report_job *job) {
    history_free(&job->history);
    report_input_close(&job->input);
    free(job);
}

static int show(struct invocation *invocation, struct report_job *job, uint64_t top) {
    bool leaks = flag_given(invocation, "leaks");
    const struct report_view view = {.history = &job->history,
                                     .input = &job->input,
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
