/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c: `vram check`, the conformance suite on the devices of the user's choice. The cases are
 * in check/ and know nothing of this command; here they are chosen, run, counted and shown.
 */
#include "check/suite.h"
#include "crash.h"
#include "isolate.h"
#include "target.h"
#include "verb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A run of the verb. */
struct report {
    const struct invocation *invocation;
    const char *filter;               /* NULL: all cases */
    bool verbose;                     /* passed cases are shown too */
    struct isolate *isolate;          /* runs each case in a process of its own; NULL: this one */
    uint64_t total, done;             /* cases to run on all devices, and run so far */
    uint64_t passed, failed, skipped; /* done = their sum */
    struct json_out json;             /* open when the invocation asks for JSON */
};

/* Any part of the name will do: "memory", ".many", "free_race". */
static bool chosen(const struct report *report, const struct check_case *which) {
    return report->filter == NULL || strstr(which->name, report->filter) != NULL;
}

static uint64_t count_chosen(const struct report *report) {
    uint64_t count = 0;
    const struct check_case *which;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        count += chosen(report, which);
    }
    return count;
}

/* --------------------------------------------------------------- one result */

/* How each outcome is called and looks. A call that failed out of turn is a failure of the case. */
static const struct {
    const char *name;
    enum style style;
} outcomes[] = {
    [CHECK_PASSED] = {"passed", STYLE_GOOD},
    [CHECK_FAILED] = {"failed", STYLE_BAD},
    [CHECK_ERRORED] = {"failed", STYLE_BAD},
    [CHECK_SKIPPED] = {"skipped", STYLE_WARN},
};

static void write_case(struct json_out *json, const struct check_case *which, vram_value device,
                       const char *result, const char *reason) {
    json_object_begin(json, NULL);
    json_text(json, "name", which->name);
    json_text(json, "proves", which->proves);
    json_value(json, "device", device);
    json_text(json, "result", result);
    json_text(json, "reason", reason[0] != 0 ? reason : NULL);
    json_object_end(json);
}

/* What passed proves its sentence; what did not has a reason, which says more. */
static void print_case(const struct report *report, const struct check_case *which,
                       const struct check_result *result) {
    const struct terminal *terminal = &report->invocation->terminal;
    bool passed = result->outcome == CHECK_PASSED;
    if (passed && !report->verbose) {
        return;
    }
    terminal_progress_end(terminal);
    terminal_cell(terminal, outcomes[result->outcome].style, 9, "%s",
                  outcomes[result->outcome].name);
    terminal_print(terminal, STYLE_BOLD, "%s", which->name);
    terminal_print(terminal, STYLE_PLAIN, ": %s", passed ? which->proves : result->reason);
    putchar('\n');
    fflush(stdout); /* who watches a long run wants to see a failure when it happens */
}

static void count(struct report *report, enum check_outcome outcome) {
    report->done++;
    report->passed += outcome == CHECK_PASSED;
    report->failed += outcome == CHECK_FAILED || outcome == CHECK_ERRORED;
    report->skipped += outcome == CHECK_SKIPPED;
}

/* --------------------------------------------------------------- one device */

/* Case number `index` on the device. False when it could not be run at all. */
static bool run_case(struct report *report, size_t index, const vram_device_info *info,
                     struct check_result *result) {
    if (report->isolate != NULL) {
        return isolate_run(report->isolate, index, info->backend, info->backend_index, result);
    }
    const struct check_case *which = check_case_at(index);
    vram_context_options options = {.size = sizeof options, .backends = info->backend};
    struct check_target target = {.options = &options, .device = info->backend_index};
    crash_case_begin(which->name, info->backend, info->backend_index);
    check_run(which, &target, result);
    crash_case_end();
    return true;
}

