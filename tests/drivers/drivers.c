/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drivers.c: what a backend does about its driver, through the public calls, by one table a driver.
 *
 *     drivers NAME [--engine E] [--only TEXT] [--shim PATH] [--jobs N] [--verbose]
 *
 * One program (driver_program.c) uses all of a device. The engines run it over and over:
 *   codes    each entry point fails with every documented code and three others: "entry x code"
 *   calls    the first, second, third ... call of any entry point fails, once and for ever
 *   lies     a call succeeds and has made nothing
 *   missing  the driver lacks one symbol after the other
 *   memory   host memory runs out at every place in its turn: an allocation, pages of records, a
 *            call of the system
 *   answers  drivers that are not the usual one: absent with a reason, or what the device can do
 *
 * Whatever fails, the program is told by a status that the table says, and by a record that names
 * the call and its code; outputs are untouched; what was given back once more is gone; nothing is
 * left, neither in the library nor in the driver; the driver's rules are kept; and afterwards the
 * program succeeds in the same process.
 *
 * --shim is a shim in front of a real driver, which answers in its place, so that nothing on the
 * machine is harmed (bench/h200.sh faults). Each row runs in a process of its own, JOBS at a time.
 *
 * Exit code 0 when all went well, 1 when something did not, 2 for misuse.
 */
#include "driver_runs.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROW_SECONDS = 240, /* a process that takes longer waits for ever */
    LATE_MS = 2000,    /* a driver's own threads may hold what they let go of soon */
    JOBS_MAX = 64
};

const struct driver *driver;
bool shim;
static bool verbose;
static const char *only;

/* ---------------------------------------------------------------- judgement */

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

bool complain(const struct run *run, const char *what) {
    const struct fault *fault = &run->fault;
    printf("%s, %s: call %llu of %s%s%s answers %d%s: %s: %s\n", driver->name,
           driver->manners[fault->manner], (unsigned long long)fault->nth, fault->call,
           run->last && !same(run->last, fault->call) ? ", which is " : "",
           run->last && !same(run->last, fault->call) ? run->last : "", fault->code,
           fault->for_ever ? " for ever" : "", run->program.step ? run->program.step : "no step",
           what);
    if (run->program.step) {
        printf("    %s by %s (%lld): %s\n", vram_status_name(run->program.status),
               run->program.error.operation ? run->program.error.operation : "nobody",
               (long long)run->program.error.native_code, run->program.error.text);
    }
    fflush(stdout); /* what comes next may crash */
    return false;
}

static const struct driver_entry *entry_find(const char *name) {
    static const struct driver_entry none = {"", "", "", NULL, NULL, 0, NULL};
    for (unsigned i = 0; i < driver->entry_count; i++) {
        if (same(driver->entries[i].name, name)) {
            return &driver->entries[i];
        }
    }
    return &none;
}

static bool fits(const char *name, const char *pattern) {
    const char *star = strchr(pattern, '*');
    return star ? strncmp(name, pattern, (size_t)(star - pattern)) == 0 : same(name, pattern);
}

static vram_status status_of(int code) {
    const struct code_row *row = driver->statuses;
    while (code < row->first || code > row->last) {
        row++;
    }
    return row->status;
}

/* By the name of the CUDA entry that it stands in for, too. */
const struct excuse *excuse_find(const char *entry, int code) {
    const char *twin = entry_find(entry)->twin;
    for (unsigned i = 0; i < driver->excuse_count; i++) {
        const struct excuse *excuse = &driver->excuses[i];
        if ((fits(entry, excuse->entry) || (twin && fits(twin, excuse->entry))) &&
            (excuse->code == ANY_CODE || excuse->code == code ||
             (excuse->code == ANY_UNSUPPORTED && status_of(code) == VRAM_ERR_UNSUPPORTED))) {
            return excuse;
        }
    }
    return NULL;
}

