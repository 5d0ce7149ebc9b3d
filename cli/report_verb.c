/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_verb.c: `vram report`: what a trace shows: the peak and who had it, leaks, churn,
 * fragmentation, and what to do about them. With --pid, what a running process holds. With --serve,
 * either in a browser.
 */
#include "environment.h"
#include "live/attach_view.h"
#include "report/report_writer.h"
#include "serve/report_server.h"
#include "verb.h"
#include "viewer/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A trace that was read. */
struct report_trace {
    struct report_input input;
    struct history history;
};

struct report_job {
    struct invocation *invocation;
    struct report_trace now, before; /* `before`: --against */
    struct report_writer writer;     /* --format */
    struct against against;
    const char *output;                 /* NULL: standard output */
    const char *more[OPERANDS_MAX + 1]; /* further traces of a page: operands, and --against */
    const char *page;                   /* the HTML page's file for --serve; NULL: none */
    uint64_t top;
};

static bool trace_open(struct report_trace *trace, const char *path) {
    if (!history_begin(&trace->history, report_input_name(path))) {
        say_error("out of host memory");
        return false;
    }
    if (!report_input_open(&trace->input, path)) {
        say_error("%s", trace->input.problem);
        return false;
    }
    return true;
}

static bool trace_load(struct report_trace *trace, const struct event_sink *sink) {
    if (!history_read(&trace->history, &trace->input, sink)) {
        say_error("%.200s: %s", trace->history.name, trace->history.problem);
        return false;
    }
    return true;
}

static void trace_forget(struct report_trace *trace) {
    history_free(&trace->history);
    report_input_close(&trace->input);
}

/* ------------------------------------------------------------------- settings */

/* The traces of a page behind the first. */
static bool choose_traces(struct report_job *job) {
    const struct invocation *invocation = job->invocation;
    const char *against = flag_value(invocation, "against");
    struct report_writer *writer = &job->writer;
    for (size_t i = 0; i < invocation->operand_count; i++) {
        if (strcmp(invocation->operands[i], "-") == 0) {
            say_error("an HTML page needs a file that can be read again, not standard input");
            return false;
        }
        if (i > 0) {
            job->more[writer->more_count++] = invocation->operands[i];
        }
    }
    if (against != NULL) {
        job->more[writer->more_count++] = against;
    }
    if (writer->more_count >= PAGE_TRACES_MAX) {
        say_error("a page has %d traces at most, but %zu are given", PAGE_TRACES_MAX,
                  writer->more_count + 1);
        return false;
    }
    for (size_t i = 0; i < writer->more_count && job->output != NULL; i++) {
        if (is_same_file(job->output, job->more[i])) {
            say_error("%.200s: it cannot be read and written at once", job->output);
            return false;
        }
    }
    writer->more = job->more;
    return true;
}

/* --format, or --json and --html for short. */
static int choose_format(struct report_job *job) {
    const char *name = flag_value(job->invocation, "format");
    const char *html = flag_value(job->invocation, "html");
    if (html != NULL && (name != NULL || job->invocation->json || job->output != NULL)) {
        say_error("--html=FILE is --format=html --output=FILE, and combined with neither");
        return EXIT_MISUSE;
    }
    if (job->page != NULL) {
        html = job->page;
    }
    if (html != NULL) {
        name = "html";
        job->output = html;
    }
    if (job->invocation->json && job->page == NULL) {
        if (name != NULL && strcmp(name, "json") != 0) {
            say_error("--json cannot be combined with --format=%s", name);
            return EXIT_MISUSE;
        }
        name = "json";
    }
    if (name == NULL && job->output != NULL) {
        say_error("--output needs --format: one of " REPORT_FORMATS);
        return EXIT_MISUSE;
    }
    if (name != NULL && flag_given(job->invocation, "stacks")) {
        say_error("--stacks cannot be combined with --format; --format=folded is the same");
        return EXIT_MISUSE;
    }
    bool page = name != NULL && strcmp(name, "html") == 0;
    if (job->invocation->operand_count > 1 && !page) {
        say_error("several traces make one page: add --html FILE; to compare two in words, "
                  "`vram report NEW --against OLD`");
        return EXIT_MISUSE;
    }
    if (page && !choose_traces(job)) {
        return EXIT_MISUSE;
    }
    job->writer.source = job->invocation->operands[0];
    job->writer.format = name != NULL ? report_format_find(name) : NULL;
    job->writer.leaks = flag_given(job->invocation, "leaks");
    job->writer.count = flag_given(job->invocation, "count");
    return EXIT_YES;
}

