/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_modes.c: every row in every state that a pool, a device or a process can be in when the
 * call comes: the pool asleep or sealed, the queue one of a captured region, the device full or
 * lost, the process a child of a fork, or exiting. What a row does before and after its call runs
 * in the usual state, but for a process that exits.
 *
 * Each state has statuses that only it causes; a call that fails in it has changed nothing that can
 * be seen (call_look.h). A child of a fork does its parent no harm: there everything is as before,
 * and the call does what it always does. Each state runs in a process of its own.
 *
 * "variant mode" repeats a run.
 */
#include "calls/call_look.h"
#include "calls/calls.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char host[HOST_BYTES];
static struct world world = {.host = host};
static struct call_state before, after;

/* ------------------------------------------------------------------------- modes */

enum { FILLERS = 64 };
static vram_addr fillers[FILLERS];
static unsigned filler_count;

static vram_status sleep_begins(void) {
    vram_sleep_options options = {.size = sizeof options, .contents = VRAM_SLEEP_HOST};
    return vram_pool_sleep(world.pool, &options);
}

static void sleep_ends(void) {
    vram_pool_wake(world.pool, NULL);
}

static vram_status seal_begins(void) {
    return vram_pool_seal(world.pool, NULL);
}

static void seal_ends(void) {
    vram_pool_unseal(world.pool, NULL);
}

static struct {
    vram_queue *usual, *adopted, *captured;
    int native;
} region;

static vram_status region_begins(void) {
    void *native = strcmp(world.backend, "cuda") == 0 ? NULL : &region.native;
    region.usual = world.queue;
    vram_status status = vram_queue_adopt(world.device, native, &region.adopted);
    if (status == VRAM_OK) {
        status = vram_capture_begin(region.adopted, &region.captured);
        world.queue = status == VRAM_OK ? region.captured : world.queue;
    }
    return status;
}

static void region_ends(void) {
    world.queue = region.usual;
    vram_capture_end(region.captured);
    vram_queue_end(region.adopted);
}

static vram_status fill_begins(void) {
    uint64_t bytes = 32 << 20;
    for (filler_count = 0; bytes >= 4096 && filler_count < FILLERS;) {
        if (vram_device_alloc(world.device, bytes, VRAM_MEMORY_DEVICE, &fillers[filler_count])) {
            bytes /= 2;
        } else {
            filler_count++;
        }
    }
    return VRAM_OK;
}

static void fill_ends(void) {
    while (filler_count) {
        vram_device_free(world.device, fillers[--filler_count]);
    }
}

static vram_status loss_begins(void) {
    vram_sim_fault fault = {
        .size = sizeof fault, .nth = 1, .for_ever = true, .code = VRAM_SIM_DEVICE_LOST};
    vram_status status = vram_sim_fault_set(world.context, &fault);
    if (status == VRAM_OK) {
        vram_queue_fill(world.other, world.block, SOURCE_BYTE, 1, 64);
        vram_queue_wait(world.other, VRAM_TIMEOUT_DEFAULT);
    }
    return status;
}

static void loss_ends(void) {
    vram_sim_fault_set(world.context, NULL);
}

static const struct mode {
    const char *name;
    vram_status (*begin)(void);
    void (*end)(void);
    bool lost, forked, exiting;
} modes[] = {{"asleep", sleep_begins, sleep_ends, false, false, false},
             {"sealed", seal_begins, seal_ends, false, false, false},
             {"captured", region_begins, region_ends, false, false, false},
             {"full", fill_begins, fill_ends, false, false, false},
             {"lost", loss_begins, loss_ends, true, false, false},
             {"forked", NULL, NULL, false, true, false},
             {"exiting", NULL, NULL, false, false, true}};
enum { MODES = sizeof modes / sizeof *modes };

/* What is running. */
static struct {
    const struct row *row;
    const struct mode *mode;
    bool began, over, child;
    vram_status status, whole; /* of the call, in the mode and without one */
    char found[700];
} run;

static void wrong(const char *what, const char *more) {
    if (!*run.found) {
        snprintf(run.found, sizeof run.found, "%s: %s%s%s", run.mode ? run.mode->name : "no mode",
                 what, more ? ": " : "", more ? more : "");
    }
}

/* ------------------------------------------------------------------ around a call */

/* In the child the call follows; the parent waits for it, and finds everything as before. */
static void fork_begins(void) {
    int status = 0;
    char text[40];
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run.child = true;
        alarm(RUN_SECONDS);
        return;
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        snprintf(text, sizeof text, "wait status 0x%x", (unsigned)status);
        wrong("the child found something or died", text);
    }
    call_look(&world, true, &after);
    const char *difference = call_difference(&before, &after, "");
    if (difference) {
        wrong("a child changed something of its parent's", difference);
    }
}