/* Without a status: an answer, another way, a trial, or a call that has nobody to tell. */
static bool may_pass(const struct run *run) {
    const struct excuse *excuse = excuse_find(run->last, run->fault.code);
    return (excuse && (excuse->status == VRAM_OK || excuse->how & OR_PASS)) || run->forgiven ||
           (driver->tries && run->at_open);
}

/* Deep in the program a call may be another's that can do without it, and where all calls fail the
   first is not the one that is told. What is told is right by its own record. */
static bool judge_record(const struct run *run) {
    const struct program *program = &run->program;
    const vram_error *error = &program->error;
    vram_status told = status_of(run->fault.code);
    if (!program->step || program->status == told || same(program->step, "absent")) {
        return !program->step || error->text[0] || same(program->step, "lost") ||
               complain(run, "no word of it");
    }
    const char *calls[] = {run->last, NULL};
    for (unsigned i = 0; i < driver->entry_count && !calls[1]; i++) {
        bool named = same(driver->entries[i].name, error->operation) ||
                     same(driver->entries[i].symbol, error->operation);
        calls[1] = named ? driver->entries[i].name : NULL;
    }
    for (int i = 0; i < 2; i++) {
        const struct excuse *excuse = calls[i] ? excuse_find(calls[i], run->fault.code) : NULL;
        bool another = excuse && excuse->how & OR_PASS && error->native_code == 0;
        if (error->text[0] && (another || (excuse && excuse->status == program->status))) {
            return true;
        }
    }
    for (unsigned i = 0; i < driver->excuse_count; i++) {
        if (run->fault.for_ever && error->native_code == 0 && error->text[0] &&
            driver->excuses[i].status == program->status) {
            return true; /* the driver gives nothing, and no code */
        }
    }
    return (driver->tries && run->at_open) || complain(run, "the status is of no such failure");
}

static bool judge_status(const struct run *run) {
    const struct program *program = &run->program;
    const vram_error *error = &program->error;
    const struct excuse *excuse = excuse_find(run->last, run->fault.code);
    vram_status told = status_of(run->fault.code);
    char text[96];
    if (program->step && same(program->step, "broken")) {
        return complain(run, "no failure excuses that");
    }
    if (run->fault.anywhere) {
        return judge_record(run);
    }
    if (!program->step) {
        return may_pass(run) || complain(run, "nobody was told");
    }
    if (same(program->step, "lost")) {
        return told == VRAM_ERR_DEVICE_LOST || complain(run, "it must not be lost");
    }
    if (!error->text[0]) {
        return complain(run, "no word of it");
    }
    if (same(program->step, "absent")) {
        return strstr(error->text, run->last) || excuse || complain(run, "the reason is another");
    }
    if (driver->tries && run->at_open && same(error->operation, "device_open")) {
        return true; /* what was tried is not there, and then nothing else is */
    }
    if (may_pass(run) && program->status == told) {
        return true; /* not by that call, but by the next one */
    }
    vram_status expected = excuse && excuse->status != VRAM_OK ? excuse->status : told;
    bool usual = excuse && excuse->how & OR_USUAL && program->status == told;
    if (program->status != expected && !usual) {
        snprintf(text, sizeof text, "it must be %s", vram_status_name(expected));
        return complain(run, text);
    }
    bool named = (starts(run->last, error->operation) ||
                  same(entry_find(run->last)->symbol, error->operation)) &&
                 error->native_code == run->fault.code;
    return (same(error->backend, driver->name) && (named || (excuse && excuse->how & UNNAMED))) ||
           complain(run, "the record is another's");
}