static int run_cases(struct report *report, const vram_device_info *info, uint32_t device) {
    const struct terminal *terminal = &report->invocation->terminal;
    const struct check_case *which;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        struct check_result result;
        if (!chosen(report, which)) {
            continue;
        }
        terminal_progress(terminal, report->done, report->total, which->name);
        if (!run_case(report, i, info, &result)) {
            return EXIT_MISUSE;
        }
        count(report, result.outcome);
        if (report->invocation->json) {
            write_case(&report->json, which, (vram_value){device, true},
                       outcomes[result.outcome].name, result.reason);
        } else {
            print_case(report, which, &result);
        }
    }
    terminal_progress_end(terminal);
    return EXIT_YES;
}

/*
 * Cases make contexts of their own, with the one backend they need. A real GPU is kept open
 * meanwhile: drivers take a long time over the first opening of a device and the last closing.
 * Isolated cases cannot share it, and some GPUs serve one process at a time.
 */
static int run_device(struct report *report, vram_context *context, uint32_t index) {
    vram_device_info info = {.size = sizeof info};
    vram_device *kept = NULL;
    vram_status status = vram_device_info_get(context, index, &info);
    if (status != VRAM_OK) {
        return say_failure("cannot describe the device", status);
    }
    if (!report->invocation->json) {
        terminal_print(&report->invocation->terminal, STYLE_BOLD, "%s device %" PRIu32,
                       info.backend, info.backend_index);
        terminal_print(&report->invocation->terminal, STYLE_PLAIN, ": %s", info.name);
        putchar('\n');
    }
    if (info.kind == VRAM_DEVICE_GPU && report->isolate == NULL) {
        vram_device_open(context, index, &kept); /* where it fails, the cases say why */
    }
    int code = run_cases(report, &info, index);
    vram_device_close(kept);
    return code;
}

/* ----------------------------------------------------------------- the verb */

static void write_devices(struct report *report, vram_context *context, uint32_t first,
                          uint32_t end) {
    json_array_begin(&report->json, "devices");
    for (uint32_t i = first; i < end; i++) {
        vram_device_info info = {.size = sizeof info};
        if (vram_device_info_get(context, i, &info) == VRAM_OK) {
            json_object_begin(&report->json, NULL);
            json_unsigned(&report->json, "index", i);
            json_text(&report->json, "backend", info.backend);
            json_unsigned(&report->json, "backend_index", info.backend_index);
            json_text(&report->json, "name", info.name);
            json_text(&report->json, "kind", device_kind_name(info.kind));
            json_object_end(&report->json);
        }
    }
    json_array_end(&report->json);
    json_array_begin(&report->json, "cases");
}

static bool write_end(struct report *report) {
    json_array_end(&report->json);
    json_unsigned(&report->json, "passed", report->passed);
    json_unsigned(&report->json, "failed", report->failed);
    json_unsigned(&report->json, "skipped", report->skipped);
    return output_json_end(&report->json);
}

/* What the numbers mean. */
static const char *verdict_of(const struct report *report) {
    return report->failed > 0   ? "this device does not do what the library relies on."
           : report->passed > 0 ? "everything that was checked is as it should be."
                                : "nothing was checked.";
}

/* The last line, which always begins in the same form: people and scripts look at nothing else. */
static void print_end(const struct report *report) {
    const struct terminal *terminal = &report->invocation->terminal;
    terminal_print(terminal, report->passed > 0 ? STYLE_GOOD : STYLE_PLAIN, "%" PRIu64 " passed",
                   report->passed);
    printf(", ");
    terminal_print(terminal, report->failed > 0 ? STYLE_BAD : STYLE_PLAIN, "%" PRIu64 " failed",
                   report->failed);
    printf(", ");
    terminal_print(terminal, report->skipped > 0 ? STYLE_WARN : STYLE_PLAIN, "%" PRIu64 " skipped",
                   report->skipped);
    printf(": %s\n", verdict_of(report));
}