/* What arrives by itself has arrived. */
static void look_until_still(void) {
    for (int i = 0; i < 1000; i++) {
        call_look(&world, true, &before);
        call_look(&world, true, &after);
        if (i && !call_difference(&before, &after, "")) {
            break;
        }
        usleep(1000);
    }
}

static void on_begin(void) {
    if (run.began || !run.mode) {
        return;
    }
    run.began = true;
    if (run.mode->forked) {
        look_until_still();
        fork_begins();
    } else if (run.mode->exiting) {
        memset(world.host, FRESH_BYTE, COPY_BYTES);
    } else if (run.mode->begin() != VRAM_OK) {
        run.over = true; /* there is no such state here */
    } else {
        call_look(&world, false, &before);
    }
    vram_error_clear();
}

static bool is_of_mode(vram_status status) {
    switch (status) {
    case VRAM_ERR_CORRUPT:
    case VRAM_ERR_BACKEND:
        return false;
    case VRAM_ERR_DEVICE_LOST:
        return run.mode->lost;
    case VRAM_ERR_FORKED:
        return run.child;
    case VRAM_ERR_SHUTDOWN:
        return run.mode->exiting;
    default:
        return strcmp(vram_status_name(status), "VRAM_ERR_UNKNOWN") != 0;
    }
}

/* A limit below what is held is told, and in force: limits.h. A share whose memory stays mapped is
   closed: share.h. */
static bool is_done_all_the_same(void) {
    return strcmp(run.row->call, "vram_pool_limits_set") == 0 ||
           (strcmp(run.row->call, "vram_share_close") == 0 && run.status == VRAM_ERR_CAPTURE);
}

static void judge(vram_status status) {
    const vram_error *error = vram_error_get();
    vram_status expected = status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
    if (error->status != expected) {
        wrong("the record does not tell of this status", vram_status_name(status));
    } else if (!is_of_mode(status)) {
        wrong("it answers what this state does not cause", error->text);
    } else if (status != VRAM_OK && status != run.whole && !run.child && !is_done_all_the_same()) {
        call_look(&world, false, &after);
        const char *difference = call_difference(&before, &after, run.mode->lost ? "~#@" : "~@");
        if (difference) {
            wrong("a call that failed has changed something", difference);
        }
    }
}

/* Either it fails for this reason, or it has nothing to do with a driver, or ends an object: whose
   memory the system takes. A copy that succeeds has copied. */
static void judge_at_exit(vram_status status) {
    const vram_error *error = vram_error_get();
    bool copied = memchr(world.host, FRESH_BYTE, COPY_BYTES) == NULL;
    if (status != VRAM_OK && error->status != status) {
        wrong("the record does not tell of this status", vram_status_name(status));
    } else if (status != VRAM_OK && status != run.whole && status != VRAM_ERR_SHUTDOWN) {
        wrong("it answers what an exit does not cause", error->text);
    } else if (status == VRAM_OK && run.row->flags & ROW_DOWNLOAD && !copied) {
        wrong("a copy says that it is done", "nothing was copied");
    }
}

static bool on_again(vram_status status) {
    if (!run.mode) {
        run.whole = status;
        return false;
    }
    if (run.over) {
        return false;
    }
    run.over = true;
    run.status = status;
    calls_count.runs++;
    if (run.mode->forked && !run.child) {
        if (status != run.whole) {
            wrong("after a fork the call fails", vram_error_get()->text);
        }
        return false;
    }
    if (run.mode->exiting) {
        judge_at_exit(status);
    } else {
        judge(status);
    }
    if (run.child || run.mode->exiting) {
        if (*run.found) {
            calls_finding(run.found);
            fflush(stdout);
        }
        _exit(*run.found ? 1 : 0);
    }
    run.mode->end();
    return false;
}

static const struct call_hooks hooks = {on_begin, on_again, NULL};

/* -------------------------------------------------------------------------- runs */

/* The world that the run needs; false: it cannot be made here. */
static bool prepare(const struct row *row, const struct mode *mode, uint32_t variant) {
    vram_status whole = run.whole;
    memset(&run, 0, sizeof run);
    run.row = row;
    run.mode = mode;
    run.whole = whole;
    calls_now(row, NULL, "%u %u", variant, mode ? (unsigned)(mode - modes) : 0);
    call_hooks = NULL;
    world_make(&world, calls_options.backend, variant, pair_kinds(row, NULL), false);
    if (world.failed) {
        world_end(&world, VRAM_OK, 0);
        return false;
    }
    world_drain(&world);
    world_fill_host(&world, row->flags);
    return true;
}