bool nothing_left(const struct run *run, uint64_t blocks, uint64_t live) {
    char text[96];
    const char *last = run->last ? run->last : "";
    bool lost = run->program.status == VRAM_ERR_DEVICE_LOST ||
                run->program.status == VRAM_ERR_SHUTDOWN ||
                (run->struck && (status_of(run->fault.code) == VRAM_ERR_DEVICE_LOST ||
                                 status_of(run->fault.code) == VRAM_ERR_SHUTDOWN));
    const struct excuse *excuse = run->struck ? excuse_find(last, run->fault.code) : NULL;
    bool ended = excuse && (strstr(last, "Destroy") || strstr(last, "Release") ||
                            strstr(last, "Free") || strstr(last, "Unmap"));
    bool kept = lost || ended || run->forgiven || run->fault.lie ||
                (driver->tries && run->at_open) || (run->struck && run->fault.for_ever);
    for (int i = 0; i < LATE_MS; i++) {
        if (vr_mem_live_blocks() <= blocks && (kept || driver->live() <= live)) {
            return true;
        }
        usleep(1000);
    }
    snprintf(text, sizeof text, "%lld blocks and %lld objects of the driver are left%s%s",
             (long long)(vr_mem_live_blocks() - blocks), (long long)(driver->live() - live),
             *last ? " by " : "", last);
    return complain(run, text);
}

bool judge(const struct run *run, uint64_t blocks, uint64_t live) {
    const char *wrong = driver->wrong(run->last ? run->last : "", run->fault.for_ever);
    return (!run->struck || shim || judge_status(run)) && nothing_left(run, blocks, live) &&
           (!wrong || complain(run, wrong));
}

/* --------------------------------------------------------------------- runs */

static void plan(const struct fault *fault) {
    driver->plan(fault->call, fault->nth, fault->code, fault->lie, fault->for_ever);
}

struct run run_with(const struct fault *fault) {
    struct run run = {.fault = *fault};
    driver->reset(fault->manner);
    if (fault->hidden) {
        driver->hide(fault->hidden);
    }
    if (!fault->when_open) {
        plan(fault);
    }
    bool open = program_open(&run.program, driver);
    run.at_open = driver->struck() > 0;
    if (open && fault->when_open) {
        plan(fault);
    }
    if (open) {
        program_work(&run.program);
    }
    uint64_t struck = driver->struck();
    program_end(&run.program);
    run.struck = driver->struck();
    run.forgiven = run.struck > struck;
    run.last = run.struck ? driver->last_call() : NULL;
    driver->plan(NULL, 0, 0, 0, false);
    return run;
}

int try_fault(const struct fault *fault) {
    uint64_t blocks = vr_mem_live_blocks(), live = driver->live();
    struct run run = run_with(fault);
    if (verbose && run.struck) {
        complain(&run, "as it was");
    }
    bool good = judge(&run, blocks, live);
    driver->reset(0);
    return !good ? -1 : run.struck > 0;
}

bool works(const char *after) {
    struct run run = run_with(&(struct fault){.call = "any", .nth = FAR});
    if (run.program.step) {
        printf("after %s: ", after);
        return complain(&run, "it worked before");
    }
    return true;
}

/* ------------------------------------------------------------------- parent */

static struct { unsigned matched, tried, failed, unreachable; } sum;

/* A row in a process of its own, which writes how much it tried. */
struct child {
    pid_t pid;
    int pipe;
    unsigned row;
};

/* A real driver takes half a second to make a device's context: one is kept meanwhile, and at the
   end there is none. */
static int run_kept(const struct engine *engine, unsigned row, unsigned *tried) {
    struct program kept;
    if (!program_open(&kept, driver)) {
        printf("before %s: %s\n", engine->row(row), kept.error.text);
        return 1;
    }
    int code = engine->run(row, tried);
    program_end(&kept);
    return code == 0 && !works(engine->row(row)) ? 1 : code;
}

static struct child start(const struct engine *engine, unsigned row) {
    int ends[2] = {-1, -1};
    struct child child = {.pid = -1, .row = row};
    fflush(NULL);
    if (pipe(ends) != 0 || (child.pid = fork()) != 0) {
        child.pipe = ends[0];
        close(ends[1]);
        return child;
    }
    unsigned tried = 0;
    alarm(ROW_SECONDS);
    const char *path = shim ? getenv("DRIVERS_SHIM") : driver->library;
    bool loaded = driver->load(path) && vram_option_set(driver->option, path) == VRAM_OK;
    int code = !loaded ? 2 : shim ? run_kept(engine, row, &tried) : engine->run(row, &tried);
    if (write(ends[1], &tried, sizeof tried) != sizeof tried) {
        code = 1;
    }
    fflush(NULL);
    _exit(code);
}