/* One device when one was meant: --device, or no choice at all. A backend means all of its own. */
static int run_devices(struct report *report, const struct target *target) {
    bool one =
        flag_given(report->invocation, "device") || !flag_given(report->invocation, "backend");
    uint32_t first = one ? target->index : 0;
    uint32_t end = one ? first + 1 : vram_device_count(target->context);
    int code = EXIT_YES;

    report->total = count_chosen(report) * (end - first);
    if (report->invocation->json) {
        output_json_begin(&report->json, "vram.check/1");
        write_devices(report, target->context, first, end);
    }
    for (uint32_t i = first; i < end && code == EXIT_YES; i++) {
        code = run_device(report, target->context, i);
    }
    if (report->invocation->json) {
        code = write_end(report) ? code : EXIT_MISUSE;
    } else {
        print_end(report);
    }
    return code == EXIT_YES && report->failed > 0 ? EXIT_NO : code;
}

/* The column that every name of the list fits into, with a gap behind it. */
static uint32_t name_column(const struct report *report) {
    const struct check_case *which;
    size_t widest = 0;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        size_t width = chosen(report, which) ? strlen(which->name) : 0;
        widest = width > widest ? width : widest;
    }
    return (uint32_t)widest + 2;
}

/* What there is to run, without running it: no device is looked for. */
static int list(struct report *report) {
    const struct terminal *terminal = &report->invocation->terminal;
    const struct check_case *which;
    uint32_t column = name_column(report);
    if (report->invocation->json) {
        output_json_begin(&report->json, "vram.check/1");
        write_devices(report, NULL, 0, 0);
    }
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        if (!chosen(report, which)) {
            continue;
        }
        if (report->invocation->json) {
            write_case(&report->json, which, (vram_value){0, false}, "listed", "");
        } else {
            terminal_cell(terminal, STYLE_BOLD, column, "%s", which->name);
            terminal_wrap(terminal, STYLE_PLAIN, column, which->proves);
        }
    }
    return !report->invocation->json || write_end(report) ? EXIT_YES : EXIT_MISUSE;
}

/* The helper of isolated cases starts before any driver does. */
static int open_and_run(struct report *report) {
    struct isolate isolate;
    struct target target;
    if (flag_given(report->invocation, "isolate")) {
        if (!isolate_start(&isolate)) {
            return EXIT_MISUSE;
        }
        report->isolate = &isolate;
    } else {
        crash_watch();
    }
    int code = target_open(report->invocation, &target);
    if (code == EXIT_YES) {
        code = run_devices(report, &target);
        target_close(&target);
    }
    if (report->isolate != NULL) {
        isolate_end(&isolate);
        report->isolate = NULL;
    }
    return code;
}

/* Mistakes are told before any driver is started. */
static int run(struct invocation *invocation) {
    struct report report = {.invocation = invocation,
                            .filter = flag_value(invocation, "filter"),
                            .verbose = flag_given(invocation, "verbose")};
    if (count_chosen(&report) == 0) {
        say_error("no case has \"%s\" in its name; `vram check --list` shows them", report.filter);
        return EXIT_MISUSE;
    }
    if (flag_given(invocation, "list")) {
        return list(&report);
    }
    return open_and_run(&report);
}

static const struct flag flags[] = {
    {.name = "backend",
     .letter = 'b',
     .value = "NAME",
     .help = "check every device of this backend, or of several joined by commas",
     .hints = BACKEND_HINTS},
    FLAG_DEVICE,
    {.name = "filter",
     .letter = 'f',
     .value = "TEXT",
     .help = "run only the cases with TEXT in their name"},
    {.name = "isolate",
     .letter = 'i',
     .help = "run each case in its own process; a case that a driver ends has failed"},
    {.name = "list", .letter = 'l', .help = "list the cases and what each proves, do not run them"},
    {.name = "verbose", .letter = 'v', .help = "show the cases that pass too"},
    FLAG_END,
};

const struct verb verb_check = {
    .name = "check",
    .summary = "Run the conformance suite on a device",
    .usage = "[OPTION]...",
    .examples = "vram check                      # on the best device\n"
                "vram check --backend sim        # on every simulated device\n"
                "vram check --filter mapping -v  # some cases, each with what it proves\n"
                "vram check --isolate            # if a driver ends the process\n"
                "vram check --list               # all cases\n"
                "vram check --backend cuda --json    # for programs: schema vram.check/1\n",
    .flags = flags,
    .run = run,
};
