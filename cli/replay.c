/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c: `vram replay`: recorded or generated allocations played again on any device, by one or
 * several policies side by side.
 */
#include "replay/generator.h"
#include "replay/least_report.h"
#include "replay/replay_page.h"
#include "replay/trace_reader.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIM_TEXT_MAX = 320, POLICIES_MAX = 8, TRACES_MAX = OPERANDS_MAX + REPEATED_MAX };

/* All that the command line asks for. */
struct job {
    struct invocation *invocation;
    struct target target;
    struct session_options options;
    struct trace traces[TRACES_MAX];
    const char *files[TRACES_MAX]; /* that they came from; NULL: none, or not as a whole */
    size_t trace_count;
    const struct policy *policies[POLICIES_MAX];
    size_t policy_count;
    uint64_t repeats;
    bool pictured; /* --picture or --svg */
    char sim[SIM_TEXT_MAX];
    struct replay_report report;
    uint64_t done_ops, all_ops; /* of the progress bar */
    uint64_t shown_parts;       /* of 200: it is drawn again only when it would look different */
    char doing[TRACE_NAME_MAX + 32];
};

/* -------------------------------------------------------------------- traces */

/* A file, as one trace, or as one for each GPU that a snapshot has. */
static bool read_operand(struct job *job, const char *path, char problem[TRACE_PROBLEM_MAX]) {
    struct trace *trace = &job->traces[job->trace_count];
    if (!trace_read(path, trace, problem)) {
        return false;
    }
    uint64_t gpus = trace->gpus;
    if ((gpus & (gpus - 1)) == 0 || strcmp(path, "-") == 0) { /* one, or no second look at it */
        job->files[job->trace_count] = strcmp(path, "-") == 0 ? NULL : path;
        job->trace_count++;
        return true;
    }
    trace_free(trace);
    for (uint32_t i = 0; i < 64; i++) {
        if ((gpus >> i & 1) == 0) {
            continue;
        }
        if (job->trace_count == TRACES_MAX) {
            snprintf(problem, TRACE_PROBLEM_MAX, "%.100s: more traces than %d", path, TRACES_MAX);
            return false;
        }
        if (!trace_read_gpu(path, i + 1, &job->traces[job->trace_count], problem)) {
            return false;
        }
        job->trace_count++;
    }
    return true;
}