static bool run_once(const struct row *row, const struct mode *mode, uint32_t variant) {
    if (!prepare(row, mode, variant)) {
        return false;
    }
    call_hooks = &hooks;
    (void)row->fn(&world);
    call_hooks = NULL;
    vram_pool_wake(world.pool, NULL); /* the row may have ended in another state than it began */
    vram_pool_unseal(world.pool, NULL);
    bool lost = mode && mode->lost;
    world.refused = lost;
    const char *text = lost ? world_drop(&world) : world_end(&world, run.status, 0);
    text = *run.found ? run.found : text ? text : lost ? NULL : calls_logged();
    if (text) {
        calls_finding(text);
        printf("  in the state %s: %s\n", mode ? mode->name : "of always",
               vram_status_name(run.status));
    }
    return !text;
}

/* Runs after the library's handler, which was registered later: the process is exiting. */
static void at_exit(void) {
    if (run.mode) {
        call_hooks = &hooks;
        (void)run.row->fn(&world);
        _exit(0); /* before its call came, it needed another */
    }
}

enum { NOT_HERE = 2 }; /* exit code of a process in which nothing ran */

/* A process that exits, with the row as what it does last. */
static void run_exiting(const struct row *row, const struct mode *mode, uint32_t variant) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(RUN_SECONDS);
        atexit(at_exit);
        calls_count.findings = 0;
        if (run_once(row, NULL, variant) && run.whole != VRAM_ERR_UNSUPPORTED &&
            prepare(row, mode, variant)) {
            exit(0);
        }
        _exit(calls_count.findings ? 1 : NOT_HERE);
    }
    waitpid(child, &status, 0);
    calls_now(row, NULL, "%u %u", variant, (unsigned)(mode - modes));
    calls_count.runs += !WIFEXITED(status) || WEXITSTATUS(status) != NOT_HERE;
    if (WIFSIGNALED(status)) {
        calls_finding("a process that exits does not end, or dies");
    }
    calls_count.findings += WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static bool is_tried(const struct row *row) {
    return row_is_wanted(row) && !(row->flags & (ROW_UNTIL_END | ROW_SLOW | ROW_WAITS));
}

static struct {
    bool given;
    unsigned variant, mode;
} again;

static bool modes_prepare(const char *text) {
    char rest;
    for (const struct row *row = calls_rows; row; row = row->next) {
        calls_count.rows += is_tried(row);
    }
    again.given = text && sscanf(text, "%u %u%c", &again.variant, &again.mode, &rest) == 2 &&
                  again.mode < MODES;
    return !text || again.given;
}

static void modes_list(void) {
    for (const struct row *row = calls_rows; row; row = row->next) {
        if (is_tried(row)) {
            printf("%s %s\n", row->call, row->as);
        }
    }
}

static void run_row(const struct row *row, const struct mode *mode, uint32_t variant) {
    if (mode->exiting) {
        run_exiting(row, mode, variant);
    } else if (run_once(row, NULL, variant) && run.whole != VRAM_ERR_UNSUPPORTED) {
        run_once(row, mode, variant);
    }
}

static void run_mode(const struct mode *mode) {
    uint64_t index = 0;
    if (mode->lost && strcmp(calls_options.backend, "sim") != 0) {
        return;
    }
    for (const struct row *row = calls_rows; row; row = row->next) {
        uint32_t variant = (uint32_t)(calls_mix(calls_options.seed + index++) % VARIANTS);
        if (is_tried(row)) {
            run_row(row, mode, variant);
        }
    }
}

/* A mode in a process of its own: what it does to the process ends with it. False: the backend has
   no such state. */
static bool run_alone(const struct mode *mode) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        calls_count.findings = 0;
        run_mode(mode);
        printf("%s: %llu runs, %u findings\n", mode->name, (unsigned long long)calls_count.runs,
               calls_count.findings);
        fflush(stdout);
        _exit(calls_count.findings ? 1 : calls_count.runs ? 0 : NOT_HERE);
    }
    waitpid(child, &status, 0);
    bool ran = !WIFEXITED(status) || WEXITSTATUS(status) != NOT_HERE;
    calls_count.findings += ran && status;
    return ran;
}

static void modes_run(void) {
    if (again.given) {
        for (const struct row *row = calls_rows; row; row = row->next) {
            if (is_tried(row)) {
                run_row(row, &modes[again.mode], again.variant);
            }
        }
        return;
    }
    unsigned ran = 0;
    for (unsigned i = 0; i < MODES; i++) {
        if (i % calls_options.shares == calls_options.share - 1) {
            ran += run_alone(&modes[i]);
        }
    }
    if (!ran) {
        printf("modes: nothing ran: %s\n", world.failed ? world.failed : calls_options.backend);
        calls_count.findings++;
    }
}

const struct engine engine_modes = {"modes", "every row in every state of pool, device and process",
                                    modes_prepare, modes_list, modes_run};
