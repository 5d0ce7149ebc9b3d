/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.c: every conformance case, over and over, while one call after the other fails.
 *
 * Sources of failure:
 *   memory   the n-th host allocation                       (any backend)
 *   system   the n-th fallible call of the operating system (any backend)
 *   driver   the n-th call of the simulated driver          (sim), with an exhaustion, an unknown
 *            code, a lost device, or a lie
 * each once, and for ever from then on; n = 1, 2, 3 ... until the case ends before the fault
 * strikes.
 *
 * What must hold after every run: the process is alive and no wait was endless; the case ended with
 * a status that belongs to the fault, or passed; its own bookkeeping (held bytes, contents) agreed
 * with the device's after the failing call, and at the end of the case (cli/check/ledger.c,
 * stock.c); the simulated driver saw no breach of protocol; and nothing is left: no host memory, no
 * handle, no native object. Native objects may remain only where the driver itself refused for ever
 * to take them back.
 *
 * A case ends with its failing call, and knows its own objects alone. That a failing call of any
 * object changes nothing that can be seen, and can be made again, is what
 * calls --engine faults proves.
 */
#include "check/suite.h"
#include "json_out.h"

#include "base/handle.h"
#include "base/memory.h"
#include "base/os/os.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOURNAL = 1 << 16 }; /* calls of a case that are remembered */

enum source { MEMORY, SYSTEM, DRIVER, SOURCE_COUNT };

static const char *const source_names[] = {"memory", "system", "driver"};

/* One way to fail, of one source. */
struct mode {
    enum source source;
    const char *name;
    bool for_ever;
    int32_t code; /* errno, or the simulated driver's code */
    vram_sim_lie lie;
    vram_status expected[6]; /* statuses the case may end with; VRAM_OK ends the list */
};

/* The host device's memory is the system's; a simulated device whose memory the system cannot keep
   is lost, as real ones are. */
#define SYSTEM_STATUSES                                                                            \
    {                                                                                              \
        VRAM_ERR_HOST_MEMORY, VRAM_ERR_IO, VRAM_ERR_LIMIT, VRAM_ERR_DEVICE_MEMORY,                 \
            VRAM_ERR_DEVICE_LOST                                                                   \
    }

static const struct mode modes[] = {
    {MEMORY, "once", false, 0, 0, {VRAM_ERR_HOST_MEMORY}},
    {MEMORY, "forever", true, 0, 0, {VRAM_ERR_HOST_MEMORY}},
    {SYSTEM, "once", false, ENOMEM, 0, SYSTEM_STATUSES},
    {SYSTEM, "forever", true, ENOMEM, 0, SYSTEM_STATUSES},
    {SYSTEM, "io", false, EIO, 0, SYSTEM_STATUSES},
    {DRIVER, "once", false, VRAM_SIM_OUT_OF_MEMORY, 0, {VRAM_ERR_DEVICE_MEMORY}},
    {DRIVER, "unknown", false, 9999, 0, {VRAM_ERR_BACKEND}},
    {DRIVER, "lost", false, VRAM_SIM_DEVICE_LOST, 0, {VRAM_ERR_DEVICE_LOST}},
    {DRIVER, "forever", true, VRAM_SIM_OUT_OF_MEMORY, 0, {VRAM_ERR_DEVICE_MEMORY}},
    {DRIVER, "null", false, 0, VRAM_SIM_LIE_NULL, {VRAM_ERR_CORRUPT}},
    {DRIVER, "misaligned", false, 0, VRAM_SIM_LIE_MISALIGNED, {VRAM_ERR_CORRUPT}},
    {DRIVER, "overlap", false, 0, VRAM_SIM_LIE_OVERLAP, {VRAM_ERR_CORRUPT}},
};

/* What the user asked for. */
struct plan {
    const char *backend, *sim, *filter, *source, *mode;
    uint64_t nth; /* only this one; 0: all */
    bool json, full;
    bool sparse; /* not every n: see run_numbers */
};

struct totals {
    uint64_t cases, runs, faults, failures, leaks;
    uint64_t by_source[SOURCE_COUNT];
};