static int read_traces(struct job *job) {
    char problem[TRACE_PROBLEM_MAX];
    const char *specifications[REPEATED_MAX];
    size_t count = flag_values(job->invocation, "generate", specifications);
    for (size_t i = 0; i < job->invocation->operand_count; i++) {
        if (job->trace_count == TRACES_MAX ||
            !read_operand(job, job->invocation->operands[i], problem)) {
            say_error("%s", job->trace_count == TRACES_MAX ? "too many traces" : problem);
            return EXIT_MISUSE;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (job->trace_count == TRACES_MAX) {
            say_error("too many traces");
            return EXIT_MISUSE;
        }
        if (!generator_run(specifications[i], &job->traces[job->trace_count], problem)) {
            say_error("%s", problem);
            return EXIT_MISUSE;
        }
        job->trace_count++;
    }
    if (job->trace_count == 0) {
        say_error("`vram replay` needs a trace: a CSV file, - for standard input, or --generate");
        return EXIT_MISUSE;
    }
    return EXIT_YES;
}

/* --print: what is read or generated, as plain CSV. */
static int print_trace(const struct job *job) {
    if (job->trace_count != 1) {
        say_error("--print writes one trace, but %zu are given", job->trace_count);
        return EXIT_MISUSE;
    }
    if (!trace_write(&job->traces[0], stdout) && !ferror(stdout)) {
        return say_failure("cannot write the trace", VRAM_ERR_HOST_MEMORY);
    }
    return EXIT_YES;
}

/* ------------------------------------------------------------------- settings */

static int choose_policies(struct job *job) {
    const char *names[REPEATED_MAX];
    size_t count = flag_values(job->invocation, "policy", names);
    if (count == 0) {
        job->policies[job->policy_count++] = policy_table[0];
    }
    for (size_t i = 0; i < count; i++) {
        const struct policy *policy = policy_find(names[i]);
        bool again = false;
        if (policy == NULL) {
            say_error("--policy=%s: this build does not have it", names[i]);
            return EXIT_MISUSE;
        }
        for (size_t k = 0; k < job->policy_count; k++) {
            again = again || job->policies[k] == policy;
        }
        if (!again) {
            job->policies[job->policy_count++] = policy;
        }
    }
    return EXIT_YES;
}

/* Models of allocators that map pages need a device that can. */
static int check_policies(const struct job *job) {
    for (size_t i = 0; i < job->policy_count; i++) {
        if (job->policies[i]->needs_vmm && !(job->target.info.caps & VRAM_CAP_VMM)) {
            say_error("--policy=%s needs virtual memory management, which %s:%" PRIu32
                      " does not have; try --backend sim",
                      job->policies[i]->name, job->target.info.backend,
                      job->target.info.backend_index);
            return EXIT_MISUSE;
        }
    }
    return EXIT_YES;
}

static int read_memory(struct job *job) {
    const char *text = flag_value(job->invocation, "memory");
    if (text != NULL && (vram_size_parse(text, &job->report.memory_bytes) != VRAM_OK ||
                         job->report.memory_bytes == 0)) {
        say_error("--memory=%s: not a size; write 80G, 141GiB or bytes", text);
        return EXIT_MISUSE;
    }
    return EXIT_YES;
}

/*
 * --memory makes a simulated device that large; of any other, no more than that is used. When
 * neither it nor VRAM_SIM names any, a simulated device has 80 GiB, as the cards that recorded
 * programs come from.
 */
static int set_memory(struct job *job) {
    const vram_device_info *info = &job->target.info;
    if (info->kind == VRAM_DEVICE_SIMULATED) {
        vram_status status = vram_option_get("sim", job->sim, sizeof job->sim, NULL);
        if (status != VRAM_OK) {
            return say_failure("cannot read the option sim", status);
        }
        job->options.place.sim = job->sim;
        if (job->report.memory_bytes == 0 && strstr(job->sim, "memory=") == NULL) {
            job->report.memory_bytes = UINT64_C(80) << 30;
        }
    }
    job->options.place.memory_bytes = job->report.memory_bytes;
    return EXIT_YES;
}

/* -------------------------------------------------------------------- playing */

static void show_progress(void *user, size_t op_count) {
    struct job *job = user;
    uint64_t parts = job->all_ops > 0 ? (job->done_ops + op_count) * 200 / job->all_ops : 0;
    if (parts != job->shown_parts) {
        job->shown_parts = parts;
        terminal_progress(&job->invocation->terminal, job->done_ops + op_count, job->all_ops,
                          job->doing);
    }
}

/* All passes of one trace with one policy, on one device. A pass that fails is the last. */
static int play(struct job *job, size_t trace_index, size_t policy_index) {
    const struct trace *trace = &job->traces[trace_index];
    const struct policy *policy = job->policies[policy_index];
    struct session *session;
    if (job->report.curves != NULL) {
        job->options.curve = &job->report.curves[trace_index * job->policy_count + policy_index];
    }
    snprintf(job->doing, sizeof job->doing, "%s, %s", trace->name, policy->name);
    vram_status status = session_open(&job->options, trace, policy, &session);
    if (status != VRAM_OK) {
        terminal_progress_end(&job->invocation->terminal);
        return say_failure("cannot start the device", status);
    }
    bool good = true;
    for (uint64_t i = 0; i < job->repeats && good; i++) {
        struct pass *pass = &job->report.passes[job->report.pass_count++];
        session_play(session, show_progress, job, pass);
        good = pass->result == PASS_DONE;
        job->done_ops += trace->op_count;
    }
    session_close(session);
    return EXIT_YES;
}

static int play_all(struct job *job) {
    size_t most = job->trace_count * job->policy_count * job->repeats;
    job->report.passes = calloc(most, sizeof *job->report.passes);
    if (job->pictured) {
        job->report.curves = calloc(most / job->repeats, sizeof *job->report.curves);
    }
    if (job->report.passes == NULL || (job->pictured && job->report.curves == NULL)) {
        return say_failure("cannot keep the results", VRAM_ERR_HOST_MEMORY);
    }
    for (size_t i = 0; i < job->trace_count; i++) {
        job->all_ops += job->traces[i].op_count * job->policy_count * job->repeats;
    }
    int code = EXIT_YES;
    for (size_t i = 0; i < job->trace_count; i++) {
        for (size_t k = 0; k < job->policy_count && code == EXIT_YES; k++) {
            code = play(job, i, k);
        }
    }
    terminal_progress_end(&job->invocation->terminal);
    return code;
}

/* --least: a search for each trace and policy. */
static int search_all(struct job *job) {
    size_t count = job->trace_count * job->policy_count;
    uint64_t memory = job->options.place.memory_bytes > 0 ? job->options.place.memory_bytes
                                                          : job->target.info.memory_bytes.value;
    job->report.leasts = calloc(count, sizeof *job->report.leasts);
    if (job->report.leasts == NULL) {
        return say_failure("cannot keep the results", VRAM_ERR_HOST_MEMORY);
    }
    for (size_t i = 0; i < count; i++) {
        const struct trace *trace = &job->traces[i / job->policy_count];
        const struct policy *policy = job->policies[i % job->policy_count];
        snprintf(job->doing, sizeof job->doing, "%s, %s", trace->name, policy->name);
        terminal_progress(&job->invocation->terminal, i, count, job->doing);
        vram_status status =
            least_find(&job->options, memory, trace, policy, &job->report.leasts[i]);
        job->report.least_count++;
        if (status != VRAM_OK) {
            terminal_progress_end(&job->invocation->terminal);
            return say_failure("cannot start the device", status);
        }
    }
    terminal_progress_end(&job->invocation->terminal);
    return EXIT_YES;
}

/* Failed is 2, does not fit or differs is 1. The failure is said on stderr too. */
static int judge_pass(const struct pass *pass, int code) {
    if (pass->result == PASS_FAILED) {
        say_error("%s, %s: %s", pass->trace->name, pass->policy->name, pass->reason);
        return EXIT_MISUSE;
    }
    bool bad = pass->result == PASS_EXHAUSTED || pass->mismatched_bytes > 0;
    return bad && code == EXIT_YES ? EXIT_NO : code;
}

static int judge(const struct job *job) {
    int code = EXIT_YES;
    assert(job->report.leasts != NULL || job->report.least_count == 0);
    for (size_t i = 0; i < job->report.pass_count; i++) {
        code = judge_pass(&job->report.passes[i], code);
    }
    for (size_t i = 0; i < job->report.least_count; i++) {
        code = judge_pass(&job->report.leasts[i].freely, code);
    }
    return code;
}

/* ----------------------------------------------------------------------- verb */

static const char *file_of_trace(void *user, const struct trace *trace) {
    const struct job *job = user;
    return job->files[trace - job->traces];
}

static int replay(struct job *job) {
    assert(job->trace_count > 0 && job->policy_count > 0 && job->repeats > 0);
    job->options.place.backend = job->target.info.backend;
    job->options.place.device = job->target.info.backend_index;
    job->report.target = &job->target;
    int code = check_policies(job);
    if (code == EXIT_YES) {
        code = set_memory(job);
    }
    if (code == EXIT_YES) {
        code = flag_given(job->invocation, "least") ? search_all(job) : play_all(job);
    }
    if (code != EXIT_YES) {
        return code;
    }
    if (job->invocation->json) {
        if (!replay_report_write(&job->report)) {
            return EXIT_MISUSE;
        }
    } else if (job->report.leasts != NULL) {
        least_report_print(&job->report, &job->invocation->terminal);
    } else if (flag_given(job->invocation, "picture")) {
        picture_print(&job->report, &job->invocation->terminal);
    } else {
        replay_report_print(&job->report, &job->invocation->terminal);
    }
    const char *svg = flag_value(job->invocation, "svg");
    const char *html = flag_value(job->invocation, "html");
    if ((svg != NULL && !picture_write(&job->report, svg)) ||
        (html != NULL &&
         !replay_page_write(&job->report, html, &job->invocation->terminal, file_of_trace, job))) {
        return EXIT_MISUSE;
    }
    return judge(job);
}

/* --least plays each trace many times, each time on a device of its own. */
static int check_least(const struct job *job) {
    static const char *const others[] = {"repeat", "verify", "pace", "picture",
                                         "svg",    "html",   "print"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (flag_given(job->invocation, "least") && flag_given(job->invocation, others[i])) {
            say_error("--least cannot be combined with --%s", others[i]);
            return EXIT_MISUSE;
        }
    }
    return EXIT_YES;
}

/* No trace is replaced by a picture of it. */
static int check_outputs(const struct job *job) {
    const struct invocation *invocation = job->invocation;
    const char *const written[] = {flag_value(invocation, "html"), flag_value(invocation, "svg")};
    for (size_t i = 0; i < 2 * invocation->operand_count; i++) {
        const char *path = written[i % 2];
        if (path != NULL && is_same_file(path, invocation->operands[i / 2])) {
            say_error("%.200s: it cannot be read and written at once", path);
            return EXIT_MISUSE;
        }
    }
    return EXIT_YES;
}

/* Mistakes are told before any driver is started. */
static int prepare(struct job *job) {
    int code = check_least(job);
    if (code == EXIT_YES) {
        code = choose_policies(job);
    }
    if (code == EXIT_YES && !flag_number(job->invocation, "repeat", 1, 1000, &job->repeats)) {
        code = EXIT_MISUSE;
    }
    if (code == EXIT_YES) {
        code = read_memory(job);
    }
    if (code == EXIT_YES) {
        code = check_outputs(job);
    }
    return code == EXIT_YES ? read_traces(job) : code;
}

static void forget(struct job *job) {
    for (size_t i = 0; i < job->trace_count; i++) {
        trace_free(&job->traces[i]);
    }
    free(job->report.passes);
    free(job->report.leasts);
    free(job->report.curves);
    free(job);
}

static int run(struct invocation *invocation) {
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return say_failure("cannot start", VRAM_ERR_HOST_MEMORY);
    }
    job->invocation = invocation;
    job->repeats = 1;
    job->shown_parts = UINT64_MAX;
    job->options.verify = job->report.verify = flag_given(invocation, "verify");
    job->options.pace = flag_given(invocation, "pace");
    job->options.place.rebuild = flag_given(invocation, "rebuild");
    job->pictured = flag_given(invocation, "picture") || flag_given(invocation, "svg") ||
                    flag_given(invocation, "html");
    int code = prepare(job);
    job->report.repeats = (uint32_t)job->repeats;
    if (code == EXIT_YES && flag_given(invocation, "print")) {
        code = print_trace(job);
    } else if (code == EXIT_YES) {
        code = target_open(invocation, &job->target);
        if (code == EXIT_YES) {
            code = replay(job);
            target_close(&job->target);
        }
    }
    forget(job);
    return code;
}