static int read_rules(struct report_job *job) {
    const char *texts[REPEATED_MAX];
    size_t count = flag_values(job->invocation, "fail-if", texts);
    for (size_t i = 0; i < count; i++) {
        const char *wrong = against_add_rule(&job->against, texts[i]);
        if (wrong != NULL) {
            say_error("--fail-if=%s: %s", texts[i], wrong);
            return EXIT_MISUSE;
        }
    }
    return EXIT_YES;
}

static int prepare(struct report_job *job) {
    struct invocation *invocation = job->invocation;
    const char *against = flag_value(invocation, "against");
    job->output = flag_value(invocation, "output");
    if (!flag_number(invocation, "top", 1, 1000000, &job->top)) {
        return EXIT_MISUSE;
    }
    if (invocation->operand_count == 0) {
        say_error("`vram report` needs a trace: a file, or - for standard input; run the program "
                  "with VRAM_TRACE=FILE to write one");
        return EXIT_MISUSE;
    }
    int code = choose_format(job);
    if (code == EXIT_YES && job->output != NULL &&
        is_same_file(job->output, invocation->operands[0])) {
        say_error("%.200s: it cannot be read and written at once", job->output);
        return EXIT_MISUSE;
    }
    job->against = (struct against){.now = &job->now.history,
                                    .now_input = &job->now.input,
                                    .before = against != NULL ? &job->before.history : NULL,
                                    .before_input = &job->before.input};
    return code == EXIT_YES ? read_rules(job) : code;
}

/* -------------------------------------------------------------------- showing */

static int show_text(struct report_job *job, const struct report_view *view) {
    bool leaks = flag_given(job->invocation, "leaks");
    if (flag_given(job->invocation, "stacks")) {
        enum folded_weight weight = job->writer.count ? FOLDED_COUNT
                                    : leaks           ? FOLDED_LEAKED
                                                      : FOLDED_PEAK;
        if (!report_write_folded(view, weight, stdout)) {
            say_error("out of host memory");
            return EXIT_MISUSE;
        }
    } else if (leaks) {
        report_print_leaks(view);
    } else if (job->against.before == NULL) {
        report_print(view);
    }
    if (job->against.before != NULL || job->against.rule_count > 0) {
        against_print(&job->against, view->terminal, view->top);
    }
    return EXIT_YES;
}

/* Reads the traces, and writes the events on the way where the format shows them. */
static int load(struct report_job *job) {
    const char *against = flag_value(job->invocation, "against");
    struct report_writer *writer = &job->writer;
    if (against != NULL &&
        (!trace_open(&job->before, against) || !trace_load(&job->before, NULL))) {
        return EXIT_MISUSE;
    }
    if (!trace_open(&job->now, job->invocation->operands[0])) {
        return EXIT_MISUSE;
    }
    writer->input = &job->now.input;
    const struct event_sink sink = {block_flow_add, &writer->flow};
    bool streams = writer->format != NULL && writer->format->begin != NULL;
    bool good = (writer->format == NULL || report_writer_open(writer, job->output)) &&
                trace_load(&job->now, streams ? &sink : NULL);
    return good ? EXIT_YES : EXIT_MISUSE;
}