/* One run: what fails, and what came of it. */
struct run {
    const struct plan *plan;
    const struct check_case *which;
    const struct mode *mode;
    vram_sim_call call; /* driver: which entry point */
    uint64_t nth;
    struct check_result result;
    uint64_t struck;                /* faults that happened */
    bool made[VRAM_SIM_CALL_COUNT]; /* entry points that the case reaches when nothing fails */
};

static struct run *watched; /* for the alarm */

static void describe(const struct run *run, char *text, size_t bytes) {
    snprintf(text, bytes, "%s: %s %s%s%s, number %" PRIu64, run->which->name,
             source_names[run->mode->source], run->mode->name,
             run->mode->source == DRIVER ? " at " : "",
             run->mode->source == DRIVER ? vram_sim_call_name(run->call) : "", run->nth);
}

static void complain(const struct run *run, const char *what) {
    char text[160];
    describe(run, text, sizeof text);
    fprintf(stderr, "faults: %s: %s\n", text, what);
    fprintf(stderr,
            "        again: faults --backend %s --sim '%s' --filter %s --source %s --mode %s "
            "--nth %" PRIu64 "\n",
            run->plan->backend, run->plan->sim, run->which->name, source_names[run->mode->source],
            run->mode->name, run->nth);
}

static void on_alarm(int signal) {
    static const char text[] = "faults: a run took longer than 60 s: something waits for ever in ";
    (void)signal;
    if (write(2, text, sizeof text - 1) > 0 && watched &&
        write(2, watched->which->name, strlen(watched->which->name)) > 0 && write(2, "\n", 1) > 0) {
    }
    _exit(1);
}

/* ------------------------------------------------------------- one run */

/* Entry points that give something back: a driver that refuses them for ever keeps the thing. */
static bool is_release(vram_sim_call call) {
    switch (call) {
    case VRAM_SIM_DEVICE_CLOSE:
    case VRAM_SIM_FREE:
    case VRAM_SIM_PINNED_FREE:
    case VRAM_SIM_MANAGED_FREE:
    case VRAM_SIM_UNRESERVE:
    case VRAM_SIM_RELEASE:
    case VRAM_SIM_UNMAP:
    case VRAM_SIM_QUEUE_DESTROY:
    case VRAM_SIM_KERNEL_UNLOAD:
        return true;
    default:
        return false;
    }
}

/* Two holders and their broker are three threads, and a fault strikes whichever comes first. What
   happened to one of them the others know only so: it does not give, it has gone, or it does not
   answer. */
static bool is_lease(const struct run *run) {
    return strncmp(run->which->name, "lease.", 6) == 0;
}

static bool expected_status(const struct run *run) {
    vram_status status = run->result.status;
    if (is_lease(run) && (status == VRAM_ERR_LIMIT || status == VRAM_ERR_STALE ||
                          status == VRAM_ERR_TIMEOUT || status == VRAM_ERR_IO)) {
        return true;
    }
    for (size_t i = 0; i < 6 && run->mode->expected[i] != VRAM_OK; i++) {
        if (status == run->mode->expected[i]) {
            return true;
        }
    }
    return false;
}

/* Whether the case ended as it may under this fault. */
static bool judge(const struct run *run) {
    char text[CHECK_REASON_MAX + 64];
    if (run->result.outcome == CHECK_FAILED) {
        complain(run, run->result.reason);
        return false;
    }
    if (run->result.outcome == CHECK_ERRORED && (!run->struck || !expected_status(run))) {
        snprintf(text, sizeof text, "%s, with %s", run->struck ? "wrong status" : "no fault struck",
                 run->result.reason);
        complain(run, text);
        return false;
    }
    return true;
}

/* Host memory and handles must be what they were before the run. */
static bool nothing_left(const struct run *run, uint64_t bytes, uint64_t handles) {
    char text[120];
    if (vr_mem_live_bytes() == bytes && vr_handle_live(0) == handles) {
        return true;
    }
    snprintf(text, sizeof text, "%" PRId64 " bytes of host memory and %" PRId64 " handles are left",
             (int64_t)(vr_mem_live_bytes() - bytes), (int64_t)(vr_handle_live(0) - handles));
    complain(run, text);
    return false;
}