static const struct flag flags[] = {
    FLAG_BACKEND,
    FLAG_DEVICE,
    {.name = "policy",
     .letter = 'p',
     .value = "NAME",
     .help = "who serves the allocations: vram (the pool), expandable (like PyTorch's "
             "expandable_segments), async (like cudaMallocAsync), caching (like PyTorch's default) "
             "or naive (the driver); may be repeated, to compare",
     .choices = "vram expandable async caching naive",
     .repeats = true},
    {.name = "generate",
     .letter = 'g',
     .value = "SPEC",
     .help = "generate a trace: KIND[,key=value...], as in queues,steps=10,seed=2; kinds are "
             "steady, varied, queues, ahead and threads",
     .hints = GENERATOR_KINDS,
     .repeats = true},
    {.name = "memory",
     .letter = 'm',
     .value = "SIZE",
     .help = "memory of a simulated device (80G); on other devices, the most to use"},
    {.name = "repeat",
     .letter = 'r',
     .value = "N",
     .help = "replay each trace N times in a row, without releasing memory in between"},
    {.name = "least",
     .letter = 'l',
     .help = "find the least memory in which each trace runs with each policy, and the time there"},
    {.name = "rebuild",
     .help =
         "when memory is short, policy vram may copy the used parts of large handles to smaller "
         "ones, to win the rest; each allocation is a safe point then"},
    {.name = "verify",
     .letter = 'v',
     .help = "fill and check every block; needs as much real memory as the trace uses"},
    {.name = "pace", .help = "follow the times of the trace instead of running at full speed"},
    {.name = "picture",
     .help = "draw what each policy held over time, side by side, instead of the table"},
    {.name = "svg", .value = "FILE", .help = "write that picture to a file, as SVG"},
    {.name = "html",
     .value = "FILE",
     .help = "write one page for a browser: the traces, and what each policy held"},
    {.name = "print", .help = "write the trace as CSV, do not replay it"},
    FLAG_END,
};

const struct verb verb_replay = {
    .name = "replay",
    .summary = "Replay recorded allocations on a real or simulated device, by several policies",
    .usage = "TRACE...|- [OPTION]...",
    .examples = "vram replay traces/gpt2_train_varlen.csv.gz --backend sim\n"
                "vram replay t.csv -b sim -p vram -p caching    # side by side\n"
                "vram replay t.csv -b sim --memory 24G          # does it fit in 24 GiB\n"
                "vram replay t.csv -b sim --least -p vram -p expandable\n"
                "vram replay t.csv -b sim -p vram -p caching --picture\n"
                "vram replay run.vrt -b sim -p vram -p caching --html run.html\n"
                "zcat t.csv.gz | vram replay - --backend host --verify\n"
                "vram replay --generate queues,seed=7 -b sim    # a generated trace\n"
                "vram replay --generate steady --print > t.csv  # the same as a file\n",
    .flags = flags,
    .run = run,
    .operands = OPERANDS_FILES,
};