static int report(struct report_job *job) {
    int code = load(job);
    const struct report_view view = {.history = &job->now.history,
                                     .input = &job->now.input,
                                     .terminal = &job->invocation->terminal,
                                     .top = (size_t)job->top,
                                     .against = &job->against};
    size_t broken = code == EXIT_YES ? against_judge(&job->against) : 0;
    if (job->writer.format != NULL) {
        bool good = report_writer_close(&job->writer, code == EXIT_YES ? &view : NULL);
        code = good ? code : EXIT_MISUSE;
    } else if (code == EXIT_YES) {
        code = show_text(job, &view);
    }
    const struct history *history = &job->now.history;
    bool leaked = history->live_blocks > 0 || history->lost_blocks > 0;
    bool leaks = flag_given(job->invocation, "leaks");
    if (code == EXIT_YES && leaks && !leaked && !history_is_whole(history)) {
        say_error("%.200s: events are missing, so whether all memory was freed is not known",
                  history->name);
        return EXIT_MISUSE;
    }
    return code == EXIT_YES && ((leaks && leaked) || broken > 0) ? EXIT_NO : code;
}

/* The only flags that go with --pid. */
static bool fits_process(const struct invocation *invocation) {
    static const char *const others[] = {"stacks", "html",    "format", "output",
                                         "count",  "against", "fail-if"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (flag_given(invocation, others[i])) {
            say_error("--pid cannot be combined with --%s, which is for traces", others[i]);
            return false;
        }
    }
    if (invocation->operand_count > 0) {
        say_error("--pid is for a running process: leave out the trace");
    }
    return invocation->operand_count == 0;
}

static int show_process(struct invocation *invocation) {
    char problem[ATTACH_PROBLEM_MAX];
    struct page_view page;
    struct attach_answer answer;
    uint64_t pid = 0, top = 10;
    if (!fits_process(invocation) || !flag_number(invocation, "pid", 1, INT32_MAX, &pid) ||
        !flag_number(invocation, "top", 1, 1000000, &top)) {
        return EXIT_MISUSE;
    }
    struct attach_view view = {.page = &page,
                               .answer = &answer,
                               .terminal = &invocation->terminal,
                               .leaks = flag_given(invocation, "leaks"),
                               .top = (size_t)top};
    int code = EXIT_MISUSE;
    if (!attach_ask(pid, &page, &answer, problem)) {
        say_error("%s", problem);
    } else if (!invocation->json || attach_write(&view)) {
        if (!invocation->json) {
            attach_print(&view);
        }
        code = view.leaks && attach_old_blocks(&answer) > 0 ? EXIT_NO : EXIT_YES;
    }
    attach_free(&answer);
    page_view_free(&page);
    return code;
}

/* Reports on the trace; `page`: where its HTML page is written instead, for --serve. */
static int show_trace(struct invocation *invocation, const char *page) {
    struct report_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return say_failure("cannot start", VRAM_ERR_HOST_MEMORY);
    }
    job->invocation = invocation;
    job->top = 10;
    job->page = page;
    int code = prepare(job);
    code = code == EXIT_YES ? report(job) : code;
    trace_forget(&job->now);
    trace_forget(&job->before);
    free(job);
    return code;
}

/* --------------------------------------------------------------------- serving */

/* The page of a trace is made in a file without a name, so that nothing is left however it ends. */
static int serve_trace(struct invocation *invocation, uint64_t port) {
    const char *folder = environment_get("TMPDIR");
    char path[256];
    if (snprintf(path, sizeof path, "%s/vram-page-XXXXXX",
                 folder != NULL && folder[0] == '/' ? folder : "/tmp") >= (int)sizeof path) {
        say_error("TMPDIR is too long");
        return EXIT_MISUSE;
    }
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0) {
        say_error("%s: %s", path, strerror(errno));
        return EXIT_MISUSE;
    }
    snprintf(path, sizeof path, "/dev/fd/%d", file);
    int code = show_trace(invocation, path);
    code = code == EXIT_YES ? serve_file(invocation, file, port) : code;
    (void)close(file);
    return code;
}