/* What the simulated driver has to say after the case. A lie may leave what it lied about. */
static bool driver_content(const struct run *run, vram_context *context, bool *leak) {
    struct vram_sim_state state = {.size = sizeof state};
    char text[240] = "";
    bool excused = run->mode->lie || (run->mode->for_ever && is_release(run->call));
    if (vram_sim_state_get(context, &state) != VRAM_OK || excused) {
        return true;
    }
    if (state.violations) {
        vram_sim_violation(context, 0, text, sizeof text);
        complain(run, text);
        return false;
    }
    /* A lost device takes its memory with it: its handles are gone, not leaked. */
    if (state.live_bytes || state.live_handles) {
        snprintf(text, sizeof text, "the driver still holds %" PRIu64 " bytes, %" PRIu64 " handles",
                 state.live_bytes, state.live_handles);
        complain(run, text);
        *leak = true;
    }
    return true;
}

static void arm(const struct run *run, vram_context *context) {
    struct vram_sim_fault fault = {.size = sizeof fault,
                                   .call = run->call,
                                   .nth = run->nth,
                                   .for_ever = run->mode->for_ever,
                                   .code = run->mode->code,
                                   .lie = run->mode->lie};
    switch (run->mode->source) {
    case MEMORY:
        vr_mem_fail_at(run->nth, run->mode->for_ever);
        break;
    case SYSTEM:
        vr_os_fail_at(run->nth, run->mode->for_ever, run->mode->code);
        break;
    default:
        if (vram_sim_fault_set(context, &fault) != VRAM_OK) {
            fprintf(stderr, "faults: %s\n", vram_error_get()->text);
            exit(2);
        }
    }
}

static uint64_t disarm(const struct run *run, vram_context *context) {
    struct vram_sim_state state = {.size = sizeof state};
    uint64_t struck = 0;
    switch (run->mode->source) {
    case MEMORY:
        struck = vr_mem_failed();
        vr_mem_fail_at(0, false);
        break;
    case SYSTEM:
        struck = vr_os_failed();
        vr_os_fail_at(0, false, 0);
        break;
    default:
        if (vram_sim_state_get(context, &state) == VRAM_OK) {
            struck = state.faults;
        }
        vram_sim_fault_set(context, NULL);
    }
    return struck;
}

/* The device of the asked backend in a context made with these options. */
static uint32_t find_device(vram_context *context, const char *backend) {
    struct vram_device_info info = {.size = sizeof info};
    for (uint32_t i = 0; i < vram_device_count(context); i++) {
        if (vram_device_info_get(context, i, &info) == VRAM_OK &&
            strcmp(info.backend, backend) == 0) {
            return i;
        }
    }
    fprintf(stderr, "faults: backend %s shows no device\n", backend);
    exit(2);
}

static vram_context *make_context(const struct plan *plan, vram_context_options *options) {
    vram_context *context;
    *options = (vram_context_options){
        .size = sizeof *options, .backends = plan->backend, .sim = plan->sim};
    if (vram_context_create(options, &context) != VRAM_OK) {
        fprintf(stderr, "faults: %s\n", vram_error_get()->text);
        exit(2);
    }
    return context;
}

/* Runs one case under one fault; whether the fault struck. Driver faults need the context they are
   planned in; the others begin before any context exists. */
static bool run_once(struct run *run, struct totals *totals) {
    vram_context_options options;
    bool driver = run->mode->source == DRIVER, leak = false, good = true;
    uint64_t bytes = vr_mem_live_bytes(), handles = vr_handle_live(0);
    vram_context *context = make_context(run->plan, &options);
    struct check_target target = {.options = &options,
                                  .device = find_device(context, run->plan->backend),
                                  .context = driver ? context : NULL,
                                  .quick = !run->plan->full,
                                  .faulty = true};
    if (!driver) {
        vram_context_destroy(context);
        context = NULL;
    }
    watched = run;
    alarm(60);
    arm(run, context);
    check_run(run->which, &target, &run->result);
    run->struck = disarm(run, context);
    if (!run->struck && run->result.outcome == CHECK_ERRORED && is_lease(run)) {
        target.faulty = false; /* its waits are short; one was too short for a busy machine */
        check_run(run->which, &target, &run->result);
    }
    alarm(0);
    good = judge(run);
    if (driver) {
        good = driver_content(run, context, &leak) && good;
        vram_context_destroy(context);
    }
    leak = !nothing_left(run, bytes, handles) || leak;
    totals->runs++;
    totals->faults += run->struck;
    totals->by_source[run->mode->source] += run->struck;
    totals->failures += !good;
    totals->leaks += leak;
    return run->struck > 0;
}