static void collect(const struct engine *engine, struct child *child) {
    unsigned tried = 0;
    int status = 0;
    bool told = read(child->pipe, &tried, sizeof tried) == sizeof tried;
    bool ended = waitpid(child->pid, &status, 0) == child->pid && WIFEXITED(status);
    int code = ended && told ? WEXITSTATUS(status) : 1;
    close(child->pipe);
    if (!ended) {
        printf("%s: ended by signal %d\n", engine->row(child->row), WTERMSIG(status));
    }
    sum.tried += code ? 0 : tried;
    sum.unreachable += code == NOT_HERE;
    sum.failed += code && code != NOT_HERE;
    if (code || shim) { /* who stops a run that takes too long sees how far it came */
        printf("%s %s: %s, %u so far\n", engine->name, engine->row(child->row),
               code == NOT_HERE ? "needs a second device"
               : code           ? "FAILED"
                                : "done",
               sum.tried);
        fflush(stdout);
    }
}

static void run_engine(const struct engine *engine, unsigned jobs) {
    struct child children[JOBS_MAX];
    unsigned running = 0, first = 0, before = sum.tried;
    for (unsigned row = 0; row < engine->rows(); row++) {
        if (only && !strstr(engine->row(row), only)) {
            continue;
        }
        if (running == jobs) {
            collect(engine, &children[first++ % jobs]);
            running--;
        }
        children[(first + running++) % jobs] = start(engine, row);
        sum.matched++;
    }
    for (; running; running--) {
        collect(engine, &children[first++ % jobs]);
    }
    printf("%s, %s: %u\n", driver->name, engine->sum, sum.tried - before);
}

static int usage(const char *why) {
    fprintf(stderr,
            "drivers: %s\nusage: drivers cuda|hip|opencl|vulkan|metal [--engine "
            "codes|calls|lies|missing|memory|answers] [--only TEXT]\n"
            "               [--shim PATH] [--jobs N] [--verbose]\n",
            why);
    return 2;
}

int main(int count, char **words) {
    static const struct driver *const drivers[] = {&driver_cuda, &driver_hip, &driver_opencl,
                                                   &driver_vulkan, &driver_metal};
    const char *engine = NULL;
    int jobs = 2;
    for (size_t i = 0; count > 1 && i < COUNT_OF(drivers); i++) {
        driver = same(drivers[i]->name, words[1]) ? drivers[i] : driver;
    }
    if (!driver) {
        return usage("which driver?");
    }
    for (int i = 2; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : NULL;
        bool takes = true;
        if (same(words[i], "--verbose")) {
            verbose = true;
            takes = false;
        } else if (same(words[i], "--engine")) {
            engine = value;
        } else if (same(words[i], "--only")) {
            only = value;
        } else if (same(words[i], "--shim") && value) {
            shim = setenv("DRIVERS_SHIM", value, 1) == 0;
        } else if (same(words[i], "--jobs")) {
            jobs = value ? atoi(value) : 0;
        } else {
            return usage(words[i]);
        }
        if (takes && !value) {
            return usage("a word is missing");
        }
        i += takes;
    }
    if (jobs < 1 || jobs > JOBS_MAX) {
        return usage("--jobs takes 1 to 64");
    }
    bool known = false;
    for (size_t i = 0; i < ENGINES; i++) {
        if (engine ? same(engine, engines[i].name) : !shim || i == 0) {
            known = true;
            run_engine(&engines[i], (unsigned)jobs);
        }
    }
    if (!known || !sum.matched) {
        return usage(known ? "nothing matches" : "there is no such engine");
    }
    if (sum.unreachable) {
        printf("%u rows need a second device\n", sum.unreachable);
    }
    return sum.failed ? 1 : 0;
}