static int serve(struct invocation *invocation) {
    static const char *const others[] = {"leaks",  "stacks", "html",   "format",
                                         "output", "count",  "fail-if"};
    uint64_t pid = 0, port = 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (flag_given(invocation, others[i])) {
            say_error("--serve cannot be combined with --%s", others[i]);
            return EXIT_MISUSE;
        }
    }
    if (!flag_number(invocation, "pid", 1, INT32_MAX, &pid) ||
        !flag_number(invocation, "port", 1, UINT16_MAX, &port)) {
        return EXIT_MISUSE;
    }
    if (invocation->operand_count > 0 && pid == 0) {
        return serve_trace(invocation, port);
    }
    if (flag_given(invocation, "against")) {
        say_error("--against compares traces: name one");
        return EXIT_MISUSE;
    }
    if (invocation->operand_count > 0) {
        say_error("--pid is for a running process: leave out the trace");
        return EXIT_MISUSE;
    }
    return serve_process(invocation, pid, port);
}

static int run(struct invocation *invocation) {
    if (flag_given(invocation, "serve")) {
        return serve(invocation);
    }
    if (flag_given(invocation, "port")) {
        say_error("--port goes with --serve");
        return EXIT_MISUSE;
    }
    return flag_given(invocation, "pid") ? show_process(invocation) : show_trace(invocation, NULL);
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
    {.name = "html",
     .value = "FILE",
     .help = "write one page for a browser: timeline, flame graphs, map of addresses, tables; of "
             "several traces or with --against, all of them"},
    {.name = "format",
     .letter = 'f',
     .value = "NAME",
     .help =
         "write it for other tools: html, text (as heaptrack_print), json, memory_viz (PyTorch's "
         "viewer), perfetto, folded (flame graphs) or csv (vram replay)",
     .choices = REPORT_FORMATS},
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "write that to a file instead of standard output"},
    {.name = "count", .help = "weigh collapsed stacks by allocations instead of bytes"},
    {.name = "against",
     .letter = 'a',
     .value = "OLD",
     .help = "compare with another trace: figures, and the call sites that changed"},
    {.name = "fail-if",
     .value = "RULE",
     .help = "exit with 1 if a rule is broken: peak>+2%, held>+64M, live>0; figures are peak, "
             "rounded, held, live and allocs; may be repeated",
     .repeats = true},
    {.name = "pid",
     .letter = 'p',
     .value = "PID",
     .help = "ask a running process for its live blocks; with --leaks, for those that are a minute "
             "old"},
    {.name = "serve",
     .help = "show a running process (--pid, or the only one there is) or a trace in a browser, at "
             "a loopback address that is printed; updated each second until Ctrl-C"},
    {.name = "port",
     .value = "PORT",
     .help = "with --serve, listen at this port, such as one of a tunnel; any free one if not "
             "given"},
    {.name = "top", .letter = 'n', .value = "N", .help = "rows of each table, 10 if not given"},
    FLAG_END,
};

const struct verb verb_report = {
    .name = "report",
    .summary = "Report on a trace: the peak and its owners, leaks, churn, and what to do",
    .usage = "FILE...|- | --pid PID | --serve [FILE...] [OPTION]...",
    .examples = "VRAM_TRACE=run.vrt ./program; vram report run.vrt\n"
                "vram report run.vrt --leaks           # exit code 1 if anything leaked\n"
                "vram report run.vrt --stacks | flamegraph.pl > peak.svg\n"
                "vram report run.vrt --html run.html   # open it in a browser\n"
                "vram report rank0.vrt rank1.vrt --html job.html\n"
                "vram report run.vrt --json | jq .peak\n"
                "vram report snapshot.pickle           # of PyTorch; also RMM, Chrome JSON\n"
                "vram report run.vrt --format memory_viz -o run.pickle\n"
                "vram report new.vrt --against old.vrt --fail-if 'peak>+2%'\n"
                "vram report --pid 1234                # what a running process holds\n"
                "vram report --serve --pid 1234        # the same in a browser, live\n",
    .flags = flags,
    .run = run,
    .operands = OPERANDS_FILES,
};