/* ------------------------------------------------------------- all of them */

static bool wanted(const char *asked, const char *name) {
    return !asked || strcmp(asked, name) == 0;
}

/* The entry points at which a fault can strike: a run without one tells, by the driver's journal.
   What a journal has forgotten may have been any of them. */
static void note_calls(struct run *run) {
    char sim[400];
    struct plan plan = *run->plan;
    vram_context_options options;
    struct vram_sim_state state = {.size = sizeof state};
    vram_sim_entry entry;
    if (!strstr(plan.sim, "journal=")) { /* else as long as the user says */
        snprintf(sim, sizeof sim, "%s,journal=%d", plan.sim, JOURNAL);
        plan.sim = sim;
    }
    vram_context *context = make_context(&plan, &options);
    struct check_target target = {.options = &options,
                                  .device = find_device(context, plan.backend),
                                  .context = context,
                                  .quick = !plan.full};
    check_run(run->which, &target, &run->result);
    vram_sim_state_get(context, &state);
    for (int call = 0; call < VRAM_SIM_CALL_COUNT; call++) {
        run->made[call] = state.calls && vram_sim_journal_get(context, state.calls - 1, &entry);
    }
    for (uint64_t back = 0; vram_sim_journal_get(context, back, &entry) == VRAM_OK; back++) {
        run->made[entry.call] = true;
    }
    vram_context_destroy(context);
}

/* Where sparse: n rises by small steps up to DENSE, and by n / PART from there on. Under a
   sanitizer each run takes long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DENSE = 4, PART = 1 };
#else
enum { DENSE = 8, PART = 4 };
#endif

/* n = 1, 2, 3 ... until the fault does not strike any more. Where sparse, one mode of a source has
   1, 3, 5 ... and the next 2, 4, 6 ..., and larger steps from DENSE on; each entry point has its
   first calls in every mode. A lease whose broker failed waits for seconds: n is
   1, 4, 16 ... there. */
static void run_numbers(struct run *run, struct totals *totals) {
    const struct plan *plan = run->plan;
    uint64_t only = plan->nth, odd = (uint64_t)(run->mode - modes) % 2;
    uint64_t dense = plan->sparse ? DENSE + odd : UINT64_MAX, step = 1;
    run->nth = 1;
    if (plan->sparse && run->call == VRAM_SIM_ANY) {
        run->nth += odd;
        step = 2;
    }
    run->nth = only ? only : run->nth;
    while (run_once(run, totals) && !only) {
        bool rare = plan->sparse && is_lease(run);
        run->nth += rare ? 3 * run->nth : run->nth >= dense ? run->nth / PART : step;
    }
}

static bool can_lie(vram_sim_call call, vram_sim_lie lie) {
    return call == VRAM_SIM_ALLOC || call == VRAM_SIM_RESERVE || call == VRAM_SIM_PINNED_ALLOC ||
           call == VRAM_SIM_MANAGED_ALLOC ||
           (call == VRAM_SIM_CREATE && lie != VRAM_SIM_LIE_MISALIGNED);
}

static void run_mode(struct run *run, struct totals *totals) {
    bool each_call = run->mode->source == DRIVER && (run->mode->for_ever || run->mode->lie);
    run->call = VRAM_SIM_ANY;
    if (!each_call) {
        run_numbers(run, totals);
        return;
    }
    for (int call = VRAM_SIM_ANY + 1; call < VRAM_SIM_CALL_COUNT; call++) {
        run->call = (vram_sim_call)call;
        if (run->made[call] && (!run->mode->lie || can_lie(run->call, run->mode->lie))) {
            run_numbers(run, totals);
        }
    }
}

/* How long a wait may take: a guard, as a busy machine may stand still for seconds. Only where a
   gate opens after the call that is made to fail, and that call waits in the place of a marker, is
   it what ends the wait. */
