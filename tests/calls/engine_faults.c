/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_faults.c: every call below a row's call fails in turn: of the host's memory, of the
 * operating system, of the driver, and of a driver that reports success with an impossible result.
 *
 * After a failure everything that can be seen is as before (call_look.h), nothing accesses the
 * caller's memory any more, and the same call, made again, does all that it does without a fault. A
 * call that succeeds in spite of a fault has done the same.
 *
 * "variant fault nth" repeats a run.
 */
#include "calls/call_look.h"
#include "calls/calls.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "unit/fault_step.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NTH_MAX = 500, AFTER_BYTE = 0xEE };

static const struct fault {
    const char *name;
    enum { OF_MEMORY, OF_SYSTEM, OF_DRIVER } of;
    int32_t code; /* errno, or the driver's */
    vram_sim_lie lie;
    bool for_ever;
} faults[] = {
    {"no memory, once", OF_MEMORY, 0, 0, false},
    {"no memory, for ever", OF_MEMORY, 0, 0, true},
    {"system call fails, once", OF_SYSTEM, ENOMEM, 0, false},
    {"system call fails, for ever", OF_SYSTEM, EMFILE, 0, true},
    {"driver out of memory, once", OF_DRIVER, VRAM_SIM_OUT_OF_MEMORY, 0, false},
    {"driver out of memory, for ever", OF_DRIVER, VRAM_SIM_OUT_OF_MEMORY, 0, true},
    {"driver's unknown code, once", OF_DRIVER, 9999, 0, false},
    {"driver's unknown code, for ever", OF_DRIVER, 9999, 0, true},
    {"device lost", OF_DRIVER, VRAM_SIM_DEVICE_LOST, 0, false},
    {"lie: null", OF_DRIVER, 0, VRAM_SIM_LIE_NULL, false},
    {"lie: misaligned", OF_DRIVER, 0, VRAM_SIM_LIE_MISALIGNED, false},
    {"lie: overlap", OF_DRIVER, 0, VRAM_SIM_LIE_OVERLAP, false},
    {"lie: null, for ever", OF_DRIVER, 0, VRAM_SIM_LIE_NULL, true},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static unsigned char host[HOST_BYTES];
static struct world world = {.host = host};
static struct call_state before, after, whole;

/* The run that --again asks for. */
static struct {
    bool given;
    unsigned variant, fault, nth;
} again;

static vram_status whole_status; /* of the row's call without a fault */

/* What happens in a run. */
static struct {
    const struct row *row;
    const struct fault *fault; /* NULL: none is planned */
    uint64_t nth;
    bool struck, lost;
    bool repeated;     /* the call has failed, and is made again */
    vram_status first; /* of the call, the first time */
    vram_status last;
    char text[VRAM_ERROR_TEXT_MAX]; /* why it failed the first time */
    char wrong[400];                /* "": nothing is */
} run;

/* ------------------------------------------------------------------------- faults */

static uint64_t struck_so_far(void) {
    vram_sim_state state = {.size = sizeof state};
    bool sim = vram_sim_state_get(world.context, &state) == VRAM_OK;
    return vr_mem_failed() + vr_os_failed() + (sim ? state.faults : 0);
}

static void plan(const struct fault *fault) {
    vram_error error;
    vr_error_save(&error);
    if (!fault) {
        run.struck |= struck_so_far() > 0;
        vr_mem_fail_at(0, false);
        vr_os_fail_at(0, false, 0);
        vram_sim_fault_set(world.context, NULL);
    } else if (fault->of == OF_MEMORY) {
        vr_mem_fail_at(run.nth, fault->for_ever);
    } else if (fault->of == OF_SYSTEM) {
        vr_os_fail_at(run.nth, fault->for_ever, fault->code);
    } else {
        vram_sim_fault driver = {.size = sizeof driver,
                                 .nth = run.nth,
                                 .for_ever = fault->for_ever,
                                 .code = fault->code,
                                 .lie = fault->lie};
        vram_sim_fault_set(world.context, &driver);
    }
    vr_error_restore(&error);
}

/* Whether the driver refuses to undo what was done before. */
static bool loses(void) {
    return run.row->flags & ROW_LOSES &&
           (run.fault->of == OF_SYSTEM || (run.fault->of == OF_DRIVER && run.fault->for_ever));
}

static void wrong(const char *what, const char *more) {
    if (!*run.wrong) {
        snprintf(run.wrong, sizeof run.wrong, "%s: %s%s%s", run.fault->name, what, more ? ": " : "",
                 more ? more : "");
    }
}

/* ------------------------------------------------------------------- around a call */

static void on_begin(void) {
    if (!run.fault || run.struck || run.repeated) {
        return;
    }
    call_look(&world, true, &before);
    vram_error_clear();
    plan(run.fault);
}

/* Whether a byte of the block has come from the caller's memory after the call had failed. */
static bool has_late_byte(vram_addr block) {
    static unsigned char found[HOST_BYTES];
    vram_block_info info = {.size = sizeof info};
    uint64_t bytes = vram_block_info_get(block, &info) == VRAM_OK ? info.requested_bytes : 0;
    bytes = bytes < sizeof found ? bytes : sizeof found;
    return bytes && vram_queue_download(world.other, found, block, bytes) == VRAM_OK &&
           vram_queue_wait(world.other, VRAM_TIMEOUT_DEFAULT) == VRAM_OK &&
           memchr(found, AFTER_BYTE, bytes);
}

/* Nothing accesses the caller's memory once the call has failed. */
static void check_host_is_left_alone(void) {
    static unsigned char kept[HOST_BYTES];
    uint64_t bytes = world.host_bytes;
    memcpy(kept, host, bytes);
    memset(host, AFTER_BYTE, bytes);
    if (!run.lost) {
        world_drain(&world);
        if (has_late_byte(world.block) || has_late_byte(world.made.block)) {
            wrong("the caller's memory was read after the call had failed", NULL);
        }
    }
    if (host[0] != AFTER_BYTE || memcmp(host, host + 1, bytes - 1) != 0) {
        wrong("the caller's memory was written after the call had failed", NULL);
    }
    memcpy(host, kept, bytes);
}

/* Whether a part of the work may be there. */
static bool may_leave_part(void) {
    bool memory = run.fault->of == OF_MEMORY || run.fault->code == VRAM_SIM_OUT_OF_MEMORY;
    if (run.row->flags & ROW_WHOLE_ONCE && memory && !run.fault->for_ever) {
        return false;
    }
    return run.row->flags & ROW_PARTIAL ||
           (run.row->flags & ROW_UNDERWAY && run.fault->of == OF_DRIVER);
}

static void check_failure(vram_status status, const vram_error *error) {
    if (!run.struck) {
        wrong("it failed, although nothing below it did", NULL);
    } else if (error->status != status) {
        wrong("the record tells of another failure", NULL);
    } else if (run.row->flags & ROW_NEVER_FAILS) {
        wrong("a call that never fails did", NULL);
    } else if (!loses()) {
        check_host_is_left_alone();
        call_look(&world, !run.lost, &after);
        const char *difference = call_difference(&before, &after,
                                                 run.lost           ? "~#"
                                                 : may_leave_part() ? "~"
                                                                    : "");
        if (difference) {
            wrong("a call that failed has changed something", difference);
        }
    }
}

/* Also by a system call that the simulation of a device needs. */
static bool is_lost(void) {
    return run.fault->of == OF_SYSTEM &&
           vram_queue_wait(world.other, VRAM_TIMEOUT_DEFAULT) == VRAM_ERR_DEVICE_LOST;
}

static bool on_again(vram_status status) {
    run.last = status;
    if (!run.fault) {
        run.first = status;
        return false;
    }
    if (run.repeated) {
        if (status != whole_status) {
            wrong("made again, it fails", vram_error_get()->text);
        }
        return false;
    }
    vram_error error = *vram_error_get();
    plan(NULL);
    run.first = status;
    run.lost = run.struck && (run.fault->code == VRAM_SIM_DEVICE_LOST ||
                              status == VRAM_ERR_DEVICE_LOST || is_lost());
    memcpy(run.text, error.text, sizeof run.text);
    if (status == VRAM_OK || status == whole_status) {
        return false;
    }
    check_failure(status, &error);
    run.repeated = !run.lost && !loses() && !*run.wrong;
    return run.repeated;
}

static const struct call_hooks hooks = {on_begin, on_again, NULL};

/* -------------------------------------------------------------------------- runs */

static bool make(const struct row *row, uint32_t variant) {
    call_hooks = NULL;
    memset(&run, 0, sizeof run);
    run.row = row;
    world_make(&world, "sim", variant, pair_kinds(row, NULL), false);
    if (world.failed) {
        calls_finding(world.failed);
        world_end(&world, VRAM_OK, 0);
        return false;
    }
    world_drain(&world);
    world_fill_host(&world, row->flags);
    /* What pools and the objects above them hold they may keep for the next call. */
    world.looks_at_device =
        !(row->flags & (ROW_CACHES | ROW_WALKS)) && kind_is_of_device(row->kind);
    call_hooks = &hooks;
    return true;
}

static void end(void) {
    world.refused = run.fault && run.fault->of == OF_DRIVER && run.fault->for_ever;
    bool careless = run.lost || *run.wrong || (run.fault && run.fault->lie);
    bool driver = run.fault && run.fault->of == OF_DRIVER;
    bool logs = run.lost || (run.fault && run.fault->of == OF_SYSTEM) ||
                (driver && (run.fault->lie || run.fault->for_ever ||
                            run.row->flags & (ROW_LOGS | ROW_NEVER_FAILS)));
    call_hooks = NULL;
    const char *text = careless ? world_drop(&world) : world_end(&world, run.last, run.row->flags);
    text = *run.wrong ? run.wrong : text ? text : logs ? NULL : calls_logged();
    calls_count.runs++;
    if (text) {
        calls_finding(text);
        printf("  call %s %s\n", vram_status_name(run.first), run.text);
    }
}

/* What the row's call does without a fault. */
static bool run_whole(const struct row *row, uint32_t variant) {
    calls_now(row, NULL, "%u 0 0", variant);
    if (!make(row, variant)) {
        return false;
    }
    vram_status status = row->fn(&world);
    bool here = status != VRAM_ERR_UNSUPPORTED;
    whole_status = run.first;
    call_hooks = NULL;
    call_look(&world, true, &whole);
    end();
    return here;
}

/* Whether the fault struck. */
static bool run_fault(const struct row *row, uint32_t variant, unsigned fault, uint64_t nth) {
    calls_now(row, NULL, "%u %u %llu", variant, fault, (unsigned long long)nth);
    if (!make(row, variant)) {
        return false;
    }
    run.fault = &faults[fault];
    run.nth = nth;
    vram_status result = row->fn(&world);
    plan(NULL);
    call_hooks = NULL;
    if (result == VRAM_ERR_CORRUPT && run.last != VRAM_ERR_CORRUPT && !run.lost) {
        wrong("what it has done is wrong", NULL);
    }
    if (!run.lost && !*run.wrong && !(run.fault->lie && run.first != VRAM_OK)) {
        call_look(&world, true, &after);
        bool partial = run.row->flags & ROW_PARTIAL && run.first != VRAM_OK;
        const char *difference = call_difference(&whole, &after, partial ? "@~" : "@");
        if (difference && !loses() && !(run.row->flags & ROW_CHOOSES)) {
            wrong("it has not done what it does without a fault", difference);
        }
    }
    end();
    return run.struck;
}

static void run_row(const struct row *row, uint32_t variant) {
    double began = calls_seconds();
    uint64_t runs = calls_count.runs;
    if (!run_whole(row, variant)) {
        calls_count.absent++;
        return;
    }
    uint64_t step = FAULT_STEP * (row->flags & ROW_WAITS ? 7 : 1);
    for (unsigned fault = 0; fault < FAULTS; fault++) {
        uint64_t nth = 1 + fault % step;
        while (nth < NTH_MAX && run_fault(row, variant, fault, nth)) {
            nth += step * (1 + nth / 32); /* the hundredth is much like the one before it */
        }
    }
    if (calls_options.verbose) {
        printf("%s %s: %llu runs, %.0f ms\n", row->call, row->as,
               (unsigned long long)(calls_count.runs - runs), (calls_seconds() - began) * 1000);
    }
}

/* ------------------------------------------------------------------------- engine */

static bool is_tried(const struct row *row) {
    return row_is_wanted(row) && !(row->flags & (ROW_UNTIL_END | ROW_SLOW));
}

static bool faults_prepare(const char *text) {
    char rest;
    for (const struct row *row = calls_rows; row; row = row->next) {
        calls_count.rows += is_tried(row);
    }
    again.given =
        text && sscanf(text, "%u %u %u%c", &again.variant, &again.fault, &again.nth, &rest) == 3;
    return !text || (again.given && again.fault < FAULTS);
}

static void faults_list(void) {
    for (const struct row *row = calls_rows; row; row = row->next) {
        if (is_tried(row)) {
            printf("%s %s\n", row->call, row->as);
        }
    }
}

/* Each row in a variant of its own; with time, in the others, too. */
static void faults_run(void) {
    double until = calls_seconds() + calls_options.seconds;
    for (uint64_t round = 0; round == 0 || (round < VARIANTS && calls_seconds() < until); round++) {
        uint64_t index = 0;
        for (const struct row *row = calls_rows; row; row = row->next) {
            if (!is_tried(row) || index++ % calls_options.shares != calls_options.share - 1) {
                continue;
            }
            if (again.given) {
                run_whole(row, again.variant);
                run_fault(row, again.variant, again.fault, again.nth);
            } else {
                uint32_t variant = (uint32_t)(calls_mix(calls_options.seed + index) % VARIANTS);
                uint32_t count = row->kind == KIND_BUFFER || row->kind == KIND_MAPPED ? BUFFERS : 1;
                for (uint32_t i = 0; i < count; i++) { /* each kind of buffer */
                    run_row(row, (uint32_t)(variant + round + i * POOLS) % VARIANTS);
                }
            }
        }
    }
}

const struct engine engine_faults = {"faults", "every call below a row's fails in turn",
                                     faults_prepare, faults_list, faults_run};