static const char *patience(const struct check_case *which) {
    return strcmp(which->name, "strategy.beside") == 0 ? "2s" : "20s";
}

static void run_case(const struct plan *plan, const struct check_case *which,
                     struct totals *totals) {
    struct run run = {.plan = plan, .which = which};
    totals->cases++;
    vram_option_set("wait_timeout", patience(which));
    if (strcmp(plan->backend, "sim") == 0) {
        note_calls(&run);
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        run.mode = &modes[i];
        bool possible = run.mode->source != DRIVER || strcmp(plan->backend, "sim") == 0;
        if (possible && wanted(plan->source, source_names[run.mode->source]) &&
            wanted(plan->mode, run.mode->name)) {
            run_mode(&run, totals);
        }
    }
}

static void report(const struct plan *plan, const struct totals *totals) {
    struct json_out json;
    if (!plan->json) {
        printf("%s: %" PRIu64 " cases, %" PRIu64 " runs, %" PRIu64 " faults injected\n",
               plan->backend, totals->cases, totals->runs, totals->faults);
        printf("%" PRIu64 " failures, %" PRIu64 " leaks\n", totals->failures, totals->leaks);
        return;
    }
    json_begin(&json, stdout);
    json_object_begin(&json, NULL);
    json_text(&json, "schema", "vram.faults/1");
    json_text(&json, "backend", plan->backend);
    json_text(&json, "sim", plan->sim);
    json_unsigned(&json, "cases", totals->cases);
    json_unsigned(&json, "runs", totals->runs);
    json_unsigned(&json, "faults_injected", totals->faults);
    json_object_begin(&json, "faults_by_source");
    for (int i = 0; i < SOURCE_COUNT; i++) {
        json_unsigned(&json, source_names[i], totals->by_source[i]);
    }
    json_object_end(&json);
    json_unsigned(&json, "failures", totals->failures);
    json_unsigned(&json, "leaks", totals->leaks);
    json_object_end(&json);
    json_end(&json);
}

static int usage(void) {
    fprintf(stderr, "usage: faults [--backend B] [--sim TEXT] [--filter TEXT] [--source "
                    "memory|system|driver] [--mode M] [--nth N] [--full] [--sparse] [--json]\n");
    return 2;
}

static bool parse(int count, char **words, struct plan *plan) {
    const struct {
        const char *flag;
        const char **place;
    } texts[] = {{"--backend", &plan->backend},
                 {"--sim", &plan->sim},
                 {"--filter", &plan->filter},
                 {"--source", &plan->source},
                 {"--mode", &plan->mode}};
    const struct {
        const char *flag;
        bool *place;
    } switches[] = {{"--json", &plan->json}, {"--full", &plan->full}, {"--sparse", &plan->sparse}};
    for (int i = 1; i < count; i++) {
        bool known = false;
        for (size_t s = 0; s < sizeof switches / sizeof switches[0] && !known; s++) {
            known = strcmp(words[i], switches[s].flag) == 0;
            *switches[s].place = *switches[s].place || known;
        }
        if (!known && i + 1 == count) {
            return false;
        }
        for (size_t t = 0; t < sizeof texts / sizeof texts[0] && !known; t++) {
            if (strcmp(words[i], texts[t].flag) == 0) {
                *texts[t].place = words[++i];
                known = true;
            }
        }
        if (!known && strcmp(words[i], "--nth") == 0) {
            plan->nth = strtoull(words[++i], NULL, 10);
            known = plan->nth > 0;
        }
        if (!known) {
            return false;
        }
    }
    return true;
}

int main(int count, char **words) {
    struct plan plan = {.backend = "sim", .sim = "devices=2,memory=1G,real=on"};
    struct totals totals = {0};
    if (!parse(count, words, &plan)) {
        return usage();
    }
    signal(SIGALRM, on_alarm);
    const struct check_case *which;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        if (!plan.filter || strstr(which->name, plan.filter)) {
            run_case(&plan, which, &totals);
        }
    }
    report(&plan, &totals);
    if (totals.cases == 0) {
        fprintf(stderr, "faults: no case matches\n");
        return 2;
    }
    return totals.failures || totals.leaks ? 1 : 0;
}
